//! Rotations on the CPU, row by row of pairs.

use polaris_core::Collapsed;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::Pairs;
use crate::cpu::blocks::{BLOCK, Compute, ComputeType, Row};
use crate::cpu::map::SendPointer;
use crate::cpu::math::Real;
use crate::cpu::simd::multiversion;
use crate::{Array, Result};

/// Fewer pairs than this are not worth a second thread.
const GRAIN: usize = 8 * 1024;

pub fn run(cpu: &CpuDevice, pairs: &Pairs, inputs: &[&Array], output: &Array) -> Result<()> {
    if pairs.shape.elements() == 0 {
        return Ok(());
    }
    match Compute::of(output.dtype()) {
        Compute::F64 => rotate_all::<f64>(cpu, pairs, inputs, output),
        _ => rotate_all::<f32>(cpu, pairs, inputs, output),
    }
}

fn rotate_all<C: ComputeType + Real>(
    cpu: &CpuDevice,
    pairs: &Pairs,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let [first, second] = &pairs.output;
    let [a, b] = &pairs.x;
    let space = Collapsed::new(&pairs.shape, [first, second, a, b, &pairs.cos, &pairs.sin]);
    let buffers = [inputs[0].buffer(), inputs[1].buffer(), inputs[2].buffer()];
    let operands = HostOperands::new("rope", &buffers, output.buffer())?;
    let input = |place: usize| SendPointer(operands.input(place).cast_mut());
    let out = SendPointer(operands.output());
    let starts = [out, out, input(0), input(0), input(1), input(2)];
    let dtype = output.dtype();
    let (length, strides) = space.inner();
    let pieces = length.div_ceil(BLOCK);
    let rows = space.elements() / length;
    cpu.pool().for_chunks(rows * pieces, (GRAIN / length.min(BLOCK)).max(1), |chunk| {
        let mut scratch = [[C::default(); BLOCK]; 4];
        let mut results = [[C::default(); BLOCK]; 2];
        for item in chunk {
            let (at, first) = (space.row(item / pieces), item % pieces * BLOCK);
            let count = BLOCK.min(length - first);
            let row = |operand: usize| Row {
                start: starts[operand].get().wrapping_add(at[operand] * dtype.size()),
                dtype,
                stride: strides[operand],
            };
            // SAFETY: the layouts were checked against their buffers, which are registered as read and
            // written; chunks have disjoint pairs, and a pair is read before it is written.
            unsafe {
                let [a, b, cos, sin] = &mut scratch;
                let values = [
                    row(2).load(first, count, a),
                    row(3).load(first, count, b),
                    row(4).load(first, count, cos),
                    row(5).load(first, count, sin),
                ];
                let [one, other] = &mut results;
                rotate(cpu.simd(), values, &mut one[..count], &mut other[..count]);
                row(0).store(first, &results[0][..count]);
                row(1).store(first, &results[1][..count]);
            }
        }
    });
    Ok(())
}

multiversion! {
    fn rotate<C: Real>(values: [&[C]; 4], first: &mut [C], second: &mut [C]) {
        let [a, b, cos, sin] = values;
        let pairs = a.iter().zip(b).zip(cos.iter().zip(sin));
        for (((&a, &b), (&cos, &sin)), (first, second)) in pairs.zip(first.iter_mut().zip(second)) {
            *first = a * cos - b * sin;
            *second = b * cos + a * sin;
        }
    }
}
