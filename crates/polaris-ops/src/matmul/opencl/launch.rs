//! Launches of matmuls: batches, pieces, split-K.

use polaris_core::DType;
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Buffer, DeviceExt, Error as RuntimeError};

use super::Kernel;
use super::choose::{Choice, splits};
use super::factors::{Direction, Factors};
use super::operands::pass_index;
use super::program::{Body, Config};
use crate::matmul::geometry::{Geometry, Matrix, OUT};
use crate::matmul::problem::{MatMul, Parts};
use crate::opencl::Enqueue;
use crate::{Array, Result, copy};

/// Multiplications in one launch: about a second on the GPUs of ten years ago, which is what
/// display drivers put up with.
const MOST_PER_LAUNCH: usize = 1 << 41;

/// Some drivers count work-groups beyond the first dimension in 16 bits.
const MOST_BATCHES: usize = 65_535;

pub(super) fn run(
    op: &MatMul,
    device: &OpenClDevice,
    kernel: Kernel,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let mut parts = op.parts(inputs)?;
    let geometry = Geometry::new(op, &parts, output)?;
    // A matrix with gaps in both directions is copied first: kernels read along one of the two.
    let dense = |array: &Array, matrix: Matrix, rows: usize, columns: usize| -> Result<_> {
        let is_dense = Direction::of(matrix, rows, columns).is_some();
        if is_dense || kernel == Kernel::Simple {
            Ok(None)
        } else {
            copy::contiguous(array).map(Some)
        }
    };
    let a = dense(parts.a, geometry.a, geometry.m, geometry.k)?;
    let b = dense(parts.b, geometry.b, geometry.k, geometry.n)?;
    parts.a = a.as_ref().unwrap_or(parts.a);
    parts.b = b.as_ref().unwrap_or(parts.b);
    let geometry = Geometry::new(op, &parts, output)?;
    Product { op, device, kernel, parts, geometry, output }.run()
}

pub(super) struct Product<'a> {
    pub op: &'a MatMul,
    pub device: &'a OpenClDevice,
    pub kernel: Kernel,
    pub parts: Parts<'a>,
    pub geometry: Geometry,
    pub output: &'a Array,
}

/// A piece of the batch: some of the products, which lie on at most two axes.
pub(super) struct Piece {
    /// Where each operand of the first product on these axes begins.
    pub offsets: [usize; 5],
    /// The number on these axes of the piece's first product.
    pub first: usize,
    /// How many products there are in the piece.
    pub count: usize,
}

/// Where the results of the main kernel go.
pub(super) struct Target<'a> {
    pub buffer: &'a Buffer,
    pub matrix: Matrix,
    /// From one batch to the next, outer and inner.
    pub batches: [usize; 2],
    pub split_stride: usize,
    /// Whether results can be written in fours.
    pub vectors: bool,
}

impl Product<'_> {
    fn run(&self) -> Result<()> {
        let factors = self.factors();
        let Choice { splits, length } =
            splits(self.kernel, self.device, &factors, self.geometry.k, self.batches());
        let each = self.geometry.m * self.geometry.n;
        let parts = self.room_for_parts(splits)?;
        let Some(parts) = parts else {
            let matrix = self.geometry.out;
            let strides = self.batch_strides(OUT);
            let aligned = [self.geometry.n, matrix.rows, self.output.first_element()]
                .iter()
                .chain(&strides)
                .all(|value| value.is_multiple_of(4));
            let vectors = matrix.columns == 1 && (aligned || self.stores_loosely());
            let target = Target {
                buffer: self.output.buffer(),
                matrix,
                batches: strides,
                split_stride: 0,
                vectors,
            };
            let k = self.geometry.k;
            return self.pieces(1, |piece| self.multiply(&factors, &target, &piece, 1, k));
        };
        // The parts of a product are summed by a second kernel, in an order that is always the same.
        self.pieces(splits, |piece| {
            let target = Target {
                buffer: &parts,
                matrix: Matrix { rows: self.geometry.n, columns: 1 },
                batches: [self.inner_batches() * each, each],
                split_stride: piece.count * each,
                vectors: self.geometry.n.is_multiple_of(4) || self.stores_loosely(),
            };
            self.multiply(&factors, &target, &piece, splits, length)?;
            self.combine(&parts, &piece, splits)
        })
    }

    /// Whether results are stored one by one, in loops that become vectors of any alignment.
    fn stores_loosely(&self) -> bool {
        matches!(self.kernel, Kernel::Tiled(tile) if tile.vector > 4)
    }

    /// Memory for the partial results of split-K. Where there is none they are not split; nor are batches of so many
    /// that they come in several pieces.
    fn room_for_parts(&self, splits: usize) -> Result<Option<Buffer>> {
        let products: usize = self.geometry.batches.dims().iter().rev().take(2).product();
        if splits == 1 || products * splits > MOST_BATCHES {
            return Ok(None);
        }
        let dtype = if self.parts.a.dtype().is_float() { DType::F32 } else { DType::I32 };
        let elements = splits * products * self.geometry.m * self.geometry.n;
        match self.output.device().allocate(dtype, elements) {
            Ok(parts) => Ok(Some(parts)),
            Err(RuntimeError::OutOfMemory { .. } | RuntimeError::AllocationTooLarge { .. }) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Runs for pieces of the batch: one for each index of the axes beyond the last two, and no
    /// more products than a launch may have.
    fn pieces(&self, splits: usize, run: impl Fn(Piece) -> Result<()>) -> Result<()> {
        let dims = self.geometry.batches.dims();
        let last_two: usize = dims.iter().rev().take(2).product();
        let most = (MOST_BATCHES / splits).max(1);
        for start in (0..self.batches()).step_by(last_two.max(1)) {
            let offsets = self.geometry.batches.point(start);
            for first in (0..last_two).step_by(most) {
                run(Piece { offsets, first, count: most.min(last_two - first) })?;
            }
        }
        Ok(())
    }

    fn batches(&self) -> usize {
        self.geometry.batches.elements()
    }

    pub fn inner_batches(&self) -> usize {
        self.geometry.batches.inner().0
    }

    /// An operand's strides along the last two axes of the batch, outer first.
    pub fn batch_strides(&self, operand: usize) -> [usize; 2] {
        let mut from_end = self.geometry.batches.strides(operand).iter().rev().copied();
        let inner = from_end.next().unwrap_or(0);
        [from_end.next().unwrap_or(0), inner]
    }

    /// Enqueues the main kernel for a piece of the batch, in as many launches as it takes.
    fn multiply(
        &self,
        factors: &Factors,
        target: &Target,
        piece: &Piece,
        splits: usize,
        split_length: usize,
    ) -> Result<()> {
        let body = self.body(factors);
        let config = Config {
            body,
            a: factors.arrays[0].stored(),
            b: factors.arrays[1].stored(),
            output: target.buffer.dtype(),
            epilogue: self.epilogue().filter(|_| splits == 1),
            wide: self.is_wide(factors),
        };
        let source = || config.source(self.op.epilogue.activation);
        let kernel = self.device.kernel(config.key(), config.entry(), source)?;
        let [m, n] = factors.sizes;
        let (tiles, threads, tile_work) = match body {
            Body::Tiled { tile, .. } => {
                let tiles = m.div_ceil(usize::from(tile.m)) * n.div_ceil(usize::from(tile.n));
                (tiles, tile.threads(), usize::from(tile.m) * usize::from(tile.n))
            }
            Body::Tensor { tensor, .. } => {
                let tiles = m.div_ceil(usize::from(tensor.m)) * n.div_ceil(usize::from(tensor.n));
                (tiles, tensor.threads(), usize::from(tensor.m) * usize::from(tensor.n))
            }
            Body::Skinny { along_k, width, group, lanes, .. } => {
                let [group, lanes] = [group, lanes].map(usize::from);
                let lines = if along_k { group / lanes } else { lanes * usize::from(width) };
                (n.div_ceil(lines), group, m * lines)
            }
            Body::Blocks(share) => {
                let work = usize::from(share.columns) * share.lines();
                (share.groups(n, m), share.group.into(), work)
            }
            Body::Simple { group } | Body::Combine { group } => {
                ((m * n).div_ceil(usize::from(group)), usize::from(group), usize::from(group))
            }
        };
        let work = tile_work * split_length.max(1) * splits * piece.count;
        let at_once = (MOST_PER_LAUNCH / work.max(1)).clamp(1, tiles);
        for first_tile in (0..tiles).step_by(at_once) {
            let mut launch = self.device.launch(&kernel);
            launch = match body {
                Body::Tiled { .. } => launch.value(self.stagger(factors)),
                Body::Skinny { .. } => {
                    let step = factors.directions[0].strides()[1];
                    pass_index(launch.value(u32::from(factors.swapped)), step, config.wide)
                }
                Body::Simple { .. } => {
                    let columns = [self.geometry.a.columns, self.geometry.b.columns];
                    launch.value(columns[0] as u64).value(columns[1] as u64)
                }
                Body::Tensor { .. } | Body::Blocks(_) | Body::Combine { .. } => launch,
            };
            let counts = [m, n, self.geometry.k, first_tile, piece.first, splits, split_length];
            for count in counts {
                launch = launch.value(count as u32);
            }
            launch = self.pass_product(launch, &config, factors, target, piece, splits);
            if config.epilogue.is_some() {
                launch = self.pass_epilogue(launch, piece);
            }
            let tiles = at_once.min(tiles - first_tile);
            launch.enqueue(&[tiles * threads, splits * piece.count], &[threads, 1])?;
        }
        Ok(())
    }
}
