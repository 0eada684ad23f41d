//! Plans on both sides: each node where all is expected to be done soonest.
//!
//! A plan is made for either side, and what is not known of their instructions is measured. From the times
//! the nodes are placed, and a third plan is made. Of the three, the one is taken that is expected to be
//! fastest; those that are expected to be close are tried. One side alone is preferred where both are about
//! as fast.

use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use polaris_onnx::{Tensor, ValueId};
use polaris_runtime::DeviceKind;

use super::context::{Context, Memory};
use super::flow::Flow;
use super::runner::{Runner, Wanted};
use super::value::SessionValue;
use crate::Result;
use crate::build::{Constants, lock};
use crate::cost::{CostModel, Costs, Trial, fingerprint, signature};
use crate::place;
use crate::place::schedule::{self, Job, Kind};
use crate::plan::{
    Choice, Given, Instruction, Plan, PlanOutput, Prediction, Side, Slot, Step, dependencies,
};

/// Both sides together must be faster than one alone by this much: predictions are not exact.
const GAIN: f64 = 0.97;
/// Plans that are expected to take at most this many times as long as the best are tried, and the better
/// side alone.
const CLOSE: f64 = 1.5;
/// Runs of a trial, after one that warms up: short ones are repeated until clocks and caches have settled,
/// so that the trial says what a run takes. Long ones end with the budget.
const FEWEST_TRIAL_RUNS: usize = 5;
const MOST_TRIAL_RUNS: usize = 100;
const TRIAL_TIME: Duration = Duration::from_millis(250);
const TRIAL_BUDGET: Duration = Duration::from_secs(10);

/// What was decided.
struct Decision {
    on_cpu: HashSet<usize>,
    order: Option<Vec<usize>>,
    prediction: Prediction,
}

/// A plan that may be chosen.
struct Candidate {
    choice: Choice,
    plan: Plan,
    context: Context,
    seconds: f64,
}

impl Runner {
    /// The plan that is expected to be fastest, with its arrays in a memory, in which the others are
    /// tried. Only the model's own graph is
    /// measured; graphs inside nodes and later stages are placed by estimates, since their shapes may
    /// change with every run.
    pub(super) fn place(
        &self,
        costs: &Costs,
        wanted: &Wanted<'_>,
        measure: bool,
        memory: &mut Memory,
    ) -> Result<(Plan, Context)> {
        let all: HashSet<usize> = wanted.nodes.iter().copied().collect();
        // Constants that are needed on the other side only to find that out are let go of again.
        let scratch = Constants::new(Arc::clone(&self.engine));
        let gpu = self.build(wanted, &scratch, &HashSet::new(), None, memory)?;
        let cpu = self.build(wanted, &scratch, &all, None, memory)?;
        if measure {
            costs.with(|model| {
                self.measure_unknown(model, Side::Cpu, (&cpu.0, &cpu.1))?;
                self.measure_unknown(model, Side::Gpu, (&gpu.0, &gpu.1))
            })?;
        }
        let decision = self.decide(costs, wanted, [cpu, gpu], &scratch, measure, memory)?;
        drop(scratch);
        // What the others needed is not kept.
        self.drop_memory(memory);
        let Decision { on_cpu, order, mut prediction } = decision;
        let given = |instructions: &[Instruction], _: &[Slot]| match &order {
            Some(order) if order.len() == instructions.len() => order.clone(),
            _ => (0..instructions.len()).collect(),
        };
        let (mut plan, context) =
            self.build(wanted, &self.constants, &on_cpu, Some(&given), memory)?;
        prediction.instructions = costs.with(|model| {
            let one = |instruction| model.predict(&plan.slots, &self.graph, instruction);
            Ok(plan
                .instructions
                .iter()
                .map(|instruction| one(instruction).unwrap_or(0.0))
                .collect())
        })?;
        plan.prediction = Some(prediction);
        Ok((plan, context))
    }

    fn decide(
        &self,
        costs: &Costs,
        wanted: &Wanted<'_>,
        single: [(Plan, Context); 2],
        scratch: &Constants,
        try_them: bool,
        memory: &mut Memory,
    ) -> Result<Decision> {
        // A device that is the CPU under another name computes while the CPU does not.
        let overlap = self.engine.device(Side::Gpu).info().kind != DeviceKind::Cpu;
        let order = RefCell::new(None);
        let (candidates, on_cpu) = costs.with(|model| {
            let [cpu, gpu] = &single;
            let without_kernel = lock(&self.on_cpu).clone();
            let flow =
                Flow::new(&self.graph, wanted, &cpu.0, &gpu.0, &without_kernel, model, overlap);
            let placed = place::place(&flow.problem);
            let on_cpu = flow.on_cpu(&placed.sides);
            let mut candidates = Vec::new();
            for (choice, (plan, context)) in [Choice::Cpu, Choice::Gpu].into_iter().zip(single) {
                let seconds = self.seconds(model, &plan, overlap);
                candidates.push(Candidate { choice, plan, context, seconds });
            }
            if Side::ALL.iter().any(|&side| flow.problem.all_on(side) == placed.sides) {
                return Ok((candidates, on_cpu));
            }
            let reorder = |instructions: &[Instruction], slots: &[Slot]| -> Vec<usize> {
                let found = self.order(model, instructions, slots, overlap);
                order.replace(Some(found.clone()));
                found
            };
            match self.build(wanted, scratch, &on_cpu, Some(&reorder), memory) {
                Ok((plan, context)) => {
                    let seconds = self.seconds(model, &plan, overlap);
                    let choice = Choice::Hybrid;
                    candidates.push(Candidate { choice, plan, context, seconds });
                }
                // No room for a third plan: one of the others is there.
                Err(error) if error.is_device_failure() => log::info!("{error}"),
                Err(error) => return Err(error),
            }
            Ok((candidates, on_cpu))
        })?;
        let tried = if try_them { self.try_close(costs, wanted, &candidates)? } else { None };
        let expected = |choice: Choice| {
            candidates.iter().find(|one| one.choice == choice).map(|one| one.seconds)
        };
        let [on_one, on_other] = [Choice::Cpu, Choice::Gpu].map(expected);
        let (cpu, gpu) = (on_one.unwrap_or(f64::INFINITY), on_other.unwrap_or(f64::INFINITY));
        let hybrid = expected(Choice::Hybrid);
        let chosen = match &tried {
            Some(trial) => choose(trial.cpu, trial.gpu, trial.hybrid),
            None => choose(Some(cpu), Some(gpu), hybrid),
        };
        let instructions = Vec::new();
        let hybrid = hybrid.unwrap_or(cpu.min(gpu));
        let prediction = Prediction { cpu, gpu, hybrid, chosen, tried, instructions };
        Ok(match chosen {
            Choice::Cpu => {
                Decision { on_cpu: wanted.nodes.iter().copied().collect(), order: None, prediction }
            }
            Choice::Gpu => Decision { on_cpu: HashSet::new(), order: None, prediction },
            Choice::Hybrid => Decision { on_cpu, order: order.into_inner(), prediction },
        })
    }

    /// How long a run is expected to take.
    fn seconds(&self, model: &CostModel, plan: &Plan, overlap: bool) -> f64 {
        let mut jobs = self.jobs(model, &plan.instructions, &plan.slots);
        // What lies on the device in the end is read from there.
        for (_, output) in &plan.outputs {
            if let PlanOutput::Array(operand, _) = output
                && plan.slots[operand.slot.0].side == Side::Gpu
            {
                let bytes = (operand.layout.elements() * operand.dtype.size()) as u64;
                let seconds = model.copy_seconds(Side::Cpu, bytes);
                jobs.push(Job { kind: Kind::Copy(Side::Cpu), seconds, launch: 0.0, after: vec![] });
            }
        }
        let order: Vec<usize> = (0..jobs.len()).collect();
        schedule::simulate(&jobs, &order, overlap)
    }

    fn jobs(&self, model: &CostModel, instructions: &[Instruction], slots: &[Slot]) -> Vec<Job> {
        let launch = model.side(Side::Gpu).map_or(0.0, |costs| costs.rates.launch);
        let after = dependencies(instructions, slots);
        (instructions.iter().zip(after))
            .map(|(instruction, after)| {
                let side = instruction.side;
                let seconds = model.predict(slots, &self.graph, instruction).unwrap_or(0.0);
                let kind = match instruction.step {
                    Step::Transfer { .. } => Kind::Copy(side),
                    _ => Kind::Compute(side),
                };
                Job { kind, seconds, launch: launch.min(seconds), after }
            })
            .collect()
    }

    /// An order in which both sides work at once, if they can.
    fn order(
        &self,
        model: &CostModel,
        instructions: &[Instruction],
        slots: &[Slot],
        overlap: bool,
    ) -> Vec<usize> {
        match overlap {
            true => schedule::order(&self.jobs(model, instructions, slots)),
            false => (0..instructions.len()).collect(),
        }
    }

    /// Runs the plans that are expected to be close, on zeros, and says how long they took. What was found
    /// is remembered. `None` if one of them refuses zeros. One that is left alone is tried too: the time of a
    /// whole run is less than the sum of its instructions, which were waited for one by one. The costs are
    /// not held meanwhile: graphs inside nodes look at them.
    fn try_close(
        &self,
        costs: &Costs,
        wanted: &Wanted<'_>,
        candidates: &[Candidate],
    ) -> Result<Option<Trial>> {
        let best = candidates.iter().map(|one| one.seconds).fold(f64::INFINITY, f64::min);
        // One side alone is always among them: a mistake would cost what it would have saved.
        let alone = (candidates.iter().filter(|one| one.choice != Choice::Hybrid))
            .map(|one| one.seconds)
            .fold(f64::INFINITY, f64::min);
        let close: Vec<&Candidate> = (candidates.iter())
            .filter(|one| one.seconds <= CLOSE * best || one.seconds == alone)
            .collect();
        let name = self.trial_name(&close);
        let known = costs.with(|model| {
            Ok(model.side(Side::Gpu).and_then(|costs| costs.database.trial(&name)))
        })?;
        if known.is_some() {
            return Ok(known);
        }
        let Some(given) = zeros(&wanted.key.given) else { return Ok(None) };
        log::warn!("{} plans are tried, once", close.len());
        let mut times: Vec<Vec<f64>> = vec![Vec::new(); close.len()];
        let begin = Instant::now();
        for round in 0..=MOST_TRIAL_RUNS {
            let elapsed = begin.elapsed();
            let is_enough = round > FEWEST_TRIAL_RUNS && elapsed > TRIAL_TIME;
            if is_enough || (round > 1 && elapsed > TRIAL_BUDGET) {
                break;
            }
            for (one, times) in close.iter().zip(&mut times) {
                let start = Instant::now();
                match self.execute(&one.plan, &one.context, &given, &self.graph.outputs, &mut ()) {
                    Ok(_) if round > 0 => times.push(start.elapsed().as_secs_f64()),
                    Ok(_) => {}
                    Err(error) if error.is_device_failure() => return Err(error),
                    // The user's wish ends it; what zeros do not suit is decided by predictions.
                    Err(error) => {
                        polaris_onnx::check_cancelled()?;
                        log::info!("plans are not tried: {error}");
                        return Ok(None);
                    }
                }
            }
        }
        let mut trial = Trial::default();
        for (one, mut times) in close.iter().zip(times) {
            times.sort_by(f64::total_cmp);
            let median = times.get(times.len() / 2).copied();
            match one.choice {
                Choice::Cpu => trial.cpu = median,
                Choice::Gpu => trial.gpu = median,
                Choice::Hybrid => trial.hybrid = median,
            }
        }
        costs.with(|model| {
            let Some(device) = model.side_mut(Side::Gpu) else { return Ok(()) };
            device.database.insert_trial(name, trial);
            if let Err(error) = device.database.save() {
                log::warn!("{error}; the trial is forgotten with this process");
            }
            Ok(())
        })?;
        Ok(Some(trial))
    }

    /// The same plans on the same devices have the same name.
    fn trial_name(&self, candidates: &[&Candidate]) -> String {
        let cpu = self.engine.device(Side::Cpu);
        let mut text = format!("{} {}", cpu.info().profile_key(), cpu.capabilities().compute_units);
        for one in candidates {
            for instruction in &one.plan.instructions {
                text.push_str(instruction.side.name());
                text.push_str(&signature(&one.plan.slots, &self.graph, instruction));
            }
        }
        format!("{:016x}", fingerprint(text.as_bytes()))
    }
}

/// The fastest; both sides together only if they are faster by a margin.
fn choose(cpu: Option<f64>, gpu: Option<f64>, hybrid: Option<f64>) -> Choice {
    let [cpu, gpu, hybrid] = [cpu, gpu, hybrid].map(|seconds| seconds.unwrap_or(f64::INFINITY));
    if hybrid < GAIN * cpu.min(gpu) {
        Choice::Hybrid
    } else if gpu < cpu {
        Choice::Gpu
    } else {
        Choice::Cpu
    }
}

/// Values of these types; `None` if there is something else than tensors of numbers among them.
fn zeros(given: &[Given]) -> Option<Vec<(ValueId, SessionValue)>> {
    let zero = |given: &Given| {
        let (element, shape) = given.ty.known_tensor()?;
        let count: usize = shape.iter().product();
        let tensor = Tensor::from_f64(element, &shape, &vec![0.0; count]).ok()?;
        Some((given.id, SessionValue::Host(tensor.into())))
    };
    given.iter().map(zero).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_side_is_chosen_where_both_are_about_as_fast() {
        assert_eq!(choose(Some(1.0), Some(2.0), Some(0.99)), Choice::Cpu);
        assert_eq!(choose(Some(2.0), Some(1.0), Some(1.0)), Choice::Gpu);
        assert_eq!(choose(Some(2.0), Some(1.0), Some(0.9)), Choice::Hybrid);
        assert_eq!(choose(None, Some(1.0), Some(1.2)), Choice::Gpu);
        assert_eq!(choose(Some(1.0), None, None), Choice::Cpu);
    }
}
