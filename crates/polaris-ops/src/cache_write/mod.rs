//! Writing of keys or values of new tokens into a paged cache, which
//! [`cached_attention`](crate::cached_attention) reads.

mod opencl;
mod suite;
#[cfg(test)]
mod tests;

pub use opencl::Kernel;
pub(crate) use suite::FAMILY;

use std::collections::HashMap;

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::cpu::blocks::{BLOCK, Row};
use crate::cpu::map::SendPointer;
use crate::operation::{
    Operation, alias_is_harmless, check_apart, is_same_place, run, writes_each_element_once,
};
use crate::{Array, ArrayType, Class, Error, Result, Work, copy};

const NAME: &str = "cache_write";

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 16 * 1024;

/// Rows of tokens written where slots say. The inputs are:
///
/// - the slots, `i32` `[tokens]`: a slot is `block * block size + offset`. A token with a negative slot is not
///   written;
/// - the cache before, which may be the output itself;
/// - the rows, `f32` `[tokens, heads, depth]`.
///
/// The output is the cache, `[blocks, block size, heads, depth]`, of `f32`, `f16` or `bf16`. Elements that are
/// not written are those of the cache before.
///
/// On the CPU a slot beyond the cache is an error, and so are two tokens of one slot. On OpenCL devices, such a token
/// is not written, and of two tokens any element may stay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheWrite;

/// Writes rows of tokens into a cache, in place; see [`CacheWrite`].
///
/// # Errors
/// If shapes or types do not fit, the cache is in use, or a slot is wrong (on the CPU).
pub fn cache_write(cache: &Array, slots: &Array, x: &Array) -> Result<()> {
    run(&CacheWrite, &[slots, cache, x], cache)
}

/// `tokens`, `heads`, `depth`; the cache's are checked to fit.
type Sizes = [usize; 3];

impl CacheWrite {
    fn sizes(inputs: &[&Array], output: &Array) -> Result<Sizes> {
        let op = NAME;
        let &[slots, cache, x] = inputs else {
            return Err(Error::WrongArity { op, expected: 3, found: inputs.len() });
        };
        for (array, dtype) in [(slots, DType::I32), (x, DType::F32), (cache, output.dtype())] {
            if array.dtype() != dtype {
                return Err(CoreError::DTypeMismatch { op, lhs: array.dtype(), rhs: dtype }.into());
            }
        }
        if !matches!(output.dtype(), DType::F32 | DType::F16 | DType::BF16) {
            let (dtype, hint) = (output.dtype(), "a cache holds f32, f16 or bf16");
            return Err(CoreError::UnsupportedDType { op, dtype, hint }.into());
        }
        let mismatch =
            |lhs: &Array, rhs: Shape| Err(CoreError::unequal_shapes(op, *lhs.shape(), rhs).into());
        if cache.shape() != output.shape() {
            return mismatch(cache, *output.shape());
        }
        let (&[.., heads, depth], 4) = (output.shape().dims(), output.shape().rank()) else {
            let what = format!("a cache of shape {} should have four axes", output.shape());
            return Err(Error::InvalidParameter { op, what });
        };
        let &[tokens] = slots.shape().dims() else {
            let what = format!("slots of shape {} should have one axis", slots.shape());
            return Err(Error::InvalidParameter { op, what });
        };
        if tokens > 0 && (output.shape()[0] == 0 || output.shape()[1] == 0) {
            let what =
                format!("a cache of shape {} has no slots for {tokens} tokens", output.shape());
            return Err(Error::InvalidParameter { op, what });
        }
        let expected = [tokens, heads, depth];
        match x.shape().dims() == expected {
            true => Ok(expected),
            false => mismatch(x, Shape::new(&expected)?),
        }
    }
}

impl Operation for CacheWrite {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Rows, Kernel::Strided];

    fn name(&self) -> &'static str {
        NAME
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        Self::sizes(inputs, output)?;
        writes_each_element_once(NAME, output)?;
        check_apart(NAME, inputs[0], output)?;
        check_apart(NAME, inputs[2], output)?;
        match alias_is_harmless(inputs[1], output) {
            true => Ok(()),
            false => Err(Error::AliasedOutput { op: NAME }),
        }
    }

    fn supports(
        &self,
        kernel: Kernel,
        _: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        opencl::supports(kernel, inputs[2], output)
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], output: &Array) -> String {
        format!("{NAME}_{}_{}", output.dtype(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        let sizes = Self::sizes(inputs, output)?;
        let &[slots, cache, x] = inputs else {
            return Err(Error::WrongArity { op: NAME, expected: 3, found: inputs.len() });
        };
        if !is_same_place(cache, output) {
            copy::into(cache, output)?;
        }
        write(cpu, sizes, slots, x, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        let sizes = Self::sizes(inputs, output)?;
        if !is_same_place(inputs[1], output) {
            copy::into(inputs[1], output)?;
        }
        opencl::run(device, kernel, sizes, inputs[0], inputs[2], output)
    }

    fn class(&self) -> Class {
        Class::Indexing
    }

    /// In place, only the rows move.
    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let rows = inputs.get(2).map_or(0, |x| x.layout.elements());
        let bytes = rows * (size_of::<f32>() + output.dtype.size());
        Work { flops: 0, bytes: bytes as u64, parallelism: rows.max(1) as u64 }
    }

    fn works_in_place(&self) -> bool {
        true
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64> {
        let [_, heads, depth] = Self::sizes(inputs, output).expect("the arrays should be checked");
        let row = heads * depth;
        let mut result = values[1].clone();
        for (token, &slot) in values[0].iter().enumerate() {
            if slot >= 0.0 {
                let at = slot as usize * row;
                for (to, &value) in result[at..][..row].iter_mut().zip(&values[2][token * row..]) {
                    *to = crate::suite::rounded(value, output.dtype());
                }
            }
        }
        result
    }
}

/// The slot of each token that is written.
fn checked(slots: &[i32], length: usize) -> Result<Vec<(usize, usize)>> {
    let mut written = Vec::with_capacity(slots.len());
    let mut first = HashMap::with_capacity(slots.len());
    for (token, &slot) in slots.iter().enumerate() {
        let Ok(at) = usize::try_from(slot) else {
            continue;
        };
        if at >= length {
            let index = i64::from(slot);
            return Err(Error::IndexOutOfRange {
                op: NAME,
                index,
                position: token,
                axis: 0,
                length,
            });
        }
        if let Some(other) = first.insert(at, token) {
            let what = format!("tokens {other} and {token} would both be written to slot {slot}");
            return Err(Error::InvalidParameter { op: NAME, what });
        }
        written.push((token, at));
    }
    Ok(written)
}

fn write(
    cpu: &CpuDevice,
    [tokens, heads, depth]: Sizes,
    slots: &Array,
    x: &Array,
    output: &Array,
) -> Result<()> {
    let block_size = output.shape()[1];
    let buffers = [slots.buffer(), x.buffer()];
    let operands = HostOperands::new(NAME, &buffers, output.buffer())?;
    let slot = |token: usize| {
        let at = slots.layout().offset() + token * slots.layout().strides()[0];
        // SAFETY: the layout was checked against its buffer, which is registered as read.
        unsafe { *operands.input(0).cast::<i32>().add(at) }
    };
    let slots: Vec<i32> = (0..tokens).map(slot).collect();
    let written = checked(&slots, output.shape()[0].saturating_mul(block_size))?;
    let [from, to] = [SendPointer(operands.input(1).cast_mut()), SendPointer(operands.output())];
    let (x, cache) = (x.layout(), output.layout());
    let dtype = output.dtype();
    cpu.pool().for_chunks(written.len() * heads, (GRAIN / depth.max(1)).max(1), |chunk| {
        let mut scratch = [0.0f32; BLOCK];
        for item in chunk {
            let ((token, slot), head) = (written[item / heads], item % heads);
            let from_row = x.offset() + token * x.strides()[0] + head * x.strides()[1];
            let to_row = cache.offset()
                + slot / block_size * cache.strides()[0]
                + slot % block_size * cache.strides()[1]
                + head * cache.strides()[2];
            let start = from.get().wrapping_add(from_row * size_of::<f32>());
            let source = Row { start, dtype: DType::F32, stride: x.strides()[2] };
            let start = to.get().wrapping_add(to_row * dtype.size());
            let target = Row { start, dtype, stride: cache.strides()[3] };
            for first in (0..depth).step_by(BLOCK) {
                let count = BLOCK.min(depth - first);
                // SAFETY: the layouts were checked against their buffers and slots against the cache; the
                // buffers are registered, and each slot is written by one thread.
                unsafe { target.store(first, source.load(first, count, &mut scratch)) };
            }
        }
    });
    Ok(())
}
