//! Nodes that are interpreted on the host.

use polaris_onnx::{Node, ValueId};

use super::Builder;
use crate::Result;
use crate::plan::types::array_type;
use crate::plan::{HostInput, HostOutput, Side, Step};

impl Builder<'_> {
    /// An instruction that interprets the node on the host.
    pub(super) fn interpret(&mut self, node: &Node) -> Result<()> {
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for id in &node.inputs {
            inputs.push(match id {
                Some(id) => Some(self.host_input(*id)?),
                None => None,
            });
        }
        let outer: Vec<ValueId> = node
            .attributes
            .graphs()
            .flat_map(|graph| graph.captures.iter().map(|capture| capture.outer))
            .collect();
        let captured =
            outer.into_iter().map(|id| self.host_input(id)).collect::<Result<Vec<_>>>()?;
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for output in &node.outputs {
            let Some(id) = *output else {
                outputs.push(HostOutput::Nowhere);
                continue;
            };
            let ty = self.facts[id.index()].ty.clone();
            outputs.push(match ty.as_ref().and_then(array_type) {
                Some((dtype, shape)) => {
                    let name = &self.request.graph.value(id).name;
                    let operand = self.slot_for(name, Side::Cpu, dtype, shape);
                    self.located[id.index()].places[Side::Cpu.index()] = Some(operand);
                    HostOutput::Array(operand)
                }
                None => {
                    self.located[id.index()].value = true;
                    HostOutput::Value(id)
                }
            });
        }
        self.push(Step::Host { inputs, captured, outputs }, Side::Cpu);
        Ok(())
    }

    fn host_input(&mut self, id: ValueId) -> Result<HostInput> {
        if let Some(value) = self.constants.get(&id) {
            return Ok(HostInput::Constant(value.clone(), id));
        }
        if self.located[id.index()].value {
            return Ok(HostInput::Value(id));
        }
        let operand = self.operand_on(id, Side::Cpu)?;
        Ok(HostInput::Array(self.dense(operand), id))
    }
}
