//! Operations of your own, with a backward pass of your own.

use crate::{Result, Saved, Tensor, mode};

/// An operation that is defined outside this crate: one implementation is all it takes.
///
/// The example `straight_through` rounds in the forward pass and lets the gradient through as if
/// it had not.
pub trait Function: Send + Sync + 'static {
    /// Its name in messages.
    fn name(&self) -> &'static str;

    /// The result. What is computed here is not remembered: [`backward`](Self::backward) takes its
    /// place.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn forward(&self, inputs: &[Tensor]) -> Result<Tensor>;

    /// The gradients with respect to the inputs: one for each, in order, of its shape and type;
    /// `None` where nothing flows.
    ///
    /// # Errors
    /// Whatever goes wrong.
    fn backward(&self, context: &Context<'_>) -> Result<Vec<Option<Tensor>>>;

    /// Whether `backward` looks at the inputs. If not, their memory can be given back earlier.
    fn needs_inputs(&self) -> bool {
        true
    }

    /// Whether `backward` looks at the result.
    fn needs_output(&self) -> bool {
        true
    }
}

/// What a backward pass knows.
#[derive(Debug)]
pub struct Context<'a> {
    /// The gradient with respect to the result.
    pub gradient: &'a Tensor,
    /// The inputs, without history; empty if [`Function::needs_inputs`] says no.
    pub inputs: Vec<Tensor>,
    /// The result, without history; `None` if [`Function::needs_output`] says no.
    pub output: Option<Tensor>,
    /// Which inputs' gradients are wanted; the others may be `None`.
    pub needed: &'a [bool],
}

/// Applies an operation of one's own.
///
/// # Errors
/// What its `forward` says.
pub fn apply<F: Function>(function: F, inputs: &[&Tensor]) -> Result<Tensor> {
    let name = function.name();
    let detached: Vec<Tensor> = inputs.iter().map(|input| input.detach()).collect();
    let result = mode::with(false, || function.forward(&detached))?.detach();
    Ok(Tensor::record(name, result, inputs, |result| {
        let save = |wanted: bool| if wanted { detached.as_slice() } else { &[] };
        let inputs: Vec<Saved> =
            save(function.needs_inputs()).iter().map(|input| input.save(name)).collect();
        let output = function.needs_output().then(|| result.save(name));
        move |gradient: &Tensor, needed: &[bool]| {
            function.backward(&Context {
                gradient,
                inputs: inputs.iter().map(Saved::get).collect::<Result<_>>()?,
                output: output.as_ref().map(Saved::get).transpose()?,
                needed,
            })
        }
    }))
}
