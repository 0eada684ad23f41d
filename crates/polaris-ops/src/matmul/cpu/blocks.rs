//! Matmul with B in a block format. Where A may be rounded to bytes, products are those of integers (`int8.rs`).
//! Otherwise, for few rows, weights are decoded in registers; for more rows, parts of B are decoded into panels and reused
//! for all rows.

use polaris_core::{DType, Shape};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::finish::{Place, TILE_STRIDE, store};
use super::int8::Int8;
use super::multiply::Scratch;
use super::prepack::pack_blocks;
use super::product::Product;
use super::{first_product, moved};
use crate::copy::contiguous;
use crate::cpu::int8::floats::Tokens;
use crate::cpu::int8::{Instructions, WeightRows, dots, floats};
use crate::cpu::map::SendPointer;
use crate::format::{Blocks, Format, with_block_type};
use crate::matmul::geometry::Geometry;
use crate::matmul::problem::{Bias, MatMul, Parts, Precision};
use crate::operation::run as run_operation;
use crate::{Array, Result};

/// Bytes of B that are expanded at a time.
const PART_BYTES: usize = 8 << 20;
/// Elements of B that are worth a task.
const TASK: usize = 1 << 16;
/// Tasks for each thread, so that one that was held up is not waited for long.
pub(super) const TASKS_PER_THREAD: usize = 4;

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
        if product.m <= floats::TOKENS && parts.a.dtype() == DType::F32 {
            return with_block_type!(block, B => few_rows::<B>(cpu, &product, blocks, output));
        }
    }
    let dense_rows = rows_are_blocks && parts.b.shape().rank() == 2;
    let strides = parts.b.layout().strides();
    if dense_rows && strides[0] == 1 && parts.a.dtype() == DType::F32 {
        let pack = |part: &Array| with_block_type!(block, B => pack_blocks::<B>(cpu, part));
        return in_parts(op, parts, output, &pack);
    }
    in_parts(op, parts, output, &expanded)
}

/// Few rows of A as they are: weights are decoded in registers.
fn few_rows<B: Blocks>(
    cpu: &CpuDevice,
    product: &Product,
    blocks: SendPointer,
    output: &Array,
) -> Result<()> {
    let &Product { m, k, a, .. } = product;
    let stride = Tokens::stride(k);
    let scratch = Scratch::new(output.device(), m * stride * size_of::<f32>())?;
    let operands = scratch.operands()?;
    let memory = operands.as_ref().map_or(std::ptr::null_mut(), HostOperands::output).cast::<f32>();
    let rows = if k == 0 { 0 } else { m };
    for row in 0..rows {
        // SAFETY: A is registered as read, its rows are dense along k, and the scratch memory is this call's.
        unsafe {
            let row_of_a = std::slice::from_raw_parts(a.at(row, 0).cast::<f32>(), k);
            let to = std::slice::from_raw_parts_mut(memory.add(row * stride), stride);
            Tokens::write(row_of_a, to);
        }
    }
    let memory = SendPointer(memory.cast());
    let kernel = floats::kernels::<B>(Instructions::of(cpu.simd())).dots[m - 1];
    each_column::<B>(cpu, product, blocks, &|rows, to| {
        // SAFETY: the rows lie inside B, which is registered as read, and the tokens are as long.
        unsafe { kernel(rows, k, Tokens(memory.get().cast()), to, TILE_STRIDE) };
    });
    Ok(())
}

/// The most rows of A for [`each_column`].
const MOST_FEW: usize = if dots::TOKENS > floats::TOKENS { dots::TOKENS } else { floats::TOKENS };

/// Each column of B once, for a few rows of A: `dots` gives the sums of some columns; those of a row of A are
/// `TILE_STRIDE` apart from those of the next.
pub(super) fn each_column<B: Blocks>(
    cpu: &CpuDevice,
    product: &Product,
    blocks: SendPointer,
    dots: &(dyn Fn(WeightRows, *mut f32) + Sync),
) {
    let &Product { m, n, k, b, .. } = product;
    let (pool, level) = (cpu.pool(), cpu.simd());
    let stride = b.column_stride / B::ELEMENTS * B::BYTES;
    let tasks = (n * k / TASK).clamp(1, pool.threads() * TASKS_PER_THREAD);
    let columns = n.div_ceil(tasks).next_multiple_of(TILE_STRIDE);
    pool.run(n.div_ceil(columns), |task| {
        let last = n.min((task + 1) * columns);
        for column in (task * columns..last).step_by(TILE_STRIDE) {
            let count = TILE_STRIDE.min(last - column);
            let mut sums = [0.0; TILE_STRIDE * MOST_FEW];
            let start = blocks.get().wrapping_add(column * stride).cast_const();
            dots(WeightRows { start, stride, count }, sums.as_mut_ptr());
            let place = Place { row: 0, rows: m, column, columns: count };
            // SAFETY: the operands are registered, and tasks have disjoint columns.
            unsafe { store(level, product, &sums, place) };
        }
    });
}

/// The elements of a part of B. Blocks lie along k as a rule: they are expanded in that order.
fn expanded(part: &Array) -> Result<Array> {
    let last = part.shape().rank() - 1;
    let turned: Vec<usize> = (0..last - 1).chain([last, last - 1]).collect();
    contiguous(&part.permute(&turned)?)?.permute(&turned)
}

/// Expands some columns of B after the other, and multiplies with them as with any array.
fn in_parts(
    op: &MatMul,
    parts: &Parts,
    output: &Array,
    expanded: &dyn Fn(&Array) -> Result<Array>,
) -> Result<()> {
    let shape = *output.shape();
    let last = shape.rank() - 1;
    let (b, b_last) = (parts.b, parts.b.shape().rank() - 1);
    let column_bytes = (b.elements() / b.shape()[b_last].max(1)).max(1) * size_of::<f32>();
    let most = (PART_BYTES / column_bytes).max(16);
    for first in (0..shape[last]).step_by(most) {
        let columns = first..shape[last].min(first + most);
        let expanded = expanded(&b.slice(b_last, columns.clone(), 1)?)?;
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
