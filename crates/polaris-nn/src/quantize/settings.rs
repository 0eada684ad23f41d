//! What is quantised in a training, with how many bits, and when.

use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// How scales are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scales {
    /// They are parameters: they begin with the least squared error and follow their gradients.
    #[default]
    Learned,
    /// From the extremes: of the weights as they are, of activations a moving mean of those of batches.
    Range,
    /// As `range`, of the part of it with the least squared error.
    Mse,
}

/// What is quantised, and when; by default nothing.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Quantize {
    /// Bits of the weights of linear layers and convolutions; 0 for those they have.
    pub weights: u32,
    /// Bits of what these layers read; 0 for those they have.
    pub activations: u32,
    /// Bits of the model's result; 0 for those it has.
    pub output: u32,
    /// Bits of the first layer's weights; 0 for as many as the others have.
    pub first: u32,
    /// Bits of the last layer's weights; 0 for as many as the others have.
    pub last: u32,
    /// Consecutive weights of an output that share a scale; 0 for all of them.
    pub group: usize,
    /// How scales are found.
    pub scales: Scales,
    /// Epochs before anything is quantised.
    pub after: u64,
    /// Bits that weights begin with, to be raised one by one; 0 for those they end with.
    pub start: u32,
    /// Epochs after which a bit is added; 0 for never.
    pub raise_every: u64,
    /// Evaluations without a smaller loss after which a bit is added; 0 for never.
    pub raise_patience: u64,
}

/// Numbers of bits that there are integers of.
const BITS: std::ops::RangeInclusive<u32> = 2..=8;

impl Quantize {
    /// Whether nothing is quantised.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// Bits that weights begin with.
    pub(super) fn first_bits(&self) -> u32 {
        if self.start == 0 { self.weights } else { self.start }
    }

    /// Checks what the types do not.
    ///
    /// # Errors
    /// If a number makes no sense, with what would.
    pub fn check(&self) -> Result<()> {
        let Self { weights, activations, output, first, last, group, start, .. } = *self;
        for (key, bits) in [
            ("weights", weights),
            ("activations", activations),
            ("output", output),
            ("first", first),
            ("last", last),
            ("start", start),
        ] {
            if bits != 0 && !BITS.contains(&bits) {
                let what = format!("quantize.{key} = {bits}: bits are from 2 to 8, or 0 for none");
                return Err(Error::invalid(what));
            }
        }
        if weights == 0 && activations == 0 && !self.is_off() {
            let what = "[quantize] has settings, but nothing is quantised: set quantize.weights or \
                        quantize.activations";
            return Err(Error::invalid(what));
        }
        let of_weights = group != 0 || [first, last, start].iter().any(|&bits| bits != 0);
        if weights == 0 && of_weights {
            let what =
                "quantize.first, last, start and group are for weights: set quantize.weights too";
            return Err(Error::invalid(what));
        }
        if output != 0 && activations == 0 {
            let what = "quantize.output is for models whose activations are quantised: set \
                        quantize.activations too";
            return Err(Error::invalid(what));
        }
        let is_raised = self.raise_every != 0 || self.raise_patience != 0;
        if start > weights {
            let what =
                format!("quantize.start = {start} is more than quantize.weights = {weights}");
            return Err(Error::invalid(what));
        }
        if (start != 0 && start < weights) != is_raised {
            let what = "bits that rise need quantize.start below quantize.weights, and a rule: \
                        quantize.raise_every (epochs) or quantize.raise_patience (evaluations)";
            return Err(Error::invalid(what));
        }
        Ok(())
    }
}
