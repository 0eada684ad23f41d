//! The kernels: those of kernel selection, and named variants.

use polaris_core::DType;
use polaris_runtime::opencl::ProgramSource;

use super::blocks::BLOCKS;
use super::choose::Rated;
use super::program::{Body, Config, Finish};
use super::{Kernel, MultiplyAdd, Skinny, Tensor, Tile, TileCopy};
use crate::format::{Block, Share, Stored};
use crate::matmul::problem::Activation;

/// A way to multiply that can be asked for by name, to be measured.
#[derive(Debug, Clone, Copy)]
pub struct Variant {
    /// Its name.
    pub name: &'static str,
    /// How it multiplies.
    pub technique: Technique,
    /// A description.
    pub about: &'static str,
}

/// How a named variant multiplies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Technique {
    /// By one kernel.
    Kernel(Kernel),
    /// By the chosen kernel, with operands that are kept in half precision.
    HalfStorage,
    /// By the chosen kernel, with bias and GELU fused in.
    Fused,
    /// By one level of Strassen's recursion.
    Recursive,
    /// In blocks, from operands that stay on the host.
    Streamed,
}

/// 128 registers at most for eight by eight accumulators a work-item: two wavefronts a SIMD unit on GCN.
const GCN_LARGE: Tile = Tile::new(128, 128, 8, 16, 16).lanes(8, 8).unroll(2);
const GCN_MEDIUM: Tile = Tile::new(64, 64, 16, 16, 16).lanes(8, 8).unroll(4);
const GCN_SMALL: Tile = Tile::new(32, 32, 8, 8, 8).lanes(8, 8).unroll(4);

/// For any GPU, made for GCN.
pub(super) const GPU_TILES: &[Rated] =
    &[Rated::new(GCN_LARGE, 1.0), Rated::new(GCN_MEDIUM, 0.75), Rated::new(GCN_SMALL, 0.5)];

const PTX_LARGE: Tile = Tile::new(128, 128, 16, 16, 8).lanes(4, 8).unroll(16).read_ahead();
const PTX_WIDE: Tile =
    Tile::new(128, 128, 8, 16, 8).lanes(4, 8).unroll(8).read_ahead().copy(TileCopy::Ptx, 3);
const PTX_MEDIUM: Tile =
    Tile::new(64, 128, 16, 8, 16).lanes(4, 8).unroll(16).read_ahead().copy(TileCopy::Ptx, 2);
const PTX_SMALL: Tile =
    Tile::new(64, 64, 16, 16, 8).lanes(4, 8).unroll(16).read_ahead().copy(TileCopy::Ptx, 2);

/// For GPUs whose compiler takes inline PTX: registers are plenty there. The last ones need no PTX,
/// for types that must be converted.
pub(super) const PTX_TILES: &[Rated] = &[
    Rated { tile: PTX_LARGE, efficiency: 1.0, unaligned: 0.6 },
    Rated { tile: PTX_WIDE, efficiency: 0.93, unaligned: 0.73 },
    Rated { tile: PTX_MEDIUM, efficiency: 0.92, unaligned: 0.65 },
    Rated { tile: PTX_SMALL, efficiency: 0.7, unaligned: 0.62 },
    Rated::new(GCN_MEDIUM, 0.6),
    Rated::new(GCN_SMALL, 0.4),
];

const CPU_LARGE: Tile = Tile::new(64, 256, 64, 8, 8).for_processor();
pub(super) const CPU_MEDIUM: Tile = Tile::new(64, 64, 64, 8, 4).for_processor();
// Work-groups of fewer than 32 take PoCL's compiler minutes: it writes each work-item out.
const CPU_SMALL: Tile = Tile::new(32, 64, 64, 8, 4).for_processor();

/// For drivers that run on the processor.
pub(super) const CPU_TILES: &[Rated] =
    &[Rated::new(CPU_LARGE, 1.0), Rated::new(CPU_MEDIUM, 0.8), Rated::new(CPU_SMALL, 0.5)];

/// Tensor cores, when there is enough work for large tiles.
pub(super) const TENSOR: Tensor =
    Tensor { m: 128, n: 128, step_bytes: 64, warp_m: 64, warp_n: 64, buffers: 3 };
/// Tensor cores, when there is not.
pub(super) const TENSOR_SMALL: Tensor =
    Tensor { m: 64, n: 128, step_bytes: 64, warp_m: 32, warp_n: 64, buffers: 3 };

const HYBRID_16: Tile = Tile::new(16, 16, 16, 8, 8);
const ASYNC_16: Tile = Tile::new(16, 16, 16, 8, 8).copy(TileCopy::WorkGroup, 2);
const TILE_20: Tile = Tile::new(20, 20, 20, 10, 10);
const TILE_24: Tile = Tile::new(24, 24, 16, 8, 8);
const TILE_32: Tile = Tile::new(32, 32, 16, 8, 8);

/// The kernels with names.
pub const VARIANTS: &[Variant] = &[
    Variant {
        name: "hybrid-16",
        technique: Technique::Kernel(Kernel::Tiled(HYBRID_16)),
        about: "tiles of 16, fetched in fours, 2x2 a work-item, double-buffered, padded",
    },
    Variant {
        name: "async-16",
        technique: Technique::Kernel(Kernel::Tiled(ASYNC_16)),
        about: "the same with async_work_group_copy",
    },
    Variant {
        name: "tile-20",
        technique: Technique::Kernel(Kernel::Tiled(TILE_20)),
        about: "tiles of 20, 2x2 a work-item",
    },
    Variant {
        name: "tile-24",
        technique: Technique::Kernel(Kernel::Tiled(TILE_24)),
        about: "tiles of 24, 3x3 a work-item",
    },
    Variant {
        name: "tile-32",
        technique: Technique::Kernel(Kernel::Tiled(TILE_32)),
        about: "tiles of 32, 4x4 a work-item",
    },
    Variant {
        name: "gcn-64",
        technique: Technique::Kernel(Kernel::Tiled(GCN_MEDIUM)),
        about: "tiles of 64, 4x4 a work-item, for GCN's wavefronts",
    },
    Variant {
        name: "gcn-128",
        technique: Technique::Kernel(Kernel::Tiled(GCN_LARGE)),
        about: "tiles of 128, 8x8 a work-item, within 128 registers",
    },
    Variant {
        name: "ahead-128",
        technique: Technique::Kernel(Kernel::Tiled(PTX_LARGE)),
        about: "tiles of 128, 8x16 a work-item, operands read ahead into registers",
    },
    Variant {
        name: "ptx-64x128",
        technique: Technique::Kernel(Kernel::Tiled(PTX_MEDIUM)),
        about: "tiles of 64x128 copied by cp.async",
    },
    Variant {
        name: "wide-64x256",
        technique: Technique::Kernel(Kernel::Tiled(CPU_LARGE)),
        about: "tiles of 64x256 in one buffer, vectors of 16: for processors",
    },
    Variant {
        name: "tensor-128",
        technique: Technique::Kernel(Kernel::Tensor(TENSOR)),
        about: "tensor cores, tiles of 128",
    },
    Variant {
        name: "simple",
        technique: Technique::Kernel(Kernel::Simple),
        about: "one work-item an element",
    },
    Variant {
        name: "fp16-mixed",
        technique: Technique::HalfStorage,
        about: "operands in f16, accumulated in f32",
    },
    Variant {
        name: "fused",
        technique: Technique::Fused,
        about: "the chosen kernel with a bias and GELU fused in",
    },
    Variant {
        name: "recursive",
        technique: Technique::Recursive,
        about: "one level of Strassen's recursion",
    },
    Variant {
        name: "streamed",
        technique: Technique::Streamed,
        about: "operands on the host, streamed in blocks while the device multiplies",
    },
];

/// Every kernel, in the order in which they are tried if the preferred one cannot be used.
pub(in crate::matmul) const KERNELS: &[Kernel] = &[
    Kernel::Blocks(BLOCKS),
    Kernel::Skinny(Skinny::DEFAULT),
    Kernel::Tensor(TENSOR),
    Kernel::Tensor(TENSOR_SMALL),
    Kernel::Tiled(PTX_LARGE),
    Kernel::Tiled(GCN_LARGE),
    Kernel::Tiled(GCN_MEDIUM),
    Kernel::Tiled(GCN_SMALL),
    Kernel::Tiled(CPU_LARGE),
    Kernel::Tiled(CPU_MEDIUM),
    Kernel::Tiled(CPU_SMALL),
    Kernel::Tiled(PTX_WIDE),
    Kernel::Tiled(PTX_MEDIUM),
    Kernel::Tiled(PTX_SMALL),
    Kernel::Tiled(HYBRID_16),
    Kernel::Tiled(ASYNC_16),
    Kernel::Tiled(TILE_20),
    Kernel::Tiled(TILE_24),
    Kernel::Tiled(TILE_32),
    Kernel::Simple,
];

/// The kernel for a matrix in blocks with so many vectors at once.
fn blocks_body(columns: u8) -> Body {
    Body::Blocks(Share::new(BLOCKS.group.into(), BLOCKS.lanes.into(), columns.into()))
}

/// The programs that the choice takes on GPUs, for the machine-code report. Tensor cores and
/// `cp.async` are not among them: they are another maker's.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let types = [
        (DType::F32, DType::F32, DType::F32),
        (DType::F16, DType::F16, DType::F16),
        (DType::BF16, DType::BF16, DType::BF16),
        (DType::I8, DType::I8, DType::I32),
        (DType::U8, DType::I8, DType::F32),
    ];
    let mut programs = Vec::new();
    let mut add = |body: Body, (a, b, output): (DType, DType, DType), epilogue: Activation| {
        // Everything at once.
        let finish = Finish { activation: epilogue.name(), has: 0b110_1111 };
        let finish = (epilogue != Activation::Identity).then_some(finish);
        let [a, b] = [a, b].map(Stored::Dense);
        let config = Config { body, a, b, output, epilogue: finish, wide: false };
        programs.push(config.source(epilogue));
    };
    let tiled = |tile: Tile, along_k: [bool; 2], width: u8| {
        let widths = [tile.m, tile.n]
            .map(|lines| if tile.fetches(lines, true, usize::from(width)) { width } else { 1 });
        let tile = Tile { multiply: MultiplyAdd::Faster, ..tile };
        Body::Tiled { tile, along_k, widths, loose: [false; 2] }
    };
    for rated in GPU_TILES {
        for types in types {
            add(tiled(rated.tile, [true, false], 4), types, Activation::Identity);
        }
        for along_k in [[true, true], [false, false], [false, true]] {
            add(tiled(rated.tile, along_k, 4), types[0], Activation::Identity);
        }
        add(tiled(rated.tile, [true, false], 1), types[0], Activation::Identity);
        add(tiled(rated.tile, [true, false], 4), types[0], Activation::GeluErf);
    }
    for tile in [HYBRID_16, ASYNC_16, TILE_20, TILE_24, TILE_32] {
        add(tiled(tile, [true, false], 4), types[0], Activation::Identity);
    }
    for types in types {
        for (along_k, rows) in [(true, 1), (false, 1), (true, 8), (false, 8)] {
            let Skinny { group, lanes, .. } = Skinny::DEFAULT;
            let body = Body::Skinny { rows, along_k, width: 4, group, lanes };
            add(body, types, Activation::Identity);
        }
        add(Body::Simple { group: 256 }, types, Activation::Identity);
        add(Body::Combine { group: 256 }, types, Activation::GeluErf);
    }
    // The other end of what tuning may choose.
    for along_k in [true, false] {
        let body = Body::Skinny { rows: 8, along_k, width: 4, group: 64, lanes: 8 };
        add(body, types[0], Activation::Identity);
    }
    let halves = [DType::F16, DType::BF16].map(Stored::Dense);
    for b in Block::ALL.map(Stored::Block).into_iter().chain(halves) {
        let a = Stored::Dense(DType::F32);
        let Skinny { group, lanes, .. } = Skinny::DEFAULT;
        let skinny = |rows| Body::Skinny { rows, along_k: true, width: 4, group, lanes };
        let tile = tiled(GCN_MEDIUM, [true, true], 4);
        let blocks = matches!(b, Stored::Block(_)).then(|| [1, 2, 4, 8].map(blocks_body));
        let others = [skinny(1), skinny(8), tile, Body::Simple { group: 256 }];
        for body in blocks.into_iter().flatten().chain(others) {
            let config = Config { body, a, b, output: DType::F32, epilogue: None, wide: false };
            programs.push(config.source(Activation::Identity));
        }
    }
    programs
}
