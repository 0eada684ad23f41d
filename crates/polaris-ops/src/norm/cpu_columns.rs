//! The gradient of the weight on the CPU: sums over rows in segments, whose number depends on the
//! shape alone, added up in their order.

use polaris_core::DType;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::{Buffer, HostOperands};

use super::cpu::{GRAIN, Place, load_row};
use super::cpu_rows::{self, Number};
use super::operations::Arrays;
use super::{Rows, op_name};
use crate::cpu::blocks::BLOCK;
use crate::cpu::map::SendPointer;
use crate::{Array, Result};

/// Elements of a segment, as far as its number of rows allows.
const SEGMENT: usize = 64 * 1024;
/// Rows of a segment: few enough to be added in the compute type, and enough that what is kept of
/// them is small beside them.
const FEWEST_ROWS: usize = 8;
const MOST_ROWS: usize = 64;
/// More segments would cost more to add up than they save.
const MOST_SEGMENTS: usize = 1024;

pub fn run(arrays: &Arrays<'_>, cpu: &CpuDevice, inputs: &[&Array]) -> Result<()> {
    match arrays.x.dtype() {
        DType::F64 => columns::<f64>(arrays, cpu, inputs),
        _ => columns::<f32>(arrays, cpu, inputs),
    }
}

fn columns<C: Number>(arrays: &Arrays<'_>, cpu: &CpuDevice, inputs: &[&Array]) -> Result<()> {
    let Arrays { part, kind, epsilon, output, .. } = *arrays;
    let [x, g] = [inputs[0], inputs[1]];
    let rows = Rows::new(x.shape(), [x.layout(), g.layout()])?;
    let (count, length) = (rows.count(), rows.length);
    let buffers: Vec<&Buffer> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new(op_name(kind, part), &buffers, output.buffer())?;
    let sources =
        [0, 1].map(|i| Place::new(operands.input(i).cast_mut(), inputs[i], rows.steps[i]));
    let copied = sources.map(|source| !source.is_direct::<C>());
    let level = cpu.simd();

    let each = (SEGMENT / length.max(1)).clamp(FEWEST_ROWS, MOST_ROWS);
    let each = each.max(count.div_ceil(MOST_SEGMENTS));
    let segments = count.div_ceil(each);
    let mut partial = vec![C::default(); segments * length];
    let slots = SendPointer(partial.as_mut_ptr().cast());
    cpu.pool().for_chunks(segments, (GRAIN / (each * length).max(1)).max(1), |chunk| {
        let mut scratch = copied.map(|needed| vec![C::default(); if needed { length } else { 0 }]);
        for segment in chunk {
            // SAFETY: each segment owns its own stretch of `partial`, which outlives the call.
            let sums = unsafe {
                let start = slots.get().cast::<C>().add(segment * length);
                std::slice::from_raw_parts_mut(start, length)
            };
            for row in segment * each..count.min((segment + 1) * each) {
                let [x_at, g_at] = rows.starts.point(row);
                let [x_scratch, g_scratch] = &mut scratch;
                // SAFETY: the layouts were checked against their buffers, which are registered as
                // read by this operation; the output was checked not to lie in them.
                let (x, g) = unsafe {
                    (
                        load_row(sources[0].row(x_at), length, copied[0], x_scratch),
                        load_row(sources[1].row(g_at), length, copied[1], g_scratch),
                    )
                };
                let statistics = cpu_rows::statistics(level, kind, epsilon, x);
                cpu_rows::add(level, statistics, x, g, sums);
            }
        }
    });

    let target = Place::new(operands.output(), output, output.layout().strides()[0]);
    let grain = (GRAIN / segments.max(1)).max(BLOCK);
    cpu.pool().for_chunks(length, grain, |chunk| {
        for first in chunk.clone().step_by(BLOCK) {
            let columns = first..chunk.end.min(first + BLOCK);
            let mut totals = [0.0f64; BLOCK];
            for sums in partial.chunks_exact(length) {
                for (total, sum) in totals.iter_mut().zip(&sums[columns.clone()]) {
                    *total += sum.wide();
                }
            }
            let totals = totals.map(C::of);
            // SAFETY: as above; each column is written by one thread.
            unsafe {
                target.row(output.layout().offset()).store(first, &totals[..columns.len()]);
            }
        }
    });
    Ok(())
}
