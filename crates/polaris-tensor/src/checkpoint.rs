//! Activations that are computed again instead of being kept.

use crate::node::lock;
use crate::{Error, Result, Saved, Tensor, mode};

/// Runs a part of a computation without keeping what is between its inputs and its result; the
/// backward pass runs it again. Memory for time: a network cut into parts of equal size keeps the
/// activations of one part at a time.
///
/// The part must compute the same each time. Parameters that it uses beside its inputs get their
/// gradients as usual.
///
/// # Errors
/// What the part says.
pub fn checkpoint<F>(part: F, inputs: &[&Tensor]) -> Result<Tensor>
where
    F: Fn(&[Tensor]) -> Result<Tensor> + Send + Sync + 'static,
{
    let detached: Vec<Tensor> = inputs.iter().map(|input| input.detach()).collect();
    let result = mode::with(false, || part(&detached))?.detach();
    if !mode::is_recording() {
        return Ok(result);
    }
    // Parameters inside are not among the inputs: without one that is tracked, nobody would ask
    // for their gradients.
    let tracked: Vec<Tensor> = match inputs.iter().any(|input| input.is_tracked()) {
        true => inputs.iter().map(|&input| input.clone()).collect(),
        false => {
            let first = inputs.first().filter(|input| input.dtype().is_float());
            let first = first.ok_or(Error::NoHistory)?.requires_grad()?;
            let others = inputs[1..].iter().map(|&input| input.clone());
            std::iter::once(first).chain(others).collect()
        }
    };
    let tracked: Vec<&Tensor> = tracked.iter().collect();
    Ok(Tensor::record("checkpoint", result, &tracked, |_| {
        let saved: Vec<Saved> = detached.iter().map(|input| input.save("checkpoint")).collect();
        move |gradient: &Tensor, needed: &[bool]| {
            let again: Vec<Tensor> = saved
                .iter()
                .zip(needed)
                .map(|(input, &needed)| match needed {
                    true => input.get()?.requires_grad(),
                    false => input.get(),
                })
                .collect::<Result<_>>()?;
            let result = mode::with(true, || part(&again))?;
            match result.backward_with(gradient) {
                // A part that depends on nothing it was given has no gradient to pass on.
                Err(Error::NoHistory) => {}
                other => other?,
            }
            let gradient = |input: &Tensor| lock(&input.node.as_ref()?.gradient).take();
            Ok(again.iter().map(gradient).collect())
        }
    }))
}
