//! Activations as layers.

use polaris_tensor::Tensor;

use crate::export::{Value, Writer};
use crate::{Layer, Module, Parts, Pass, Result};

/// A function of each element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `max(x, 0)`
    Relu,
    /// GELU by its definition.
    Gelu,
    /// GELU by its approximation with tanh.
    GeluTanh,
    /// `x * sigmoid(x)`
    Silu,
    /// Hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`
    Sigmoid,
}

impl Layer for Activation {
    fn visit(&self, _parts: &mut Parts) {}
}

impl Module for Activation {
    fn forward(&self, x: &Tensor, _pass: &Pass<'_>) -> Result<Tensor> {
        Ok(match self {
            Self::Relu => x.relu(),
            Self::Gelu => x.gelu(),
            Self::GeluTanh => x.gelu_tanh(),
            Self::Silu => x.silu(),
            Self::Tanh => x.tanh(),
            Self::Sigmoid => x.sigmoid(),
        }?)
    }

    fn export(&self, x: &Value, graph: &mut Writer) -> Result<Value> {
        let input = x.name();
        Ok(x.like(match self {
            Self::Relu => graph.node("Relu", &[input], &[]),
            Self::Tanh => graph.node("Tanh", &[input], &[]),
            Self::Sigmoid => graph.node("Sigmoid", &[input], &[]),
            Self::Silu => {
                let gate = graph.node("Sigmoid", &[input], &[]);
                graph.node("Mul", &[input, &gate], &[])
            }
            Self::Gelu => {
                let root = graph.number(std::f64::consts::SQRT_2);
                let scaled = graph.node("Div", &[input, &root], &[]);
                let bent = graph.node("Erf", &[&scaled], &[]);
                half_of_one_plus(input, &bent, graph)
            }
            Self::GeluTanh => {
                let (third, scale) = (graph.number(0.044715), graph.number(GELU_SCALE));
                let square = graph.node("Mul", &[input, input], &[]);
                let cube = graph.node("Mul", &[&square, input], &[]);
                let correction = graph.node("Mul", &[&cube, &third], &[]);
                let corrected = graph.node("Add", &[input, &correction], &[]);
                let scaled = graph.node("Mul", &[&corrected, &scale], &[]);
                let bent = graph.node("Tanh", &[&scaled], &[]);
                half_of_one_plus(input, &bent, graph)
            }
        }))
    }
}

/// `sqrt(2 / pi)`
const GELU_SCALE: f64 = std::f64::consts::FRAC_2_SQRT_PI / std::f64::consts::SQRT_2;

/// `x * (1 + bent) * 0.5`, in the order of operators that engines know as GELU.
fn half_of_one_plus(x: &str, bent: &str, graph: &mut Writer) -> String {
    let (one, half) = (graph.number(1.0), graph.number(0.5));
    let raised = graph.node("Add", &[bent, &one], &[]);
    let product = graph.node("Mul", &[x, &raised], &[]);
    graph.node("Mul", &[&product, &half], &[])
}
