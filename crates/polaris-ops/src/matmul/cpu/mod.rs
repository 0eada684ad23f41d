//! Matmul on the CPU.

mod blocked;
mod blocks;
mod dot;
mod ending;
mod finish;
mod int8;
mod kernel;
mod lanes;
#[cfg(target_arch = "x86_64")]
mod lanes_x86;
mod multiply;
mod pack;
mod panels;
mod plan;
mod prepack;
mod product;
mod skinny;
mod small;
mod stored;
#[cfg(test)]
mod tests;
pub(crate) mod tiles;
mod widen;

use polaris_core::{DType, bf16, f16};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};

pub(crate) use self::blocked::Tile;
use self::dot::{bf16_dots, f16_dots, f32_dots, f64_dots};
pub(crate) use self::ending::Direct;
use self::finish::Sum;
pub(crate) use self::finish::{Place, TILE_STRIDE, store};
pub(crate) use self::kernel::{
    Call, Ending, Kernels, ToBytes, f32_kernels, f64_kernels, pair_kernels, prefetch, quad_kernels,
};
pub(crate) use self::lanes::{Lanes, Plain};
#[cfg(target_arch = "x86_64")]
pub(crate) use self::lanes_x86::{F32x8, F32x16, whole};
pub(crate) use self::multiply::Scratch;
use self::multiply::{Batch, PackedRight};
pub(crate) use self::pack::{Packer, Strip, pack};
use self::panels::{Arithmetic, Negate};
pub(crate) use self::plan::{even, most_steps};
use self::prepack::layout_of;
pub(crate) use self::prepack::{has_panels, pack_b, packed_bytes, unpack_b};
pub(crate) use self::product::{Finish, Plane, Product};
use self::skinny::FewRows;
pub(crate) use self::stored::Native;
use self::stored::{Packing, Pairs, Quads, RaisedQuads};
use super::geometry::{self, Geometry, Matrix};
use super::problem::{Bias, MatMul, Parts};
use crate::cpu::blocks::Row;
use crate::cpu::map::SendPointer;
use crate::format::Format;
use crate::{Array, Result};

pub fn run(op: &MatMul, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
    run_at(cpu.simd(), op, cpu, inputs, output)
}

/// Computes with the instructions of a level, which the processor must have.
fn run_at(
    level: SimdLevel,
    op: &MatMul,
    cpu: &CpuDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let parts = op.parts(inputs)?;
    let geometry = Geometry::new(op, &parts, output)?;
    if output.elements() == 0 {
        return Ok(());
    }
    if matches!(parts.b.format(), Format::Block(_)) {
        return blocks::run(op, cpu, &parts, &geometry, output);
    }
    let packed = layout_of(cpu, parts.a.dtype(), parts.b)?;
    let mut buffers = [output.buffer(); 8];
    for (buffer, input) in buffers.iter_mut().zip(inputs) {
        *buffer = input.buffer();
    }
    let operands = HostOperands::new("matmul", &buffers[..inputs.len()], output.buffer())?;
    let start = |array: &Array| {
        let place = inputs.iter().position(|&input| std::ptr::eq(input, array));
        place.map_or(operands.output(), |place| operands.input(place).cast_mut())
    };
    let first = first_product(op, &geometry, &parts, output, &start);
    let product = |index: usize| moved(&first, geometry.batches.point(index));
    let batch = Batch {
        level,
        pool: cpu.pool(),
        device: output.device(),
        count: geometry.batches.elements(),
        first: &first,
        product: &product,
        packed: packed.map(|packed| PackedRight {
            layout: packed.panels,
            panels: SendPointer(start(parts.b)),
            correction_offset: packed.correction_offset,
        }),
    };
    with_arithmetic(level, [parts.a.dtype(), parts.b.dtype()], batch)
}

/// Something that is done with the arithmetic of a type.
trait Computation {
    type Result;

    fn run<P, S>(self, arithmetic: &Arithmetic<P, S>) -> Result<Self::Result>
    where
        P: Copy + Send + Sync,
        S: Sum + Negate;
}

/// Does something with the arithmetic of the types of A and B and an instruction set.
fn with_arithmetic<C: Computation>(
    level: SimdLevel,
    [left, right]: [DType; 2],
    work: C,
) -> Result<C::Result> {
    match left {
        DType::F64 => {
            let arithmetic = floats::<Native<f64>, _>(f64_kernels(level));
            let few_rows = FewRows { dots: f64_dots(level), pack: arithmetic.pack_left };
            work.run(&Arithmetic { few_rows: Some(few_rows), ..arithmetic })
        }
        DType::F16 => work.run(&floats::<f16, _>(f32_kernels(level))),
        DType::BF16 => work.run(&floats::<bf16, _>(f32_kernels(level))),
        DType::I8 => work.run(&bytes::<i8>(level, true)),
        DType::U8 => work.run(&bytes::<u8>(level, false)),
        _ => {
            let arithmetic = floats::<Native<f32>, _>(f32_kernels(level));
            // Of weights in half precision, elements are widened as they are packed or multiplied.
            let (dots, pack_right): (_, Packer<f32>) = match right {
                DType::F16 => (f16_dots(level), pack::<f16>),
                DType::BF16 => (bf16_dots(level), pack::<bf16>),
                _ => (f32_dots(level), arithmetic.pack_right),
            };
            let few_rows = Some(FewRows { dots, pack: arithmetic.pack_left });
            let right_in_place = right == DType::F32;
            work.run(&Arithmetic { few_rows, pack_right, right_in_place, ..arithmetic })
        }
    }
}

fn floats<K: Packing, S>(
    kernels: &'static kernel::Kernels<K::Packed, S>,
) -> Arithmetic<K::Packed, S> {
    let (pack_left, pack_right) = (pack::<K>, pack::<K>);
    Arithmetic {
        kernels,
        pack_left,
        pack_right,
        group: 1,
        left_in_place: K::SAME,
        right_in_place: K::SAME,
        excess: None,
        few_rows: None,
    }
}

/// Groups of four bytes where there are instructions for them, which take A without signs.
fn bytes<T: stored::Byte>(level: SimdLevel, is_signed: bool) -> Arithmetic<u32, i32> {
    match quad_kernels(level) {
        Some(kernels) => Arithmetic {
            kernels,
            pack_left: pack::<RaisedQuads<T>>,
            pack_right: pack::<Quads>,
            group: RaisedQuads::<T>::GROUP,
            left_in_place: false,
            right_in_place: false,
            // 128 in each byte is what signed ones are raised by.
            excess: is_signed.then_some(0x8080_8080),
            few_rows: None,
        },
        None => Arithmetic {
            kernels: pair_kernels(level),
            pack_left: pack::<Pairs<T>>,
            pack_right: pack::<Pairs<i8>>,
            group: Pairs::<T>::GROUP,
            left_in_place: false,
            right_in_place: false,
            excess: None,
            few_rows: None,
        },
    }
}

/// The first product of the batch, with its matrices at their buffers' beginnings.
fn first_product(
    op: &MatMul,
    geometry: &Geometry,
    parts: &Parts,
    output: &Array,
    start: &dyn Fn(&Array) -> *mut u8,
) -> Product {
    let plane = |array: &Array, matrix: Matrix| Plane {
        start: SendPointer(start(array)),
        dtype: array.dtype(),
        row_stride: matrix.rows,
        column_stride: matrix.columns,
    };
    let vector = |array: Option<&Array>| {
        array.map(|array| Row {
            start: start(array).wrapping_add(array.layout().offset() * array.dtype().size()),
            dtype: array.dtype(),
            stride: array.layout().strides()[0],
        })
    };
    let bias = |along: Bias| vector(parts.bias.filter(|_| op.epilogue.bias == Some(along)));
    let once = [parts.c, parts.residual];
    Product {
        m: geometry.m,
        n: geometry.n,
        k: geometry.k,
        a: plane(parts.a, geometry.a),
        b: plane(parts.b, geometry.b),
        out: plane(output, geometry.out),
        finish: Finish {
            alpha: op.alpha,
            beta: op.beta,
            c: parts.c.map(|array| plane(array, geometry.c)),
            row_scales: vector(parts.row_scales),
            column_scales: vector(parts.column_scales),
            row_bias: bias(Bias::PerRow),
            column_bias: bias(Bias::PerColumn),
            activation: op.epilogue.activation,
            scale: op.epilogue.scale,
            residual: parts.residual.map(|array| plane(array, geometry.residual)),
        },
        in_place: once.into_iter().flatten().any(|array| array.overlaps(output)),
    }
}

/// The product whose matrices begin at these elements.
fn moved(first: &Product, starts: [usize; 5]) -> Product {
    let finish = first.finish;
    Product {
        a: first.a.moved(starts[geometry::A]),
        b: first.b.moved(starts[geometry::B]),
        out: first.out.moved(starts[geometry::OUT]),
        finish: Finish {
            c: finish.c.map(|c| c.moved(starts[geometry::C])),
            residual: finish.residual.map(|residual| residual.moved(starts[geometry::RESIDUAL])),
            ..finish
        },
        ..*first
    }
}
