//! The output and the input gradient as matmuls (im2col): packed weights times what the positions of a block see,
//! which each thread gathers for some channels at a time.

use polaris_runtime::DeviceRef;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};

use super::super::geometry::{Form, Gather};
use super::gather_plan::Plan;
use super::pieces::Piece;
use super::runs::Runs;
use super::window::{CHUNK, Copies, Window, copy_taps};
use super::{Bias, Image, Number, Operands, for_tasks, numbers};
use crate::Result;
use crate::cpu::map::SendPointer;
use crate::matmul::cpu::{Call, Ending, Kernels, Scratch, Strip};

pub fn run<C: Number>(
    form: Form,
    gathers: &[Gather],
    cpu: &CpuDevice,
    device: &DeviceRef,
    operands: &Operands,
    in_place: bool,
) -> Result<()> {
    let (pool, level) = (cpu.pool(), cpu.simd());
    let (source, result) = match form {
        Form::InputGradient => (operands.y, operands.x),
        _ => (operands.x, operands.y),
    };
    let to_result = in_place && result.strides[3] == 1;
    let plans: Vec<Plan> = gathers
        .iter()
        .map(|gather| Plan::new::<C>(gather, level, pool.threads(), [in_place, to_result]))
        .collect();
    let weights: usize = plans.iter().map(Plan::weight_elements).sum();
    let weights = weights.next_multiple_of(CHUNK);
    let worker = plans.iter().map(Plan::worker_elements).max().unwrap_or(0);
    let scratch = Scratch::new(device, (weights + pool.threads() * worker) * size_of::<C>())?;
    let registered = scratch.operands()?;
    let Some(start) = registered.as_ref().map(|operands| SendPointer(operands.output())) else {
        return Ok(());
    };
    let mut weights_at = 0;
    for plan in &plans {
        let work = Work::<C> {
            plan,
            kernels: C::kernels(level),
            level,
            source,
            result,
            bias: operands.bias,
            // SAFETY: the weights of all plans lie one after another.
            weights: SendPointer(unsafe { start.get().cast::<C>().add(weights_at).cast() }),
        };
        let gather = &plan.gather;
        let panels = gather.rows.div_ceil(plan.panel_rows);
        pool.run(gather.groups * panels, |task| {
            // SAFETY: the operands are registered by the caller, and panels have their own places.
            unsafe { work.pack_weights(&operands.weight, task / panels, task % panels) };
        });
        let cuts = gather.rows.div_ceil(plan.task_rows);
        for_tasks(pool, plan.blocks.count() * gather.groups * cuts, |thread, task| {
            let (block, cut) = (task / cuts, task % cuts);
            let (group, block) = (block / plan.blocks.count(), block % plan.blocks.count());
            // SAFETY: each thread has its own part behind the weights, which were initialised.
            unsafe {
                let memory = numbers::<C>(start, weights + thread * worker, worker);
                work.task(group, block, cut * plan.task_rows, memory);
            }
        });
        weights_at += plan.weight_elements();
    }
    Ok(())
}

struct Work<'a, C: Number> {
    plan: &'a Plan,
    kernels: &'static Kernels<C, C>,
    level: SimdLevel,
    source: Image,
    result: Image,
    bias: Option<Bias>,
    weights: SendPointer,
}

impl<C: Number> Work<'_, C> {
    /// Packs the weights of one panel of rows: step after step, the rows of each side by side.
    ///
    /// # Safety
    /// The weight must be registered as read, and the panel's place be this thread's alone.
    unsafe fn pack_weights(&self, weight: &Image, group: usize, panel: usize) {
        let gather = &self.plan.gather;
        let (strides, [rows, columns]) = (&gather.weight, &gather.axes);
        let first_row = panel * self.plan.panel_rows;
        let lanes = self.plan.panel_rows.min(gather.rows - first_row);
        let first = group * strides.group
            + first_row * strides.row
            + rows.first_tap * strides.taps[0]
            + columns.first_tap * strides.taps[1];
        let runs = Runs::new([
            (gather.channels, strides.channel),
            (rows.taps, strides.taps[0] * rows.tap_step),
            (columns.taps, strides.taps[1] * columns.tap_step),
        ]);
        let size = weight.dtype.size();
        let mut at = (group * gather.rows + first_row) * gather.depth();
        for start in runs.starts() {
            let strip = Strip {
                start: weight.start.get().wrapping_add((first + start) * size),
                lanes,
                lane_stride: strides.row,
                depth: runs.length,
                depth_stride: runs.stride,
            };
            // SAFETY: by the caller's word; the strip lies inside the weight.
            unsafe {
                let target = self.weights.get().cast::<C>().add(at);
                C::packer(weight.dtype)(self.level, &strip, lanes, target);
            }
            at += runs.length * lanes;
        }
    }

    /// Computes some rows of one block.
    ///
    /// # Safety
    /// The operands must be registered, the weights packed, and the memory be as large as the plan
    /// says.
    unsafe fn task(&self, group: usize, block: usize, first_row: usize, memory: &mut [C]) {
        let plan = self.plan;
        let gather = &plan.gather;
        let (window_memory, rest) =
            memory.split_at_mut(plan.window_elements.next_multiple_of(CHUNK));
        let (patches, sums) = rest.split_at_mut(plan.patch_elements().next_multiple_of(CHUNK));
        let rows = plan.task_rows.min(gather.rows - first_row);
        let mut pieces = Vec::with_capacity(plan.blocks.pieces);
        let positions = plan.blocks.list(block, &mut pieces);
        let columns = positions.next_multiple_of(self.kernels.lanes);
        let mut window = Window::new(gather.axes, plan.blocks.width);
        window.place(&pieces, window_memory);
        let first_channel = group * gather.rows + first_row;
        let (to, to_stride) = match plan.to_result {
            true => {
                let Piece { image, column, .. } = pieces[0];
                let start = self.result.at([image, first_channel, 0, column]);
                (start.cast::<C>(), self.result.strides[1])
            }
            false => (sums.as_mut_ptr(), plan.stride),
        };
        if let Some(bias) = &self.bias {
            for row in 0..rows {
                // SAFETY: there is a bias for each channel of the result, and accumulators for each column.
                unsafe {
                    let sums = std::slice::from_raw_parts_mut(to.add(row * to_stride), columns);
                    sums.fill(bias.of(first_channel + row));
                }
            }
        }
        let depth = gather.depth();
        let mut step = 0;
        // A sum of nothing is a product without steps.
        while step < depth.max(1) {
            let steps = plan.steps.min(depth - step);
            let (seen, seen_stride) = if plan.in_place {
                let Piece { image, column, .. } = pieces[0];
                let channel = group * gather.channels + step;
                let seen = self.source.at([image, channel, 0, column]).cast::<C>();
                (seen.cast_const(), self.source.strides[1])
            } else {
                let steps = step..step + steps;
                // SAFETY: by the caller's word.
                unsafe { self.copy(&window, &pieces, group, steps, window_memory, patches) };
                (patches.as_ptr(), plan.stride)
            };
            for row in (0..rows).step_by(plan.panel_rows) {
                let panel_rows = plan.panel_rows.min(rows - row);
                let panel = (first_channel + row) * depth + step * panel_rows;
                for column in (0..columns).step_by(self.kernels.columns()) {
                    let panel_columns = self.kernels.columns().min(columns - column);
                    let to = to.wrapping_add(row * to_stride + column);
                    let begins = step == 0 && self.bias.is_none();
                    let call = Call {
                        a: self.weights.get().cast::<C>().wrapping_add(panel).cast_const(),
                        a_stride: panel_rows,
                        b: seen.wrapping_add(column),
                        b_stride: seen_stride,
                        steps,
                        pieces: 1,
                        a_jump: 0,
                        from: if begins { std::ptr::null() } else { to.cast_const() },
                        from_stride: to_stride,
                        to,
                        to_stride,
                        columns: panel_columns,
                        ending: Ending::PLAIN,
                    };
                    // SAFETY: the panel holds these steps and rows, what is seen these steps and
                    // whole vectors of columns, and the accumulators these rows and columns.
                    unsafe {
                        self.kernels.for_adjacent_rows(panel_rows, panel_columns)(&call);
                    }
                }
            }
            step += steps.max(1);
        }
        if plan.to_result {
            return;
        }
        for (row, sums) in sums.chunks_exact(plan.stride).take(rows).enumerate() {
            // SAFETY: by the caller's word; tasks have disjoint channels and positions.
            unsafe { store(gather, &self.result, &pieces, first_channel + row, sums) };
        }
    }

    /// Copies together what the positions see in some steps of the sum.
    ///
    /// # Safety
    /// The source must be registered as read.
    unsafe fn copy(
        &self,
        window: &Window,
        pieces: &[Piece],
        group: usize,
        steps: std::ops::Range<usize>,
        rows: &mut [C],
        target: &mut [C],
    ) {
        let channels = self.plan.gather.channels;
        let (taps, stride) = (window.taps(), self.plan.stride);
        let mut step = steps.start;
        while step < steps.end {
            let (channel, tap) = (step / taps, step % taps);
            let count = (taps - tap).min(steps.end - step);
            // SAFETY: by the caller's word; the rows have room for the plan's windows.
            unsafe { window.fill(&self.source, group * channels + channel, rows) };
            let taps = tap..tap + count;
            let copies = Copies { window, pieces, rows, taps, stride };
            copy_taps(self.level, &copies, &mut target[(step - steps.start) * stride..]);
            step += count;
        }
    }
}

/// Stores the accumulators of one channel for the pieces of a block.
///
/// # Safety
/// The result must be registered as written, and these positions be this thread's alone.
pub(super) unsafe fn store<C: Number>(
    gather: &Gather,
    result: &Image,
    pieces: &[Piece],
    channel: usize,
    sums: &[C],
) {
    let [rows, columns] = &gather.axes;
    for piece in pieces {
        let row = rows.start + piece.row * rows.spacing;
        let column = columns.start + piece.column * columns.spacing;
        let target = result.row([piece.image, channel, row, column], columns.spacing);
        // SAFETY: by the caller's word.
        unsafe { target.store(0, &sums[piece.at..][..piece.width]) };
    }
}
