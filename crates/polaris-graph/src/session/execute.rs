//! One run of a plan, instruction by instruction.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use polaris_onnx::operators::Scope;
use polaris_onnx::{Graph, Tensor, Value, ValueId, interpret_node};
use polaris_ops::Array;

use super::context::{Context, Ready, dense_part};
use super::in_flight::InFlight;
use super::observe::Observer;
use super::runner::Runner;
use super::value::{SessionValue, read};
use crate::plan::{Home, HostInput, HostOutput, Origin, Plan, PlanOutput, Side, Step, element_of};
use crate::{Error, Result};

impl Runner {
    /// The results of a plan for what is given, in the order of its inputs. Of the graph's outputs only those
    /// are read back that are wanted, or that a later stage needs.
    pub(super) fn execute<O: Observer>(
        &self,
        plan: &Plan,
        context: &Context,
        given: &[(ValueId, SessionValue)],
        wanted: &[ValueId],
        observer: &mut O,
    ) -> Result<Vec<(ValueId, SessionValue)>> {
        let begin = Instant::now();
        let mut values: HashMap<ValueId, Value> = HashMap::new();
        for ((input, array), (id, value)) in plan.inputs.iter().zip(&context.inputs).zip(given) {
            debug_assert_eq!(input.id, *id, "inputs should be those of the plan");
            match (array, value) {
                (Some(array), SessionValue::Host(value)) => {
                    dense_part(array)?.write_bytes(value.tensor()?.bytes()?)?
                }
                (None, SessionValue::Host(value)) => {
                    values.insert(*id, value.clone());
                }
                // It is read where it lies.
                (_, SessionValue::Device(_)) => {}
            }
        }
        let device = self.engine.devices[Side::Gpu.index()].as_ref();
        let mut in_flight = InFlight::new(device, plan.instructions.len(), context.last_run.get());
        for (instruction, ready) in plan.instructions.iter().zip(&context.ready) {
            polaris_onnx::check_cancelled()?;
            match &instruction.step {
                Step::Device { action, .. } => {
                    let inputs: Vec<&Array> = ready.inputs.iter().collect();
                    action
                        .run(&inputs, &ready.outputs[0])
                        .map_err(|error| Error::at(&self.graph.nodes[instruction.node], error))?;
                }
                Step::Transfer { input: Origin::Array(_), .. } => {
                    dense_part(&ready.inputs[0])?.copy_to(&dense_part(&ready.outputs[0])?)?;
                }
                Step::Transfer { input: Origin::Given(id), .. } => {
                    let value = values.get(id).expect("what is given should be there");
                    dense_part(&ready.outputs[0])?.write_bytes(value.tensor()?.bytes()?)?;
                }
                Step::Host { .. } => {
                    self.interpret(instruction.node, &instruction.step, ready, &mut values)?
                }
            }
            if instruction.side == Side::Gpu {
                in_flight.add()?;
            }
            observer.after(&self.engine, instruction)?;
        }
        in_flight.finish()?;
        let later = plan.rest.as_ref().map_or(&[][..], |rest| &rest.needs);
        let is_wanted = |id: &ValueId| {
            wanted.contains(id) || later.contains(id) || !self.graph.outputs.contains(id)
        };
        let mut outputs = Vec::with_capacity(plan.outputs.len());
        for ((id, output), array) in plan.outputs.iter().zip(&context.outputs) {
            if !is_wanted(id) {
                continue;
            }
            let value = match (output, array) {
                (PlanOutput::Constant(value), _) => Some(value.clone().into()),
                (PlanOutput::Array(operand, _), Some(array)) => {
                    Some(match plan.slots[operand.slot.0].home {
                        Home::Bound => SessionValue::Device(array.clone()),
                        _ => SessionValue::Host(read(array)?.into()),
                    })
                }
                _ => values.get(id).cloned().map(SessionValue::Host),
            };
            if let Some(value) = value {
                outputs.push((*id, value));
            }
        }
        context.last_run.set(Some(begin.elapsed()));
        Ok(outputs)
    }

    /// Runs an operator on the host.
    fn interpret(
        &self,
        node: usize,
        step: &Step,
        ready: &Ready,
        values: &mut HashMap<ValueId, Value>,
    ) -> Result<()> {
        let Step::Host { inputs, captured, outputs } = step else { return Ok(()) };
        let node = &self.graph.nodes[node];
        let mut arrays = ready.inputs.iter();
        let mut take = |input: &HostInput| -> Result<(ValueId, Value)> {
            Ok(match input {
                HostInput::Array(_, id) => {
                    let array = arrays.next().expect("each array should be made ready");
                    (*id, Value::Tensor(read(array)?))
                }
                HostInput::Constant(value, id) => (*id, value.clone()),
                HostInput::Value(id) => {
                    let missing = || polaris_onnx::Error::operands("an operand was not computed");
                    (*id, values.get(id).cloned().ok_or_else(missing)?)
                }
            })
        };
        let mut operands = Vec::with_capacity(inputs.len());
        for input in inputs {
            operands.push(input.as_ref().map(&mut take).transpose()?.map(|(_, value)| value));
        }
        let captured = captured.iter().map(&mut take).collect::<Result<HashMap<_, _>>>()?;
        let results = interpret_node(node, &operands, &Surroundings { runner: self, captured })?;
        let mut arrays = ready.outputs.iter();
        for (output, value) in outputs.iter().zip(results) {
            match output {
                HostOutput::Nowhere => {}
                HostOutput::Value(id) => {
                    values.insert(*id, value);
                }
                HostOutput::Array(_) => {
                    let array = arrays.next().expect("each array should be made ready");
                    write(array, value.tensor()?).map_err(|error| match error {
                        Error::Onnx(error) => error.at(node).into(),
                        other => other,
                    })?;
                }
            }
        }
        Ok(())
    }
}

/// What surrounds an operator that runs on the host.
struct Surroundings<'a> {
    runner: &'a Runner,
    captured: HashMap<ValueId, Value>,
}

impl Scope for Surroundings<'_> {
    fn value(&self, id: ValueId) -> Option<Value> {
        self.captured.get(&id).cloned()
    }

    fn evaluate(
        &self,
        graph: &Arc<Graph>,
        inputs: &[Option<Value>],
        captured: &[Value],
    ) -> polaris_onnx::Result<Vec<Value>> {
        let inputs = graph.inputs.iter().zip(inputs);
        let mut given: Vec<(ValueId, Value)> =
            inputs.filter_map(|(&id, value)| Some((id, value.clone()?))).collect();
        let captures = graph.captures.iter().zip(captured);
        given.extend(captures.map(|(capture, value)| (capture.inner, value.clone())));
        self.runner.inner(graph).run_on_host(given, &graph.outputs).map_err(|error| match error {
            Error::Onnx(error) => error,
            other => polaris_onnx::Error::operands(other.to_string()),
        })
    }
}

/// A tensor into a dense array, which was made for its type and shape.
fn write(array: &Array, tensor: &Tensor) -> Result<()> {
    let expected = (element_of(array.dtype()), array.shape().dims());
    if expected != (tensor.element(), tensor.shape()) {
        let found = (tensor.element(), tensor.shape());
        let why = format!("{expected:?} was foreseen, {found:?} was made");
        return Err(polaris_onnx::Error::operands(why).into());
    }
    Ok(dense_part(array)?.write_bytes(tensor.bytes()?)?)
}
