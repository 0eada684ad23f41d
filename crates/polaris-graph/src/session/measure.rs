//! Measures instructions that nobody has measured before, where they stand in their plan.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use polaris_core::DType;
use polaris_ops::Array;

use super::context::{Context, Ready};
use super::runner::Runner;
use crate::Result;
use crate::cost::{CostModel, Entry, class_of, signature, unix_time, work_of};
use crate::plan::{Home, Plan, Side, Step};

/// Times of each instruction, after one that warms up.
const ROUNDS: usize = 5;
/// Time for each plan. What is not measured by then is estimated.
const BUDGET: Duration = Duration::from_secs(15);

/// An instruction to be measured.
struct Unknown {
    at: usize,
    name: String,
    seconds: Vec<f64>,
    /// It refuses what the memory happens to hold.
    refused: bool,
}

impl Runner {
    /// Measures the operations of a plan on a side that the model does not know, each once. They run in
    /// their order, so that constants come from memory as in an ordinary run; what they compute is of no
    /// interest.
    ///
    /// # Errors
    /// If the device fails, or the user stops it.
    pub(super) fn measure_unknown(
        &self,
        model: &mut CostModel,
        side: Side,
        (plan, context): (&Plan, &Context),
    ) -> Result<()> {
        let mut unknown = self.unknown(model, side, plan);
        if unknown.is_empty() {
            return Ok(());
        }
        let device = self.engine.device(side);
        let (count, id) = (unknown.len(), device.id());
        log::warn!("{count} instructions are measured on {id}, once");
        let begin = Instant::now();
        'rounds: for round in 0..=ROUNDS {
            for one in unknown.iter_mut().filter(|one| !one.refused) {
                polaris_onnx::check_cancelled()?;
                if begin.elapsed() > 2 * BUDGET {
                    break 'rounds;
                }
                match self.time(plan, &context.ready[one.at], one.at, side) {
                    Ok(seconds) if round > 0 => one.seconds.push(seconds),
                    Ok(_) => {}
                    Err(error) if error.is_device_failure() => return Err(error),
                    Err(error) => {
                        log::debug!("{} is not measured: {error}", one.name);
                        one.refused = true;
                    }
                }
            }
            if begin.elapsed() > BUDGET {
                break;
            }
        }
        let rates = model.side(side).map(|costs| costs.rates);
        let (wait, launch) = rates.map_or((0.0, 0.0), |rates| (rates.wait, rates.launch));
        let measured = unknown.into_iter().filter(|one| !one.seconds.is_empty()).map(|mut one| {
            one.seconds.sort_by(f64::total_cmp);
            let median = one.seconds[one.seconds.len() / 2];
            let instruction = &plan.instructions[one.at];
            let entry = Entry {
                class: class_of(&instruction.step),
                work: work_of(instruction),
                seconds: (median - wait).max(launch.min(median)),
                unix_time: unix_time(),
            };
            (side, one.name, entry)
        });
        if let Err(error) = model.remember(measured) {
            log::warn!("{error}; the times are forgotten with this process");
        }
        Ok(())
    }

    fn unknown(&self, model: &CostModel, side: Side, plan: &Plan) -> Vec<Unknown> {
        let Some(costs) = model.side(side) else { return Vec::new() };
        let mut seen = HashSet::new();
        let mut list = Vec::new();
        for (at, instruction) in plan.instructions.iter().enumerate() {
            let operation = matches!(instruction.step, Step::Device { .. });
            if !operation || instruction.side != side {
                continue;
            }
            let name = signature(&plan.slots, &self.graph, instruction);
            if costs.database.get(&name).is_none() && seen.insert(name.clone()) {
                list.push(Unknown { at, name, seconds: Vec::new(), refused: false });
            }
        }
        list
    }

    fn time(&self, plan: &Plan, ready: &Ready, at: usize, side: Side) -> Result<f64> {
        let Step::Device { action, inputs, .. } = &plan.instructions[at].step else {
            return Ok(0.0);
        };
        // Indices that point nowhere would be refused; 0 is always there.
        for (operand, array) in inputs.iter().zip(&ready.inputs) {
            let made = matches!(plan.slots[operand.slot.0].home, Home::Arena { .. });
            if made && matches!(operand.dtype, DType::I32 | DType::I64) {
                array.buffer().write_bytes(&vec![0; array.buffer().bytes()])?;
            }
        }
        let queue = self.engine.device(side).queue();
        queue.finish()?;
        let arrays: Vec<&Array> = ready.inputs.iter().collect();
        let start = Instant::now();
        action.run(&arrays, &ready.outputs[0])?;
        queue.finish()?;
        Ok(start.elapsed().as_secs_f64())
    }
}
