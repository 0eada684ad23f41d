//! Arrays without elements, in every position: each axis of each array of a case, alone and with the
//! axes that have the same length, becomes 0.
//!
//! Which of these shapes fit together is for the operation's own check to say. What it accepts must be
//! computed as the reference says, on every device, and nothing may panic.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use polaris_core::{Layout, Shape};
use polaris_ops::Error;
use polaris_ops::suite::{Case, Operand};
use polaris_runtime::DeviceRef;

/// What became of the empty forms of some cases.
#[derive(Debug, Default)]
pub struct EmptySweep {
    /// How many forms the operation accepted and computed correctly.
    pub accepted: usize,
    /// How many it refused.
    pub refused: usize,
    /// Panics, wrong results, failures of devices, and devices that disagree.
    pub problems: Vec<String>,
}

impl EmptySweep {
    /// Runs every empty form of a case with every kernel on every device.
    pub fn add(&mut self, case: &Case, devices: &[DeviceRef]) {
        for form in forms(case) {
            let outcomes: Vec<Outcome> = devices.iter().map(|device| run(&form, device)).collect();
            for (outcome, device) in outcomes.iter().zip(devices) {
                if let Outcome::Wrong(problem) = outcome {
                    self.problems.push(format!("{}: {problem}: {form:?}", device.id()));
                }
            }
            let accepted = outcomes.iter().filter(|o| matches!(o, Outcome::Accepted)).count();
            let refused = outcomes.iter().filter(|o| matches!(o, Outcome::Refused)).count();
            if accepted > 0 && refused > 0 {
                self.problems
                    .push(format!("{refused} of {} devices refuse {form:?}", devices.len()));
            }
            self.accepted += usize::from(accepted > 0);
            self.refused += usize::from(accepted == 0);
        }
    }
}

enum Outcome {
    Accepted,
    Refused,
    Wrong(String),
}

/// Runs a form as a user would, and with each kernel that supports it.
fn run(form: &Case, device: &DeviceRef) -> Outcome {
    let attempt = || {
        let first = form.try_evaluate(device, None)?;
        let kernels = form.kernels(device)?.len();
        (0..kernels).try_fold(first, |outcome, kernel| {
            outcome.map_or_else(|wrong| Ok(Err(wrong)), |_| form.try_evaluate(device, Some(kernel)))
        })
    };
    match catch_unwind(AssertUnwindSafe(attempt)) {
        Ok(Ok(Ok(_))) => Outcome::Accepted,
        Ok(Ok(Err(wrong))) => Outcome::Wrong(wrong),
        Ok(Err(Error::Runtime(error))) => Outcome::Wrong(error.to_string()),
        Ok(Err(_)) => Outcome::Refused,
        Err(_) => Outcome::Wrong("panicked".to_owned()),
    }
}

/// A case with some axes of length 0: those of one or two lengths in all inputs, or one axis of one input;
/// with each such choice every subset of the output's axes.
fn forms(case: &Case) -> Vec<Case> {
    let dims = |operand: &Operand| operand.layout.shape().to_vec();
    let shapes: Vec<Vec<usize>> = case.inputs.iter().map(dims).collect();
    let lengths: BTreeSet<usize> = shapes.iter().flatten().copied().collect();
    let emptied = |gone: &[usize]| -> Vec<Vec<usize>> {
        let left = |dim: &usize| if gone.contains(dim) { 0 } else { *dim };
        shapes.iter().map(|dims| dims.iter().map(left).collect()).collect()
    };
    let mut choices: BTreeSet<Vec<Vec<usize>>> = BTreeSet::from([shapes.clone()]);
    for &first in &lengths {
        choices.extend(lengths.iter().map(|&second| emptied(&[first, second])));
    }
    for (operand, dims) in shapes.iter().enumerate() {
        for axis in 0..dims.len() {
            let mut choice = shapes.clone();
            choice[operand][axis] = 0;
            choices.insert(choice);
        }
    }
    let output = dims(&case.output);
    let mut forms = Vec::new();
    for choice in choices {
        for mask in 0..1usize << output.len() {
            let mut form = case.clone();
            for (operand, dims) in form.inputs.iter_mut().zip(&choice) {
                operand.layout = with_dims(&operand.layout, dims);
            }
            let left = |(axis, &dim): (usize, &usize)| if mask >> axis & 1 == 1 { 0 } else { dim };
            let dims: Vec<usize> = output.iter().enumerate().map(left).collect();
            form.output.layout = with_dims(&form.output.layout, &dims);
            if choice.iter().flatten().chain(&dims).any(|&dim| dim == 0) {
                forms.push(form);
            }
        }
    }
    forms
}

/// The same strides under a shape that is no longer along any axis.
fn with_dims(layout: &Layout, dims: &[usize]) -> Layout {
    let shape = Shape::new(dims).expect("a smaller shape should be one");
    Layout::new(shape, layout.strides(), layout.offset()).expect("a smaller layout should be one")
}
