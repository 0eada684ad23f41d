//! The programs of matmul: their specialisations and sources.

use std::hash::{DefaultHasher, Hash, Hasher};

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, ProgramSource};
use polaris_tune::choices::fingerprint;

use super::{Tensor, Tile};
use crate::elementwise::opencl_expression;
use crate::format::{MULTIPLY, Share, Stored};
use crate::matmul::problem::Activation;
use crate::opencl::ELEMENT;

const PRODUCT: &str = include_str!("product.cl");

/// What follows a product.
const FINISH: &str = include_str!("finish.cl");
const TILE_COPIES: &str = include_str!("tile_copies.cl");
const TILED: &str = include_str!("tiled.cl");

const SKINNY: &str = include_str!("skinny.cl");
const BLOCKS: &str = include_str!("blocks.cl");
const SIMPLE_PARTS: &[&str] = &[ELEMENT, PRODUCT, FINISH, include_str!("simple.cl")];

/// The fingerprint of the tiled kernel's source: what was measured with another one says little.
/// Plain products are measured, so that it is without what may follow them.
pub fn tile_source() -> String {
    fingerprint(&[ELEMENT, PRODUCT, TILE_COPIES, TILED])
}

/// The fingerprint of the skinny kernel's source.
pub fn skinny_source() -> String {
    fingerprint(&[ELEMENT, PRODUCT, SKINNY])
}

/// A tile's program for `f32` in rows, without an epilogue; `aligned` if lines can be read four
/// elements at a time. For those who want to look at what a compiler makes of it.
pub fn tile_program(tile: &Tile, aligned: bool) -> ProgramSource {
    let along_k = [true, false];
    let widths = [0, 1].map(|which| {
        let lines = [tile.m, tile.n][which];
        if aligned && tile.fetches(lines, along_k[which], 4) { 4 } else { 1 }
    });
    let body = Body::Tiled { tile: *tile, along_k, widths, loose: [false; 2] };
    let [a, b] = [Stored::Dense(DType::F32); 2];
    let output = DType::F32;
    let config = Config { body, a, b, output, epilogue: None, wide: false };
    config.source(Activation::Identity)
}

/// What one program is specialised for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Config {
    pub body: Body,
    pub a: Stored,
    pub b: Stored,
    pub output: DType,
    /// `None` if there is nothing but the product.
    pub epilogue: Option<Finish>,
    pub wide: bool,
}

/// What an epilogue is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Finish {
    /// The activation's name.
    pub activation: &'static str,
    /// The bits of `HAS` in the source.
    pub has: u8,
}

/// Which kernel, and what it alone is specialised for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Body {
    Tiled {
        tile: Tile,
        along_k: [bool; 2],
        widths: [u8; 2],
        loose: [bool; 2],
    },
    Tensor {
        tensor: Tensor,
        along_k: [bool; 2],
        widths: [u8; 2],
    },
    Skinny {
        rows: u8,
        along_k: bool,
        width: u8,
        group: u16,
        lanes: u16,
    },
    /// Rows of a matrix in blocks.
    Blocks(Share),
    Simple {
        group: u16,
    },
    /// Adds the parts of a split-K matmul.
    Combine {
        group: u16,
    },
}

impl Config {
    pub fn key(&self) -> (&'static str, u64) {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        ("matmul", hasher.finish())
    }

    pub fn entry(&self) -> &'static str {
        match self.body {
            Body::Tiled { .. } => "matmul_tiled",
            Body::Tensor { .. } => "matmul_tensor",
            Body::Skinny { .. } => "matmul_skinny",
            Body::Blocks(_) => "matmul_blocks",
            Body::Simple { .. } => "matmul_simple",
            Body::Combine { .. } => "matmul_combine",
        }
    }

    pub fn source(&self, activation: Activation) -> ProgramSource {
        let mut defines = Defines::new()
            .code("A", self.a.name())
            .code("B", self.b.name())
            .code("OUT", self.output.name())
            .code("ACC", if self.a.dtype().is_float() { "float" } else { "int" })
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("EPILOGUE", self.epilogue.is_some());
        for stored in [self.a, self.b] {
            defines = stored.texts().fold(defines, Defines::text);
        }
        if let Stored::Block(block) = self.b {
            let [elements, bytes] = [block.elements(), block.bytes()].map(|size| size as i64);
            defines = defines.number("BLOCK_ELEMENTS", elements).number("BLOCK_BYTES", bytes);
        }
        if let Some(Finish { has, .. }) = self.epilogue {
            defines =
                defines.code("ACTIVATION(a)", activation_expression(activation)).number("HAS", has);
        }
        let (file, parts, defines) = self.body.complete(defines, self.a.dtype());
        let wide = if self.wide { " wide" } else { "" };
        let epilogue = self.epilogue.map(|finish| format!(" {} {}", finish.activation, finish.has));
        let epilogue = epilogue.unwrap_or_default();
        let types = format!("{}_{}_{}", self.a, self.b, self.output);
        let name = format!("{file} {types}_{}{epilogue}{wide}", self.body.name());
        ProgramSource { name, parts, defines, options: "-cl-mad-enable -cl-denorms-are-zero" }
    }
}

/// An activation of `a`, between `low` and `high` if it has limits.
pub(crate) fn activation_expression(activation: Activation) -> String {
    match activation {
        Activation::Identity => "(a)".to_owned(),
        Activation::Clamp { .. } => "((a) < low ? low : ((a) > high ? high : (a)))".to_owned(),
        other => {
            let function = other.function().map(opencl_expression);
            format!("({})", function.unwrap_or("a").replace("(C)", "(float)"))
        }
    }
}

impl Body {
    /// A description for messages and the machine-code report.
    fn name(&self) -> String {
        let letters = |along_k: [bool; 2]| match along_k {
            [true, false] => "nn",
            [true, true] => "nt",
            [false, false] => "tn",
            [false, true] => "tt",
        };
        match self {
            Self::Tiled { tile, along_k, widths: [a, b], loose } => {
                let loose = if loose.contains(&true) { " loose" } else { "" };
                format!("{} {}{a}{b}{loose}", tile.name(), letters(*along_k))
            }
            Self::Tensor { tensor, along_k, widths: [a, b] } => {
                format!("{} {}{a}{b}", tensor.name(), letters(*along_k))
            }
            Self::Skinny { rows, along_k, width, group, lanes } => {
                let layout = if *along_k { "dots" } else { "columns" };
                format!("skinny{rows} {layout}{width} {group}x{lanes}")
            }
            Self::Blocks(share) => share.name(),
            Self::Simple { .. } => "simple".to_owned(),
            Self::Combine { .. } => "combine".to_owned(),
        }
    }

    fn complete(
        &self,
        defines: Defines,
        dtype: DType,
    ) -> (&'static str, &'static [&'static str], Defines) {
        match *self {
            Self::Tiled { tile, along_k, widths, loose } => {
                let padding = |along_k: bool| if along_k { i64::from(tile.padding) } else { 0 };
                let multiply = if dtype.is_float() { tile.multiply.code() } else { "mad24" };
                let defines = operands(defines, along_k, widths)
                    .number("A_LOOSE", loose[0])
                    .number("B_LOOSE", loose[1])
                    .number("TILE_M", tile.m)
                    .number("TILE_N", tile.n)
                    .number("TILE_K", tile.k)
                    .number("THREADS_M", tile.threads_m)
                    .number("THREADS_N", tile.threads_n)
                    .number("LANES_M", tile.lanes_m)
                    .number("LANES_N", tile.lanes_n)
                    .number("VECTOR", tile.vector)
                    .number("ROWS_AT_ONCE", tile.rows_at_once)
                    .number("PAD_A", padding(along_k[0]))
                    .number("PAD_B", padding(along_k[1]))
                    .number("BUFFERS", tile.buffers)
                    .number("FRAGMENTS", tile.fragments)
                    .number("UNROLL", tile.unroll)
                    .number("COPY", tile.copy as i64)
                    .code("MULTIPLY_ADD", multiply);
                ("tiled.cl", &[ELEMENT, PRODUCT, FINISH, TILE_COPIES, TILED], defines)
            }
            Self::Tensor { tensor, along_k, widths } => {
                let element_bytes = dtype.size() as i64;
                let defines = operands(defines, along_k, widths)
                    .number("TILE_M", tensor.m)
                    .number("TILE_N", tensor.n)
                    .number("TILE_K", i64::from(tensor.step_bytes) / element_bytes)
                    .number("WARP_M", tensor.warp_m)
                    .number("WARP_N", tensor.warp_n)
                    .number("BUFFERS", tensor.buffers);
                ("tensor.cl", &[ELEMENT, PRODUCT, FINISH, include_str!("tensor.cl")], defines)
            }
            Self::Skinny { rows, along_k, width, group, lanes } => {
                let defines = defines
                    .number("ROWS", rows)
                    .number("ALONG_K", along_k)
                    .number("WIDTH", width)
                    .number("WORK_GROUP", group)
                    .number("LANES", lanes);
                ("skinny.cl", &[ELEMENT, PRODUCT, FINISH, SKINNY], defines)
            }
            Self::Blocks(share) => {
                let parts: &[_] = &[ELEMENT, PRODUCT, FINISH, MULTIPLY, BLOCKS];
                ("blocks.cl", parts, share.define(defines))
            }
            Self::Simple { group } => {
                let defines = defines.number("WORK_GROUP", group).number("COMBINE", 0);
                ("simple.cl", SIMPLE_PARTS, defines)
            }
            Self::Combine { group } => {
                let defines = defines.number("WORK_GROUP", group).number("COMBINE", 1);
                ("simple.cl", SIMPLE_PARTS, defines)
            }
        }
    }
}

fn operands(defines: Defines, along_k: [bool; 2], widths: [u8; 2]) -> Defines {
    defines
        .number("A_ALONG_K", along_k[0])
        .number("B_ALONG_K", along_k[1])
        .number("A_WIDTH", widths[0])
        .number("B_WIDTH", widths[1])
}
