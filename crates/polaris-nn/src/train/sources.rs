//! Which settings each source of data uses: one that is set and not used is a mistake.

use super::config::{Data, Source, Target, bytes, default_context, default_vocabulary};
use crate::{Error, Result};

const ARRAYS: &[&str] = &[
    "path",
    "labels",
    "target",
    "inputs",
    "target_is",
    "dims",
    "scale",
    "shift",
    "rotate",
    "zoom",
    "noise",
    "flip",
];

/// The settings that a source uses, besides `source` and `validation`.
fn used(source: Source) -> Vec<&'static str> {
    let arrays_without =
        |left_out: &[&str]| ARRAYS.iter().copied().filter(|key| !left_out.contains(key)).collect();
    match source {
        Source::Digits => vec!["shift", "rotate", "zoom", "noise", "flip"],
        Source::Csv | Source::Npz => arrays_without(&["labels"]),
        Source::Idx => arrays_without(&["target", "inputs"]),
        Source::Images => arrays_without(&["labels", "target", "inputs", "target_is", "scale"]),
        Source::Text => vec!["path", "context", "tokenizer", "vocabulary"],
        Source::Sample | Source::Dialogs => vec!["context", "tokenizer", "vocabulary"],
    }
}

/// Checks that everything that is set is used.
///
/// # Errors
/// `InvalidParameter` with the first setting that the source does not use, and those that it does.
pub(super) fn check_used(data: &Data) -> Result<()> {
    // Settings that are written out with their defaults say nothing.
    let set = [
        ("path", data.path.is_some()),
        ("labels", data.labels.is_some()),
        ("target", data.target.is_some()),
        ("inputs", data.inputs.is_some()),
        ("target_is", data.target_is != Target::default()),
        ("dims", data.dims.is_some()),
        ("scale", data.scale.is_some()),
        ("context", data.context != default_context()),
        ("tokenizer", data.tokenizer != bytes()),
        ("vocabulary", data.vocabulary != default_vocabulary()),
        ("shift", data.shift != 0),
        ("rotate", data.rotate != 0.0),
        ("zoom", data.zoom != 0.0),
        ("noise", data.noise != 0.0),
        ("flip", data.flip),
    ];
    let used = used(data.source);
    if let Some((key, _)) = set.iter().find(|(key, is_set)| *is_set && !used.contains(key)) {
        let source = serde_json::to_string(&data.source).unwrap_or_default();
        return Err(Error::invalid(format!(
            "data.{key} is set, and data.source = {source} does not use it; remove it. Used are: source, \
             validation, {}",
            used.join(", ")
        )));
    }
    match &data.inputs {
        Some(names) if data.source == Source::Npz && names.len() != 1 => {
            Err(Error::invalid(format!(
                "data.inputs has {} names, and data.source = \"npz\" takes one array of inputs; name one",
                names.len()
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: serde_json::Value) -> std::result::Result<(), String> {
        check_used(&serde_json::from_value(json).unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn settings_that_a_source_does_not_use_are_named_with_those_it_does() {
        use serde_json::json;
        let found = check(json!({ "source": "digits", "dims": [1, 8, 8] })).unwrap_err();
        assert!(found.contains("data.dims") && found.contains("\"digits\""), "{found}");
        assert!(found.ends_with("source, validation, shift, rotate, zoom, noise, flip"), "{found}");
        for unused in [
            json!({ "source": "sample", "path": "a.txt" }),
            json!({ "source": "text", "path": "a.txt", "scale": 2.0 }),
            json!({ "source": "text", "path": "a.txt", "flip": true }),
            json!({ "source": "csv", "path": "a.csv", "labels": "b" }),
            json!({ "source": "csv", "path": "a.csv", "context": 64 }),
            json!({ "source": "idx", "path": "a", "labels": "b", "target": "c" }),
            json!({ "source": "images", "path": "a", "dims": [1, 8, 8], "target_is": "number" }),
            json!({ "source": "npz", "path": "a.npz", "inputs": ["a", "b"] }),
        ] {
            assert!(check(unused.clone()).is_err(), "{unused}");
        }
        for fine in [
            json!({ "source": "digits", "shift": 1, "context": 128, "tokenizer": "bytes" }),
            json!({ "source": "npz", "path": "a.npz", "inputs": ["a"], "target": "b", "dims": [2] }),
            json!({ "source": "idx", "path": "a", "labels": "b", "scale": 0.1, "rotate": 5.0 }),
            json!({ "source": "text", "path": "a.txt", "context": 64, "tokenizer": "t.json" }),
        ] {
            check(fine).unwrap();
        }
    }
}
