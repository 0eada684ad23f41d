//! A batch of matmuls: which operands are packed, the memory for it, and the work of each thread.

use std::sync::atomic::{AtomicUsize, Ordering};

use polaris_core::DType;
use polaris_runtime::cpu::{SimdLevel, ThreadPool};
use polaris_runtime::{Buffer, DeviceExt, DeviceRef, HostOperands};

use super::Computation;
use super::blocked::{Blocked, Right};
use super::finish::Sum;
use super::panels::{Arithmetic, Negate, PanelJob, PanelLayout, pack_panels};
use super::plan::{Plan, Sizes};
use super::product::{Plane, Product};
use super::skinny::{Skinny, is_skinny, row_elements};
use super::small;
use crate::Result;
use crate::cpu::map::SendPointer;

/// Multiplications of a product that is not worth a second thread.
pub(super) const SMALL: usize = 1 << 20;
/// Elements of A, and of B, that are not worth packing.
pub(super) const SMALL_MATRIX: usize = 1 << 14;

/// Rows of A that are a multiple of so many bytes apart fall on a few sets of the L1 cache, and drive each other out:
/// those are packed. Others, with adjacent steps of k, are read in place.
const SAME_SETS: usize = 2 << 10;

/// Products that differ in where their matrices begin.
pub(super) struct Batch<'a> {
    pub level: SimdLevel,
    pub pool: &'a ThreadPool,
    pub device: &'a DeviceRef,
    pub count: usize,
    /// For sizes and strides.
    pub first: &'a Product,
    pub product: &'a (dyn Fn(usize) -> Product + Sync),
    /// B, where it was packed before.
    pub packed: Option<PackedRight>,
}

/// A whole B in panels.
#[derive(Clone, Copy)]
pub(super) struct PackedRight {
    pub layout: PanelLayout,
    pub panels: SendPointer,
    /// Bytes from the panels to the initial accumulators.
    pub correction_offset: usize,
}

/// How each product of a batch is computed, and the memory it takes.
struct Setup {
    plan: Plan,
    steps: usize,
    left_in_place: bool,
    right_in_place: bool,
    panel_bytes: usize,
    correction_bytes: usize,
    worker_bytes: usize,
}

impl Computation for Batch<'_> {
    type Result = ();

    fn run<P, S>(self, arithmetic: &Arithmetic<P, S>) -> Result<()>
    where
        P: Copy + Send + Sync,
        S: Sum + Negate,
    {
        let pool = self.pool;
        let first = self.first;
        if self.count == 1 && self.packed.is_none() && small::is_small(arithmetic, first) {
            // SAFETY: the operands are registered by `run`.
            unsafe { small::run(arithmetic.kernels, &(self.product)(0)) };
            return Ok(());
        }
        // A result whose rows are adjacent is stored faster the other way round, unless there are different types on
        // the left and right.
        let has_skinny = arithmetic.few_rows.is_some();
        let is_alike = arithmetic.group == 1 && first.a.dtype == first.b.dtype;
        let can_turn = is_alike && self.packed.is_none();
        let turned = can_turn && is_better_turned(first, has_skinny);
        let first = if turned { first.transposed() } else { *first };
        let work = first.m.saturating_mul(first.n).saturating_mul(first.k);
        // Small products are shared out whole, large ones in parts.
        let in_parts = self.count == 1 || (work > SMALL && self.count < 4 * pool.threads());
        let threads = if in_parts && work > SMALL { pool.threads() } else { 1 };
        let setup = Setup::new(arithmetic, &first, threads, self.packed.is_some());
        let runners = if in_parts { 1 } else { pool.threads().min(self.count) };
        let runner_bytes =
            setup.panel_bytes + setup.correction_bytes + threads * setup.worker_bytes;
        let scratch = Scratch::new(self.device, runners * runner_bytes)?;
        let operands = scratch.operands()?;
        let start = SendPointer(operands.as_ref().map_or(std::ptr::null_mut(), |o| o.output()));
        let one = |index: usize, pool: Option<&ThreadPool>, scratch: SendPointer| {
            let product = (self.product)(index);
            let product = if turned { product.transposed() } else { product };
            // SAFETY: the operands are registered by `run`, and the scratch memory is this
            // runner's alone.
            unsafe { self.one(arithmetic, &setup, &product, pool, scratch.get()) };
        };
        if in_parts {
            let pool = (threads > 1).then_some(pool);
            (0..self.count).for_each(|index| one(index, pool, start));
            return Ok(());
        }
        let next = AtomicUsize::new(0);
        pool.run(runners, |runner| {
            let scratch = SendPointer(start.get().wrapping_add(runner * runner_bytes));
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                if index >= self.count {
                    return;
                }
                one(index, None, scratch);
            }
        });
        Ok(())
    }
}

impl Batch<'_> {
    /// Computes one product, some columns after the other.
    ///
    /// # Safety
    /// The product's memory must be registered, and the scratch memory be as large as the setup
    /// says.
    unsafe fn one<P, S>(
        &self,
        arithmetic: &Arithmetic<P, S>,
        setup: &Setup,
        product: &Product,
        pool: Option<&ThreadPool>,
        scratch: *mut u8,
    ) where
        P: Copy + Send + Sync,
        S: Sum + Negate,
    {
        let level = self.level;
        let few_rows = arithmetic.few_rows.filter(|_| is_skinny(product) && self.packed.is_none());
        if let Some(kernels) = few_rows {
            let skinny = Skinny { product, kernels, level, rows: scratch.cast() };
            // SAFETY: by the caller's word; there are such kernels where factors are accumulators.
            return unsafe { skinny.run(pool) };
        }
        let corrections = scratch.wrapping_add(setup.panel_bytes);
        let blocked = Blocked {
            product,
            arithmetic,
            level,
            plan: setup.plan,
            left_in_place: setup.left_in_place,
            workers: SendPointer(corrections.wrapping_add(setup.correction_bytes)),
            worker_bytes: setup.worker_bytes,
        };
        if let Some(packed) = &self.packed {
            let corrections = packed.panels.get().wrapping_add(packed.correction_offset);
            let right = Right {
                first_column: 0,
                layout: packed.layout,
                first_packed: 0,
                panels: packed.panels,
                corrections: corrections_or_null(arithmetic, corrections),
            };
            // SAFETY: by the caller's word; the panels were packed with this arithmetic.
            return unsafe { blocked.run(pool, &right) };
        }
        let part = if setup.right_in_place { product.n } else { setup.plan.packed_columns };
        for first_column in (0..product.n).step_by(part) {
            let columns = part.min(product.n - first_column);
            let layout = PanelLayout::new(arithmetic.kernels, columns, setup.steps);
            let first_packed = setup.first_packed(&layout);
            let right = Right {
                first_column,
                layout,
                first_packed,
                panels: SendPointer(scratch),
                corrections: corrections_or_null(arithmetic, corrections),
            };
            let packed_from = first_packed * layout.panel;
            if packed_from < columns {
                let job = PanelJob {
                    matrix: from_column(&product.b, first_column + packed_from),
                    depth: product.k,
                    layout: PanelLayout { columns: columns - packed_from, ..layout },
                    target: right.panels,
                    corrections: right.corrections,
                };
                // SAFETY: the columns lie inside B, and the scratch memory has room for them.
                unsafe { pack_panels(arithmetic, level, pool, &job) };
            }
            // SAFETY: by the caller's word; the panels are packed.
            unsafe { blocked.run(pool, &right) };
        }
    }
}

/// Initial accumulators, if any.
fn corrections_or_null<P, S>(arithmetic: &Arithmetic<P, S>, corrections: *mut u8) -> SendPointer {
    SendPointer(if arithmetic.excess.is_some() { corrections } else { std::ptr::null_mut() })
}

/// Whether the transposed product is faster: few columns become few rows, and a result with
/// adjacent rows one with adjacent columns.
fn is_better_turned(product: &Product, has_skinny: bool) -> bool {
    if has_skinny && (is_skinny(product) || is_skinny(&product.transposed())) {
        return product.n < product.m || !is_skinny(product);
    }
    product.out.column_stride != 1 && product.out.row_stride == 1
}

/// A matrix without its first columns.
fn from_column(matrix: &Plane, column: usize) -> Plane {
    matrix.moved(column * matrix.column_stride)
}

impl Setup {
    fn new<P: Copy + Send + Sync, S: Sum>(
        arithmetic: &Arithmetic<P, S>,
        product: &Product,
        threads: usize,
        is_packed: bool,
    ) -> Self {
        let (a, b, out) = (&product.a, &product.b, &product.out);
        let steps = product.k.div_ceil(arithmetic.group);
        let is_small = product.m * product.k <= SMALL_MATRIX;
        let left_in_place = arithmetic.left_in_place
            && match (a.column_stride, a.row_stride) {
                (1, stride) => is_small || !(stride * size_of::<P>()).is_multiple_of(SAME_SETS),
                (_, stride) => is_small && stride == 1,
            };
        let right_in_place = arithmetic.right_in_place
            && b.column_stride == 1
            && (product.m <= 2 * arithmetic.kernels.rows(false)
                || product.n * product.k <= SMALL_MATRIX);
        let sums_fit = out.dtype == S::DTYPE && out.column_stride == 1 && !product.in_place;
        let sizes = Sizes { m: product.m, n: product.n, steps };
        let plan = Plan::new(arithmetic.kernels, sizes, threads, !sums_fit);
        let keeps_aside = !sums_fit && steps > plan.steps;
        let mut setup = Self {
            plan,
            steps,
            left_in_place,
            right_in_place,
            panel_bytes: 0,
            correction_bytes: 0,
            worker_bytes: Blocked::<P, S>::worker_bytes(&plan, left_in_place, keeps_aside),
        };
        if is_packed {
            return setup;
        }
        let part = if right_in_place { product.n } else { plan.packed_columns.min(product.n) };
        let layout = PanelLayout::new(arithmetic.kernels, part, steps);
        let packed = PanelLayout {
            columns: part - (setup.first_packed(&layout) * layout.panel).min(part),
            ..layout
        };
        setup.panel_bytes = (packed.elements() * size_of::<P>()).next_multiple_of(64);
        if arithmetic.few_rows.is_some() && is_skinny(product) {
            setup.panel_bytes = (row_elements(product) * size_of::<S>()).next_multiple_of(64);
            setup.worker_bytes = 0;
        }
        if arithmetic.excess.is_some() {
            setup.correction_bytes = (part * size_of::<S>()).next_multiple_of(64);
        }
        setup
    }

    /// The first panel that is packed: all, or none but a last one that ends within a vector,
    /// since kernels read whole vectors.
    fn first_packed(&self, layout: &PanelLayout) -> usize {
        match self.right_in_place {
            false => 0,
            true if layout.columns.is_multiple_of(layout.lanes) => layout.panels(),
            true => layout.panels() - 1,
        }
    }
}

/// Memory of one call, from the device's allocator, which keeps it for the next.
pub(crate) struct Scratch(Option<Buffer>);

impl Scratch {
    pub fn new(device: &DeviceRef, bytes: usize) -> Result<Self> {
        let buffer = if bytes == 0 { None } else { Some(device.allocate(DType::U8, bytes)?) };
        Ok(Self(buffer))
    }

    pub fn operands(&self) -> Result<Option<HostOperands<'_>>> {
        let Some(buffer) = &self.0 else { return Ok(None) };
        Ok(Some(HostOperands::new("matmul", &[], buffer)?))
    }
}
