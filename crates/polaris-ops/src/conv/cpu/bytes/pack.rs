//! Prepacked weights of quantised convolutions.

use polaris_core::{DType, Shape};
use polaris_runtime::cpu::SimdLevel;
use polaris_runtime::{Buffer, DeviceExt};

use super::super::packed::is_depthwise;
use crate::matmul::cpu::{Kernels, pair_kernels, quad_kernels};
use crate::{Array, Result};

/// How the loops of a level read a weight.
#[derive(Clone, Copy)]
enum Form {
    /// Four bytes of taps in each element.
    Quads(&'static Kernels<u32, i32>),
    /// Two taps of 16 bits in each element.
    Pairs(&'static Kernels<u32, i32>),
    /// Four bytes of taps in each element, for channels that see that channel only.
    DepthwiseQuads,
    /// A number for each tap and such a channel.
    Depthwise,
}

/// The memory layout of a prepacked weight.
///
/// Dense: for each group and each panel of its output channels all steps, which are groups of taps (row
/// by row of the kernel, then columns, then input channels), and for each step the panel's channels, with
/// zeros where there are none; after all of them the sum of each output channel's weights. Groups with few output
/// channels are joined, as one with zeros where an output channel does not see an input.
///
/// Depthwise: for each tap all channels, as `f32`. Depthwise quads: for each block of channels and each four taps the
/// block's channels, in the order of [`in_block`]; then sums as above.
#[derive(Clone, Copy)]
pub struct Packing {
    form: Form,
    level: SimdLevel,
    groups: usize,
    outputs: usize,
    inputs: usize,
    taps: usize,
    /// Groups that are one in the panels.
    joined: usize,
}

/// Channels of a block of depthwise quads.
pub const BLOCK: usize = 64;

/// Where a channel of a block of depthwise quads is. Instructions interleave bytes within each sixteen, so the first four
/// channels of all sixteens come first.
pub fn in_block(channel: usize) -> usize {
    let (sixteen, at) = (channel / 16, channel % 16);
    at / 4 * 16 + sixteen * 4 + at % 4
}

/// Taps of a depthwise kernel whose accumulators are exact in `f32`.
const MOST_DEPTHWISE_TAPS: usize = (1 << 24) / (255 * 128);

/// Whether a weight has such a form.
pub fn has_panels(groups: usize, shape: &Shape) -> bool {
    !is_depthwise(groups, shape) || shape[2..].iter().product::<usize>() <= MOST_DEPTHWISE_TAPS
}

impl Packing {
    pub fn new(level: SimdLevel, groups: usize, shape: &Shape) -> Self {
        let form = match (quad_kernels(level), is_depthwise(groups, shape)) {
            (Some(_), true) => Form::DepthwiseQuads,
            (None, true) => Form::Depthwise,
            (Some(kernels), false) => Form::Quads(kernels),
            (None, false) => Form::Pairs(pair_kernels(level)),
        };
        let (outputs, inputs, taps) = (shape[0] / groups, shape[1], shape[2..].iter().product());
        let mut packing = Self { form, level, groups, outputs, inputs, taps, joined: 1 };
        if let Some((kernels, _)) = packing.kernels() {
            // A vector takes the same time however many of its columns are there.
            let fits = |&count: &usize| groups.is_multiple_of(count);
            let most = (kernels.lanes / outputs.max(1)).clamp(1, groups);
            packing.joined = (1..=most).rev().find(fits).unwrap_or(1);
        }
        packing
    }

    /// Groups in the panels, and channels of the image and of the result in each.
    pub fn groups(&self) -> [usize; 3] {
        [self.groups / self.joined, self.inputs * self.joined, self.outputs * self.joined]
    }

    pub fn level(&self) -> SimdLevel {
        self.level
    }

    pub fn is_depthwise(&self) -> bool {
        matches!(self.form, Form::Depthwise | Form::DepthwiseQuads)
    }

    /// Steps of four taps of each channel, if a depthwise weight has them.
    pub fn depthwise_quads(&self) -> Option<usize> {
        matches!(self.form, Form::DepthwiseQuads).then(|| self.taps.div_ceil(4))
    }

    /// Whether the weights of each output channel are summed: other loops take the zero point away from the image.
    pub fn has_sums(&self) -> bool {
        !matches!(self.form, Form::Depthwise)
    }

    /// The kernels of dense convolutions, and how many taps are in an element.
    pub fn kernels(&self) -> Option<(&'static Kernels<u32, i32>, usize)> {
        match self.form {
            Form::Quads(kernels) => Some((kernels, 4)),
            Form::Pairs(kernels) => Some((kernels, 2)),
            Form::Depthwise | Form::DepthwiseQuads => None,
        }
    }

    /// Bytes before the accumulators.
    pub fn panel_bytes(&self) -> usize {
        match (self.kernels(), self.depthwise_quads()) {
            (None, None) => self.groups * self.outputs * self.taps * size_of::<f32>(),
            (None, Some(steps)) => self.groups.div_ceil(BLOCK) * steps * BLOCK * size_of::<u32>(),
            (Some((kernels, group)), _) => {
                let [groups, _, outputs] = self.groups();
                let panels = groups * outputs.div_ceil(kernels.columns());
                panels * self.steps(group) * kernels.columns() * size_of::<u32>()
            }
        }
    }

    fn bytes(&self) -> usize {
        let sums = if self.has_sums() { self.groups * self.outputs * size_of::<i32>() } else { 0 };
        self.panel_bytes() + sums
    }

    fn steps(&self, group: usize) -> usize {
        (self.joined * self.inputs * self.taps).div_ceil(group)
    }

    /// The place of a weight: the element that holds it, and which of the taps in that it is.
    fn place(&self, at: usize) -> (usize, usize) {
        let (channel, input, tap) =
            (at / (self.inputs * self.taps), at / self.taps % self.inputs, at % self.taps);
        if let Some(steps) = self.depthwise_quads() {
            let block = channel / BLOCK * steps + tap / 4;
            return (block * BLOCK + in_block(channel % BLOCK), tap % 4);
        }
        let Some((kernels, group)) = self.kernels() else {
            return (tap * self.groups * self.outputs + channel, 0);
        };
        let [_, inputs, outputs] = self.groups();
        let (width, steps) = (kernels.columns(), self.steps(group));
        let panels = outputs.div_ceil(width);
        // Channels of one tap, then of the next.
        let depth = tap * inputs + channel / self.outputs % self.joined * self.inputs + input;
        let (of_group, output) = (channel / outputs, channel % outputs);
        let panel = of_group * panels + output / width;
        ((panel * steps + depth / group) * width + output % width, depth % group)
    }
}

/// Packs a weight of `i8`.
///
/// # Errors
/// If the weight is in use, or there is no room.
pub fn pack(level: SimdLevel, groups: usize, weight: &Array) -> Result<Buffer> {
    let packing = Packing::new(level, groups, weight.shape());
    let values = weight.to_vec::<i8>()?;
    let mut bytes = vec![0; packing.bytes()];
    for (at, &value) in values.iter().enumerate() {
        let (place, part) = packing.place(at);
        let element = &mut bytes[place * 4..place * 4 + 4];
        match packing.form {
            Form::Depthwise => element.copy_from_slice(&f32::from(value).to_ne_bytes()),
            Form::Quads(_) | Form::DepthwiseQuads => element[part] = value as u8,
            Form::Pairs(_) => {
                element[2 * part..2 * part + 2].copy_from_slice(&i16::from(value).to_le_bytes());
            }
        }
    }
    if packing.has_sums() {
        let sums = bytes[packing.panel_bytes()..].chunks_exact_mut(size_of::<i32>());
        for (row, sum) in values.chunks_exact(packing.inputs * packing.taps).zip(sums) {
            let of_row = row.iter().fold(0i32, |sum, &value| sum.wrapping_add(value.into()));
            sum.copy_from_slice(&of_row.to_ne_bytes());
        }
    }
    let buffer = weight.device().allocate(DType::U8, bytes.len())?;
    buffer.write_bytes(&bytes)?;
    Ok(buffer)
}

/// Bytes of a packed weight.
pub fn packed_bytes(level: SimdLevel, groups: usize, shape: &Shape) -> usize {
    Packing::new(level, groups, shape).bytes()
}

/// The elements of a packed weight in row-major order.
pub fn unpack(level: SimdLevel, groups: usize, shape: &Shape, bytes: &[u8]) -> Vec<f64> {
    let packing = Packing::new(level, groups, shape);
    let element = |at: usize| {
        let (place, part) = packing.place(at);
        let element = [0, 1, 2, 3].map(|i| bytes[place * 4 + i]);
        match packing.form {
            Form::Depthwise => f64::from(f32::from_ne_bytes(element)),
            Form::Quads(_) | Form::DepthwiseQuads => f64::from(element[part] as i8),
            Form::Pairs(_) => {
                f64::from(i16::from_le_bytes([element[2 * part], element[2 * part + 1]]))
            }
        }
    };
    (0..shape.elements()).map(element).collect()
}
