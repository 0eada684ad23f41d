//! The last steps after lowering: dead instructions are removed, epilogues are fused, and every slot gets its memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use polaris_onnx::ValueId;

use super::{Builder, Located};
use crate::plan::fuse::fuse;
use crate::plan::given::copy_from_given;
use crate::plan::memory::{place, share_in_place};
use crate::plan::unused::remove_unused;
use crate::plan::{Home, Plan, PlanInput, PlanOutput, Rest};
use crate::{Error, Result};

impl Builder<'_> {
    /// The plan.
    pub(super) fn finish(
        mut self,
        mut inputs: Vec<PlanInput>,
        deferred: Vec<usize>,
    ) -> Result<Plan> {
        let graph = self.request.graph;
        let made: HashSet<ValueId> = (deferred.iter())
            .flat_map(|&node| graph.nodes[node].outputs.iter().flatten().copied())
            .collect();
        let needed: Vec<ValueId> =
            deferred.iter().flat_map(|&node| graph.nodes[node].needs()).collect();
        let is_needed = |id: &ValueId| needed.contains(id);
        let mut wanted: Vec<ValueId> = Vec::new();
        for id in graph.outputs.iter().chain(&needed).copied() {
            if !made.contains(&id) && !wanted.contains(&id) && self.is_there(id) {
                wanted.push(id);
            }
        }
        let kept: Vec<ValueId> = match self.request.keeps_outputs {
            true => graph.outputs.iter().copied().filter(|id| !is_needed(id)).collect(),
            false => Vec::new(),
        };
        let mut outputs = Vec::new();
        for &id in &wanted {
            let output = self.plan_output(id)?;
            let output = if kept.contains(&id) { self.apart(output, &outputs) } else { output };
            outputs.push((id, output));
        }
        remove_unused(&mut self.instructions, self.slots.len(), &outputs);
        copy_from_given(&mut self.instructions, &self.slots, &mut inputs, &outputs);
        fuse(&mut self.instructions, &self.slots, &inputs, &outputs);
        if let Some(reorder) = self.request.reorder {
            let order = reorder(&self.instructions, &self.slots);
            self.instructions = order.iter().map(|&at| self.instructions[at].clone()).collect();
        }
        let value_bytes = self.value_bytes();
        share_in_place(&mut self.instructions, &self.slots, &inputs, &mut outputs);
        for (id, output) in &outputs {
            if let (PlanOutput::Array(operand, _), true) = (output, kept.contains(id)) {
                self.slots[operand.slot.0].home = Home::Bound;
            }
        }
        let arenas = place(
            &self.instructions,
            &mut self.slots,
            &inputs,
            &outputs,
            self.request.largest_chunk,
        );
        let rest = (!deferred.is_empty()).then(|| {
            let constants = (wanted.iter())
                .filter_map(|id| Some((*id, self.constants.get(id)?.clone())))
                .collect();
            let needs: Vec<ValueId> = (wanted.iter())
                .filter(|id| !self.constants.contains_key(id))
                .filter(|id| is_needed(id))
                .copied()
                .collect();
            Arc::new(Rest { nodes: deferred, needs, constants })
        });
        let (instructions, slots) = (self.instructions, self.slots);
        let prediction = None;
        Ok(Plan { instructions, slots, arenas, inputs, outputs, rest, value_bytes, prediction })
    }

    /// Bytes of all values that lie somewhere.
    fn value_bytes(&self) -> HashMap<ValueId, u64> {
        let places = self.located.iter().enumerate();
        let bytes = |(index, located): (usize, &Located)| {
            let id = ValueId(index as u32);
            let place = located.places.iter().flatten().next()?;
            let bytes = (place.layout.elements() * place.dtype.size()) as u64;
            (!self.constants.contains_key(&id)).then_some((id, bytes))
        };
        places.filter_map(bytes).collect()
    }

    /// Whether a value is made here, given or constant.
    fn is_there(&self, id: ValueId) -> bool {
        let located = &self.located[id.index()];
        self.constants.contains_key(&id)
            || located.value
            || located.places.iter().any(Option::is_some)
    }

    fn plan_output(&mut self, id: ValueId) -> Result<PlanOutput> {
        if let Some(value) = self.constants.get(&id) {
            return Ok(PlanOutput::Constant(value.clone()));
        }
        let located = self.located[id.index()];
        if located.value {
            return Ok(PlanOutput::Value);
        }
        let ty = self.facts[id.index()].ty.clone();
        let ty = ty.ok_or_else(|| self.lost(id))?;
        // Read from where it lies.
        let place = located.places[0].or(located.places[1]).ok_or_else(|| self.lost(id))?;
        Ok(PlanOutput::Array(self.dense(place), ty))
    }

    /// An output in a slot that no input, no constant and no other output has: it belongs to the caller.
    fn apart(&mut self, output: PlanOutput, others: &[(ValueId, PlanOutput)]) -> PlanOutput {
        let PlanOutput::Array(operand, ty) = output else { return output };
        let is_shared = !matches!(self.slots[operand.slot.0].home, Home::Arena { .. })
            || others.iter().any(|(_, other)| {
                matches!(other, PlanOutput::Array(other, _) if other.slot == operand.slot)
            });
        PlanOutput::Array(if is_shared { self.copied(operand) } else { operand }, ty)
    }

    pub(super) fn lost(&self, id: ValueId) -> Error {
        let name = &self.request.graph.value(id).name;
        polaris_onnx::Error::operands(format!("`{name}` is nowhere")).into()
    }
}
