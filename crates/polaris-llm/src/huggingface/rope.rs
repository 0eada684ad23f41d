//! Rotary embeddings of `config.json`: `rope_scaling` of old files, `rope_parameters` of new ones.

use serde_json::Value;

use super::settings::Settings;
use crate::architecture::{Architecture, SlidingRotary};
use crate::{Error, Result};

/// More elements than any head has.
const LARGEST_HEAD: u64 = 1 << 16;

/// What metadata say about rotary embeddings: numbers by GGUF's keys, and factors of frequencies by names of tensors.
#[derive(Debug, Default)]
pub(super) struct Rope {
    pub numbers: Vec<(&'static str, f64)>,
    pub scaling: Option<&'static str>,
    pub size: u64,
    /// Whether the ramp of YaRN begins and ends at whole pairs.
    pub truncates: bool,
    pub factors: Vec<(&'static str, Vec<f32>)>,
}

/// Parameters of layers of a kind.
struct Parameters<'a> {
    settings: &'a Settings,
    json: Option<&'a Value>,
}

impl Parameters<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.json.and_then(|json| json.get(key)).filter(|value| !value.is_null())
    }

    fn number(&self, key: &str) -> Result<Option<f64>> {
        self.get(key).map(|value| self.settings.as_number(key, value)).transpose()
    }

    fn require(&self, key: &str) -> Result<f64> {
        let missing = || self.settings.invalid(format!("its rotary embedding has no `{key}`"));
        self.number(key)?.ok_or_else(missing)
    }

    /// A number of the parameters, or the one beside them.
    fn or_beside(&self, key: &str) -> Result<Option<f64>> {
        match self.number(key)? {
            Some(number) => Ok(Some(number)),
            None => self.settings.number(key),
        }
    }

    fn kind(&self) -> &str {
        let kind = self.get("rope_type").or_else(|| self.get("type")).and_then(Value::as_str);
        match kind.unwrap_or("default") {
            // Names of older files.
            "su" => "longrope",
            "yarn" if self.get("long_factor").is_some() => "longrope",
            kind => kind,
        }
    }

    fn list(&self, key: &str, expected: usize) -> Result<Vec<f32>> {
        let value = self.get(key).unwrap_or(&Value::Null);
        let list = value.as_array().filter(|list| list.len() == expected);
        let number = |value: &Value| value.as_f64().map(|number| number as f32);
        let list = list.and_then(|list| list.iter().map(number).collect());
        list.ok_or_else(|| {
            self.settings.wrong(key, value, &format!("a list of {expected} numbers"))
        })
    }
}

/// Reads the rotary embeddings of a model.
pub(super) fn read(settings: &Settings, architecture: &Architecture) -> Result<Rope> {
    let json = settings.get("rope_scaling").or_else(|| settings.get("rope_parameters"));
    if let Some(json) = json.filter(|json| !json.is_object()) {
        return Err(settings.wrong("rope_parameters", json, "an object"));
    }
    let of_kind = |kind: &str| json.and_then(|json| json.get(kind)).filter(|json| json.is_object());
    let (full, sliding) = (of_kind("full_attention"), of_kind("sliding_attention"));
    let is_nested = full.is_some() || sliding.is_some();
    let full = Parameters { settings, json: if is_nested { full } else { json } };
    let base = full.or_beside("rope_theta")?.unwrap_or(1e4);
    let mut rope = Rope { truncates: true, ..Rope::default() };
    rope.numbers.push(("rope.freq_base", base));
    let share = full.or_beside("partial_rotary_factor")?.unwrap_or(1.0);
    let head = settings.head_size()?;
    if head > LARGEST_HEAD || !(0.0..=1.0).contains(&share) {
        let why = format!("heads of {head} elements with a share of {share} rotated");
        return Err(settings.invalid(format!("{why}; accepted are {LARGEST_HEAD} and 0 to 1")));
    }
    rope.size = (head as f64 * share) as u64;
    scale(&full, &mut rope, base)?;
    if !rope.factors.is_empty() && !architecture.frequency_factors {
        let why = format!("rotary embeddings of type `{}`", full.kind());
        let model_type = settings.translation.model_type;
        return Err(settings.unsupported(format!("{why} are not supported in {model_type}")));
    }
    let local = settings.number("rope_local_base_freq")?;
    if sliding.is_some() || local.is_some() {
        let sliding = Parameters { settings, json: sliding };
        let own = sliding.number("rope_theta")?.or(local);
        slide(&full, &sliding, base, own, architecture, &mut rope)?;
    }
    Ok(rope)
}

/// What sliding layers have of their own, as far as their architecture lets them.
fn slide(
    full: &Parameters<'_>,
    sliding: &Parameters<'_>,
    base: f64,
    own: Option<f64>,
    architecture: &Architecture,
    rope: &mut Rope,
) -> Result<()> {
    let rule = architecture.sliding_rotary;
    let has_base =
        matches!(rule, SlidingRotary::Base | SlidingRotary::Unscaled | SlidingRotary::BaseUnscaled);
    let is_scaled = matches!(rule, SlidingRotary::Same | SlidingRotary::Base);
    let without = |json: Option<&Value>| {
        let mut json = json.cloned().unwrap_or(Value::Null);
        json.as_object_mut().map(|json| json.remove("rope_theta"));
        json
    };
    let fits = match is_scaled {
        true => sliding.json.is_none() || without(full.json) == without(sliding.json),
        false => sliding.kind() == "default",
    };
    if !fits || own.is_some_and(|own| own != base) && !has_base {
        let what = "rotary embeddings of sliding layers that differ so from those of the others";
        return Err(full.settings.unsupported(format!("{what} are not supported")));
    }
    if let (Some(own), true) = (own, has_base) {
        rope.numbers.push(("rope.freq_base_swa", own));
    }
    Ok(())
}

/// How frequencies are scaled.
fn scale(full: &Parameters<'_>, rope: &mut Rope, base: f64) -> Result<()> {
    let settings = full.settings;
    let original = || -> Result<f64> {
        let key = "original_max_position_embeddings";
        let stated = match settings.number(key)? {
            Some(stated) => Some(stated),
            None => full.number(key)?,
        };
        let context =
            || settings.require(&["max_position_embeddings"]).map(|context| context as f64);
        let original = stated.map_or_else(context, Ok)?;
        match (1.0..=f64::from(1 << 28)).contains(&original) {
            true => Ok(original),
            false => {
                Err(settings.invalid(format!("`{key}` is {original}; accepted are 1 to 2^28")))
            }
        }
    };
    let pairs = rope.size as usize / 2;
    match full.kind() {
        "default" => {}
        "linear" => {
            rope.scaling = Some("linear");
            rope.numbers.push(("rope.scaling.factor", full.require("factor")?));
        }
        "llama3" => {
            let factors = llama3(full, base, rope.size, original()?)?;
            rope.factors.push(("rope_freqs.weight", factors));
        }
        "yarn" => {
            let original = original()?;
            let context = settings.require(&["max_position_embeddings"])? as f64;
            let factor = full.number("factor")?.unwrap_or(context / original);
            let grown = |by: f64| if factor > 1.0 { 1.0 + 0.1 * by * factor.ln() } else { 1.0 };
            let own = (full.number("mscale")?, full.number("mscale_all_dim")?);
            let wanted = match (full.number("attention_factor")?, own) {
                (Some(factor), _) => factor,
                (None, (Some(scale), Some(all))) if scale != 0.0 && all != 0.0 => {
                    grown(scale) / grown(all)
                }
                _ => grown(1.0),
            };
            rope.scaling = Some("yarn");
            rope.truncates =
                full.get("truncate").is_none_or(|value| value.as_bool() != Some(false));
            rope.numbers.extend([
                ("rope.scaling.factor", factor),
                ("rope.scaling.original_context_length", original),
                // GGUF's factor is beside the one that follows from the scaling.
                ("rope.scaling.attn_factor", wanted / grown(1.0)),
                ("rope.scaling.yarn_beta_fast", full.number("beta_fast")?.unwrap_or(32.0)),
                ("rope.scaling.yarn_beta_slow", full.number("beta_slow")?.unwrap_or(1.0)),
            ]);
        }
        "longrope" => {
            let original = original()?;
            let context = settings.require(&["max_position_embeddings"])? as f64;
            let factor = full.number("factor")?.unwrap_or(context / original);
            let implied =
                if factor > 1.0 { (1.0 + factor.ln() / original.ln()).sqrt() } else { 1.0 };
            let wanted = full.number("attention_factor")?.unwrap_or(implied);
            rope.scaling = Some("longrope");
            rope.numbers.extend([
                ("rope.scaling.original_context_length", original),
                ("rope.scaling.attn_factor", wanted),
            ]);
            rope.factors.push(("rope_factors_short.weight", full.list("short_factor", pairs)?));
            rope.factors.push(("rope_factors_long.weight", full.list("long_factor", pairs)?));
        }
        other => return Err(unknown(settings, other)),
    }
    Ok(())
}

fn unknown(settings: &Settings, kind: &str) -> Error {
    let kind = polaris_core::printable(kind);
    settings.unsupported(format!(
        "its rotary embedding is of type `{kind}`; supported are default, linear, llama3, yarn and longrope"
    ))
}

/// By what Llama 3 divides each frequency: high ones stay, low ones are divided by the factor, between them it blends.
fn llama3(full: &Parameters<'_>, base: f64, size: u64, original: f64) -> Result<Vec<f32>> {
    let factor = full.require("factor")?;
    let (low, high) = (full.require("low_freq_factor")?, full.require("high_freq_factor")?);
    let divisor = |pair: u64| {
        let frequency = base.powf(-2.0 * pair as f64 / size as f64);
        // How often it turns over the original context.
        let turns = original * frequency / std::f64::consts::TAU;
        let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
        1.0 / ((1.0 - kept) / factor + kept)
    };
    let is_right = factor > 0.0 && low < high && base > 0.0;
    if !is_right {
        let why = format!("factor {factor}, low_freq_factor {low} and high_freq_factor {high}");
        return Err(full.settings.invalid(format!("its rotary embedding has {why}")));
    }
    Ok((0..size / 2).map(|pair| divisor(pair) as f32).collect())
}
