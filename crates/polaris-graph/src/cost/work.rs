//! What an instruction has to do, whatever device does it: operations, bytes, and how much of it can be
//! done at once.

use polaris_core::Layout;

use crate::plan::{Action, HostInput, HostOutput, Instruction, Operand, Step};

/// What an instruction has to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Work {
    /// Additions and multiplications; a function of an element counts as one.
    pub flops: u64,
    /// Bytes that must be read and written, each once.
    pub bytes: u64,
    /// Results that do not wait for one another: a device with more lanes than that has idle ones.
    pub parallelism: u64,
}

/// Instructions that reach about the same share of what a device can do.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "snake_case")]
#[allow(missing_docs, reason = "each is what its name says")]
pub enum Class {
    Convolution,
    MatMul,
    Attention,
    /// One result for each element.
    Elementwise,
    /// Reductions, normalisations, softmax: few passes over all elements.
    Reduction,
    Pooling,
    /// Copies, padding, fills.
    Movement,
    /// Look-ups, scatters, sorts.
    Indexing,
    /// Between host and device.
    Transfer,
    /// Operators that are interpreted.
    Host,
}

impl Class {
    /// The class of an instruction.
    pub fn of(step: &Step) -> Self {
        match step {
            Step::Transfer { .. } => Self::Transfer,
            Step::Host { .. } => Self::Host,
            Step::Device { action, .. } => match action {
                Action::Convolution(_)
                | Action::FusedConvolution(_)
                | Action::ByteConvolution(_)
                | Action::PackedConvolution(..)
                | Action::TransposedConvolution(_) => Self::Convolution,
                Action::MatMul(_) | Action::PackedMatMul(..) => Self::MatMul,
                Action::Attention(_) => Self::Attention,
                Action::Reduce(_) | Action::Norm(_) | Action::Softmax(_) | Action::CumSum(_) => {
                    Self::Reduction
                }
                Action::Pool(_) => Self::Pooling,
                Action::Copy(_) | Action::Fill(_) | Action::Remap(_) => Self::Movement,
                Action::Lookup(_) | Action::Scatter(_) | Action::ArgSort(_) => Self::Indexing,
                _ => Self::Elementwise,
            },
        }
    }

    /// The share of the roofline that such instructions usually reach, until something was measured.
    pub const fn usual_efficiency(self) -> f64 {
        match self {
            Self::MatMul => 0.6,
            Self::Convolution | Self::Attention => 0.4,
            Self::Elementwise | Self::Movement | Self::Transfer => 0.6,
            Self::Reduction => 0.4,
            Self::Pooling | Self::Indexing => 0.2,
            // The interpreter computes element by element, in f64, on one thread.
            Self::Host => 0.005,
        }
    }
}

impl Work {
    /// The work of an instruction. Of what the interpreter does only the traffic is known.
    pub fn of(instruction: &Instruction) -> Self {
        match &instruction.step {
            Step::Device { action, inputs, output } => Self::of_action(action, inputs, output),
            Step::Transfer { output, .. } => {
                let bytes = 2 * bytes(output);
                Self { flops: 0, bytes, parallelism: output.layout.elements() as u64 }
            }
            Step::Host { inputs, captured, outputs } => {
                let read = inputs.iter().flatten().chain(captured).map(|input| match input {
                    HostInput::Array(operand, _) => bytes(operand),
                    HostInput::Constant(polaris_onnx::Value::Tensor(tensor), _) => {
                        (tensor.elements() * tensor.element().size()) as u64
                    }
                    _ => 0,
                });
                let written = outputs.iter().map(|output| match output {
                    HostOutput::Array(operand) => bytes(operand),
                    _ => 0,
                });
                Self { flops: 0, bytes: read.chain(written).sum(), parallelism: 1 }
            }
        }
    }

    /// The work of an operation on these operands.
    pub fn of_action(action: &Action, inputs: &[Operand], output: &Operand) -> Self {
        let results = output.layout.elements() as u64;
        let read =
            |index: usize| inputs.get(index).map_or(0, |input| input.layout.elements() as u64);
        let dims =
            |index: usize| inputs.get(index).map_or(&[][..], |input| &input.layout.shape()[..]);
        let product = |dims: &[usize]| dims.iter().map(|&length| length as u64).product::<u64>();
        let flops = match action {
            Action::MatMul(_) | Action::PackedMatMul(..) => {
                2 * results * dims(0).last().map_or(1, |&k| k as u64)
            }
            Action::PackedConvolution(_, weight) => 2 * results * product(&weight.shape()[1..]),
            Action::ByteConvolution(weight) => 2 * results * product(&weight.shape()[1..]),
            Action::Convolution(_) | Action::FusedConvolution(_) => {
                2 * results * product(dims(1).get(1..).unwrap_or(&[]))
            }
            Action::TransposedConvolution(_) => {
                2 * read(0) * product(dims(1).get(1..).unwrap_or(&[]))
            }
            Action::Attention(_) => {
                // Two products with the keys' length in the middle or as the result's.
                let keys = dims(1);
                let length = keys.len().checked_sub(2).map_or(1, |axis| keys[axis] as u64);
                4 * read(0) * length
            }
            Action::Reduce(_) | Action::Pool(_) | Action::CumSum(_) | Action::Scatter(_) => read(0),
            // The largest, the difference and its exponential, the sum, the quotient.
            Action::Softmax(_) => 4 * read(0),
            // Two moments, and what is done with them.
            Action::Norm(_) => 6 * read(0),
            Action::BatchNorm(_) => 2 * results,
            Action::ArgSort(_) => read(0) * u64::from(read(0).max(2).ilog2()),
            Action::Fused(expression) => {
                let functions =
                    expression.nodes().iter().filter(|node| !node.arguments().is_empty());
                results * functions.count().max(1) as u64
            }
            Action::Copy(_) | Action::Fill(_) | Action::Lookup(_) | Action::Remap(_) => 0,
            _ => results,
        };
        let read_bytes = match action {
            // As much of the table as there are results.
            Action::Lookup(_) => bytes(output) + inputs.first().map_or(0, bytes),
            _ => inputs.iter().map(bytes).sum(),
        };
        let parallelism = match action {
            Action::Reduce(_) => read(0),
            _ => results,
        };
        Self { flops, bytes: read_bytes + bytes(output), parallelism: parallelism.max(1) }
    }
}

/// Bytes that an operand is made of; elements that a view repeats count once.
fn bytes(operand: &Operand) -> u64 {
    (distinct(&operand.layout) * operand.dtype.size()) as u64
}

fn distinct(layout: &Layout) -> usize {
    if layout.elements() == 0 {
        return 0;
    }
    let lengths = layout.shape().iter().zip(layout.strides());
    lengths.filter(|(_, stride)| **stride > 0).map(|(&length, _)| length).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SlotId;
    use polaris_core::{DType, Shape};
    use polaris_ops::{Convolution, MatMul};

    fn operand(dims: &[usize]) -> Operand {
        let layout = Layout::contiguous(Shape::new(dims).unwrap());
        Operand { slot: SlotId(0), dtype: DType::F32, layout }
    }

    #[test]
    fn products_count_two_operations_for_each_pair() {
        let inputs = [operand(&[3, 5]), operand(&[5, 7])];
        let work = Work::of_action(&Action::MatMul(MatMul::default()), &inputs, &operand(&[3, 7]));
        assert_eq!(work, Work { flops: 2 * 3 * 5 * 7, bytes: 4 * (15 + 35 + 21), parallelism: 21 });
        // A group sees its own channels only, which is what the weights hold.
        let inputs = [operand(&[1, 8, 6, 6]), operand(&[8, 1, 3, 3])];
        let action = Action::Convolution(Convolution { groups: 8, ..Convolution::default() });
        let work = Work::of_action(&action, &inputs, &operand(&[1, 8, 4, 4]));
        assert_eq!(work.flops, 2 * 8 * 16 * 9);
    }

    #[test]
    fn repeated_elements_are_read_once() {
        let mut bias = operand(&[1, 7]);
        bias.layout = bias.layout.broadcast_to("test", &Shape::new(&[100, 7]).unwrap()).unwrap();
        let action = Action::Copy(polaris_ops::copy::Copy);
        let work = Work::of_action(&action, &[bias], &operand(&[100, 7]));
        assert_eq!((work.flops, work.bytes), (0, 4 * (7 + 700)));
    }
}
