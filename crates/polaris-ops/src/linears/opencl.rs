//! Linear layers with weights in blocks on OpenCL devices.

use std::hash::{DefaultHasher, Hash, Hasher};

use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use super::{Linears, MOST_WEIGHTS, NAME, Parts};
use crate::format::{Block, Format, MOST_VECTORS, MULTIPLY, Share};
use crate::matmul::{Activation, activation_expression};
use crate::opencl::{ELEMENT, Enqueue, pass_array, work_group};
use crate::{Array, Result};

/// The ways to compute linear layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// All in one launch, for few rows and weights in blocks of at most two formats.
    Blocks,
    /// Each part by the operation for it.
    Composed,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blocks => "blocks",
            Self::Composed => "composed",
        }
    }
}

/// Work-items that share a row of one vector.
const LANES: usize = 32;

const PARTS: &[&str] = &[ELEMENT, MULTIPLY, include_str!("linears.cl")];

/// What a program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    /// The formats of the weights, the one with the larger units first.
    formats: [Block; 2],
    share: Share,
    norm: bool,
    gate: Option<Activation>,
    bias: bool,
}

impl Config {
    fn key(&self) -> (&'static str, u64) {
        let mut hasher = DefaultHasher::new();
        let gate = self.gate.map(Activation::name);
        (self.formats, self.share, self.norm, gate, self.bias).hash(&mut hasher);
        (NAME, hasher.finish())
    }

    fn source(&self) -> ProgramSource {
        let [first, second] = self.formats.map(crate::format::Stored::Block);
        let mut texts: Vec<&str> = first.texts().collect();
        // Formats have texts in common.
        let others: Vec<&str> = second.texts().filter(|text| !texts.contains(text)).collect();
        texts.extend(others);
        let defines = texts.into_iter().fold(Defines::new(), Defines::text);
        let activation = activation_expression(self.gate.unwrap_or(Activation::Identity));
        let defines = defines
            .code("B", first.name())
            .code("C", second.name())
            .number("WITH_C", first != second)
            .number("NORM", self.norm)
            .number("GATED", self.gate.is_some())
            .number("HAS_BIAS", self.bias)
            .code("ACTIVATION(a)", activation);
        let defines = self.share.define(defines);
        let mut name = format!("linears.cl {first}");
        if first != second {
            name = format!("{name}_{second}");
        }
        name = format!("{name} {}", self.share.name());
        for (is_there, word) in [(self.norm, " norm"), (self.bias, " bias")] {
            if is_there {
                name.push_str(word);
            }
        }
        if let Some(gate) = self.gate {
            name = format!("{name} {}", gate.name());
        }
        let options = "-cl-mad-enable -cl-denorms-are-zero";
        ProgramSource { name, parts: PARTS, defines, options }
    }
}

/// The formats of weights, if there are at most two.
fn formats(weights: &[&Array]) -> Option<[Block; 2]> {
    let mut found: Vec<Block> = Vec::with_capacity(2);
    for weight in weights {
        let Format::Block(block) = weight.format() else { return None };
        if !found.contains(&block) {
            found.push(block);
        }
    }
    found.sort_by_key(|&block| std::cmp::Reverse(Share::unit(block)));
    match found[..] {
        [one] => Some([one, one]),
        [one, other] => Some([one, other]),
        _ => None,
    }
}

/// Whether lines of a weight are whole blocks, one after the other.
fn is_in_lines(weight: &Array, block: Block) -> bool {
    let strides = weight.layout().strides();
    let sizes = [weight.shape()[1], weight.first_element(), strides[0]];
    strides[1] == 1 && sizes.iter().all(|size| size.is_multiple_of(block.elements()))
}

/// Whether there is a kernel for so many rows and these weights.
pub fn takes(device: &OpenClDevice, rows: usize, weights: &[&Array], gated: bool) -> bool {
    let group = work_group(device);
    let is_in_lines = |weight: &&Array| match weight.format() {
        Format::Block(block) => is_in_lines(weight, block),
        _ => false,
    };
    let k = weights.first().map_or(0, |weight| weight.shape()[1]);
    (1..=MOST_VECTORS).contains(&rows)
        && k > 0
        && group.is_power_of_two()
        && group >= LANES
        && Share::new(group, LANES, rows).local_bytes() as u64
            <= device.capabilities().local_memory_bytes
        && weights.len() <= MOST_WEIGHTS
        && weights.iter().all(is_in_lines)
        && formats(weights).is_some_and(|[one, other]| !gated || one == other)
}

pub fn supports(op: &Linears, device: &OpenClDevice, parts: &Parts<'_>, output: &Array) -> bool {
    let [rows, k] = [0, 1].map(|axis| parts.x.shape()[axis]);
    let is_dense = |array: &Array| array.layout().is_contiguous();
    let x = parts.x.layout();
    let in_fours = [parts.x.first_element(), x.strides()[0]].iter().all(|at| at.is_multiple_of(4));
    let last = |array: &Array| array.layout().strides().last().copied() == Some(1);
    let sizes = [rows, k, x.strides()[0], output.layout().strides()[0], output.shape()[1]];
    takes(device, rows, parts.weights, op.gate.is_some())
        && in_fours
        && last(parts.x)
        && last(output)
        && sizes.iter().all(|&size| size <= i32::MAX as usize / 4)
        && parts.norm.iter().chain(parts.biases).all(|array| is_dense(array))
        && !op.gate.is_some_and(|gate| matches!(gate, Activation::Clamp { .. }))
}

pub fn run(op: &Linears, device: &OpenClDevice, parts: &Parts<'_>, output: &Array) -> Result<()> {
    let formats = formats(parts.weights).expect("the formats should be supported");
    let [rows, k] = [0, 1].map(|axis| parts.x.shape()[axis]);
    let share = Share::new(work_group(device), LANES, rows).for_rows(formats[0], k);
    let mut lines = [0; MOST_WEIGHTS];
    for (lines, weight) in lines.iter_mut().zip(parts.weights) {
        *lines = weight.shape()[0];
    }
    let is_gated = op.gate.is_some();
    // A pair of rows is what is gated.
    let least = if is_gated { 2 } else { 1 };
    let share = share.spread(device, lines.iter().sum(), rows, 1, least);
    let config = Config { formats, share, norm: op.norm.is_some(), gate: op.gate, bias: op.bias };
    let kernel = device.kernel(config.key(), "linears_blocks", || config.source())?;
    // Groups of each weight follow those of the one before; a gate makes one weight of two.
    let each = lines.map(|lines| lines.div_ceil(share.lines()));
    let (groups, first) = match is_gated {
        true => ((2 * lines[0]).div_ceil(share.lines()), [0, u32::MAX, u32::MAX, 0]),
        false => {
            let first = [0, each[0] as u32, (each[0] + each[1]) as u32, 0];
            (each.iter().sum(), first)
        }
    };
    let chunks = rows.div_ceil(usize::from(share.columns));
    let x_stride = parts.x.layout().strides()[0];
    let sizes = [rows, k, chunks, x_stride, output.layout().strides()[0], 0, 0, 0];
    let mut of_lines = [0u32; 4];
    let (mut second, mut starts, mut strides) = ([0u32; 4], [0; MOST_WEIGHTS], [0u64; 4]);
    for (at, weight) in parts.weights.iter().enumerate() {
        let Format::Block(block) = weight.format() else { continue };
        let bytes = |elements: usize| elements / block.elements() * block.bytes();
        of_lines[at] = lines[at] as u32;
        second[at] = u32::from(block != formats[0]);
        starts[at] = bytes(weight.layout().offset());
        strides[at] = bytes(weight.layout().strides()[0]) as u64;
    }
    let launch = device
        .launch(&kernel)
        .value(sizes.map(|size| size as u32))
        .value(of_lines)
        .value(first)
        .value(second)
        .value(strides)
        .value(op.norm.unwrap_or(0.0) as f32);
    // What is not there is not read, but a buffer must be passed.
    let mut launch = pass_array(pass_array(launch, output), parts.x);
    launch = pass_array(launch, parts.norm.unwrap_or(parts.x));
    for (at, start) in starts.into_iter().enumerate() {
        let weight = parts.weights.get(at).unwrap_or(&parts.weights[0]);
        launch = launch.buffer(weight.buffer(), start);
    }
    for at in 0..MOST_WEIGHTS {
        launch = pass_array(launch, parts.biases.get(at).copied().unwrap_or(parts.x));
    }
    let group = usize::from(share.group);
    launch.enqueue(&[groups * chunks * group], &[group])
}

/// Each format alone, gated, and the mixtures that files have.
pub(super) fn shipped_programs() -> Vec<ProgramSource> {
    let config = |formats, vectors, gate: Option<Activation>| Config {
        formats,
        share: Share::new(256, LANES, vectors),
        norm: true,
        gate,
        bias: gate.is_none(),
    };
    let mut programs: Vec<ProgramSource> = Block::ALL
        .into_iter()
        .flat_map(|block| [None, Some(Activation::Silu)].map(|gate| config([block; 2], 1, gate)))
        .map(|config| config.source())
        .collect();
    for formats in
        [[Block::Q4_K, Block::Q6_K], [Block::Q5_K, Block::Q6_K], [Block::Q5_0, Block::Q8_0]]
    {
        for vectors in [1, 8] {
            programs.push(config(formats, vectors, None).source());
        }
    }
    programs
}
