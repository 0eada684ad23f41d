//! The router of a mixture of experts: which experts a token is given to, and with which weights.
//!
//! | Model | [`Route`] |
//! |---|---|
//! | Mixtral, Qwen 3 | `gating: Softmax, normalise: true` |
//! | OLMoE | `gating: Softmax, normalise: false` |
//! | gpt-oss | `gating: SoftmaxOfChosen` |
//! | Llama 4 | `gating: Sigmoid, normalise: false` |
//! | DeepSeek V2 | `gating: Softmax, normalise: false, groups: best 1, scale` |
//! | DeepSeek V3 | `gating: Sigmoid, normalise: true, groups: best 2, scale`, with a bias |
//!
//! Experts are in the order of their scores, the largest first; of equal ones the lower index comes first. A score
//! that is NaN counts as minus infinity. Without bias and groups the order is that of the logits, which has no ties by
//! rounding.

mod cpu;
mod opencl;
mod reference;
mod suite;
#[cfg(test)]
mod tests;

pub use opencl::Kernel;
pub(crate) use suite::FAMILY;

use polaris_core::{DType, Error as CoreError, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::opencl::OpenClDevice;

use crate::operation::{Operation, check_apart, run, writes_each_element_once};
use crate::{Array, ArrayType, Class, Error, Result, Work};

/// What a logit becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gating {
    /// The softmax over all experts.
    Softmax = 0,
    /// `1 / (1 + exp(-x))`.
    Sigmoid = 1,
    /// The logit itself, of which weights are the softmax over the chosen experts.
    SoftmaxOfChosen = 2,
}

/// A choice of groups of experts, before that of experts. Groups are neighbours of equal number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Groups {
    /// How many groups there are.
    pub count: usize,
    /// How many of them are chosen.
    pub used: usize,
    /// A group's score is the sum of so many of its best experts' scores.
    pub best: usize,
}

/// A router, as plain data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Route {
    /// What logits become.
    pub gating: Gating,
    /// Experts of a token.
    pub used: usize,
    /// A choice of groups before that of experts.
    pub groups: Option<Groups>,
    /// Whether the weights of a token are divided by their sum.
    pub normalise: bool,
    /// What weights are multiplied by at the end.
    pub scale: f64,
}

/// The experts of each token. Its inputs are the logits, `f32` `[tokens, experts]`, and, if there is one, a bias that is
/// added to the scores for the choice only, `f32` `[experts]`. Its output is `i32` `[tokens, used]`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteIds {
    /// The router.
    pub route: Route,
    /// Whether there is a bias.
    pub bias: bool,
}

/// The weights of chosen experts. Its inputs are the logits, `f32` `[tokens, experts]`, and the experts of each token,
/// `i32` `[tokens, used]`. Its output is `f32` `[tokens, used]`. On the CPU an expert that does not exist is an error;
/// OpenCL devices take the nearest that does.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteWeights {
    /// The router.
    pub route: Route,
}

/// Sums below this are not divided by.
const LEAST_SUM: f64 = 1e-20;

/// The experts of each token and their weights; see [`RouteIds`] and [`RouteWeights`].
///
/// # Errors
/// If shapes, types or parameters do not fit, or there is no room for the results.
pub fn route(route: &Route, logits: &Array, bias: Option<&Array>) -> Result<(Array, Array)> {
    let tokens = logits.shape().first().copied().unwrap_or(0);
    let shape = Shape::new(&[tokens, route.used])?;
    let ids = Array::empty(logits.device(), DType::I32, shape)?;
    let inputs: Vec<&Array> = [logits].into_iter().chain(bias).collect();
    run(&RouteIds { route: *route, bias: bias.is_some() }, &inputs, &ids)?;
    let weights = Array::empty(logits.device(), DType::F32, shape)?;
    run(&RouteWeights { route: *route }, &[logits, &ids], &weights)?;
    Ok((ids, weights))
}

fn has_type(op: &'static str, array: &Array, dtype: DType) -> Result<()> {
    match array.dtype() {
        found if found == dtype => Ok(()),
        lhs => Err(CoreError::DTypeMismatch { op, lhs, rhs: dtype }.into()),
    }
}

fn has_dims(op: &'static str, array: &Array, dims: &[usize]) -> Result<()> {
    match array.shape().dims() == dims {
        true => Ok(()),
        false => Err(CoreError::unequal_shapes(op, *array.shape(), Shape::new(dims)?).into()),
    }
}

/// The tokens and experts of logits.
fn logits_dims(op: &'static str, logits: &Array) -> Result<[usize; 2]> {
    has_type(op, logits, DType::F32)?;
    logits.shape().dims().try_into().map_err(|_| {
        let what = format!("logits of shape {} should have two axes", logits.shape());
        Error::InvalidParameter { op, what }
    })
}

impl Route {
    /// Whether the order of scores is not that of the logits.
    fn needs_scores(&self, bias: bool) -> bool {
        self.gating != Gating::SoftmaxOfChosen && (bias || self.groups.is_some())
    }

    fn check(&self, op: &'static str, experts: usize) -> Result<()> {
        let mistake = |what: String| Err(Error::InvalidParameter { op, what });
        let available = match self.groups {
            None => experts,
            Some(Groups { count, used, best }) => {
                if count == 0 || !experts.is_multiple_of(count) {
                    return mistake(format!(
                        "{experts} experts are not {count} groups of equal number"
                    ));
                }
                let each = experts / count;
                if !(1..=count).contains(&used) || !(1..=each).contains(&best) {
                    return mistake(format!(
                        "{used} of {count} groups by the best {best} of their {each} experts were requested"
                    ));
                }
                used * each
            }
        };
        if self.used > available {
            return mistake(format!("{} of {available} experts were requested", self.used));
        }
        Ok(())
    }
}

impl Operation for RouteIds {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Grouped];

    fn name(&self) -> &'static str {
        "route_ids"
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let expected = 1 + usize::from(self.bias);
        if inputs.len() != expected {
            return Err(Error::WrongArity { op, expected, found: inputs.len() });
        }
        let [tokens, experts] = logits_dims(op, inputs[0])?;
        self.route.check(op, experts)?;
        if let Some(bias) = inputs.get(1) {
            has_type(op, bias, DType::F32)?;
            has_dims(op, bias, &[experts])?;
        }
        has_type(op, output, DType::I32)?;
        has_dims(op, output, &[tokens, self.route.used])?;
        writes_each_element_once(op, output)?;
        inputs.iter().try_for_each(|input| check_apart(op, input, output))
    }

    fn supports(
        &self,
        _: Kernel,
        device: &OpenClDevice,
        inputs: &[&Array],
        output: &Array,
    ) -> bool {
        opencl::supports_ids(self, device, inputs, output)
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], _: &Array) -> String {
        format!("route_ids_f32_{}", kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::ids(self, cpu, inputs, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        _: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run_ids(self, device, inputs, output)
    }

    fn class(&self) -> Class {
        Class::Indexing
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::per_input(self.route.used as u64, inputs, output)
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], _: &Array) -> Vec<f64> {
        let experts = inputs[0].shape()[1];
        let bias = self.bias.then(|| &values[1][..]);
        let rows = values[0].chunks(experts.max(1));
        rows.flat_map(|row| reference::choose(&self.route, row, bias)).map(|id| id as f64).collect()
    }
}

impl Operation for RouteWeights {
    type Kernel = Kernel;

    const KERNELS: &'static [Kernel] = &[Kernel::Tokens];

    fn name(&self) -> &'static str {
        "route_weights"
    }

    fn check(&self, inputs: &[&Array], output: &Array) -> Result<()> {
        let op = self.name();
        let &[logits, ids] = inputs else {
            return Err(Error::WrongArity { op, expected: 2, found: inputs.len() });
        };
        let [tokens, experts] = logits_dims(op, logits)?;
        has_type(op, ids, DType::I32)?;
        has_dims(op, ids, &[tokens, self.route.used])?;
        has_type(op, output, DType::F32)?;
        has_dims(op, output, &[tokens, self.route.used])?;
        if !self.route.scale.is_finite() || experts == 0 && ids.elements() > 0 {
            let what =
                format!("there are {experts} experts, and the scale is {}", self.route.scale);
            return Err(Error::InvalidParameter { op, what });
        }
        writes_each_element_once(op, output)?;
        inputs.iter().try_for_each(|input| check_apart(op, input, output))
    }

    fn supports(&self, _: Kernel, _: &OpenClDevice, inputs: &[&Array], output: &Array) -> bool {
        opencl::supports_weights(inputs, output)
    }

    fn kernel_name(&self, kernel: Kernel, _: &[&Array], _: &Array) -> String {
        format!("route_weights_f32_{}", kernel.name())
    }

    fn run_cpu(&self, cpu: &CpuDevice, inputs: &[&Array], output: &Array) -> Result<()> {
        cpu::weights(&self.route, cpu, inputs, output)
    }

    fn run_opencl(
        &self,
        device: &OpenClDevice,
        _: Kernel,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<()> {
        opencl::run_weights(&self.route, device, inputs, output)
    }

    fn class(&self) -> Class {
        Class::Reduction
    }

    fn work(&self, inputs: &[ArrayType], output: &ArrayType) -> Work {
        Work::per_input(2, inputs, output)
    }

    fn reference(&self, values: &[Vec<f64>], inputs: &[&Array], _: &Array) -> Vec<f64> {
        let experts = inputs[0].shape()[1];
        let rows = values[0].chunks(experts.max(1)).zip(values[1].chunks(self.route.used.max(1)));
        rows.flat_map(|(row, ids)| reference::weigh(&self.route, row, ids)).collect()
    }
}
