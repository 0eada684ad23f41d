//! Convolutions on the CPU.
//!
//! Most are matmuls: the taps that each position sees (im2col) are gathered block by block in memory that stays in
//! the L2 cache, and multiplied by the micro-kernels of `matmul`. For 1x1 kernels the images are that operand: they
//! are read in place, or by `matmul` itself. A group with few output channels, as in depthwise convolutions, has too
//! little arithmetic for that: its rows are accumulated directly.

pub(super) mod bytes;
mod direct;
mod direct_weight;
mod gather;
mod gather_plan;
mod in_place;
mod in_place_weight;
pub(super) mod packed;
mod pieces;
mod runs;
mod weight;
mod weight_plan;
pub(crate) mod weights;
mod window;

use std::sync::atomic::{AtomicUsize, Ordering};

use polaris_core::{DType, bf16, f16};
use polaris_runtime::cpu::{CpuDevice, SimdLevel, ThreadPool};
use polaris_runtime::{Buffer, HostOperands};

use self::window::CHUNK;
use super::geometry::{Form, Geometry, Roles};
use super::product::Product;
use crate::cpu::blocks::Row;
use crate::cpu::map::SendPointer;
use crate::cpu::math::Real;
use crate::matmul::cpu::{Kernels, Native, Packer, f32_kernels, f64_kernels, pack};
use crate::{Array, Operation, Result};

/// Up to this many channels of the result in a group are added up directly.
const FEW_ROWS: usize = 4;
/// Shorter images than this are worth a copy that joins several in one block.
const SHORT: usize = 128;

/// A type that convolutions are computed in.
trait Number: Real {
    fn kernels(level: SimdLevel) -> &'static Kernels<Self, Self>;

    /// Packs elements of a type for the kernels.
    fn packer(dtype: DType) -> Packer<Self>;
}

macro_rules! number {
    ($type:ident, $kernels:ident, |$dtype:ident| $packer:expr) => {
        impl Number for $type {
            fn kernels(level: SimdLevel) -> &'static Kernels<Self, Self> {
                $kernels(level)
            }

            fn packer($dtype: DType) -> Packer<Self> {
                $packer
            }
        }
    };
}

number!(f32, f32_kernels, |dtype| match dtype {
    DType::F16 => pack::<f16>,
    DType::BF16 => pack::<bf16>,
    _ => pack::<Native<f32>>,
});
number!(f64, f64_kernels, |_dtype| pack::<Native<f64>>);

/// An array of images, or the weight, as the threads see it.
#[derive(Clone, Copy)]
struct Image {
    /// The first element.
    start: SendPointer,
    dtype: DType,
    strides: [usize; 4],
}

impl Image {
    fn at(&self, index: [usize; 4]) -> *mut u8 {
        let element: usize = index.iter().zip(self.strides).map(|(i, stride)| i * stride).sum();
        self.start.get().wrapping_add(element * self.dtype.size())
    }

    /// Every `step`-th element of a row from one on.
    fn row(&self, index: [usize; 4], step: usize) -> Row {
        Row { start: self.at(index), dtype: self.dtype, stride: self.strides[3] * step }
    }
}

/// The arrays of one call, registered for its time.
struct Operands {
    x: Image,
    weight: Image,
    y: Image,
    bias: Option<Bias>,
}

/// A number for each channel of the result.
#[derive(Clone, Copy)]
struct Bias {
    start: SendPointer,
    dtype: DType,
    stride: usize,
}

impl Bias {
    /// # Safety
    /// The array must be registered as read, and have the channel.
    unsafe fn of<C: Number>(&self, channel: usize) -> C {
        let at = self.start.get().wrapping_add(channel * self.stride * self.dtype.size());
        // SAFETY: by the caller's word.
        unsafe { C::load_one(at, self.dtype) }
    }
}

pub(super) fn run(
    form: Form,
    geometry: &Geometry,
    cpu: &CpuDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let roles = Roles::new(form, inputs, output)?;
    let rows = if form == Form::InputGradient { geometry.inputs } else { geometry.outputs };
    let mut joined = *geometry;
    let in_place = joined.join_rows() && can_stay(form, &joined, output.dtype());
    if rows > FEW_ROWS
        && !in_place
        && let Some(Product { op, inputs, output }) = Product::of(form, geometry, &roles)?
    {
        let inputs: Vec<&Array> = inputs.iter().collect();
        return op.run_cpu(cpu, &inputs, &output);
    }
    let geometry = &joined;
    let buffers: Vec<&Buffer> = inputs.iter().map(|input| input.buffer()).collect();
    let registered = HostOperands::new(form.name(), &buffers, output.buffer())?;
    let start = |array: &Array| {
        let place = inputs.iter().position(|&input| std::ptr::eq(input, array));
        let start = place.map_or(registered.output(), |place| registered.input(place).cast_mut());
        SendPointer(start.wrapping_add(array.layout().offset() * array.dtype().size()))
    };
    let image = |array: &Array, strides: [usize; 4]| Image {
        start: start(array),
        dtype: array.dtype(),
        strides,
    };
    let operands = Operands {
        x: image(roles.x, geometry.x),
        weight: image(roles.weight, geometry.weight),
        y: image(roles.y, geometry.y),
        bias: roles.bias.map(|array| Bias {
            start: start(array),
            dtype: array.dtype(),
            stride: array.layout().strides()[0],
        }),
    };
    match output.dtype() {
        DType::F64 => compute::<f64>(form, geometry, cpu, &operands, output, in_place),
        _ => compute::<f32>(form, geometry, cpu, &operands, output, in_place),
    }
}

/// Whether kernels can read images, whose rows are joined, where they lie: elements are numbers that
/// are computed with, dense, and enough for a block. Kernels read whole vectors of positions, but for
/// the gradient of the weight, which takes them one by one.
fn can_stay(form: Form, geometry: &Geometry, dtype: DType) -> bool {
    let source = if form == Form::InputGradient { geometry.y } else { geometry.x };
    let pixels = geometry.lengths[1].input;
    matches!(dtype, DType::F32 | DType::F64)
        && source[3] == 1
        && pixels >= SHORT
        && (form == Form::WeightGradient || pixels.is_multiple_of(CHUNK))
}

fn compute<C: Number>(
    form: Form,
    geometry: &Geometry,
    cpu: &CpuDevice,
    operands: &Operands,
    output: &Array,
    in_place: bool,
) -> Result<()> {
    let device = output.device();
    if form == Form::WeightGradient {
        return match geometry.outputs <= FEW_ROWS {
            true => direct_weight::run::<C>(geometry, cpu, operands),
            false => weight::run::<C>(geometry, cpu, device, operands, in_place),
        };
    }
    let gathers = geometry.gathers(form);
    let few = gathers.first().is_some_and(|gather| gather.rows <= FEW_ROWS);
    match few {
        true => direct::run::<C>(form, &gathers, cpu, operands),
        false => gather::run::<C>(form, &gathers, cpu, device, operands, in_place),
    }
}

/// Does every task once, each thread with a number of its own.
fn for_tasks(pool: &ThreadPool, tasks: usize, work: impl Fn(usize, usize) + Sync) {
    let next = AtomicUsize::new(0);
    pool.run(pool.threads().min(tasks), |worker| {
        loop {
            let task = next.fetch_add(1, Ordering::Relaxed);
            if task >= tasks {
                return;
            }
            work(worker, task);
        }
    });
}

/// A part of the scratch memory as numbers.
///
/// # Safety
/// The memory must be initialised, aligned, and this thread's alone for the time of the slice.
unsafe fn numbers<'a, C: Number>(start: SendPointer, first: usize, count: usize) -> &'a mut [C] {
    // SAFETY: by the caller's word.
    unsafe { std::slice::from_raw_parts_mut(start.get().cast::<C>().add(first), count) }
}
