//! The gradient of `take` on the CPU. Positions are sorted by their index, so that each row of the
//! result is made in one go and written once: most rows of a large table are zero, and writing them is
//! most of the work.

use polaris_core::{Collapsed, DType};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::scatter::Scatter;
use crate::cpu::blocks::{Compute, ComputeType, LINE, Row, end_streaming};
use crate::cpu::map::{SendPointer, streaming_threshold};
use crate::cpu::simd::multiversion;
use crate::elementwise::same;
use crate::{Array, Result, copy};

/// Fewer elements than this are not worth a second thread.
const GRAIN: usize = 16 * 1024;
/// Columns that are summed at once; sums and addends stay in the L1 cache.
const COLUMNS: usize = 1024;
/// Rows that are added up before they are added to the sum: of many numbers added one by one, the
/// last ones would lose their lower digits.
const STRETCH: usize = 64;

pub fn run(op: &Scatter, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
    if !output.layout().is_contiguous() {
        let dense = Array::empty(output.device(), output.dtype(), *output.shape())?;
        run(op, cpu, inputs, &dense)?;
        return copy::into(&dense, output);
    }
    let (source, _) = op.source(inputs)?;
    let order = match inputs[0].dtype() {
        DType::I32 => sorted::<i32>(op, cpu, inputs[0], output)?,
        _ => sorted::<i64>(op, cpu, inputs[0], output)?,
    };
    match Compute::of(output.dtype()) {
        Compute::F64 => sum::<f64>(op, cpu, &order, &source, output),
        _ => sum::<f32>(op, cpu, &order, &source, output),
    }
}

/// What a sum needs of its numbers.
trait Addend: ComputeType + std::ops::AddAssign {}
impl Addend for f32 {}
impl Addend for f64 {}

/// The positions that have each index, in their order.
struct Order {
    positions: Vec<usize>,
    /// Where those of an index begin; those of the next one end them.
    starts: Vec<usize>,
}

fn sorted<I: Copy + Into<i64>>(
    op: &Scatter,
    cpu: &CpuDevice,
    index: &Array,
    output: &Array,
) -> Result<Order> {
    let axis = op.scattered_along(output);
    let buffers = [index.buffer()];
    let operands = HostOperands::new(axis.op, &buffers, output.buffer())?;
    let memory = SendPointer(operands.input(0).cast_mut());
    axis.check_host::<I>(cpu, index, memory)?;
    let space = Collapsed::new(index.shape(), [index.layout()]);
    let place = |position: usize| {
        // SAFETY: the layout was checked against its buffer, which is registered as read.
        let value = unsafe { *memory.get().cast::<I>().add(space.point(position)[0]) };
        value.into() as usize
    };
    let places: Vec<usize> = (0..index.elements()).map(place).collect();
    let mut starts = vec![0; axis.length + 1];
    places.iter().for_each(|&place| starts[place + 1] += 1);
    (0..axis.length).for_each(|place| starts[place + 1] += starts[place]);
    let mut next = starts.clone();
    let mut positions = vec![0; places.len()];
    for (position, &place) in places.iter().enumerate() {
        positions[next[place]] = position;
        next[place] += 1;
    }
    Ok(Order { positions, starts })
}

fn sum<C: Addend>(
    op: &Scatter,
    cpu: &CpuDevice,
    order: &Order,
    source: &Array,
    output: &Array,
) -> Result<()> {
    let length = output.shape()[op.axis];
    let width: usize = output.shape()[op.axis + 1..].iter().product();
    let rows = output.elements() / width;
    let buffers = [source.buffer()];
    let operands = HostOperands::new("take_gradient", &buffers, output.buffer())?;
    let (to, from) = (SendPointer(operands.output()), SendPointer(operands.input(0).cast_mut()));
    let bytes = output.elements() * output.dtype().size();
    let stream = bytes as u64 >= streaming_threshold(cpu);
    let dtype = output.dtype();
    let row = |memory: SendPointer, first: usize| Row {
        // SAFETY: both arrays are dense, and the element lies inside.
        start: unsafe { memory.get().add(first * dtype.size()) },
        dtype,
        stride: 1,
    };
    let start = output.layout().offset();
    cpu.pool().for_chunks(rows, (GRAIN / width).max(1), |chunk| {
        let mut sums = Sums::<C>::new();
        for at in chunk {
            let (outer, place) = (at / length, at % length);
            let positions = &order.positions[order.starts[place]..order.starts[place + 1]];
            for first in (0..width).step_by(COLUMNS) {
                let count = COLUMNS.min(width - first);
                let addend = |position: usize| {
                    row(from, (outer * order.positions.len() + position) * width + first)
                };
                // SAFETY: the stretches lie inside their buffers, which are registered as read and
                // written; the output is not the source, and a row belongs to one thread.
                unsafe {
                    let total = sums.of(cpu, positions, count, addend);
                    store(cpu, total, &row(to, start + at * width + first), stream);
                }
            }
        }
        if stream {
            end_streaming();
        }
    });
    Ok(())
}

/// Memory for the sums of some columns.
struct Sums<C> {
    total: Vec<C>,
    part: Vec<C>,
    addend: Vec<C>,
}

impl<C: Addend> Sums<C> {
    fn new() -> Self {
        let columns = || vec![C::default(); COLUMNS];
        Self { total: columns(), part: columns(), addend: columns() }
    }

    /// The sum of `count` elements of the stretches at these positions.
    ///
    /// # Safety
    /// The stretches must be valid for reading, and nobody may write them while the result is used.
    unsafe fn of(
        &mut self,
        cpu: &CpuDevice,
        positions: &[usize],
        count: usize,
        stretch_at: impl Fn(usize) -> Row,
    ) -> &[C] {
        if let &[only] = positions {
            // SAFETY: by the caller's word.
            return unsafe { stretch_at(only).load(0, count, &mut self.addend) };
        }
        let (total, part) = (&mut self.total[..count], &mut self.part[..count]);
        total.fill(C::default());
        for stretch in positions.chunks(STRETCH) {
            part.fill(C::default());
            for &position in stretch {
                // SAFETY: by the caller's word.
                let addend = unsafe { stretch_at(position).load(0, count, &mut self.addend) };
                add(cpu.simd(), part, addend);
            }
            add(cpu.simd(), total, part);
        }
        total
    }
}

multiversion! {
    fn add<C: Addend>(sums: &mut [C], addends: &[C]) {
        for (sum, &addend) in sums.iter_mut().zip(addends) {
            *sum += addend;
        }
    }
}

/// Writes a stretch of results, past the caches where all of them are larger than those.
///
/// # Safety
/// The target must be valid for writing, and must not be what the results lie in.
unsafe fn store<C: Addend>(cpu: &CpuDevice, results: &[C], target: &Row, stream: bool) {
    if stream && target.is_direct::<C>() && target.start.addr().is_multiple_of(LINE) {
        (same::<C>().streamed)(cpu.simd(), [results, &[], &[]], SendPointer(target.start));
    } else {
        // SAFETY: by the caller's word.
        unsafe { target.store(0, results) };
    }
}
