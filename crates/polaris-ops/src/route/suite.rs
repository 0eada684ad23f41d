//! The cases of routers: every gating with and without bias and groups. Scores are either equal or far enough apart
//! that rounding does not change their order.

use polaris_core::{Collapsed, DType};

use super::reference::{group_scores, scores};
use super::{Gating, Groups, Route, RouteIds, RouteWeights};
use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "route",
    super::opencl::shipped_programs,
    || 2 * GATINGS.len(),
    |variant| variant < 2,
    case,
);

const GATINGS: [Gating; 3] = [Gating::Softmax, Gating::Sigmoid, Gating::SoftmaxOfChosen];

/// Scores that are nearer to each other than this are drawn again, unless they are equal.
const GAP: f64 = 1e-5;

/// The last axes of the shape are experts and tokens. Even variants are choices, odd ones weights.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let gating = GATINGS[variant / 2];
    let chooses = variant.is_multiple_of(2);
    let numbers = &mut Numbers::new(parameters.seed);
    let from_end = |place: usize| parameters.shape.iter().rev().nth(place).copied();
    let bias = chooses && numbers.below(2) == 1;
    // Small probabilities beside a bias would be too near to each other.
    let most = if bias && gating == Gating::Softmax { 12 } else { 130 };
    let experts = from_end(0).unwrap_or(8).clamp(1, most);
    let tokens = from_end(1).unwrap_or(3).min(40);
    let used = 1 + numbers.below(experts.min(8) as u64) as usize;
    let counts: Vec<usize> = (2..=8).filter(|count| experts.is_multiple_of(*count)).collect();
    let groups = match numbers.below(3) {
        _ if counts.is_empty() || !chooses => None,
        0 => None,
        _ => {
            let count = counts[numbers.below(counts.len() as u64) as usize];
            let each = experts / count;
            let least = used.div_ceil(each);
            let used = least + numbers.below((count - least) as u64 + 1) as usize;
            let best = 1 + numbers.below(each.min(2) as u64) as usize;
            Some(Groups { count, used, best })
        }
    };
    let normalise = numbers.below(2) == 1;
    let scale = [1.0, 2.5][numbers.below(2) as usize];
    let route = Route { gating, used, groups, normalise, scale };
    let place = |index: usize| Arrangement {
        broadcast: 0,
        missing_axes: 0,
        ..parameters.inputs[index].clone()
    };
    let input = |dims: &[usize], index: usize, dtype: DType, numbers: &mut Numbers| {
        Operand::input(dims, &place(index), dtype, Domain::Any, false, numbers)
    };
    let mut logits = input(&[tokens, experts], 0, DType::F32, numbers);
    let mut biases = input(&[experts], 1, DType::F32, numbers);
    let all: Vec<f64> = (0..experts).map(|_| 2.0 * numbers.below(3) as f64 - 2.0).collect();
    set(&mut biases, &all);
    let all = bias.then_some(&all[..]);
    let rows: Vec<f64> = (0..tokens).flat_map(|_| row(&route, experts, all, numbers)).collect();
    set(&mut logits, &rows);
    if parameters.special && tokens > 0 {
        let space = Collapsed::new(logits.layout.shape(), [&logits.layout]);
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let point = numbers.below((tokens * experts) as u64) as usize;
            logits.contents[space.point(point)[0]] = value;
        }
    }
    let dims = [tokens, used];
    if chooses {
        let mut inputs = vec![logits];
        inputs.extend(bias.then_some(biases));
        let output = Operand::output(&dims, &parameters.output, DType::I32, numbers);
        return Case::new(RouteIds { route, bias }, inputs, output, Tolerance::Exact, Vec::new());
    }
    let mut ids = input(&dims, 2, DType::I32, numbers);
    let chosen: Vec<f64> =
        (0..tokens * used).map(|_| numbers.below(experts as u64) as f64).collect();
    set(&mut ids, &chosen);
    let output = Operand::output(&dims, &parameters.output, DType::F32, numbers);
    Case::new(RouteWeights { route }, vec![logits, ids], output, Tolerance::Accumulated, Vec::new())
}

/// Logits of a token, some of them equal, whose scores are told apart in every precision.
fn row(route: &Route, experts: usize, bias: Option<&[f64]>, numbers: &mut Numbers) -> Vec<f64> {
    let told_apart = |values: &[f64]| {
        let pairs =
            values.iter().enumerate().flat_map(|(at, a)| values[..at].iter().map(move |b| (a, b)));
        pairs.into_iter().all(|(a, b)| a == b || (a - b).abs() > GAP)
    };
    loop {
        // Sums of two of these are exact.
        let logits: Vec<f64> =
            (0..experts).map(|_| numbers.below(257) as f64 / 32.0 - 4.0).collect();
        let scores = scores(route, &logits, bias);
        let groups = route.groups.map(|groups| group_scores(&groups, &scores));
        // Probabilities are small, but far apart relative to themselves; sums of them may be near to each other.
        if groups.is_none_or(|groups| told_apart(&groups)) {
            return logits;
        }
    }
}

/// Sets the elements, in row-major order.
fn set(operand: &mut Operand, values: &[f64]) {
    let space = Collapsed::new(operand.layout.shape(), [&operand.layout]);
    for (point, &value) in values.iter().enumerate() {
        operand.contents[space.point(point)[0]] = value;
    }
}
