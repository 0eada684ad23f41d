//! What matrices of a model are multiplied with: the activations that calibration looks at.

use polaris_ops::{ExpertMatMul, MatMul};

use crate::Result;
use crate::plan::Step;
use crate::weights::Weights;

/// The rows that a step multiplies with a matrix.
#[derive(Debug, Clone, Copy)]
pub struct Observation<'a> {
    /// The name of the tensor in the file, `blk.3.ffn_down_exps.weight`. Of files that have keys and values of latent
    /// attention in one matrix, `attn_kv_b`, it is that one, and rows are those that are multiplied with its values.
    pub name: &'a str,
    /// Elements of each row: of the last dimension of the tensor.
    pub columns: usize,
    /// The rows, one after the other.
    pub rows: &'a [f32],
    /// The matrices of the tensor: experts, heads, or one.
    pub matrices: usize,
    /// Of a tensor with several matrices, which of them rows are multiplied with: as many for each row, in the order of
    /// rows. Empty for a tensor of one matrix.
    pub chosen: &'a [u32],
}

impl<'a> Observation<'a> {
    /// Each row, with the numbers of the matrices that it is multiplied with.
    pub fn pairs(&self) -> impl Iterator<Item = (&'a [f32], &'a [u32])> {
        let Self { columns, rows, chosen, .. } = *self;
        let columns = columns.max(1);
        let each = chosen.len() / (rows.len() / columns).max(1);
        rows.chunks_exact(columns).enumerate().map(move |(number, row)| match each {
            0 => (row, &[0][..]),
            _ => (row, &chosen[number * each..][..each]),
        })
    }
}

/// Someone who is shown what a model multiplies, step by step, in the order of the layers. Look-ups in embeddings, norms
/// and convolutions along tokens are no products with a matrix.
pub trait Observe {
    /// A step is done.
    fn observe(&mut self, seen: &Observation<'_>);
}

/// Shows steps to an observer.
pub(crate) struct Watch<'a> {
    weights: &'a Weights,
    observer: &'a mut dyn Observe,
}

impl<'a> Watch<'a> {
    pub fn new(weights: &'a Weights, observer: &'a mut dyn Observe) -> Self {
        Self { weights, observer }
    }

    /// Shows a step that has run, if it multiplies with a matrix of the file. Its inputs are still there: no operation
    /// writes over them.
    pub fn step(&mut self, step: &Step) -> Result<()> {
        let is_experts = step.operation.fixed::<ExpertMatMul>().is_some();
        let is_product = is_experts || step.operation.fixed::<MatMul>().is_some();
        let [x, weight, ..] = &step.inputs[..] else { return Ok(()) };
        let Some((name, whole)) = self.weights.origin(weight).filter(|_| is_product) else {
            return Ok(());
        };
        let (dims, columns) = (whole.shape().dims(), x.shape().last().copied().unwrap_or(0));
        // What multiplies otherwise is no matrix: the scales of experts, one for each.
        if dims.last() != Some(&columns) || whole.elements() == 0 {
            return Ok(());
        }
        let rows: Vec<f32> = x.to_vec()?;
        let matrices = dims[..dims.len().saturating_sub(2)].iter().product();
        let numbers = match (matrices, is_experts) {
            (1, _) => Vec::new(),
            (_, true) => step.inputs[2].to_vec::<i32>()?,
            (_, false) => vec![0; rows.len() / columns],
        };
        // A step may have a part of the tensor alone.
        let first = weight.layout().offset() - whole.layout().offset();
        let stride = weight.layout().strides()[0];
        let matrix = whole.elements() / matrices;
        let chosen = numbers.into_iter().map(|number| (first + number as usize * stride) / matrix);
        let chosen: Vec<u32> = chosen.map(|number| number as u32).collect();
        let seen = Observation { name, columns, rows: &rows, matrices, chosen: &chosen };
        self.observer.observe(&seen);
        Ok(())
    }
}
