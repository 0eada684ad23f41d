//! Where the time of a model goes: its steps, those of all layers together.

use std::collections::BTreeMap;

use polaris_ops::AnyOperation;

use crate::plan::Step;

/// The runs of one step of a plan, in all layers.
#[derive(Debug, Clone, PartialEq)]
pub struct StepTime {
    /// What it is: the name of the weight or of the part, without that of the layer.
    pub label: String,
    /// The operation.
    pub operation: &'static str,
    /// How often it was run.
    pub runs: u64,
    /// The seconds of all runs.
    pub seconds: f64,
    /// The bytes that these had to read and write, each once.
    pub bytes: u64,
}

/// A step of the plan of one token, and what it took.
#[derive(Debug, Clone, PartialEq)]
pub struct TimedStep {
    /// What it is: the name of the weight or of the part, with that of the layer.
    pub label: String,
    /// The tensors of the file that it multiplies with: one, several that share an input and are computed at once, or none.
    pub tensors: Vec<String>,
    /// The seconds that it took.
    pub seconds: f64,
}

/// What was measured so far.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    sums: BTreeMap<(String, &'static str), StepTime>,
    /// The seconds of every step, in the order in which they were run.
    each: Vec<f64>,
}

impl Profile {
    /// Adds a run of a step.
    pub fn add(&mut self, step: &Step, operation: &dyn AnyOperation, seconds: f64) {
        let label = without_layer(&step.label);
        let inputs: Vec<_> = step.inputs.iter().map(|input| input.array_type()).collect();
        let work = operation.work(&inputs, &step.output.array_type());
        let name = operation.name();
        self.each.push(seconds);
        let entry = self.sums.entry((label.to_owned(), name)).or_insert_with(|| StepTime {
            label: label.to_owned(),
            operation: name,
            runs: 0,
            seconds: 0.0,
            bytes: 0,
        });
        entry.runs += 1;
        entry.seconds += seconds;
        entry.bytes = entry.bytes.saturating_add(work.bytes);
    }

    /// The steps, the longest first.
    pub fn steps(self) -> Vec<StepTime> {
        let mut steps: Vec<StepTime> = self.sums.into_values().collect();
        steps.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        steps
    }

    /// The seconds of every step, in the order in which they were run.
    pub fn each(&self) -> &[f64] {
        &self.each
    }
}

/// `attn_q` of `blk.3.attn_q`.
fn without_layer(label: &str) -> &str {
    let inner = label.strip_prefix("blk.").and_then(|rest| rest.split_once('.'));
    inner.map_or(label, |(_, name)| name)
}
