//! Softmax on OpenCL devices.

use polaris_core::{Collapsed, DType, MAX_RANK};
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::{Form, Rows};
use crate::opencl::{
    ELEMENT, Enqueue, compute_type, dtype_code, needs_wide_index, pass_array, pass_axes, work_group,
};
use crate::{Array, Result};

/// The kernels of softmax and its gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-item for each row, where rows lie side by side or are short.
    Columns,
    /// A work-group for each row, which holds it in registers: one read, one write.
    Held,
    /// A work-group for each row, of any length: it is read once for each pass.
    Group,
    /// A work-item for each row: slow, and little that a compiler could get wrong.
    Serial,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Columns => "columns",
            Self::Held => "held",
            Self::Group => "group",
            Self::Serial => "serial",
        }
    }
}

/// Up to this many elements a row is better served by one work-item than by a group.
const SHORT: usize = 16;
/// Fewer rows side by side than this would leave most of a wavefront's reads far apart.
const SIDE_BY_SIDE: usize = 32;
/// Work-items in a group where the device has no smaller limit.
const USUAL_GROUP: usize = 256;
/// Work-items for short rows that are held: a wavefront.
const SMALL_GROUP: usize = 64;

const PARTS: &[&str] = &[ELEMENT, include_str!("softmax.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    form: Form,
    dtype: DType,
    /// Whether a row has a work-group, and not a work-item.
    group: bool,
    /// Vectors of four that an item holds; 0 if it holds none.
    held: usize,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        let flags = [self.form.log, self.form.gradient, self.group, self.wide];
        let flags = flags.iter().fold(0, |bits, &flag| bits << 1 | u64::from(flag));
        let shape = (self.held as u64) << 16 | self.work_group as u64;
        (dtype_code(self.dtype) << 8 | flags) << 32 | shape
    }

    fn entry(&self) -> &'static str {
        if self.group { "softmax_group" } else { "softmax_serial" }
    }

    fn source(&self) -> ProgramSource {
        let defines = Defines::new()
            .code("T", self.dtype.name())
            .code("C", compute_type(self.dtype))
            .number("LOG", self.form.log)
            .number("GRADIENT", self.form.gradient)
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64)
            .number("GROUP", self.group)
            .number("HELD", self.held as i64);
        let variant = match (self.group, self.held) {
            (false, _) => "serial".to_owned(),
            (true, 0) => "group".to_owned(),
            (true, held) => format!("held{held}x{}", self.work_group),
        };
        let name = format!("softmax.cl {}_{}_{variant}", self.form.name(), self.dtype);
        let wide = if self.wide { "_wide" } else { "" };
        ProgramSource { name: name + wide, parts: PARTS, defines, options: "" }
    }
}

/// The groups and the numbers of vectors held by an item that rows may have, shortest first. What is
/// held must leave a GPU registers for several groups at once.
fn holdings(form: Form, dtype: DType) -> impl Iterator<Item = (usize, usize)> {
    let registers = if dtype == DType::F64 { 2 } else { 1 };
    let needed = if form.gradient { 2 * registers } else { registers };
    [(SMALL_GROUP, 1), (USUAL_GROUP, 1), (USUAL_GROUP, 4)]
        .into_iter()
        .filter(move |(_, held)| held * needed <= 8)
}

/// Work-items in a group and vectors held for rows of this length, if they can be held.
fn holding(
    form: Form,
    device: &OpenClDevice,
    dtype: DType,
    length: usize,
) -> Option<(usize, usize)> {
    let limit = largest_group(device);
    holdings(form, dtype)
        .map(|(group, held)| (group.min(limit), held))
        .find(|(group, held)| 4 * group * held >= length)
}

/// A power of two, as the trees need it.
fn largest_group(device: &OpenClDevice) -> usize {
    1 << work_group(device).max(1).ilog2()
}

pub fn supports(
    form: Form,
    kernel: Kernel,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> bool {
    let Ok(rows) = Rows::new(form, inputs, output) else {
        return false;
    };
    let dtype = output.dtype();
    device.capabilities().supports(dtype)
        && match kernel {
            Kernel::Columns => rows.length <= SHORT || rows.are_side_by_side(SIDE_BY_SIDE),
            Kernel::Held => holding(form, device, dtype, rows.length).is_some(),
            Kernel::Group | Kernel::Serial => true,
        }
}

pub fn run(
    form: Form,
    device: &OpenClDevice,
    kernel: Kernel,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let rows = Rows::new(form, inputs, output)?;
    let (first, last) = (inputs[0], inputs[inputs.len() - 1]);
    let arrays = [output, first, last];
    let space = Collapsed::new(output.shape(), arrays.map(Array::layout));
    let group = matches!(kernel, Kernel::Held | Kernel::Group);
    let (work_group, held) = match kernel {
        Kernel::Held => {
            holding(form, device, output.dtype(), rows.length).unwrap_or((largest_group(device), 0))
        }
        _ => (largest_group(device), 0),
    };
    let config = Config {
        form,
        dtype: output.dtype(),
        group,
        held,
        // Items step beyond the end of their row before they see it.
        wide: needs_wide_index(&space) || rows.length > 1 << 31,
        work_group,
    };
    let built = device.kernel(("softmax", config.key()), config.entry(), || config.source())?;
    let starts = &rows.starts;
    let mut launch = device
        .launch(&built)
        .value(starts.elements() as u64)
        .value(starts.rank() as u32)
        .value(u32::from(in_vectors(&rows, &arrays)));
    // The rows' own axis at the end, as the source says.
    let axes = |others: &[usize], own: usize| {
        let mut all = [1; MAX_RANK];
        all[..others.len()].copy_from_slice(others);
        all[MAX_RANK - 1] = own;
        all
    };
    launch = pass_axes(launch, &axes(starts.dims(), rows.length), config.wide);
    for (operand, &stride) in rows.strides.iter().enumerate() {
        launch = pass_axes(launch, &axes(starts.strides(operand), stride), config.wide);
    }
    for array in arrays {
        launch = pass_array(launch, array);
    }
    let items = starts.elements() * if group { work_group } else { 1 };
    launch.enqueue(&[items], &[work_group])
}

/// Whether the rows of every array are dense and begin on a multiple of four.
fn in_vectors(rows: &Rows, arrays: &[&Array; 3]) -> bool {
    let aligned = |(operand, array): (usize, &&Array)| {
        let first = array.buffer().byte_offset() / array.dtype().size() + array.layout().offset();
        rows.strides[operand] == 1
            && first.is_multiple_of(4)
            && rows.starts.strides(operand).iter().all(|stride| stride.is_multiple_of(4))
    };
    arrays.iter().enumerate().all(aligned)
}

/// Every function of every type with each kernel, and `f32` with wide indices and the other sizes
/// of rows that are held.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    for (log, gradient) in [(false, false), (true, false), (false, true), (true, true)] {
        let form = Form { axis: 0, log, gradient };
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
            let config = |group, (work_group, held)| Config {
                form,
                dtype,
                group,
                held,
                wide: false,
                work_group,
            };
            let kernels = [config(false, (USUAL_GROUP, 0)), config(true, (USUAL_GROUP, 0))];
            configs.extend(kernels);
            let held: Vec<_> = holdings(form, dtype).collect();
            if dtype == DType::F32 {
                configs.extend(held.iter().map(|&holding| config(true, holding)));
                configs.extend(kernels.map(|config| Config { wide: true, ..config }));
            }
            let longest = held.last().copied().unwrap_or((USUAL_GROUP, 0));
            configs.push(Config { wide: dtype == DType::F32, ..config(true, longest) });
        }
    }
    configs.iter().map(Config::source).collect()
}
