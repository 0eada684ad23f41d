//! Matmul with experts on the CPU. Pairs of tokens and experts are grouped by expert, so that each weight is read
//! once: experts of few pairs all together, line by line; the others one after another as matmuls of gathered rows.

use polaris_core::{DType, Layout, Shape};
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::cpu_lines::{Job, Lines, MOST_PAIRS};
use super::{NAME, Sizes};
use crate::cpu::map::SendPointer;
use crate::matmul::{Bias, Epilogue, Precision};
use crate::operation::run as run_operation;
use crate::{Array, Error, MatMul, Result, copy};

/// Bytes of a weight that is not `f32` that are expanded at a time.
const PART_BYTES: usize = 8 << 20;

/// The pairs of one expert, counted over all tokens.
#[derive(Debug)]
pub(super) struct Group {
    pub expert: usize,
    pub pairs: Vec<usize>,
}

pub fn run(
    precision: Precision,
    sizes: &Sizes,
    cpu: &CpuDevice,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let groups = groups(sizes, inputs[2])?;
    let (few, many): (Vec<Group>, Vec<Group>) =
        groups.into_iter().partition(|group| group.pairs.len() <= MOST_PAIRS);
    if !few.is_empty() {
        let buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
        let operands = HostOperands::new(NAME, &buffers, output.buffer())?;
        let lines = |array: &Array, start: *mut u8| Lines {
            start: SendPointer(start),
            stored: array.stored(),
            offset: array.layout().offset(),
            strides: std::array::from_fn(|axis| {
                array.layout().strides().get(axis).copied().unwrap_or(0)
            }),
        };
        let input = |index: usize| lines(inputs[index], operands.input(index).cast_mut());
        let job = Job {
            sizes: *sizes,
            x: input(0),
            weight: input(1),
            bias: (inputs.len() > 3).then(|| input(3)),
            output: lines(output, operands.output()),
        };
        match job.block().filter(|_| precision == Precision::Int8) {
            Some(block) => job.run_int8(block, cpu, &few),
            None => job.run(cpu, &few),
        }
    }
    many.iter().try_for_each(|group| multiply(precision, sizes, group, inputs, output))
}

/// The pairs of each expert that is used, in the order of experts and pairs.
fn groups(sizes: &Sizes, ids: &Array) -> Result<Vec<Group>> {
    let values = ids.to_vec::<i32>()?;
    let mut of_expert: Vec<Vec<usize>> = vec![Vec::new(); sizes.experts];
    for (position, &id) in values.iter().enumerate() {
        let pairs = usize::try_from(id).ok().and_then(|id| of_expert.get_mut(id));
        let (index, length) = (i64::from(id), sizes.experts);
        let range = Error::IndexOutOfRange { op: NAME, index, position, axis: 0, length };
        pairs.ok_or(range)?.push(position);
    }
    let groups = of_expert.into_iter().enumerate();
    Ok(groups
        .filter(|(_, pairs)| !pairs.is_empty())
        .map(|(expert, pairs)| Group { expert, pairs })
        .collect())
}

/// One expert as a matmul of its tokens' rows.
fn multiply(
    precision: Precision,
    sizes: &Sizes,
    group: &Group,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let Sizes { used, n, k, shared, .. } = *sizes;
    let rows = group.pairs.len();
    let dense = |columns: usize| -> Result<Array> {
        Array::empty(output.device(), DType::F32, Shape::new(&[rows, columns])?)
    };
    let (x, result) = (dense(k)?, dense(n)?);
    // A row of an array with axes for tokens and their experts.
    let row = |array: &Array, token: usize, place: usize| -> Result<Array> {
        let layout = array.layout();
        let [of_token, of_place, step] = [0, 1, 2].map(|axis| layout.strides()[axis]);
        let offset = layout.offset() + token * of_token + place * of_place;
        let shape = Shape::new(&array.shape()[2..])?;
        array.with_layout(Layout::new(shape, &[step], offset)?)
    };
    let line = |array: &Array, index: usize| -> Result<Array> {
        let shape = Shape::new(&array.shape()[1..])?;
        let layout = array.layout();
        array.with_layout(Layout::new(
            shape,
            &[layout.strides()[1]],
            layout.offset() + index * layout.strides()[0],
        )?)
    };
    for (at, &pair) in group.pairs.iter().enumerate() {
        let place = if shared { 0 } else { pair % used };
        copy::into(&row(inputs[0], pair / used, place)?, &line(&x, at)?)?;
    }
    let bias = inputs.get(3).map(|bias| line(bias, group.expert)).transpose()?;
    let op = MatMul {
        epilogue: Epilogue { bias: bias.as_ref().map(|_| Bias::PerColumn), ..Epilogue::default() },
        precision,
        ..MatMul::default()
    };
    let weight = inputs[1];
    let strides = weight.layout().strides();
    let first = weight.layout().offset() + group.expert * strides[0];
    // Matmul reads blocks itself; other types are expanded a part after the other.
    let is_read = !weight.is_dense() || weight.dtype() == DType::F32;
    let part = if is_read { n } else { (PART_BYTES / (k.max(1) * size_of::<f32>())).clamp(1, n) };
    for start in (0..n).step_by(part.max(1)) {
        let lines = start..n.min(start + part);
        let shape = Shape::new(&[lines.len(), k])?;
        let layout = Layout::new(shape, &strides[1..], first + start * strides[1])?;
        let part = weight.with_layout(layout)?;
        let part = if is_read { part } else { copy::cast(&part, DType::F32)? };
        let b = part.permute(&[1, 0])?;
        let bias = bias.as_ref().map(|bias| bias.slice(0, lines.clone(), 1)).transpose()?;
        let arrays: Vec<&Array> = [&x, &b].into_iter().chain(bias.as_ref()).collect();
        run_operation(&op, &arrays, &result.slice(1, lines, 1)?)?;
    }
    for (at, &pair) in group.pairs.iter().enumerate() {
        copy::into(&line(&result, at)?, &row(output, pair / used, pair % used)?)?;
    }
    Ok(())
}
