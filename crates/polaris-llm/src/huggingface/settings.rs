//! What `config.json` says, with the defaults of a model.

use std::path::{Path, PathBuf};

use polaris_core::{ErrorKind, printable};
use serde_json::{Map, Value};

use super::files::invalid;
use super::table::{Check, Sliding, TRANSLATIONS, Translation};
use crate::{Error, Result};

/// More layers than any model has.
const MOST_LAYERS: usize = 4096;

/// The settings of a decoder.
pub(super) struct Settings {
    json: Map<String, Value>,
    path: PathBuf,
    pub translation: &'static Translation,
}

impl Settings {
    /// Reads a `config.json`. That of a model for text and images has the decoder's settings in `text_config`.
    pub fn new(json: Value, path: &Path) -> Result<Self> {
        let Value::Object(mut json) = json else {
            return Err(invalid(path, "it is no object"));
        };
        let outer = text(&json, "model_type").map(str::to_owned);
        let tied = json.get("tie_word_embeddings").cloned();
        let quantized = json.get("quantization_config").cloned();
        if let Some(Value::Object(inner)) = json.remove("text_config") {
            json = inner;
            for (key, value) in [("tie_word_embeddings", tied), ("quantization_config", quantized)]
            {
                if let (Some(value), false) = (value, json.contains_key(key)) {
                    json.insert(key.to_owned(), value);
                }
            }
        }
        let model_type = text(&json, "model_type").map(str::to_owned);
        let model_type = model_type.or_else(|| outer.map(|outer| format!("{outer}_text")));
        let Some(name) = model_type else {
            return Err(invalid(path, "it has no `model_type`"));
        };
        let known = TRANSLATIONS.iter().find(|known| known.model_type == name);
        let Some(translation) = known else {
            let known: Vec<&str> = TRANSLATIONS.iter().map(|known| known.model_type).collect();
            let name = printable(&name).into_owned();
            return Err(Error::UnknownArchitecture { name, known: known.join(", ") });
        };
        let settings = Self { json, path: path.to_owned(), translation };
        settings.check()?;
        Ok(settings)
    }

    pub fn invalid(&self, reason: impl Into<String>) -> Error {
        invalid(&self.path, reason)
    }

    pub fn unsupported(&self, reason: impl Into<String>) -> Error {
        let (path, reason) = (self.path.clone(), reason.into());
        Error::File { path, reason, kind: ErrorKind::Unsupported }
    }

    /// What must be as Polaris computes it.
    fn check(&self) -> Result<()> {
        for check in self.translation.checks {
            let (key, is_right, expected) = match *check {
                Check::Text(key, accepted) => {
                    let value = self.get(key);
                    let is_right = value.is_none_or(|value| {
                        value.as_str().is_some_and(|text| accepted.contains(&text))
                    });
                    (key, is_right, accepted.join(" or "))
                }
                Check::Flag(key, accepted, absent) => {
                    (key, self.flag(key)?.unwrap_or(absent) == accepted, accepted.to_string())
                }
                Check::None(key) => (key, self.get(key).is_none(), "null".to_owned()),
                Check::Number(key, accepted) => (
                    key,
                    self.number(key)?.is_none_or(|value| value == accepted),
                    accepted.to_string(),
                ),
            };
            if !is_right {
                let found = self.get(key).map_or("absent".to_owned(), Value::to_string);
                let found = printable(&found);
                return Err(
                    self.unsupported(format!("`{key}` is {found}; supported is {expected}"))
                );
            }
        }
        let Some(quantized) = self.get("quantization_config") else { return Ok(()) };
        match quantized["quant_method"].as_str() {
            Some("mxfp4") => Ok(()),
            method => {
                let method = printable(method.unwrap_or("?"));
                let why = format!("its weights are quantised by `{method}`");
                Err(self.unsupported(format!("{why}; supported are F32, F16, BF16 and mxfp4")))
            }
        }
    }

    /// A value that is there and not null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.json.get(key).filter(|value| !value.is_null())
    }

    /// Whether a key is there, be it null.
    pub fn has(&self, key: &str) -> bool {
        self.json.contains_key(key)
    }

    /// A number, or the model's default. Null counts as no number.
    pub fn number(&self, key: &str) -> Result<Option<f64>> {
        match self.json.get(key) {
            None => Ok(self
                .translation
                .defaults
                .iter()
                .find(|(name, _)| *name == key)
                .map(|pair| pair.1)),
            Some(Value::Null) => Ok(None),
            Some(value) => self.as_number(key, value).map(Some),
        }
    }

    /// A value as a finite number.
    pub fn as_number(&self, key: &str, value: &Value) -> Result<f64> {
        let number = value.as_f64().filter(|number| number.is_finite());
        number.ok_or_else(|| self.wrong(key, value, "a number"))
    }

    pub fn wrong(&self, key: &str, value: &Value, expected: &str) -> Error {
        let mut found = value.to_string();
        if let Some((end, _)) = found.char_indices().nth(80) {
            found.truncate(end);
            found.push_str("...");
        }
        self.invalid(format!("`{key}` is {}; expected is {expected}", printable(&found)))
    }

    /// A number that counts something.
    pub fn count(&self, key: &str) -> Result<Option<u64>> {
        let Some(number) = self.number(key)? else { return Ok(None) };
        match number >= 0.0 && number.fract() == 0.0 && number <= f64::from(u32::MAX) {
            true => Ok(Some(number as u64)),
            false => Err(self.invalid(format!(
                "`{key}` is {number}; expected is an integer up to {}",
                u32::MAX
            ))),
        }
    }

    /// The first of some numbers that is there.
    pub fn first_count(&self, keys: &[&str]) -> Result<Option<u64>> {
        for key in keys {
            if let Some(count) = self.count(key)? {
                return Ok(Some(count));
            }
        }
        Ok(None)
    }

    /// The first of some numbers, which must be there.
    pub fn require(&self, keys: &[&str]) -> Result<u64> {
        let missing = || self.invalid(format!("it has no `{}`", keys.join("` or `")));
        self.first_count(keys)?.ok_or_else(missing)
    }

    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        match self.get(key) {
            None => Ok(None),
            Some(value) => {
                value.as_bool().map(Some).ok_or_else(|| self.wrong(key, value, "true or false"))
            }
        }
    }

    /// How many layers there are.
    pub fn layers(&self) -> Result<usize> {
        let layers = self.require(&["num_hidden_layers", "n_layer"])?;
        match usize::try_from(layers) {
            Ok(layers @ 1..=MOST_LAYERS) => Ok(layers),
            _ => {
                Err(self
                    .invalid(format!("it has {layers} layers; accepted are 1 to {MOST_LAYERS}")))
            }
        }
    }

    /// Whether the output is the embedding.
    pub fn is_tied(&self) -> Result<bool> {
        Ok(self.flag("tie_word_embeddings")?.unwrap_or(self.translation.tied))
    }

    /// Elements of a head.
    pub fn head_size(&self) -> Result<u64> {
        if let Some(size) = self.count("head_dim")? {
            return Ok(size);
        }
        let width = self.require(&["hidden_size", "n_embd"])?;
        let heads = self.require(&["num_attention_heads", "n_head"])?;
        Ok(width / heads.max(1))
    }

    /// A list with an entry for each layer.
    fn per_layer<T>(
        &self,
        key: &str,
        each: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let layers = self.layers()?;
        let list = value.as_array().filter(|list| list.len() == layers);
        let list = list.and_then(|list| list.iter().map(each).collect());
        let expected = format!("a list of {layers} known values, one for each layer");
        list.map(Some).ok_or_else(|| self.wrong(key, value, &expected))
    }

    /// The window, and the layers that slide.
    pub fn sliding(&self) -> Result<(u64, Vec<bool>)> {
        let layers = self.layers()?;
        let window = self.count("sliding_window")?.unwrap_or(0);
        let is_asked =
            self.flag("use_sliding_window")?.unwrap_or(!self.translation.slides_if_asked);
        let listed = self.per_layer("layer_types", |ty| match ty.as_str() {
            Some("sliding_attention") => Some(true),
            Some("full_attention") => Some(false),
            _ => None,
        })?;
        if window == 0 || !is_asked {
            return Ok((0, vec![false; layers]));
        }
        let slides: Vec<bool> = match (listed, self.translation.sliding) {
            (Some(listed), _) => listed,
            (None, Sliding::Never) if self.translation.slides_if_asked => {
                return Err(self.invalid("it has `use_sliding_window`, and no `layer_types`"));
            }
            (None, Sliding::Never) => vec![false; layers],
            (None, Sliding::All) => vec![true; layers],
            (None, Sliding::Above) => {
                let first = self.count("max_window_layers")?.unwrap_or(0);
                (0..layers as u64).map(|layer| layer >= first).collect()
            }
            (None, Sliding::Every(period)) => {
                let period = self.count("sliding_window_pattern")?.unwrap_or(period as u64);
                (1..=layers as u64).map(|layer| period == 0 || layer % period != 0).collect()
            }
        };
        Ok((window, slides))
    }

    /// The layers that rotate, if it is not all of them.
    pub fn rotated(&self) -> Result<Option<Vec<bool>>> {
        let switch =
            |value: &Value| value.as_bool().or_else(|| value.as_u64().map(|value| value != 0));
        if let Some(list) = self.per_layer("no_rope_layers", switch)? {
            return Ok(Some(list));
        }
        let Some(period) = self.count("no_rope_layer_interval")?.filter(|period| *period > 0)
        else {
            return Ok(None);
        };
        Ok(Some((1..=self.layers()? as u64).map(|layer| layer % period != 0).collect()))
    }
}

fn text<'a>(json: &'a Map<String, Value>, key: &str) -> Option<&'a str> {
    json.get(key).and_then(Value::as_str)
}
