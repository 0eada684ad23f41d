//! The cases of look-ups and scatters: each rule with types of every size, and both types of indices.

use crate::{Lookup, LookupRule, Scatter, ScatterRule};
use polaris_core::{DType, Shape};

use crate::families::Family;
use crate::format::Block;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family =
    Family::new("indexing", super::shipped_programs, count, is_essential, case);

/// A look-up or a scatter.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    Lookup(LookupRule),
    Scatter(ScatterRule),
}

const TAKE: Rule = Rule::Lookup(LookupRule::Take);
const GATHER: Rule = Rule::Lookup(LookupRule::Gather);
const ASSIGN: Rule = Rule::Scatter(ScatterRule::Assign);
const ADD: Rule = Rule::Scatter(ScatterRule::Add);
const GRADIENT: Rule = Rule::Scatter(ScatterRule::TakeGradient);

/// The rule, the type of the elements and that of the indices.
const VARIANTS: [(Rule, DType, DType); 19] = [
    (TAKE, DType::F32, DType::I64),
    (GRADIENT, DType::F32, DType::I64),
    (GATHER, DType::F32, DType::I32),
    (ADD, DType::F32, DType::I32),
    (ASSIGN, DType::F32, DType::I64),
    (TAKE, DType::F16, DType::I32),
    (TAKE, DType::Bool, DType::I64),
    (TAKE, DType::I64, DType::I32),
    (GRADIENT, DType::F16, DType::I32),
    (GRADIENT, DType::BF16, DType::I64),
    (GRADIENT, DType::F64, DType::I32),
    (GATHER, DType::BF16, DType::I64),
    (GATHER, DType::F64, DType::I64),
    (ADD, DType::F16, DType::I64),
    (ADD, DType::BF16, DType::I32),
    (ADD, DType::F64, DType::I64),
    (ASSIGN, DType::I8, DType::I32),
    (ASSIGN, DType::F16, DType::I64),
    (ASSIGN, DType::F64, DType::I32),
];

/// The rules in `f32`.
fn is_essential(variant: usize) -> bool {
    VARIANTS.get(variant).is_none_or(|variant| variant.1 == DType::F32)
}

/// What look-ups convert to `f32`: blocks, and half precisions.
#[derive(Debug, Clone, Copy)]
enum Converted {
    Blocks(Block),
    Half(DType),
}

/// Those above, and both look-ups of all that is converted.
fn count() -> usize {
    VARIANTS.len() + 2 * converted().len()
}

fn converted() -> Vec<Converted> {
    let halves = [DType::F16, DType::BF16].map(Converted::Half);
    Block::ALL.map(Converted::Blocks).into_iter().chain(halves).collect()
}

/// The parameters' shape is that of the table. The axis is the first one that a reduction would take.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (rule, dtype, index_dtype, converts) = match variant.checked_sub(VARIANTS.len()) {
        None => {
            let (rule, dtype, index_dtype) = VARIANTS[variant];
            (rule, dtype, index_dtype, None)
        }
        Some(variant) => {
            let rule = if variant.is_multiple_of(2) { TAKE } else { GATHER };
            (rule, DType::F32, DType::I64, Some(converted()[variant / 2]))
        }
    };
    let numbers = &mut Numbers::new(parameters.seed);
    let mut table = parameters.shape.clone();
    if table.is_empty() {
        table.push(1);
    }
    let axis = parameters.axes.trailing_zeros() as usize % table.len();
    let shape = match rule {
        TAKE | GRADIENT => indices_shape(table[axis], numbers),
        _ => index_shape(&table, axis, numbers),
    };
    let mut index = input(&shape, &parameters.inputs[0], index_dtype, false, numbers);
    // Some places are met often, and some never.
    let places = 1 + numbers.below(table[axis] as u64);
    for value in &mut index.contents {
        *value = numbers.below(places) as f64;
    }
    let output = |shape: &[usize], numbers: &mut Numbers| {
        Operand::output(shape, &parameters.output, dtype, numbers)
    };
    let mut operand = |shape: &[usize], place: usize| {
        input(shape, &parameters.inputs[place], dtype, parameters.special, numbers)
    };
    let taken = [&table[..axis], &shape[..], &table[axis + 1..]].concat();
    match rule {
        Rule::Lookup(rule) => {
            let x = match converts {
                Some(Converted::Blocks(block)) => Operand::blocks(&table, block, numbers),
                Some(Converted::Half(half)) => {
                    input(&table, &parameters.inputs[1], half, parameters.special, numbers)
                }
                None => operand(&table, 1),
            };
            let shape = if rule == LookupRule::Take { &taken } else { &shape };
            let output = output(shape, numbers);
            let op = Lookup { rule, axis };
            Case::new(op, vec![index, x], output, Tolerance::Exact, Vec::new())
        }
        Rule::Scatter(rule) => {
            let inputs = if rule == ScatterRule::TakeGradient {
                vec![index, operand(&taken, 1)]
            } else {
                let larger: Vec<usize> = shape.iter().map(|dim| dim + 1).collect();
                let base = operand(&table, 1);
                vec![index, base, operand(&larger, 2)]
            };
            let output = output(&table, numbers);
            let op = Scatter { rule, axis };
            if rule == ScatterRule::Assign {
                return Case::new(op, inputs, output, Tolerance::Exact, Vec::new());
            }
            let scale = magnitudes(axis, &inputs, &table);
            Case::new(op, inputs, output, Tolerance::Accumulated, scale)
        }
    }
}

/// An array of the shape, repeated along the axes that the arrangement says.
fn input(
    shape: &[usize],
    arrangement: &Arrangement,
    dtype: DType,
    special: bool,
    numbers: &mut Numbers,
) -> Operand {
    let mut operand = Operand::input(shape, arrangement, dtype, Domain::Any, special, numbers);
    let shape = Shape::new(shape).expect("test shapes should be small");
    operand.layout = operand
        .layout
        .broadcast_to("input", &shape)
        .expect("an input should broadcast to its shape");
    operand
}

/// Indices of a `take`: of no to two axes.
fn indices_shape(length: usize, numbers: &mut Numbers) -> Vec<usize> {
    match numbers.below(4) {
        _ if length == 0 => vec![0],
        0 => Vec::new(),
        1 => vec![numbers.below(5) as usize, 1 + numbers.below(9) as usize],
        _ => vec![1 + numbers.below(40) as usize],
    }
}

/// Indices of a `gather`: as many axes as the table, some of them shorter, the axis of any length.
fn index_shape(table: &[usize], axis: usize, numbers: &mut Numbers) -> Vec<usize> {
    let dim = |(at, &dim): (usize, &usize)| match numbers.below(4) {
        _ if dim == 0 => 0,
        _ if at == axis => 1 + numbers.below(2 * dim as u64 + 2) as usize,
        0 => dim - 1,
        _ => dim,
    };
    table.iter().enumerate().map(dim).collect()
}

/// What each sum's error scales with: the sum of the magnitudes of what meets there.
fn magnitudes(axis: usize, inputs: &[Operand], table: &[usize]) -> Vec<f64> {
    let finite = |value: f64| if value.is_finite() { value.abs() } else { 0.0 };
    let elements: usize = table.iter().product();
    let mut sums = match inputs {
        [_, base, _] => base.elements().into_iter().map(finite).collect(),
        _ => vec![0.0; elements],
    };
    let source = &inputs[inputs.len() - 1];
    let (index, values) = (inputs[0].elements(), source.elements());
    let is_gradient = inputs.len() == 2;
    let index_shape = inputs[0].layout.shape();
    let index_rank = if is_gradient { index_shape.rank() } else { 1 };
    for (at, &value) in values.iter().enumerate() {
        let mut digits = Vec::new();
        let mut rest = at;
        for &dim in source.layout.shape().iter().rev() {
            digits.insert(0, rest % dim);
            rest /= dim;
        }
        let own = if is_gradient { &digits[axis..axis + index_rank] } else { &digits[..] };
        if own.iter().zip(index_shape.iter()).any(|(digit, dim)| digit >= dim) {
            continue;
        }
        let place = own.iter().zip(index_shape.iter()).fold(0, |place, (d, dim)| place * dim + d);
        digits.splice(axis..axis + index_rank, [index[place] as usize]);
        let to = digits.iter().zip(table).fold(0, |to, (digit, dim)| to * dim + digit);
        sums[to] += finite(value);
    }
    sums
}
