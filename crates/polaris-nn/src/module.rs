//! Layers as named parts: what is learned, what is remembered, and what they are made of.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use polaris_core::Shape;
use polaris_tensor::Tensor;

use crate::export::{Value, Writer};
use crate::quantize::InputPoint;
use crate::{Error, Parameter, Pass, Result};

/// Something with parameters.
pub trait Layer: Send + Sync {
    /// Names its parameters, buffers and the layers it is made of, always in the same order.
    fn visit(&self, parts: &mut Parts);
}

/// A layer from one tensor to another.
pub trait Module: Layer {
    /// The result for an input.
    ///
    /// # Errors
    /// If the input does not fit, or there is no room.
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor>;

    /// Writes what [`forward`](Self::forward) computes in evaluation as nodes of ONNX; a layer's parameters
    /// have the names that [`Layer::visit`] gives them.
    ///
    /// # Errors
    /// If it cannot be written so. That is what a layer says that does not define this.
    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let _ = x;
        Err(graph.refusal("it does not say how"))
    }
}

/// A box holds any module; a caller who keeps a clone of an `Arc` keeps a module that someone else trains.
macro_rules! module_behind {
    ($pointer:ident) => {
        impl<M: Layer + ?Sized> Layer for $pointer<M> {
            fn visit(&self, parts: &mut Parts) {
                (**self).visit(parts);
            }
        }

        impl<M: Module + ?Sized> Module for $pointer<M> {
            fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
                (**self).forward(x, pass)
            }

            fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
                (**self).export(x, graph)
            }
        }
    };
}

module_behind!(Box);
module_behind!(Arc);

/// The parts of a layer with their names, as they are found.
#[derive(Default)]
pub struct Parts {
    prefix: String,
    parameters: Vec<(String, Parameter)>,
    buffers: Vec<(String, Tensor)>,
    products: Vec<Product>,
}

/// A product with a weight, or the result of a model: what a quantiser may stand before.
pub(crate) struct Product {
    /// The weight, whose first axis is that of outputs.
    pub weight: Option<Parameter>,
    /// Where the other factor is read, or the result.
    pub input: InputPoint,
}

impl Parts {
    /// A tensor that is learned, with what its transform learns.
    pub fn parameter(&mut self, name: &str, parameter: &Parameter) {
        self.parameters.push((format!("{}{name}", self.prefix), parameter.clone()));
        if let Some(transform) = parameter.transform() {
            self.within(name, |parts| transform.visit(parts));
        }
    }

    /// A product of what is read somewhere with a weight whose first axis is that of outputs: both can be quantised.
    /// Products come in the order in which they are computed.
    pub fn product(&mut self, weight: &Parameter, input: &InputPoint) {
        self.point("input", Some(weight.clone()), input);
    }

    /// The result of a whole model, which can be quantised.
    pub(crate) fn result(&mut self, name: &str, result: &InputPoint) {
        self.point(name, None, result);
    }

    fn point(&mut self, name: &str, weight: Option<Parameter>, input: &InputPoint) {
        self.products.push(Product { weight, input: input.clone() });
        if let Some(quantizer) = input.quantizer() {
            self.within(name, |parts| quantizer.visit(parts));
        }
    }

    /// A tensor that belongs to the state but is not learned, such as a running mean.
    pub fn buffer(&mut self, name: &str, tensor: &Tensor) {
        self.buffers.push((format!("{}{name}", self.prefix), tensor.clone()));
    }

    /// A layer that this one is made of.
    pub fn layer(&mut self, name: &str, layer: &dyn Layer) {
        self.within(name, |parts| layer.visit(parts));
    }

    /// Parts whose names begin with this one.
    fn within(&mut self, name: &str, visit: impl FnOnce(&mut Self)) {
        let length = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('.');
        visit(self);
        self.prefix.truncate(length);
    }

    fn of(layer: &dyn Layer) -> Self {
        let mut parts = Self::default();
        layer.visit(&mut parts);
        parts
    }
}

/// All parameters of a layer, with their names.
pub fn parameters(layer: &dyn Layer) -> Vec<(String, Parameter)> {
    Parts::of(layer).parameters
}

/// The products of a layer, in the order in which they are computed.
pub(crate) fn products(layer: &dyn Layer) -> Vec<Product> {
    Parts::of(layer).products
}

/// The state of a layer: its parameters and buffers by name, sharing their memory.
pub fn state(layer: &dyn Layer) -> Vec<(String, Tensor)> {
    let parts = Parts::of(layer);
    let parameters =
        parts.parameters.into_iter().map(|(name, parameter)| (name, parameter.tensor().detach()));
    parameters.chain(parts.buffers).collect()
}

/// Overwrites the state of a layer. Nothing is changed unless all of it fits.
///
/// # Errors
/// `WrongState` if a name is missing, too many or has another shape; or if a copy fails.
pub fn load_state(layer: &dyn Layer, new: &HashMap<String, Tensor>) -> Result<()> {
    let own: BTreeMap<String, Tensor> = state(layer).into_iter().collect();
    let mut wrong = Vec::new();
    for (name, tensor) in &own {
        match new.get(name) {
            None => wrong.push(format!("`{name}` is missing")),
            Some(found) if found.shape() != tensor.shape() => {
                let (found, expected): (&Shape, &Shape) = (found.shape(), tensor.shape());
                wrong.push(format!("`{name}` has shape {found} instead of {expected}"));
            }
            Some(_) => {}
        }
    }
    // PyTorch counts the batches that a batch norm saw, and has no use for it here.
    let is_known = |name: &str| own.contains_key(name) || name.ends_with("num_batches_tracked");
    let unknown = new.keys().filter(|name| !is_known(name));
    let mut unknown: Vec<String> = unknown.map(|name| format!("there is no `{name}`")).collect();
    unknown.sort();
    wrong.extend(unknown);
    if !wrong.is_empty() {
        let more = wrong.len().saturating_sub(5);
        wrong.truncate(5);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        return Err(Error::WrongState { what: format!("{}{more}", wrong.join(", ")) });
    }
    for (name, tensor) in &own {
        let found = new[name].to_device(tensor.device())?.to_dtype(tensor.dtype())?;
        tensor.copy_from(&found)?;
    }
    Ok(())
}
