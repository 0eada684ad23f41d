//! Random numbers on the CPU.

use polaris_core::{Collapsed, DType};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::{Distribution, Random, philox};
use crate::cpu::blocks::{BLOCK, ComputeType, Row};
use crate::cpu::map::SendPointer;
use crate::{Array, Result};

/// Fewer blocks than this are not worth a second thread.
const GRAIN: usize = 8;

pub fn run(op: &Random, cpu: &CpuDevice, output: &Array) -> Result<()> {
    match (op.distribution, output.dtype()) {
        (Distribution::Bits, DType::I64) => {
            generate(op, cpu, output, |low, high| (u64::from(high) << 32 | u64::from(low)) as i64)
        }
        (Distribution::Bits, DType::Bool) => generate(op, cpu, output, |low, _| i64::from(low & 1)),
        (Distribution::Bits, _) => generate(op, cpu, output, |low, _| i64::from(low as i32)),
        (Distribution::Uniform { low, high }, DType::F64) => {
            let range = high - low;
            generate(op, cpu, output, move |a, b| {
                let whole = u64::from(b) << 32 | u64::from(a);
                low + (whole >> 11) as f64 * 2f64.powi(-53) * range
            })
        }
        (Distribution::Uniform { low, high }, _) => {
            let (low, range) = (low as f32, (high - low) as f32);
            generate(op, cpu, output, move |a, _| low + (a >> 8) as f32 * 2f32.powi(-24) * range)
        }
        (Distribution::Normal { mean, deviation }, _) => {
            let (mean, deviation) = (mean as f32, deviation as f32);
            generate(op, cpu, output, move |a, _| mean + deviation * philox::normal(a))
        }
    }
}

/// Writes `value(low word, high word)` of each element's place in the sequence.
fn generate<C: ComputeType>(
    op: &Random,
    cpu: &CpuDevice,
    output: &Array,
    value: impl Fn(u32, u32) -> C + Sync,
) -> Result<()> {
    let dtype = output.dtype();
    let space = Collapsed::new(output.shape(), [output.layout()]);
    let operands = HostOperands::new("random", &[], output.buffer())?;
    let start = SendPointer(operands.output());
    let (length, [stride]) = space.inner();
    let blocks_per_row = length.div_ceil(BLOCK);
    let rows = space.elements() / length;
    let wide = dtype.size() == 8;
    cpu.pool().for_chunks(rows * blocks_per_row, GRAIN, |chunk| {
        let mut values = [C::default(); BLOCK];
        for item in chunk {
            let (row, first) = (item / blocks_per_row, item % blocks_per_row * BLOCK);
            let count = BLOCK.min(length - first);
            let index = op.offset + (row * length + first) as u64;
            let mut block = u64::MAX;
            let (mut low, mut high) = ([0; 4], [0; 4]);
            for (i, target) in values[..count].iter_mut().enumerate() {
                let index = index + i as u64;
                if index / 4 != block {
                    block = index / 4;
                    low = philox::words(op.seed, block, 0);
                    high = if wide { philox::words(op.seed, block, 1) } else { low };
                }
                *target = value(low[index as usize % 4], high[index as usize % 4]);
            }
            let [at] = space.row(row);
            // SAFETY: the layout was checked against its buffer, which is registered as written;
            // chunks write disjoint elements.
            unsafe {
                let start = start.get().add(at * dtype.size());
                Row { start, dtype, stride }.store(first, &values[..count]);
            }
        }
    });
    Ok(())
}
