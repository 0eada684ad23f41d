//! Dense NHWC convolutions: matmuls with the micro-kernels of `matmul`, whose left operand, positions by taps, is the
//! image itself. Positions of a row of the result are rows of that operand, and the taps of a kernel row are one
//! contiguous piece of each.

use std::sync::atomic::{AtomicUsize, Ordering};

use polaris_runtime::cpu::CpuDevice;

use super::Job;
use super::padded::{Padded, Part};
use crate::matmul::cpu::{
    Call, Direct, Ending, Place, TILE_STRIDE, Tile, even, f32_kernels, store,
};

/// Multiplications that are worth a task of their own.
const TASK: usize = 1 << 19;
/// Tasks for each thread, so that one that was held up is not waited for long.
const TASKS_PER_THREAD: usize = 4;

/// Taps that lie in pieces of equal lengths and distances in memory.
#[derive(Clone, Copy)]
struct Stretch {
    /// The first tap's row, and its first step of the packed weights.
    row: usize,
    first: usize,
    /// Steps of a piece, and how many pieces there are.
    steps: usize,
    pieces: usize,
    /// Elements of the image from the end of a piece to the next.
    jump: usize,
}

/// The stretches of the kernel: one, with a piece for each row, if columns follow one another in the
/// image; otherwise one for each row, with a piece for each tap.
fn stretches(job: &Job, image: &Padded) -> Vec<Stretch> {
    let [rows, columns] = &job.geometry.lengths;
    let channels = job.geometry.inputs;
    if columns.dilation == 1 && image.column == channels {
        let steps = columns.kernel * channels;
        let jump = (rows.dilation * image.row).wrapping_sub(steps);
        return vec![Stretch { row: 0, first: 0, steps, pieces: rows.kernel, jump }];
    }
    let jump = (columns.dilation * image.column).wrapping_sub(channels);
    let (pieces, steps) = (columns.kernel, channels);
    (0..rows.kernel)
        .map(|row| Stretch {
            row: row * rows.dilation,
            first: row * pieces * steps,
            steps,
            pieces,
            jump,
        })
        .collect()
}

/// How the result of a part is cut into tasks.
struct Cut {
    rows: usize,
    panels: usize,
    row_tasks: usize,
    panel_tasks: usize,
}

impl Cut {
    /// Weights that are larger than the images are each looked at by one thread only; otherwise rows
    /// are, with all weights.
    fn new(job: &Job, part: &Part, panels: usize, threads: usize) -> Self {
        let geometry = job.geometry;
        let [rows, columns] = &geometry.lengths;
        let steps = geometry.inputs * rows.kernel * columns.kernel;
        let all_rows = part.images * part.rows;
        let work = all_rows * columns.output * steps * geometry.outputs;
        let wanted =
            if threads == 1 { 1 } else { (work / TASK).clamp(1, threads * TASKS_PER_THREAD) };
        let weights_first = geometry.outputs * steps > all_rows * columns.input * geometry.inputs;
        let (row_tasks, panel_tasks) = if weights_first {
            let panel_tasks = wanted.min(panels);
            ((wanted / panel_tasks).clamp(1, all_rows), panel_tasks)
        } else {
            let row_tasks = wanted.min(all_rows);
            (row_tasks, (wanted / row_tasks).clamp(1, panels))
        };
        let (rows, panels) = (all_rows.div_ceil(row_tasks), panels.div_ceil(panel_tasks));
        Self { rows, panels, row_tasks, panel_tasks }
    }
}

pub(super) fn run(cpu: &CpuDevice, job: &Job, part: &Part, image: &Padded) {
    let geometry = job.geometry;
    let width = f32_kernels(cpu.simd()).columns();
    let panels = geometry.outputs.div_ceil(width);
    let stretches = stretches(job, image);
    let cut = Cut::new(job, part, panels, cpu.pool().threads());
    let all_rows = part.images * part.rows;
    let next = AtomicUsize::new(0);
    let tasks = cut.row_tasks * cut.panel_tasks;
    cpu.pool().run(cpu.pool().threads().min(tasks), |_| {
        let mut tile = Tile::default();
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                return;
            }
            let (row_task, panel_task) = (task / cut.panel_tasks, task % cut.panel_tasks);
            let rows = row_task * cut.rows..all_rows.min((row_task + 1) * cut.rows);
            let end = panels.min((panel_task + 1) * cut.panels);
            for panel in panel_task * cut.panels..end {
                for row in rows.clone() {
                    let (image_index, row) = (row / part.rows, row % part.rows);
                    // SAFETY: tasks have disjoint rows and panels.
                    unsafe {
                        let line = Line { image_index, row, panel };
                        compute(cpu, job, part, image, &stretches, line, &mut tile);
                    }
                }
            }
        }
    });
}

/// One row of the result's positions, and a panel of its channels.
#[derive(Clone, Copy)]
struct Line {
    image_index: usize,
    row: usize,
    panel: usize,
}

/// # Safety
/// The line must be this thread's alone.
unsafe fn compute(
    cpu: &CpuDevice,
    job: &Job,
    part: &Part,
    image: &Padded,
    stretches: &[Stretch],
    line: Line,
    tile: &mut Tile<f32>,
) {
    let geometry = job.geometry;
    let [rows, columns] = &geometry.lengths;
    let kernels = f32_kernels(cpu.simd());
    let width = kernels.columns();
    let steps = geometry.inputs * rows.kernel * columns.kernel;
    let first_channel = line.panel * width;
    let channels = width.min(geometry.outputs - first_channel);
    let weights = job.weights.wrapping_add(line.panel * steps * width);
    let product = job.line(part.first_image + line.image_index, part.first_row + line.row);
    let direct = Direct::<f32>::new(&product);
    let bias = direct.map_or(std::ptr::null(), |direct| direct.bias(first_channel));
    let most = kernels.rows(true);
    let tile_rows = even(columns.output, most);
    for first in (0..columns.output).step_by(tile_rows) {
        let count = tile_rows.min(columns.output - first);
        let kernel = kernels.for_adjacent_steps(count, channels, false);
        for (index, stretch) in stretches.iter().enumerate() {
            let a = image.at(
                line.image_index,
                line.row * rows.stride + stretch.row,
                first * columns.stride,
            );
            let sums = tile.0.as_mut_ptr();
            let (to, to_stride, ending) = match &direct {
                Some(direct) if index + 1 == stretches.len() => {
                    let to = product.out.at(first, first_channel).cast();
                    (to, product.out.row_stride, direct.ending(first, first_channel))
                }
                _ => (sums, TILE_STRIDE, Ending::PLAIN),
            };
            let (from, from_stride) =
                if index == 0 { (bias, 0) } else { (sums.cast_const(), TILE_STRIDE) };
            let call = Call {
                a,
                a_stride: columns.stride * image.column,
                b: weights.wrapping_add(stretch.first * width),
                b_stride: width,
                steps: stretch.steps,
                pieces: stretch.pieces,
                a_jump: stretch.jump,
                from,
                from_stride,
                to,
                to_stride,
                columns: channels,
                ending,
            };
            // SAFETY: positions and taps lie inside the padded image, and panels are as wide as the
            // kernels read.
            unsafe { kernel(&call) };
        }
        if direct.is_none() {
            let place = Place { row: first, rows: count, column: first_channel, columns: channels };
            // SAFETY: by the caller's word.
            unsafe { store(cpu.simd(), &product, &tile.0, place) };
        }
    }
}
