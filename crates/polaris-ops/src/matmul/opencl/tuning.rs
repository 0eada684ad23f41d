//! The search space of the tiled kernel.

use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Capabilities, Device, DeviceKind};
use polaris_tune::Space;

use super::{MultiplyAdd, Tile, TileCopy};

/// The most accumulators of a work-item on a GPU: more have no room in its registers.
const MOST_SUMS: i64 = 128;
/// The most vectors of accumulators of a work-item on a processor, which has 32 or 16 registers for them.
const MOST_VECTORS: i64 = 32;
/// Work-items of a group for a processor: of fewer, PoCL's compiler writes each one out, which
/// takes minutes; more bring nothing.
const PROCESSOR_GROUP: std::ops::RangeInclusive<i64> = 32..=64;

/// A device as far as tiles go: one that is there, or one whose capabilities are written down.
#[derive(Debug, Clone, Copy)]
pub struct TileTarget<'a> {
    /// Whether it is a processor or a GPU.
    pub kind: DeviceKind,
    /// What it can do.
    pub capabilities: &'a Capabilities,
}

impl<'a> From<&'a OpenClDevice> for TileTarget<'a> {
    fn from(device: &'a OpenClDevice) -> Self {
        Self { kind: device.info().kind, capabilities: device.capabilities() }
    }
}

/// What may be chosen on a device. The names are those of [`Tile`]'s fields.
pub fn tile_space<'a>(target: impl Into<TileTarget<'a>>) -> Space {
    let TileTarget { kind, capabilities } = target.into();
    match kind {
        DeviceKind::Cpu => processor_space(capabilities),
        _ => gpu_space(capabilities),
    }
}

fn processor_space(capabilities: &Capabilities) -> Space {
    let space = Space::new("matmul")
        .parameter("m", [32, 64, 128])
        .parameter("n", [32, 64, 128, 256])
        .parameter("threads_m", [4, 8, 16])
        .parameter("threads_n", [2, 4, 8])
        .parameter("vector", [8, 16])
        .parameter("k", [16, 32, 64, 128])
        .parameter("buffers", [1])
        .parameter("unroll", [2])
        .parameter("fragments", [1])
        .parameter("lanes_m", [1])
        .parameter("copy", [TileCopy::Registers as i64])
        .constraint("the work-group has 32 to 64 items", &["threads_m", "threads_n"], |v| {
            PROCESSOR_GROUP.contains(&(v[0] * v[1]))
        })
        .constraint(
            "the sums of a work-item fit registers",
            &["m", "threads_m", "n", "threads_n", "vector"],
            |v| {
                v[0] >= v[1]
                    && (v[2] / v[3]) % v[4] == 0
                    && v[0] / v[1] * (v[2] / v[3] / v[4]) <= MOST_VECTORS
            },
        )
        .constraint(
            "a work-item has work for its loads",
            &["m", "n", "threads_m", "threads_n"],
            |v| v[0] * v[1] >= 32 * v[2] * v[3],
        );
    with_device(space, capabilities, processor_tile)
}

fn gpu_space(capabilities: &Capabilities) -> Space {
    let copies: &[i64] = if capabilities.inline_ptx { &[0, 2] } else { &[0] };
    // The wavefront or warp, whose work-items lie side by side in rows or in a block.
    let wave = capabilities.preferred_multiple.clamp(8, 64) as i64;
    let space = Space::new("matmul")
        .parameter("m", [32, 64, 96, 128, 256])
        .parameter("n", [32, 64, 96, 128, 256])
        .parameter("threads_m", [4, 8, 16, 32])
        .parameter("threads_n", [4, 8, 16, 32])
        .parameter("lanes_m", [1, 2, 4, 8])
        .parameter("vector", [2, 4])
        .parameter("k", [8, 16, 32])
        .parameter("copy", copies.iter().copied())
        .parameter("fragments", [1, 2])
        .parameter("buffers", [1, 2, 3])
        .parameter("unroll", [1, 2, 4, 8, 16])
        .constraint("the work-group has 64 to 256 items", &["threads_m", "threads_n"], |v| {
            (64..=256).contains(&(v[0] * v[1]))
        })
        .constraint(
            "the sums of a work-item fit registers, and are worth their loads",
            &["m", "threads_m", "n", "threads_n"],
            |v| {
                let (rows, columns) = (v[0] / v[1], v[2] / v[3]);
                v[0] % v[1] == 0
                    && v[2] % v[3] == 0
                    && (16..=MOST_SUMS).contains(&(rows * columns))
                    && rows <= 4 * columns
                    && columns <= 4 * rows
            },
        )
        .constraint(
            "a wavefront fits the work-group",
            &["threads_m", "threads_n", "lanes_m"],
            move |v| {
                let columns = if v[2] == 1 { v[1] } else { wave / v[2] };
                v[0] % v[2] == 0 && columns > 0 && v[1] % columns == 0
            },
        )
        .constraint("reading ahead writes all steps out", &["fragments", "unroll", "k"], |v| {
            if v[0] == 2 { v[1] == v[2].min(16) } else { v[1] < v[2] }
        });
    with_device(space, capabilities, move |values| gpu_tile(values, wave))
}

/// With the conditions that [`Tile::check`] makes on all parameters together.
fn with_device(
    space: Space,
    capabilities: &Capabilities,
    tile: impl Fn(&[i64]) -> Tile + Send + Sync + 'static,
) -> Space {
    let capabilities = capabilities.clone();
    space.constraint("the tile fits the device", NAMES, move |values| {
        tile(values).check(&capabilities).is_ok()
    })
}

/// The parameters, in the order in which a tile is made of them.
const NAMES: &[&str] = &[
    "m",
    "n",
    "k",
    "threads_m",
    "threads_n",
    "lanes_m",
    "vector",
    "buffers",
    "fragments",
    "unroll",
    "copy",
];

/// The tile of a point; none if a value is missing or no such tile can be.
pub fn tile_of<'a>(
    target: impl Into<TileTarget<'a>>,
    config: &dyn Fn(&str) -> Option<i64>,
) -> Option<Tile> {
    let values: Vec<i64> = NAMES.iter().map(|name| config(name)).collect::<Option<_>>()?;
    let sane = values.iter().all(|value| (0..=4096).contains(value));
    let (first, divisors) = (&values[..5], values[3] > 0 && values[4] > 0);
    if !sane || !divisors || first.contains(&0) {
        return None;
    }
    let TileTarget { kind, capabilities } = target.into();
    let tile = match kind {
        DeviceKind::Cpu => processor_tile(&values),
        _ => gpu_tile(&values, capabilities.preferred_multiple.clamp(8, 64) as i64),
    };
    tile.check(capabilities).is_ok().then_some(tile)
}

/// A tile as a point.
pub fn config_of(tile: &Tile) -> Vec<(&'static str, i64)> {
    let values = [
        i64::from(tile.m),
        i64::from(tile.n),
        i64::from(tile.k),
        i64::from(tile.threads_m),
        i64::from(tile.threads_n),
        i64::from(tile.lanes_m),
        i64::from(tile.vector),
        i64::from(tile.buffers),
        i64::from(tile.fragments),
        i64::from(tile.unroll),
        tile.copy as i64,
    ];
    NAMES.iter().copied().zip(values).collect()
}

fn processor_tile(values: &[i64]) -> Tile {
    let plain = plain_tile(values);
    // Padding keeps vectors aligned; `fma` is one instruction on processors.
    Tile {
        padding: plain.vector.max(4),
        lanes_n: plain.threads_n,
        multiply: MultiplyAdd::Fma,
        ..plain
    }
}

fn gpu_tile(values: &[i64], wave: i64) -> Tile {
    let plain = plain_tile(values);
    let beside = (wave / i64::from(plain.lanes_m.max(1))) as u16;
    Tile { lanes_n: if plain.lanes_m == 1 { plain.threads_n } else { beside }, ..plain }
}

fn plain_tile(values: &[i64]) -> Tile {
    let [m, n, k, threads_m, threads_n, lanes_m] = std::array::from_fn(|at| values[at] as u16);
    let [vector, buffers, fragments, unroll] = std::array::from_fn(|at| values[6 + at] as u8);
    let copy = match values[10] {
        2 => TileCopy::Ptx,
        1 => TileCopy::WorkGroup,
        _ => TileCopy::Registers,
    };
    let tile = Tile::new(m, n, k, threads_m, threads_n);
    Tile { lanes_m, vector, buffers, fragments, unroll, copy, ..tile }
}
