//! The vocabulary of a trained model as GGUF files have it: tokens, their kinds, merges.

use std::collections::HashMap;

use polaris_tokenizer::byte_character;
use serde_json::Value;

use super::refusal;
use crate::Result;

/// The kinds of tokens: text, and what only templates write.
const NORMAL: i32 = 1;
const CONTROL: i32 = 3;
const UNUSED: i32 = 5;

/// Tokens by id, and the merges that make them.
pub(super) struct Vocabulary {
    pub tokens: Vec<String>,
    pub kinds: Vec<i32>,
    pub merges: Vec<String>,
}

impl Vocabulary {
    /// The vocabulary of a `tokenizer.json`, or bytes without one, of `count` tokens.
    ///
    /// # Errors
    /// `NoExport` if the file is not byte-level byte-pair encoding with GPT-2's pre-tokenizer.
    pub fn new(json: Option<&str>, count: usize) -> Result<Self> {
        let Some(json) = json else {
            let tokens: Vec<String> =
                (0..=255).map(|byte| byte_character(byte).to_string()).collect();
            return Ok(Self { kinds: vec![NORMAL; tokens.len()], tokens, merges: Vec::new() });
        };
        let file: Value = serde_json::from_str(json)
            .map_err(|error| refusal(format!("its tokenizer is not JSON: {error}")))?;
        check(&file)?;
        let unused = |id: usize| format!("<unused{id}>");
        let mut tokens: Vec<String> = (0..count).map(unused).collect();
        let mut kinds = vec![UNUSED; count];
        let mut set = |id: Option<u64>, text: &str, kind: i32| {
            let id = id.and_then(|id| usize::try_from(id).ok()).filter(|&id| id < count);
            let id = id.ok_or_else(|| {
                refusal(format!("its tokenizer has no id below {count} for the token `{text}`"))
            })?;
            (tokens[id], kinds[id]) = (text.to_owned(), kind);
            Ok::<_, crate::Error>(())
        };
        let model = &file["model"];
        for (text, id) in model["vocab"].as_object().into_iter().flatten() {
            set(id.as_u64(), text, NORMAL)?;
        }
        for added in file["added_tokens"].as_array().into_iter().flatten() {
            set(added["id"].as_u64(), added["content"].as_str().unwrap_or_default(), CONTROL)?;
        }
        let merge = |merge: &Value| match merge {
            Value::String(text) => Some(text.clone()),
            pair => Some(format!("{} {}", pair[0].as_str()?, pair[1].as_str()?)),
        };
        let merges = model["merges"].as_array().into_iter().flatten().map(merge);
        let merges = merges.collect::<Option<Vec<String>>>();
        let merges =
            merges.ok_or_else(|| refusal("its tokenizer has a merge that is none".to_owned()))?;
        let mut seen = HashMap::new();
        for (id, text) in tokens.iter().enumerate() {
            if let Some(other) = seen.insert(text, id) {
                let what = format!("tokens {other} and {id} of its tokenizer are the same text");
                return Err(refusal(what));
            }
        }
        Ok(Self { tokens, kinds, merges })
    }

    /// The id of a special token.
    pub fn id(&self, text: &str) -> Option<u32> {
        let is_it = |id: &usize| self.kinds[*id] == CONTROL && self.tokens[*id] == text;
        (0..self.tokens.len()).find(is_it).map(|id| id as u32)
    }
}

/// Checks that a tokenizer encodes as readers of `gpt2` with the pre-tokenizer `gpt-2` do.
fn check(file: &Value) -> Result<()> {
    let pre = &file["pre_tokenizer"];
    let wrong = [
        (file["model"]["type"] != "BPE", "its model is no BPE"),
        (!file["normalizer"].is_null(), "it has a normalizer"),
        (pre["type"] != "ByteLevel", "its pre-tokenizer is not ByteLevel"),
        (pre["use_regex"] == false, "its pre-tokenizer does not split words"),
        (pre["add_prefix_space"] != false, "it puts a space before texts"),
        (file["model"]["ignore_merges"] == true, "it ignores merges"),
    ];
    match wrong.iter().find(|(is_wrong, _)| *is_wrong) {
        Some((_, why)) => Err(refusal(format!(
            "only tokenizers that split text as GPT-2 does are written as GGUF, such as those of data.tokenizer = \
             \"bpe\", and of this one {why}"
        ))),
        None => Ok(()),
    }
}
