//! Normalisation on the CPU, row by row: in place where rows are dense, otherwise through scratch.

use polaris_core::DType;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::{Buffer, HostOperands};

use super::cpu_rows::{self, Number};
use super::operations::Arrays;
use super::{Part, Rows, op_name};
use crate::cpu::blocks::{Row, end_streaming};
use crate::cpu::map::{SendPointer, streaming_threshold};
use crate::{Array, Result};

/// Fewer elements than this are not worth a second thread.
pub const GRAIN: usize = 16 * 1024;

pub(super) fn run(arrays: &Arrays<'_>, cpu: &CpuDevice, inputs: &[&Array]) -> Result<()> {
    match arrays.x.dtype() {
        DType::F64 => each_row::<f64>(arrays, cpu, inputs),
        _ => each_row::<f32>(arrays, cpu, inputs),
    }
}

/// An array as the threads see it.
#[derive(Clone, Copy)]
pub struct Place {
    start: SendPointer,
    dtype: DType,
    step: usize,
}

impl Place {
    /// An array whose memory begins here, with this stride along a row.
    pub fn new(start: *mut u8, array: &Array, step: usize) -> Self {
        Self { start: SendPointer(start), dtype: array.dtype(), step }
    }

    /// The row that begins with this element.
    ///
    /// # Safety
    /// The element must lie inside the array's buffer.
    pub unsafe fn row(self, at: usize) -> Row {
        // SAFETY: by the caller's word.
        let start = unsafe { self.start.get().add(at * self.dtype.size()) };
        Row { start, dtype: self.dtype, stride: self.step }
    }

    /// Whether rows can be used where they are.
    pub fn is_direct<C: Number>(self) -> bool {
        self.step == 1 && self.dtype == C::NATIVE
    }
}

/// A weight or bias as dense numbers: the array's own where it is dense, the same number for every
/// column where there is none.
fn column_numbers<'a, C: Number>(
    array: Option<(&Array, *const u8)>,
    absent: f64,
    length: usize,
    scratch: &'a mut Vec<C>,
) -> &'a [C] {
    scratch.clear();
    let Some((array, start)) = array else {
        scratch.resize(length, C::of(absent));
        return scratch;
    };
    let place = Place::new(start.cast_mut(), array, array.layout().strides()[0]);
    if !place.is_direct::<C>() {
        scratch.resize(length, C::default());
    }
    // SAFETY: the layout was checked against the buffer, which is registered as read, and the output
    // was checked not to lie in it.
    unsafe { place.row(array.layout().offset()).load(0, length, scratch) }
}

fn each_row<C: Number>(arrays: &Arrays<'_>, cpu: &CpuDevice, inputs: &[&Array]) -> Result<()> {
    let Arrays { part, kind, epsilon, x, output, .. } = *arrays;
    let g = arrays.g.unwrap_or(x);
    let rows = Rows::new(x.shape(), [output.layout(), x.layout(), g.layout()])?;
    let length = rows.length;
    let buffers: Vec<&Buffer> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new(op_name(kind, part), &buffers, output.buffer())?;
    let start = |array: &Array| {
        let index = inputs.iter().position(|input| std::ptr::eq(*input, array));
        operands.input(index.expect("the arrays should be among the inputs"))
    };
    let (mut weight_scratch, mut bias_scratch) = (Vec::new(), Vec::new());
    let weight = arrays.weight.map(|weight| (weight, start(weight)));
    let weight = column_numbers::<C>(weight, 1.0, length, &mut weight_scratch);
    let bias = arrays.bias.map(|bias| (bias, start(bias)));
    let bias_length = if part == Part::Output { length } else { 0 };
    let bias = column_numbers::<C>(bias, 0.0, bias_length, &mut bias_scratch);

    let target = Place::new(operands.output(), output, rows.steps[0]);
    let sources = [
        Place::new(start(x).cast_mut(), x, rows.steps[1]),
        Place::new(start(g).cast_mut(), g, rows.steps[2]),
    ];
    // What the result may overwrite is copied first: slices must not overlap.
    let aliased = [x, g].map(|array| array.overlaps(output));
    let copied = [0, 1].map(|i| aliased[i] || !sources[i].is_direct::<C>());
    let to_output = target.is_direct::<C>();
    let bytes = output.elements() * output.dtype().size();
    let streamed =
        to_output && !aliased.contains(&true) && bytes as u64 >= streaming_threshold(cpu);
    let level = cpu.simd();
    let grain = (GRAIN / length.max(1)).max(1);
    cpu.pool().for_chunks(rows.count(), grain, |chunk| {
        let room = |needed: bool| vec![C::default(); if needed { length } else { 0 }];
        let mut scratch = copied.map(room);
        let mut result = room(!to_output);
        for row in chunk {
            let [to, x_at, g_at] = rows.starts.point(row);
            let [x_scratch, g_scratch] = &mut scratch;
            // SAFETY: the layouts were checked against their buffers, which are registered as read
            // and written by this operation; each row is written by one thread, from inputs that do
            // not share its memory or were copied.
            unsafe {
                let x = load_row(sources[0].row(x_at), length, copied[0], x_scratch);
                let statistics = cpu_rows::statistics(level, kind, epsilon, x);
                let into = target.row(to);
                let result = if to_output {
                    std::slice::from_raw_parts_mut(into.start.cast::<C>(), length)
                } else {
                    &mut result[..]
                };
                if part == Part::Output {
                    cpu_rows::norm(level, statistics, [x, weight, bias], result, streamed);
                } else {
                    let g = load_row(sources[1].row(g_at), length, copied[1], g_scratch);
                    let arrays = [x, g, weight];
                    cpu_rows::gradient(level, kind, statistics, arrays, result, streamed);
                }
                if !to_output {
                    into.store(0, result);
                }
            }
        }
        if streamed {
            end_streaming();
        }
    });
    Ok(())
}

/// A row where it is, or as a copy.
///
/// # Safety
/// As for `Row::load`.
pub unsafe fn load_row<C: Number>(
    row: Row,
    length: usize,
    copied: bool,
    scratch: &mut [C],
) -> &[C] {
    // SAFETY: by the caller's word.
    unsafe {
        if copied && row.is_direct::<C>() {
            scratch.copy_from_slice(std::slice::from_raw_parts(row.start.cast(), length));
            return scratch;
        }
        row.load(0, length, scratch)
    }
}
