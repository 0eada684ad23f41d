//! The OpenCL programs of reductions.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, ProgramSource};

use super::Reduction;
use crate::opencl::{ELEMENT, compute_type, dtype_code};

/// The texts of every program.
pub(super) const PARTS: &[&str] = &[ELEMENT, include_str!("reduce.cl")];

/// The functions of the source, of which kernels may share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variant {
    Serial,
    Tree,
    OnePass,
}

impl Variant {
    /// Its name in the source.
    pub fn entry(self) -> &'static str {
        if self == Self::Serial { "reduce_serial" } else { "reduce_tree" }
    }
}

/// Work-items in a group where the device has no smaller limit and nothing was tuned.
const USUAL_GROUP: usize = 256;

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    pub reduction: Reduction,
    pub variant: Variant,
    pub dtype: DType,
    pub one_axis: bool,
    pub wide: bool,
    pub work_group: usize,
}

impl Config {
    pub fn key(&self) -> u64 {
        let types = (self.reduction as u64) << 8 | dtype_code(self.dtype);
        let flags = [self.one_axis, self.wide];
        let flags =
            flags.iter().fold(self.variant as u64, |bits, &flag| bits << 1 | u64::from(flag));
        (types << 8 | flags) << 16 | self.work_group as u64
    }

    pub fn source(&self) -> ProgramSource {
        let accumulator = accumulator(self.reduction, self.dtype);
        let defines = Defines::new()
            .number("REDUCTION", self.reduction as i64)
            .code("IN", self.dtype.name())
            .code("OUT", self.reduction.output_dtype(self.dtype).name())
            .code("ACC", accumulator)
            .code("FIRST", first(self.reduction, accumulator))
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("ONE_AXIS", self.one_axis)
            .number("WORK_GROUP", self.work_group as i64)
            .number("TREE", self.variant != Variant::Serial)
            .number("ONE_PASS", self.variant == Variant::OnePass);
        let variant = match self.variant {
            Variant::Serial => "serial",
            Variant::Tree => "tree",
            Variant::OnePass => "onepass",
        };
        let name = format!("reduce.cl {}_{}_{variant}", self.reduction.name(), self.dtype);
        let axes = if self.one_axis { "" } else { "_axes" };
        let wide = if self.wide { "_wide" } else { "" };
        let group = match self.work_group {
            USUAL_GROUP => String::new(),
            other => format!("_{other}"),
        };
        ProgramSource { name: name + axes + wide + &group, parts: PARTS, defines, options: "" }
    }
}

/// Sums of integers are made in `long`, everything else in the compute type.
fn accumulator(reduction: Reduction, dtype: DType) -> &'static str {
    if reduction == Reduction::Sum && !dtype.is_float() { "long" } else { compute_type(dtype) }
}

fn first(reduction: Reduction, accumulator: &str) -> &'static str {
    match (reduction, accumulator) {
        (Reduction::Sum | Reduction::Mean, _) => "0",
        (Reduction::Min, "int") => "INT_MAX",
        (Reduction::Min, "long") => "LONG_MAX",
        (Reduction::Min, _) => "INFINITY",
        (_, "int") => "INT_MIN",
        (_, "long") => "LONG_MIN",
        (_, _) => "(-INFINITY)",
    }
}

/// The type of partial results, as a buffer knows it.
pub fn accumulator_dtype(reduction: Reduction, dtype: DType) -> DType {
    match accumulator(reduction, dtype) {
        "float" => DType::F32,
        "double" => DType::F64,
        "int" => DType::I32,
        _ => DType::I64,
    }
}

/// Every reduction of every type, and `f32` with several axes and with wide indices.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    for variant in [Variant::OnePass, Variant::Tree, Variant::Serial] {
        let config = |reduction, dtype, one_axis, wide| Config {
            reduction,
            variant,
            dtype,
            one_axis,
            wide,
            work_group: USUAL_GROUP,
        };
        for reduction in Reduction::ALL {
            let defined = |dtype: &DType| reduction != Reduction::Mean || dtype.is_float();
            let types = DType::ALL.into_iter().filter(defined);
            configs.extend(types.map(|dtype| config(reduction, dtype, true, false)));
            for (one_axis, wide) in [(false, false), (true, true), (false, true)] {
                configs.push(config(reduction, DType::F32, one_axis, wide));
            }
        }
        // The other end of what tuning may choose.
        if variant != Variant::Serial {
            let sum = config(Reduction::Sum, DType::F32, true, false);
            configs.push(Config { work_group: 64, ..sum });
        }
    }
    configs.iter().map(Config::source).collect()
}
