//! The usual layers, with PyTorch's names for their parameters and PyTorch's way to begin.

mod activation;
mod attention;
mod convolution;
mod dropout;
mod embedding;
mod grouped_attention;
mod linear;
mod norm;
mod pooling;
mod recurrent;
mod rotary;
mod sequential;
mod swiglu;
mod transformer;

pub use activation::Activation;
pub use attention::MultiheadAttention;
pub use convolution::{Conv, TransposedConv};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use grouped_attention::GroupedQueryAttention;
pub(crate) use grouped_attention::head_size;
pub use linear::Linear;
pub use norm::{BatchNorm, GroupNorm, LayerNorm, RmsNorm};
pub use pooling::{Flatten, Pooling};
pub use recurrent::{GruCell, LstmCell};
pub use rotary::Rotary;
pub use sequential::Sequential;
pub use swiglu::SwiGlu;
pub use transformer::{TransformerBlock, TransformerShape};
