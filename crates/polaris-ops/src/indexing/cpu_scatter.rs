//! Scatters on the CPU: each lane's positions in their order, lanes over all threads.

use polaris_core::DType;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::indices::with_index_type;
use super::scatter::Scatter;
use crate::cpu::map::SendPointer;
use crate::lanes::Lanes;
use crate::operation::is_same_place;
use crate::{Array, Result, copy};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 8 * 1024;
/// Lanes side by side that are worked on at once: a few lines of each array.
const WIDTH: usize = 64;

pub fn run(op: &Scatter, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
    let &[index, base, source] = inputs else {
        unreachable!("the number of arrays should have been checked")
    };
    if op.adds() && output.dtype().size() < DType::F32.size() {
        // Each addition would be rounded: half precisions are added up elsewhere.
        let total = copy::cast(base, DType::F32)?;
        let source = copy::cast(source, DType::F32)?;
        run(op, cpu, &[index, &total, &source], &total)?;
        return copy::into(&total, output);
    }
    if !is_same_place(base, output) {
        copy::into(base, output)?;
    }
    if index.elements() == 0 {
        return Ok(());
    }
    match (op.adds(), output.dtype().size()) {
        (true, 4) => {
            with_index_type!(index, scatter_lanes::<f32>(op, cpu, index, source, output, add))
        }
        (true, _) => {
            with_index_type!(index, scatter_lanes::<f64>(op, cpu, index, source, output, add))
        }
        (false, 1) => {
            with_index_type!(index, scatter_lanes::<u8>(op, cpu, index, source, output, assign))
        }
        (false, 2) => {
            with_index_type!(index, scatter_lanes::<u16>(op, cpu, index, source, output, assign))
        }
        (false, 4) => {
            with_index_type!(index, scatter_lanes::<u32>(op, cpu, index, source, output, assign))
        }
        (false, _) => {
            with_index_type!(index, scatter_lanes::<u64>(op, cpu, index, source, output, assign))
        }
    }
}

fn add<W: std::ops::AddAssign>(to: &mut W, value: W) {
    *to += value;
}

fn assign<W>(to: &mut W, value: W) {
    *to = value;
}

fn scatter_lanes<W: Copy + Send + Sync, I: Copy + Into<i64>>(
    op: &Scatter,
    cpu: &CpuDevice,
    index: &Array,
    source: &Array,
    output: &Array,
    combine: impl Fn(&mut W, W) + Sync,
) -> Result<()> {
    let axis = op.scattered_along(output);
    let layouts = [output.layout(), source.layout(), index.layout()];
    let lanes = Lanes::new(index.shape(), op.axis, layouts)?;
    let [output_stride, source_stride, index_stride] = lanes.strides;
    let buffers = [index.buffer(), source.buffer()];
    let operands = HostOperands::new(axis.op, &buffers, output.buffer())?;
    let [indices, from] = [0, 1].map(|i| SendPointer(operands.input(i).cast_mut()));
    let to = SendPointer(operands.output());
    axis.check_host::<I>(cpu, index, indices)?;
    // Elsewhere the lanes of a block would be far apart.
    let width = if lanes.are_side_by_side(0, 2) { WIDTH } else { 1 };
    let grain = (GRAIN / lanes.length).max(width);
    cpu.pool().for_chunks(lanes.count(), grain, |chunk| {
        let mut starts = [[0; 3]; WIDTH];
        let mut first = chunk.start;
        while first < chunk.end {
            let width = width.min(chunk.end - first);
            for (i, start) in starts[..width].iter_mut().enumerate() {
                *start = lanes.starts.point(first + i);
            }
            for position in 0..lanes.length {
                for [to_lane, from_lane, index_lane] in &starts[..width] {
                    // SAFETY: the layouts were checked against their buffers and every index against
                    // the axis, so all of these lie inside; the buffers are registered as read and
                    // written, the output is neither of them, and a lane belongs to one thread.
                    unsafe {
                        let index =
                            indices.get().cast::<I>().add(index_lane + position * index_stride);
                        let value =
                            from.get().cast::<W>().add(from_lane + position * source_stride);
                        let at = to_lane + (*index).into() as usize * output_stride;
                        combine(&mut *to.get().cast::<W>().add(at), *value);
                    }
                }
            }
            first += width;
        }
    });
    Ok(())
}
