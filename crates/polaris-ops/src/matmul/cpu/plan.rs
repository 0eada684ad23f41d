//! The blocking of a matmul, from its shape and the machine.

use super::kernel::Kernels;

/// Bytes of a panel of A in one block of k: it stays in the L1 cache while panels of B pass by.
const PANEL_BYTES: usize = 22 << 10;
/// Steps of k in a block: more would save nothing.
pub(super) const MOST_STEPS: usize = 384;
/// Bytes of panels of B in one block of k: they stay in the L2 cache while panels of A pass by.
const RESIDENT_BYTES: usize = 384 << 10;
/// Rows of A in a block: so often are panels of B used that come from the last-level cache or memory.
const MOST_ROWS: usize = 392;
/// Bytes of the packed part of B. It is packed by all threads together, before they compute.
const PACKED_BYTES: usize = 16 << 20;
/// With so few rows packing B is much of the work, and it is worth packing A again for each part of B so that the
/// part stays in the L2 cache.
const FEW_ROWS: usize = 256;
/// Bytes of such a part for each thread.
const FEW_ROWS_PACKED_BYTES: usize = 1 << 20;
/// Fewer columns than this are not worth the packing of A.
const FEWEST_COLUMNS: usize = 256;
/// Multiplications that are worth a task of their own.
const TASK: usize = 1 << 18;
/// Tasks for each thread, so that one that was held up is not waited for long.
const TASKS_PER_THREAD: usize = 3;
/// Columns of a task whose accumulators are kept aside between blocks of k.
const ASIDE_COLUMNS: usize = 512;

/// A product as the kernels see it: `steps` groups along k.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    pub m: usize,
    pub n: usize,
    pub steps: usize,
}

/// Blocks of a product. The order of summation depends on `steps` alone, not on the rest, which
/// depends on the number of threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    /// Steps of k in a block.
    pub steps: usize,
    /// Rows of A in a block, and of the result in a task.
    pub rows: usize,
    /// Columns of a task; whole panels.
    pub columns: usize,
    /// Columns whose panels stay in the L2 cache while rows pass by; whole panels.
    pub resident_columns: usize,
    /// Columns that are packed at a time; whole panels.
    pub packed_columns: usize,
}

impl Plan {
    /// `keeps_aside` says that accumulators are kept in memory of the task between blocks of k.
    pub fn new<P, S>(
        kernels: &Kernels<P, S>,
        sizes: Sizes,
        threads: usize,
        keeps_aside: bool,
    ) -> Self {
        let Sizes { m, n, steps } = sizes;
        let (rows, columns) = (kernels.rows(false), kernels.columns());
        let block_steps = even(steps, most_steps(kernels));
        let packed_bytes =
            if m <= FEW_ROWS { threads * FEW_ROWS_PACKED_BYTES } else { PACKED_BYTES };
        let most_columns = packed_bytes / (steps.max(1) * size_of::<P>());
        let packed_columns = even(n, most_columns.max(FEWEST_COLUMNS)).next_multiple_of(columns);
        let width = packed_columns.min(n);
        let resident = RESIDENT_BYTES / (block_steps.max(1) * size_of::<P>());
        // Multiplications of one product, and as many tasks as they are worth.
        let work = m.saturating_mul(width).saturating_mul(steps);
        let wanted = if threads == 1 { 1 } else { (work / TASK).min(threads * TASKS_PER_THREAD) };
        // Rows are cut first, which costs nothing, but not below a few panels.
        let row_cuts = m.div_ceil(MOST_ROWS).max(wanted.min(m.div_ceil(3 * rows)));
        let column_cuts = wanted.div_ceil(row_cuts).min(width.div_ceil(columns)).max(1);
        let task_columns = width.div_ceil(column_cuts).next_multiple_of(columns);
        let aside = if keeps_aside { ASIDE_COLUMNS } else { usize::MAX };
        Self {
            steps: block_steps,
            rows: m.div_ceil(row_cuts),
            columns: task_columns.min(aside),
            resident_columns: resident.next_multiple_of(columns),
            packed_columns,
        }
    }
}

/// The most steps of k in a block.
pub(crate) fn most_steps<P, S>(kernels: &Kernels<P, S>) -> usize {
    (PANEL_BYTES / (kernels.rows(false) * size_of::<P>())).min(MOST_STEPS)
}

/// The size of equal blocks of at most `most`.
pub(crate) fn even(total: usize, most: usize) -> usize {
    // Divisions are what planning a small product costs.
    if total <= most { total } else { total.div_ceil(total.div_ceil(most)) }
}
