//! The OpenCL programs of batch normalisation.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, ProgramSource};

use crate::opencl::{ELEMENT, compute_type, dtype_code};

const PARTS: &[&str] = &[ELEMENT, include_str!("batch_norm.cl")];

/// What is computed; the numbers are those of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Statistics = 0,
    Sums = 1,
    Norm = 2,
    Gradient = 3,
}

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    pub task: Task,
    pub dtype: DType,
    /// Whether a segment of a channel has a work-group, and not a work-item.
    pub group: bool,
    pub wide: bool,
    pub work_group: usize,
}

impl Config {
    /// A number for each entry of each program.
    pub fn key(&self, entry: u64) -> u64 {
        let flags = (self.task as u64) << 2 | u64::from(self.group) << 1 | u64::from(self.wide);
        ((dtype_code(self.dtype) << 8 | flags) << 8 | entry) << 16 | self.work_group as u64
    }

    pub fn source(&self) -> ProgramSource {
        let defines = Defines::new()
            .number("TASK", self.task as i64)
            .code("T", self.dtype.name())
            .code("C", compute_type(self.dtype))
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("FEW_AXES", self.wide)
            .number("GROUP", self.group)
            .number("WORK_GROUP", self.work_group as i64);
        let task = match self.task {
            Task::Statistics => "statistics",
            Task::Sums => "sums",
            Task::Norm => "norm",
            Task::Gradient => "gradient",
        };
        let walk = match (self.task, self.group) {
            (Task::Norm | Task::Gradient, _) => "items",
            (_, true) => "group",
            (_, false) => "serial",
        };
        let wide = if self.wide { "_wide" } else { "" };
        let name = format!("batch_norm.cl {task}_{}_{walk}{wide}", self.dtype);
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

/// Each task in each type, with wide indices in `f32`.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (task, group) in [
            (Task::Statistics, true),
            (Task::Statistics, false),
            (Task::Sums, true),
            (Task::Sums, false),
            (Task::Norm, false),
            (Task::Gradient, false),
        ] {
            let config = Config { task, dtype, group, wide: false, work_group: 256 };
            configs.push(config);
            if dtype == DType::F32 {
                configs.push(Config { wide: true, ..config });
            }
        }
    }
    configs.iter().map(Config::source).collect()
}
