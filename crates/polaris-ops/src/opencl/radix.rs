//! Stable sorting of rows of keys on OpenCL devices, for operations that need an order.

use polaris_core::{DType, Shape};
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramSource};

use crate::opencl::{Enqueue, pass_array, work_group};
use crate::{Array, Result};

const PARTS: &[&str] = &[include_str!("radix.cl")];

/// Bits of a digit, and how many digits there are.
const DIGIT_BITS: u32 = 4;
const DIGITS: usize = 1 << DIGIT_BITS;
/// Keys of a work-item: ranks in a block are kept in 16 bits.
const EACH: usize = 8;

/// Keys in their order, and where each was in its row, as `uint` under the type `i32`.
pub struct Sorted {
    pub keys: Array,
    pub positions: Array,
}

#[derive(Debug, Clone, Copy)]
struct Config {
    wide_keys: bool,
    work_group: usize,
}

impl Config {
    fn key(&self, entry: u64) -> u64 {
        (entry << 1 | u64::from(self.wide_keys)) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let key = if self.wide_keys { "ulong" } else { "uint" };
        let defines = Defines::new()
            .code("KEY", key)
            .number("WORK_GROUP", self.work_group as i64)
            .number("EACH", EACH as i64);
        let name = format!("radix.cl {key}");
        ProgramSource { name, parts: PARTS, defines, options: "" }
    }
}

/// Work-items in a group: a power of two.
fn group(device: &OpenClDevice) -> usize {
    1 << work_group(device).max(1).ilog2()
}

/// Whether rows of this length can be sorted on the device.
pub fn supports(device: &OpenClDevice, rows: usize, length: usize) -> bool {
    let block = group(device) * EACH;
    let local = block * size_of::<u64>() + group(device) * (2 * DIGITS + 4) + 4 * DIGITS;
    let counts = length.div_ceil(block).saturating_mul(DIGITS);
    group(device) >= DIGITS
        && local as u64 <= device.capabilities().local_memory_bytes
        && length <= (i32::MAX as usize)
        && counts.saturating_mul(rows) <= u32::MAX as usize
}

/// Sorts rows of `length` keys by their lowest `bits`; equal keys keep their order. Keys are `uint`
/// under the type `i32`, or `ulong` under `i64`. They are overwritten.
pub fn sort(device: &OpenClDevice, keys: Array, length: usize, bits: u32) -> Result<Sorted> {
    let wide_keys = keys.dtype() == DType::I64;
    let config = Config { wide_keys, work_group: group(device) };
    let kernel = |number: u64, entry: &str| {
        device.kernel(("radix", config.key(number)), entry, || config.source())
    };
    let (count, places, moves) =
        (kernel(0, "radix_count")?, kernel(1, "radix_places")?, kernel(2, "radix_move")?);
    let elements = keys.elements();
    let rows = elements / length.max(1);
    let blocks = length.div_ceil(config.work_group * EACH);
    let like = |dtype: DType, elements: usize| -> Result<Array> {
        Array::empty(keys.device(), dtype, Shape::new(&[elements])?)
    };
    let counts = like(DType::I32, rows * DIGITS * blocks)?;
    let mut other =
        Sorted { keys: like(keys.dtype(), elements)?, positions: like(DType::I32, elements)? };
    let mut sorted = Sorted { keys: keys.clone(), positions: like(DType::I32, elements)? };
    let groups = [rows * blocks * config.work_group];
    // At least one pass, which makes the positions.
    for pass in 0..bits.max(1).div_ceil(DIGIT_BITS) {
        let shift = pass * DIGIT_BITS;
        let digits =
            |kernel| device.launch(kernel).value(length as u32).value(blocks as u32).value(shift);
        let launch = pass_array(digits(&count), &sorted.keys);
        pass_array(launch, &counts).enqueue(&groups, &[config.work_group])?;
        let launch = device.launch(&places).value((DIGITS * blocks) as u32);
        pass_array(launch, &counts).enqueue(&[rows * config.work_group], &[config.work_group])?;
        let mut launch = digits(&moves).value(u32::from(pass > 0));
        for array in [&sorted.keys, &sorted.positions, &counts, &other.keys, &other.positions] {
            launch = pass_array(launch, array);
        }
        launch.enqueue(&groups, &[config.work_group])?;
        std::mem::swap(&mut sorted, &mut other);
    }
    Ok(sorted)
}

/// Both widths of keys.
pub fn shipped_programs() -> Vec<ProgramSource> {
    [false, true].map(|wide_keys| Config { wide_keys, work_group: 256 }.source()).into()
}
