//! Linear attention on OpenCL devices.

use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::geometry::Sizes;
use super::{Decay, Inputs, LinearAttention, NAME, Sharing};
use crate::opencl::{ELEMENT, Enqueue, pass_array, work_group};
use crate::{Array, Result};

/// The kernels of linear attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// A work-group for some columns of a head, with the state in registers.
    Grouped,
    /// A work-item for each column, with the state in the output: slow, and little that a compiler could get wrong.
    Serial,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Grouped => "grouped",
            Self::Serial => "serial",
        }
    }

    /// Its function in the program.
    const fn entry(self) -> &'static str {
        match self {
            Self::Grouped => "linear_attention",
            Self::Serial => "linear_attention_serial",
        }
    }
}

/// Columns of a work-group; as many work-items as there is room for share the rows of each.
const COLUMNS: usize = 32;
/// The most rows of a work-item: more would not leave room for other groups.
const MOST_ROWS: usize = 32;

const PARTS: &[&str] = &[ELEMENT, include_str!("linear_attention.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    kernel: Kernel,
    decay: Decay,
    delta: bool,
    rows: usize,
    work_group: usize,
}

impl Config {
    fn new(op: &LinearAttention, kernel: Kernel, device: &OpenClDevice, keys: usize) -> Self {
        // The largest power of two.
        let work_group = 1 << work_group(device).max(1).ilog2();
        let slices = (work_group / COLUMNS).max(1);
        let rows = if kernel == Kernel::Serial { 1 } else { keys.div_ceil(slices).max(1) };
        Self { kernel, decay: op.decay, delta: op.delta, rows, work_group }
    }

    fn key(&self) -> u64 {
        let kind = (self.kernel as u64) << 4 | (self.decay as u64) << 1 | u64::from(self.delta);
        (kind << 16 | self.rows as u64) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let defines = Defines::new()
            .number("SERIAL", self.kernel == Kernel::Serial)
            .number("DECAY", self.decay as i64)
            .number("DELTA", self.delta)
            .number("ROWS", self.rows as i64)
            .number("COLUMNS", COLUMNS as i64)
            .number("WORK_GROUP", self.work_group as i64);
        let rule = if self.delta { "_delta" } else { "" };
        let (decay, kernel) = (self.decay.name(), self.kernel.name());
        let name = format!("linear_attention.cl {decay}{rule}_{kernel}{}", self.rows);
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

/// Kernels count in 32 bits.
pub fn supports(
    kernel: Kernel,
    op: &LinearAttention,
    device: &OpenClDevice,
    sizes: &Sizes,
    inputs: &[&Array],
    output: &Array,
) -> bool {
    let most = i32::MAX as usize / 4;
    let counts = [
        output.shape()[0],
        sizes.slots,
        sizes.sequences.saturating_mul(sizes.heads).saturating_mul(sizes.values.max(COLUMNS)),
        sizes.keys,
    ];
    let is_near =
        |array: &&Array| array.layout().strides().iter().all(|&stride| stride <= u32::MAX as usize);
    let config = Config::new(op, kernel, device, sizes.keys);
    counts.into_iter().all(|count| count <= most)
        && inputs.iter().chain([&output]).all(is_near)
        && match kernel {
            Kernel::Grouped => {
                let local = 5 * config.work_group * size_of::<f32>();
                sizes.keys > 0
                    && config.work_group >= COLUMNS
                    && config.rows <= MOST_ROWS
                    && device.capabilities().local_memory_bytes >= local as u64
            }
            Kernel::Serial => true,
        }
}

pub fn run(
    op: &LinearAttention,
    kernel: Kernel,
    device: &OpenClDevice,
    sizes: &Sizes,
    arrays: &Inputs<'_>,
    output: &Array,
) -> Result<()> {
    let config = Config::new(op, kernel, device, sizes.keys);
    let built = device.kernel((NAME, config.key()), kernel.entry(), || config.source())?;
    let numbers = |numbers: [usize; 8]| numbers.map(|number| number as u32);
    let strides = |array: &Array| {
        let mut all = [0; 4];
        all[..array.layout().strides().len()].copy_from_slice(array.layout().strides());
        all
    };
    let beta = arrays.beta.unwrap_or(arrays.q);
    let rates = arrays.rates.unwrap_or(arrays.q);
    let [q, k, v, decay] = [arrays.q, arrays.k, arrays.v, arrays.decay].map(strides);
    let [out, states, beta_steps, rate_steps] = [output, arrays.states, beta, rates].map(strides);
    let runs = strides(arrays.runs);
    // How heads lead to groups: divided by one number, or what is left of a division by another.
    let (divided, left) = match op.sharing {
        Sharing::Neighbours => (sizes.heads / sizes.groups, sizes.groups),
        Sharing::Tiled => (1, sizes.groups),
    };
    let mut launch = device
        .launch(&built)
        .value(op.query_scale as f32)
        .value(op.key_scale as f32)
        .value(numbers([
            sizes.tokens,
            sizes.sequences,
            sizes.slots,
            sizes.heads,
            sizes.keys,
            sizes.values,
            divided,
            left,
        ]))
        .value(numbers([q[0], q[1], q[2], k[0], k[1], k[2], runs[0], runs[1]]))
        .value(numbers([v[0], v[1], v[2], decay[0], decay[1], decay[2], out[0], out[1]]))
        .value(numbers([
            out[2],
            states[0],
            states[1],
            states[2],
            states[3],
            beta_steps[0],
            beta_steps[1],
            0,
        ]))
        .value([rate_steps[0], rate_steps[1], rate_steps[2], 0].map(|stride| stride as u32));
    let all = [output, arrays.q, arrays.k, arrays.v, arrays.decay, arrays.states, arrays.runs];
    for array in all.into_iter().chain([beta, rates]) {
        launch = pass_array(launch, array);
    }
    let columns = sizes.sequences * sizes.heads;
    match kernel {
        Kernel::Grouped => {
            let groups = columns * sizes.values.div_ceil(COLUMNS);
            launch.enqueue(&[groups * config.work_group], &[config.work_group])
        }
        Kernel::Serial => launch.enqueue(&[columns * sizes.values], &[config.work_group]),
    }
}

/// Each rule with each kernel, and long keys.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    for decay in [Decay::Head, Decay::Key, Decay::Rates] {
        for delta in [false, true] {
            for (kernel, rows) in [(Kernel::Grouped, 16), (Kernel::Serial, 1)] {
                configs.push(Config { kernel, decay, delta, rows, work_group: 256 });
            }
        }
    }
    configs.push(Config { rows: MOST_ROWS, ..configs[2] });
    configs.iter().map(Config::source).collect()
}
