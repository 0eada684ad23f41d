//! The bundled dialogs: short conversations made of written answers and of verses of the bundled text, for the tiny
//! model that comes with Polaris.

use std::collections::HashMap;
use std::fmt::Write;

use polaris_core::random::SplitMix64;

use crate::{Result, bundled};

/// The texts that separate dialogs, and begin and end a turn: ChatML, and GPT-2's end of a text.
pub const DIALOG_TOKENS: [&str; 3] = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"];

/// How many there are.
const DIALOGS: usize = 6000;

/// Names that can be asked for.
const NAMES: usize = 100;

/// Verses of other lengths, in bytes, are not answers: they would fill the context.
const VERSES: std::ops::RangeInclusive<usize> = 40..=140;

/// How names are asked for; the second and the third end in a question mark.
const FORMS: [&str; 4] =
    ["Tell me about", "Who was", "What do you know about", "Say a verse about"];

/// A text of 6,000 dialogs in ChatML, always the same: answers of `data/dialogs.txt`, verses with a name in them, and
/// verses to continue.
pub fn dialogs() -> Result<String> {
    let pairs = pairs(include_str!("../data/dialogs.txt"));
    let text = bundled::text()?;
    let verses: Vec<&str> = text.lines().filter(|line| VERSES.contains(&line.len())).collect();
    let names = names(&text, &verses);
    let mut random = SplitMix64::new(0x9014_2157);
    let mut below = |count: usize| (random.bits() % count.max(1) as u64) as usize;
    let mut result = String::new();
    for _ in 0..DIALOGS {
        for _ in 0..=below(3) {
            let kind = below(10);
            let (question, answer) = if kind < 6 {
                let (question, answer) = pairs[below(pairs.len())];
                (asked(question, below(4)), answer)
            } else if kind < 9 {
                let (name, verse) = names[below(names.len())];
                let form = below(FORMS.len());
                let mark = if (1..3).contains(&form) { '?' } else { '.' };
                (asked(&format!("{} {name}{mark}", FORMS[form]), below(4)), verse)
            } else {
                let verse = verses[below(verses.len())];
                let (begin, rest) = halves(verse);
                (format!("Continue: {begin}"), rest)
            };
            turn(&mut result, "user", &question);
            turn(&mut result, "assistant", answer);
        }
        result += DIALOG_TOKENS[0];
    }
    Ok(result)
}

fn turn(text: &mut String, role: &str, content: &str) {
    let [_, start, end] = DIALOG_TOKENS;
    _ = writeln!(text, "{start}{role}\n{content}{end}");
}

/// A question as people type it: as it is written, without its last mark, in small letters, or both.
fn asked(question: &str, form: usize) -> String {
    let bare = if form & 1 == 1 { question.trim_end_matches(['.', '?']) } else { question };
    if form & 2 == 2 { bare.to_lowercase() } else { bare.to_owned() }
}

/// Every question with its answer: lines with `?` share the next one with `!`.
fn pairs(text: &str) -> Vec<(&str, &str)> {
    let mut pairs = Vec::new();
    let mut questions = Vec::new();
    for line in text.lines() {
        if let Some(question) = line.strip_prefix("? ") {
            questions.push(question);
        } else if let Some(answer) = line.strip_prefix("! ") {
            pairs.extend(questions.drain(..).map(|question| (question, answer)));
        }
    }
    pairs
}

/// The words that are most often names, each with the first verse that has it.
fn names<'t>(text: &'t str, verses: &[&'t str]) -> Vec<(&'t str, &'t str)> {
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        // Within a sentence only names are capitalised.
        for two in words.windows(2).filter(|two| two[0].ends_with(|c: char| c.is_ascii_lowercase()))
        {
            let word = two[1].trim_end_matches(|c: char| !c.is_ascii_alphabetic());
            let is_name = word.len() > 3
                && word.starts_with(|c: char| c.is_ascii_uppercase())
                && word[1..].bytes().all(|byte| byte.is_ascii_lowercase());
            if is_name {
                *counts.entry(word).or_default() += 1;
            }
        }
    }
    let mut names: Vec<(&str, usize)> = counts.into_iter().collect();
    names.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let has = |verse: &str, name: &str| {
        verse.split(|c: char| !c.is_ascii_alphabetic()).any(|word| word == name)
    };
    let with_verse = |(name, _): (&'t str, usize)| {
        verses.iter().find(|verse| has(verse, name)).map(|&verse| (name, verse))
    };
    names.into_iter().filter_map(with_verse).take(NAMES).collect()
}

/// A verse cut near its middle, between words.
fn halves(verse: &str) -> (&str, &str) {
    let middle = verse.len() / 2;
    let at =
        verse.bytes().skip(middle).position(|byte| byte == b' ').map_or(middle, |at| middle + at);
    (&verse[..at], verse[at..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dialogs_are_turns_of_two_speakers_and_always_the_same() {
        let text = dialogs().unwrap();
        assert_eq!(text, dialogs().unwrap());
        let [end, start, stop] = DIALOG_TOKENS;
        let dialogs: Vec<&str> = text.split_terminator(end).collect();
        assert_eq!(dialogs.len(), DIALOGS);
        for dialog in dialogs {
            let turns: Vec<&str> = dialog.split_terminator(&format!("{stop}\n")).collect();
            assert!((2..=6).contains(&turns.len()) && turns.len().is_multiple_of(2), "{dialog}");
            for (at, turn) in turns.into_iter().enumerate() {
                let role = if at % 2 == 0 { "user" } else { "assistant" };
                let content = turn.strip_prefix(&format!("{start}{role}\n")).unwrap();
                assert!(!content.is_empty() && !content.contains(start), "{dialog}");
            }
        }
    }

    #[test]
    fn names_are_names() {
        let text = bundled::text().unwrap();
        let verses: Vec<&str> = text.lines().filter(|line| VERSES.contains(&line.len())).collect();
        let names = names(&text, &verses);
        assert_eq!(names.len(), NAMES);
        assert!(names.iter().any(|(name, _)| *name == "Noah"));
        assert!(names.iter().all(|(name, verse)| verse.contains(name)));
        assert!(pairs(include_str!("../data/dialogs.txt")).len() > 100);
    }
}
