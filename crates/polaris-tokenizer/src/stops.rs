//! The tokens that end a text, and what files leave out about special tokens, by their well-known texts.

use std::collections::BTreeSet;

use crate::vocabulary::Kind;

/// Tokens that end a turn or a text.
const STOPS: &[&str] = &[
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<\u{ff5c}end\u{2581}of\u{2581}sentence\u{ff5c}>",
    "<end_of_utterance>",
    "<|eom_id|>",
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "</s>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
];

/// Tokens between files, which a model that completes code writes when it is done.
const FILE_STOPS: &[&[&str]] = &[
    &["<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"],
    &["<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"],
    &["<|file_sep|>"],
];

/// Further control tokens: what surrounds a gap in code.
const CONTROLS: &[&str] = &[
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<\u{ff5c}fim\u{2581}begin\u{ff5c}>",
    "<PRE>",
    "\u{2581}<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<\u{ff5c}fim\u{2581}hole\u{ff5c}>",
    "<SUF>",
    "\u{2581}<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<\u{ff5c}fim\u{2581}end\u{ff5c}>",
    "<MID>",
    "\u{2581}<MID>",
    "<|code_middle|>",
    "<|middle|>",
];

/// Tokens of gpt-oss around its channels, which are shown.
const SHOWN: &[&str] = &["<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"];

/// Corrects the kinds of well-known tokens, and finds those that end a text. `find` gives the id of a text, `named` are
/// the ids that the file itself names as ends.
pub(crate) fn settle(
    kinds: &mut [Kind],
    find: impl Fn(&str) -> Option<u32>,
    named: impl IntoIterator<Item = u32>,
) -> BTreeSet<u32> {
    let mut stops = BTreeSet::new();
    let mut control = |id: u32| kinds[id as usize] = Kind::Control;
    for id in STOPS.iter().filter_map(|text| find(text)) {
        control(id);
        stops.insert(id);
    }
    for texts in FILE_STOPS {
        if let Some(id) = texts.iter().find_map(|text| find(text)) {
            control(id);
            stops.insert(id);
        }
    }
    CONTROLS.iter().filter_map(|text| find(text)).for_each(control);
    stops.extend(named);
    for id in SHOWN.iter().filter_map(|text| find(text)) {
        kinds[id as usize] = Kind::UserDefined;
    }

    let has = |text: &str| find(text).is_some_and(|id| stops.contains(&id));
    // Harmony and Solar: a part of an answer ends with <|end|>, the answer with others.
    let has_call = has("<|call|>") || has("<|calls|>");
    let parts = has_call && (has("<|return|>") || has("<|flush|>"));
    // Gemma 4: </s> is an ordinary text.
    let tools = has("<|tool_response>");
    if let Some(id) = find("<|end|>").filter(|_| parts) {
        stops.remove(&id);
        kinds[id as usize] = Kind::UserDefined;
    }
    if let Some(id) = find("</s>").filter(|_| tools) {
        stops.remove(&id);
        kinds[id as usize] = Kind::Normal;
    }
    stops
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(texts: &[&str], named: &[u32]) -> (Vec<Kind>, Vec<u32>) {
        let mut kinds = vec![Kind::Normal; texts.len()];
        let find = |wanted: &str| texts.iter().position(|text| *text == wanted).map(|id| id as u32);
        let stops = settle(&mut kinds, find, named.iter().copied());
        (kinds, stops.into_iter().collect())
    }

    #[test]
    fn known_texts_and_named_ids_end_a_text() {
        let (kinds, stops) =
            settled(&["a", "<|im_end|>", "x", "<|file_sep|>", "<fim_prefix>"], &[2]);
        assert_eq!(stops, [1, 2, 3]);
        let control = Kind::Control;
        assert_eq!(kinds, [Kind::Normal, control, Kind::Normal, control, control]);
    }

    #[test]
    fn parts_of_an_answer_do_not_end_it() {
        let (kinds, stops) = settled(&["<|end|>", "<|return|>", "<|call|>", "<|channel|>"], &[1]);
        assert_eq!(stops, [1, 2]);
        assert_eq!(kinds[0], Kind::UserDefined);
        assert_eq!(kinds[3], Kind::UserDefined);
        assert_eq!(settled(&["<|end|>", "<|return|>"], &[]).1, [0, 1]);
        assert_eq!(settled(&["</s>", "<|tool_response>"], &[]).1, [1]);
        assert_eq!(settled(&["</s>"], &[]).1, [0]);
    }
}
