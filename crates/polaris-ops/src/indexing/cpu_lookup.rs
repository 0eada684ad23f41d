//! Look-ups on the CPU: whole stretches where neighbours share an index, else one by one.

use std::sync::atomic::{AtomicUsize, Ordering};

use half::slice::HalfFloatSliceExt;
use polaris_core::{DType, bf16, f16};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::indices::with_index_type;
use super::lookup::Lookup;
use crate::cpu::blocks::{LINE, end_streaming};
use crate::cpu::map::{SendPointer, streaming_threshold};
use crate::elementwise::same;
use crate::format::{Blocks, Elements, Format, read_blocks, with_block_type};
use crate::{Array, Result};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 16 * 1024;

pub fn run(op: &Lookup, cpu: &CpuDevice, index: &Array, x: &Array, output: &Array) -> Result<()> {
    if let Format::Block(block) = x.format() {
        return with_block_type!(block, B => {
            with_index_type!(index, look_up::<Decoded<B>>(op, cpu, index, x, output))
        });
    }
    if x.dtype() != output.dtype() {
        return match x.dtype() {
            DType::F16 => {
                with_index_type!(index, look_up::<Widened<f16>>(op, cpu, index, x, output))
            }
            _ => with_index_type!(index, look_up::<Widened<bf16>>(op, cpu, index, x, output)),
        };
    }
    match x.dtype().size() {
        1 => with_index_type!(index, look_up::<Moved<u8>>(op, cpu, index, x, output)),
        2 => with_index_type!(index, look_up::<Moved<u16>>(op, cpu, index, x, output)),
        4 => with_index_type!(index, look_up::<Moved<u32>>(op, cpu, index, x, output)),
        _ => with_index_type!(index, look_up::<Moved<u64>>(op, cpu, index, x, output)),
    }
}

/// How elements are read from memory.
trait Source {
    /// What they become.
    type Element: Copy;

    /// Reads elements to places that are `to_stride` apart; `stream` says that the whole result is larger than the
    /// caches.
    ///
    /// # Safety
    /// The elements must be readable and the places writable; they must not overlap.
    unsafe fn read(
        cpu: &CpuDevice,
        from: *const u8,
        elements: Elements,
        to: *mut Self::Element,
        to_stride: usize,
        stream: bool,
    );
}

/// Elements of one size, whatever they mean.
struct Moved<W>(std::marker::PhantomData<W>);

impl<W: Copy> Source for Moved<W> {
    type Element = W;

    unsafe fn read(
        cpu: &CpuDevice,
        from: *const u8,
        elements: Elements,
        to: *mut W,
        to_stride: usize,
        stream: bool,
    ) {
        let Elements { first, stride, count } = elements;
        // SAFETY: by the caller's word.
        unsafe {
            let from = from.cast::<W>().add(first);
            if to_stride == 1 && stride == 1 {
                copy_stretch(cpu, from, to, count, stream);
            } else {
                (0..count).for_each(|i| *to.add(i * to_stride) = *from.add(i * stride));
            }
        }
    }
}

/// Elements of blocks.
struct Decoded<B>(std::marker::PhantomData<B>);

impl<B: Blocks> Source for Decoded<B> {
    type Element = f32;

    unsafe fn read(
        cpu: &CpuDevice,
        from: *const u8,
        elements: Elements,
        to: *mut f32,
        to_stride: usize,
        _: bool,
    ) {
        // SAFETY: by the caller's word.
        unsafe { read_blocks::<B>(cpu.simd(), from, elements, to, to_stride) };
    }
}

/// Elements in half precision that become `f32`.
struct Widened<T>(std::marker::PhantomData<T>);

impl<T: Copy + Into<f32>> Source for Widened<T>
where
    [T]: HalfFloatSliceExt,
{
    type Element = f32;

    unsafe fn read(
        _: &CpuDevice,
        from: *const u8,
        elements: Elements,
        to: *mut f32,
        to_stride: usize,
        _: bool,
    ) {
        let Elements { first, stride, count } = elements;
        // SAFETY: by the caller's word.
        unsafe {
            let from = from.cast::<T>().add(first);
            if to_stride == 1 && stride == 1 {
                let to = std::slice::from_raw_parts_mut(to, count);
                std::slice::from_raw_parts(from, count).convert_to_f32_slice(to);
            } else {
                (0..count).for_each(|i| *to.add(i * to_stride) = (*from.add(i * stride)).into());
            }
        }
    }
}

fn look_up<S: Source, I: Copy + Into<i64>>(
    op: &Lookup,
    cpu: &CpuDevice,
    index: &Array,
    x: &Array,
    output: &Array,
) -> Result<()> {
    let walk = op.space(index.layout(), x, output)?;
    let axis = op.looked_up(x);
    let buffers = [index.buffer(), x.buffer()];
    let operands = HostOperands::new(axis.op, &buffers, output.buffer())?;
    let [indices, from] = [0, 1].map(|i| SendPointer(operands.input(i).cast_mut()));
    let to = SendPointer(operands.output());
    let first_wrong = AtomicUsize::new(usize::MAX);
    let (length, [to_stride, from_stride, index_stride]) = walk.space.inner();
    let pieces = length.div_ceil(GRAIN);
    let rows = walk.space.elements() / length;
    let bytes = output.elements() * output.dtype().size();
    let stream = bytes as u64 >= streaming_threshold(cpu);
    cpu.pool().for_chunks(rows * pieces, (GRAIN / length).max(1), |chunk| {
        for item in chunk {
            let first = item % pieces * GRAIN;
            let count = GRAIN.min(length - first);
            let [to_row, from_row, index_row] = walk.space.row(item / pieces);
            // SAFETY: the layouts were checked against their buffers, and no index leads anywhere that
            // lies outside the axis, so all of these lie inside; the buffers are registered as read and
            // written, the output is none of the inputs, and chunks write disjoint elements.
            unsafe {
                let looked_up = |i: usize| -> Option<usize> {
                    let index: I = *indices.get().cast::<I>().add(index_row + i * index_stride);
                    let index = usize::try_from(index.into()).unwrap_or(usize::MAX);
                    (index < axis.length).then(|| from_row + index * walk.stride)
                };
                let wrong = |i: usize| {
                    let position = walk.position(item / pieces * length + i);
                    first_wrong.fetch_min(position, Ordering::Relaxed);
                };
                let to = to.get().cast::<S::Element>().add(to_row + first * to_stride);
                let from = from.get();
                if index_stride == 0 {
                    let Some(start) = looked_up(0) else {
                        wrong(first);
                        continue;
                    };
                    let first = start + first * from_stride;
                    let elements = Elements { first, stride: from_stride, count };
                    S::read(cpu, from, elements, to, to_stride, stream);
                } else {
                    for i in 0..count {
                        match looked_up(first + i) {
                            Some(start) => {
                                let first = start + (first + i) * from_stride;
                                let one = Elements { first, stride: 1, count: 1 };
                                S::read(cpu, from, one, to.add(i * to_stride), 1, false);
                            }
                            None => wrong(first + i),
                        }
                    }
                }
            }
        }
        if stream {
            end_streaming();
        }
    });
    match first_wrong.into_inner() {
        usize::MAX => Ok(()),
        // SAFETY: the indices are registered as read.
        position => Err(unsafe { axis.out_of_range_on_host::<I>(index, indices, position) }),
    }
}

/// Copies a dense stretch, past the caches where the whole result is larger than them.
///
/// # Safety
/// Both must be valid for `count` elements, and must not overlap.
unsafe fn copy_stretch<W: Copy>(
    cpu: &CpuDevice,
    from: *const W,
    to: *mut W,
    count: usize,
    stream: bool,
) {
    // SAFETY: by the caller's word. Moving bits as `f32` changes none of them: they are only loaded
    // and stored.
    unsafe {
        if stream && size_of::<W>() == DType::F32.size() && to.addr().is_multiple_of(LINE) {
            let from = std::slice::from_raw_parts(from.cast::<f32>(), count);
            (same::<f32>().streamed)(cpu.simd(), [from, &[], &[]], SendPointer(to.cast()));
        } else {
            std::ptr::copy_nonoverlapping(from, to, count);
        }
    }
}
