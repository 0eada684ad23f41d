//! Every channel of the result sees every channel of the image, or of its group: matmuls with the micro-kernels of
//! `matmul`, positions by taps times taps by channels.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use polaris_runtime::cpu::CpuDevice;

use super::super::super::geometry::Geometry;
use super::finish::{store, store_all};
use super::pack::Packing;
use super::taps::{gather, pitch};
use super::{Job, Packed, Target};
use crate::cpu::map::SendPointer;
use crate::cpu::simd::multiversion;
use crate::matmul::cpu::{Call, Ending, Kernels, TILE_STRIDE, Tile, ToBytes, even};

/// Multiplications that are worth a task of their own.
const TASK: usize = 1 << 20;
/// Tasks for each thread, so that one that was held up is not waited for long.
const TASKS_PER_THREAD: usize = 4;
/// Bytes of the left factor of a strip of positions: it stays in the L2 cache while panels of the weight pass by.
const STRIP_BYTES: usize = 256 << 10;
/// Bytes of a panel of weights that stays in the L1 cache.
const NEAR_BYTES: usize = 24 << 10;

/// The product of one group of channels.
struct Shape {
    kernels: &'static Kernels<u32, i32>,
    /// Taps in an element.
    group: usize,
    /// Groups, and channels of the image and of the result in each.
    groups: usize,
    inputs: usize,
    outputs: usize,
    /// Elements along a row of the left factor that follow one another, how often, and from the end of a piece to the next.
    steps: usize,
    pieces: usize,
    jump: usize,
    /// Elements from the taps of a position that are gathered to those of the next.
    row: usize,
    /// Whether the taps of all groups are gathered together: they are longer stretches, of which those of one group are
    /// pieces.
    at_once: bool,
    /// Panels of a group.
    panels: usize,
}

impl Shape {
    fn of(packing: &Packing, geometry: &Geometry) -> Option<Self> {
        let (kernels, group) = packing.kernels()?;
        let [rows, columns] = &geometry.lengths;
        let taps = rows.kernel * columns.kernel;
        let [groups, inputs, outputs] = packing.groups();
        let panels = outputs.div_ceil(kernels.columns());
        let at_once = groups > 1 && inputs.is_multiple_of(group);
        let gathered = if at_once { groups * inputs } else { inputs };
        let row = pitch(gathered * taps, columns.kernel, gathered).div_ceil(group);
        let (steps, pieces) = match at_once {
            true => (inputs / group, taps),
            false => ((inputs * taps).div_ceil(group), 1),
        };
        let jump = if at_once { (groups - 1) * steps } else { 0 };
        Some(Self {
            kernels,
            group,
            groups,
            inputs,
            outputs,
            steps,
            pieces,
            jump,
            row,
            at_once,
            panels,
        })
    }

    /// Steps of all pieces.
    fn depth(&self) -> usize {
        self.steps * self.pieces
    }

    /// Positions of a strip.
    fn strip(&self) -> usize {
        let tile = self.kernels.rows(true);
        (STRIP_BYTES / (4 * self.row * tile)).max(1) * tile
    }

    /// Bytes of a strip.
    fn strip_bytes(&self) -> usize {
        self.strip() * self.row * size_of::<u32>()
    }
}

/// What `run` needs to gather taps in.
pub fn scratch_bytes(packing: &Packing, geometry: &Geometry, workers: usize) -> usize {
    Shape::of(packing, geometry).map_or(0, |shape| workers * shape.strip_bytes())
}

/// How the product is cut into tasks: whole tiles of positions, and panels of all groups.
struct Cut {
    positions: usize,
    panels: usize,
    position_tasks: usize,
    panel_tasks: usize,
}

impl Cut {
    /// Weights that are larger than the images are each looked at by one thread only; otherwise
    /// positions are, with all weights.
    fn new(job: &Job, shape: &Shape, threads: usize) -> Self {
        let geometry = job.geometry;
        let [rows, columns] = &geometry.lengths;
        let (positions, tile) = (job.positions(), shape.kernels.rows(true));
        let tiles = positions.div_ceil(tile);
        let panels = shape.groups * shape.panels;
        let depth = shape.depth() * shape.group;
        let work = positions * depth * geometry.groups * geometry.outputs;
        let wanted =
            if threads == 1 { 1 } else { (work / TASK).clamp(1, threads * TASKS_PER_THREAD) };
        let seen = geometry.images * rows.input * columns.input * geometry.inputs;
        let (position_tasks, panel_tasks) = if depth * geometry.outputs > seen {
            let panel_tasks = wanted.min(panels);
            ((wanted / panel_tasks).clamp(1, tiles), panel_tasks)
        } else {
            let position_tasks = wanted.min(tiles);
            (position_tasks, (wanted / position_tasks).clamp(1, panels))
        };
        let positions = tiles.div_ceil(position_tasks) * tile;
        Self { positions, panels: panels.div_ceil(panel_tasks), position_tasks, panel_tasks }
    }
}

/// # Safety
/// All memory of the job must be registered, and `strips` have room for `scratch_bytes`.
pub unsafe fn run(cpu: &CpuDevice, job: &Job, strips: SendPointer) {
    let Some(shape) = Shape::of(&job.packed.packing, job.geometry) else { return };
    let cut = Cut::new(job, &shape, cpu.pool().threads());
    let (positions, panels) = (job.positions(), shape.groups * shape.panels);
    let tasks = cut.position_tasks * cut.panel_tasks;
    let strip_bytes = shape.strip_bytes();
    let next = AtomicUsize::new(0);
    cpu.pool().run(cpu.pool().threads().min(tasks), |worker| {
        let mut tile = Tile::default();
        let strip = SendPointer(strips.get().wrapping_add(worker * strip_bytes));
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                return;
            }
            let (position_task, panel_task) = (task / cut.panel_tasks, task % cut.panel_tasks);
            let first = (position_task * cut.positions).min(positions);
            let positions = first..positions.min(first + cut.positions);
            let first = (panel_task * cut.panels).min(panels);
            let panels = first..panels.min(first + cut.panels);
            // SAFETY: tasks have disjoint positions and panels, and workers a strip each.
            unsafe { task_of(job, &shape, positions, panels, strip, &mut tile) };
        }
    });
}

/// Strip after strip of positions, each with panel after panel.
///
/// # Safety
/// The positions and panels of the result, and the strip, must be this thread's alone.
unsafe fn task_of(
    job: &Job,
    shape: &Shape,
    positions: Range<usize>,
    panels: Range<usize>,
    strip: SendPointer,
    tile: &mut Tile<i32>,
) {
    let in_place = job.in_place(shape.group);
    let length = even(positions.len(), shape.strip());
    for first in positions.clone().step_by(length.max(1)) {
        let positions = first..positions.end.min(first + length);
        let mut gathered = None;
        for panel in panels.clone() {
            let group = panel / shape.panels;
            let left = match in_place {
                Some(column) => {
                    let at = positions.start * column + group * shape.inputs;
                    let start = job.image.start.get().wrapping_add(at).cast();
                    Left { start, stride: column / 4, jump: 0 }
                }
                None => {
                    let (channels, at) = match shape.at_once {
                        true => (0..shape.groups * shape.inputs, group * shape.steps),
                        false => (group * shape.inputs..(group + 1) * shape.inputs, 0),
                    };
                    if gathered != Some(channels.start) {
                        gathered = Some(channels.start);
                        let (level, row) = (job.packed.packing.level(), shape.row * shape.group);
                        let gather = if shape.group == 4 { gather::<u8> } else { gather::<u16> };
                        gather(level, job, channels, positions.clone(), strip, row);
                    }
                    let start = strip.get().cast::<u32>().wrapping_add(at).cast_const();
                    Left { start, stride: shape.row, jump: shape.jump }
                }
            };
            // SAFETY: by the caller's word; the left factor has a row for each position.
            unsafe { multiply(job, shape, positions.clone(), panel, left, tile) };
        }
    }
}

/// A left factor: rows of pieces of steps.
#[derive(Clone, Copy)]
struct Left {
    start: *const u32,
    stride: usize,
    jump: usize,
}

/// Some positions times a panel, tile by tile.
///
/// # Safety
/// As for `task_of`; the left factor must have a row for each position.
unsafe fn multiply(
    job: &Job,
    shape: &Shape,
    positions: Range<usize>,
    panel: usize,
    left: Left,
    tile: &mut Tile<i32>,
) {
    let packed = job.packed;
    let width = shape.kernels.columns();
    let first = panel % shape.panels * width;
    let columns = width.min(shape.outputs - first);
    let channel = panel / shape.panels * shape.outputs + first;
    let weights = job.weights.get().cast::<u32>().cast_const();
    let near = shape.depth() * width * 4 <= NEAR_BYTES;
    let rows = even(positions.len(), shape.kernels.rows(true));
    let corrections = &packed.corrections[channel..channel + columns];
    let factors = &packed.factors[channel..channel + columns];
    let start = job.target.start.get().wrapping_add(channel * job.target.strides[1]);
    let target = Target { start: SendPointer(start), ..job.target };
    let bytes = ToBytes { factors: factors.as_ptr(), bounds: packed.limits.bounds() };
    // Where rows of the result are evenly apart, kernels store them themselves.
    let direct = job.direct_step();
    for start in positions.clone().step_by(rows.max(1)) {
        let count = rows.min(positions.end - start);
        let (to, to_stride, bytes) = match direct {
            Some(step) => (target.start.get().wrapping_add(start * step), step, &raw const bytes),
            None => (tile.0.as_mut_ptr().cast(), TILE_STRIDE, std::ptr::null()),
        };
        let call = Call {
            a: left.start.wrapping_add((start - positions.start) * left.stride),
            a_stride: left.stride,
            b: weights.wrapping_add(panel * shape.depth() * width),
            b_stride: width,
            steps: shape.steps,
            pieces: shape.pieces,
            a_jump: left.jump,
            from: corrections.as_ptr(),
            from_stride: 0,
            to: to.cast(),
            to_stride,
            columns,
            ending: Ending { bytes, ..Ending::PLAIN },
        };
        // SAFETY: the tile lies inside the left factor, panels are as wide as kernels read, and the
        // tile's place in the result is this thread's alone.
        unsafe { shape.kernels.for_adjacent_steps(count, columns, near)(&call) };
        if direct.is_none() {
            let mut targets = [0; MOST_ROWS];
            for (row, to) in targets[..count].iter_mut().enumerate() {
                *to = job.target(job.place(start + row));
            }
            finish(packed.packing.level(), packed, &tile.0, factors, target, &targets[..count]);
        }
    }
}

/// The most rows of a tile of any kernel.
const MOST_ROWS: usize = 16;
/// Sums that become bytes together.
const LANES: usize = 16;

multiversion! {
    /// Stores a tile. The caller vouches that the rows of the target are its own.
    fn finish<>(packed: &Packed, sums: &[i32], factors: &[f32], target: Target, rows: &[usize]) {
        let stride = target.strides[1];
        for (sums, &at) in sums.chunks_exact(TILE_STRIDE).zip(rows) {
            let mut to = target.start.get().wrapping_add(at);
            for (sums, factors) in sums.chunks_exact(LANES).zip(factors.chunks(LANES)) {
                // SAFETY: by the caller's word.
                unsafe {
                    match (sums.first_chunk::<LANES>(), factors.first_chunk()) {
                        (Some(sums), Some(factors)) if stride == 1 => {
                            store_all(sums, factors, packed.limits, to);
                        }
                        _ => store(&sums[..factors.len()], factors, packed.limits, to, stride),
                    }
                }
                to = to.wrapping_add(LANES * stride);
            }
        }
    }
}
