//! What is done when all nodes are lowered: what nobody reads goes, what follows one another is fused, and
//! everything gets its place in memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use polaris_onnx::ValueId;

use super::{Builder, Located};
use crate::plan::fuse::fuse;
use crate::plan::given::copy_from_given;
use crate::plan::memory::{place, share_in_place};
use crate::plan::unused::remove_unused;
use crate::plan::{Plan, PlanInput, PlanOutput, Rest};
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
        let mut wanted: Vec<ValueId> = Vec::new();
        let needed = deferred.iter().flat_map(|&node| graph.nodes[node].needs());
        for id in graph.outputs.iter().copied().chain(needed) {
            if !made.contains(&id) && !wanted.contains(&id) && self.is_there(id) {
                wanted.push(id);
            }
        }
        let mut outputs = Vec::new();
        for &id in &wanted {
            outputs.push((id, self.plan_output(id)?));
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
                .filter(|id| {
                    deferred.iter().any(|&node| graph.nodes[node].needs().any(|need| need == **id))
                })
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

    pub(super) fn lost(&self, id: ValueId) -> Error {
        let name = &self.request.graph.value(id).name;
        polaris_onnx::Error::operands(format!("`{name}` is nowhere")).into()
    }
}
