//! Layers of networks: convolution, pooling, normalisation, recurrence.

mod activation;
mod channel_norm;
mod conv;
mod conv_transpose;
mod deform_conv;
mod layer_norm;
mod layers;
mod max_pool;
mod norm;
mod pool;
mod recurrent;
mod window;

pub use self::window::{Window, windows};
use super::Operator;

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("AveragePool", pool::average_pool),
    ("BatchNormalization", channel_norm::batch_normalization),
    ("CausalConvWithState", conv::causal_conv_with_state),
    ("Conv", conv::conv),
    ("ConvInteger", conv::conv_integer),
    ("ConvTranspose", conv_transpose::conv_transpose),
    ("DeformConv", deform_conv::deform_conv),
    ("GRU", layers::gru),
    ("GlobalAveragePool", pool::global_average_pool),
    ("GlobalLpPool", pool::global_lp_pool),
    ("GlobalMaxPool", pool::global_max_pool),
    ("GroupNormalization", channel_norm::group_normalization),
    ("InstanceNormalization", channel_norm::instance_normalization),
    ("LRN", norm::lrn),
    ("LSTM", layers::lstm),
    ("LayerNormalization", layer_norm::layer_normalization),
    ("LpNormalization", norm::lp_normalization),
    ("LpPool", pool::lp_pool),
    ("MaxPool", max_pool::max_pool),
    ("MaxUnpool", max_pool::max_unpool),
    ("MeanVarianceNormalization", norm::mean_variance_normalization),
    ("QLinearConv", conv::qlinear_conv),
    ("RMSNormalization", layer_norm::rms_normalization),
    ("RNN", layers::rnn),
];
