//! The functions that recurrent layers are made with.

use crate::{Attributes, Error, Result};

/// A function by name, with its parameters.
#[derive(Debug, Clone, Copy)]
pub struct Activation {
    kind: Kind,
    alpha: f64,
    beta: f64,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Affine,
    Elu,
    HardSigmoid,
    LeakyRelu,
    Relu,
    ScaledTanh,
    Sigmoid,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu,
}

impl Kind {
    fn named(name: &str) -> Option<Self> {
        Some(match name.to_ascii_lowercase().as_str() {
            "affine" => Self::Affine,
            "elu" => Self::Elu,
            "hardsigmoid" => Self::HardSigmoid,
            "leakyrelu" => Self::LeakyRelu,
            "relu" => Self::Relu,
            "scaledtanh" => Self::ScaledTanh,
            "sigmoid" => Self::Sigmoid,
            "softplus" => Self::Softplus,
            "softsign" => Self::Softsign,
            "tanh" => Self::Tanh,
            "thresholdedrelu" => Self::ThresholdedRelu,
            _ => return None,
        })
    }

    /// What stands for the parameters it has: alpha and beta.
    fn defaults(self) -> (Option<f64>, Option<f64>) {
        match self {
            Self::Affine => (Some(1.0), Some(0.0)),
            Self::ScaledTanh => (Some(1.0), Some(1.0)),
            Self::HardSigmoid => (Some(0.2), Some(0.5)),
            Self::LeakyRelu => (Some(0.01), None),
            Self::Elu | Self::ThresholdedRelu => (Some(1.0), None),
            _ => (None, None),
        }
    }
}

impl Activation {
    pub fn apply(&self, x: f64) -> f64 {
        let (alpha, beta) = (self.alpha, self.beta);
        match self.kind {
            Kind::Affine => alpha * x + beta,
            Kind::Elu if x >= 0.0 => x,
            Kind::Elu => alpha * x.exp_m1(),
            Kind::HardSigmoid => (alpha * x + beta).clamp(0.0, 1.0),
            Kind::LeakyRelu if x >= 0.0 => x,
            Kind::LeakyRelu => alpha * x,
            Kind::Relu => x.max(0.0),
            Kind::ScaledTanh => alpha * (beta * x).tanh(),
            Kind::Sigmoid => 1.0 / (1.0 + (-x).exp()),
            Kind::Softplus => x.max(0.0) + (-x.abs()).exp().ln_1p(),
            Kind::Softsign => x / (1.0 + x.abs()),
            Kind::Tanh => x.tanh(),
            Kind::ThresholdedRelu if x >= alpha => x,
            Kind::ThresholdedRelu => 0.0,
        }
    }

    /// The functions that attributes name, for each direction as many as there are defaults. Parameters
    /// are for those functions that have them, in their order.
    pub fn read(
        attributes: &Attributes,
        defaults: &[&str],
        directions: usize,
    ) -> Result<Vec<Self>> {
        let wanted = defaults.len() * directions;
        let names = match attributes.strings("activations")? {
            Some(names) if names.len() == wanted => names,
            Some(names) => {
                let why = format!("{} activations where {wanted} were expected", names.len());
                return Err(Error::operands(why));
            }
            None => defaults.repeat(directions),
        };
        let mut alphas = attributes.floats("activation_alpha")?.unwrap_or_default().iter();
        let mut betas = attributes.floats("activation_beta")?.unwrap_or_default().iter();
        let read = |name: &str| {
            let unknown = || Error::operands(format!("there is no activation `{name}`"));
            let kind = Kind::named(name).ok_or_else(unknown)?;
            let (alpha, beta) = kind.defaults();
            let take = |default: Option<f64>, list: &mut std::slice::Iter<'_, f32>| {
                default.map_or(0.0, |default| list.next().map_or(default, |&x| f64::from(x)))
            };
            Ok(Self { kind, alpha: take(alpha, &mut alphas), beta: take(beta, &mut betas) })
        };
        names.into_iter().map(read).collect()
    }
}
