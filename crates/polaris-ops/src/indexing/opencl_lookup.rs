//! Look-ups on OpenCL devices.

use polaris_core::{DType, Layout};
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::geometry::LookupSpace;
use super::lookup::Lookup;
use super::opencl_keys::{self, keys};
use crate::format::{Block, Stored};
use crate::opencl::{
    ELEMENT, Enqueue, moved_types, needs_wide_index, pass_array, pass_axes, work_group,
};
use crate::{Array, Result};

/// The kernels of look-ups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Dense rows that share an index, four elements at a time.
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

const PARTS: &[&str] = &[ELEMENT, include_str!("lookup.cl")];

#[derive(Debug, Clone, Copy)]
struct Config {
    stored: Stored,
    to: DType,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        let moved = match self.stored {
            Stored::Dense(dtype) if dtype == self.to => dtype.size() as u64,
            Stored::Dense(_) => 64 + self.stored.code(),
            Stored::Block(_) => self.stored.code(),
        };
        moved << 24 | u64::from(self.wide) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let (element, to, label) = match self.stored {
            Stored::Dense(dtype) if dtype == self.to => {
                let (element, _) = moved_types(dtype);
                (element, element, format!("{}_bytes", dtype.size()))
            }
            converted => (converted.name(), self.to.name(), format!("{converted}_to_{}", self.to)),
        };
        let defines = self.stored.texts().fold(Defines::new(), Defines::text);
        let defines = defines
            .code("T", element)
            .code("TO", to)
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64);
        let wide = if self.wide { "_wide" } else { "" };
        let name = format!("lookup.cl {label}{wide}");
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

/// The walk with keys, which are dense, in the place of the index.
fn space(op: &Lookup, index: &Array, x: &Array, output: &Array) -> Result<LookupSpace> {
    op.space(&Layout::contiguous(*index.shape()), x, output)
}

pub fn supports(op: &Lookup, kernel: Kernel, inputs: &[&Array], output: &Array) -> bool {
    let Ok(walk) = space(op, inputs[0], inputs[1], output) else {
        return false;
    };
    let in_fours = || {
        let (length, inner) = walk.space.inner();
        let last = walk.space.rank().saturating_sub(1);
        let aligned = |operand: usize, array: &Array| {
            array.first_element().is_multiple_of(4)
                && walk.space.strides(operand)[..last].iter().all(|s| s.is_multiple_of(4))
        };
        inner == [1, 1, 0]
            && length.is_multiple_of(4)
            && walk.stride.is_multiple_of(4)
            && aligned(0, output)
            && aligned(1, inputs[1])
    };
    opencl_keys::fit(op.looked_up(inputs[1]).length)
        && match kernel {
            Kernel::Rows => in_fours(),
            Kernel::Strided => true,
        }
}

pub fn run(
    op: &Lookup,
    device: &OpenClDevice,
    kernel: Kernel,
    index: &Array,
    x: &Array,
    output: &Array,
) -> Result<()> {
    let walk = space(op, index, x, output)?;
    let order: Vec<usize> = (0..index.shape().rank()).collect();
    let keys = keys(op.looked_up(x), device, index, &order)?;
    let config = Config {
        stored: x.stored(),
        to: output.dtype(),
        wide: needs_wide_index(&walk.space),
        work_group: work_group(device),
    };
    let built = device.kernel(("lookup", config.key()), "lookup", || config.source())?;
    let vectors = kernel == Kernel::Rows;
    let elements = output.elements();
    let mut launch = device
        .launch(&built)
        .value(elements as u64)
        .value(u32::from(vectors))
        .value(walk.space.rank() as u32)
        .value(walk.stride as u64);
    launch = pass_axes(launch, walk.space.dims(), config.wide);
    for operand in 0..3 {
        launch = pass_axes(launch, walk.space.strides(operand), config.wide);
    }
    let items = if vectors { elements / 4 } else { elements };
    let launch = pass_array(pass_array(launch, output), x);
    pass_array(launch, &keys).enqueue(&[items], &[config.work_group])
}

/// Each size of elements, conversions, and wide indices.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |stored, to, wide| Config { stored, to, wide, work_group: 256 };
    let moved = [DType::U8, DType::F16, DType::F32, DType::F64].map(|t| (Stored::Dense(t), t));
    let halves = [DType::F16, DType::BF16].map(|half| (Stored::Dense(half), DType::F32));
    let blocks = Block::ALL.map(|block| (Stored::Block(block), DType::F32));
    (moved.into_iter().chain(halves).chain(blocks))
        .map(|(stored, to)| config(stored, to, false))
        .chain([config(Stored::Dense(DType::F32), DType::F32, true)])
        .map(|config| config.source())
        .collect()
}
