//! The routers of known models, step by step with other operations; ties; mistakes.

use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;
use crate::copy::cast;
use crate::elementwise::{binary, unary};
use crate::indexing::gather;
use crate::reduce::reduce;
use crate::softmax::softmax;
use crate::sort::top_k;
use crate::{Binary, Reduction, Unary};

fn cpu() -> DeviceRef {
    Runtime::discover(&RuntimeOptions::default()).expect("the CPU should be there").cpu().clone()
}

fn logits(cpu: &DeviceRef, tokens: usize, experts: usize) -> Array {
    let value = |i: usize| ((i * 37 + 11) % 101) as f32 / 25.0 - 2.0;
    let values: Vec<f32> = (0..tokens * experts).map(value).collect();
    Array::from_slice(cpu, &[tokens, experts], &values).unwrap()
}

fn plain(gating: Gating, used: usize, normalise: bool) -> Route {
    Route { gating, used, groups: None, normalise, scale: 1.0 }
}

fn ids(array: &Array) -> Vec<i32> {
    cast(array, DType::I32).unwrap().to_vec().unwrap()
}

fn near(found: &Array, expected: &Array) {
    let (found, expected) = (found.to_vec::<f32>().unwrap(), expected.to_vec::<f32>().unwrap());
    assert_eq!(found.len(), expected.len());
    assert!(
        found.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-6),
        "{found:?} {expected:?}"
    );
}

/// `x / sum(x)` along the last axis.
fn normalised(x: &Array) -> Array {
    let sums = reduce(Reduction::Sum, x, &[1]).unwrap();
    let sums =
        sums.with_layout(polaris_core::Layout::contiguous(Shape::new(&[x.shape()[0], 1]).unwrap()));
    binary(Binary::Div, x, &sums.unwrap()).unwrap()
}

#[test]
fn softmax_then_choice_then_division() {
    let logits = logits(&cpu(), 5, 16);
    let (chosen, weights) = route(&plain(Gating::Softmax, 3, true), &logits, None).unwrap();
    let (best, order) = top_k(&softmax(&logits, 1).unwrap(), 3, 1).unwrap();
    assert_eq!(ids(&chosen), ids(&order));
    near(&weights, &normalised(&best));
    let (_, shares) = route(&plain(Gating::Softmax, 3, false), &logits, None).unwrap();
    near(&shares, &best);
}

#[test]
fn choice_then_softmax() {
    let logits = logits(&cpu(), 5, 16);
    let (chosen, weights) =
        route(&plain(Gating::SoftmaxOfChosen, 4, false), &logits, None).unwrap();
    let (best, order) = top_k(&logits, 4, 1).unwrap();
    assert_eq!(ids(&chosen), ids(&order));
    near(&weights, &softmax(&best, 1).unwrap());
    // Which is what softmax, choice and division give.
    near(&weights, &route(&plain(Gating::Softmax, 4, true), &logits, None).unwrap().1);
}

#[test]
fn sigmoid_with_a_bias_for_the_choice() {
    let cpu = cpu();
    let logits = logits(&cpu, 5, 16);
    let bias: Vec<f32> = (0..16).map(|i| (i * 7 % 16) as f32 / 20.0).collect();
    let bias = Array::from_slice(&cpu, &[16], &bias).unwrap();
    let sigmoid = Route { scale: 2.5, ..plain(Gating::Sigmoid, 4, true) };
    let (chosen, weights) = route(&sigmoid, &logits, Some(&bias)).unwrap();
    let scores = unary(Unary::Sigmoid, &logits).unwrap();
    let (_, order) = top_k(&binary(Binary::Add, &scores, &bias).unwrap(), 4, 1).unwrap();
    assert_eq!(ids(&chosen), ids(&order));
    let shares = normalised(&gather(&scores, 1, &order).unwrap());
    let scale = Array::from_slice(&cpu, &[1], &[2.5f32]).unwrap();
    near(&weights, &binary(Binary::Mul, &shares, &scale).unwrap());
}

/// By the sums of their two best experts, the first and the last group win; by the best one alone, the second and the
/// last.
#[test]
fn groups_are_chosen_by_their_best_experts() {
    let cpu = cpu();
    let values = [0.5f32, 0.6, 0.9, 0.0, 0.3, 0.2, 0.8, 0.7];
    let logits = Array::from_slice(&cpu, &[1, 8], &values).unwrap();
    let groups = |best: usize| Some(Groups { count: 4, used: 2, best });
    let chosen = |best: usize| {
        let op = Route { groups: groups(best), ..plain(Gating::SoftmaxOfChosen, 3, false) };
        ids(&route(&op, &logits, None).unwrap().0)
    };
    assert_eq!(chosen(2), [6, 7, 1]);
    assert_eq!(chosen(1), [2, 6, 7]);
}

#[test]
fn the_lower_index_wins_a_tie_and_nan_is_last() {
    let cpu = cpu();
    let values = [1.0f32, f32::NAN, 3.0, 3.0, 1.0, f32::NEG_INFINITY];
    let logits = Array::from_slice(&cpu, &[1, 6], &values).unwrap();
    for gating in [Gating::Softmax, Gating::Sigmoid, Gating::SoftmaxOfChosen] {
        let (chosen, _) = route(&plain(gating, 6, false), &logits, None).unwrap();
        assert_eq!(ids(&chosen), [2, 3, 0, 4, 1, 5], "{gating:?}");
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let cpu = cpu();
    let logits = logits(&cpu, 2, 8);
    let good = plain(Gating::Softmax, 2, true);
    let groups = |count, used, best| Route { groups: Some(Groups { count, used, best }), ..good };
    for bad in [
        Route { used: 9, ..good },
        Route { scale: f64::NAN, ..good },
        groups(0, 0, 1),
        groups(3, 1, 1),
        groups(4, 5, 1),
        groups(4, 0, 1),
        groups(4, 2, 3),
        groups(4, 2, 0),
        groups(8, 1, 1),
    ] {
        assert!(route(&bad, &logits, None).is_err(), "{bad:?}");
    }
    let bias = Array::from_slice(&cpu, &[7], &[0.0f32; 7]).unwrap();
    assert!(route(&good, &logits, Some(&bias)).is_err());
    let output = Array::empty(&cpu, DType::F32, Shape::new(&[2, 2]).unwrap()).unwrap();
    for wrong in [-1, 8] {
        let chosen = Array::from_slice(&cpu, &[2, 2], &[0, 1, wrong, 2]).unwrap();
        let refused = run(&RouteWeights { route: good }, &[&logits, &chosen], &output).unwrap_err();
        assert!(
            matches!(refused, Error::IndexOutOfRange { position: 2, length: 8, .. }),
            "{refused}"
        );
    }
}
