//! Models of ONNX with layers of integers, after training: from a float model and histograms of its activations to one
//! with QuantizeLinear and DequantizeLinear around its layers. Weights have 8 or 4 bits ([`WeightLevels`]).
//!
//! [`Float`] is the model as it is quantised: normalisations are folded, layers are found ([`Layer`]), and it says which
//! tensors need ranges. An [`Observer`] runs it on data and counts what they hold. [`Float::quantize`] writes the model;
//! [`Distortion`] measures what it costs, layer by layer. Before the ranges are counted, [`equalize`](Float::equalize) and
//! [`smooth`](Float::smooth) may even out channels; afterwards a [`WeightSearch`] may choose levels by what they are
//! multiplied with, and [`Shift`] finds the means by which rounded weights move results, which `quantize` takes out of the
//! biases.

mod compare;
mod distortion;
mod equalize;
mod graph;
mod layer;
mod prepare;
mod ranges;
mod regions;
mod rewrite;
mod run;
mod shift;
mod smooth;
mod weights;

pub use compare::{Classes, Comparison, Output};
pub use distortion::{Distortion, Noise};
pub use layer::{Layer, Treatment, WeightLevels};
pub use prepare::Float;
pub use rewrite::{Activations, QuantizeOptions, Quantized, QuantizedTensor, Weights};
pub use run::{Batch, Observer};
pub use shift::{Shift, Shifts};
pub use smooth::Magnitudes;
pub use weights::{SearchOptions, WeightSearch};
