//! Linear layers as norm, matmuls and a product of their results: on the CPU, and on devices for what the kernel for
//! blocks does not take.

use polaris_core::{DType, Shape};

use super::{Linears, Parts};
use crate::elementwise::Elementwise;
use crate::matmul::{Activation, Bias, Epilogue};
use crate::operation::run as run_operation;
use crate::{Array, Binary, MatMul, Norm, NormKind, Result};

pub fn run(op: &Linears, parts: &Parts<'_>, output: &Array) -> Result<()> {
    let normed = match (op.norm, parts.norm) {
        (Some(epsilon), Some(weight)) => {
            let normed = Array::empty(output.device(), DType::F32, *parts.x.shape())?;
            let norm = Norm { kind: NormKind::Rms, epsilon, has_weight: true, has_bias: false };
            run_operation(&norm, &[parts.x, weight], &normed)?;
            Some(normed)
        }
        _ => None,
    };
    let x = normed.as_ref().unwrap_or(parts.x);
    let layer = |at: usize, activation: Activation, output: &Array| -> Result<()> {
        let bias = parts.biases.get(at).copied();
        let epilogue =
            Epilogue { bias: bias.map(|_| Bias::PerColumn), activation, ..Epilogue::default() };
        let product = MatMul { epilogue, precision: op.precision, ..MatMul::default() };
        let weight = parts.weights[at].permute(&[1, 0])?;
        let inputs: Vec<&Array> = [x, &weight].into_iter().chain(bias).collect();
        run_operation(&product, &inputs, output)
    };
    if let Some(gate) = op.gate {
        let space =
            || Array::empty(output.device(), DType::F32, Shape::new(output.shape().dims())?);
        let (first, second) = (space()?, space()?);
        layer(0, gate, &first)?;
        layer(1, Activation::Identity, &second)?;
        let product = Elementwise { function: Binary::Mul.into() };
        return run_operation(&product, &[&first, &second], output);
    }
    let mut from = 0;
    for (at, weight) in parts.weights.iter().enumerate() {
        let to = from + weight.shape()[0];
        layer(at, Activation::Identity, &output.slice(1, from..to, 1)?)?;
        from = to;
    }
    Ok(())
}
