//! Normalisation on OpenCL devices: the kernels and what they support.

use polaris_runtime::Device;
use polaris_runtime::opencl::OpenClDevice;

use super::Part;
use super::opencl_launch::{self, RowLauncher};
use super::operations::Arrays;
use crate::Result;
use crate::opencl::work_group;

/// The kernels of normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-group for each row; rows are dense.
    Group,
    /// Of the weight's gradient: a work-item for each column of each segment of rows, which a second
    /// launch combines.
    Columns,
    /// A work-item for each row or column: slow, and little that a compiler could get wrong.
    Serial,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Columns => "columns",
            Self::Serial => "serial",
        }
    }
}

/// Up to this many elements a row is better served by one work-item than by a group.
pub const SHORT: usize = 16;

/// The most work-items in a group whose sums are halved: a power of two.
pub fn largest_group(device: &OpenClDevice) -> usize {
    1 << work_group(device).max(1).ilog2()
}

pub fn supports(arrays: &Arrays<'_>, kernel: Kernel, device: &OpenClDevice) -> bool {
    let Arrays { part, x, .. } = *arrays;
    device.capabilities().supports(x.dtype())
        && match kernel {
            Kernel::Group if part == Part::WeightGradient => false,
            Kernel::Group => RowLauncher::new(arrays, device).is_ok_and(|rows| rows.suits_groups()),
            Kernel::Columns => part == Part::WeightGradient,
            Kernel::Serial => true,
        }
}

/// Short rows are served by one item each.
pub fn preferred(arrays: &Arrays<'_>, device: &OpenClDevice) -> Option<Kernel> {
    let length = arrays.x.shape().last().copied().unwrap_or(1);
    let short = arrays.part != Part::WeightGradient && length <= SHORT;
    (short && supports(arrays, Kernel::Serial, device)).then_some(Kernel::Serial)
}

pub fn run(arrays: &Arrays<'_>, device: &OpenClDevice, kernel: Kernel) -> Result<()> {
    match arrays.part {
        Part::WeightGradient => opencl_launch::weight_gradient(arrays, device, kernel),
        Part::Output | Part::Gradient => {
            let output = arrays.output;
            let rows = RowLauncher::new(arrays, device)?;
            rows.launch(kernel == Kernel::Group, output.buffer(), output.layout().offset())
        }
    }
}
