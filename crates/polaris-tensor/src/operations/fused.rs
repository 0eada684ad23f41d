//! Chains of elementwise functions in one kernel, forward and backward.

use polaris_ops::fused::{Builder, Expression, Value, evaluate};

use crate::{Result, Saved, Tensor};

impl Tensor {
    /// An expression of some tensors, element by element, computed in one kernel instead of one for
    /// each function; so is each of its gradients.
    ///
    /// ```
    /// # use polaris_core::DType;
    /// # use polaris_ops::Unary;
    /// # use polaris_runtime::{Runtime, RuntimeOptions};
    /// # use polaris_tensor::Tensor;
    /// # let runtime = Runtime::discover(&RuntimeOptions::default())?;
    /// # let x = Tensor::ones(runtime.cpu(), &[4], DType::F32)?;
    /// # let (scale, shift) = (x.clone(), x.clone());
    /// let y = Tensor::fused([&scale, &x, &shift], |[scale, x, shift]| {
    ///     (scale * x + shift).unary(Unary::GeluErf)
    /// })?;
    /// # assert!((y.to_f64()?[0] - 1.954_5).abs() < 1e-4);
    /// # Ok::<(), polaris_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// If shapes, types or devices do not fit, or the expression is too long.
    pub fn fused<const N: usize>(
        inputs: [&Self; N],
        build: impl for<'b> FnOnce([Value<'b>; N]) -> Value<'b>,
    ) -> Result<Self> {
        let builder = Builder::new(N);
        let expression = builder.finish(build(builder.inputs()))?;
        Self::expression("fused", expression, &inputs)
    }

    pub(super) fn expression(
        name: &'static str,
        expression: Expression,
        inputs: &[&Self],
    ) -> Result<Self> {
        let arrays: Vec<_> = inputs.iter().map(|input| input.array()).collect();
        let result = Self::new(evaluate(&expression, &arrays)?);
        Self::record_derivative(name, result, expression, inputs)
    }

    /// Remembers that a result is an expression of inputs, with the expression's gradients for its
    /// backward pass. Only what they look at is kept.
    pub(super) fn record_derivative(
        name: &'static str,
        result: Self,
        expression: Expression,
        inputs: &[&Self],
    ) -> Result<Self> {
        if !inputs.iter().any(|input| input.is_tracked()) || !crate::is_recording() {
            return Ok(result);
        }
        let gradients = inputs
            .iter()
            .enumerate()
            .map(|(place, input)| {
                input.is_tracked().then(|| expression.gradient(place)).transpose()
            })
            .collect::<polaris_ops::Result<Vec<_>>>()?;
        let is_used = |place: usize| gradients.iter().flatten().any(|g| g.uses(place));
        let keep = |(place, input): (usize, &&Self)| is_used(place).then(|| input.save(name));
        let saved: Vec<Option<Saved>> = inputs.iter().enumerate().map(keep).collect();
        let shapes: Vec<_> = inputs.iter().map(|input| *input.shape()).collect();
        Ok(Self::record(name, result, inputs, |_| {
            move |gradient: &Self, needed: &[bool]| {
                // What is not looked at is there in number only.
                let inputs = saved
                    .iter()
                    .map(|saved| saved.as_ref().map_or_else(|| Ok(gradient.clone()), Saved::get))
                    .collect::<Result<Vec<_>>>()?;
                let mut arrays: Vec<_> = inputs.iter().map(Self::array).collect();
                arrays.push(gradient.array());
                let of_input = |place: usize| -> Result<Option<Self>> {
                    let Some(derivative) = gradients[place].as_ref().filter(|_| needed[place])
                    else {
                        return Ok(None);
                    };
                    Ok(Some(Self::new(evaluate(derivative, &arrays)?).sum_to(&shapes[place])?))
                };
                (0..gradients.len()).map(of_input).collect()
            }
        }))
    }
}
