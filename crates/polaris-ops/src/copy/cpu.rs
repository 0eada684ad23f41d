//! Copies on the CPU: conversions in blocks, plain moves by rows, transpositions in tiles.

use polaris_core::{Collapsed, DType, Layout};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use crate::cpu::blocks::Compute;
use crate::cpu::map::{SendPointer, map_blocks};
use crate::cpu::simd::multiversion;
use crate::elementwise::same;
use crate::format::{Blocks, Elements, Format, read_blocks, with_block_type};
use crate::{Array, Result};

/// Side of a tile of a transposition: 32 x 32 elements of up to eight bytes, in and out, fit the
/// L1 cache.
const TILE: usize = 32;
/// Elements whose transposition several threads share.
const SHARED: usize = 1 << 16;

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
    let layouts = [*output.layout(), layout];
    let in_order = in_order_of_memory(&layouts)?;
    let ordered = Collapsed::new(in_order[0].shape(), [&in_order[0], &in_order[1]]);
    let is_planar = is_planar(&ordered);
    let is_shared = cpu.pool().threads() > 1 && ordered.elements() > SHARED;
    // Stretches that both have are moved as they are.
    let space = match ordered.inner() {
        (_, [1, 1]) => ordered,
        _ if is_planar => ordered,
        // Several threads then write places of their own, and not every other element of a cache line; one alone is
        // faster without tiles.
        (_, [1, _]) if is_shared && transposed_axis(&ordered).is_some() => ordered,
        _ => Collapsed::new(output.shape(), [&layouts[0], &layouts[1]]),
    };
    let inputs = [input.buffer()];
    let operands = HostOperands::new("copy", &inputs, output.buffer())?;
    let mover = Mover::<W> {
        from: SendPointer(operands.input(0).cast_mut()),
        to: SendPointer(operands.output()),
        element: std::marker::PhantomData,
    };
    match transposed_axis(&space) {
        _ if is_planar => mover.planes(cpu, &space),
        Some(axis) => mover.tiles(cpu, &space, axis),
        None if space.rank() == 1 && space.inner().1 == [1, 1] => mover.dense(cpu, &space),
        None => mover.rows(cpu, &space),
    }
    Ok(())
}

/// Layouts of the output and the input with the axes as they follow one another in the output.
fn in_order_of_memory(layouts: &[Layout; 2]) -> Result<[Layout; 2]> {
    let [to, from] = layouts;
    let mut order: Vec<usize> = (0..to.shape().rank()).collect();
    // Axes of one element may have any stride.
    order.sort_by_key(|&axis| {
        std::cmp::Reverse(if to.shape()[axis] == 1 { usize::MAX } else { to.strides()[axis] })
    });
    Ok([to.permute(&order)?, from.permute(&order)?])
}

/// Whether a few planes of the input become adjacent elements of the output, as the channels of a coloured image do.
fn is_planar(space: &Collapsed<2>) -> bool {
    let (count, [to, from]) = space.inner();
    let Some(pixels) = space.rank().checked_sub(2) else { return false };
    (2..=4).contains(&count)
        && to == 1
        && from != 1
        && space.strides(0)[pixels] == count
        && space.strides(1)[pixels] == 1
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

multiversion! {
    /// Makes so many pixels of two to four planes, `plane` apart, adjacent. The caller vouches for the memory.
    fn interleave<W: Copy>(to: *mut W, from: *mut W, plane: usize, planes: usize, pixels: usize) {
        // SAFETY: by the caller's word.
        unsafe {
            match planes {
                2 => interleave_planes::<W, 2>(to, from, plane, pixels),
                3 => interleave_planes::<W, 3>(to, from, plane, pixels),
                _ => interleave_planes::<W, 4>(to, from, plane, pixels),
            }
        }
    }
}

/// # Safety
/// There must be as many elements in each plane, and room for all of them.
#[inline(always)]
unsafe fn interleave_planes<W: Copy, const N: usize>(
    to: *mut W,
    from: *mut W,
    plane: usize,
    pixels: usize,
) {
    for at in 0..pixels {
        for index in 0..N {
            // SAFETY: by the caller's word.
            unsafe { *to.add(at * N + index) = *from.add(index * plane + at) };
        }
    }
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
                // Divisions would take longer than a short row.
                let (row, first) =
                    if pieces == 1 { (item, 0) } else { (item / pieces, item % pieces * GRAIN) };
                let [to, from] = match space.rank() {
                    2 => std::array::from_fn(|i| space.offsets[i] + row * space.strides(i)[0]),
                    _ => space.row(row),
                };
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

    /// A few planes of the input become adjacent elements.
    fn planes(&self, cpu: &CpuDevice, space: &Collapsed<2>) {
        let (count, [_, plane]) = space.inner();
        let axis = space.rank() - 2;
        let pixels = space.dims()[axis];
        let (outer, pieces) = (space.elements() / (count * pixels), pixels.div_ceil(GRAIN));
        cpu.pool().for_chunks(outer * pieces, (GRAIN / (count * pixels)).max(1), |chunk| {
            for item in chunk {
                let (image, first) = (item / pieces, item % pieces * GRAIN);
                let [to, from] = space.row(image * pixels);
                // SAFETY: as for `rows`.
                let [to, from] = unsafe {
                    let to = self.to.get().cast::<W>().add(to + first * count);
                    [to, self.from.get().cast::<W>().add(from + first)]
                };
                let pixels = GRAIN.min(pixels - first);
                interleave::<W>(cpu.simd(), to, from, plane, count, pixels);
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

#[cfg(test)]
mod tests {
    use polaris_core::Shape;
    use polaris_runtime::{Runtime, RuntimeOptions};

    use super::*;
    use crate::copy::Copy as CopyOperation;

    /// Images whose channels are adjacent, as `[N, C, H, W]`.
    fn channels_last(array: &Array) -> Array {
        array.permute(&[0, 3, 1, 2]).unwrap()
    }

    #[test]
    fn images_keep_their_elements_in_any_layout() {
        let options = RuntimeOptions { threads: Some(3), ..RuntimeOptions::default() };
        let device = Runtime::discover(&options).unwrap().cpu().clone();
        for (images, channels, rows, columns) in [
            (1, 3, 150, 170),
            (2, 2, 5, 7),
            (3, 4, 6, 1),
            (2, 5, 4, 3),
            (1, 70, 9, 8),
            (1, 70, 40, 30),
        ] {
            let dims = [images, channels, rows, columns];
            let count: usize = dims.iter().product();
            let values: Vec<u8> = (0..count).map(|at| (at * 7919 % 251) as u8).collect();
            let planar = Array::from_slice(&device, &dims, &values).unwrap();
            let empty = |channels| {
                let shape = Shape::new(&[images, rows, columns, channels]).unwrap();
                channels_last(&Array::empty(&device, DType::U8, shape).unwrap())
            };
            let turned = empty(channels);
            crate::run(&CopyOperation, &[&planar], &turned).unwrap();
            assert_eq!(turned.to_vec::<u8>().unwrap(), values, "{dims:?}");
            // A part of the channels of wider images.
            let wide = empty(channels + 3);
            let part = wide.slice(1, 2..2 + channels, 1).unwrap();
            crate::run(&CopyOperation, &[&turned], &part).unwrap();
            assert_eq!(part.to_vec::<u8>().unwrap(), values, "{dims:?}");
            let back = Array::empty(&device, DType::U8, *planar.shape()).unwrap();
            crate::run(&CopyOperation, &[&part], &back).unwrap();
            assert_eq!(back.to_vec::<u8>().unwrap(), values, "{dims:?}");
        }
    }
}
