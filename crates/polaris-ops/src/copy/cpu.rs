//! Copies on the CPU: conversions in blocks, plain moves by rows, transpositions in tiles.

use polaris_core::{Collapsed, DType};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use crate::cpu::blocks::Compute;
use crate::cpu::map::{SendPointer, map_blocks};
use crate::elementwise::same;
use crate::format::{Blocks, Elements, Format, read_blocks, with_block_type};
use crate::{Array, Result};

/// Side of a tile of a transposition: 32 x 32 elements of up to eight bytes, in and out, fit the
/// L1 cache.
const TILE: usize = 32;

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 16 * 1024;

pub fn run(cpu: &CpuDevice, input: &Array, output: &Array) -> Result<()> {
    if let Format::Block(block) = input.format() {
        if output.dtype() != DType::F32 {
            return run(cpu, &super::contiguous(input)?, output);
        }
        return with_block_type!(block, B => expanded::<B>(cpu, input, output));
    }
    if input.dtype() == output.dtype() {
        return match input.dtype().size() {
            1 => moved::<u8>(cpu, input, output),
            2 => moved::<u16>(cpu, input, output),
            4 => moved::<u32>(cpu, input, output),
            _ => moved::<u64>(cpu, input, output),
        };
    }
    match Compute::of(input.dtype()) {
        Compute::F32 => map_blocks::<f32>("copy", &same(), cpu, &[input], output),
        Compute::F64 => map_blocks::<f64>("copy", &same(), cpu, &[input], output),
        Compute::I64 => map_blocks::<i64>("copy", &same(), cpu, &[input], output),
    }
}

/// Decodes blocks, row by row of the output.
fn expanded<B: Blocks>(cpu: &CpuDevice, input: &Array, output: &Array) -> Result<()> {
    let layout = input.layout().broadcast_to("copy", output.shape())?;
    let space = Collapsed::new(output.shape(), [output.layout(), &layout]);
    let inputs = [input.buffer()];
    let operands = HostOperands::new("copy", &inputs, output.buffer())?;
    let from = SendPointer(operands.input(0).cast_mut());
    let to = SendPointer(operands.output());
    let (length, [to_stride, from_stride]) = space.inner();
    let pieces = length.div_ceil(GRAIN);
    let rows = space.elements() / length;
    cpu.pool().for_chunks(rows * pieces, (GRAIN / length).max(1), |chunk| {
        for item in chunk {
            let first = item % pieces * GRAIN;
            let count = GRAIN.min(length - first);
            let [to_row, from_row] = space.row(item / pieces);
            // SAFETY: the layouts were checked against their buffers, which are registered as read and
            // written, and chunks write disjoint elements.
            unsafe {
                let to = to.get().cast::<f32>().add(to_row + first * to_stride);
                let first = from_row + first * from_stride;
                let elements = Elements { first, stride: from_stride, count };
                read_blocks::<B>(cpu.simd(), from.get(), elements, to, to_stride);
            }
        }
    });
    Ok(())
}

/// Moves elements of one size, whatever they mean.
fn moved<W: Copy + Send + Sync>(cpu: &CpuDevice, input: &Array, output: &Array) -> Result<()> {
    let layout = input.layout().broadcast_to("copy", output.shape())?;
    let space = Collapsed::new(output.shape(), [output.layout(), &layout]);
    let inputs = [input.buffer()];
    let operands = HostOperands::new("copy", &inputs, output.buffer())?;
    let mover = Mover::<W> {
        from: SendPointer(operands.input(0).cast_mut()),
        to: SendPointer(operands.output()),
        element: std::marker::PhantomData,
    };
    match transposed_axis(&space) {
        Some(axis) => mover.tiles(cpu, &space, axis),
        None if space.rank() == 1 && space.inner().1 == [1, 1] => mover.dense(cpu, &space),
        None => mover.rows(cpu, &space),
    }
    Ok(())
}

/// The axis along which the input is dense, if the innermost one is not and both are long enough
/// for tiles to pay.
pub fn transposed_axis(space: &Collapsed<2>) -> Option<usize> {
    let (length, [_, stride]) = space.inner();
    if stride <= 1 || length < 4 {
        return None;
    }
    let dims = space.dims();
    (0..space.rank() - 1).find(|&axis| space.strides(1)[axis] == 1 && dims[axis] >= 4)
}

struct Mover<W> {
    from: SendPointer,
    to: SendPointer,
    element: std::marker::PhantomData<W>,
}

impl<W: Copy + Send + Sync> Mover<W> {
    /// Moves one element.
    ///
    /// # Safety
    /// Both indices must lie inside their buffers.
    #[inline(always)]
    unsafe fn one(&self, to: usize, from: usize) {
        // SAFETY: by the caller's word; both are registered for this operation.
        unsafe { *self.to.get().cast::<W>().add(to) = *self.from.get().cast::<W>().add(from) };
    }

    /// One stretch of memory: a large piece for each thread, so that the system's copy sees how
    /// much there is and goes past the caches where that pays.
    fn dense(&self, cpu: &CpuDevice, space: &Collapsed<2>) {
        let [to, from] = space.offsets;
        let length = space.elements();
        let piece = length.div_ceil(cpu.pool().threads()).max(GRAIN);
        cpu.pool().run(length.div_ceil(piece), |i| {
            let (first, count) = (i * piece, piece.min(length - i * piece));
            // SAFETY: the layouts were checked against their buffers, so the stretch lies inside;
            // the operation was checked not to overlap itself.
            unsafe {
                let source = self.from.get().cast::<W>().add(from + first);
                std::ptr::copy(source, self.to.get().cast::<W>().add(to + first), count);
            }
        });
    }

    fn rows(&self, cpu: &CpuDevice, space: &Collapsed<2>) {
        let (length, [to_stride, from_stride]) = space.inner();
        let rows = space.elements() / length;
        let pieces = length.div_ceil(GRAIN);
        let grain = (GRAIN / length).max(1);
        cpu.pool().for_chunks(rows * pieces, grain, |chunk| {
            for item in chunk {
                let [to, from] = space.row(item / pieces);
                let first = item % pieces * GRAIN;
                let count = GRAIN.min(length - first);
                // SAFETY: the layouts were checked against their buffers, so every index of the
                // space lies inside; the operation was checked not to overlap itself.
                unsafe {
                    if to_stride == 1 && from_stride == 1 {
                        let source = self.from.get().cast::<W>().add(from + first);
                        let target = self.to.get().cast::<W>().add(to + first);
                        std::ptr::copy(source, target, count);
                    } else {
                        for i in first..first + count {
                            self.one(to + i * to_stride, from + i * from_stride);
                        }
                    }
                }
            }
        });
    }

    /// The last axis is long steps in the input, `axis` is dense there: tile by tile, both sides
    /// stay in the cache.
    fn tiles(&self, cpu: &CpuDevice, space: &Collapsed<2>, axis: usize) {
        let last = space.rank() - 1;
        let (dims, to, from) = (space.dims(), space.strides(0), space.strides(1));
        let (height, width) = (dims[axis], dims[last]);
        let tiles = [height.div_ceil(TILE), width.div_ceil(TILE)];
        let others: Vec<usize> = (0..last).filter(|&a| a != axis).collect();
        let outer: usize = others.iter().map(|&a| dims[a]).product();
        let grain = (GRAIN / (TILE * TILE)).max(1);
        cpu.pool().for_chunks(outer * tiles[0] * tiles[1], grain, |chunk| {
            for item in chunk {
                let (mut rest, tile) = (item / (tiles[0] * tiles[1]), item % (tiles[0] * tiles[1]));
                let [mut to_start, mut from_start] = space.offsets;
                for &a in others.iter().rev() {
                    to_start += rest % dims[a] * to[a];
                    from_start += rest % dims[a] * from[a];
                    rest /= dims[a];
                }
                let (y0, x0) = (tile / tiles[1] * TILE, tile % tiles[1] * TILE);
                for y in y0..height.min(y0 + TILE) {
                    for x in x0..width.min(x0 + TILE) {
                        // SAFETY: as for `rows`.
                        unsafe {
                            self.one(
                                to_start + y * to[axis] + x * to[last],
                                from_start + y * from[axis] + x * from[last],
                            );
                        }
                    }
                }
            }
        });
    }
}
