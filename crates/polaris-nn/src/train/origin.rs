//! Where numbers went wrong.

use std::cell::RefCell;

use polaris_tensor::{Tensor, no_grad};

use crate::{Module, Observer, Pass, Result, parameters};

/// Says which parameter, or which layer's result, is the first that is not finite.
pub(super) fn origin_of_failure(model: &dyn Module, x: &Tensor, pass: Pass<'_>) -> String {
    for (name, parameter) in parameters(model) {
        if !is_finite(parameter.tensor()) {
            return format!(
                "the parameter `{name}` was not finite before it: an earlier step was too far"
            );
        }
    }
    let watch = Watch { first: RefCell::new(None) };
    // A failure on the way is of no interest: what was seen until then is.
    let _ = no_grad(|| model.forward(x, &pass.observed(&watch)));
    match watch.first.into_inner() {
        Some(path) => format!("`{path}` is the first layer whose result is not finite"),
        None => "the results of all layers are finite, so it is the loss itself".to_owned(),
    }
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

fn is_finite(tensor: &Tensor) -> bool {
    tensor.to_f64().is_ok_and(|values| values.iter().all(|value| value.is_finite()))
}
