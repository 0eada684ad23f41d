//! Plans as text.

use std::fmt;

use polaris_onnx::Graph;
use polaris_runtime::Bytes;

use super::{Home, HostInput, HostOutput, Operand, Origin, Plan, Prediction, Side, Step};

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
            let expected = row.predicted_us.map_or(String::new(), |us| format!("{us:>10.1} us "));
            writeln!(
                f,
                "{at:5} {side} {expected}{:<24} {} <- {}  ; {}",
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
        if let Some(prediction) = &self.plan.prediction {
            writeln!(f, "expected: {prediction}")?;
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

/// An instruction as text.
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
    /// How long it is expected to take, where the plan was chosen by that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_us: Option<f64>,
}

impl fmt::Display for Prediction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = |seconds: f64| format!("{:.3} ms", seconds * 1e3);
        let [cpu, gpu, hybrid] = [self.cpu, self.gpu, self.hybrid].map(milliseconds);
        write!(f, "cpu {cpu}, gpu {gpu}, hybrid {hybrid}")?;
        if let Some(tried) = &self.tried {
            let tried = [("cpu", tried.cpu), ("gpu", tried.gpu), ("hybrid", tried.hybrid)];
            let words: Vec<String> = (tried.iter())
                .filter_map(|(name, seconds)| Some(format!("{name} {}", milliseconds((*seconds)?))))
                .collect();
            write!(f, "; tried: {}", words.join(", "))?;
        }
        write!(f, "; chosen: {}", self.chosen.name())
    }
}

impl Plan {
    /// An instruction as text.
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
                let from = match input {
                    Origin::Array(input) => self.place(input),
                    Origin::Given(id) => format!("%{}", graph.value(*id).name),
                };
                (name, from, self.place(output))
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
        let seconds = self.prediction.as_ref().and_then(|known| known.instructions.get(at));
        let predicted_us = seconds.map(|seconds| seconds * 1e6);
        let side = instruction.side;
        Row { name, side, node: node.path.clone(), inputs, outputs, predicted_us }
    }

    /// An operand as text: its type and shape, and where it lies.
    fn place(&self, operand: &Operand) -> String {
        let slot = &self.slots[operand.slot.0];
        let dims: Vec<String> = operand.layout.shape().iter().map(usize::to_string).collect();
        let view = if operand.layout.is_contiguous() { "" } else { "~" };
        let ty = format!("{}[{}]{view}", operand.dtype, dims.join("x"));
        match &slot.home {
            Home::Bound => format!("{ty}={}", slot.name),
            Home::Constant(_) => format!("{ty}@{}", slot.name),
            Home::Arena { chunk: 0, offset } => format!("{ty}+{offset}"),
            Home::Arena { chunk, offset } => format!("{ty}+{chunk}:{offset}"),
        }
    }
}
