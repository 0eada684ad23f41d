//! Rotary embeddings as metadata describe them: base, scaling, magnitude.

use polaris_ops::Pairing;

use super::{Keys, or_one};
use crate::angles::{Rotary, Scaling, Yarn};
use crate::architecture::{Quirk, SlidingRotary, YarnKeys};
use crate::{Error, Result, own};

/// Files with sections of several positions (text, height, width) rotate halves, whatever their architecture does else.
pub(super) fn pairing(keys: &Keys) -> Result<Option<Pairing>> {
    let stated = own::pairing(keys.metadata)?;
    let sections = keys.metadata.list::<u64>(&keys.name("rope.dimension_sections"));
    let has_sections =
        matches!(sections, Ok(Some(list)) if list.len() > 1 && list[0] > 0 && list[1] > 0);
    Ok(match keys.architecture.rotary {
        Some(_) if stated.is_some() => stated,
        Some(_) if has_sections && keys.architecture.sections => Some(Pairing::Halves),
        pairing => pairing,
    })
}

/// How the context is extended.
struct Extension {
    factor: f64,
    scaling: Scaling,
    /// By what cosines and sines are multiplied.
    magnitude: f64,
    /// The same where the factor does not apply.
    unscaled_magnitude: f64,
    /// `1 + 0.1 multiplier log(factor)` of DeepSeek, which scores are multiplied by twice.
    grown: f64,
}

/// `1 + 0.1 by log(factor)`, the temperature that YaRN gives longer contexts.
fn grown(factor: f64, by: f64) -> f64 {
    if factor > 1.0 { 1.0 + 0.1 * by * factor.ln() } else { 1.0 }
}

fn extension(keys: &Keys, context: usize) -> Result<Extension> {
    let rule = keys.architecture.yarn;
    let factor = match keys.number("rope.scaling.factor", 0.0)? {
        0.0 => or_one(keys.number("rope.scale_linear", 0.0)?),
        factor => factor,
    };
    if factor <= 0.0 {
        return Err(Error::model(format!("the rotary embedding has the factor {factor}")));
    }
    let kind = keys.get::<&str>("rope.scaling.type")?.unwrap_or("linear");
    let factor = if kind == "none" { 1.0 } else { factor };
    let extrapolation = match (rule, keys.number("rope.scaling.yarn_ext_factor", -1.0)?) {
        (YarnKeys::Grok, given) if given >= 0.0 => given,
        _ if kind == "yarn" => 1.0,
        _ => 0.0,
    };
    let attention = keys.number("rope.scaling.attn_factor", 1.0)?;
    // Files of DeepSeek have a tenth of it.
    let multiplier = match rule {
        YarnKeys::Plain | YarnKeys::Grok => 0.0,
        YarnKeys::Mistral => keys.number("rope.scaling.yarn_log_multiplier", 0.0)?,
        YarnKeys::DeepSeek | YarnKeys::DeepSeek2 => {
            10.0 * keys.number("rope.scaling.yarn_log_multiplier", 0.0)?
        }
    };
    if extrapolation == 0.0 {
        let own = match rule {
            YarnKeys::Grok => keys.number("rope.scaling.yarn_attn_factor", 1.0)?,
            _ => 1.0,
        };
        let scaling = if factor == 1.0 { Scaling::None } else { Scaling::Linear };
        let magnitude = own * attention;
        let unscaled_magnitude = magnitude;
        // Scores grow as with YaRN, though cosines and sines do not.
        let grown = grown(factor, 1.0) * grown(factor, multiplier);
        return Ok(Extension { factor, scaling, magnitude, unscaled_magnitude, grown });
    }
    let fast = if rule == YarnKeys::Grok { 8.0 } else { 32.0 };
    let original = keys.count("rope.scaling.original_context_length")?.unwrap_or(context);
    let yarn = Yarn {
        original_context: original,
        beta_fast: keys.number("rope.scaling.yarn_beta_fast", fast)?,
        beta_slow: keys.number("rope.scaling.yarn_beta_slow", 1.0)?,
        extrapolation,
        truncates: keys.metadata.get(own::YARN_TRUNCATES)?.unwrap_or(true),
    };
    let magnitude = match (rule, multiplier) {
        (_, 0.0) => grown(factor, 1.0),
        (YarnKeys::DeepSeek2, _) => 1.0,
        (_, multiplier) => grown(factor, 1.0) / grown(factor, multiplier),
    };
    Ok(Extension {
        factor,
        scaling: Scaling::Yarn(yarn),
        magnitude: magnitude * attention,
        unscaled_magnitude: magnitude * attention / grown(factor, 1.0),
        grown: grown(factor, multiplier),
    })
}

/// What DeepSeek multiplies scores by, beside the size of heads.
pub(super) fn yarn_scale(keys: &Keys, context: usize) -> Result<f64> {
    let Extension { magnitude, grown, .. } = extension(keys, context)?;
    Ok((magnitude * grown).powi(2))
}

/// The rotary embedding of layers that see everything, or of sliding ones.
pub(super) fn rotary(keys: &Keys, context: usize, sliding: bool) -> Result<Option<Rotary>> {
    let architecture = keys.architecture;
    if architecture.rotary.is_none() {
        return Ok(None);
    }
    let size = match sliding {
        true => keys.count("rope.dimension_count_swa")?,
        false => None,
    };
    let size = match size {
        Some(size) => Some(size),
        None => keys.count("rope.dimension_count")?,
    };
    let size = match architecture.quirk {
        Quirk::HalfRotated if !sliding => size.map(|size| size / 2),
        _ => size,
    };
    let mut base = keys.number("rope.freq_base", 1e4)?;
    let extension = extension(keys, context)?;
    let Extension { factor, mut scaling, mut magnitude, .. } = extension;
    if sliding {
        match architecture.sliding_rotary {
            SlidingRotary::Same => {}
            SlidingRotary::Base => base = keys.number("rope.freq_base_swa", base)?,
            SlidingRotary::Unscaled => {
                base = keys.number("rope.freq_base_swa", 1e4)?;
                (scaling, magnitude) = (Scaling::None, extension.unscaled_magnitude);
            }
            SlidingRotary::SameUnscaled => (scaling, magnitude) = (Scaling::None, 1.0),
            SlidingRotary::BaseUnscaled => {
                base = keys.number("rope.freq_base_swa", base)?;
                (scaling, magnitude) = (Scaling::None, 1.0);
            }
        }
    }
    if base <= 1.0 {
        return Err(Error::model(format!("the rotary embedding has the base {base}")));
    }
    // The size of a head is known to layers only; 0 stands for all of it.
    let size = size.unwrap_or(0);
    Ok(Some(Rotary { size, base, factor, scaling, magnitude, divisors: None }))
}
