//! The OpenCL programs of normalisation.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, ProgramSource};

use super::NormKind;
use crate::opencl::{ELEMENT, compute_type, dtype_code};
use crate::operation::sum_dtype;

const ROW_PARTS: &[&str] = &[ELEMENT, include_str!("norm.cl")];
const COLUMN_PARTS: &[&str] = &[ELEMENT, include_str!("norm.cl"), include_str!("norm_columns.cl")];

/// What a launch computes; the numbers are those of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Task {
    Norm = 0,
    Gradient = 1,
    Statistics = 2,
    Columns = 3,
}

/// How a row is walked by a work-group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Walk {
    /// Work-items in the group.
    pub group: usize,
    /// Elements that are read at once.
    pub width: usize,
    /// How often an item reads, if what it reads is kept; 0 if every pass reads again.
    pub kept: usize,
}

/// Reads of an item whose results fit its registers well, the gradient's beside them.
const KEPT: usize = 4;

/// The smallest group: with a wavefront or two, a barrier costs next to nothing.
const SMALL_GROUP: usize = 64;

/// Work-items in a group where the device has no smaller limit.
const USUAL_GROUP: usize = 256;

impl Walk {
    /// Groups of up to `limit` items, a power of two, for rows of this length. The more an item does
    /// by itself, the less there is to combine.
    pub fn new(limit: usize, length: usize, in_fours: bool) -> Self {
        let width = if in_fours { 4 } else { 1 };
        let reads = length / width;
        let small = limit.min(SMALL_GROUP);
        let group = if reads <= small * KEPT { small } else { limit };
        Self { group, width, kept: if reads <= group * KEPT { KEPT } else { 0 } }
    }
}

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    pub task: Task,
    pub kind: NormKind,
    pub dtype: DType,
    /// None where each row, or each column, has a work-item.
    pub walk: Option<Walk>,
    pub wide: bool,
    /// Work-items in a group.
    pub work_group: usize,
}

impl Config {
    /// The function's name in the source.
    pub fn entry(&self) -> &'static str {
        match (self.task, self.walk) {
            (Task::Columns, _) => "norm_columns",
            (_, Some(_)) => "norm_group",
            (_, None) => "norm_serial",
        }
    }

    pub fn key(&self) -> u64 {
        let what = (self.task as u64) << 1 | self.kind as u64;
        let walk = self.walk.map_or(0, |walk| 1 << 8 | (walk.width << 4 | walk.kept) as u64);
        let flags = walk << 1 | u64::from(self.wide);
        ((what << 8 | dtype_code(self.dtype)) << 16 | flags) << 16 | self.work_group as u64
    }

    pub fn source(&self) -> ProgramSource {
        let output = match self.task {
            Task::Norm | Task::Gradient => self.dtype,
            Task::Statistics | Task::Columns => sum_dtype(self.dtype),
        };
        let [width, kept] = self.walk.map_or([1, 0], |walk| [walk.width, walk.kept]);
        let defines = Defines::new()
            .number("TASK", self.task as i64)
            .number("LAYER", self.kind == NormKind::Layer)
            .code("IN", self.dtype.name())
            .code("OUT", output.name())
            .code("ACC", compute_type(self.dtype))
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("ONE_AXIS", self.wide && self.walk.is_some())
            .number("WORK_GROUP", self.work_group as i64)
            .number("GROUPED", self.walk.is_some())
            .number("WIDTH", width as i64)
            .number("KEPT", kept as i64);
        let kind = if self.kind == NormKind::Layer { "layer" } else { "rms" };
        let (file, parts, task) = match self.task {
            Task::Norm => ("norm.cl", ROW_PARTS, ""),
            Task::Gradient => ("norm.cl", ROW_PARTS, "_gradient"),
            Task::Statistics => ("norm.cl", ROW_PARTS, "_statistics"),
            Task::Columns => ("norm_columns.cl", COLUMN_PARTS, "_weight_gradient"),
        };
        let walk = match self.walk {
            Some(Walk { group, width, kept }) => format!("_group{group}_{kept}x{width}"),
            None if self.task == Task::Columns => "_columns".to_owned(),
            None => "_serial".to_owned(),
        };
        let wide = if self.wide { "_wide" } else { "" };
        let name = format!("{file} {kind}{task}_{}{walk}{wide}", self.dtype);
        ProgramSource { name, parts, defines, options: "" }
    }
}

/// Everything in `f32`; the largest kept row and the serial kernel in every type; wide indices.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    let walks = [(256, true), (4096, true), (100_000, true), (64, false), (1024, false)];
    let mut walks =
        walks.map(|(length, fours)| Some(Walk::new(USUAL_GROUP, length, fours))).to_vec();
    walks.extend([Some(Walk::new(USUAL_GROUP, 100_001, false)), None]);
    let largest = Some(Walk::new(USUAL_GROUP, 4096, true));
    for kind in NormKind::ALL {
        for task in [Task::Norm, Task::Gradient, Task::Statistics] {
            let config = |dtype, walk: Option<Walk>, wide| Config {
                task,
                kind,
                dtype,
                walk,
                wide,
                work_group: walk.map_or(USUAL_GROUP, |walk| walk.group),
            };
            configs.extend(walks.iter().map(|&walk| config(DType::F32, walk, false)));
            for dtype in [DType::F16, DType::BF16, DType::F64] {
                configs.extend([largest, None].map(|walk| config(dtype, walk, false)));
            }
            configs.extend([largest, None].map(|walk| config(DType::F32, walk, true)));
        }
    }
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        let wide = [false, true].into_iter().filter(|&wide| !wide || dtype == DType::F32);
        configs.extend(wide.map(|wide| columns(dtype, wide, USUAL_GROUP)));
    }
    configs.iter().map(Config::source).collect()
}

/// The program that adds up columns. It knows statistics only: one serves both kinds.
pub fn columns(dtype: DType, wide: bool, work_group: usize) -> Config {
    let (task, kind) = (Task::Columns, NormKind::Layer);
    Config { task, kind, dtype, walk: None, wide, work_group }
}
