//! The weight gradient as matmuls: what the positions of a block see under each tap, times the transposed output
//! gradient, summed over blocks.
//!
//! The sum over all positions is split into parts, whose number depends on sizes alone, so that threads
//! have something to do where the weight is small; the parts are added up in their order.

use polaris_runtime::DeviceRef;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};

use super::super::geometry::Geometry;
use super::pieces::Piece;
use super::runs::Runs;
use super::weight_plan::Plan;
use super::window::{CHUNK, Copies, Window, copy_taps};
use super::{Number, Operands, for_tasks, numbers};
use crate::Result;
use crate::cpu::blocks::Row;
use crate::cpu::map::SendPointer;
use crate::matmul::cpu::{Call, Ending, Kernels, Scratch, Strip, even};

pub fn run<C: Number>(
    geometry: &Geometry,
    cpu: &CpuDevice,
    device: &DeviceRef,
    operands: &Operands,
    in_place: bool,
) -> Result<()> {
    let (pool, level) = (cpu.pool(), cpu.simd());
    let plan = Plan::new::<C>(geometry, level, in_place);
    let parts = plan.parts * plan.part_elements;
    let worker = plan.worker_elements();
    let elements = parts + pool.threads() * worker;
    let scratch = Scratch::new(device, elements * size_of::<C>())?;
    let registered = scratch.operands()?;
    let Some(start) = registered.as_ref().map(|operands| SendPointer(operands.output())) else {
        return Ok(());
    };
    let work = Work::<C> { plan: &plan, kernels: C::kernels(level), level, operands };
    let channel_blocks = geometry.inputs.div_ceil(plan.channels);
    for_tasks(pool, plan.parts * geometry.groups * channel_blocks, |thread, task| {
        let (part, rest) = (task % plan.parts, task / plan.parts);
        let (group, block) = (rest % geometry.groups, rest / geometry.groups);
        let first_channel = block * plan.channels;
        let channels = plan.channels.min(geometry.inputs - first_channel);
        let at = (group * geometry.inputs + first_channel) * plan.taps * plan.columns;
        // SAFETY: the operands are registered by the caller; each task has its own accumulators and each
        // thread its own memory behind them.
        unsafe {
            let sums = numbers::<C>(
                start,
                part * plan.part_elements + at,
                channels * plan.taps * plan.columns,
            );
            let memory = numbers::<C>(start, parts + thread * worker, worker);
            work.task(part, group, first_channel..first_channel + channels, sums, memory);
        }
    });
    let strips = geometry.outputs.div_ceil(CHUNK);
    pool.run(geometry.groups * strips, |task| {
        // SAFETY: all sums are there, and nobody writes them any more.
        let sums = unsafe { std::slice::from_raw_parts(start.get().cast::<C>(), parts) };
        // SAFETY: the weight is registered as written, and each task has its own channels.
        unsafe { work.finish(task / strips, task % strips * CHUNK, sums) };
    });
    Ok(())
}

struct Work<'a, C: Number> {
    plan: &'a Plan,
    kernels: &'static Kernels<C, C>,
    level: SimdLevel,
    operands: &'a Operands,
}

impl<C: Number> Work<'_, C> {
    /// Sums one part of all positions for some channels of x: a row for each channel and tap, a
    /// column for each channel of y.
    ///
    /// # Safety
    /// The operands must be registered, and the memory be as large as the plan says.
    unsafe fn task(
        &self,
        part: usize,
        group: usize,
        channels: std::ops::Range<usize>,
        sums: &mut [C],
        memory: &mut [C],
    ) {
        let plan = self.plan;
        let (window_memory, rest) =
            memory.split_at_mut(plan.window_elements.next_multiple_of(CHUNK));
        let (patches, panels) = rest.split_at_mut(plan.patch_elements().next_multiple_of(CHUNK));
        let (count, parts) = (plan.blocks.count(), plan.parts);
        let blocks = part * count / parts..(part + 1) * count / parts;
        if blocks.is_empty() {
            return sums.fill(C::default());
        }
        let x = &self.operands.x;
        let first_channel = group * plan.geometry.inputs + channels.start;
        let mut pieces = Vec::with_capacity(plan.blocks.pieces);
        let mut window = Window::new(plan.axes, plan.blocks.width);
        for block in blocks.clone() {
            let positions = plan.blocks.list(block, &mut pieces);
            // SAFETY: by the caller's word.
            unsafe { self.pack_gradient(group, &pieces, positions, panels) };
            let (rows, row_stride) = if plan.in_place {
                let Piece { image, column, .. } = pieces[0];
                (x.at([image, first_channel, 0, column]).cast::<C>().cast_const(), x.strides[1])
            } else {
                window.place(&pieces, window_memory);
                for index in 0..channels.len() {
                    // SAFETY: by the caller's word; the window has room for the pieces of a block.
                    unsafe { window.fill(x, first_channel + index, window_memory) };
                    let copies = Copies {
                        window: &window,
                        pieces: &pieces,
                        rows: window_memory,
                        taps: 0..plan.taps,
                        stride: plan.stride,
                    };
                    let target = &mut patches[index * plan.taps * plan.stride..];
                    copy_taps(self.level, &copies, target);
                }
                (patches.as_ptr(), plan.stride)
            };
            let factors = Factors { rows, row_stride, panels: panels.as_ptr(), positions };
            // SAFETY: the factors hold these positions of all rows and columns.
            unsafe {
                self.multiply(&factors, channels.len() * plan.taps, block == blocks.start, sums)
            };
        }
    }

    /// Transposes the gradient of the output: panels of channels, the channels of each position
    /// side by side.
    ///
    /// # Safety
    /// The operands must be registered.
    unsafe fn pack_gradient(
        &self,
        group: usize,
        pieces: &[Piece],
        positions: usize,
        target: &mut [C],
    ) {
        let outputs = self.plan.geometry.outputs;
        let y = &self.operands.y;
        let pack = C::packer(y.dtype);
        for first in (0..outputs).step_by(self.kernels.columns()) {
            let lanes = self.kernels.columns().min(outputs - first);
            let width = lanes.next_multiple_of(self.kernels.lanes);
            for piece in pieces {
                let strip = Strip {
                    start: y.at([piece.image, group * outputs + first, piece.row, piece.column]),
                    lanes,
                    lane_stride: y.strides[1],
                    depth: piece.width,
                    depth_stride: y.strides[3],
                };
                let target = &mut target[first * positions + piece.at * width..];
                debug_assert!(target.len() >= piece.width * width);
                // SAFETY: by the caller's word; the panels have room for all positions.
                unsafe { pack(self.level, &strip, width, target.as_mut_ptr()) };
            }
        }
    }

    /// Adds the product of one block.
    ///
    /// # Safety
    /// The factors must hold so many rows.
    unsafe fn multiply(&self, factors: &Factors<C>, rows: usize, begins: bool, sums: &mut [C]) {
        let columns = self.plan.columns;
        let tile_rows = even(rows, self.kernels.rows(true));
        for column in (0..columns).step_by(self.kernels.columns()) {
            let width = self.kernels.columns().min(columns - column);
            for row in (0..rows).step_by(tile_rows) {
                let tile_rows = tile_rows.min(rows - row);
                let to = &raw mut sums[row * columns + column];
                let call = Call {
                    a: factors.rows.wrapping_add(row * factors.row_stride),
                    a_stride: factors.row_stride,
                    b: factors.panels.wrapping_add(column * factors.positions),
                    b_stride: width,
                    steps: factors.positions,
                    pieces: 1,
                    a_jump: 0,
                    from: if begins { std::ptr::null() } else { to.cast_const() },
                    from_stride: columns,
                    to,
                    to_stride: columns,
                    columns: width,
                    ending: Ending::PLAIN,
                };
                // SAFETY: by the caller's word; the accumulators have these rows and whole vectors.
                unsafe { self.kernels.for_adjacent_steps(tile_rows, width, true)(&call) };
            }
        }
    }

    /// Adds up the parts for a chunk of channels of y, and stores them.
    ///
    /// # Safety
    /// The weight must be registered as written, and these channels be this thread's alone.
    unsafe fn finish(&self, group: usize, first: usize, sums: &[C]) {
        let plan = self.plan;
        let Geometry { inputs, outputs, .. } = plan.geometry;
        let (rows, lanes) = (inputs * plan.taps, CHUNK.min(outputs - first));
        let mut tile = vec![C::default(); rows * CHUNK];
        for row in 0..rows {
            let mut total = [C::default(); CHUNK];
            for part in sums.chunks_exact(plan.part_elements) {
                let at = (group * rows + row) * plan.columns + first;
                for (total, &sum) in total.iter_mut().zip(&part[at..][..lanes]) {
                    *total = *total + sum;
                }
            }
            total.iter().enumerate().for_each(|(lane, &total)| tile[lane * rows + row] = total);
        }
        let weight = &self.operands.weight;
        let [_, input, row_tap, column_tap] = weight.strides;
        let runs = Runs::new([
            (inputs, input),
            (plan.axes[0].taps, row_tap),
            (plan.axes[1].taps, column_tap),
        ]);
        for (lane, values) in tile.chunks_exact(rows.max(1)).take(lanes).enumerate() {
            let start = weight.at([group * outputs + first + lane, 0, 0, 0]);
            for (run, values) in runs.starts().zip(values.chunks_exact(runs.length)) {
                let start = start.wrapping_add(run * weight.dtype.size());
                let row = Row { start, dtype: weight.dtype, stride: runs.stride };
                // SAFETY: by the caller's word; the run lies inside the weight.
                unsafe { row.store(0, values) };
            }
        }
    }
}

/// Both factors of one block.
struct Factors<C> {
    /// A row for each channel and tap, dense along positions.
    rows: *const C,
    row_stride: usize,
    panels: *const C,
    positions: usize,
}
