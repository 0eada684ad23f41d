//! An expression on one block of elements after another.

use polaris_core::{Collapsed, DType};
use polaris_runtime::cpu::SimdLevel;

use super::expression::MAX_INPUTS;
use super::schedule::Place;
use crate::cpu::blocks::{LINE, Row};
use crate::cpu::map::{BlockFunction, SendPointer};
use crate::cpu::math::Real;

/// Blocks are multiples of this, which are whole cache lines of every type.
pub const UNIT: usize = 64;

/// Rows shorter than this are joined in a block.
pub const SHORT: usize = 2 * UNIT;

/// The output, and the inputs behind it.
pub const OPERANDS: usize = MAX_INPUTS + 1;

/// How a block gets an input.
#[derive(Clone, Copy)]
pub enum Source {
    /// It is used in place.
    Direct,
    /// It is copied into a slot.
    Copied(usize),
    /// It is a single value, which fills a slot once for all blocks of a thread.
    Single(usize),
}

/// An array as the threads see it.
#[derive(Clone, Copy)]
pub struct Operand {
    pub start: SendPointer,
    pub dtype: DType,
    pub stride: usize,
}

/// One function with its arguments and the register of its result.
pub struct Step<C> {
    pub function: BlockFunction<C>,
    pub arity: usize,
    pub arguments: [Place; 3],
    pub target: usize,
}

/// What is the same for all blocks. Slots are registers, then numbers, then inputs that are not
/// direct, each as long as a block.
pub struct Run<C> {
    pub simd: SimdLevel,
    pub space: Collapsed<OPERANDS>,
    pub operands: [Option<Operand>; OPERANDS],
    pub sources: [Option<Source>; MAX_INPUTS],
    pub steps: Vec<Step<C>>,
    pub numbers: Vec<C>,
    pub registers: usize,
    pub slots: usize,
    /// The length of rows, and of blocks.
    pub length: usize,
    pub block: usize,
    /// Whether the last step writes to the output itself, and whether past the caches.
    pub to_output: bool,
    pub stream: bool,
}

/// The part of the rows that a block is made of.
pub struct Span {
    row: usize,
    rows: usize,
    /// Where it begins in each row, and how much of each there is.
    first: usize,
    count: usize,
}

impl<C: Real> Run<C> {
    fn rows(&self) -> usize {
        self.space.elements() / self.length
    }

    fn rows_in_block(&self) -> usize {
        if self.length < SHORT { (self.block / self.length).max(1) } else { 1 }
    }

    pub fn blocks(&self) -> usize {
        self.rows().div_ceil(self.rows_in_block()) * self.length.div_ceil(self.block)
    }

    pub fn span(&self, index: usize) -> Span {
        let in_row = self.length.div_ceil(self.block);
        let (row, first) = (index / in_row * self.rows_in_block(), index % in_row * self.block);
        let rows = self.rows_in_block().min(self.rows() - row);
        Span { row, rows, first, count: self.block.min(self.length - first) }
    }

    fn row(&self, operand: usize, row: usize) -> Row {
        let Operand { start, dtype, stride } =
            self.operands[operand].expect("an operand that is used should be there");
        let at = self.space.row(row)[operand] * dtype.size();
        Row { start: start.get().wrapping_add(at), dtype, stride }
    }

    /// Fills the slots that are the same in all blocks.
    ///
    /// # Safety
    /// There must be room for all slots, and the inputs must be readable.
    pub unsafe fn fill(&self, slots: *mut C) {
        // SAFETY: by the caller's word.
        let slot = |index: usize| unsafe {
            std::slice::from_raw_parts_mut(slots.add(index * self.block), self.block)
        };
        for (index, &number) in self.numbers.iter().enumerate() {
            slot(self.registers + index).fill(number);
        }
        for (index, source) in self.sources.iter().enumerate() {
            if let Some(Source::Single(at)) = *source {
                // SAFETY: by the caller's word.
                unsafe { self.row(index + 1, 0).load(0, self.block, slot(at)) };
            }
        }
    }

    /// Computes a block.
    ///
    /// # Safety
    /// As for `fill`, which must have been called; nobody else may use the block's elements of the
    /// output.
    pub unsafe fn block(&self, span: &Span, slots: *mut C) {
        let elements = span.rows * span.count;
        let slot = |index: usize| slots.wrapping_add(index * self.block);
        let mut loaded = [std::ptr::null::<C>(); MAX_INPUTS];
        for (index, source) in self.sources.iter().enumerate() {
            loaded[index] = match *source {
                None => continue,
                Some(Source::Single(at)) => slot(at),
                // SAFETY: by the caller's word.
                Some(Source::Copied(at)) => unsafe { self.copied(index, span, slot(at)) },
                Some(Source::Direct) => {
                    self.row(index + 1, span.row).start.cast::<C>().wrapping_add(span.first)
                }
            };
        }
        let place = |place: Place| match place {
            Place::Input(index) => loaded[index],
            Place::Number(index) => slot(self.registers + index),
            Place::Register(index) => slot(index),
        };
        let target = self.row(0, span.row);
        let output = target.start.cast::<C>().wrapping_add(span.first);
        let (last, others) = self.steps.split_last().expect("a schedule should have a step");
        let arguments = |step: &Step<C>| -> [&[C]; 3] {
            std::array::from_fn(|n| match n < step.arity {
                // SAFETY: places hold a block, and nobody writes it while a step reads it: a step's
                // target is none of its arguments.
                true => unsafe { std::slice::from_raw_parts(place(step.arguments[n]), elements) },
                false => &[],
            })
        };
        for step in others {
            // SAFETY: as above.
            let result = unsafe { std::slice::from_raw_parts_mut(slot(step.target), elements) };
            (step.function.plain)(self.simd, arguments(step), result);
        }
        if self.to_output && self.stream && output.addr().is_multiple_of(LINE) {
            (last.function.streamed)(self.simd, arguments(last), SendPointer(output.cast()));
            return;
        }
        let at = if self.to_output { output } else { slot(last.target) };
        // SAFETY: as above; the output is nobody's argument if the result goes there directly.
        let result = unsafe { std::slice::from_raw_parts_mut(at, elements) };
        (last.function.plain)(self.simd, arguments(last), result);
        if !self.to_output {
            for row in 0..span.rows {
                let values = &result[row * span.count..][..span.count];
                // SAFETY: by the caller's word.
                unsafe { self.row(0, span.row + row).store(span.first, values) };
            }
        }
    }

    /// Copies the block's elements of an input to a slot.
    ///
    /// # Safety
    /// The input must be readable, and the slot have room for a block.
    unsafe fn copied(&self, input: usize, span: &Span, slot: *mut C) -> *const C {
        for row in 0..span.rows {
            // SAFETY: by the caller's word.
            unsafe {
                let at = slot.add(row * span.count);
                let target = std::slice::from_raw_parts_mut(at, span.count);
                let found =
                    self.row(input + 1, span.row + row).load(span.first, span.count, target);
                let found = found.as_ptr();
                if found != at.cast_const() {
                    std::ptr::copy_nonoverlapping(found, at, span.count);
                }
            }
        }
        slot
    }
}
