//! Losses and optimisers.

mod likelihood;
mod optimiser;

use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("NegativeLogLikelihoodLoss", likelihood::negative_log_likelihood_loss),
    ("SoftmaxCrossEntropyLoss", likelihood::softmax_cross_entropy_loss),
];

/// Of the domain ai.onnx.preview.training.
pub(super) const TRAINING: &[(&str, Operator)] = &[
    ("Adagrad", optimiser::adagrad),
    ("Adam", optimiser::adam),
    ("Momentum", optimiser::momentum),
];
