//! Prepacked weights of convolutions: `f32` for NHWC images, and `i8` for quantised convolutions.

use polaris_core::{DType, Shape};
use polaris_runtime::Buffer;
use polaris_runtime::cpu::CpuDevice;

use super::{bytes, packed};
use crate::{Array, Result};

/// Whether there are panels of a weight of a type and shape.
pub fn has_panels(groups: usize, dtype: DType, shape: &Shape) -> bool {
    let rank = (3..=4).contains(&shape.rank());
    let is_cut = groups > 0 && rank && shape[0].is_multiple_of(groups) && shape.elements() > 0;
    match dtype {
        DType::F32 => is_cut && (groups == 1 || packed::is_depthwise(groups, shape)),
        DType::I8 => is_cut && bytes::has_panels(groups, shape),
        _ => false,
    }
}

/// Packs a weight that has panels.
///
/// # Errors
/// If the weight is in use, or there is no room.
pub fn pack(cpu: &CpuDevice, groups: usize, weight: &Array) -> Result<Buffer> {
    match weight.dtype() {
        DType::I8 => bytes::pack(cpu.simd(), groups, weight),
        _ => Ok(packed::pack(cpu, groups, weight)?.buffer().clone()),
    }
}

/// Bytes of a packed weight.
pub fn packed_bytes(cpu: &CpuDevice, groups: usize, dtype: DType, shape: &Shape) -> usize {
    match dtype {
        DType::I8 => bytes::packed_bytes(cpu.simd(), groups, shape),
        _ => packed::dims(cpu, groups, shape).iter().product::<usize>() * DType::F32.size(),
    }
}

/// The elements of a packed weight in row-major order.
pub fn unpack(
    cpu: &CpuDevice,
    groups: usize,
    dtype: DType,
    shape: &Shape,
    packed: &[u8],
) -> Vec<f64> {
    if dtype == DType::I8 {
        return bytes::unpack(cpu.simd(), groups, shape, packed);
    }
    let [_, steps, width] = packed::dims(cpu, groups, shape);
    let (inputs, taps) = (shape[1], shape[2..].iter().product::<usize>());
    let element = |at: usize| {
        let (channel, input, tap) = (at / (inputs * taps), at / taps % inputs, at % taps);
        let step = tap * inputs + input;
        let place = (channel / width * steps + step) * width + channel % width;
        let bytes = packed[place * 4..place * 4 + 4].try_into().expect("four bytes");
        f64::from(f32::from_ne_bytes(bytes))
    };
    (0..shape.elements()).map(element).collect()
}
