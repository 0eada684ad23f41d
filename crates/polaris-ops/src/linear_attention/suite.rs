//! The cases of linear attention: every kind of decay with and without the delta rule, prompts and single tokens of
//! several sequences, with and without a state before, heads that share keys.

use polaris_core::{Collapsed, DType};

use super::geometry::Sizes;
use super::{Decay, LinearAttention, Sharing};
use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "linear_attention",
    super::opencl::shipped_programs,
    || VARIANTS.len(),
    |variant| variant < 2,
    case,
);

/// The decay, and whether there is the delta rule.
const VARIANTS: [(Decay, bool); 6] = [
    (Decay::Head, true),
    (Decay::Head, false),
    (Decay::Key, true),
    (Decay::Rates, false),
    (Decay::Key, false),
    (Decay::Rates, true),
];

/// Elements of keys: each number of rows is a program.
const KEYS: [usize; 4] = [16, 5, 33, 128];

/// The last two axes of the shape are tokens and values.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (decay, delta) = VARIANTS[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let from_end = |place: usize| parameters.shape.iter().rev().nth(place).copied();
    let values = from_end(0).unwrap_or(7).min(150);
    let tokens = from_end(1).unwrap_or(1 + numbers.below(12) as usize).min(24);
    let keys = KEYS[numbers.below(KEYS.len() as u64) as usize];
    let groups = 1 + numbers.below(3) as usize;
    let heads = groups * [1, 2, 3][numbers.below(3) as usize];
    let sequences = 1 + numbers.below(4) as usize;
    let slots = numbers.below(5) as usize;
    let op = LinearAttention {
        decay,
        delta,
        sharing: [Sharing::Neighbours, Sharing::Tiled][numbers.below(2) as usize],
        query_scale: [1.0, 0.3][numbers.below(2) as usize],
        // The delta rule would let magnitudes grow without bound if keys were longer than one.
        key_scale: if delta { 0.3 / (keys as f64).sqrt() } else { 0.7 },
    };
    let place = |index: usize| Arrangement {
        broadcast: 0,
        missing_axes: 0,
        ..parameters.inputs[index].clone()
    };
    let mut input = |dims: &[usize], index: usize, dtype: DType| {
        Operand::input(dims, &place(index), dtype, Domain::Any, false, numbers)
    };
    let width = match decay {
        Decay::Head => 1,
        Decay::Key => keys,
        Decay::Rates => values,
    };
    let mut inputs = vec![
        input(&[tokens, groups, keys], 0, DType::F32),
        input(&[tokens, groups, keys], 1, DType::F32),
        input(&[tokens, heads, values], 2, DType::F32),
        input(&[tokens, heads, width], 0, DType::F32),
        input(&[slots, keys, heads, values], 1, DType::F32),
        input(&[sequences, 3], 2, DType::I32),
    ];
    if delta {
        inputs.push(input(&[tokens, heads], 2, DType::F32));
    }
    // Exponents below zero: a step is positive, and a rate negative.
    let negative = |x: &mut f64| *x = -(x.abs() as f32 * 0.5) as f64;
    inputs[3].contents.iter_mut().for_each(negative);
    if decay == Decay::Rates {
        inputs[3].contents.iter_mut().for_each(|x| *x = -*x);
        let mut rates = input(&[keys, heads, values], 1, DType::F32);
        rates.contents.iter_mut().for_each(negative);
        inputs.push(rates);
    }
    set_runs(&mut inputs[5], [tokens, sequences, slots], numbers);
    let rows = tokens + sequences * keys;
    let output = Operand::output(&[rows, heads, values], &parameters.output, DType::F32, numbers);
    let sizes = Sizes { tokens, sequences, slots, groups, heads, keys, values };
    let scale = magnitudes(&op, &sizes, &inputs);
    Case::new(op, inputs, output, Tolerance::Accumulated, scale)
}

/// Cuts the tokens into runs, some of which are empty, and gives them slots, of which some are none.
fn set_runs(runs: &mut Operand, [tokens, sequences, slots]: [usize; 3], numbers: &mut Numbers) {
    let space = Collapsed::new(runs.layout.shape(), [&runs.layout]);
    let mut first = 0;
    for sequence in 0..sequences {
        let left = tokens - first;
        let count = match sequence + 1 == sequences {
            true => left,
            false => numbers.below(left as u64 + 1) as usize,
        };
        let slot = numbers.below(slots as u64 + 1) as f64 - 1.0;
        for (at, number) in [slot, first as f64, count as f64].into_iter().enumerate() {
            runs.contents[space.point(3 * sequence + at)[0]] = number;
        }
        first += count;
    }
}

/// The result of magnitudes, with sums where the delta rule has differences: what errors scale with.
fn magnitudes(op: &LinearAttention, sizes: &Sizes, inputs: &[Operand]) -> Vec<f64> {
    let mut elements: Vec<Vec<f64>> = inputs.iter().map(Operand::elements).collect();
    let absolute = |values: &mut Vec<f64>| values.iter_mut().for_each(|x| *x = x.abs());
    [0, 1, 2, 4].into_iter().for_each(|input| absolute(&mut elements[input]));
    if op.delta {
        // Less a negative value, the difference is a sum of magnitudes; a negative beta makes up for its sign.
        absolute(&mut elements[6]);
        elements[6].iter_mut().for_each(|beta| *beta = -*beta);
        elements[2].iter_mut().for_each(|v| *v = -*v);
    }
    let sums = super::reference::attend(op, sizes, &elements);
    // The exponential is off by as much as its exponent, which is a few units at most.
    sums.into_iter().map(|sum| 4.0 * sum.abs()).collect()
}
