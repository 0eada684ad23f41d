//! The OpenCL programs of attention.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, ProgramSource};

use crate::opencl::{ELEMENT, compute_type, dtype_code};
use crate::operation::sum_dtype;

const SERIAL_PARTS: &[&str] = &[ELEMENT, include_str!("attention.cl")];
const TILED_PARTS: &[&str] = &[
    ELEMENT,
    include_str!("attention.cl"),
    include_str!("attention_tiled.cl"),
    include_str!("attention_gradient.cl"),
];

/// What a launch computes; the numbers are those of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Forward = 0,
    GradientOfQ = 1,
    GradientsOfKV = 2,
}

impl Task {
    const ALL: [Self; 3] = [Self::Forward, Self::GradientOfQ, Self::GradientsOfKV];

    const fn name(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::GradientOfQ => "gradient_of_q",
            Self::GradientsOfKV => "gradients_of_kv",
        }
    }
}

/// Results of a tile, in units of 64 columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Widths {
    /// Of what is as wide as q and k.
    pub depth: usize,
    /// Of what is as wide as v.
    pub values: usize,
}

/// The widest results whose sums registers hold.
pub const MOST_WIDTH: usize = 4;
/// Work-items in a group of a tiled kernel.
pub const TILED_GROUP: usize = 256;
/// Rows and columns of a tile.
pub const TILE: usize = 64;
/// Bytes of local memory of a tiled kernel: the weights, and chunks of the factors.
pub const LOCAL_BYTES: usize = (TILE * (TILE + 4) + 2 * 16 * (TILE + 4)) * size_of::<f32>();

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    pub task: Task,
    pub dtype: DType,
    /// The widths of a tiled kernel; none for a serial one.
    pub widths: Option<Widths>,
    pub work_group: usize,
}

impl Config {
    pub fn key(&self) -> u64 {
        let (depth, values) = self.relevant_widths().map_or((0, 0), |w| (w.depth, w.values));
        let widths = (depth << 4 | values) as u64;
        let task = self.task as u64;
        (dtype_code(self.dtype) << 8 | widths) << 24 | task << 16 | self.work_group as u64
    }

    pub fn entry(&self) -> &'static str {
        if self.widths.is_some() { "attention_tiled" } else { "attention_serial" }
    }

    /// Widths that a task does not look at are as good as any: there are fewer programs then.
    fn relevant_widths(&self) -> Option<Widths> {
        let Widths { depth, values } = self.widths?;
        Some(match self.task {
            Task::Forward => Widths { depth: 1, values },
            Task::GradientOfQ => Widths { depth, values: 1 },
            Task::GradientsOfKV => Widths { depth, values },
        })
    }

    pub fn source(&self) -> ProgramSource {
        let mut defines = Defines::new()
            .code("T", self.dtype.name())
            .code("C", compute_type(self.dtype))
            .code("OUT", sum_dtype(self.dtype).name())
            .number("TASK", self.task as i64)
            .number("SERIAL", self.widths.is_none())
            .number("WORK_GROUP", self.work_group as i64);
        let name = format!("{}_{}", self.task.name(), self.dtype);
        let Some(Widths { depth, values }) = self.relevant_widths() else {
            let name = format!("attention.cl {name}_serial");
            return ProgramSource { name, parts: SERIAL_PARTS, defines, options: "" };
        };
        defines = defines.number("DEPTH_TILES", depth as i64).number("VALUE_TILES", values as i64);
        let file = if self.task == Task::Forward { "tiled" } else { "gradient" };
        let name = format!("attention_{file}.cl {name}_tiled{depth}x{values}");
        ProgramSource { name, parts: TILED_PARTS, defines, options: "" }
    }
}

/// Each task in every type with each kernel, and `f32` with all widths.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    for task in Task::ALL {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
            let of = |widths: Option<usize>| Config {
                task,
                dtype,
                widths: widths.map(|width| Widths { depth: width, values: width }),
                work_group: TILED_GROUP,
            };
            configs.push(of(None));
            if dtype != DType::F64 {
                configs.push(of(Some(1)));
            }
            if dtype == DType::F32 {
                configs.extend((2..=MOST_WIDTH).map(|width| of(Some(width))));
            }
        }
    }
    configs.iter().map(Config::source).collect()
}
