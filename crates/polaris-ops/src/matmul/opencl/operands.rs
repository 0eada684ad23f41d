//! The operands of a launch, in the order of the sources' parameters.

use polaris_runtime::Buffer;
use polaris_runtime::opencl::Launch;

use super::factors::Factors;
use super::launch::{Piece, Product, Target};
use super::program::{Body, Config, Finish};
use crate::format::Stored;
use crate::matmul::geometry::{A, B, C, Matrix, OUT, RESIDUAL};
use crate::matmul::problem::Bias;
use crate::opencl::{Enqueue, work_group};
use crate::{Array, Result};

/// Rows that are a multiple of this apart use the same memory channel on GPUs.
pub(crate) const CHANNEL_BYTES: usize = 4096;

// The bits of `HAS` in the source.
const HAS_C: u8 = 1;
const HAS_ROW_SCALES: u8 = 2;
const HAS_COLUMN_SCALES: u8 = 4;
const HAS_ROW_BIAS: u8 = 8;
const HAS_COLUMN_BIAS: u8 = 16;
const HAS_RESIDUAL: u8 = 32;
const HAS_SCALE: u8 = 64;

/// Passes an offset as the type that the program's indices have.
pub(super) fn pass_index(launch: Launch<'_>, value: usize, wide: bool) -> Launch<'_> {
    if wide { launch.value(value as u64) } else { launch.value(value as u32) }
}

impl Product<'_> {
    /// By how many steps along k neighbouring work-groups are apart.
    pub fn stagger(&self, factors: &Factors) -> u32 {
        let collides = (0..2).any(|which| {
            let bytes = factors.directions[which].stride * factors.arrays[which].dtype().size();
            bytes > 0 && bytes.is_multiple_of(CHANNEL_BYTES)
        });
        u32::from(collides)
    }

    /// Whether an offset within a matrix may exceed 32 bits.
    pub fn is_wide(&self, factors: &Factors) -> bool {
        (0..2).any(|which| {
            let direction = factors.directions[which];
            let (lines, k) = (factors.sizes[which], self.geometry.k);
            let (far, near) = if direction.along_k { (lines, k) } else { (k, lines) };
            far.saturating_mul(direction.stride).saturating_add(near) > u32::MAX as usize
        })
    }

    /// What follows the product, if anything does.
    pub fn epilogue(&self) -> Option<Finish> {
        let epilogue = &self.op.epilogue;
        if self.op.beta == 0.0 && epilogue.is_empty() {
            return None;
        }
        let flags = [
            (self.parts.c.is_some(), HAS_C),
            (epilogue.row_scales, HAS_ROW_SCALES),
            (epilogue.column_scales, HAS_COLUMN_SCALES),
            (epilogue.bias == Some(Bias::PerRow), HAS_ROW_BIAS),
            (epilogue.bias == Some(Bias::PerColumn), HAS_COLUMN_BIAS),
            (epilogue.residual, HAS_RESIDUAL),
            (epilogue.scale != 1.0, HAS_SCALE),
        ];
        let has = flags.iter().filter(|(is_there, _)| *is_there).fold(0, |all, (_, bit)| all | bit);
        Some(Finish { activation: epilogue.activation.name(), has })
    }

    /// Everything from the stride of splits on.
    pub fn pass_product<'l>(
        &self,
        launch: Launch<'l>,
        config: &Config,
        factors: &Factors,
        target: &Target,
        piece: &Piece,
        splits: usize,
    ) -> Launch<'l> {
        let launch = launch.value(target.split_stride as u64);
        let mut launch = self.pass_batches(launch, factors.swapped, target.batches);
        let strides = match config.body {
            Body::Simple { .. } => [self.geometry.a.rows, self.geometry.b.rows],
            // Vectors may lie across k.
            Body::Skinny { .. } => {
                [factors.directions[0].strides()[0], factors.directions[1].stride]
            }
            _ => factors.directions.map(|direction| direction.stride),
        };
        for stride in strides {
            launch = pass_index(launch, stride, config.wide);
        }
        let Matrix { rows, columns } = target.matrix;
        let out = if factors.swapped { [columns, rows] } else { [rows, columns] };
        let alpha = if splits == 1 { self.op.alpha as f32 } else { 1.0 };
        let launch = launch
            .value(out[0] as u64)
            .value(out[1] as u64)
            .value(u32::from(target.vectors))
            .value(alpha);
        let [first, second] = if factors.swapped { [B, A] } else { [A, B] };
        let at = if splits == 1 { piece.offsets[OUT] } else { 0 };
        launch
            .buffer(factors.arrays[0].buffer(), piece.offsets[first])
            .buffer(factors.arrays[1].buffer(), piece.offsets[second])
            .buffer(target.buffer, at)
    }

    fn pass_batches<'l>(
        &self,
        launch: Launch<'l>,
        swapped: bool,
        output: [usize; 2],
    ) -> Launch<'l> {
        let order = if swapped { [B, A, C, RESIDUAL] } else { [A, B, C, RESIDUAL] };
        let mut strides = [[0u64; 8]; 2];
        for level in 0..2 {
            strides[level][0] = output[level] as u64;
            for (place, &operand) in order.iter().enumerate() {
                strides[level][1 + place] = self.batch_strides(operand)[level] as u64;
            }
        }
        launch.value(self.inner_batches() as u32).value(strides[0]).value(strides[1])
    }

    pub fn pass_epilogue<'l>(&self, launch: Launch<'l>, piece: &Piece) -> Launch<'l> {
        let epilogue = &self.op.epilogue;
        let (low, high) = epilogue.activation.limits();
        let mut launch = launch;
        for factor in [self.op.beta, epilogue.scale, low, high] {
            launch = launch.value(factor as f32);
        }
        for Matrix { rows, columns } in [self.geometry.c, self.geometry.residual] {
            launch = launch.value(rows as u64).value(columns as u64);
        }
        let vectors = [self.parts.row_scales, self.parts.column_scales, self.parts.bias];
        let mut strides = [0u64; 8];
        for (stride, vector) in strides.iter_mut().zip(vectors) {
            *stride = vector.map_or(0, |vector| vector.layout().strides()[0] as u64);
        }
        // What is not there is not read, but a buffer must be passed.
        let pass = |launch: Launch<'l>, array: Option<&Array>, at: usize| match array {
            Some(array) => launch.buffer(array.buffer(), at),
            None => launch.buffer(self.output.buffer(), 0),
        };
        launch = pass(launch.value(strides), self.parts.c, piece.offsets[C]);
        for vector in vectors {
            launch = pass(launch, vector, vector.map_or(0, |vector| vector.layout().offset()));
        }
        pass(launch, self.parts.residual, piece.offsets[RESIDUAL])
    }

    /// Adds up the parts of split products and finishes them.
    pub fn combine(&self, sums: &Buffer, piece: &Piece, splits: usize) -> Result<()> {
        let group = work_group(self.device);
        let config = Config {
            body: Body::Combine { group: group as u16 },
            a: Stored::Dense(self.parts.a.dtype()),
            b: Stored::Dense(self.parts.a.dtype()),
            output: self.output.dtype(),
            epilogue: self.epilogue(),
            wide: false,
        };
        let source = || config.source(self.op.epilogue.activation);
        let kernel = self.device.kernel(config.key(), config.entry(), source)?;
        let each = self.geometry.m * self.geometry.n;
        let mut launch = self.device.launch(&kernel);
        for count in [self.geometry.m, self.geometry.n, piece.first, splits] {
            launch = launch.value(count as u32);
        }
        launch = launch.value((piece.count * each) as u64).value(each as u64);
        launch = self.pass_batches(launch, false, self.batch_strides(OUT));
        launch = launch
            .value(self.geometry.out.rows as u64)
            .value(self.geometry.out.columns as u64)
            .value(self.op.alpha as f32)
            .buffer(sums, 0)
            .buffer(self.output.buffer(), piece.offsets[OUT]);
        if config.epilogue.is_some() {
            launch = self.pass_epilogue(launch, piece);
        }
        launch.enqueue(&[each, piece.count], &[group, 1])
    }
}
