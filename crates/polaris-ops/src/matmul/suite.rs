//! The suite of matmul: every type, with shapes, layouts and epilogues drawn from the parameters.

use crate::MatMul;
use crate::matmul::{Activation, Bias, Epilogue, Precision, widens};
use polaris_core::DType;

use crate::families::Family;
use crate::format::{Block, Role};
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family =
    Family { takes, ..Family::new("matmul", super::shipped_programs, count, is_essential, case) };

/// Types of the factors and the result, and how `f32` may be multiplied.
#[derive(Debug, Clone, Copy)]
struct Variant {
    a: DType,
    b: DType,
    output: DType,
    precision: Precision,
    second: Second,
}

/// What the second factor is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Second {
    Array,
    Prepared,
    Blocks(Block),
}

const VARIANTS: &[Variant] = {
    use DType::{BF16, F16, F32, F64, I8, I32, U8};
    const fn full(a: DType, b: DType, output: DType) -> Variant {
        Variant { a, b, output, precision: Precision::Full, second: Second::Array }
    }
    const fn with(second: Second, variant: Variant) -> Variant {
        Variant { second, ..variant }
    }
    &[
        full(F32, F32, F32),
        Variant { precision: Precision::Tf32, ..full(F32, F32, F32) },
        full(F16, F16, F16),
        full(F16, F16, F32),
        full(BF16, BF16, BF16),
        full(BF16, BF16, F32),
        full(I8, I8, I32),
        full(I8, I8, F32),
        full(U8, I8, I32),
        full(U8, I8, F32),
        full(F64, F64, F64),
        with(Second::Prepared, full(F32, F32, F32)),
        with(Second::Prepared, full(F16, F16, F16)),
        with(Second::Prepared, full(F64, F64, F64)),
        with(Second::Prepared, full(I8, I8, I32)),
        with(Second::Prepared, full(U8, I8, F32)),
        full(F32, F16, F32),
        full(F32, BF16, F32),
    ]
};

/// Those above, and every format of blocks as the second factor, with the first as it is and rounded to bytes.
fn count() -> usize {
    VARIANTS.len() + 2 * Block::ALL.len()
}

fn variant(number: usize) -> Variant {
    let Some(place) = number.checked_sub(VARIANTS.len()) else { return VARIANTS[number] };
    let blocks = Block::ALL.len();
    let precision = if place < blocks { Precision::Full } else { Precision::Int8 };
    Variant { second: Second::Blocks(Block::ALL[place % blocks]), precision, ..VARIANTS[0] }
}

/// Whether a short check should not leave it out.
fn is_essential(number: usize) -> bool {
    number == 0 || variant(number).second != Second::Array
}

/// Every type in a batch of odd sizes, and in a product that is transposed and long; what is converted also as a vector
/// times a matrix and with few rows; plain `f32` also as a vector, with nothing to do, with nothing along k, and
/// scattered.
fn takes(number: usize, layout: usize) -> bool {
    let Variant { a, b, second, .. } = variant(number);
    let converts = widens(a, b) || matches!(second, Second::Blocks(_));
    matches!(layout, 1 | 7)
        || converts && matches!(layout, 0 | 6)
        || number == 0 && matches!(layout, 0 | 3 | 4 | 8)
}

/// Lengths along k: none, one, odd ones, and long enough to be split.
const LENGTHS: [usize; 9] = [70, 1, 5, 16, 33, 64, 130, 600, 1030];

fn case(number: usize, parameters: &CaseParameters) -> Case {
    let Variant { a, b, output, precision, second } = variant(number);
    let numbers = &mut Numbers::new(parameters.seed);
    let mut shape = parameters.shape.clone();
    let k = if shape.is_empty() { 0 } else { LENGTHS[(parameters.seed % 9) as usize] };
    let k = match second {
        Second::Blocks(block) => k.next_multiple_of(block.elements()),
        _ => k,
    };
    while shape.len() < 2 {
        shape.insert(0, 1);
    }
    let rank = shape.len();
    let (batch, [m, n]) = (&shape[..rank - 2], [shape[rank - 2], shape[rank - 1]]);
    let matrix = |rows: usize, columns: usize| -> Vec<usize> {
        batch.iter().copied().chain([rows, columns]).collect()
    };
    // One infinity makes all of its group infinite where bytes share a scale.
    let special = parameters.special && precision != Precision::Int8;
    let mut draw = |shape: &[usize], place: &Arrangement, dtype: DType| {
        Operand::input(shape, place, dtype, Domain::Any, special, numbers)
    };
    let (place_a, place_b) = factors(parameters, batch.len());
    let place_c = &parameters.inputs[2];
    // A weight is one matrix for all of a batch, which is the first factor's then.
    let whole = Arrangement { broadcast: 0, missing_axes: 0, ..place_a.clone() };
    let place_a = if second == Second::Array { place_a } else { whole };
    // Rows of weights lie along k as a rule.
    let turned = place_b.transposed ^ widens(a, b);
    let place_b = Arrangement { transposed: turned, ..place_b };
    let first = draw(&matrix(m, k), &place_a, a);
    let alone = Arrangement { broadcast: 0, missing_axes: 0, ..place_b.clone() };
    let second = match second {
        Second::Array => draw(&matrix(k, n), &place_b, b),
        Second::Prepared => draw(&[k, n], &alone, b).prepared(Role::MatMul { left: a }),
        Second::Blocks(block) => blocks([k, n], block, parameters),
    };
    let mut inputs = vec![first, second];
    let op = problem(parameters, output, precision);
    let vector = if a == DType::F64 { DType::F64 } else { DType::F32 };
    let in_line =
        Arrangement { gap: place_c.gap, offset: place_c.offset, ..Arrangement::default() };
    if op.beta != 0.0 {
        inputs.push(draw(&shape, place_c, output));
    }
    if op.epilogue.row_scales {
        inputs.push(draw(&[m], &in_line, vector));
    }
    if op.epilogue.column_scales {
        inputs.push(draw(&[n], &in_line, vector));
    }
    if let Some(bias) = op.epilogue.bias {
        inputs.push(draw(&[if bias == Bias::PerRow { m } else { n }], &in_line, vector));
    }
    if op.epilogue.residual {
        inputs.push(draw(&shape, &parameters.inputs[0], output));
    }
    let scale = magnitude(&op, &inputs, k);
    let result = Operand::output(&shape, &parameters.output, output, numbers);
    let tolerance = match precision {
        Precision::Tf32 => Tolerance::Tf32,
        Precision::Int8 => Tolerance::Int8,
        Precision::Full => Tolerance::Accumulated,
    };
    let scale = vec![scale; result.layout.elements()];
    Case::new(op, inputs, result, tolerance, scale)
}

/// A matrix of blocks along k; now and then from some element on, within rows that are longer.
fn blocks([k, n]: [usize; 2], block: Block, parameters: &CaseParameters) -> Operand {
    let numbers = &mut Numbers::new(parameters.seed ^ 1);
    let longer = if numbers.below(3) == 0 { block.elements() } else { 0 };
    let mut operand = Operand::blocks(&[n, k + longer], block, numbers);
    let first = numbers.below(longer as u64 + 1) as usize;
    let layout = operand.layout.slice(1, first..first + k, 1);
    operand.layout =
        layout.and_then(|layout| layout.permute(&[1, 0])).expect("a view of the weight");
    operand
}

/// Where the factors lie. They are repeated along batches only, and never both along the same one,
/// since the result would have no batch there.
fn factors(parameters: &CaseParameters, batches: usize) -> (Arrangement, Arrangement) {
    let axes = |count: usize| ((1u32 << count) - 1) as u8;
    let [a, b, _] = &parameters.inputs;
    let missing = a.missing_axes.min(batches);
    let repeated = a.broadcast & axes(batches);
    let first = Arrangement { missing_axes: missing, broadcast: repeated, ..a.clone() };
    let taken = repeated | axes(missing);
    let broadcast = b.broadcast & axes(batches) & !taken;
    (first, Arrangement { missing_axes: 0, broadcast, ..b.clone() })
}

/// Factors and epilogue: none at all, or many at once, by the seed.
fn problem(parameters: &CaseParameters, output: DType, precision: Precision) -> MatMul {
    let bits = parameters.seed >> 2;
    if output == DType::I32 || parameters.seed.is_multiple_of(2) {
        return MatMul { precision, ..MatMul::default() };
    }
    let activations = if parameters.special {
        // What others make of infinity is not defined everywhere.
        &[Activation::Identity, Activation::Relu][..]
    } else {
        &Activation::ALL[..]
    };
    let flag = |bit: u32| bits >> bit & 1 == 1;
    MatMul {
        alpha: if flag(0) { 0.75 } else { 1.0 },
        beta: if flag(1) { -1.5 } else { 0.0 },
        epilogue: Epilogue {
            row_scales: flag(2),
            column_scales: flag(3),
            bias: [None, Some(Bias::PerRow), Some(Bias::PerColumn), None][(bits >> 4 & 3) as usize],
            activation: activations[(bits >> 6) as usize % activations.len()],
            scale: if flag(5) { 0.5 } else { 1.0 },
            residual: flag(0),
        },
        precision,
    }
}

/// What the errors scale with: the magnitudes that are added up, not what is left of them.
fn magnitude(op: &MatMul, inputs: &[Operand], k: usize) -> f64 {
    let finite = |input: &Operand| -> Vec<f64> {
        input.contents.iter().filter(|value| value.is_finite()).map(|value| value.abs()).collect()
    };
    let average = |input: &Operand| {
        let values = finite(input);
        values.iter().sum::<f64>() / values.len().max(1) as f64
    };
    let largest = |input: &Operand| finite(input).into_iter().fold(0.0, f64::max);
    let scales = usize::from(op.epilogue.row_scales) + usize::from(op.epilogue.column_scales);
    let first_scale = 2 + usize::from(op.beta != 0.0);
    let mut product = 2.0 * average(&inputs[0]) * average(&inputs[1]) * k.max(1) as f64;
    for input in &inputs[first_scale..first_scale + scales] {
        product *= largest(input).max(1.0);
    }
    let added = inputs.iter().enumerate().skip(2);
    let added = added.filter(|(at, _)| !(first_scale..first_scale + scales).contains(at));
    product + added.map(|(_, input)| 2.0 * largest(input)).sum::<f64>()
}
