//! Fourier transforms and windows.

mod dft;
mod fourier;
mod mel;
mod window;

use super::{Call, Operator};
use crate::{Error, Result};

pub(super) const OPERATORS: &[(&str, Operator)] = &[
    ("BlackmanWindow", window::blackman),
    ("DFT", dft::dft),
    ("HammingWindow", window::hamming),
    ("HannWindow", window::hann),
    ("MelWeightMatrix", mel::mel_weight_matrix),
    ("STFT", dft::stft),
];

/// An operand that must be a single length.
fn single_length(call: &Call<'_>, index: usize) -> Result<Option<usize>> {
    let Some(tensor) = call.optional(index)? else { return Ok(None) };
    match tensor.to_i64()?.as_slice() {
        [value] => super::shape::length(*value).map(Some),
        other => Err(Error::operands(format!("{} lengths were given, not one", other.len()))),
    }
}
