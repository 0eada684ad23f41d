//! The OpenCL programs of convolutions.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, ProgramSource};

use crate::matmul::{Activation, activation_expression as expression};
use crate::opencl::{ELEMENT, compute_type, dtype_code};

/// Work-items in a group.
pub(super) const WORK_GROUP: usize = 256;
/// Rows and columns of a tile, steps of the sum in local memory, and rows and columns of an item.
pub(super) const TILE: usize = 64;
pub(super) const TILE_K: usize = 16;
const ITEM: usize = 4;
/// Rows and columns of positions that a group of the direct kernel has.
pub(super) const SQUARE: usize = 16;

const STEP: &str = include_str!("step.cl");
const GATHER_PARTS: &[&str] = &[ELEMENT, STEP, include_str!("convolution.cl")];
const WEIGHT_PARTS: &[&str] = &[ELEMENT, STEP, include_str!("convolution_weight.cl")];

/// What one program is specialised for. It holds all kernels of its file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Config {
    /// Whether it computes gradients of weights.
    pub weight: bool,
    pub dtype: DType,
    pub wide: bool,
    /// Whether the sums of tiles are split (split-K).
    pub cut: bool,
    /// The epilogue, if any.
    pub finish: Option<Finish>,
}

/// What follows a sum.
#[derive(Debug, Clone, Copy)]
pub(super) struct Finish {
    pub activation: Activation,
    pub residual: bool,
}

impl Finish {
    /// A small number for each kind.
    fn code(self) -> u64 {
        let same_kind = |other: &Activation| other.name() == self.activation.name();
        let place = Activation::ALL.iter().position(same_kind).unwrap_or(0) as u64;
        1 + (place << 1 | u64::from(self.residual))
    }
}

/// The functions of both files.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry {
    Tiled,
    Direct,
    Simple,
    Combine,
}

impl Config {
    pub fn key(&self, entry: Entry) -> u64 {
        let flags = u64::from(self.weight) << 1 | u64::from(self.wide);
        let finish = self.finish.map_or(0, Finish::code);
        let flags = u64::from(self.cut) << 2 | flags;
        ((finish << 8 | dtype_code(self.dtype)) << 3 | flags) << 8 | entry as u64
    }

    pub fn entry(&self, entry: Entry) -> &'static str {
        match (self.weight, entry) {
            (false, Entry::Tiled) => "convolution_tiled",
            (false, Entry::Direct) => "convolution_direct",
            (false, Entry::Simple) => "convolution_simple",
            (false, Entry::Combine) => "convolution_combine",
            (true, Entry::Tiled) => "weight_tiled",
            (true, Entry::Direct) => "weight_direct",
            (true, Entry::Simple) => "weight_simple",
            (true, Entry::Combine) => "weight_combine",
        }
    }

    pub fn source(&self) -> ProgramSource {
        let defines = Defines::new()
            .code("T", self.dtype.name())
            .code("C", compute_type(self.dtype))
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", WORK_GROUP as i64)
            .number("TILE", TILE as i64)
            .number("TILE_K", TILE_K as i64)
            .number("ITEM", ITEM as i64)
            .number("CUT", self.cut)
            .number("FUSED", self.finish.is_some());
        let defines = match self.finish {
            Some(Finish { activation, residual }) => defines
                .number("HAS_RESIDUAL", residual)
                .code("ACTIVATION(a)", expression(activation)),
            None => defines,
        };
        let (file, parts) = match self.weight {
            true => ("convolution_weight.cl", WEIGHT_PARTS),
            false => ("convolution.cl", GATHER_PARTS),
        };
        let wide = if self.wide { "_wide" } else { "" };
        let finish = match self.finish {
            Some(Finish { activation, residual: true }) => {
                format!(" {} residual", activation.name())
            }
            Some(Finish { activation, .. }) => format!(" {}", activation.name()),
            None => String::new(),
        };
        let cut = if self.cut { " cut" } else { "" };
        let name = format!("{file} {}{wide}{finish}{cut}", self.dtype);
        ProgramSource { name, parts, defines, options: "" }
    }
}

/// Every type, and `f32` with wide indices.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut programs = Vec::new();
    for weight in [false, true] {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
            programs.push(Config { weight, dtype, wide: false, cut: false, finish: None }.source());
        }
        programs.push(
            Config { weight, dtype: DType::F32, wide: true, cut: false, finish: None }.source(),
        );
    }
    let relu = Finish { activation: Activation::Relu, residual: true };
    let (dtype, finish) = (DType::F32, Some(relu));
    for cut in [false, true] {
        programs.push(Config { weight: false, dtype, wide: false, cut, finish }.source());
    }
    programs
}
