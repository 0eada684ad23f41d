//! Matmul with B in a block format. Where A may be rounded to bytes, products are those of integers (`int8.rs`).
//! Otherwise, for few rows, columns are decoded a few at a time into the L1 cache; for more rows, parts of B are
//! expanded and reused for all rows.

use polaris_core::Shape;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::dot::{COLUMNS, f32_dots};
use super::int8::Int8;
use super::multiply::Scratch;
use super::pack::pack;
use super::product::{Plane, Product};
use super::skinny::{FewRows, Skinny, is_skinny};
use super::{Native, first_product, moved};
use crate::copy::contiguous;
use crate::cpu::map::SendPointer;
use crate::cpu::simd::multiversion;
use crate::format::{Blocks, Format, with_block_type};
use crate::matmul::geometry::Geometry;
use crate::matmul::problem::{Bias, MatMul, Parts, Precision};
use crate::operation::run as run_operation;
use crate::{Array, Result};

/// Bytes of B that are expanded at a time.
const PART_BYTES: usize = 8 << 20;
/// Elements of B that are worth a task.
const TASK: usize = 1 << 16;

pub(super) fn run(
    op: &MatMul,
    cpu: &CpuDevice,
    parts: &Parts,
    geometry: &Geometry,
    output: &Array,
) -> Result<()> {
    let Format::Block(block) = parts.b.format() else {
        return Ok(());
    };
    let whole = |elements: usize| elements.is_multiple_of(block.elements());
    let rows_are_blocks = whole(geometry.k)
        && whole(geometry.b.columns)
        && geometry.batches.elements() == 1
        && whole(geometry.batches.point(0)[crate::matmul::geometry::B]);
    let inputs = parts.all();
    if rows_are_blocks && geometry.a.columns == 1 {
        let buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
        let operands = HostOperands::new("matmul", &buffers, output.buffer())?;
        let start = |array: &Array| {
            let place = inputs.iter().position(|&input| std::ptr::eq(input, array));
            place.map_or(operands.output(), |place| operands.input(place).cast_mut())
        };
        let first = first_product(op, geometry, parts, output, &start);
        let starts = geometry.batches.point(0);
        let product = moved(&first, starts);
        let first_block = starts[crate::matmul::geometry::B] / block.elements();
        let blocks = SendPointer(start(parts.b).wrapping_add(first_block * block.bytes()));
        if op.precision == Precision::Int8 {
            let int8 = Int8 { cpu, product: &product, blocks };
            return with_block_type!(block, B => int8.run::<B>(output));
        }
        if is_skinny(&product) {
            let workers = cpu.pool().threads();
            let scratch = Scratch::new(output.device(), workers * COLUMNS * geometry.k * 4)?;
            let columns = scratch.operands()?;
            let columns = columns.as_ref().map_or(std::ptr::null_mut(), HostOperands::output);
            let few = FewColumns { cpu, product: &product, blocks, columns: SendPointer(columns) };
            with_block_type!(block, B => few.run::<B>());
            return Ok(());
        }
    }
    in_parts(op, parts, output)
}

/// A product of few rows, and the memory into which columns are decoded.
struct FewColumns<'a> {
    cpu: &'a CpuDevice,
    product: &'a Product,
    blocks: SendPointer,
    columns: SendPointer,
}

impl FewColumns<'_> {
    fn run<B: Blocks>(&self) {
        let &Product { n, k, b, .. } = self.product;
        let level = self.cpu.simd();
        let pool = self.cpu.pool();
        let groups = n.div_ceil(COLUMNS);
        let tasks = (n * k / TASK).clamp(1, pool.threads() * 4).min(groups);
        let next = std::sync::atomic::AtomicUsize::new(0);
        let row_bytes = b.column_stride / B::ELEMENTS * B::BYTES;
        pool.run(pool.threads().min(tasks), |worker| {
            let columns = self.columns.get().cast::<f32>().wrapping_add(worker * COLUMNS * k);
            loop {
                let task = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                if task >= tasks {
                    return;
                }
                for group in task * groups / tasks..(task + 1) * groups / tasks {
                    let first = group * COLUMNS;
                    let count = COLUMNS.min(n - first);
                    let rows = self.blocks.get().wrapping_add(first * row_bytes);
                    decode_rows::<B>(level, rows, row_bytes, count, k, columns);
                    // Columns are found where they would be if all of them had been decoded.
                    let start = columns.cast::<u8>().wrapping_sub(first * k * size_of::<f32>());
                    let decoded = Plane {
                        start: SendPointer(start),
                        dtype: polaris_core::DType::F32,
                        row_stride: 1,
                        column_stride: k,
                    };
                    let product = Product { b: decoded, ..*self.product };
                    let kernels = FewRows { dots: f32_dots(level), pack: pack::<Native<f32>> };
                    let rows = std::ptr::null_mut();
                    let skinny = Skinny { product: &product, kernels, level, rows };
                    // SAFETY: the operands are registered, rows of A are dense along k, the columns are
                    // decoded into this worker's memory, and tasks have disjoint columns.
                    unsafe { skinny.columns(first..first + count) };
                }
            }
        });
    }
}

multiversion! {
    /// Decodes rows of whole blocks. Must only be called by `FewColumns::run`, whose pointers are registered.
    fn decode_rows<B: Blocks>(blocks: *const u8, row_bytes: usize, rows: usize, k: usize, to: *mut f32) {
        for row in 0..rows {
            // SAFETY: rows lie inside B, and there is room for `rows` times `k` elements.
            let (from, to) = unsafe {
                let bytes = k / B::ELEMENTS * B::BYTES;
                (
                    std::slice::from_raw_parts(blocks.add(row * row_bytes), bytes),
                    std::slice::from_raw_parts_mut(to.add(row * k), k),
                )
            };
            let each = from.chunks_exact(B::BYTES).zip(to.chunks_exact_mut(B::ELEMENTS));
            each.for_each(|(block, to)| B::decode(block, to));
        }
    }
}

/// Expands some columns of B after the other, and multiplies with them as with any array.
fn in_parts(op: &MatMul, parts: &Parts, output: &Array) -> Result<()> {
    let shape = *output.shape();
    let last = shape.rank() - 1;
    let (b, b_last) = (parts.b, parts.b.shape().rank() - 1);
    let column_bytes = (b.elements() / b.shape()[b_last].max(1)).max(1) * size_of::<f32>();
    let most = (PART_BYTES / column_bytes).max(16);
    let turned: Vec<usize> = (0..b_last - 1).chain([b_last, b_last - 1]).collect();
    for first in (0..shape[last]).step_by(most) {
        let columns = first..shape[last].min(first + most);
        let part = b.slice(b_last, columns.clone(), 1)?;
        // Blocks lie along k as a rule: they are expanded in that order.
        let expanded = contiguous(&part.permute(&turned)?)?.permute(&turned)?;
        let along = |array: &Array, shape: &Shape| {
            array.broadcast_to(shape)?.slice(shape.rank() - 1, columns.clone(), 1)
        };
        let like_output =
            |array: Option<&Array>| array.map(|array| along(array, &shape)).transpose();
        let vector = |array: Option<&Array>, is_along: bool| {
            let of_columns = |array: &Array| array.slice(0, columns.clone(), 1);
            array
                .map(|array| if is_along { of_columns(array) } else { Ok(array.clone()) })
                .transpose()
        };
        let (c, residual) = (like_output(parts.c)?, like_output(parts.residual)?);
        let column_scales = vector(parts.column_scales, true)?;
        let bias = vector(parts.bias, op.epilogue.bias == Some(Bias::PerColumn))?;
        let part = Parts {
            b: &expanded,
            c: c.as_ref(),
            column_scales: column_scales.as_ref(),
            bias: bias.as_ref(),
            residual: residual.as_ref(),
            ..*parts
        };
        run_operation(op, &part.all(), &along(output, &shape)?)?;
    }
    Ok(())
}
