//! How experts are chosen.

use polaris_ops::route::Gating;

use super::{Keys, or_one};
use crate::architecture::{Normalize, Quirk};
use crate::{Error, Result};

/// How experts are chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Mixture {
    /// The experts.
    pub count: usize,
    /// Those that are used for a token.
    pub used: usize,
    /// Groups of experts, and how many of them are used.
    pub groups: Option<(usize, usize)>,
    /// From logits to probabilities.
    pub gating: Gating,
    /// Whether weights are divided by their sum.
    pub normalize: bool,
    /// By what weights are multiplied.
    pub scale: f64,
    /// Smaller experts that follow them.
    pub grove: Option<Grove>,
}

/// Smaller experts that are given the result of the others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Grove {
    /// Experts that share one of them.
    pub group: usize,
    /// By what their result is multiplied.
    pub scale: f64,
}

pub(super) fn mixture(keys: &Keys) -> Result<Option<Mixture>> {
    let rule = &keys.architecture.experts;
    let count = keys.count("expert_count")?.unwrap_or(0);
    if count == 0 || count == 1 && keys.architecture.quirk == Quirk::Hunyuan {
        return Ok(None);
    }
    let used = keys.require("expert_used_count")?;
    let groups = keys.count("expert_group_count")?.filter(|&groups| groups > 1);
    let groups = match groups {
        Some(groups) => Some((groups, keys.require("expert_group_used_count")?)),
        None => None,
    };
    let fits = |(groups, used): (usize, usize)| used <= groups && count.is_multiple_of(groups);
    if used > count || !groups.is_none_or(fits) {
        return Err(Error::model(format!(
            "{used} of {count} experts in groups of {groups:?} cannot be chosen"
        )));
    }
    let gating = match keys.count("expert_gating_func")? {
        Some(1) => Gating::Softmax,
        Some(2) => Gating::Sigmoid,
        Some(3) => Gating::SoftmaxOfChosen,
        Some(0) | None => rule.gating,
        Some(other) => {
            let key = keys.name("expert_gating_func");
            return Err(Error::model(format!("`{key}` is {other}; expected is 1 to 3")));
        }
    };
    let gating = if rule.reads_gating { gating } else { rule.gating };
    let normalize = match rule.normalize {
        Normalize::Yes => true,
        Normalize::No => false,
        Normalize::Key => keys.get("expert_weights_norm")?.unwrap_or(false),
    };
    let scale = match rule.scale {
        Some(default) => or_one(keys.number("expert_weights_scale", default)?),
        None => 1.0,
    };
    let grove = match keys.architecture.quirk {
        Quirk::Grove => {
            let group = keys.require("experts_per_group")?;
            if group > count || !count.is_multiple_of(group) {
                return Err(Error::model(format!(
                    "{count} experts in groups of {group} cannot be"
                )));
            }
            Some(Grove { group, scale: keys.number("expert_group_scale", 1.0)? })
        }
        _ => None,
    };
    Ok(Some(Mixture { count, used, groups, gating, normalize, scale, grove }))
}
