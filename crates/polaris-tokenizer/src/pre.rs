//! The pre-tokenizers: how text is split into words, by the name in `tokenizer.ggml.pre`.
//!
//! A name stands for the model that was first converted with it; many models share their rules. The rules are those of
//! the models' own `tokenizer.json`, where several `Split` steps follow one another.

use crate::categories::Set;
use crate::pre_sets::*;
use crate::split::{BEFORE_WORD, Lead, Rule, Stage, Tail};
use crate::{Error, Result};

/// What a name stands for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pre {
    /// How text is split.
    pub stages: &'static [Stage],
    /// Whether tokens are spelled in the 256 characters that stand for bytes, and not in UTF-8.
    pub byte_level: bool,
    /// Whether spaces become U+2581 before the text is split.
    pub escape_spaces: bool,
    /// Whether a word that is a token is taken as it is, whatever the merges say.
    pub ignore_merges: bool,
    /// Whether line breaks that are a token are taken as they are.
    pub whole_lines: bool,
    /// Whether a text begins with BOS where the file does not say.
    pub add_bos: bool,
}

/// The name of the rules for files without one.
const DEFAULT: &str = "default";

/// Every name, grouped by rules.
#[rustfmt::skip]
static NAMES: &[(&[&str], &[Stage])] = &[
    (&[DEFAULT], &[MARKS_STAGE, GPT2, NUMBERS, THREE_DIGITS]),
    (
        &[
            "gpt-2", "phi-2", "jina-es", "jina-de", "gigachat", "jina-v1-en", "jina-v2-es", "jina-v2-de",
            "jina-v2-code", "roberta-bpe", "a.x-4.0", "mellum", "modern-bert", "mpt", "olmo", "jais", "trillion",
            "granite-docling", "exaone4",
        ],
        &[GPT2],
    ),
    (
        &[
            "starcoder", "refact", "command-r", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2",
        ],
        &[SINGLE_NUMBERS, GPT2],
    ),
    (&["falcon"], &[MARKS_AND_GRAVE_STAGE, GPT2, THREE_DIGITS]),
    (
        &[
            "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
            "dbrx", "smaug-bpe", "glm4", "chatglm-bpe",
        ],
        &[llama3(3)],
    ),
    (&["minicpm5"], &[NUMBERS_OF_THREE, llama3(usize::MAX)]),
    (&["jais-2"], &[JAIS2]),
    (
        &[
            "qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez", "stablelm2", "hunyuan", "solar-open",
            "grok-2", "bailingmoe", "bailingmoe2", "llada-moe",
        ],
        &[llama3(1)],
    ),
    (&["laguna"], &[LINES, llama3(1)]),
    (&["qwen35"], &[QWEN35]),
    (&["seed-coder"], &[SEED_CODER]),
    (&["exaone-moe"], &[EXAONE_MOE]),
    (&["tekken"], &[cased(1, false)]),
    (
        &["gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2", "granite-embed-multi-97m"],
        &[cased(3, true)],
    ),
    (&["tiny_aya", "cohere2moe"], &[Stage::Thousands { word_end: true }, cased(3, true)]),
    (&["youtu"], &[YOUTU_SCRIPTS, cased(1, true)]),
    (&["kimi-k2"], &[KIMI_K2]),
    (&["deepseek-llm"], DEEPSEEK_LLM),
    (&["deepseek-coder"], DEEPSEEK_CODER),
    (
        &["deepseek-v3", "hunyuan-dense", "joyai-llm"],
        &[NUMBERS_OF_THREE, Stage::Rules(&[run(&DEEPSEEK_CJK)]), DEEPSEEK_V3],
    ),
    (
        &["afmoe"],
        &[Stage::Thousands { word_end: false }, Stage::Rules(&[run(&AFMOE_ASIAN)]), DEEPSEEK_V3],
    ),
    (&["poro-chat", "bloom", "gpt3-finnish"], &[BLOOM]),
    (&["viking"], &[BLOOM, SINGLE_NUMBERS]),
    (&["superbpe"], &[NUMBERS, Stage::BeforeThousands]),
    (&["chameleon"], CHAMELEON),
    (&["gemma4", "granite-embed-multi-311m", "sarvam-moe"], &[LINES]),
    (&["whitespace"], &[Stage::Rules(&[run(&NOT_WHITE)])]),
];

/// Words that are tokens are not merged.
#[rustfmt::skip]
const IGNORE_MERGES: &[&str] = &[
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
    "minicpm5", "youtu", "tekken", "granite-embed-multi-97m",
];

/// Texts begin with BOS.
#[rustfmt::skip]
const ADD_BOS: &[&str] = &[
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
    "tekken", "chameleon", "gemma4", "granite-embed-multi-311m",
];

/// Tokens are UTF-8, with U+2581 for a space.
const SPACES_ESCAPED: &[&str] = &["gemma4", "granite-embed-multi-311m", "sarvam-moe"];

/// What a name stands for; no name stands for `default`.
pub(crate) fn find(name: Option<&str>) -> Result<Pre> {
    let name = name.filter(|name| !name.is_empty()).unwrap_or(DEFAULT);
    let row = NAMES.iter().find(|(names, _)| names.contains(&name));
    let (_, stages) = row.ok_or_else(|| Error::PreTokenizer { found: name.to_owned() })?;
    let escape_spaces = SPACES_ESCAPED.contains(&name);
    Ok(Pre {
        stages,
        byte_level: !escape_spaces && name != "whitespace",
        escape_spaces,
        ignore_merges: IGNORE_MERGES.contains(&name),
        whole_lines: escape_spaces && name != "sarvam-moe",
        add_bos: ADD_BOS.contains(&name),
    })
}

/// All names, in the order of the alphabet.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = NAMES.iter().flat_map(|(names, _)| *names).copied().collect();
    names.sort_unstable();
    names
}

/// All names, for messages.
pub(crate) fn list() -> String {
    names().join(", ")
}

/// `set+`.
const fn run(set: &'static Set) -> Rule {
    run_of(set, 1, usize::MAX)
}

/// `set{min,max}`.
const fn run_of(set: &'static Set, min: usize, max: usize) -> Rule {
    Rule::Run { lead: Lead::None, set, min, max, tail: Tail::None }
}

/// `lead?set+`.
const fn after(lead: &'static Set, set: &'static Set) -> Rule {
    Rule::Run { lead: Lead::Maybe(lead), set, min: 1, max: usize::MAX, tail: Tail::None }
}

/// ` ?set+tail`.
const fn symbols(set: &'static Set, tail: Tail) -> Rule {
    Rule::Run { lead: Lead::Maybe(&SPACE), set, min: 1, max: usize::MAX, tail }
}

const MARKS_STAGE: Stage = Stage::Rules(&[run(&MARKS)]);
const MARKS_AND_GRAVE_STAGE: Stage = Stage::Rules(&[run(&MARKS_AND_GRAVE)]);
/// `\p{N}+`.
const NUMBERS: Stage = Stage::Rules(&[run(&NUMBER)]);
/// `\p{N}`.
const SINGLE_NUMBERS: Stage = Stage::Rules(&[run_of(&NUMBER, 1, 1)]);
/// `\p{N}{1,3}`.
const NUMBERS_OF_THREE: Stage = Stage::Rules(&[run_of(&NUMBER, 1, 3)]);
/// `[0-9][0-9][0-9]`.
const THREE_DIGITS: Stage = Stage::Rules(&[run_of(&ASCII_DIGIT, 3, 3)]);
/// `[^\n]+|\n+`.
const LINES: Stage = Stage::Rules(&[run(&NOT_NEWLINE), run(&NEWLINE)]);

/// `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
const GPT2: Stage = Stage::Rules(&[
    Rule::Contraction { any_case: false },
    after(&SPACE, &LETTER),
    after(&SPACE, &NUMBER),
    after(&SPACE, &OTHER),
    Rule::Spaces,
]);

/// `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
/// \s+(?!\S)|\s+`
const fn llama3(digits: usize) -> Stage {
    match digits {
        1 => Stage::Rules(const { &words(1) }),
        3 => Stage::Rules(const { &words(3) }),
        _ => Stage::Rules(const { &words(usize::MAX) }),
    }
}

const fn words(digits: usize) -> [Rule; 6] {
    [
        Rule::Contraction { any_case: true },
        after(&BEFORE_WORD, &LETTER),
        run_of(&NUMBER, 1, digits),
        symbols(&OTHER, Tail::All(&LINE_BREAK)),
        Rule::LineEnds,
        Rule::Spaces,
    ]
}

/// As [`llama3`], with white space in powers of two.
const JAIS2: Stage = Stage::Rules(&[
    Rule::Contraction { any_case: true },
    after(&BEFORE_WORD, &LETTER),
    run_of(&NUMBER, 1, 3),
    symbols(&OTHER, Tail::All(&LINE_BREAK)),
    Rule::LineEnds,
    Rule::SpacesByPowers,
]);

/// As [`llama3`] with single digits, and marks belong to words.
const QWEN35: Stage = Stage::Rules(&[
    Rule::Contraction { any_case: true },
    after(&BEFORE_WORD, &LETTER_OR_MARK),
    run_of(&NUMBER, 1, 1),
    symbols(&OTHER_BUT_MARK, Tail::All(&LINE_BREAK)),
    Rule::LineEnds,
    Rule::Spaces,
]);

/// As [`llama3`] with single digits; symbols take no line breaks with them.
const SEED_CODER: Stage = Stage::Rules(&[
    Rule::Contraction { any_case: true },
    after(&BEFORE_WORD, &LETTER),
    run_of(&NUMBER, 1, 1),
    symbols(&OTHER, Tail::None),
    Rule::LineEnds,
    Rule::Spaces,
]);

/// As [`llama3`] with single digits, and phrases instead of words.
const EXAONE_MOE: Stage = Stage::Rules(&[
    Rule::Contraction { any_case: true },
    Rule::Phrase,
    run_of(&NUMBER, 1, 1),
    symbols(&OTHER, Tail::One(&LINE_BREAK_OR_SLASH)),
    Rule::LineEnds,
    Rule::Spaces,
]);

/// Words that are split where small letters are followed by capitals, as in `gpt-4o`.
const fn cased(digits: usize, contraction: bool) -> Stage {
    match (digits, contraction) {
        (1, false) => Stage::Rules(const { &cased_words(1, false) }),
        (1, true) => Stage::Rules(const { &cased_words(1, true) }),
        _ => Stage::Rules(const { &cased_words(3, true) }),
    }
}

const fn cased_words(digits: usize, contraction: bool) -> [Rule; 5] {
    [
        Rule::Cased { contraction, han: true },
        run_of(&NUMBER, 1, digits),
        symbols(&OTHER, Tail::All(&LINE_BREAK_OR_SLASH)),
        Rule::LineEnds,
        Rule::Spaces,
    ]
}

const YOUTU_SCRIPTS: Stage = Stage::Rules(&[
    run(&YOUTU_KOREAN),
    run(&YOUTU_MARKS),
    run(&YOUTU_BOPOMOFO),
    run(&DEEPSEEK_CJK),
]);

/// As `gpt-4o`, but runs of Han are words of their own.
const KIMI_K2: Stage = Stage::Rules(&[
    run(&HAN),
    Rule::Cased { contraction: true, han: false },
    run_of(&NUMBER, 1, 3),
    symbols(&OTHER, Tail::All(&LINE_BREAK)),
    Rule::LineEnds,
    Rule::Spaces,
]);

const DEEPSEEK_LLM: &[Stage] = &[
    Stage::Rules(&[run_of(&LINE_BREAK, 1, 1)]),
    Stage::Rules(&[after(&WHITE, &DEEPSEEK_LETTERS)]),
    Stage::Rules(&[after(&WHITE, &DEEPSEEK_MARKS)]),
    Stage::Rules(&[Rule::SpacesAtEnd]),
    Stage::Rules(&[run(&DEEPSEEK_ASIAN)]),
    NUMBERS,
];

const DEEPSEEK_CODER: &[Stage] = &[
    Stage::Rules(&[run_of(&LINE_BREAK, 1, 1)]),
    Stage::Rules(&[after(&WHITE, &LETTER)]),
    Stage::Rules(&[after(&WHITE, &PUNCTUATION)]),
    Stage::Rules(&[run(&DEEPSEEK_ASIAN)]),
    SINGLE_NUMBERS,
];

/// ``[!-/:-@\[-`{-~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+``
const DEEPSEEK_V3: Stage = Stage::Rules(&[
    Rule::Run {
        lead: Lead::Must(&ASCII_PUNCTUATION),
        set: &ASCII_LETTER,
        min: 1,
        max: usize::MAX,
        tail: Tail::None,
    },
    after(&BEFORE_LETTERS, &LETTER_OR_MARK),
    symbols(&PUNCTUATION_OR_SYMBOL, Tail::All(&LINE_BREAK)),
    Rule::LineEnds,
    Rule::Spaces,
]);

/// ` ?[^(\s|.,!?…。，、।۔،)]+`
const BLOOM: Stage = Stage::Rules(&[after(&SPACE, &BLOOM_WORD)]);

const CHAMELEON: &[Stage] = &[
    Stage::Rules(&[Rule::Between {
        open: "<sentinel:",
        set: &ASCII_DIGIT,
        max: usize::MAX,
        close: ">",
    }]),
    Stage::Rules(&[Rule::Between { open: "IMGIMG", set: &A_TO_I, max: 4, close: "Z" }]),
    Stage::Rules(&[Rule::OneOf(&["\t", "\n", "    ", "  "])]),
    SINGLE_NUMBERS,
    Stage::Rules(&[run_of(&ANY_PUNCTUATION, 1, 1)]),
    GPT2,
];
