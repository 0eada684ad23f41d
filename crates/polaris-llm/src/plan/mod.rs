//! Plans: the steps of a model for a number of tokens, with memory for all intermediate values.

mod attention;
mod builder;
mod decoder;
mod delta;
mod feed_forward;
mod gemma3n;
mod gemma4;
mod latent;
mod mamba;
mod mixture;
mod recurrent;
mod residual;

pub(crate) use builder::{Arena, Builder, Value};
pub(crate) use decoder::{Size, plan};

use std::any::Any;
use std::time::Instant;

use polaris_ops::{AnyOperation, Array, CachedAttention, ExpertMatMul, Linears, MatMul};

use crate::Result;
use crate::observe::Watch;
use crate::profile::Profile;

/// The most inputs of a step.
const MOST_INPUTS: usize = 8;

/// What a step does.
#[derive(Debug)]
pub(crate) enum Operation {
    /// The same in every run.
    Fixed(Box<dyn AnyOperation>),
    /// Attention, whose longest sequence differs from run to run.
    Attention(CachedAttention),
}

impl Operation {
    /// The operation itself, if it is of a type and the same in every run.
    pub(crate) fn fixed<O: 'static>(&self) -> Option<&O> {
        let Self::Fixed(operation) = self else { return None };
        let any: &dyn Any = &**operation;
        any.downcast_ref()
    }
}

/// One operation on arrays that have their place.
#[derive(Debug)]
pub(crate) struct Step {
    pub label: String,
    pub operation: Operation,
    pub inputs: Vec<Array>,
    pub output: Array,
}

/// The steps of a model for a number of tokens. Running them allocates nothing.
#[derive(Debug)]
pub struct Plan {
    steps: Vec<Step>,
}

impl Plan {
    pub(crate) fn new(steps: Vec<Step>) -> Self {
        Self { steps }
    }

    /// Runs all steps; `longest` is the number of cached positions of the longest sequence. A profile makes the device
    /// finish each step before the next; a watch is shown what steps multiply.
    pub(crate) fn run(
        &self,
        longest: usize,
        is_cancelled: &dyn Fn() -> bool,
        mut profile: Option<&mut Profile>,
        mut watch: Option<Watch<'_>>,
    ) -> Result<()> {
        for step in &self.steps {
            if is_cancelled() {
                return Err(crate::Error::Cancelled);
            }
            let mut inputs = [&step.output; MOST_INPUTS];
            for (to, from) in inputs.iter_mut().zip(&step.inputs) {
                *to = from;
            }
            let inputs = &inputs[..step.inputs.len()];
            let attention;
            let operation: &dyn AnyOperation = match &step.operation {
                Operation::Fixed(operation) => &**operation,
                Operation::Attention(rest) => {
                    attention = CachedAttention { longest, ..*rest };
                    &attention
                }
            };
            let begin = profile.is_some().then(Instant::now);
            operation.run(inputs, &step.output)?;
            if let (Some(profile), Some(begin)) = (&mut profile, begin) {
                step.output.device().queue().finish()?;
                profile.add(step, operation, begin.elapsed().as_secs_f64());
            }
            if let Some(watch) = &mut watch {
                watch.step(step)?;
            }
        }
        Ok(())
    }

    /// The label of each step, and the arrays that may be matrices which it multiplies with.
    pub(crate) fn factors(&self) -> impl Iterator<Item = (&str, &[Array])> {
        self.steps.iter().map(|step| {
            let operation = &step.operation;
            let is_product = operation.fixed::<MatMul>().is_some()
                || operation.fixed::<ExpertMatMul>().is_some()
                || operation.fixed::<Linears>().is_some();
            let factors = if is_product { step.inputs.get(1..) } else { None };
            (step.label.as_str(), factors.unwrap_or_default())
        })
    }

    /// The steps in words: label, operation, shapes.
    pub fn describe(&self) -> impl Iterator<Item = String> {
        self.steps.iter().map(|step| {
            let operation: &dyn AnyOperation = match &step.operation {
                Operation::Fixed(operation) => &**operation,
                Operation::Attention(attention) => attention,
            };
            let shape = |array: &Array| match array.is_dense() {
                true => format!("{}{}", array.dtype(), array.shape()),
                false => format!("{}{}", array.format(), array.shape()),
            };
            let inputs: Vec<String> = step.inputs.iter().map(shape).collect();
            let output = shape(&step.output);
            format!("{}: {}({}) -> {output}", step.label, operation.name(), inputs.join(", "))
        })
    }
}
