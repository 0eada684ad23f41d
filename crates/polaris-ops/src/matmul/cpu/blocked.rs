//! Cache-blocked matmul.
//!
//! B is packed in panels, by all threads together, or read in place. Then each thread takes tasks, blocks of the
//! result, and for each block of k packs the task's rows of A and passes panels of B by them. A task owns its part of
//! the result, so that no thread waits for another, and applies the epilogue after the last block of k.

use std::sync::atomic::{AtomicUsize, Ordering};

use polaris_runtime::cpu::{SimdLevel, ThreadPool};

use super::ending::Direct;
use super::finish::{Place, Sum, TILE_STRIDE, store};
use super::kernel::{Call, Ending, Kernel, MAX_TILE};
use super::pack::Strip;
use super::panels::{Arithmetic, PanelLayout};
use super::plan::{Plan, even};
use super::product::Product;
use crate::cpu::map::SendPointer;

/// Bytes of B that stay near while all rows of A pass by.
const NEAR_BYTES: usize = 96 << 10;

/// B, or some columns of it, as tasks find it.
#[derive(Clone, Copy)]
pub(super) struct Right {
    /// The first of these columns in the result.
    pub first_column: usize,
    pub layout: PanelLayout,
    /// The first packed panel; those before it are read in place.
    pub first_packed: usize,
    pub panels: SendPointer,
    /// Initial accumulators, a number for each column, or null.
    pub corrections: SendPointer,
}

/// A product and everything its tasks share.
pub(super) struct Blocked<'a, P: 'static, S: Sum> {
    pub product: &'a Product,
    pub arithmetic: &'a Arithmetic<P, S>,
    pub level: SimdLevel,
    pub plan: Plan,
    /// Whether A is read in place.
    pub left_in_place: bool,
    /// Memory of each worker, and its bytes.
    pub workers: SendPointer,
    pub worker_bytes: usize,
}

/// What a task begins with in one block of k.
struct Block<P, S> {
    /// The first of the task's rows and columns of B, and how many.
    place: Place,
    /// The first step of k and how many.
    first_step: usize,
    steps: usize,
    /// Rows of a panel of A.
    panel_rows: usize,
    packed_left: *const P,
    /// Initial accumulators, or null.
    from: (*const S, usize),
    to: To<S>,
}

/// Where the accumulators of a block go.
#[derive(Clone, Copy)]
enum To<S> {
    /// To memory where accumulators are kept for the next block, with its row stride.
    Kept(*mut S, usize),
    /// To the result, by the kernels themselves.
    Result(Direct<S>),
    /// To the result, after all else that follows a product.
    Finish,
}

impl<P: Copy + Send + Sync, S: Sum> Blocked<'_, P, S> {
    /// Bytes that a worker needs.
    pub fn worker_bytes(plan: &Plan, left_in_place: bool, keeps_aside: bool) -> usize {
        let left = if left_in_place { 0 } else { plan.rows * plan.steps * size_of::<P>() };
        let aside = if keeps_aside { plan.rows * plan.columns * size_of::<S>() } else { 0 };
        left.next_multiple_of(64) + aside.next_multiple_of(64)
    }

    /// Computes some columns, in tasks.
    ///
    /// # Safety
    /// The product's memory must be registered, and `right` be as it says.
    pub unsafe fn run(&self, pool: Option<&ThreadPool>, right: &Right) {
        let plan = &self.plan;
        let (row_tasks, column_tasks) =
            (self.product.m.div_ceil(plan.rows), right.layout.columns.div_ceil(plan.columns));
        let tasks = row_tasks * column_tasks;
        let compute = |worker: usize, task: usize| {
            let (row, column) =
                (task / column_tasks * plan.rows, task % column_tasks * plan.columns);
            let place = Place {
                row,
                rows: plan.rows.min(self.product.m - row),
                column,
                columns: plan.columns.min(right.layout.columns - column),
            };
            // SAFETY: tasks have disjoint places and workers their own memory.
            unsafe { self.task(right, place, worker) };
        };
        match pool {
            Some(pool) if tasks > 1 => {
                let next = AtomicUsize::new(0);
                pool.run(pool.threads().min(tasks), |worker| {
                    loop {
                        let task = next.fetch_add(1, Ordering::Relaxed);
                        if task >= tasks {
                            return;
                        }
                        compute(worker, task);
                    }
                });
            }
            _ => (0..tasks).for_each(|task| compute(0, task)),
        }
    }

    /// # Safety
    /// The place and the worker's memory must be this thread's alone.
    unsafe fn task(&self, right: &Right, place: Place, worker: usize) {
        let Self { product, plan, .. } = self;
        let out = &product.out;
        let all_steps = right.layout.steps;
        let blocks = all_steps.div_ceil(plan.steps.max(1)).max(1);
        let panel_rows = even(place.rows, self.arithmetic.kernels.rows(self.left_in_place));
        let to_output = out.column_stride == 1 && out.dtype == S::DTYPE;
        let is_corrected = !right.corrections.get().is_null();
        let direct = Direct::<S>::new(product).filter(|d| !is_corrected || d.bias(0).is_null());
        // SAFETY: the worker's memory holds both parts.
        let (packed_left, aside) = unsafe {
            let start = self.workers.get().add(worker * self.worker_bytes);
            let left_bytes = if self.left_in_place {
                0
            } else {
                (plan.rows * plan.steps * size_of::<P>()).next_multiple_of(64)
            };
            (start.cast::<P>(), start.add(left_bytes).cast::<S>())
        };
        let kept = if to_output && !product.in_place {
            let start = out.at(place.row, right.first_column + place.column).cast::<S>();
            (start, out.row_stride)
        } else {
            (aside, plan.columns)
        };
        for index in 0..blocks {
            let first_step = index * plan.steps;
            let steps = plan.steps.min(all_steps - first_step);
            if !self.left_in_place {
                // SAFETY: the rows lie inside A and fit into the worker's memory.
                unsafe { self.pack_left(place, first_step, steps, panel_rows, packed_left) };
            }
            let to = match &direct {
                _ if index + 1 < blocks => To::Kept(kept.0, kept.1),
                Some(direct) => To::Result(*direct),
                None => To::Finish,
            };
            let from = match index {
                0 => (self.beginning(right, direct.as_ref(), place.column), 0),
                _ => (kept.0.cast_const(), kept.1),
            };
            let block = Block { place, first_step, steps, panel_rows, packed_left, from, to };
            // SAFETY: by the caller's word.
            unsafe { self.block(right, &block) };
        }
    }

    /// Initial accumulators from one of these columns on, or null.
    fn beginning(&self, right: &Right, direct: Option<&Direct<S>>, column: usize) -> *const S {
        match direct {
            _ if !right.corrections.get().is_null() => {
                right.corrections.get().cast::<S>().cast_const().wrapping_add(column)
            }
            Some(direct) => direct.bias(right.first_column + column),
            None => std::ptr::null(),
        }
    }

    /// # Safety
    /// `target` must have room for the block.
    unsafe fn pack_left(
        &self,
        place: Place,
        first_step: usize,
        steps: usize,
        panel_rows: usize,
        target: *mut P,
    ) {
        let (product, group) = (self.product, self.arithmetic.group);
        for row in (0..place.rows).step_by(panel_rows) {
            let rows = panel_rows.min(place.rows - row);
            let strip = Strip {
                start: product.a.at(place.row + row, first_step * group),
                lanes: rows,
                lane_stride: product.a.row_stride,
                depth: (product.k - first_step * group).min(steps * group),
                depth_stride: product.a.column_stride,
            };
            // SAFETY: the strip lies inside A; by the caller's word for the target.
            unsafe {
                (self.arithmetic.pack_left)(self.level, &strip, rows, target.add(row * steps));
            }
        }
    }

    /// Passes panels of B by the rows of one block.
    ///
    /// # Safety
    /// As for `task`.
    unsafe fn block(&self, right: &Right, block: &Block<P, S>) {
        let layout = &right.layout;
        let Place { rows, column: first_column, columns, .. } = block.place;
        let mut tile: Option<Tile<S>> = None;
        let stay = self.plan.resident_columns;
        for part in (0..columns).step_by(stay) {
            for row in (0..rows).step_by(block.panel_rows) {
                let tile_rows = block.panel_rows.min(rows - row);
                let mut panel = (first_column + part) / layout.panel;
                let mut offset = part;
                while offset < columns.min(part + stay) {
                    let column = first_column + offset;
                    let panel_columns = layout.columns_of(panel);
                    let (b, b_stride) = self.right_panel(right, panel, block.first_step);
                    let (kernel, a, a_stride) =
                        self.left_panel(block, row, tile_rows, panel_columns);
                    let place = Place {
                        row: block.place.row + row,
                        rows: tile_rows,
                        column: right.first_column + column,
                        columns: panel_columns,
                    };
                    let (from, from_stride) = match block.from {
                        (start, _) if start.is_null() => (start, 0),
                        (start, stride) => (start.wrapping_add(row * stride + offset), stride),
                    };
                    let (to, to_stride, ending) = match (&block.to, &mut tile) {
                        (To::Kept(start, stride), _) => {
                            (start.wrapping_add(row * stride + offset), *stride, Ending::PLAIN)
                        }
                        (To::Result(direct), _) => {
                            let out = &self.product.out;
                            let to = out.at(place.row, place.column).cast();
                            (to, out.row_stride, direct.ending(place.row, place.column))
                        }
                        (To::Finish, tile) => {
                            let tile = tile.get_or_insert_default();
                            (tile.0.as_mut_ptr(), TILE_STRIDE, Ending::PLAIN)
                        }
                    };
                    let call = Call {
                        a,
                        a_stride,
                        b,
                        b_stride,
                        steps: block.steps,
                        pieces: 1,
                        a_jump: 0,
                        from,
                        from_stride,
                        to,
                        to_stride,
                        columns: panel_columns,
                        ending,
                    };
                    // SAFETY: the panels hold `steps` steps of at least these rows and columns,
                    // and the accumulators' memory is this task's.
                    unsafe { kernel(&call) };
                    if let Some(tile) = &tile {
                        // SAFETY: by the caller's word.
                        unsafe { store(self.level, self.product, &tile.0, place) };
                    }
                    panel += 1;
                    offset += layout.panel;
                }
            }
        }
    }

    /// A panel of B at a step of k, and its stride.
    fn right_panel(&self, right: &Right, panel: usize, step: usize) -> (*const P, usize) {
        let layout = &right.layout;
        if panel < right.first_packed {
            let b = &self.product.b;
            let start = b.at(step, right.first_column + panel * layout.panel);
            return (start.cast(), b.row_stride);
        }
        let width = layout.width_of(panel);
        let first = layout.start_of(right.first_packed);
        let offset = layout.start_of(panel) - first + step * width;
        (right.panels.get().cast::<P>().wrapping_add(offset), width)
    }

    /// Rows of A for one tile: the kernel, where they begin, and their stride.
    fn left_panel(
        &self,
        block: &Block<P, S>,
        row: usize,
        rows: usize,
        columns: usize,
    ) -> (Kernel<P, S>, *const P, usize) {
        let kernels = self.arithmetic.kernels;
        if !self.left_in_place {
            let start = block.packed_left.wrapping_add(row * block.steps);
            return (kernels.for_adjacent_rows(rows, columns), start, rows);
        }
        let a = &self.product.a;
        let start = a.at(block.place.row + row, block.first_step).cast();
        match a.row_stride {
            1 => (kernels.for_adjacent_rows(rows, columns), start, a.column_stride),
            stride => {
                let bytes = block.place.columns * block.steps * size_of::<P>();
                let near = bytes <= NEAR_BYTES;
                (kernels.for_adjacent_steps(rows, columns, near), start, stride)
            }
        }
    }
}

/// Aligned so that no vector of a tile crosses a cache line.
#[repr(align(64))]
pub(crate) struct Tile<S>(pub [S; MAX_TILE]);

impl<S: Sum> Default for Tile<S> {
    fn default() -> Self {
        Self([S::default(); MAX_TILE])
    }
}
