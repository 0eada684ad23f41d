//! Functions of arrays applied in blocks, over all threads.

use polaris_core::Collapsed;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};
use polaris_runtime::{Device, HostOperands};

use crate::cpu::blocks::{BLOCK, ComputeType, LINE, LONG_BLOCK, Row, end_streaming};
use crate::{Array, Result};

/// A function on dense blocks of equal length, in two forms. Unused arguments are empty.
pub struct BlockFunction<C> {
    /// Writes the results.
    pub plain: fn(SimdLevel, [&[C]; 3], &mut [C]),
    /// Writes the results past the caches, to memory aligned to a cache line that nobody else
    /// looks at.
    pub streamed: fn(SimdLevel, [&[C]; 3], SendPointer),
}

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 16 * 1024;

/// Applies a function of up to three arrays, which broadcast to the output's shape, block by
/// block. The output may be of any type: blocks are converted when they are stored.
pub fn map_blocks<C: ComputeType>(
    op: &'static str,
    block: &BlockFunction<C>,
    cpu: &CpuDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let shape = output.shape();
    let mut layouts = [*output.layout(); 4];
    let mut buffers = [output.buffer(); 3];
    for (index, input) in inputs.iter().enumerate() {
        layouts[index + 1] = input.layout().broadcast_to(op, shape)?;
        buffers[index] = input.buffer();
    }
    let arity = inputs.len();
    let space = Collapsed::new(shape, [&layouts[0], &layouts[1], &layouts[2], &layouts[3]]);
    let operands = HostOperands::new(op, &buffers[..arity], output.buffer())?;
    let (length, strides) = space.inner();
    let rows = space.elements() / length;
    let row = |operand: usize, start: *mut u8, array: &Array, at: [usize; 4]| Row {
        // SAFETY: the layouts were checked against their buffers, so every index lies inside.
        start: unsafe { start.add(at[operand] * array.dtype().size()) },
        dtype: array.dtype(),
        stride: strides[operand],
    };
    let out = SendPointer(operands.output());
    let ins: [SendPointer; 3] = std::array::from_fn(|i| {
        SendPointer(if i < arity { operands.input(i).cast_mut() } else { std::ptr::null_mut() })
    });
    // Writing straight into the output is sound only if no input is the same memory: the block
    // function's slices must not overlap.
    let aliased = inputs.iter().any(|input| input.overlaps(output));
    let bytes = output.elements() * output.dtype().size();
    let stream = bytes as u64 >= streaming_threshold(cpu);
    let is_direct =
        |operand: usize, array: &Array| strides[operand] == 1 && array.dtype() == C::NATIVE;
    let to_output = is_direct(0, output) && !aliased;
    let all_direct =
        to_output && inputs.iter().enumerate().all(|(i, input)| is_direct(i + 1, input));
    let block_length = if all_direct { LONG_BLOCK } else { BLOCK };
    let blocks_per_row = length.div_ceil(block_length);
    let grain = (GRAIN / length.min(block_length)).max(1);
    cpu.pool().for_chunks(rows * blocks_per_row, grain, |chunk| {
        let mut scratch = [[C::default(); BLOCK]; 3];
        let mut result = [C::default(); BLOCK];
        for item in chunk {
            let (row_index, first) = (item / blocks_per_row, item % blocks_per_row * block_length);
            let count = block_length.min(length - first);
            let at = space.row(row_index);
            let [s0, s1, s2] = &mut scratch;
            let target = row(0, out.get(), output, at);
            // SAFETY: the rows lie inside their buffers, which are registered as read and written
            // by this operation; chunks write disjoint elements; and a result goes to the output
            // directly only if no argument shares its memory.
            unsafe {
                let load = |i: usize, scratch: &mut [C]| -> &[C] {
                    if i >= arity {
                        return &[];
                    }
                    let loaded =
                        row(i + 1, ins[i].get(), inputs[i], at).load(first, count, scratch);
                    std::slice::from_raw_parts(loaded.as_ptr(), count)
                };
                let arguments = [load(0, s0), load(1, s1), load(2, s2)];
                let start = target.start.cast::<C>().wrapping_add(first);
                if !to_output {
                    (block.plain)(cpu.simd(), arguments, &mut result[..count]);
                    target.store(first, &result[..count]);
                } else if stream && start.addr().is_multiple_of(LINE) {
                    (block.streamed)(cpu.simd(), arguments, SendPointer(start.cast()));
                } else {
                    (block.plain)(
                        cpu.simd(),
                        arguments,
                        std::slice::from_raw_parts_mut(start, count),
                    );
                }
            }
        }
        if stream {
            end_streaming();
        }
    });
    Ok(())
}

/// Results larger than a quarter of the last-level cache leave no room in it for the one or two inputs of their size,
/// and are gone from it before they are read.
pub fn streaming_threshold(cpu: &CpuDevice) -> u64 {
    (cpu.capabilities().local_memory_bytes / 4).clamp(4 << 20, 32 << 20)
}

/// A pointer that the threads of one operation share.
#[derive(Clone, Copy)]
pub struct SendPointer(pub *mut u8);

// SAFETY: each thread reads or writes its own part, as `map_blocks` says.
unsafe impl Send for SendPointer {}
// SAFETY: as above.
unsafe impl Sync for SendPointer {}

impl SendPointer {
    pub fn get(self) -> *mut u8 {
        self.0
    }
}
