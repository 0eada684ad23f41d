//! Convolutions of bytes with packed weights. Images are looked at as unsigned bytes whatever their type:
//! signed ones are raised by 128, and so is their zero point.

mod dense;
mod depthwise;
mod finish;
mod pack;
mod taps;

use polaris_core::{Layout, Shape};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

pub(in super::super) use self::pack::Packed;
use self::taps::Image;
use super::super::geometry::{Geometry, strides};
use super::super::problem::OP;
use crate::copy::Copy;
use crate::cpu::map::SendPointer;
use crate::matmul::cpu::Scratch;
use crate::operation::run as run_operation;
use crate::quantize::flip;
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

    /// Where the channels of a position lie in the result.
    fn target(&self, [image, row, column]: [usize; 3]) -> usize {
        let [images, _, rows, columns] = self.target.strides;
        image * images + row * rows + column * columns
    }
}

pub(in super::super) fn run(
    cpu: &CpuDevice,
    packed: &Packed,
    geometry: &Geometry,
    x: &Array,
    output: &Array,
) -> Result<()> {
    // Loops go along channels. Images with adjacent columns are turned first: they are the first of a
    // model, and have few channels.
    let turned = match strides(x)[1] == 1 || x.shape()[1] == 1 {
        true => None,
        false => Some(with_adjacent_channels(x)?),
    };
    let x = turned.as_ref().unwrap_or(x);
    let workers = cpu.pool().threads();
    let scratch = Scratch::new(output.device(), dense::scratch_bytes(packed, geometry, workers))?;
    let buffers = [x.buffer(), packed.buffer()];
    let registered = HostOperands::new(OP, &buffers, output.buffer())?;
    let copies = scratch.operands()?;
    let start =
        |array: &Array, start: *mut u8| SendPointer(start.wrapping_add(array.layout().offset()));
    let job = Job {
        geometry,
        packed,
        weights: SendPointer(registered.input(1).cast_mut()),
        image: Image {
            start: start(x, registered.input(0).cast_mut()),
            strides: strides(x),
            flip: flip(x.dtype()),
        },
        target: Target { start: start(output, registered.output()), strides: strides(output) },
    };
    let strips = SendPointer(copies.as_ref().map_or(std::ptr::null_mut(), HostOperands::output));
    match packed.is_depthwise() {
        true => depthwise::run(cpu, &job),
        // SAFETY: all memory is registered, and there is room for every thread's strip.
        false => unsafe { dense::run(cpu, &job, strips) },
    }
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
