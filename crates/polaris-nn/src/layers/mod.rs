//! The usual layers, with PyTorch's names for their parameters and PyTorch's way to begin.

mod activation;
mod attention;
mod convolution;
mod dropout;
mod embedding;
mod linear;
mod norm;
mod pooling;
mod recurrent;
mod sequential;
mod transformer;

pub use activation::Activation;
pub use attention::MultiheadAttention;
pub use convolution::{Conv, TransposedConv};
pub use dropout::Dropout;
pub use embedding::Embedding;
pub use linear::Linear;
pub use norm::{BatchNorm, GroupNorm, LayerNorm, RmsNorm};
pub use pooling::{Flatten, Pooling};
pub use recurrent::{GruCell, LstmCell};
pub use sequential::Sequential;
pub use transformer::{TransformerBlock, TransformerShape};
