//! Writing into a cache on OpenCL devices.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::{NAME, Sizes};
use crate::opencl::{ELEMENT, Enqueue, dtype_code, pass_array, work_group};
use crate::{Array, Result};

/// The kernels of writing into a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Dense rows, four elements at a time.
    Rows,
    /// Any layout, one element at a time.
    Strided,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Strided => "strided",
        }
    }
}

const PARTS: &[&str] = &[ELEMENT, include_str!("cache_write.cl")];

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
            .number("WORK_GROUP", self.work_group as i64);
        let name = format!("cache_write.cl {}", self.dtype);
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

pub fn supports(kernel: Kernel, x: &Array, output: &Array) -> bool {
    let in_fours = |array: &Array| {
        let strides = array.layout().strides();
        let last = strides.len() - 1;
        strides[last] == 1
            && array.shape()[last].is_multiple_of(4)
            && array.first_element().is_multiple_of(4)
            && strides[..last].iter().all(|stride| stride.is_multiple_of(4))
    };
    let is_near =
        |array: &Array| array.layout().strides().iter().all(|&stride| stride <= u32::MAX as usize);
    let slots = output.shape()[0].saturating_mul(output.shape()[1]);
    is_near(x)
        && is_near(output)
        && slots <= i32::MAX as usize
        && match kernel {
            Kernel::Rows => in_fours(x) && in_fours(output),
            Kernel::Strided => true,
        }
}

pub fn run(
    device: &OpenClDevice,
    kernel: Kernel,
    [tokens, heads, depth]: Sizes,
    slots: &Array,
    x: &Array,
    output: &Array,
) -> Result<()> {
    let in_fours = kernel == Kernel::Rows;
    let items = tokens * heads * depth / if in_fours { 4 } else { 1 };
    if items == 0 {
        return Ok(());
    }
    let config = Config { dtype: output.dtype(), work_group: work_group(device) };
    let built = device.kernel((NAME, config.key()), NAME, || config.source())?;
    let block_size = output.shape()[1];
    let count = output.shape()[0] * block_size;
    let sizes = [heads, depth, block_size, count, usize::from(in_fours), 0, 0, 0];
    let of_x = x.layout().strides();
    let cache = output.layout().strides();
    let launch = device
        .launch(&built)
        .value(items as u64)
        .value(sizes.map(|size| size as u32))
        .value([of_x[0], of_x[1], of_x[2], 0].map(|stride| stride as u32))
        .value([cache[0], cache[1], cache[2], cache[3]].map(|stride| stride as u32));
    let launch = pass_array(pass_array(pass_array(launch, output), x), slots);
    launch.value(slots.layout().strides()[0] as u64).enqueue(&[items], &[config.work_group])
}

/// Every type of caches.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |dtype| Config { dtype, work_group: 256 };
    [DType::F32, DType::F16, DType::BF16].map(|dtype| config(dtype).source()).into()
}
