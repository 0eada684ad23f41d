//! The operands A and B as kernels see them: the dense direction, the vector width of reads, and the kernel that is
//! specialised for them.

use polaris_runtime::{Device, DeviceKind};

use super::launch::Product;
use super::program::Body;
use super::{Kernel, SKINNY, Skinny, TileCopy, blocks};
use crate::Array;
use crate::matmul::geometry::{A, B, Geometry, Matrix};
use crate::opencl::work_group;

/// What a launch of the main kernel works on: the two factors as it sees them.
pub(super) struct Factors<'a> {
    /// Lines of the first and second factor.
    pub sizes: [usize; 2],
    pub arrays: [&'a Array; 2],
    pub directions: [Direction; 2],
    /// Whether the second factor of the problem is the first one here.
    pub swapped: bool,
}

/// How a matrix of lines along m or n lies in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Direction {
    /// Whether neighbours in memory are neighbours in k.
    pub along_k: bool,
    /// From one line to the next where it lies along k, otherwise from one k to the next.
    pub stride: usize,
}

impl Direction {
    /// For a matrix of rows and columns; along the columns is along k.
    pub fn of(matrix: Matrix, rows: usize, columns: usize) -> Option<Self> {
        // The stride between lines of which there is one may be anything; nothing is aligned best.
        if matrix.columns == 1 || columns <= 1 {
            Some(Self { along_k: true, stride: if rows > 1 { matrix.rows } else { 0 } })
        } else if matrix.rows == 1 || rows <= 1 {
            Some(Self { along_k: false, stride: matrix.columns })
        } else {
            None
        }
    }

    /// From one line to the next, and from one k to the next.
    pub fn strides(&self) -> [usize; 2] {
        if self.along_k { [self.stride, 1] } else { [1, self.stride] }
    }

    /// Whether elements can be read `width` at a time: everything is a multiple of it.
    fn reads(
        &self,
        array: &Array,
        lines: usize,
        k: usize,
        batches: &[usize],
        width: usize,
    ) -> bool {
        let dense = if self.along_k { k } else { lines };
        [dense, self.stride, array.first_element()]
            .iter()
            .chain(batches)
            .all(|value| value.is_multiple_of(width))
    }
}

/// Whether the skinny kernel takes the rows of the second factor as its vectors.
fn is_swapped(m: usize, n: usize) -> bool {
    m > SKINNY || n < m
}

/// Vectors and lines of a product by the skinny kernel, and whether its matrix lies along k. None
/// if the matrix is dense in neither direction.
pub(super) fn skinny_problem(geometry: &Geometry) -> Option<([usize; 2], bool)> {
    let &Geometry { m, n, k, a, b, .. } = geometry;
    let (sizes, matrix) = if is_swapped(m, n) {
        ([n, m], Direction::of(a, m, k))
    } else {
        ([m, n], Direction::of(Matrix { rows: b.columns, columns: b.rows }, n, k))
    };
    Some((sizes, matrix?.along_k))
}

impl Product<'_> {
    /// The factors as the kernel sees them.
    pub fn factors(&self) -> Factors<'_> {
        let Geometry { m, n, k, a, b, .. } = self.geometry;
        let turned = Matrix { rows: b.columns, columns: b.rows };
        let a = Direction::of(a, m, k);
        let b = Direction::of(turned, n, k);
        let any = Direction { along_k: true, stride: 0 };
        let (a, b) = (a.unwrap_or(any), b.unwrap_or(any));
        let swapped = matches!(self.kernel, Kernel::Skinny(_)) && is_swapped(m, n);
        if swapped {
            let arrays = [self.parts.b, self.parts.a];
            Factors { sizes: [n, m], arrays, directions: [b, a], swapped }
        } else {
            let arrays = [self.parts.a, self.parts.b];
            Factors { sizes: [m, n], arrays, directions: [a, b], swapped }
        }
    }

    /// Whether a factor can be read so many elements at a time.
    fn reads(&self, factors: &Factors, which: usize, width: usize) -> bool {
        let operand = if (which == 0) == factors.swapped { B } else { A };
        factors.directions[which].reads(
            factors.arrays[which],
            factors.sizes[which],
            self.geometry.k,
            self.geometry.batches.strides(operand),
            width,
        )
    }

    /// The kernel, specialised for how the factors lie.
    pub fn body(&self, factors: &Factors) -> Body {
        let along_k = factors.directions.map(|direction| direction.along_k);
        let group = work_group(self.device) as u16;
        match self.kernel {
            Kernel::Tiled(tile) => {
                let fits = [0, 1].map(|which| {
                    let lines = [tile.m, tile.n][which];
                    tile.fetches(lines, along_k[which], 4)
                });
                let aligned = [0, 1].map(|which| fits[which] && self.reads(factors, which, 4));
                // Processors read vectors from anywhere, unless a copy does it for them.
                let can_be_loose =
                    self.device.info().kind == DeviceKind::Cpu && tile.copy == TileCopy::Registers;
                let loose = [0, 1].map(|which| {
                    let is_dense = factors.arrays[which].is_dense();
                    can_be_loose && is_dense && fits[which] && !aligned[which]
                });
                let widths = [0, 1].map(|i| if aligned[i] || loose[i] { 4 } else { 1 });
                Body::Tiled { tile, along_k, widths, loose }
            }
            Kernel::Tensor(tensor) => {
                let width = 16 / self.parts.a.dtype().size();
                let widths = [0, 1]
                    .map(|which| if self.reads(factors, which, width) { width as u8 } else { 1 });
                Body::Tensor { tensor, along_k, widths }
            }
            Kernel::Skinny(skinny) => {
                let along_k = along_k[1];
                // Vectors are read in fours too where the matrix lies along k.
                let vectors =
                    !along_k || factors.directions[0].along_k && self.reads(factors, 0, 4);
                let width = if vectors && self.reads(factors, 1, 4) { 4 } else { 1 };
                let rows = factors.sizes[0].next_power_of_two() as u8;
                let Skinny { group, lanes, .. } = skinny.on(self.device.capabilities());
                Body::Skinny { rows, along_k, width, group, lanes }
            }
            Kernel::Blocks(skinny) => {
                let (k, batches) = (self.geometry.k, self.geometry.batches.elements());
                Body::Blocks(blocks::share(skinny, self.device, factors, k, batches))
            }
            Kernel::Simple => Body::Simple { group },
        }
    }
}
