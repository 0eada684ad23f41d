//! Attention to a cache on OpenCL devices.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};
use polaris_runtime::{Device, DeviceExt, Error as RuntimeError};

use super::geometry::Sizes;
use super::{CachedAttention, Inputs};
use crate::format::{Block, Stored};
use crate::opencl::{ELEMENT, Enqueue, pass_array, work_group};
use crate::{Array, Result, copy};

/// The kernels of attention to a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-group for each 64 queries that share keys, in tiles of scores: for prompts.
    Tiled,
    /// A work-group for each token and head.
    Grouped,
    /// A work-group for each token, some heads and part of the positions: for few tokens and many positions.
    Split,
    /// A work-item for each token and head: slow, and little that a compiler could get wrong.
    Serial,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tiled => "tiled",
            Self::Grouped => "grouped",
            Self::Split => "split",
            Self::Serial => "serial",
        }
    }

    /// Its function in the program.
    const fn entry(self) -> &'static str {
        match self {
            Self::Tiled => "cached_attention_tiled",
            Self::Grouped => "cached_attention",
            Self::Split => "cached_attention_split",
            Self::Serial => "cached_attention_serial",
        }
    }
}

/// The most elements of a value for each work-item.
const MOST_TILES: usize = 4;

/// Tokens of a sequence up to which positions are split, and of all sequences.
const FEW_TOKENS: usize = 8;
const MOST_SPLIT_TOKENS: usize = 64;

/// Rows and positions of a tile, work-items of its group, and the widest values in units of 64.
const TILE: usize = 64;
const TILED_GROUP: usize = 256;
const MOST_TILED_VALUES: usize = 4;

/// Bytes of local memory of a group of tiles: weights, chunks of factors, and where rows are.
const TILED_BYTES: usize = 4 * TILE * (TILE + 4) + 4 * 2 * 16 * (TILE + 4) + TILE * (4 * 8 + 7 * 4);

const OPERANDS: &str = include_str!("cached_operands.cl");
const PARTS: &[&str] = &[ELEMENT, OPERANDS, include_str!("cached_attention.cl")];
const TILED_PARTS: &[&str] = &[ELEMENT, OPERANDS, include_str!("cached_tiled.cl")];
const SPLIT_PARTS: &[&str] = &[ELEMENT, OPERANDS, include_str!("cached_split.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    kernel: Kernel,
    k: Stored,
    v: Stored,
    value_tiles: usize,
    /// Heads that share keys and are taken at once.
    heads: usize,
    work_group: usize,
}

impl Config {
    fn new(
        kernel: Kernel,
        device: &OpenClDevice,
        sizes: &Sizes,
        Inputs { k, v, .. }: &Inputs<'_>,
    ) -> Self {
        let items = work_group(device).max(1);
        // The largest power of two.
        let work_group = 1 << items.ilog2();
        let (work_group, value_tiles) = match kernel {
            Kernel::Serial => (work_group, 1),
            Kernel::Tiled => (TILED_GROUP, sizes.values.div_ceil(TILE).next_power_of_two()),
            _ => (work_group, sizes.values.div_ceil(work_group).max(1)),
        };
        let divides = |heads: &usize| sizes.group().is_multiple_of(*heads);
        let heads = match kernel {
            Kernel::Split => [4, 2].into_iter().find(divides).unwrap_or(1),
            Kernel::Tiled | Kernel::Grouped | Kernel::Serial => 1,
        };
        Self { kernel, k: k.stored(), v: v.stored(), value_tiles, heads, work_group }
    }

    /// Of one of the program's kernels.
    fn key(&self, which: u64) -> u64 {
        let types = self.k.code() << 8 | self.v.code();
        let sizes = (self.value_tiles as u64) << 4 | self.heads as u64;
        ((types << 12 | sizes) << 8 | (self.kernel as u64) << 1 | which) << 16
            | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let mut texts: Vec<&str> = self.k.texts().collect();
        // Formats have texts in common.
        let others: Vec<&str> = self.v.texts().filter(|text| !texts.contains(text)).collect();
        texts.extend(others);
        let defines = texts.into_iter().fold(Defines::new(), Defines::text);
        let defines = defines
            .code("K", self.k.name())
            .code("V", self.v.name())
            .number("WORK_GROUP", self.work_group as i64);
        let Self { k, v, kernel, value_tiles, .. } = self;
        if *kernel == Kernel::Split {
            let defines = defines.number("HEADS_AT_ONCE", self.heads as i64);
            let name = format!("cached_split.cl {k}_{v}_{}", self.heads);
            return ProgramSource { name, parts: SPLIT_PARTS, defines, options: "-cl-mad-enable" };
        }
        if *kernel == Kernel::Tiled {
            let defines = defines.number("VALUE_TILES", *value_tiles as i64);
            let name = format!("cached_tiled.cl {k}_{v}_{value_tiles}");
            return ProgramSource { name, parts: TILED_PARTS, defines, options: "-cl-mad-enable" };
        }
        let defines = defines
            .number("SERIAL", *kernel == Kernel::Serial)
            .number("VALUE_TILES", *value_tiles as i64);
        let name = format!("cached_attention.cl {k}_{v}_{}{value_tiles}", kernel.name());
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }

    /// Bytes of local memory.
    fn local_bytes(&self, depth: usize) -> usize {
        // Of split positions, rows of keys and the sums of lanes.
        let (rows, sums) = if self.kernel == Kernel::Split { (2, 128 * 17) } else { (1, 0) };
        (self.heads * (depth.max(1) + 2 * self.work_group) + sums) * size_of::<f32>()
            + rows * self.work_group * size_of::<u64>()
    }
}

pub fn supports(
    kernel: Kernel,
    device: &OpenClDevice,
    sizes: &Sizes,
    arrays: &Inputs<'_>,
    output: &Array,
) -> bool {
    let capabilities = device.capabilities();
    let config = Config::new(kernel, device, sizes, arrays);
    // Kernels count in 32 bits, and go beyond the last position by a tile.
    let most = i32::MAX as usize / 4;
    let counts = [
        sizes.tokens.saturating_mul(sizes.heads),
        sizes.blocks,
        sizes.sequences,
        sizes.most_blocks.saturating_mul(sizes.block_size),
        sizes.depth,
        sizes.values,
    ];
    let strides =
        [arrays.q, arrays.k, arrays.v, output].map(|array| array.layout().strides().to_vec());
    let of_elements = [arrays.q, arrays.k, arrays.v, output].map(|array| {
        let layout = array.layout();
        layout
            .shape()
            .last()
            .zip(layout.strides().last())
            .map_or(0, |(n, stride)| n.saturating_mul(*stride))
    });
    counts.into_iter().chain(of_elements).all(|count| count <= most)
        && strides.iter().flatten().all(|&stride| stride <= u32::MAX as usize)
        && [arrays.k, arrays.v].iter().all(|cache| capabilities.supports(cache.dtype()))
        && match kernel {
            Kernel::Tiled => {
                sizes.values.min(sizes.depth) > 0
                    && config.value_tiles <= MOST_TILED_VALUES
                    && capabilities.max_work_group >= TILED_GROUP
                    && capabilities.local_memory_bytes >= TILED_BYTES as u64
            }
            Kernel::Grouped => {
                config.value_tiles <= MOST_TILES
                    && capabilities.local_memory_bytes >= config.local_bytes(sizes.depth) as u64
            }
            Kernel::Split => {
                let parts = sizes.most_blocks * sizes.block_size / config.work_group + 1;
                let groups = sizes.tokens.saturating_mul(sizes.heads).saturating_mul(parts);
                sizes.tokens <= MOST_SPLIT_TOKENS
                    && groups <= most / config.work_group
                    && config.value_tiles == 1
                    && capabilities.local_memory_bytes >= config.local_bytes(sizes.depth) as u64
            }
            Kernel::Serial => true,
        }
}

/// Tokens of prompts take tiles, if these are work for all of a device. Few tokens that see many positions have them
/// split: otherwise there would be a work-group for each head only. Nobody knows here how tokens are distributed over
/// sequences; with many places for them, few tokens may be of as many.
pub fn preferred(
    op: &CachedAttention,
    device: &OpenClDevice,
    sizes: &Sizes,
    arrays: &Inputs<'_>,
    output: &Array,
) -> Option<Kernel> {
    let are_many = sizes.tokens > MOST_SPLIT_TOKENS;
    let tiles = (sizes.tokens * sizes.group()).div_ceil(TILE) * sizes.key_heads;
    let is_prompt = sizes.tokens > FEW_TOKENS * sizes.sequences;
    let kernel = if are_many || is_prompt && tiles >= device.capabilities().compute_units {
        Kernel::Tiled
    } else if op.most_seen() > work_group(device) {
        Kernel::Split
    } else {
        Kernel::Grouped
    };
    supports(kernel, device, sizes, arrays, output).then_some(kernel)
}

/// Whether keys or values can be read in fours.
fn in_fours(cache: &Array) -> bool {
    let (strides, depth) = (cache.layout().strides(), cache.shape()[3]);
    strides[3] == 1
        && cache.first_element().is_multiple_of(4)
        && depth.is_multiple_of(4)
        && strides[..3].iter().all(|stride| stride.is_multiple_of(4))
}

pub fn run(
    op: &CachedAttention,
    kernel: Kernel,
    device: &OpenClDevice,
    sizes: &Sizes,
    arrays: &Inputs<'_>,
    output: &Array,
) -> Result<()> {
    let config = Config::new(kernel, device, sizes, arrays);
    let queries = sizes.tokens * sizes.heads;
    // Small arrays, which strides of their own would take too many registers for.
    let dense = |array: &Array| match array.layout().is_contiguous() {
        true => Ok(array.clone()),
        false => copy::contiguous(array),
    };
    let (table, tokens) = (dense(arrays.table)?, dense(arrays.tokens)?);
    let [sinks, slopes] = [arrays.sinks, arrays.slopes].map(|array| array.map(dense).transpose());
    let (sinks, slopes) = (sinks?, slopes?);
    let numbers = |numbers: [usize; 8]| numbers.map(|number| number as u32);
    let limit = |limit: Option<usize>| limit.unwrap_or(0).min(u32::MAX as usize);
    let value_lanes = sizes.values.next_power_of_two().min(config.work_group);
    let strides = |array: &Array| array.layout().strides().to_vec();
    let (q, out) = (strides(arrays.q), strides(output));
    let (k, v) = (strides(arrays.k), strides(arrays.v));
    let (sinks, slopes) = (sinks.as_ref().unwrap_or(arrays.q), slopes.as_ref().unwrap_or(arrays.q));
    let built = |which: u64, entry: &'static str| {
        let key = ("cached_attention", config.key(which));
        device.kernel(key, entry, || config.source())
    };
    let (group, main) = (config.work_group, built(0, kernel.entry())?);
    let combine = (kernel == Kernel::Split).then(|| built(1, "cached_attention_combine"));
    let combine = combine.transpose()?;
    let pass = |kernel| {
        let launch = device
            .launch(kernel)
            .value(sizes.scale as f32)
            .value(op.softcap.unwrap_or(0.0) as f32)
            .value(numbers([
                sizes.heads,
                sizes.group(),
                sizes.depth,
                sizes.values,
                value_lanes,
                queries,
                usize::from(op.sinks),
                usize::from(op.slopes),
            ]))
            .value(numbers([
                sizes.blocks,
                sizes.block_size,
                sizes.sequences,
                sizes.most_blocks,
                op.longest,
                limit(op.window),
                limit(op.chunk),
                usize::from(in_fours(arrays.k) && q[2] == 1),
            ]))
            .value(numbers([
                q[0],
                q[1],
                q[2],
                out[0],
                out[1],
                out[2],
                usize::from(op.bidirectional),
                usize::from(in_fours(arrays.v)),
            ]))
            .value(numbers([k[0], k[1], k[2], k[3], v[0], v[1], v[2], v[3]]));
        let all = [output, arrays.q, arrays.k, arrays.v, &table, &tokens, sinks, slopes];
        all.into_iter().fold(launch, pass_array)
    };
    let launch = pass(&main);
    let query_bytes = config.heads * sizes.depth.max(1) * size_of::<f32>();
    let Some(combine) = &combine else {
        let launch = match kernel {
            Kernel::Serial => return launch.enqueue(&[queries], &[group]),
            Kernel::Tiled => {
                let rows = sizes.tokens * sizes.group();
                let groups = rows.div_ceil(TILE) * sizes.key_heads;
                return launch.enqueue(&[groups * group], &[group]);
            }
            Kernel::Grouped | Kernel::Split => launch.local(query_bytes),
        };
        return launch.enqueue(&[queries * group], &[group]);
    };
    let parts = op.most_seen().div_ceil(group).max(1);
    let room = queries * parts * (sizes.values + 2);
    let work = match output.device().allocate(DType::F32, room) {
        Ok(work) => work,
        // Whatever can be split can be done without.
        Err(RuntimeError::OutOfMemory { .. } | RuntimeError::AllocationTooLarge { .. }) => {
            return run(op, Kernel::Grouped, device, sizes, arrays, output);
        }
        Err(error) => return Err(error.into()),
    };
    launch
        .value(parts as u32)
        .buffer(&work, 0)
        .local(query_bytes)
        .enqueue(&[queries / config.heads * parts * group], &[group])?;
    let launch = pass(combine).value(parts as u32).buffer(&work, 0);
    launch.enqueue(&[queries * sizes.values], &[group])
}

/// Each type of keys and values with each kernel, and wide values.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |kernel, k, v, value_tiles| Config {
        kernel,
        k,
        v,
        value_tiles,
        heads: if kernel == Kernel::Split { 4 } else { 1 },
        work_group: 256,
    };
    let dense = [DType::F32, DType::F16, DType::BF16].map(Stored::Dense);
    let mut configs = Vec::new();
    let blocks = [Block::Q8_0, Block::Q4_0].map(Stored::Block);
    for stored in dense.into_iter().chain(blocks) {
        for kernel in [Kernel::Grouped, Kernel::Split, Kernel::Serial] {
            configs.push(config(kernel, stored, stored, 1));
        }
    }
    for values in [1, 2, MOST_TILED_VALUES] {
        configs.push(Config {
            work_group: TILED_GROUP,
            ..config(Kernel::Tiled, dense[1], dense[1], values)
        });
    }
    for stored in [dense[0]].into_iter().chain(blocks) {
        configs.push(config(Kernel::Tiled, stored, stored, 2));
    }
    configs.push(config(Kernel::Grouped, dense[0], dense[1], 1));
    configs.push(config(Kernel::Grouped, dense[1], dense[1], MOST_TILES));
    configs.iter().map(Config::source).collect()
}
