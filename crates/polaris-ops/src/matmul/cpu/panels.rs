//! B in panels: the columns of a tile, step after step of k.

use polaris_runtime::cpu::{SimdLevel, ThreadPool};

use super::kernel::{Call, Ending, Kernels};
use super::pack::{Packer, Strip};
use super::product::Plane;
use super::skinny::FewRows;
use crate::cpu::map::SendPointer;

/// The memory layout of packed columns: panel after panel, each with all steps of k. The last panel is as many
/// vectors wide as it needs, and padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PanelLayout {
    pub columns: usize,
    pub steps: usize,
    /// Columns of a whole panel.
    pub panel: usize,
    /// Columns of a vector.
    pub lanes: usize,
}

impl PanelLayout {
    pub fn new<P, S>(kernels: &Kernels<P, S>, columns: usize, steps: usize) -> Self {
        Self { columns, steps, panel: kernels.columns(), lanes: kernels.lanes }
    }

    pub fn panels(&self) -> usize {
        self.columns.div_ceil(self.panel)
    }

    /// Packed elements of all panels.
    pub fn elements(&self) -> usize {
        self.columns.next_multiple_of(self.lanes) * self.steps
    }

    /// Columns that a panel has.
    pub fn columns_of(&self, panel: usize) -> usize {
        self.panel.min(self.columns - panel * self.panel)
    }

    /// Columns that a panel has room for.
    pub fn width_of(&self, panel: usize) -> usize {
        // Lanes are a power of two; a division for each tile would be felt in small products.
        (self.columns_of(panel) + self.lanes - 1) & !(self.lanes - 1)
    }

    /// Where a panel begins.
    pub fn start_of(&self, panel: usize) -> usize {
        panel * self.panel * self.steps
    }
}

/// How the operands of a product are packed and multiplied.
pub(super) struct Arithmetic<P: 'static, S: 'static> {
    pub kernels: &'static Kernels<P, S>,
    pub pack_left: Packer<P>,
    pub pack_right: Packer<P>,
    /// Stored elements along k in a packed one.
    pub group: usize,
    /// Whether A's elements can be used where they are.
    pub left_in_place: bool,
    /// Whether B's can.
    pub right_in_place: bool,
    /// The left factor that yields what each sum has too much, if A is packed raised.
    pub excess: Option<P>,
    /// Kernels for few rows, where factors and accumulators have one type.
    pub few_rows: Option<FewRows<S>>,
}

/// A part of B and where its panels go.
#[derive(Clone, Copy)]
pub(super) struct PanelJob {
    /// B from the part's first column on.
    pub matrix: Plane,
    /// Stored elements along k.
    pub depth: usize,
    pub layout: PanelLayout,
    pub target: SendPointer,
    /// What each sum begins with, a number for each column; unused without an excess.
    pub corrections: SendPointer,
}

/// Steps of k that are packed before the next panel's: neighbouring panels then share pages.
const STEPS_AT_A_TIME: usize = 64;
/// Neighbouring panels that one thread packs together.
const PANELS_AT_A_TIME: usize = 4;

/// Packs columns of B, by all threads.
///
/// # Safety
/// The matrix must be readable, and the target writable for the layout's elements.
pub(super) unsafe fn pack_panels<P: Copy + Send + Sync, S: Copy + Negate>(
    arithmetic: &Arithmetic<P, S>,
    level: SimdLevel,
    pool: Option<&ThreadPool>,
    job: &PanelJob,
) {
    let layout = job.layout;
    let work = |group: usize| {
        let panels = group * PANELS_AT_A_TIME..layout.panels().min((group + 1) * PANELS_AT_A_TIME);
        for first in (0..layout.steps).step_by(STEPS_AT_A_TIME) {
            for panel in panels.clone() {
                let width = layout.width_of(panel);
                let depth = first * arithmetic.group;
                let strip = Strip {
                    start: job.matrix.at(depth, panel * layout.panel),
                    lanes: layout.columns_of(panel),
                    lane_stride: job.matrix.column_stride,
                    depth: (job.depth - depth).min(STEPS_AT_A_TIME * arithmetic.group),
                    depth_stride: job.matrix.row_stride,
                };
                let target = job.target.get().cast::<P>();
                // SAFETY: the strip lies inside the matrix, and its part of the target inside
                // the layout; no other thread has this panel.
                unsafe {
                    let target = target.add(layout.start_of(panel) + first * width);
                    (arithmetic.pack_right)(level, &strip, width, target);
                }
            }
        }
        if let Some(excess) = arithmetic.excess {
            // SAFETY: the panels are packed, and there is a correction for each column.
            panels.for_each(|panel| unsafe { correct(arithmetic, job, panel, excess) });
        }
    };
    let groups = layout.panels().div_ceil(PANELS_AT_A_TIME);
    match pool {
        Some(pool) => pool.run(groups, work),
        None => (0..groups).for_each(work),
    }
}

/// The negative of a sum.
pub(super) trait Negate {
    fn negative(self) -> Self;
}

impl Negate for f32 {
    fn negative(self) -> Self {
        -self
    }
}

impl Negate for f64 {
    fn negative(self) -> Self {
        -self
    }
}

impl Negate for i32 {
    fn negative(self) -> Self {
        self.wrapping_neg()
    }
}

/// Computes what each column's accumulators have too much: a row of the excess times B.
///
/// # Safety
/// The panel must be packed, and no other thread have its corrections.
unsafe fn correct<P: Copy, S: Copy + Negate>(
    arithmetic: &Arithmetic<P, S>,
    job: &PanelJob,
    panel: usize,
    excess: P,
) {
    let layout = job.layout;
    let (columns, width) = (layout.columns_of(panel), layout.width_of(panel));
    // SAFETY: by the caller's word; the left factor is the same in every step.
    unsafe {
        let to = job.corrections.get().cast::<S>().add(panel * layout.panel);
        let call = Call {
            a: &raw const excess,
            a_stride: 0,
            b: job.target.get().cast::<P>().add(layout.start_of(panel)),
            b_stride: width,
            steps: layout.steps,
            pieces: 1,
            a_jump: 0,
            from: std::ptr::null(),
            from_stride: 0,
            to,
            to_stride: 0,
            columns,
            ending: Ending::PLAIN,
        };
        (arithmetic.kernels.for_adjacent_rows(1, columns))(&call);
        (0..columns).for_each(|column| *to.add(column) = (*to.add(column)).negative());
    }
}
