//! Rotations on OpenCL devices.

use polaris_core::{Collapsed, DType};
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::Pairs;
use crate::opencl::{
    ELEMENT, Enqueue, compute_type, dtype_code, needs_wide_index, pass_axes, work_group,
};
use crate::{Array, Result};

/// The kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Any layout, one pair at a time.
    Strided,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Strided => "strided",
        }
    }
}

const PARTS: &[&str] = &[ELEMENT, include_str!("rope.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    dtype: DType,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        dtype_code(self.dtype) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let defines = Defines::new()
            .code("T", self.dtype.name())
            .code("C", compute_type(self.dtype))
            .number("WORK_GROUP", self.work_group as i64);
        let name = format!("rope.cl {}", self.dtype);
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

/// The output, x and both tables in one space.
fn space(pairs: &Pairs) -> Collapsed<4> {
    Collapsed::new(&pairs.shape, [&pairs.output[0], &pairs.x[0], &pairs.cos, &pairs.sin])
}

/// Indices of 64 bits along all axes of four arrays are more than the scalar registers of GCN hold.
pub fn supports(device: &OpenClDevice, pairs: &Pairs, output: &Array) -> bool {
    device.capabilities().supports(output.dtype()) && !needs_wide_index(&space(pairs))
}

pub fn run(device: &OpenClDevice, pairs: &Pairs, inputs: &[&Array], output: &Array) -> Result<()> {
    let space = space(pairs);
    let elements = space.elements();
    if elements == 0 {
        return Ok(());
    }
    let config = Config { dtype: output.dtype(), work_group: work_group(device) };
    let built = device.kernel(("rope", config.key()), "rope", || config.source())?;
    let mut launch = device.launch(&built).value(elements as u64).value(space.rank() as u32);
    launch = pass_axes(launch, space.dims(), false);
    for operand in 0..4 {
        launch = pass_axes(launch, space.strides(operand), false);
    }
    for [first, second] in [&pairs.output, &pairs.x] {
        launch = launch.value((second.offset() - first.offset()) as u64);
    }
    let layouts = [&pairs.output[0], &pairs.x[0], &pairs.cos, &pairs.sin];
    let arrays = [output, inputs[0], inputs[1], inputs[2]];
    for (array, layout) in arrays.into_iter().zip(layouts) {
        launch = launch.buffer(array.buffer(), layout.offset());
    }
    launch.enqueue(&[elements], &[config.work_group])
}

/// Every type.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |dtype| Config { dtype, work_group: 256 };
    [DType::F32, DType::F16, DType::BF16, DType::F64].map(|dtype| config(dtype).source()).into()
}
