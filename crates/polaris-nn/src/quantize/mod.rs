//! Quantisation-aware training: layers see weights and activations as integers will give them back, while gradients reach
//! the numbers that these are rounded from.
//!
//! [`Quantizers::attach`] puts quantisers before the products of any module whose layers name them
//! ([`Parts::product`](crate::Parts::product)); linear layers, convolutions and attention do. Their scales, zero points
//! and bits are part of the module's state. [`train::Trainer`](crate::train::Trainer) does this by the section
//! `[quantize]` of a configuration.

mod input;
mod output;
mod precision;
mod scales;
mod settings;
mod weight;

use std::sync::Arc;

pub use input::{InputPoint, InputQuantizer};
pub use output::with_output;
pub use precision::{Cause, Stage};
pub use settings::{Quantize, Scales};
pub use weight::{IntegerWeight, WeightQuantizer};

use crate::module::Product;
use crate::{Error, Layer, Parameter, Result};

/// The logarithm of a scale, below the name of what it scales.
const LOG_SCALE: &str = "log_scale";

/// Whether a parameter of this name is a quantiser's.
#[cfg(feature = "text")]
pub(crate) fn is_of_quantizer(name: &str) -> bool {
    name.rsplit('.').next() == Some(LOG_SCALE)
}

/// The quantisers of a model.
pub struct Quantizers {
    weights: Vec<Weight>,
    /// With their bits.
    inputs: Vec<(Arc<InputQuantizer>, u32)>,
}

struct Weight {
    parameter: Parameter,
    quantizer: Arc<WeightQuantizer>,
    /// Those of a first or last layer, which do not rise.
    own_bits: Option<u32>,
}

impl Quantizers {
    /// Puts quantisers before all products of a model. They do nothing until [`set_bits`](Self::set_bits), or until a
    /// state is loaded and [`sync`](Self::sync) is called. They take the place of weights' other transforms.
    ///
    /// # Errors
    /// If settings make no sense, the model has no products, or there is no room.
    pub fn attach(model: &dyn Layer, settings: &Quantize) -> Result<Self> {
        settings.check()?;
        let products = crate::module::products(model);
        let of_weight =
            |product: &Product| product.weight.as_ref().map(|w| w.tensor().device().clone());
        let last = products.iter().rposition(|product| product.weight.is_some());
        let (Some(last), Some(device)) = (last, products.iter().find_map(of_weight)) else {
            let what = "the model has no linear layer or convolution: there is nothing to quantise";
            return Err(Error::invalid(what));
        };
        let (mut weights, mut inputs) = (Vec::<Weight>::new(), Vec::new());
        let Quantize { group, scales, activations, output, .. } = *settings;
        for (at, Product { weight, input }) in products.into_iter().enumerate() {
            let bits = if weight.is_some() { activations } else { output };
            if bits > 0 {
                let quantizer = InputQuantizer::new(&device, scales)?;
                input.set_quantizer(quantizer);
                inputs.extend(input.quantizer().map(|quantizer| (quantizer, bits)));
            }
            let is_new = |weight: &Parameter| weights.iter().all(|w| !w.parameter.is_same(weight));
            let weight = weight.filter(|weight| settings.weights > 0 && is_new(weight));
            let Some(parameter) = weight else { continue };
            let own_bits = match at {
                _ if at == last && settings.last > 0 => Some(settings.last),
                0 if settings.first > 0 => Some(settings.first),
                _ => None,
            };
            let quantizer = Arc::new(WeightQuantizer::new(parameter.tensor(), group, scales)?);
            parameter.set_transform(Some(quantizer.clone()));
            weights.push(Weight { parameter, quantizer, own_bits });
        }
        Ok(Self { weights, inputs })
    }

    /// Begins to round: weights to so many bits, unless they have bits of their own, and activations to theirs.
    ///
    /// # Errors
    /// If there is no room.
    pub fn set_bits(&self, bits: u32) -> Result<()> {
        for Weight { parameter, quantizer, own_bits } in &self.weights {
            let bits = own_bits.unwrap_or(bits);
            if quantizer.bits() != bits {
                quantizer.begin(parameter.tensor(), bits)?;
            }
        }
        for (quantizer, bits) in &self.inputs {
            if quantizer.bits() != *bits {
                quantizer.begin(*bits)?;
            }
        }
        Ok(())
    }

    /// Goes on with what the model's state says, after it was overwritten.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn sync(&self) -> Result<()> {
        self.weights.iter().try_for_each(|weight| weight.quantizer.sync())?;
        self.inputs.iter().try_for_each(|(quantizer, _)| quantizer.sync())
    }
}
