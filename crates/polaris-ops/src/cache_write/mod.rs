//! Writing of keys or values of new tokens into a paged cache, which
//! [`cached_attention`](crate::cached_attention) reads.

mod cpu;
mod opencl;
mod reference;
mod suite;
#[cfg(test)]
mod tests;

pub use opencl::Kernel;
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::format::{Block, Format};
use crate::operation::{
    Operation, alias_is_harmless, check_apart, is_same_place, run, writes_each_element_once,
};
use crate::{Array, ArrayType, Class, Error, Result, Work, copy};

const NAME: &str = "cache_write";

/// Rows of tokens written where slots say. The inputs are:
///
/// - the slots, `i32` `[tokens]`: a slot is `block * block size + offset`. A token with a negative slot is not
///   written;
/// - the cache before, which may be the output itself;
/// - the rows, `f32` `[tokens, heads, depth]`.
///
/// The output is the cache, `[blocks, block size, heads, depth]`, of `f32`, `f16` or `bf16`, or in the block formats
/// Q8_0 or Q4_0. Elements that are not written are those of the cache before.
///
/// In a block format each row is whole blocks, so that `depth` is a multiple of 32; a cache that is not written in place is
/// contiguous. Blocks are those of [`Block::encode_nearest`]: elements are rounded to the nearest multiple of a scale that follows from the
/// largest magnitude of their block. A number halfway between two levels may become either, as devices divide
/// differently. All 32 elements of a block become NaN if one of them is NaN or infinite, or if the scale is beyond half
/// precision (from 8.3 million on in Q8_0, from 524 thousand on in Q4_0): that shows in the results of attention, as it
/// does with the other types.
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
        if cache.format() != output.format() {
            return Err(Error::UnsupportedFormat { op, format: cache.format() });
        }
        for (array, dtype) in [(slots, DType::I32), (x, DType::F32), (cache, output.dtype())] {
            if array.dtype() != dtype {
                return Err(CoreError::DTypeMismatch { op, lhs: array.dtype(), rhs: dtype }.into());
            }
        }
        if !matches!(output.dtype(), DType::F32 | DType::F16 | DType::BF16) {
            let (dtype, hint) = (output.dtype(), "a cache holds f32, f16, bf16, q8_0 or q4_0");
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
        if let Format::Block(block) = output.format() {
            Self::check_blocks(block, cache, output)?;
        }
        let expected = [tokens, heads, depth];
        match x.shape().dims() == expected {
            true => Ok(expected),
            false => mismatch(x, Shape::new(&expected)?),
        }
    }

    /// That rows of a cache are whole blocks.
    fn check_blocks(block: Block, cache: &Array, output: &Array) -> Result<()> {
        let (name, each) = (block.lower_name(), block.elements());
        let mistake = |what: String| Err(Error::InvalidParameter { op: NAME, what });
        let depth = output.shape()[3];
        if !depth.is_multiple_of(each) {
            return mistake(format!(
                "rows of {depth} elements are not whole blocks of {name}, which have {each}; use f16 or f32 for them"
            ));
        }
        if output.elements() == 0 {
            // Strides of nothing lead nowhere.
            return Ok(());
        }
        let layout = output.layout();
        let at_blocks = |place: &usize| place.is_multiple_of(each);
        let begins = layout.strides()[..3].iter().chain([&layout.offset()]).all(at_blocks);
        if layout.strides()[3] != 1 || !begins {
            return mistake(format!("rows of {layout} do not begin at blocks of {name}"));
        }
        let is_whole = |array: &Array| array.layout().is_contiguous();
        let is_copied = !is_same_place(cache, output);
        if is_copied && ![cache, output].into_iter().all(is_whole) {
            return mistake(format!(
                "a cache in {name} that is not written in place must be contiguous; its layouts are {} and {layout}",
                cache.layout()
            ));
        }
        Ok(())
    }

    /// Gives the output what the cache holds, where they are not the same.
    fn copy_before(cache: &Array, output: &Array) -> Result<()> {
        if is_same_place(cache, output) {
            return Ok(());
        }
        let Format::Block(block) = output.format() else {
            return copy::into(cache, output);
        };
        let bytes = |array: &Array| {
            let first = array.layout().offset() / block.elements() * block.bytes();
            array.buffer().view(first..first + array.elements() / block.elements() * block.bytes())
        };
        Ok(bytes(cache)?.copy_to(&bytes(output)?)?)
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

    fn accepts(&self, input: usize, format: Format) -> bool {
        input == 1 && self.writes(format)
    }

    fn writes(&self, format: Format) -> bool {
        matches!(format, Format::Block(Block::Q8_0 | Block::Q4_0))
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
        format!("{NAME}_{}_{}", output.stored(), kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        let sizes = Self::sizes(inputs, output)?;
        let &[slots, cache, x] = inputs else {
            return Err(Error::WrongArity { op: NAME, expected: 3, found: inputs.len() });
        };
        Self::copy_before(cache, output)?;
        cpu::write(cpu, sizes, slots, x, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        kernel: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        let sizes = Self::sizes(inputs, output)?;
        Self::copy_before(inputs[1], output)?;
        opencl::run(device, kernel, sizes, inputs[0], inputs[2], output)
    }

    fn class(&self) -> Class {
        Class::Indexing
    }

    /// In place, only the rows move.
    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        let rows = inputs.get(2).map_or(0, |x| x.layout.elements());
        let written = match output.format {
            Format::Block(block) => rows / block.elements() * block.bytes(),
            Format::Dense | Format::Panels(_) => rows * output.dtype.size(),
        };
        let bytes = rows * size_of::<f32>() + written;
        Work { flops: 0, bytes: bytes as u64, parallelism: rows.max(1) as u64 }
    }

    fn works_in_place(&self) -> bool {
        true
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], output: &Array) -> Vec<f64> {
        let sizes = Self::sizes(inputs, output).expect("the arrays should be checked");
        reference::write(values, sizes, output.stored())
    }
}
