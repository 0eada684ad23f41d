//! Max pooling of int8. NHWC images, the layout of quantised ones, are folded all channels at a time; others element
//! by element.

use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::geometry::{Geometry, POOLED, WHOLE};
use crate::cpu::map::SendPointer;
use crate::cpu::simd::multiversion;
use crate::quantize::flip;
use crate::{Array, Result};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 32 * 1024;

pub fn run(geometry: &Geometry, cpu: &CpuDevice, x: &Array, output: &Array) -> Result<()> {
    let buffers = [x.buffer()];
    let operands = HostOperands::new("max_pool", &buffers, output.buffer())?;
    let starts = [SendPointer(operands.output()), SendPointer(operands.input(0).cast_mut())];
    let spans = geometry.spans();
    // An axis of the planes along which both arrays are dense: channels.
    let planes = &geometry.planes;
    let (length, strides) = planes.inner();
    let along = if strides[POOLED] == 1 && strides[WHOLE] == 1 { length } else { 1 };
    let groups = planes.elements() / along;
    let [rows, columns] = geometry.pooled;
    // What makes bytes unsigned, which also is the smallest byte.
    let flip = flip(x.dtype());
    let grain = (GRAIN / (along * columns).max(1)).max(1);
    cpu.pool().for_chunks(groups * rows, grain, |chunk| {
        let mut taps = Vec::new();
        for item in chunk {
            let (group, row) = (item / rows, item % rows);
            let plane = planes.point(group * along);
            for column in 0..columns {
                let (down, across) = (spans[0][row], spans[1][column]);
                let [down_stride, across_stride] = geometry.strides[POOLED];
                let to = plane[POOLED] + row * down_stride + column * across_stride;
                let to = starts[POOLED].get().wrapping_add(to);
                let [down_stride, across_stride] = geometry.strides[WHOLE];
                taps.clear();
                for down in (0..down.taps).map(|tap| down.first + tap * down.step) {
                    for across in (0..across.taps).map(|tap| across.first + tap * across.step) {
                        let at = plane[WHOLE] + down * down_stride + across * across_stride;
                        taps.push(starts[WHOLE].get().wrapping_add(at).cast_const());
                    }
                }
                // Windows are cut off at the border of the input, positions lie inside the output, and chunks have
                // different ones.
                largest(cpu.simd(), &taps, to, along, flip);
            }
        }
    });
    Ok(())
}

multiversion! {
    /// The largest byte of all taps for each of `count` channels; without taps the smallest there is. The caller vouches
    /// for the memory of the taps and the result.
    fn largest<>(taps: &[*const u8], to: *mut u8, count: usize, flip: u8) {
        let mut first = 0;
        while first < count {
            // SAFETY: by the caller's word.
            first += unsafe {
                match count - first {
                    64.. => block::<64>(taps, to, first, flip),
                    16.. => block::<16>(taps, to, first, flip),
                    _ => block::<1>(taps, to, first, flip),
                }
            };
        }
    }
}

/// As `largest` for `N` channels from `first` on; returns how many these are.
///
/// # Safety
/// There must be as many bytes at all taps and at the result.
#[inline(always)]
unsafe fn block<const N: usize>(taps: &[*const u8], to: *mut u8, first: usize, flip: u8) -> usize {
    let mut most = [0u8; N];
    for tap in taps {
        // SAFETY: by the caller's word, here and below.
        let bytes = unsafe { tap.add(first).cast::<[u8; N]>().read_unaligned() };
        for (most, byte) in most.iter_mut().zip(bytes) {
            *most = (*most).max(byte ^ flip);
        }
    }
    let bytes = most.map(|byte| byte ^ flip);
    // SAFETY: see above.
    unsafe { to.add(first).cast::<[u8; N]>().write_unaligned(bytes) };
    N
}

#[cfg(test)]
mod tests {
    use polaris_core::{Element, Shape};
    use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

    use super::super::{Pool, Pooling, Window, Windows};
    use super::*;

    fn image<T: Element>(
        device: &DeviceRef,
        dims: [usize; 4],
        value: fn(usize) -> T,
    ) -> [Array; 2] {
        let values: Vec<T> = (0..dims.iter().product()).map(value).collect();
        let plain = Array::from_slice(device, &dims, &values).unwrap();
        let [n, c, h, w] = dims;
        let memory = Array::empty(device, plain.dtype(), Shape::new(&[n, h, w, c]).unwrap());
        let channels_last = memory.unwrap().permute(&[0, 3, 1, 2]).unwrap();
        crate::run(&crate::copy::Copy, &[&plain], &channels_last).unwrap();
        [plain, channels_last]
    }

    /// The maxima of bytes are those of the same numbers in `f32`.
    fn check<T: Element>(device: &DeviceRef, value: fn(usize) -> T) {
        let window = |kernel, stride, padding| Window { kernel, stride, padding, dilation: 1 };
        let windows = Windows::sliding(&[window(3, 2, 1), window(2, 1, 0)]).unwrap();
        let op = Pool { pooling: Pooling::Max, windows };
        for x in image(device, [2, 37, 9, 8], value) {
            let shape = windows.pooled_shape(x.shape()).unwrap();
            let numbers = crate::copy::cast(&x, polaris_core::DType::F32).unwrap();
            let expected = Array::empty(device, numbers.dtype(), shape).unwrap();
            crate::run(&op, &[&numbers], &expected).unwrap();
            let [n, c, h, w] = [shape[0], shape[1], shape[2], shape[3]];
            let last = Array::empty(device, x.dtype(), Shape::new(&[n, h, w, c]).unwrap());
            let last = last.unwrap().permute(&[0, 3, 1, 2]).unwrap();
            for output in [Array::empty(device, x.dtype(), shape).unwrap(), last] {
                crate::run(&op, &[&x], &output).unwrap();
                let found = crate::copy::cast(&output, polaris_core::DType::F32).unwrap();
                assert_eq!(found.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
            }
        }
    }

    #[test]
    fn maxima_of_bytes_are_those_of_numbers() {
        for threads in [1, 3] {
            let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
            let device = Runtime::discover(&options).unwrap().cpu().clone();
            check(&device, |at| (at * 7919 % 251) as u8);
            check(&device, |at| (at * 7919 % 251) as u8 as i8);
        }
    }
}
