//! The files of an embedding model, and their settings.

use std::io;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

use super::Pooling;
use crate::error::LARGEST_JSON;
use crate::{Error, Result};

/// The parts of a model.
#[derive(Debug, Clone, PartialEq)]
pub struct Files {
    /// An ONNX file, or one of safetensors.
    pub model: PathBuf,
    /// The `config.json`, if there is one.
    pub config: Option<PathBuf>,
    /// The `tokenizer.json`.
    pub tokenizer: PathBuf,
    /// What the files say about its use.
    pub settings: Settings,
}

/// How a model wants to be used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// How tokens become one vector.
    pub pooling: Option<Pooling>,
    /// Whether vectors get the length 1.
    pub normalise: Option<bool>,
    /// The most tokens of a text.
    pub max_tokens: Option<usize>,
    /// Whether texts are given to the tokenizer in small letters.
    pub lower_case: bool,
}

/// Files of models, the first of them that is there counts.
const MODELS: [&str; 3] = ["model.onnx", "onnx/model.onnx", "model.safetensors"];

/// The parts of the model at a path: a folder, or a file in one. What is wrong with the pooling that the files
/// ask for is of no interest where the caller chooses another.
pub fn find(path: &Path, tokenizer: Option<&Path>, asks_for_pooling: bool) -> Result<Files> {
    let there = path.metadata().map_err(|cause| Error::io(path, cause))?;
    let (root, model) = if there.is_dir() {
        (path.to_owned(), None)
    } else {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        // Exports for several engines lie in folders below that of the tokenizer.
        let above = folder.join("..");
        let beside = folder.join("tokenizer.json").exists();
        let below = !beside && above.join("tokenizer.json").exists();
        (if below { above } else { folder.to_owned() }, Some(path.to_owned()))
    };
    let modules = modules(&root)?;
    let encoder = root.join(modules.as_ref().map_or("", |modules| modules.encoder.as_str()));
    let first = || MODELS.iter().map(|name| encoder.join(name)).find(|path| path.exists());
    let model = model.or_else(first).ok_or_else(|| {
        let why = format!("there is no {} in this folder", MODELS.join(", no "));
        Error::io(&encoder, io::Error::new(io::ErrorKind::NotFound, why))
    })?;
    let beside = |name: &str| {
        [&encoder, &root].map(|folder| folder.join(name)).into_iter().find(|p| p.exists())
    };
    let tokenizer = match tokenizer {
        Some(path) => path.to_owned(),
        None => beside("tokenizer.json")
            .ok_or_else(|| Error::NoTokenizer { folder: encoder.clone() })?,
    };
    let mut settings = Settings::default();
    if let Some(modules) = &modules {
        settings.normalise = Some(modules.normalise);
    }
    let pooling = modules.and_then(|modules| modules.pooling).unwrap_or("1_Pooling".to_owned());
    if asks_for_pooling && let Some(json) = read(&root.join(pooling).join("config.json"))? {
        settings.pooling = Some(pooling_of(&json).map_err(|why| Error::file(&root, why))?);
    }
    for name in ["sentence_bert_config.json", "tokenizer_config.json"] {
        let Some(path) = beside(name) else { continue };
        let Some(json) = read(&path)? else { continue };
        let limit = json["max_seq_length"].as_u64().or_else(|| json["model_max_length"].as_u64());
        // Tokenizers without a limit say so by a number of thirty digits.
        let limit = limit.filter(|&limit| limit > 0 && limit < 1 << 24);
        settings.max_tokens = settings.max_tokens.or(limit.map(|limit| limit as usize));
        if name.starts_with("sentence") {
            settings.lower_case = json["do_lower_case"].as_bool().unwrap_or(false);
        }
    }
    if let Some(json) = read(&root.join("config_sentence_transformers.json"))?
        && let Some(name) = json["default_prompt_name"].as_str()
    {
        log::warn!(
            "the model expects its prompt `{name}` before each text; Polaris does not add it"
        );
    }
    Ok(Files { model, config: beside("config.json"), tokenizer, settings })
}

/// What `modules.json` lists.
struct Modules {
    /// The folder of the encoder.
    encoder: String,
    /// The folder of the pooling.
    pooling: Option<String>,
    normalise: bool,
}

fn modules(root: &Path) -> Result<Option<Modules>> {
    #[derive(Deserialize)]
    struct Module {
        #[serde(default)]
        path: String,
        r#type: String,
    }
    let path = root.join("modules.json");
    let Some(json) = read(&path)? else { return Ok(None) };
    let list: Vec<Module> =
        serde_json::from_value(json).map_err(|error| Error::file(&path, error))?;
    let mut modules = Modules { encoder: String::new(), pooling: None, normalise: false };
    for module in list {
        let inside = Path::new(&module.path)
            .components()
            .all(|part| matches!(part, std::path::Component::Normal(_)));
        if !inside {
            return Err(Error::file(
                &path,
                format!("`{}` is outside the model's folder", module.path),
            ));
        }
        match module.r#type.rsplit('.').next().unwrap_or_default() {
            "Transformer" => modules.encoder = module.path,
            "Pooling" => modules.pooling = Some(module.path),
            "Normalize" => modules.normalise = true,
            // It does nothing when a model is used.
            "Dropout" => {}
            other => {
                let why = format!("the model has an unsupported module `{other}`");
                return Err(Error::file(&path, why));
            }
        }
    }
    Ok(Some(modules))
}

/// How tokens become one vector, as the file of the pooling says it.
fn pooling_of(json: &Value) -> std::result::Result<Pooling, String> {
    const PREFIX: &str = "pooling_mode_";
    let mut modes: Vec<&str> = match json["pooling_mode"].as_str() {
        Some(mode) => vec![mode],
        None => (json.as_object().into_iter().flatten())
            .filter(|(_, value)| value.as_bool() == Some(true))
            .filter_map(|(key, _)| key.strip_prefix(PREFIX))
            .collect(),
    };
    modes.dedup();
    match modes[..] {
        ["mean_tokens" | "mean"] => Ok(Pooling::Mean),
        ["cls_token" | "cls"] => Ok(Pooling::Cls),
        ["max_tokens" | "max"] => Ok(Pooling::Max),
        _ => Err(format!(
            "its pooling is {}; choose mean, cls or max instead",
            if modes.is_empty() { "not declared".to_owned() } else { modes.join(" and ") }
        )),
    }
}

/// A file of JSON, if it is there.
pub(super) fn read(path: &Path) -> Result<Option<Value>> {
    match polaris_files::read(path, LARGEST_JSON) {
        Ok(bytes) => {
            serde_json::from_slice(&bytes).map(Some).map_err(|error| Error::file(path, error))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io(path, error)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn poolings() {
        let of = |json: Value| pooling_of(&json).ok();
        assert_eq!(
            of(json!({ "pooling_mode_mean_tokens": true, "pooling_mode_cls_token": false })),
            Some(Pooling::Mean)
        );
        assert_eq!(
            of(json!({ "pooling_mode_cls_token": true, "include_prompt": true })),
            Some(Pooling::Cls)
        );
        assert_eq!(of(json!({ "pooling_mode": "max" })), Some(Pooling::Max));
        assert_eq!(
            of(json!({ "pooling_mode_mean_tokens": true, "pooling_mode_max_tokens": true })),
            None
        );
        assert_eq!(of(json!({ "pooling_mode_lasttoken": true })), None);
        assert_eq!(of(json!({})), None);
    }

    fn write(folder: &Path, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
    }

    #[test]
    fn folders_of_sentence_transformers() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        assert!(
            find(&root.join("missing"), None, true).unwrap_err().to_string().contains("No such")
        );
        assert!(
            find(root, None, true)
                .unwrap_err()
                .to_string()
                .contains("no model.onnx, no onnx/model.onnx")
        );
        write(root, &[("onnx/model.onnx", "")]);
        assert!(matches!(find(root, None, true), Err(Error::NoTokenizer { .. })));
        assert_eq!(find(root, Some(Path::new("t")), true).unwrap().tokenizer, Path::new("t"));
        write(
            root,
            &[("tokenizer.json", "{}"), ("tokenizer_config.json", "{\"model_max_length\": 512}")],
        );
        let files = find(&root.join("onnx/model.onnx"), None, true).unwrap();
        assert!(files.tokenizer.exists());
        assert_eq!(files.settings, Settings { max_tokens: Some(512), ..Settings::default() });
        write(
            root,
            &[
                (
                    "modules.json",
                    r#"[{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "1_Pooling"}, {"type": "a.Normalize", "path": "2"}]"#,
                ),
                ("1_Pooling/config.json", r#"{"pooling_mode_cls_token": true}"#),
                ("sentence_bert_config.json", r#"{"max_seq_length": 256, "do_lower_case": true}"#),
            ],
        );
        let settings = find(root, None, true).unwrap().settings;
        let expected = Settings {
            pooling: Some(Pooling::Cls),
            normalise: Some(true),
            max_tokens: Some(256),
            lower_case: true,
        };
        assert_eq!(settings, expected);
        write(root, &[("modules.json", r#"[{"type": "a.Dense", "path": "2_Dense"}]"#)]);
        assert!(find(root, None, true).unwrap_err().to_string().contains("`Dense`"));
        write(root, &[("modules.json", r#"[{"type": "a.Transformer", "path": "../other"}]"#)]);
        assert!(find(root, None, true).unwrap_err().to_string().contains("outside"));
    }
}
