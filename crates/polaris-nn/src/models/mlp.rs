//! Linear layers with an activation between.

use serde::{Deserialize, Serialize};

use super::Ends;
use crate::layers::{Activation, Dropout, Flatten, Linear, Sequential};
use crate::{Error, Init, Result};

/// Linear layers with an activation between.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mlp {
    /// Elements of each hidden layer.
    pub hidden: Vec<usize>,
    /// What follows each hidden layer.
    pub activation: Activation,
    /// The probability that a hidden element is left out in training.
    pub dropout: f64,
}

impl Default for Mlp {
    fn default() -> Self {
        Self { hidden: vec![128], activation: Activation::Relu, dropout: 0.0 }
    }
}

impl Mlp {
    pub(super) fn build(&self, ends: &Ends, init: &mut Init) -> Result<Sequential> {
        if self.hidden.contains(&0) {
            return Err(Error::invalid("model.hidden: a layer needs at least one element"));
        }
        let mut layers = Sequential::new().named("flatten", Flatten);
        let mut width = ends.input.iter().product();
        for (index, &hidden) in self.hidden.iter().enumerate() {
            let linear = Linear::new(width, hidden, true, init)?;
            layers = layers
                .named(format!("linear{index}"), linear)
                .named(format!("activation{index}"), self.activation)
                .named(format!("dropout{index}"), Dropout::new(self.dropout)?);
            width = hidden;
        }
        Ok(layers.named("output", Linear::new(width, ends.outputs, true, init)?))
    }
}
