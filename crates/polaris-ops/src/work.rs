//! The work of an operation on any device: arithmetic, memory traffic and parallelism.

use crate::ArrayType;

/// What an operation has to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Work {
    /// Additions and multiplications; a function of an element counts as one.
    pub flops: u64,
    /// Bytes that must be read and written, each once.
    pub bytes: u64,
    /// Results that do not wait for one another: a device with more lanes than that has idle ones.
    pub parallelism: u64,
}

/// Operations that reach about the same share of what a device can do.
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
    /// Between host and device; no operation is of this class.
    Transfer,
    /// Interpreted on the host; no operation is of this class.
    Host,
}

impl Class {
    /// The share of the roofline that operations usually reach, until something was measured.
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
    /// Some arithmetic on arrays that are all read once.
    pub fn new(flops: u64, inputs: &[ArrayType], output: &ArrayType) -> Self {
        let read: usize = inputs.iter().map(ArrayType::bytes).sum();
        let parallelism = elements(output).max(1);
        Self { flops, bytes: (read + output.bytes()) as u64, parallelism }
    }

    /// So many operations for each element of the first input.
    pub(crate) fn per_input(each: u64, inputs: &[ArrayType], output: &ArrayType) -> Self {
        Self::new(each * inputs.first().map_or(0, elements), inputs, output)
    }

    /// So many operations for each element of the output.
    pub(crate) fn per_result(each: u64, inputs: &[ArrayType], output: &ArrayType) -> Self {
        Self::new(each * elements(output), inputs, output)
    }
}

/// The number of elements.
pub(crate) fn elements(array: &ArrayType) -> u64 {
    array.layout.elements() as u64
}

/// The product of the lengths of an input's axes from one on.
pub(crate) fn lengths_from(inputs: &[ArrayType], input: usize, axis: usize) -> u64 {
    let lengths = inputs.get(input).and_then(|array| array.layout.shape().get(axis..));
    lengths.unwrap_or(&[]).iter().map(|&length| length as u64).product()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Convolution, Format, MatMul, Operation, copy};
    use polaris_core::{DType, Layout, Shape};

    fn array(dims: &[usize]) -> ArrayType {
        let layout = Layout::contiguous(Shape::new(dims).unwrap());
        ArrayType { dtype: DType::F32, format: Format::Dense, layout }
    }

    #[test]
    fn products_count_two_operations_for_each_pair() {
        let inputs = [array(&[3, 5]), array(&[5, 7])];
        let work = MatMul::default().work(&inputs, &array(&[3, 7]));
        assert_eq!(work, Work { flops: 2 * 3 * 5 * 7, bytes: 4 * (15 + 35 + 21), parallelism: 21 });
        // A group sees its own channels only, which is what the weights hold.
        let inputs = [array(&[1, 8, 6, 6]), array(&[8, 1, 3, 3])];
        let op = Convolution { groups: 8, ..Convolution::default() };
        assert_eq!(op.work(&inputs, &array(&[1, 8, 4, 4])).flops, 2 * 8 * 16 * 9);
    }

    #[test]
    fn repeated_elements_are_read_once_and_blocks_as_they_are() {
        let mut bias = array(&[1, 7]);
        bias.layout = bias.layout.broadcast_to("test", &Shape::new(&[100, 7]).unwrap()).unwrap();
        let work = copy::Copy.work(&[bias], &array(&[100, 7]));
        assert_eq!((work.flops, work.bytes), (0, 4 * (7 + 700)));
        let blocks = ArrayType { format: Format::Block(crate::Block::Q4_0), ..array(&[64, 32]) };
        let work = copy::Copy.work(&[blocks], &array(&[64, 32]));
        assert_eq!(work.bytes, 64 * 18 + 4 * 64 * 32);
    }
}
