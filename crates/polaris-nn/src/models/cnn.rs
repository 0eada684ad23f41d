//! Convolutions, pooling and linear layers.

use polaris_ops::Convolution;
use serde::{Deserialize, Serialize};

use super::Ends;
use crate::layers::{Activation, BatchNorm, Conv, Dropout, Flatten, Linear, Pooling, Sequential};
use crate::{Error, Init, Result};

/// Convolutions, each with an activation, then pooling and linear layers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cnn {
    /// Channels of each convolution.
    pub channels: Vec<usize>,
    /// The length of their square kernels.
    pub kernel: usize,
    /// Zeros around images; half the kernel keeps their size.
    pub padding: usize,
    /// Whether each channel is normalised over the batch.
    pub batch_norm: bool,
    /// After which convolutions, counted from 1, the largest of each 2 x 2 elements is taken.
    pub pool_after: Vec<usize>,
    /// Elements of each hidden linear layer.
    pub hidden: Vec<usize>,
    /// The probability that an element before a linear layer is left out in training.
    pub dropout: f64,
}

impl Default for Cnn {
    fn default() -> Self {
        Self {
            channels: vec![32, 64],
            kernel: 3,
            padding: 1,
            batch_norm: true,
            pool_after: vec![2],
            hidden: vec![128],
            dropout: 0.0,
        }
    }
}

impl Cnn {
    pub(super) fn build(&self, ends: &Ends, init: &mut Init) -> Result<Sequential> {
        let &[mut channels, mut rows, mut columns] = &ends.input[..] else {
            let what = format!(
                "a cnn needs images of [channels, rows, columns], but examples have dimensions {:?}; \
                 set data.dims, or use an mlp",
                ends.input
            );
            return Err(Error::invalid(what));
        };
        if self.kernel == 0 || self.channels.contains(&0) || self.hidden.contains(&0) {
            let what =
                "model.kernel, and each of model.channels and model.hidden, must be at least 1";
            return Err(Error::invalid(what));
        }
        if let Some(number) = self.pool_after.iter().find(|&&n| n == 0 || n > self.channels.len()) {
            let what = format!("model.pool_after: there is no convolution {number}");
            return Err(Error::invalid(what));
        }
        let mut layers = Sequential::new();
        for (index, &next) in self.channels.iter().enumerate() {
            let number = index + 1;
            let problem = Convolution { padding: [self.padding; 2], ..Convolution::default() };
            let kernel = [self.kernel; 2];
            // What a bias adds, batch normalisation takes away again.
            let bias = !self.batch_norm;
            let conv = Conv::new([channels, next], &kernel, problem, bias, init)?;
            layers = layers.named(format!("conv{number}"), conv);
            if self.batch_norm {
                layers = layers.named(format!("norm{number}"), BatchNorm::new(next, init)?);
            }
            layers = layers.named(format!("relu{number}"), Activation::Relu);
            channels = next;
            for length in [&mut rows, &mut columns] {
                *length = (*length + 2 * self.padding + 1).saturating_sub(self.kernel);
            }
            if self.pool_after.contains(&number) {
                layers = layers.named(format!("pool{number}"), Pooling::max(&[2, 2])?);
                (rows, columns) = (rows / 2, columns / 2);
            }
            if rows == 0 || columns == 0 {
                let what = format!("nothing is left of the images after convolution {number}");
                return Err(Error::invalid(what));
            }
        }
        layers = layers.named("flatten", Flatten);
        let mut width = channels * rows * columns;
        for (index, &hidden) in self.hidden.iter().enumerate() {
            layers = layers
                .named(format!("dropout{index}"), Dropout::new(self.dropout)?)
                .named(format!("linear{index}"), Linear::new(width, hidden, true, init)?)
                .named(format!("activation{index}"), Activation::Relu);
            width = hidden;
        }
        Ok(layers.named("output", Linear::new(width, ends.outputs, true, init)?))
    }
}
