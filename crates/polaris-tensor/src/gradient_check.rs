//! Gradients against differences: the judge of every backward pass, also of those that others
//! write.

use polaris_core::DType;

use crate::{Error, Result, Tensor, gradients, no_grad};

/// How a check of gradients came out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GradientCheck {
    /// The largest difference between a gradient and what differences of the function say, by
    /// `1 + |gradient|`.
    pub worst: f64,
    /// How many partial derivatives were compared.
    pub compared: usize,
}

/// The step of central differences: the error of the formula grows with its square, that of
/// `f64`'s rounding with its inverse.
const STEP: f64 = 1e-5;

/// Compares the gradients of a function of `f64` tensors on the CPU with central differences, at
/// every element of every input that is a floating-point one. The function's result may have any
/// shape: it is weighted with fixed random numbers and summed.
///
/// # Errors
/// What the function says, or `NotDifferentiable` if an input is of another floating-point type than
/// `f64`.
pub fn check_gradients(
    inputs: &[Tensor],
    function: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<GradientCheck> {
    let value = |inputs: &[Tensor]| -> Result<Tensor> {
        let result = function(inputs)?;
        let weights = Tensor::randn(result.device(), result.dims(), result.dtype(), 7)?;
        result.mul(&weights)?.sum()
    };
    let is_variable = |input: &Tensor| input.dtype().is_float();
    if let Some(other) = inputs.iter().find(|t| is_variable(t) && t.dtype() != DType::F64) {
        return Err(Error::NotDifferentiable { dtype: other.dtype() });
    }
    let variables: Vec<Tensor> = inputs
        .iter()
        .map(|input| if is_variable(input) { input.requires_grad() } else { Ok(input.clone()) })
        .collect::<Result<_>>()?;
    let tracked: Vec<&Tensor> = variables.iter().filter(|t| t.is_tracked()).collect();
    let found = gradients(&value(&variables)?, &tracked)?;
    let mut found = found.into_iter();
    let mut check = GradientCheck { worst: 0.0, compared: 0 };
    for place in 0..inputs.len() {
        if !is_variable(&inputs[place]) {
            continue;
        }
        let values = inputs[place].to_f64()?;
        let gradient = match found.next().flatten() {
            Some(gradient) => gradient.to_f64()?,
            None => vec![0.0; values.len()],
        };
        for (index, gradient) in gradient.iter().enumerate() {
            let at = |step: f64| -> Result<f64> {
                let mut values = values.clone();
                values[index] += step;
                let mut inputs = inputs.to_vec();
                let (device, dims) =
                    (inputs[place].device().clone(), inputs[place].dims().to_vec());
                inputs[place] = Tensor::from_slice(&device, &dims, &values)?;
                no_grad(|| value(&inputs)?.item())
            };
            let difference = (at(STEP)? - at(-STEP)?) / (2.0 * STEP);
            let error = (difference - gradient).abs() / (1.0 + gradient.abs());
            // NaN is the worst of all.
            check.worst = if error.is_nan() { f64::INFINITY } else { check.worst.max(error) };
            check.compared += 1;
        }
    }
    Ok(check)
}
