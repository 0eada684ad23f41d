//! Routing by definition, in `f64`, one token after another.

use super::{Gating, Groups, LEAST_SUM, Route};

/// What a token's experts are ordered by.
pub(super) fn scores(route: &Route, logits: &[f64], bias: Option<&[f64]>) -> Vec<f64> {
    let gated = match route.needs_scores(bias.is_some()) {
        true => gate(route.gating, logits),
        false => logits.to_vec(),
    };
    let biased =
        gated.iter().enumerate().map(|(at, score)| score + bias.map_or(0.0, |bias| bias[at]));
    biased.map(|score| if score.is_nan() { f64::NEG_INFINITY } else { score }).collect()
}

fn gate(gating: Gating, logits: &[f64]) -> Vec<f64> {
    match gating {
        Gating::Softmax => softmax(logits),
        Gating::Sigmoid => logits.iter().map(|x| 1.0 / (1.0 + (-x).exp())).collect(),
        Gating::SoftmaxOfChosen => logits.to_vec(),
    }
}

fn softmax(logits: &[f64]) -> Vec<f64> {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logits.iter().map(|x| (x - largest).exp()).sum();
    logits.iter().map(|x| (x - largest).exp() / sum).collect()
}

/// The scores of groups.
pub(super) fn group_scores(groups: &Groups, scores: &[f64]) -> Vec<f64> {
    let best = |group: &[f64]| {
        let mut sorted = group.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let sum: f64 = sorted[..groups.best].iter().sum();
        // Infinities of both signs.
        if sum.is_nan() { f64::NEG_INFINITY } else { sum }
    };
    scores.chunks(scores.len() / groups.count).map(best).collect()
}

/// Indices of values, the largest first.
fn in_order(values: &[f64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[b].partial_cmp(&values[a]).expect("no score should be NaN"));
    order
}

/// The experts of a token.
pub(super) fn choose(route: &Route, logits: &[f64], bias: Option<&[f64]>) -> Vec<usize> {
    let scores = scores(route, logits, bias);
    let order = in_order(&scores);
    let is_open = |expert: &usize| match &route.groups {
        None => true,
        Some(groups) => {
            let chosen = in_order(&group_scores(groups, &scores));
            chosen[..groups.used].contains(&(expert / (scores.len() / groups.count)))
        }
    };
    order.into_iter().filter(is_open).take(route.used).collect()
}

/// The weights of a token's experts.
pub(super) fn weigh(route: &Route, logits: &[f64], ids: &[f64]) -> Vec<f64> {
    let gated = gate(route.gating, logits);
    let mut weights: Vec<f64> = ids.iter().map(|&id| gated[id as usize]).collect();
    if route.gating == Gating::SoftmaxOfChosen {
        weights = softmax(&weights);
    }
    let sum = weights.iter().sum::<f64>();
    let divisor = match route.normalise {
        true if sum < LEAST_SUM => LEAST_SUM,
        true => sum,
        false => 1.0,
    };
    weights.iter().map(|weight| weight / divisor * route.scale).collect()
}
