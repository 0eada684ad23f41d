//! Where numbers went wrong.

use std::cell::RefCell;

use polaris_tensor::{Tensor, no_grad};

use crate::{Module, Observer, Pass, Result, parameters};

/// Says which example, parameter or layer's result is the first that is not finite.
pub(super) fn origin_of_failure(
    model: &dyn Module,
    x: &Tensor,
    examples: &[usize],
    pass: Pass<'_>,
) -> String {
    let each = x.elements() / examples.len().max(1);
    let bad = x.to_f64().unwrap_or_default().iter().position(|value| !value.is_finite());
    if let Some(example) = bad.and_then(|place| examples.get(place / each.max(1))) {
        return format!("example {example} of the data has an input that is not finite");
    }
    if let Some(parameter) = unusable_parameter(model) {
        return parameter;
    }
    let watch = Watch { first: RefCell::new(None) };
    // A failure on the way is of no interest: what was seen until then is.
    let _ = no_grad(|| model.forward(x, &pass.observed(&watch)));
    match watch.first.into_inner() {
        Some(path) => format!("`{path}` is the first layer whose result is not finite"),
        None => "the results of all layers are finite, so it is the loss itself".to_owned(),
    }
}

/// Names a parameter that is not finite, if there is one.
pub(super) fn unusable_parameter(model: &dyn Module) -> Option<String> {
    let all = parameters(model);
    let (name, _) = all.iter().find(|(_, parameter)| !is_finite(parameter.tensor()))?;
    Some(format!("the parameter `{name}` is not finite: an earlier step was too far"))
}

struct Watch {
    first: RefCell<Option<String>>,
}

impl Observer for Watch {
    fn output(&self, path: &str, output: &Tensor) -> Result<()> {
        let mut first = self.first.borrow_mut();
        if first.is_none() && !is_finite(output) {
            *first = Some(path.to_owned());
        }
        Ok(())
    }
}

/// Whether all elements are finite, found out on the device: zero times what is not is no number.
fn is_finite(tensor: &Tensor) -> bool {
    if !tensor.dtype().is_float() {
        return true;
    }
    let zero = || tensor.detach().mul_scalar(0.0)?.sum()?.item();
    zero().is_ok_and(f64::is_finite)
}
