//! The name under which the time of an instruction is kept: what is computed, with which parameters, on arrays of
//! which types and layouts. Where they lie in memory is not part of it.

use polaris_onnx::Graph;
use polaris_ops::Format;

use crate::plan::{Home, HostInput, HostOutput, Instruction, Operand, Slot, Step};

/// Names longer than this end in a hash of the rest: some operations have many parameters.
const LONGEST: usize = 240;

/// The name of an instruction. The same name stands for the same work on every plan of every model.
pub fn signature(slots: &[Slot], graph: &Graph, instruction: &Instruction) -> String {
    let list = |operands: &[Operand]| -> String {
        let words: Vec<String> =
            operands.iter().map(|operand| of_operand(slots, operand)).collect();
        words.join(",")
    };
    let text = match &instruction.step {
        Step::Device { action, inputs, output } => {
            let (name, parameters) = (action.name(), action.parameters());
            format!("{name} {parameters} {}>{}", list(inputs), list(&[*output]))
        }
        Step::Transfer { output, .. } => {
            format!("copy_to_{} {}", instruction.side.name(), of_operand(slots, output))
        }
        Step::Host { inputs, captured, outputs } => {
            let node = &graph.nodes[instruction.node];
            let input = |input: &HostInput| match input {
                HostInput::Array(operand, _) => of_operand(slots, operand),
                HostInput::Constant(value, _) => format!("{}@", value.ty()),
                HostInput::Value(_) => "?".to_owned(),
            };
            let output = |output: &HostOutput| match output {
                HostOutput::Array(operand) => of_operand(slots, operand),
                _ => "?".to_owned(),
            };
            let read: Vec<String> = inputs.iter().flatten().chain(captured).map(input).collect();
            let written: Vec<String> = outputs.iter().map(output).collect();
            // Graphs inside differ from node to node, whatever goes into them.
            let inner = match node.attributes.graphs().next() {
                Some(_) => format!(" {}", node.path),
                None => String::new(),
            };
            let name = node.operator_name();
            format!("host:{name}{inner} {}>{}", read.join(","), written.join(","))
        }
    };
    shortened(text)
}

fn of_operand(slots: &[Slot], operand: &Operand) -> String {
    let join =
        |lengths: &[usize]| lengths.iter().map(usize::to_string).collect::<Vec<String>>().join("x");
    let layout = &operand.layout;
    let strides = match layout.is_contiguous() {
        true => String::new(),
        false => format!("/{}", join(layout.strides())),
    };
    // Constants may have been prepared once for all runs.
    let constant = matches!(slots[operand.slot.0].home, Home::Constant(_));
    let mark = if constant { "@" } else { "" };
    let stored = match operand.format {
        Format::Dense => operand.dtype.to_string(),
        other => format!("{} {other} ", operand.dtype),
    };
    format!("{stored}[{}{strides}]{mark}", join(layout.shape()))
}

fn shortened(text: String) -> String {
    if text.len() <= LONGEST {
        return text;
    }
    let mut end = LONGEST;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}..{:016x}", &text[..end], fingerprint(text.as_bytes()))
}

/// FNV-1a: the same on every machine and with every compiler, which the standard library's is not.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_apart() {
        let long = |last: &str| shortened("é".repeat(LONGEST) + last);
        assert_ne!(long("a"), long("b"));
        assert_eq!(long("a"), long("a"));
        assert!(long("a").len() < LONGEST + 30);
        assert_eq!(shortened("short".to_owned()), "short");
    }
}
