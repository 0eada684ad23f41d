//! int8 convolutions with prepacked weights. Images are treated as unsigned whatever their type: 128 is added to
//! signed ones and to their zero point.

mod dense;
mod depthwise;
#[cfg(target_arch = "x86_64")]
mod depthwise_quads;
mod finish;
mod pack;
mod taps;

use polaris_core::{Layout, Shape};
use polaris_runtime::cpu::{CpuDevice, SimdLevel};
use polaris_runtime::{Buffer, HostOperands};

use self::pack::Packing;
pub(in super::super) use self::pack::{has_panels, pack, packed_bytes, unpack};
use self::taps::Image;
use super::super::axis::Lengths;
use super::super::geometry::{Geometry, strides};
use super::super::problem::OP;
use super::super::quantized::{Parts, QuantizedConvolution};
use crate::copy::Copy;
use crate::cpu::map::SendPointer;
use crate::matmul::cpu::Scratch;
use crate::operation::run as run_operation;
use crate::quantize::{Limits, flip};
use crate::{Array, Result};

/// The result in memory, whichever way it lies.
#[derive(Clone, Copy)]
struct Target {
    start: SendPointer,
    /// Of images, channels, rows and columns.
    strides: [usize; 4],
}

/// What the loops of all threads share. Images of one axis have one row.
struct Job<'a> {
    geometry: &'a Geometry,
    packed: &'a Packed,
    weights: SendPointer,
    image: Image,
    target: Target,
}

impl Job<'_> {
    /// Positions of the result in all images.
    fn positions(&self) -> usize {
        let [rows, columns] = &self.geometry.lengths;
        self.geometry.images * rows.output * columns.output
    }

    /// Image, row and column of a position.
    fn place(&self, position: usize) -> [usize; 3] {
        let [rows, columns] = &self.geometry.lengths;
        let (line, column) = (position / columns.output, position % columns.output);
        [line / rows.output, line % rows.output, column]
    }

    /// The distance between positions of the result, if kernels can store them: it is the same for all, and channels are
    /// adjacent.
    fn direct_step(&self) -> Option<usize> {
        let has_kernels =
            self.packed.packing.kernels().is_some_and(|(kernels, _)| kernels.to_bytes);
        let strides = self.target.strides;
        let [rows, columns] = &self.geometry.lengths;
        let direct = has_kernels && strides[1] == 1;
        direct.then(|| step(self.geometry.images, [rows.output, columns.output], strides)).flatten()
    }

    /// Where the channels of a position lie in the result.
    fn target(&self, [image, row, column]: [usize; 3]) -> usize {
        let [images, _, rows, columns] = self.target.strides;
        image * images + row * rows + column * columns
    }
}

/// The distance between the positions of images, if it is the same for all.
fn step(images: usize, [rows, columns]: [usize; 2], strides: [usize; 4]) -> Option<usize> {
    let [image, _, row, column] = strides;
    // Images of one element follow one another as elements of a row do, and so do rows of one.
    let step = match (rows, columns) {
        (1, 1) => image,
        (_, 1) => row,
        _ => column,
    };
    let joined =
        (rows == 1 || row == columns * step) && (images == 1 || image == rows * columns * step);
    joined.then_some(step)
}

/// A weight and its epilogue.
struct Packed {
    packing: Packing,
    /// Initial accumulators of each output channel: the bias, less what the input's zero point adds.
    corrections: Vec<i32>,
    /// The scale of each output channel.
    factors: Vec<f32>,
    limits: Limits,
    /// The input's zero point, as an unsigned byte.
    zero: u8,
}

/// Computes with a weight in panels of a level of instructions, which the processor must have.
pub(in super::super) fn run(
    cpu: &CpuDevice,
    level: SimdLevel,
    op: &QuantizedConvolution,
    parts: &Parts,
    panels: &Buffer,
    output: &Array,
) -> Result<()> {
    let geometry = &parts.geometry;
    let packing = Packing::new(level, op.problem.groups, parts.weight.shape());
    // Loops go along channels. Images with adjacent columns are turned first: they are the first of a
    // model, and have few channels.
    let turned = match strides(parts.x)[1] == 1 || parts.x.shape()[1] == 1 {
        true => None,
        false => Some(with_adjacent_channels(parts.x)?),
    };
    let x = turned.as_ref().unwrap_or(parts.x);
    let workers = cpu.pool().threads();
    let scratch = Scratch::new(output.device(), dense::scratch_bytes(&packing, geometry, workers))?;
    let bias = parts.bias.unwrap_or(parts.factors);
    let buffers = [x.buffer(), panels, parts.factors.buffer(), bias.buffer()];
    let registered = HostOperands::new(OP, &buffers, output.buffer())?;
    let copies = scratch.operands()?;
    let start =
        |array: &Array, start: *mut u8| SendPointer(start.wrapping_add(array.layout().offset()));
    let weights = SendPointer(registered.input(1).cast_mut());
    let zero = (op.input_zero + i32::from(flip(x.dtype()))) as u8;
    // SAFETY: the vectors are registered, and have an element for each output channel.
    let (factors, bias) = unsafe {
        let factors = vector::<f32>(parts.factors, registered.input(2));
        (factors, parts.bias.map(|bias| vector::<i32>(bias, registered.input(3))))
    };
    let channels = factors.len();
    let mut corrections = bias.unwrap_or_else(|| vec![0; channels]);
    if packing.has_sums() {
        let sums = weights.get().wrapping_add(packing.panel_bytes()).cast::<i32>();
        for (channel, correction) in corrections.iter_mut().enumerate() {
            // SAFETY: there is a sum for each output channel behind the panels.
            let sum = unsafe { sums.add(channel).read_unaligned() };
            *correction = correction.wrapping_sub(sum.wrapping_mul(zero.into()));
        }
    }
    let packed = Packed { packing, corrections, factors, limits: parts.limits, zero };
    let image = start(x, registered.input(0).cast_mut());
    let last: usize =
        [x.shape()[0], x.shape()[1], geometry.lengths[0].input, geometry.lengths[1].input]
            .iter()
            .zip(strides(x))
            .map(|(&length, stride)| length.saturating_sub(1) * stride)
            .sum();
    let job = Job {
        geometry,
        packed: &packed,
        weights,
        image: Image {
            start: image,
            end: SendPointer(image.get().wrapping_add(last + 1)),
            strides: strides(x),
            flip: flip(x.dtype()),
        },
        target: Target { start: start(output, registered.output()), strides: strides(output) },
    };
    let strips = SendPointer(copies.as_ref().map_or(std::ptr::null_mut(), HostOperands::output));
    match (packing.is_depthwise(), packing.depthwise_quads()) {
        #[cfg(target_arch = "x86_64")]
        (_, Some(steps)) => depthwise_quads::run(cpu, &job, steps),
        (true, _) => depthwise::run(cpu, &job),
        // SAFETY: all memory is registered, and there is room for every thread's strip.
        (false, _) => unsafe { dense::run(cpu, &job, strips) },
    }
    Ok(())
}

/// The elements of an array of one axis.
///
/// # Safety
/// Its memory, which begins here, must be registered.
unsafe fn vector<T: std::marker::Copy>(array: &Array, start: *const u8) -> Vec<T> {
    let (layout, start) = (array.layout(), start.cast::<T>());
    let element = |at: usize| {
        // SAFETY: by the caller's word; layouts lie inside their memory.
        unsafe { *start.add(layout.offset() + at * layout.strides()[0]) }
    };
    (0..layout.elements()).map(element).collect()
}

/// Computes by the definition: weights that have no panels are rare.
pub(in super::super) fn run_plainly(
    cpu: &CpuDevice,
    op: &QuantizedConvolution,
    parts: &Parts,
    output: &Array,
) -> Result<()> {
    let geometry = &parts.geometry;
    let [rows, columns] = &geometry.lengths;
    let bias = parts.bias.unwrap_or(parts.factors);
    let buffers = [parts.x.buffer(), parts.weight.buffer(), parts.factors.buffer(), bias.buffer()];
    let registered = HostOperands::new(OP, &buffers, output.buffer())?;
    // SAFETY: as for `run`.
    let (factors, bias) = unsafe {
        let factors = vector::<f32>(parts.factors, registered.input(2));
        (factors, parts.bias.map(|bias| vector::<i32>(bias, registered.input(3))))
    };
    let at = |array: &Array, start: *const u8| {
        SendPointer(start.cast_mut().wrapping_add(array.layout().offset()))
    };
    let x = at(parts.x, registered.input(0));
    let weight = at(parts.weight, registered.input(1));
    let target = at(output, registered.output());
    let (x_flip, output_channels) = (flip(parts.x.dtype()), geometry.groups * geometry.outputs);
    let (x_strides, weight_strides, to) = (geometry.x, geometry.weight, geometry.y);
    let zero = op.input_zero + i32::from(x_flip);
    let inside = |position: usize, tap: usize, lengths: &Lengths| {
        let from = position * lengths.stride + tap * lengths.dilation;
        from.checked_sub(lengths.padding).filter(|&from| from < lengths.input)
    };
    let lines = geometry.images * output_channels * rows.output;
    cpu.pool().for_chunks(lines, 1, |chunk| {
        for (line, column) in chunk.flat_map(|line| (0..columns.output).map(move |at| (line, at))) {
            let (image, row) = (line / rows.output / output_channels, line % rows.output);
            let channel = line / rows.output % output_channels;
            let first = channel / geometry.outputs * geometry.inputs;
            let mut sum = bias.as_ref().map_or(0, |bias| bias[channel]);
            for tap in 0..rows.kernel * columns.kernel {
                let (down, across) = (tap / columns.kernel, tap % columns.kernel);
                let (Some(y), Some(z)) = (inside(row, down, rows), inside(column, across, columns))
                else {
                    continue;
                };
                for input in 0..geometry.inputs {
                    let from = image * x_strides[0]
                        + (first + input) * x_strides[1]
                        + y * x_strides[2]
                        + z * x_strides[3];
                    let tap = channel * weight_strides[0]
                        + input * weight_strides[1]
                        + down * weight_strides[2]
                        + across * weight_strides[3];
                    // SAFETY: both lie inside their arrays, which are registered.
                    let (x, weight) = unsafe {
                        (*x.get().add(from) ^ x_flip, *weight.get().add(tap).cast::<i8>())
                    };
                    let product = (i32::from(x) - zero).wrapping_mul(i32::from(weight));
                    sum = sum.wrapping_add(product);
                }
            }
            let place = image * to[0] + channel * to[1] + row * to[2] + column * to[3];
            let byte = parts.limits.byte(sum as f32 * factors[channel]);
            // SAFETY: as above; lines are disjoint.
            unsafe { *target.get().add(place) = byte };
        }
    });
    Ok(())
}

/// A copy of images with their channels adjacent.
fn with_adjacent_channels(x: &Array) -> Result<Array> {
    let rank = x.shape().rank();
    let dims: Vec<usize> =
        [0].into_iter().chain(2..rank).chain([1]).map(|at| x.shape()[at]).collect();
    let copy = Array::empty(x.device(), x.dtype(), Shape::new(&dims)?)?;
    let back: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    let layout: Layout = copy.layout().permute(&back)?;
    let copy = Array::new(copy.buffer().clone(), layout)?;
    run_operation(&Copy, &[x], &copy)?;
    Ok(copy)
}
