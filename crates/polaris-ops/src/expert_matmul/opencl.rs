//! Matmul with experts on OpenCL devices.

use polaris_core::DType;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::{NAME, Sizes};
use crate::format::{Block, Format, MULTIPLY, Share, Stored};
use crate::opencl::{ELEMENT, Enqueue, pass_array, work_group};
use crate::{Array, Result, copy};

/// The kernels of matmul with experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Work-items side by side share lines of a weight in blocks, and unpack whole units of them.
    Blocks,
    /// Work-items side by side share a line of a weight.
    Lines,
    /// A work-item for each element: slow, and little that a compiler could get wrong.
    Serial,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Lines => "lines",
            Self::Serial => "serial",
        }
    }

    /// Work-items that share lines at most.
    const fn most_lanes(self) -> usize {
        match self {
            Self::Blocks => BLOCKS_LANES,
            Self::Lines | Self::Serial => LANES,
        }
    }

    /// Its function in the program.
    const fn entry(self) -> &'static str {
        match self {
            Self::Blocks => "expert_matmul_blocks",
            Self::Lines => "expert_matmul",
            Self::Serial => "expert_matmul_serial",
        }
    }
}

/// Work-items that share a line: a wavefront.
const LANES: usize = 64;

/// Work-items of a group and those that share lines of weights in blocks.
const BLOCKS_GROUP: usize = 128;
const BLOCKS_LANES: usize = 16;

const OPERANDS: &str = include_str!("expert_operands.cl");
const PARTS: &[&str] = &[ELEMENT, OPERANDS, include_str!("expert_matmul.cl")];
const BLOCKS_PARTS: &[&str] = &[ELEMENT, OPERANDS, MULTIPLY, include_str!("expert_blocks.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    kernel: Kernel,
    stored: Stored,
    work_group: usize,
}

impl Config {
    fn new(kernel: Kernel, device: &OpenClDevice, weight: &Array) -> Self {
        let items = work_group(device);
        let lanes = kernel.most_lanes();
        let items = if kernel == Kernel::Blocks { items.min(BLOCKS_GROUP) } else { items };
        let work_group = (items - items % lanes).max(lanes.min(items));
        Self { kernel, stored: weight.stored(), work_group }
    }

    /// Fewer lanes where groups are smaller.
    fn lanes(&self) -> usize {
        1 << self.kernel.most_lanes().min(self.work_group).ilog2()
    }

    /// Lines of a weight that a group takes.
    fn lines(&self) -> usize {
        match self.kernel {
            Kernel::Blocks => self.share().lines(),
            Kernel::Lines | Kernel::Serial => self.work_group / self.lanes(),
        }
    }

    fn share(&self) -> Share {
        Share::new(self.work_group, self.lanes(), 1)
    }

    fn key(&self) -> u64 {
        (self.stored.code() << 8 | self.kernel as u64) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let defines = self.stored.texts().fold(Defines::new(), Defines::text);
        let defines = defines.code("T", self.stored.name());
        match (self.kernel, self.stored) {
            (Kernel::Blocks, Stored::Block(block)) => {
                let defines = defines
                    .code("B", self.stored.name())
                    .number("BLOCK_ELEMENTS", block.elements() as i64)
                    .number("BLOCK_BYTES", block.bytes() as i64);
                let defines = self.share().define(defines);
                let name = format!("expert_blocks.cl {}", self.stored);
                let options = "-cl-mad-enable -cl-denorms-are-zero";
                ProgramSource { name, parts: BLOCKS_PARTS, defines, options }
            }
            _ => {
                let defines = defines
                    .number("WORK_GROUP", self.work_group as i64)
                    .number("LANES", self.lanes() as i64);
                let name = format!("expert_matmul.cl {}", self.stored);
                ProgramSource { name, parts: PARTS, defines, options: "" }
            }
        }
    }
}

pub fn supports(
    kernel: Kernel,
    device: &OpenClDevice,
    sizes: &Sizes,
    inputs: &[&Array],
    output: &Array,
) -> bool {
    let config = Config::new(kernel, device, inputs[1]);
    let pairs = sizes.tokens.saturating_mul(sizes.used);
    let groups = pairs.saturating_mul(sizes.n.div_ceil(config.lines()));
    let counts = [groups, sizes.n, sizes.experts, sizes.k];
    let near =
        |array: &&Array| array.layout().strides().iter().all(|&stride| stride <= u32::MAX as usize);
    counts.into_iter().all(|count| count <= i32::MAX as usize / 4)
        && inputs.iter().all(near)
        && near(&output)
        && match kernel {
            Kernel::Blocks => {
                config.work_group.is_multiple_of(config.lanes())
                    && in_fours([inputs[0], inputs[1]])
                    && in_blocks(inputs[1])
            }
            Kernel::Lines => config.work_group.is_multiple_of(config.lanes()),
            Kernel::Serial => true,
        }
}

/// Whether lines of a weight are whole blocks.
fn in_blocks(weight: &Array) -> bool {
    let Format::Block(block) = weight.format() else { return false };
    let strides = &weight.layout().strides()[..2];
    let sizes = [weight.shape()[2], weight.first_element()];
    sizes.iter().chain(strides).all(|size| size.is_multiple_of(block.elements()))
}

/// Whether lines of both factors can be read in fours.
fn in_fours(arrays: [&Array; 2]) -> bool {
    arrays.iter().all(|array| {
        let strides = array.layout().strides();
        strides[2] == 1
            && array.shape()[2].is_multiple_of(4)
            && array.first_element().is_multiple_of(4)
            && strides[..2].iter().all(|stride| stride.is_multiple_of(4))
    })
}

pub fn run(
    kernel: Kernel,
    device: &OpenClDevice,
    sizes: &Sizes,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let Sizes { tokens, used, experts, n, k, shared } = *sizes;
    let (x, weight) = (inputs[0], inputs[1]);
    let config = Config::new(kernel, device, weight);
    let pairs = tokens * used;
    let ids = match inputs[2].layout().is_contiguous() {
        true => inputs[2].clone(),
        false => copy::contiguous(inputs[2])?,
    };
    let parts = n.div_ceil(config.lines());
    let key = (NAME, config.key());
    let built = device.kernel(key, kernel.entry(), || config.source())?;
    let (fours, has_bias) = (in_fours([x, weight]), inputs.len() > 3);
    let numbers = [used, experts, n, k, parts, usize::from(has_bias), usize::from(fours), 0];
    let strides = |array: &Array| -> [u32; 4] {
        std::array::from_fn(|axis| {
            array.layout().strides().get(axis).map_or(0, |&stride| stride as u32)
        })
    };
    let mut of_x = strides(x);
    if shared {
        of_x[1] = 0;
    }
    let bias = inputs.get(3).copied().unwrap_or(x);
    let mut launch = device
        .launch(&built)
        .value(numbers.map(|number| number as u32))
        .value(pairs as u32)
        .value(of_x)
        .value(strides(weight))
        .value(strides(output))
        .value(strides(bias));
    for array in [output, x, weight, &ids, bias] {
        launch = pass_array(launch, array);
    }
    let items = match kernel {
        Kernel::Blocks | Kernel::Lines => pairs * parts * config.work_group,
        Kernel::Serial => pairs * n,
    };
    launch.enqueue(&[items], &[config.work_group])
}

/// Every type of weights.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    let dense = [DType::F32, DType::F16, DType::BF16].map(Stored::Dense);
    let lines = |stored| Config { kernel: Kernel::Lines, stored, work_group: 256 };
    let blocks = |block| Config {
        kernel: Kernel::Blocks,
        stored: Stored::Block(block),
        work_group: BLOCKS_GROUP,
    };
    (dense.into_iter().chain(Block::ALL.map(Stored::Block)).map(lines))
        .chain(Block::ALL.map(blocks))
        .map(|config| config.source())
        .collect()
}
