//! Convolutions of NHWC images with prepacked weights.

mod dense;
mod depthwise;
mod padded;

use polaris_core::{DType, Layout, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::{Buffer, HostOperands};

use self::padded::Source;
use super::super::geometry::Geometry;
use super::super::problem::OP;
use crate::copy::Copy;
use crate::cpu::blocks::Row;
use crate::cpu::map::SendPointer;
use crate::matmul::Activation;
use crate::matmul::cpu::{Finish, Plane, Product, Scratch, f32_kernels};
use crate::operation::run as run_operation;
use crate::{Array, Result};

/// A convolution with its arrays but the weight.
pub(in super::super) struct Call<'a> {
    pub geometry: &'a Geometry,
    pub activation: Activation,
    pub x: &'a Array,
    pub bias: Option<&'a Array>,
    pub residual: Option<&'a Array>,
}

/// Whether each channel has kernels of its own and makes one channel.
pub(in super::super) fn is_depthwise(groups: usize, weight: &Shape) -> bool {
    weight[0] == groups && weight[1] == 1
}

/// The weight in the form of the loops below: for each panel of output channels, all taps, row by row
/// of the kernel, then columns, then input channels; for each of them the panel's channels, with zeros
/// where the last panel has none. Depthwise: for each tap all channels.
pub(in super::super) fn pack(cpu: &CpuDevice, groups: usize, weight: &Array) -> Result<Array> {
    let shape = *weight.shape();
    let rank = shape.rank();
    // Taps first, then input channels, then output channels.
    let axes: Vec<usize> = (2..rank).chain([1, 0]).collect();
    let turned = weight.permute(&axes)?;
    let dims = dims(cpu, groups, &shape);
    let packed = Array::empty(weight.device(), DType::F32, Shape::new(&dims)?)?;
    if is_depthwise(groups, &shape) {
        let layout = Layout::contiguous(*turned.shape());
        run_operation(&Copy, &[&turned], &Array::new(packed.buffer().clone(), layout)?)?;
        return Ok(packed);
    }
    let [panels, steps, width] = dims;
    let (outputs, buffer) = (shape[0], packed.buffer());
    if !outputs.is_multiple_of(width) {
        buffer.write_bytes(&vec![0; buffer.bytes()])?;
    }
    for panel in 0..panels {
        let columns = panel * width..outputs.min((panel + 1) * width);
        let mut strides = vec![width; rank];
        strides[rank - 1] = 1;
        for axis in (0..rank - 2).rev() {
            strides[axis] = strides[axis + 1] * turned.shape()[axis + 1];
        }
        let from = turned.slice(rank - 1, columns, 1)?;
        let layout = Layout::new(*from.shape(), &strides, panel * steps * width)?;
        run_operation(&Copy, &[&from], &Array::new(buffer.clone(), layout)?)?;
    }
    Ok(packed)
}

/// Panels, steps and channels of a panel of a packed weight.
pub(in super::super) fn dims(cpu: &CpuDevice, groups: usize, weight: &Shape) -> [usize; 3] {
    let steps: usize = weight[1..].iter().product();
    match is_depthwise(groups, weight) {
        true => [1, steps, weight[0]],
        false => {
            let width = f32_kernels(cpu.simd()).columns();
            [weight[0].div_ceil(width), steps, width]
        }
    }
}

/// What the loops of all threads share. Images of one axis have one row.
struct Job<'a> {
    geometry: &'a Geometry,
    activation: Activation,
    /// From `[Cout, ...]` as `pack` left it.
    weights: *const f32,
    y: Grid,
    residual: Option<Grid>,
    bias: Option<Row>,
}

impl Job<'_> {
    /// A row of an image of the result as a matmul, positions by channels: its epilogue, and where they
    /// are stored.
    fn line(&self, image: usize, row: usize) -> Product {
        let geometry = self.geometry;
        let out = self.y.row(image, row);
        Product {
            m: geometry.lengths[1].output,
            n: geometry.groups * geometry.outputs,
            k: geometry.inputs * geometry.lengths.iter().map(|l| l.kernel).product::<usize>(),
            // What is stored depends on the accumulators alone.
            a: out,
            b: out,
            out,
            finish: Finish {
                alpha: 1.0,
                beta: 1.0,
                c: self.residual.map(|residual| residual.row(image, row)),
                row_scales: None,
                column_scales: None,
                row_bias: None,
                column_bias: self.bias,
                activation: self.activation,
                scale: 1.0,
                residual: None,
            },
            in_place: false,
        }
    }
}

// SAFETY: the pointers are read only, but for the result, of which each thread has its own part.
unsafe impl Sync for Job<'_> {}

/// An array of images in memory, whichever way it lies.
#[derive(Clone, Copy)]
struct Grid {
    start: SendPointer,
    /// Of images, channels, rows and columns.
    strides: [usize; 4],
}

impl Grid {
    fn at(&self, image: usize, row: usize, column: usize) -> *mut f32 {
        let [images, _, rows, columns] = self.strides;
        let element = image * images + row * rows + column * columns;
        self.start.get().cast::<f32>().wrapping_add(element)
    }

    /// A row of an image as a matrix: positions by channels.
    fn row(&self, image: usize, row: usize) -> Plane {
        Plane {
            start: SendPointer(self.at(image, row, 0).cast()),
            dtype: DType::F32,
            row_stride: self.strides[3],
            column_stride: self.strides[1],
        }
    }
}

pub(in super::super) fn run(
    cpu: &CpuDevice,
    call: &Call,
    panels: &Buffer,
    output: &Array,
) -> Result<()> {
    let geometry = call.geometry;
    let mut buffers: Vec<&Buffer> = vec![call.x.buffer(), panels];
    let bias = call.bias.map(|array| (array, buffers.len()));
    buffers.extend(bias.map(|(array, _)| array.buffer()));
    let residual = call.residual.map(|array| (array, buffers.len()));
    buffers.extend(residual.map(|(array, _)| array.buffer()));
    let is_depthwise = geometry.inputs == 1 && geometry.outputs == 1;
    let source = match is_depthwise {
        true => Source::plain(call.x, geometry),
        false => Source::padded(call.x, geometry),
    };
    let scratch = Scratch::new(output.device(), source.scratch_bytes())?;
    let registered = HostOperands::new(OP, &buffers, output.buffer())?;
    let copies = scratch.operands()?;
    let start = |array: &Array, start: *const u8| {
        SendPointer(start.cast_mut().wrapping_add(array.layout().offset() * DType::F32.size()))
    };
    let job = Job {
        geometry,
        activation: call.activation,
        weights: registered.input(1).cast(),
        y: Grid { start: start(output, registered.output()), strides: geometry.y },
        residual: residual.map(|(array, place)| Grid {
            start: start(array, registered.input(place)),
            strides: super::super::geometry::strides(array),
        }),
        bias: bias.map(|(array, place)| Row {
            start: start(array, registered.input(place)).get(),
            dtype: DType::F32,
            stride: array.layout().strides()[0],
        }),
    };
    let copy = SendPointer(copies.as_ref().map_or(std::ptr::null_mut(), HostOperands::output));
    let x = start(call.x, registered.input(0));
    // Parts of the images that fit the room for padded copies, one after the other.
    for part in source.parts() {
        // SAFETY: both are registered, and the copy has room for a part.
        let image = unsafe { source.load(cpu, &part, x, copy) };
        match is_depthwise {
            true => depthwise::run(cpu, &job, &part, &image),
            false => dense::run(cpu, &job, &part, &image),
        }
    }
    Ok(())
}
