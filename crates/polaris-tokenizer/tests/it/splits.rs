//! The pre-tokenizers against the regular expressions that define them, and by hand.

use fancy_regex::Regex;
use polaris_core::random::SplitMix64;
use polaris_tokenizer::{pre_tokenize, pre_tokenizers};
use proptest::prelude::*;

use crate::made::line;

const CONTRACTIONS: &str = "'s|'t|'re|'ve|'m|'ll|'d";
const ANY_CASE: &str = "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])";
const UPPER: &str = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]";
const LOWER: &str = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]";
const SPACES: &str = r"\s*[\r\n]+|\s+(?!\S)|\s+";

fn gpt2() -> String {
    format!(r"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+")
}

fn llama3(digits: &str) -> String {
    let symbols = r" ?[^\s\p{L}\p{N}]+[\r\n]*";
    format!(r"{ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{digits}|{symbols}|{SPACES}")
}

fn cased(digits: &str, contraction: &str, tail: &str, upper: &str, lower: &str) -> String {
    let lead = r"[^\r\n\p{L}\p{N}]?";
    format!(
        r"{lead}{upper}*{lower}+{contraction}|{lead}{upper}+{lower}*{contraction}|\p{{N}}{digits}| ?[^\s\p{{L}}\p{{N}}]+{tail}|{SPACES}"
    )
}

/// The stages of one name of each group.
fn definition(name: &str) -> Vec<String> {
    let own = |stages: &[&str]| stages.iter().map(|stage| (*stage).to_owned()).collect::<Vec<_>>();
    let maybe = format!("{ANY_CASE}?");
    let deepseek = format!(
        r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{{|}}~][A-Za-z]+|[^\r\n\p{{L}}\p{{P}}\p{{S}}]?[\p{{L}}\p{{M}}]+| ?[\p{{P}}\p{{S}}]+[\r\n]*|{SPACES}"##
    );
    let bloom = " ?[^(\\s|.,!?\u{2026}\u{3002}\u{ff0c}\u{3001}\u{964}\u{6d4}\u{60c})]+";
    let asian = "[\u{4e00}-\u{9fa5}\u{800}-\u{4e00}\u{ac00}-\u{d7ff}]+";
    match name {
        "default" => own(&[r"[\p{P}\$\+<=>\^~\|]+", &gpt2(), r"\p{N}+", "[0-9][0-9][0-9]"]),
        "gpt-2" => vec![gpt2()],
        "starcoder" => own(&[r"\p{N}", &gpt2()]),
        "falcon" => own(&[r"[\p{P}\$\+<=>\^~\|`]+", &gpt2(), "[0-9][0-9][0-9]"]),
        "llama-bpe" => vec![llama3("{1,3}")],
        "minicpm5" => own(&[r"\p{N}{1,3}", &llama3("+")]),
        "jais-2" => {
            let powers = [512, 256, 128, 64, 32, 16, 8, 4].map(|n| format!(r"\s{{{n}}}(?!\S)|"));
            let spaces = format!(r"\s*[\r\n]+|{}\s{{1,2}}(?!\S)|\s{{1}}", powers.concat());
            vec![llama3("{1,3}").replace(SPACES, &spaces)]
        }
        "qwen2" => vec![llama3("")],
        // With possessive quantifiers and one line break, which change nothing.
        "bailingmoe" => vec![format!(
            r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{{L}}\p{{N}}]?+\p{{L}}+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
        )],
        "laguna" => own(&[r"[^\n]+|[\n]+", &llama3("")]),
        "qwen35" => vec![format!(
            r"{ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{SPACES}"
        )],
        "seed-coder" => vec![llama3("").replace(r"+[\r\n]*", "+")],
        "exaone-moe" => vec![format!(
            r"{ANY_CASE}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
        )],
        "tekken" => vec![cased("", "", r"[\r\n/]*", UPPER, LOWER)],
        "gpt-4o" => vec![cased("{1,3}", &maybe, r"[\r\n/]*", UPPER, LOWER)],
        "tiny_aya" => {
            own(&[r"\d{1,3}(?=(?:\d{3})*\b)", &cased("{1,3}", &maybe, r"[\r\n/]*", UPPER, LOWER)])
        }
        "youtu" => own(&[
            "[\u{ac00}-\u{d7a3}\u{3131}-\u{318e}]+|[\u{ff01}\u{2026}\u{201c}\u{201d}\u{2018}\u{2019}\u{2014}\u{ff1a}\u{ff1b}\u{ff0c}\u{3001}-\u{303f}\u{fe30}-\u{fe4f}]+|[\u{3105}-\u{312f}]+|[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+",
            &cased("", &maybe, r"[\r\n/]*", UPPER, LOWER),
        ]),
        "kimi-k2" => {
            let without_han = |set: &str| format!(r"[{set}&&[^\p{{Han}}]]");
            let words =
                cased("{1,3}", &maybe, r"[\r\n]*", &without_han(UPPER), &without_han(LOWER));
            vec![format!(r"[\p{{Han}}]+|{words}")]
        }
        "deepseek-coder" => own(&[r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", asian, r"\p{N}"]),
        "deepseek-v3" => own(&[
            r"\p{N}{1,3}",
            "[\u{4e00}-\u{9fa5}\u{3040}-\u{309f}\u{30a0}-\u{30ff}]+",
            &deepseek,
        ]),
        "bloom" => own(&[bloom]),
        "viking" => own(&[bloom, r"\p{N}"]),
        "superbpe" => own(&[r"\p{N}+", r"(?=(\d{3})+(?!\d))"]),
        "chameleon" => own(&[
            "<sentinel:[0-9]+>",
            "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
            r"([\t\n]|    |  )",
            r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]",
            &gpt2(),
        ]),
        "gemma4" => own(&[r"[^\n]+|[\n]+"]),
        "whitespace" => own(&[r"\S+"]),
        _ => panic!("{name} has no definition here"),
    }
}

/// All matches of an expression, and what is between them.
fn isolate(regex: &Regex, text: &str) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut at = 0;
    for found in regex.find_iter(text) {
        let found = found.unwrap();
        pieces.push(text[at..found.start()].to_owned());
        pieces.push(found.as_str().to_owned());
        at = found.end();
    }
    pieces.push(text[at..].to_owned());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

#[test]
fn rules_match_what_their_regular_expressions_match() {
    let names = [
        "default",
        "gpt-2",
        "starcoder",
        "falcon",
        "llama-bpe",
        "minicpm5",
        "jais-2",
        "qwen2",
        "bailingmoe",
        "laguna",
        "qwen35",
        "seed-coder",
        "exaone-moe",
        "tekken",
        "gpt-4o",
        "tiny_aya",
        "youtu",
        "kimi-k2",
        "deepseek-coder",
        "deepseek-v3",
        "bloom",
        "viking",
        "superbpe",
        "chameleon",
        "gemma4",
        "whitespace",
    ];
    let mut random = SplitMix64::new(7);
    let mut lines: Vec<String> = (0..600).map(|_| line(&mut random)).collect();
    lines.extend((1..40).map(|count| " ".repeat(count) + "x"));
    lines.extend((1..40).map(|count| "7".repeat(count) + if count % 3 == 0 { "a" } else { "" }));
    lines.push("IMGIMGABCDZ IMGIMGABCDEZ <sentinel:12> <sentinel:>".into());
    lines.push(" ".repeat(1300));
    for name in names {
        let stages: Vec<Regex> =
            definition(name).iter().map(|stage| Regex::new(stage).unwrap()).collect();
        for text in &lines {
            let mut wanted = vec![text.clone()];
            for stage in &stages {
                wanted = wanted.iter().flat_map(|piece| isolate(stage, piece)).collect();
            }
            wanted.retain(|piece| !piece.is_empty());
            assert_eq!(pre_tokenize(name, text).unwrap(), wanted, "{name}: {text:?}");
        }
    }
}

/// Expectations from the definitions, written by hand.
#[test]
fn rules_by_hand() {
    let cases: &[(&str, &str, &[&str])] = &[
        (
            "gpt-2",
            "I'll say: it's 1234!  Ok\n\n x",
            &["I", "'ll", " say", ":", " it", "'s", " 1234", "!", " ", " Ok", "\n\n", " x"],
        ),
        ("gpt-2", "I'LL", &["I", "'", "LL"]),
        ("default", "a... 12345", &["a", "...", " ", "123", "45"]),
        ("starcoder", "x = 42;", &["x", " =", " ", "4", "2", ";"]),
        ("falcon", "x+= 12345", &["x", "+=", " ", "123", "45"]),
        (
            "llama-bpe",
            "I'LL (pay) 12345\n\n  done",
            &["I", "'LL", " (", "pay", ")", " ", "123", "45", "\n\n", " ", " done"],
        ),
        ("llama-bpe", "a=b;\n\nc", &["a", "=b", ";\n\n", "c"]),
        ("qwen2", "x 123", &["x", " ", "1", "2", "3"]),
        ("qwen2", "e\u{301}a", &["e", "\u{301}a"]),
        ("qwen35", "e\u{301}a", &["e\u{301}a"]),
        ("minicpm5", "12345a", &["123", "45", "a"]),
        ("seed-coder", "a;\nb", &["a", ";", "\n", "b"]),
        ("exaone-moe", "one two  three 4", &["one two", " ", " three", " ", "4"]),
        (
            "tekken",
            "helloWorld HTTPServer's 12",
            &["hello", "World", " HTTPServer", "'s", " ", "1", "2"],
        ),
        ("gpt-4o", "helloWorld it's 1234/", &["hello", "World", " it's", " ", "123", "4", "/"]),
        ("gpt-4o", "ABC \u{4e2d}\u{6587}abc", &["ABC", " \u{4e2d}\u{6587}abc"]),
        ("kimi-k2", "\u{4e2d}\u{6587}abc", &["\u{4e2d}\u{6587}", "abc"]),
        ("tiny_aya", "1234567 1234a", &["1", "234", "567", " ", "123", "4", "a"]),
        ("afmoe", "1234a \u{e20}\u{e40}\u{e41}", &["1", "234", "a", " \u{e20}", "\u{e40}\u{e41}"]),
        ("superbpe", "pay 1234567 now", &["pay ", "1", "234", "567", " now"]),
        ("youtu", "a\u{d55c}\u{ae00}\u{3002}b", &["a", "\u{d55c}\u{ae00}", "\u{3002}", "b"]),
        (
            "deepseek-llm",
            "Hi there,\n  12 \u{4e2d}",
            &["Hi", " there", ",", "\n", "  ", "12", " ", "\u{4e2d}"],
        ),
        ("deepseek-llm", "\u{e4}\u{f6}\u{21c5} ", &["\u{e4}\u{f6}", "\u{21c5}", " "]),
        ("deepseek-coder", "def f(x):\n  12", &["def", " f", "(", "x", "):", "\n", "  ", "1", "2"]),
        (
            "deepseek-v3",
            "a.b 1234 \u{4e2d}\u{6587}",
            &["a", ".b", " ", "123", "4", " ", "\u{4e2d}\u{6587}"],
        ),
        ("bloom", "a b, c!", &["a", " b", ",", " c", "!"]),
        ("viking", "a 12", &["a", " ", "1", "2"]),
        ("laguna", "a \nb", &["a", " ", "\n", "b"]),
        ("jais-2", "a       b", &["a", "    ", "  ", " b"]),
        ("chameleon", "a<sentinel:1>  b.", &["a", "<", "sentinel", ":", "1", ">", "  ", "b", "."]),
        ("gemma4", "a b\n\nc", &["a b", "\n\n", "c"]),
        ("whitespace", "a  b", &["a", "  ", "b"]),
    ];
    for (name, text, wanted) in cases {
        assert_eq!(pre_tokenize(name, text).unwrap(), *wanted, "{name}: {text:?}");
    }
}

#[test]
fn names_are_known_or_an_error_that_lists_them() {
    assert_eq!(pre_tokenizers().len(), 87);
    assert_eq!(pre_tokenize("", "a1").unwrap(), pre_tokenize("default", "a1").unwrap());
    let error = pre_tokenize("gpt-17", "a").unwrap_err().to_string();
    assert!(
        error.contains("`gpt-17`") && error.contains("llama-bpe") && error.contains("viking"),
        "{error}"
    );
}

#[test]
fn long_runs_take_linear_time() {
    // A quadratic rule would take minutes for these.
    for run in
        [" ", "7", "a", "A", "\n", "\u{4e2d}", "'", "\u{301}", "<sentinel:", "IMGIMGA", " \n", "Aa"]
    {
        let text = run.repeat(1 << 16) + "x";
        for name in pre_tokenizers() {
            let words = pre_tokenize(name, &text).unwrap();
            assert_eq!(words.iter().map(|word| word.len()).sum::<usize>(), text.len(), "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn words_joined_are_the_text(text in any::<String>(), seed in any::<u64>()) {
        let text = text + &line(&mut SplitMix64::new(seed));
        for name in pre_tokenizers() {
            let words = pre_tokenize(name, &text).unwrap();
            prop_assert!(words.iter().all(|word| !word.is_empty()));
            prop_assert_eq!(words.concat(), &*text);
        }
    }
}
