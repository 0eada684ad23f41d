//! The weight of a convolution of bytes as the loops read it, and what becomes of sums.

use polaris_core::DType;
use polaris_runtime::cpu::SimdLevel;
use polaris_runtime::{Buffer, DeviceExt};

use super::super::super::bytes::ByteProblem;
use super::super::packed::is_depthwise;
use crate::matmul::cpu::{Kernels, pair_kernels, quad_kernels};
use crate::quantize::{Limits, flip};
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

/// A packed weight.
///
/// Dense: for each group and each panel of its output channels all steps, which are groups of taps (row
/// by row of the kernel, then columns, then input channels), and for each step the panel's channels, with
/// zeros where there are none. Depthwise: for each tap all channels, as `f32`.
pub struct Packed {
    form: Form,
    level: SimdLevel,
    buffer: Buffer,
    /// What each output channel's sums begin with: the bias, less what the input's zero point adds.
    pub corrections: Vec<i32>,
    /// What each output channel's sums are multiplied by.
    pub factors: Vec<f32>,
    pub limits: Limits,
    /// The input's zero point, as an unsigned byte.
    pub zero: u8,
}

impl std::fmt::Debug for Packed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Packed({} bytes)", self.buffer.bytes())
    }
}

/// Taps of a depthwise kernel whose sums are exact in `f32`.
const MOST_DEPTHWISE_TAPS: usize = (1 << 24) / (255 * 128);

impl Packed {
    pub fn new(
        level: SimdLevel,
        problem: &ByteProblem<'_>,
        weight: &Array,
    ) -> Result<Option<Self>> {
        let shape = *weight.shape();
        let (outputs, inputs) = (shape[0], shape[1]);
        let taps: usize = shape[2..].iter().product();
        let groups = problem.problem.groups;
        if groups == 0 || !outputs.is_multiple_of(groups) {
            return Ok(None);
        }
        let Some(rows) = centred(problem, weight)? else { return Ok(None) };
        let zero = problem.input.1 + i32::from(flip(problem.input.0));
        let (Ok(zero), Some(limits)) =
            (u8::try_from(zero), Limits::new(problem.output, problem.relu))
        else {
            return Ok(None);
        };
        let depthwise = is_depthwise(groups, &shape);
        if depthwise && taps > MOST_DEPTHWISE_TAPS {
            return Ok(None);
        }
        // Depthwise loops leave out what lies beyond the border, and so take the zero point away first.
        let taken = if depthwise { 0 } else { i64::from(zero) };
        let mut corrections = Vec::with_capacity(outputs);
        for (channel, row) in rows.chunks_exact(taps * inputs).enumerate() {
            let bias = problem.bias.map_or(0, |bias| i64::from(bias[channel]));
            let sum: i64 = row.iter().map(|&weight| i64::from(weight)).sum();
            let largest: i64 = row.iter().map(|&weight| 255 * i64::from(weight).abs()).sum();
            let start = bias - taken * sum;
            if start.abs() + largest > i64::from(i32::MAX) {
                return Ok(None);
            }
            corrections.push(start as i32);
        }
        let form = match quad_kernels(level) {
            _ if depthwise => Form::Depthwise,
            Some(kernels) => Form::Quads(kernels),
            None => Form::Pairs(pair_kernels(level)),
        };
        let bytes = match form {
            Form::Depthwise => by_tap(&rows, outputs, taps),
            Form::Quads(kernels) => {
                let panels = Panels { groups, outputs: outputs / groups, inputs, taps, group: 4 };
                panels.pack(kernels.columns(), &rows, |quad| {
                    let byte = |at: usize| quad.get(at).map_or(0, |&weight| weight as u8);
                    u32::from_le_bytes([byte(0), byte(1), byte(2), byte(3)])
                })
            }
            Form::Pairs(kernels) => {
                let panels = Panels { groups, outputs: outputs / groups, inputs, taps, group: 2 };
                panels.pack(kernels.columns(), &rows, |pair| {
                    let half = |at: usize| {
                        pair.get(at).map_or(0, |&weight| u32::from(i16::from(weight) as u16))
                    };
                    half(0) | half(1) << 16
                })
            }
        };
        let buffer = weight.device().allocate(DType::U8, bytes.len())?;
        buffer.write_bytes(&bytes)?;
        let all = |list: &[f32]| match list {
            [one] => vec![*one; outputs],
            list => list.to_vec(),
        };
        let factors = all(problem.factors);
        Ok(Some(Self { form, level, buffer, corrections, factors, limits, zero }))
    }

    pub fn buffer(&self) -> &Buffer {
        &self.buffer
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
}

/// The weights without their zero points, if they are signed bytes then.
fn centred(problem: &ByteProblem<'_>, weight: &Array) -> Result<Option<Vec<i8>>> {
    let values: Vec<i16> = match weight.dtype() {
        DType::U8 => weight.to_vec::<u8>()?.into_iter().map(i16::from).collect(),
        _ => weight.to_vec::<i8>()?.into_iter().map(i16::from).collect(),
    };
    let each = values.len() / weight.shape()[0];
    let of_channel = |(channel, row): (usize, &[i16])| -> Option<Vec<i8>> {
        let zeros = problem.weight_zeros;
        let zero = if zeros.len() == 1 { zeros[0] } else { zeros[channel] };
        row.iter().map(|&value| i8::try_from(i32::from(value) - zero).ok()).collect()
    };
    let rows: Option<Vec<Vec<i8>>> =
        values.chunks_exact(each).enumerate().map(of_channel).collect();
    Ok(rows.map(|rows| rows.concat()))
}

/// All channels of the first tap, then of the second, as `f32`.
fn by_tap(rows: &[i8], channels: usize, taps: usize) -> Vec<u8> {
    let of = |tap: usize| (0..channels).map(move |channel| rows[channel * taps + tap]);
    (0..taps).flat_map(of).flat_map(|weight| f32::from(weight).to_ne_bytes()).collect()
}

/// Sizes of a dense weight; `group` taps go into an element.
struct Panels {
    groups: usize,
    outputs: usize,
    inputs: usize,
    taps: usize,
    group: usize,
}

impl Panels {
    fn pack(&self, width: usize, rows: &[i8], element: impl Fn(&[i8]) -> u32) -> Vec<u8> {
        let depth = self.inputs * self.taps;
        let steps = depth.div_ceil(self.group);
        let panels = self.outputs.div_ceil(width);
        let mut packed = vec![0u32; self.groups * panels * steps * width];
        let mut ordered = vec![0i8; depth];
        for (channel, row) in rows.chunks_exact(depth).enumerate() {
            // Channels of one tap, then of the next.
            for (tap, channels) in ordered.chunks_exact_mut(self.inputs).enumerate() {
                for (input, to) in channels.iter_mut().enumerate() {
                    *to = row[input * self.taps + tap];
                }
            }
            let (group, output) = (channel / self.outputs, channel % self.outputs);
            let first = (group * panels + output / width) * steps * width + output % width;
            for (step, taps) in ordered.chunks(self.group).enumerate() {
                packed[first + step * width] = element(taps);
            }
        }
        packed.into_iter().flat_map(u32::to_ne_bytes).collect()
    }
}
