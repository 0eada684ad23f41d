//! Writing into a cache on OpenCL devices.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::{NAME, Sizes};
use crate::format::{Block, Stored};
use crate::opencl::{ELEMENT, Enqueue, pass_array, work_group};
use crate::{Array, Result};

/// The kernels of writing into a cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Dense rows, four elements at a time.
    Rows,
    /// Any layout, one element at a time. In a block format, that is the layout of what is read.
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
const BLOCK_PARTS: &[&str] = &[ELEMENT, include_str!("cache_write_blocks.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    stored: Stored,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        self.stored.code() << 16 | self.work_group as u64
    }

    fn entry(&self) -> &'static str {
        match self.stored {
            Stored::Dense(_) => NAME,
            Stored::Block(_) => "cache_write_blocks",
        }
    }

    fn source(&self) -> ProgramSource {
        let defines = Defines::new().number("WORK_GROUP", self.work_group as i64);
        let (defines, parts) = match self.stored {
            Stored::Dense(dtype) => (defines.code("T", dtype.name()), PARTS),
            Stored::Block(block) => {
                let bits = if block == Block::Q4_0 { 4 } else { 8 };
                (defines.number("BITS", bits), BLOCK_PARTS)
            }
        };
        let name = format!("{}.cl {}", self.entry(), self.stored);
        ProgramSource { name, parts, defines, options: "" }
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
    let stored = output.stored();
    let each = match stored {
        Stored::Block(block) => block.elements(),
        Stored::Dense(_) if in_fours => 4,
        Stored::Dense(_) => 1,
    };
    let items = tokens * heads * depth / each;
    if items == 0 {
        return Ok(());
    }
    let config = Config { stored, work_group: work_group(device) };
    let built = device.kernel((NAME, config.key()), config.entry(), || config.source())?;
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
    let dense = [DType::F32, DType::F16, DType::BF16].map(Stored::Dense);
    let blocks = [Block::Q8_0, Block::Q4_0].map(Stored::Block);
    let source = |stored| Config { stored, work_group: 256 }.source();
    dense.into_iter().chain(blocks).map(source).collect()
}
