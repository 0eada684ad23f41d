//! Plans as text.

use std::fmt;

use polaris_onnx::Graph;
use polaris_runtime::Bytes;

use super::{Home, HostInput, HostOutput, Operand, Plan, Side, Step};

/// A plan beside the graph that it was made for.
pub struct PlanText<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// Its graph.
    pub graph: &'a Graph,
}

impl fmt::Display for PlanText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (id, input) in self.plan.inputs.iter().map(|input| (input.id, &input.operand)) {
            let name = &self.graph.value(id).name;
            match input {
                Some(operand) => writeln!(f, "      input   {name} = {}", self.place(operand))?,
                None => writeln!(f, "      input   {name}")?,
            }
        }
        for (at, instruction) in self.plan.instructions.iter().enumerate() {
            let row = self.plan.row(self.graph, at);
            let side = instruction.side.name();
            writeln!(
                f,
                "{at:5} {side} {:<24} {} <- {}  ; {}",
                row.name, row.outputs, row.inputs, row.node
            )?;
        }
        for (id, output) in &self.plan.outputs {
            let name = &self.graph.value(*id).name;
            match output {
                super::PlanOutput::Array(operand, _) => {
                    writeln!(f, "      output  {name} = {}", self.place(operand))?;
                }
                super::PlanOutput::Value => writeln!(f, "      output  {name}")?,
                super::PlanOutput::Constant(_) => writeln!(f, "      output  {name} is constant")?,
            }
        }
        for side in Side::ALL {
            let bytes = self.plan.arena_bytes(side);
            if bytes > 0 {
                writeln!(f, "arena of {}: {}", side.name(), Bytes(bytes as u64))?;
            }
        }
        if let Some(rest) = &self.plan.rest {
            let nodes = rest.nodes.len();
            writeln!(f, "{nodes} more nodes are planned when their shapes are known")?;
        }
        Ok(())
    }
}

impl PlanText<'_> {
    fn place(&self, operand: &Operand) -> String {
        self.plan.place(operand)
    }
}

/// An instruction in words.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Row {
    /// What happens.
    pub name: String,
    /// Where.
    pub side: Side,
    /// The node that it is part of.
    pub node: String,
    /// What it reads.
    pub inputs: String,
    /// What it writes.
    pub outputs: String,
}

impl Plan {
    /// An instruction in words.
    pub fn row(&self, graph: &Graph, at: usize) -> Row {
        let instruction = &self.instructions[at];
        let node = &graph.nodes[instruction.node];
        let list = |operands: &[Operand]| {
            operands.iter().map(|operand| self.place(operand)).collect::<Vec<String>>().join(", ")
        };
        let (name, inputs, outputs) = match &instruction.step {
            Step::Device { action, inputs, output } => {
                (action.name().to_owned(), list(inputs), self.place(output))
            }
            Step::Transfer { input, output } => {
                let name = format!("copy_to_{}", instruction.side.name());
                (name, self.place(input), self.place(output))
            }
            Step::Host { inputs, outputs, .. } => {
                let input = |input: &Option<HostInput>| match input {
                    None => "_".to_owned(),
                    Some(HostInput::Array(operand, _)) => self.place(operand),
                    Some(HostInput::Constant(_, id) | HostInput::Value(id)) => {
                        format!("%{}", graph.value(*id).name)
                    }
                };
                let output = |output: &HostOutput| match output {
                    HostOutput::Nowhere => "_".to_owned(),
                    HostOutput::Array(operand) => self.place(operand),
                    HostOutput::Value(id) => format!("%{}", graph.value(*id).name),
                };
                let name = format!("host:{}", node.operator_name());
                let inputs = inputs.iter().map(input).collect::<Vec<String>>().join(", ");
                (name, inputs, outputs.iter().map(output).collect::<Vec<String>>().join(", "))
            }
        };
        Row { name, side: instruction.side, node: node.path.clone(), inputs, outputs }
    }

    /// An operand in words: its type and shape, and where it lies.
    fn place(&self, operand: &Operand) -> String {
        let slot = &self.slots[operand.slot.0];
        let dims: Vec<String> = operand.layout.shape().iter().map(usize::to_string).collect();
        let view = if operand.layout.is_contiguous() { "" } else { "~" };
        let ty = format!("{}[{}]{view}", operand.dtype, dims.join("x"));
        match &slot.home {
            Home::Constant(_) => format!("{ty}@{}", slot.name),
            Home::Arena { chunk: 0, offset } => format!("{ty}+{offset}"),
            Home::Arena { chunk, offset } => format!("{ty}+{chunk}:{offset}"),
        }
    }
}
