//! Causal convolution on OpenCL devices.

use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::{CausalConv, NAME, Sizes};
use crate::opencl::{ELEMENT, Enqueue, pass_array, work_group};
use crate::{Array, Result};

/// The kernels of causal convolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Any layout, a work-item for each element.
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

const PARTS: &[&str] = &[ELEMENT, include_str!("causal_conv.cl")];

fn source(work_group: usize) -> ProgramSource {
    let defines = Defines::new().number("WORK_GROUP", work_group as i64);
    ProgramSource { name: "causal_conv.cl f32".to_owned(), parts: PARTS, defines, options: "" }
}

/// The kernel counts in 32 bits.
pub fn supports(sizes: &Sizes, inputs: &[&Array], output: &Array) -> bool {
    let strides =
        |array: &&Array| array.layout().strides().iter().all(|&stride| stride <= u32::MAX as usize);
    sizes.tokens <= i32::MAX as usize
        && sizes.channels <= i32::MAX as usize
        && sizes.slots <= i32::MAX as usize
        && inputs.iter().chain([&output]).all(strides)
}

pub fn run(
    op: &CausalConv,
    device: &OpenClDevice,
    sizes: &Sizes,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let items = sizes.tokens * sizes.channels;
    let group = work_group(device);
    let built = device.kernel((NAME, group as u64), NAME, || source(group))?;
    let numbers = |numbers: [usize; 8]| numbers.map(|number| number as u32);
    let strides = |index: usize, axis: usize| inputs[index].layout().strides()[axis];
    let out = output.layout().strides();
    let bias = inputs.get(4);
    let mut launch = device
        .launch(&built)
        .value(items as u64)
        .value(numbers([
            sizes.channels,
            sizes.taps,
            sizes.slots,
            usize::from(op.bias),
            usize::from(op.silu),
            bias.map_or(0, |bias| bias.layout().strides()[0]),
            out[0],
            out[1],
        ]))
        .value(numbers([
            strides(0, 0),
            strides(0, 1),
            strides(1, 0),
            strides(1, 1),
            strides(1, 2),
            strides(2, 0),
            strides(2, 1),
            strides(3, 0),
        ]))
        .value(strides(3, 1) as u32);
    for array in [output, inputs[0], inputs[1], inputs[2], inputs[3], bias.unwrap_or(&inputs[3])] {
        launch = pass_array(launch, array);
    }
    launch.enqueue(&[items], &[group])
}

/// The one program.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    vec![source(256)]
}
