//! Padding, its gradient and flips on the CPU.

use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::geometry::{Axis, axes};
use super::{PadGradient, Remap};
use crate::cpu::blocks::{BLOCK, Compute, ComputeType, Row};
use crate::cpu::map::SendPointer;
use crate::{Array, Result};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 16 * 1024;

pub fn remap(op: &Remap, cpu: &CpuDevice, x: &Array, output: &Array) -> Result<()> {
    let constant = op.constant_bits(x.dtype());
    match x.dtype().size() {
        1 => moved(op, cpu, x, output, constant as u8),
        2 => moved(op, cpu, x, output, constant as u16),
        4 => moved(op, cpu, x, output, constant as u32),
        _ => moved(op, cpu, x, output, constant),
    }
}

/// Moves elements of one size, whatever they mean.
fn moved<W: Copy + Send + Sync>(
    op: &Remap,
    cpu: &CpuDevice,
    x: &Array,
    output: &Array,
    constant: W,
) -> Result<()> {
    let axes = axes(op, x.layout(), output.layout());
    // Where each index of each axis leads in the input.
    let places = |axis: &Axis| -> Vec<Option<usize>> {
        let place = |index| Some(axis.source_of(op.mode(), index)? * axis.input_stride);
        (0..axis.length).map(place).collect()
    };
    let tables: Vec<Vec<Option<usize>>> = axes.iter().map(places).collect();
    let (Some((inner, outer)), Some(table)) = (axes.split_last(), tables.last()) else {
        return Ok(());
    };
    let buffers = [x.buffer()];
    let name = if matches!(op, Remap::Pad { .. }) { "pad" } else { "flip" };
    let operands = HostOperands::new(name, &buffers, output.buffer())?;
    let (to, from) = (SendPointer(operands.output()), SendPointer(operands.input(0).cast_mut()));
    let (to_start, from_start) = (output.layout().offset(), x.layout().offset());
    let is_dense = inner.input_stride == 1 && inner.output_stride == 1 && !inner.flipped;
    let dense = if is_dense { inner.before..inner.before + inner.source } else { 0..0 };
    let pieces = inner.length.div_ceil(GRAIN);
    let rows = output.elements() / inner.length;
    cpu.pool().for_chunks(rows * pieces, (GRAIN / inner.length).max(1), |chunk| {
        for item in chunk {
            let (mut rest, mut to_row, mut from_row) = (item / pieces, to_start, Some(from_start));
            for (axis, table) in outer.iter().zip(&tables).rev() {
                let index = rest % axis.length;
                rest /= axis.length;
                to_row += index * axis.output_stride;
                from_row = from_row.zip(table[index]).map(|(row, place)| row + place);
            }
            let first = item % pieces * GRAIN;
            let end = inner.length.min(first + GRAIN);
            let copied = dense.start.clamp(first, end)..dense.end.clamp(first, end);
            // SAFETY: the layouts were checked against their buffers, and every place is an index of
            // the input; the buffers are registered as read and written, the output is not the input,
            // and chunks write disjoint elements.
            unsafe {
                let (to, from) = (to.get().cast::<W>(), from.get().cast::<W>());
                if let Some(row) = from_row {
                    let source = from.wrapping_add(row + copied.start.saturating_sub(inner.before));
                    std::ptr::copy_nonoverlapping(
                        source,
                        to.add(to_row + copied.start),
                        copied.len(),
                    );
                }
                let others = match from_row {
                    Some(_) => (first..copied.start).chain(copied.end..end),
                    None => (first..end).chain(0..0),
                };
                for index in others {
                    let place = from_row.zip(table[index]);
                    let value = place.map_or(constant, |(row, place)| *from.add(row + place));
                    *to.add(to_row + index * inner.output_stride) = value;
                }
            }
        }
    });
    Ok(())
}

pub fn fold(op: &PadGradient, cpu: &CpuDevice, g: &Array, output: &Array) -> Result<()> {
    match Compute::of(output.dtype()) {
        Compute::F64 => folded::<f64>(op, cpu, g, output),
        _ => folded::<f32>(op, cpu, g, output),
    }
}

fn folded<C: ComputeType + std::ops::AddAssign>(
    op: &PadGradient,
    cpu: &CpuDevice,
    g: &Array,
    output: &Array,
) -> Result<()> {
    let walk = op.space(g, output)?;
    let n = output.shape()[op.axis];
    let dtype = output.dtype();
    let buffers = [g.buffer()];
    let operands = HostOperands::new("pad_gradient", &buffers, output.buffer())?;
    let (to, from) = (SendPointer(operands.output()), SendPointer(operands.input(0).cast_mut()));
    let (length, [to_stride, from_stride, along]) = walk.space.inner();
    let blocks = length.div_ceil(BLOCK);
    let rows = walk.space.elements() / length;
    let row = |memory: SendPointer, at: usize, stride: usize| Row {
        // SAFETY: the layouts were checked against their buffers, so every index lies inside.
        start: unsafe { memory.get().add(at * dtype.size()) },
        dtype,
        stride,
    };
    // No element that is farther from both ends has a copy.
    let reach = op.before.max(op.after);
    let has_copies = |index: usize| index <= reach || index + reach + 1 >= n;
    cpu.pool().for_chunks(rows * blocks, (GRAIN / length.min(BLOCK)).max(1), |chunk| {
        let (mut sums, mut scratch) = ([C::default(); BLOCK], [C::default(); BLOCK]);
        for item in chunk {
            let [to_row, from_row, index] = walk.space.row(item / blocks);
            let first = item % blocks * BLOCK;
            let count = BLOCK.min(length - first);
            let sums = &mut sums[..count];
            // SAFETY: an element and its copies are indices of the input along the axis, so that all
            // lie inside; the buffers are registered as read and written, the output is not the input,
            // and chunks write disjoint elements.
            unsafe {
                // Where the walk goes along the axis, the input goes with it.
                let step = from_stride + along * walk.stride;
                let own = from_row + (op.before + index) * walk.stride;
                sums.copy_from_slice(row(from, own, step).load(first, count, &mut scratch));
                if along == 0 {
                    for copy in op.copies(index, n).into_iter().flatten() {
                        let addends = row(from, from_row + copy * walk.stride, from_stride);
                        let addends = addends.load(first, count, &mut scratch);
                        sums.iter_mut().zip(addends).for_each(|(sum, &addend)| *sum += addend);
                    }
                } else {
                    for (i, sum) in sums.iter_mut().enumerate() {
                        let index = index + (first + i) * along;
                        if has_copies(index) {
                            for copy in op.copies(index, n).into_iter().flatten() {
                                let at = from_row + (first + i) * from_stride + copy * walk.stride;
                                *sum += C::load_one(row(from, at, 1).start, dtype);
                            }
                        }
                    }
                }
                row(to, to_row, to_stride).store(first, sums);
            }
        }
    });
    Ok(())
}
