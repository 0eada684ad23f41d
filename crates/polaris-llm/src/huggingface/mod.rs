//! Models in folders of Hugging Face: `config.json` as metadata of GGUF, tensors of safetensors by GGUF's names.
//!
//! What differs between models is data, in `table.rs`. Weights stay in the mapped files; the few that are stored in
//! another form take ours when they are loaded.

mod files;
mod rope;
mod settings;
mod table;
mod tensors;

use std::path::Path;

use polaris_gguf::{Gguf, TensorType, Writer};
use serde_json::Value;

use crate::architecture::{self, Architecture, Quirk};
use crate::form::Form;
use crate::source::Source;
use crate::weights::SourceTensor;
use crate::{Error, Result, own, sampling};
use settings::Settings;

/// Whether a folder has the configuration of a model.
pub(crate) fn is_model(folder: &Path) -> bool {
    folder.join("config.json").is_file()
}

/// Opens a folder.
pub(crate) fn open(folder: &Path) -> Result<Source> {
    let path = folder.join("config.json");
    let Some(config) = files::json(&path)? else {
        let reason = "there is no config.json in this folder".to_owned();
        let kind = polaris_core::ErrorKind::NotFound;
        return Err(Error::File { path: folder.to_owned(), reason, kind });
    };
    let settings = Settings::new(config, &path)?;
    let translation = settings.translation;
    let architecture = architecture::find(translation.architecture)?;
    let rope = match architecture.rotary {
        Some(_) => rope::read(&settings, architecture)?,
        None => rope::Rope::default(),
    };
    let mut writer = Writer::new();
    writer.set("general.architecture", architecture.name)?;
    if let Some(name) = folder.file_name().and_then(|name| name.to_str()) {
        writer.set("general.name", name)?;
    }
    if let Some(template) = template(folder)? {
        writer.set("tokenizer.chat_template", template.as_str())?;
    }
    write_sampling(&mut writer, folder)?;
    write(&mut writer, &settings, architecture)?;
    write_rope(&mut writer, &settings, architecture, &rope)?;
    let gguf = Gguf::from_bytes(writer.into_bytes()?.into())?;

    let mut tensors =
        tensors::rename(translation, settings.layers()?, files::tensors(folder)?, folder)?;
    let has_output = tensors.contains_key("output.weight");
    match (settings.is_tied()?, architecture.quirk == Quirk::TiedOutput) {
        (true, _) => drop(tensors.remove("output.weight")),
        (false, true) => {
            let model_type = translation.model_type;
            return Err(settings.unsupported(format!(
                "`tie_word_embeddings` is false; {model_type} is supported with true"
            )));
        }
        (false, false) if !has_output => {
            return Err(
                settings.invalid("`tie_word_embeddings` is false, and there is no lm_head.weight")
            );
        }
        (false, false) => {}
    }
    for (name, factors) in rope.factors {
        let bytes: Vec<u8> = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
        let tensor = SourceTensor {
            ty: TensorType::F32,
            dims: vec![factors.len()],
            parts: vec![bytes.into()],
            form: Form::Plain,
        };
        tensors.insert(name.to_owned(), tensor);
    }
    Ok(Source { metadata: gguf.metadata().clone(), tensors, folder: Some(folder.to_owned()) })
}

/// Counts by GGUF's keys; the first name that `config.json` has counts.
const COUNTS: &[(&str, &[&str])] = &[
    ("embedding_length", &["hidden_size", "n_embd"]),
    ("context_length", &["max_position_embeddings", "n_positions"]),
    ("attention.head_count", &["num_attention_heads", "n_head"]),
];
/// Counts that may be absent.
const OTHER_COUNTS: &[(&str, &[&str])] = &[
    ("feed_forward_length", &["intermediate_size", "n_inner"]),
    ("attention.head_count_kv", &["num_key_value_heads"]),
    ("expert_count", &["num_local_experts", "num_experts"]),
    ("expert_used_count", &["num_experts_per_tok"]),
];
/// Numbers.
const NUMBERS: &[(&str, &str)] = &[
    ("attention.layer_norm_rms_epsilon", "rms_norm_eps"),
    ("attention.layer_norm_epsilon", "layer_norm_eps"),
    ("attention.layer_norm_epsilon", "layer_norm_epsilon"),
    ("attention.layer_norm_epsilon", "norm_epsilon"),
    ("embedding_scale", "embedding_multiplier"),
    ("residual_scale", "residual_multiplier"),
    ("attention.scale", "attention_multiplier"),
    ("logit_scale", "logits_scaling"),
    ("logit_scale", "logit_scale"),
];
/// Caps, of which null means none.
const CAPS: &[&str] = &["attn_logit_softcapping", "final_logit_softcapping"];

fn write(writer: &mut Writer<'_>, settings: &Settings, architecture: &Architecture) -> Result<()> {
    let key = |key: &str| format!("{}.{key}", architecture.name);
    let layers = settings.layers()?;
    writer.set(&key("block_count"), layers as u64)?;
    for (name, from) in COUNTS {
        writer.set(&key(name), settings.require(from)?)?;
    }
    for (name, from) in OTHER_COUNTS {
        if let Some(count) = settings.first_count(from)? {
            writer.set(&key(name), count)?;
        }
    }
    let head = settings.head_size()?;
    writer.set(&key("attention.key_length"), head)?;
    writer.set(&key("attention.value_length"), head)?;
    for (name, from) in NUMBERS {
        if let Some(number) = settings.number(from)? {
            writer.set(&key(name), number as f32)?;
        }
    }
    for cap in CAPS {
        let number = settings.number(cap)?;
        if number.is_some() && *cap == CAPS[0] && architecture.attention_softcap == 0.0 {
            let model_type = settings.translation.model_type;
            return Err(settings.unsupported(format!("`{cap}` is not supported in {model_type}")));
        }
        if settings.has(cap) {
            writer.set(&key(cap), number.unwrap_or(0.0) as f32)?;
        }
    }
    if let Some(scalar) = settings.number("query_pre_attn_scalar")? {
        if scalar <= 0.0 {
            return Err(settings.invalid(format!("`query_pre_attn_scalar` is {scalar}")));
        }
        writer.set(own::ATTENTION_SCALE, (1.0 / scalar.sqrt()) as f32)?;
    }
    let (window, slides) = settings.sliding()?;
    if window > 0 {
        writer.set(&key("attention.sliding_window"), window)?;
    }
    writer.set(own::SLIDING_LAYERS, &slides[..])?;
    Ok(())
}

fn write_rope(
    writer: &mut Writer<'_>,
    settings: &Settings,
    architecture: &Architecture,
    rope: &rope::Rope,
) -> Result<()> {
    let Some(pairing) = architecture.rotary else { return Ok(()) };
    let key = |key: &str| format!("{}.{key}", architecture.name);
    if pairing != settings.translation.pairing {
        writer.set(own::PAIRING, own::name_of(settings.translation.pairing))?;
    }
    if let Some(rotated) = settings.rotated()? {
        writer.set(own::ROTATED_LAYERS, &rotated[..])?;
    }
    writer.set(&key("rope.dimension_count"), rope.size)?;
    if let Some(kind) = rope.scaling {
        writer.set(&key("rope.scaling.type"), kind)?;
    }
    if !rope.truncates {
        writer.set(own::YARN_TRUNCATES, false)?;
    }
    for (name, number) in &rope.numbers {
        match name.ends_with("length") {
            true => writer.set(&key(name), *number as u64)?,
            false => writer.set(&key(name), *number as f32)?,
        };
    }
    Ok(())
}

/// How tokens are chosen: names of `generation_config.json`, and of GGUF.
const SAMPLING: &[(&str, &str)] = &[
    ("temperature", "temp"),
    ("top_k", "top_k"),
    ("top_p", "top_p"),
    ("min_p", "min_p"),
    ("repetition_penalty", "penalty_repeat"),
];

fn write_sampling(writer: &mut Writer<'_>, folder: &Path) -> Result<()> {
    let Some(json) = files::json(&folder.join("generation_config.json"))? else { return Ok(()) };
    let key = |name: &str| format!("{}{name}", sampling::PREFIX);
    for (from, name) in SAMPLING {
        match (json[from].as_i64(), json[from].as_f64()) {
            (Some(integer), _) => writer.set(&key(name), integer)?,
            (None, Some(number)) => writer.set(&key(name), number as f32)?,
            (None, None) => writer,
        };
    }
    // The penalty of transformers is for everything that was said.
    if json["repetition_penalty"].is_number() {
        writer.set(&key("penalty_last_n"), -1i64)?;
    }
    Ok(())
}

/// The chat template: a file of its own, or text in a file of settings, where a list has several by name.
fn template(folder: &Path) -> Result<Option<String>> {
    if let Some(text) = files::text(&folder.join("chat_template.jinja"))? {
        return Ok(Some(text));
    }
    for name in ["tokenizer_config.json", "chat_template.json"] {
        let json = files::json(&folder.join(name))?.unwrap_or(Value::Null);
        let template = match &json["chat_template"] {
            Value::String(text) => Some(text.clone()),
            Value::Array(list) => {
                let default = list.iter().find(|entry| entry["name"] == "default");
                default.and_then(|entry| entry["template"].as_str()).map(str::to_owned)
            }
            _ => None,
        };
        if template.is_some() {
            return Ok(template);
        }
    }
    Ok(None)
}
