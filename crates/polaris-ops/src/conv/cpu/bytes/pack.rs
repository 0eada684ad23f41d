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
    /// A number for each tap and channel, which sees that channel only.
    Depthwise,
}

/// The memory layout of a prepacked weight.
///
/// Dense: for each group and each panel of its output channels all steps, which are groups of taps (row
/// by row of the kernel, then columns, then input channels), and for each step the panel's channels, with
/// zeros where there are none; after all of them the sum of each output channel's weights. Depthwise: for each tap
/// all channels, as `f32`.
#[derive(Clone, Copy)]
pub struct Packing {
    form: Form,
    level: SimdLevel,
    groups: usize,
    outputs: usize,
    inputs: usize,
    taps: usize,
}

/// Taps of a depthwise kernel whose accumulators are exact in `f32`.
const MOST_DEPTHWISE_TAPS: usize = (1 << 24) / (255 * 128);

/// Whether a weight has such a form.
pub fn has_panels(groups: usize, shape: &Shape) -> bool {
    !is_depthwise(groups, shape) || shape[2..].iter().product::<usize>() <= MOST_DEPTHWISE_TAPS
}

impl Packing {
    pub fn new(level: SimdLevel, groups: usize, shape: &Shape) -> Self {
        let form = match quad_kernels(level) {
            _ if is_depthwise(groups, shape) => Form::Depthwise,
            Some(kernels) => Form::Quads(kernels),
            None => Form::Pairs(pair_kernels(level)),
        };
        let taps = shape[2..].iter().product();
        Self { form, level, groups, outputs: shape[0] / groups, inputs: shape[1], taps }
    }

    pub fn level(&self) -> SimdLevel {
        self.level
    }

    pub fn is_depthwise(&self) -> bool {
        matches!(self.form, Form::Depthwise)
    }

    /// The kernels of dense convolutions, and how many taps are in an element.
    pub fn kernels(&self) -> Option<(&'static Kernels<u32, i32>, usize)> {
        match self.form {
            Form::Quads(kernels) => Some((kernels, 4)),
            Form::Pairs(kernels) => Some((kernels, 2)),
            Form::Depthwise => None,
        }
    }

    /// Bytes before the accumulators.
    pub fn panel_bytes(&self) -> usize {
        match self.kernels() {
            None => self.groups * self.outputs * self.taps * size_of::<f32>(),
            Some((kernels, group)) => {
                let panels = self.groups * self.outputs.div_ceil(kernels.columns());
                panels * self.steps(group) * kernels.columns() * size_of::<u32>()
            }
        }
    }

    fn bytes(&self) -> usize {
        match self.form {
            Form::Depthwise => self.panel_bytes(),
            _ => self.panel_bytes() + self.groups * self.outputs * size_of::<i32>(),
        }
    }

    fn steps(&self, group: usize) -> usize {
        (self.inputs * self.taps).div_ceil(group)
    }

    /// The place of a weight: the element that holds it, and which of the taps in that it is.
    fn place(&self, at: usize) -> (usize, usize) {
        let (channel, input, tap) =
            (at / (self.inputs * self.taps), at / self.taps % self.inputs, at % self.taps);
        let Some((kernels, group)) = self.kernels() else {
            return (tap * self.groups * self.outputs + channel, 0);
        };
        let (width, steps) = (kernels.columns(), self.steps(group));
        let panels = self.outputs.div_ceil(width);
        // Channels of one tap, then of the next.
        let depth = tap * self.inputs + input;
        let (of_group, output) = (channel / self.outputs, channel % self.outputs);
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
            Form::Quads(_) => element[part] = value as u8,
            Form::Pairs(_) => {
                element[2 * part..2 * part + 2].copy_from_slice(&i16::from(value).to_le_bytes());
            }
        }
    }
    if !packing.is_depthwise() {
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
            Form::Quads(_) => f64::from(element[part] as i8),
            Form::Pairs(_) => {
                f64::from(i16::from_le_bytes([element[2 * part], element[2 * part + 1]]))
            }
        }
    };
    (0..shape.elements()).map(element).collect()
}
