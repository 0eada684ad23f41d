//! Kernel selection without tuning decisions: the kernel for a shape on a device, and split-K.

use polaris_core::DType;
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Capabilities, Device, DeviceKind};

use super::blocks::{self, BLOCKS};
use super::factors::{Factors, skinny_problem};
use super::variants::{CPU_MEDIUM, CPU_TILES, GPU_TILES, PTX_TILES, TENSOR, TENSOR_SMALL};
use super::{Kernel, SKINNY, Skinny, Tile, TileCopy, TileTarget, converts, has_kernels};
use crate::Array;
use crate::format::MOST_VECTORS;
use crate::matmul::geometry::Geometry;
use crate::matmul::problem::{MatMul, Precision};
use crate::opencl::tuned::{Family, Parameters, Problem, decided, letters};

/// A tile and the share of the device's peak that it reaches when there is plenty of work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rated {
    pub tile: Tile,
    pub efficiency: f64,
    /// The same where lines do not begin at multiples of four elements.
    pub unaligned: f64,
}

impl Rated {
    /// A tile that does as well whatever the alignment.
    pub const fn new(tile: Tile, efficiency: f64) -> Self {
        Self { tile, efficiency, unaligned: efficiency }
    }
}

/// Into how many parts k is split, and their length.
#[derive(Debug, Clone, Copy)]
pub(super) struct Choice {
    pub splits: usize,
    pub length: usize,
}

/// Parts of fewer steps along k are not worth a second kernel.
const SHORTEST_PART: usize = 256;
/// How long a tile that converts weights takes alone on a compute unit of a GPU, in times that it takes beside others:
/// nothing else runs while it waits for memory. Of tiles with 4096 steps along k, an H200 with 132 units took 1.1 ms for
/// 128 and 1.5 ms for 344.
const ALONE: f64 = 1.8;
/// What a second kernel costs, in multiplications of one compute unit: about eight microseconds.
const SECOND_KERNEL: f64 = 1.2e6;
/// Sums that a compute unit reads and writes in the time of one multiplication, as a share.
const COST_OF_A_SUM: f64 = 16.0;

/// The tiles for a device.
pub(super) fn tiles(target: TileTarget) -> &'static [Rated] {
    match target.kind {
        DeviceKind::Cpu => CPU_TILES,
        _ if target.capabilities.inline_ptx => PTX_TILES,
        _ => GPU_TILES,
    }
}

/// Those that convert elements of the second factor on their way to local memory. Every format has its own program for
/// each of them: drivers that run on the processor, whose compilers take longest, have one.
pub(super) fn converting_tiles(target: TileTarget) -> impl Iterator<Item = &'static Rated> {
    let is_cpu = target.kind == DeviceKind::Cpu;
    tiles(target).iter().filter(move |rated| {
        rated.tile.copy == TileCopy::Registers && (!is_cpu || rated.tile == CPU_MEDIUM)
    })
}

/// The tiles that the cost model chooses from, best first: where a search may begin.
pub fn usual_tiles<'a>(target: impl Into<TileTarget<'a>>) -> impl Iterator<Item = Tile> {
    tiles(target.into()).iter().map(|rated| rated.tile)
}

/// Whether a device can run a tile with factors of this type.
pub(super) fn fits(tile: &Tile, capabilities: &Capabilities, dtype: DType) -> bool {
    // Copies to local memory without registers convert nothing.
    let convertible = dtype == DType::F32 || tile.copy == TileCopy::Registers;
    convertible && tile.check(capabilities).is_ok()
}

/// The kernel that suits a problem on a device best.
pub(in crate::matmul) fn preferred(
    op: &MatMul,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> Option<Kernel> {
    let parts = op.parts(inputs).ok()?;
    let geometry = Geometry::new(op, &parts, output).ok()?;
    let dtype = parts.a.dtype();
    if !has_kernels(&geometry, dtype) {
        return None;
    }
    let Geometry { m, n, k, batches, .. } = geometry;
    if m <= MOST_VECTORS && blocks::takes(&geometry, parts.a, parts.b) {
        let kernel = Kernel::Blocks(BLOCKS);
        if kernel.fits(device, dtype) {
            return Some(kernel);
        }
    }
    if m.min(n) <= SKINNY {
        let skinny = tuned_skinny(device, dtype, &geometry).unwrap_or(Skinny::DEFAULT);
        let kernel = Kernel::Skinny(skinny);
        if kernel.fits(device, dtype) {
            return Some(kernel);
        }
    }
    let capabilities = device.capabilities();
    let half = matches!(dtype, DType::F16 | DType::BF16);
    let aligned = [geometry.a, geometry.b]
        .iter()
        .all(|matrix| [matrix.rows, matrix.columns].iter().all(|s| *s == 1 || s.is_multiple_of(4)));
    let sizes = [m, n, k];
    let alone = time_alone(device, parts.a, parts.b);
    let cost = Cost { capabilities, dtype, sizes, batches: batches.elements(), aligned, alone };
    if converts(parts.a, parts.b) {
        return cost.cheapest(converting_tiles(device.into())).map(Kernel::Tiled);
    }
    if half || dtype == DType::F32 && op.precision == Precision::Tf32 {
        let blocks = m.div_ceil(usize::from(TENSOR.m)) * n.div_ceil(usize::from(TENSOR.n));
        let busy = blocks * batches.elements() >= capabilities.compute_units;
        let tensor = if busy { TENSOR } else { TENSOR_SMALL };
        if tensor.check(capabilities, dtype).is_ok() {
            return Some(Kernel::Tensor(tensor));
        }
    }
    if let Some(tile) = tuned_tile(device, dtype, &geometry) {
        return Some(Kernel::Tiled(tile));
    }
    cost.cheapest(tiles(device.into()).iter()).map(Kernel::Tiled)
}

/// The tile that tuning decided on for a product. Batches take the cost model's.
fn tuned_tile(device: &OpenClDevice, dtype: DType, geometry: &Geometry) -> Option<Tile> {
    if geometry.batches.elements() != 1 {
        return None;
    }
    let letter = |along_row: bool| if along_row { b'n' } else { b't' };
    let layout = [letter(geometry.a.columns == 1), letter(geometry.b.columns == 1)];
    let sizes = [geometry.m, geometry.n, geometry.k];
    let problem = Problem { family: Family::MatMul, dtype, layout: letters(&layout), sizes };
    match decided(device, &problem)? {
        Parameters::Tile(tile) if Kernel::Tiled(tile).fits(device, dtype) => Some(tile),
        _ => None,
    }
}

/// The same for the skinny kernel. A matrix that must be copied first takes the default.
fn tuned_skinny(device: &OpenClDevice, dtype: DType, geometry: &Geometry) -> Option<Skinny> {
    if geometry.batches.elements() != 1 {
        return None;
    }
    let ([vectors, lines], along_k) = skinny_problem(geometry)?;
    let layout = letters(if along_k { b"dots" } else { b"columns" });
    let sizes = [vectors, lines, geometry.k];
    match decided(device, &Problem { family: Family::Gemv, dtype, layout, sizes })? {
        Parameters::Skinny(skinny) => Some(skinny),
        _ => None,
    }
}

/// The tile that the cost model chooses for a product of dense factors of these sizes. `aligned` says that lines
/// begin at multiples of four elements.
pub fn default_tile<'a>(
    target: impl Into<TileTarget<'a>>,
    dtype: DType,
    sizes: [usize; 3],
    aligned: bool,
) -> Option<Tile> {
    let target = target.into();
    let capabilities = target.capabilities;
    let cost = Cost { capabilities, dtype, sizes, batches: 1, aligned, alone: 1.0 };
    cost.cheapest(tiles(target).iter())
}

/// Into how many parts k is split for a tile and a product of dense factors of these sizes.
pub fn tile_splits<'a>(
    target: impl Into<TileTarget<'a>>,
    tile: &Tile,
    [m, n, k]: [usize; 3],
) -> usize {
    let lines = [tile.m, tile.n].map(usize::from);
    split_cost(target.into().capabilities, lines, [m, n], k, 1, 1.0).0
}

/// What the cost of a tile depends on.
struct Cost<'a> {
    capabilities: &'a Capabilities,
    dtype: DType,
    sizes: [usize; 3],
    batches: usize,
    aligned: bool,
    /// [`ALONE`], or 1.
    alone: f64,
}

impl Cost<'_> {
    /// The best of some tiles, as far as the device can run them.
    fn cheapest(&self, tiles: impl Iterator<Item = &'static Rated>) -> Option<Tile> {
        let [m, n, k] = self.sizes;
        let usable = tiles.filter(|rated| fits(&rated.tile, self.capabilities, self.dtype));
        let cost = |rated: &&Rated| {
            let lines = [rated.tile.m, rated.tile.n].map(usize::from);
            let efficiency = if self.aligned { rated.efficiency } else { rated.unaligned };
            split_cost(self.capabilities, lines, [m, n], k, self.batches, self.alone).1 / efficiency
        };
        usable.min_by(|a, b| cost(a).total_cmp(&cost(b))).map(|rated| rated.tile)
    }
}

/// The best split-K of a kernel.
pub(super) fn splits(
    kernel: Kernel,
    device: &OpenClDevice,
    factors: &Factors,
    k: usize,
    batches: usize,
) -> Choice {
    let sizes = factors.sizes;
    let whole = Choice { splits: 1, length: k };
    let capabilities = device.capabilities();
    let (splits, step) = match kernel {
        Kernel::Simple => return whole,
        Kernel::Tiled(tile) => {
            let lines = [tile.m, tile.n].map(usize::from);
            let [a, b] = factors.arrays;
            let alone = time_alone(device, a, b);
            (split_cost(capabilities, lines, sizes, k, batches, alone).0, usize::from(tile.k))
        }
        Kernel::Tensor(tensor) => {
            let lines = [tensor.m, tensor.n].map(usize::from);
            let splits = split_cost(capabilities, lines, sizes, k, batches, 1.0).0;
            (splits, usize::from(tensor.step_bytes))
        }
        Kernel::Skinny(skinny) => {
            // Enough work-groups to keep the memory busy, which needs many.
            let skinny = skinny.on(capabilities);
            let [group, lanes] = [skinny.group, skinny.lanes].map(usize::from);
            let lines = if factors.directions[1].along_k { group / lanes } else { lanes * 4 };
            let groups = sizes[1].div_ceil(lines) * batches;
            let wanted = capabilities.compute_units * usize::from(skinny.groups_per_unit);
            let wanted = wanted / groups.max(1);
            (wanted.min(k / SHORTEST_PART).clamp(1, 64), 4)
        }
        Kernel::Blocks(skinny) => {
            let share = blocks::share(skinny, device, factors, k, batches);
            let groups = share.groups(sizes[1], sizes[0]) * batches;
            let wanted = capabilities.compute_units * usize::from(skinny.groups_per_unit);
            ((wanted / groups.max(1)).min(k / SHORTEST_PART).clamp(1, 64), SHORTEST_PART)
        }
    };
    if splits <= 1 {
        return whole;
    }
    let length = k.div_ceil(splits).next_multiple_of(step);
    Choice { splits: k.div_ceil(length), length }
}

/// How long a tile takes alone on a compute unit, in times that it takes beside others.
fn time_alone(device: &OpenClDevice, a: &Array, b: &Array) -> f64 {
    let is_cpu = device.info().kind == DeviceKind::Cpu;
    if converts(a, b) && !is_cpu { ALONE } else { 1.0 }
}

/// The best number of parts, and the time it takes, in multiplications of one compute unit. Work
/// goes to compute units in rounds of whole tiles; the last round is as long as the others.
fn split_cost(
    capabilities: &Capabilities,
    lines: [usize; 2],
    sizes: [usize; 2],
    k: usize,
    batches: usize,
    alone: f64,
) -> (usize, f64) {
    let tiles = sizes[0].div_ceil(lines[0]) * sizes[1].div_ceil(lines[1]) * batches;
    let units = capabilities.compute_units;
    let most = (k / SHORTEST_PART).clamp(1, 16);
    let cost = |splits: usize| {
        let rounds = ((tiles * splits).div_ceil(units) as f64).max(alone);
        let length = k.div_ceil(splits).max(1) as f64;
        let main = rounds * (lines[0] * lines[1]) as f64 * length;
        let sums = (sizes[0] * sizes[1] * batches * splits) as f64 * COST_OF_A_SUM / units as f64;
        if splits == 1 { main } else { main + SECOND_KERNEL + sums }
    };
    let candidates = [1, 2, 3, 4, 6, 8, 12, 16].into_iter().filter(|&splits| splits <= most);
    candidates
        .map(|splits| (splits, cost(splits)))
        .min_by(|a, b| a.1.total_cmp(&b.1))
        .unwrap_or((1, cost(1)))
}
