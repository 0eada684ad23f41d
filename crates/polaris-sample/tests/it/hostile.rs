//! Grammars and schemas that are damaged or made to be expensive: an error or a grammar, never a panic or a hang.

use std::sync::Arc;

use polaris_sample::{Error, Grammar, Matcher, Pieces};

use crate::Random;

const GRAMMARS: [&str; 4] = [
    "root ::= (expr \"=\" ws term \"\\n\")+\nexpr ::= term ([-+*/] term)*\nterm ::= [a-z] [a-z0-9_]* ws | [0-9]+ ws | \
     \"(\" ws expr \")\" ws\nws ::= [ \\t\\n]*\n",
    "root ::= object\nobject ::= \"{\" (string \":\" value (\",\" string \":\" value)*)? \"}\"\nvalue ::= object | \
     string | [0-9]{1,15}\nstring ::= \"\\\"\" [^\"\\\\\\x7F\\x00-\\x1F]{0,40} \"\\\"\"",
    "root ::= [\\u00e9-\\U0001F600]{2,} . \"日本\" | # comment\n \"x\"? \"\\x41\"",
    "root ::= a b? c*\na ::= \"a\"{3} | b\nb ::= (\"b\" | [^a-z] | \"\"){1,4}\nc ::= \"c\" c | \"d\"",
];

const SCHEMAS: [&str; 4] = [
    r##"{"type":"object","properties":{"name":{"type":"string","minLength":1,"maxLength":20},"age":{"type":"integer",
     "minimum":0,"maximum":150},"tags":{"type":"array","items":{"enum":["a","b"]},"maxItems":3}},"required":["name"],
     "additionalProperties":{"type":"number","exclusiveMinimum":0.5}}"##,
    r##"{"$defs":{"n":{"anyOf":[{"type":"null"},{"type":"array","prefixItems":[{"$ref":"#/$defs/n"}]}]}},"$ref":"#/$defs/n"}"##,
    r##"{"oneOf":[{"properties":{"k":{"const":1}},"required":["k"]},{"properties":{"k":{"const":2}},"required":["k"]}]}"##,
    r##"{"allOf":[{"pattern":"^[a-z]{1,3}(\\d+|-)?$"},{"type":["string","null"]}],"title":"x"}"##,
];

const PARTS: [&str; 24] = [
    "root",
    " ::= ",
    "\"",
    "[",
    "]",
    "(",
    ")",
    "{1,999}",
    "{0,65536}",
    "*",
    "+?",
    "|",
    "\n",
    "\\x00",
    "\\U0010FFFF",
    "[^\\x00-\\U0010FFFF]",
    "{\"$ref\":\"#\"}",
    "\"anyOf\":[",
    "\"minimum\":1e300,",
    "\"maxLength\":99999999,",
    "-1e-300",
    "é",
    "true",
    "a",
];

fn damage(text: &str, random: &mut Random) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..1 + random.below(4) {
        let at = random.below(characters.len() + 1);
        let end = (at + random.below(12)).min(characters.len());
        match random.below(4) {
            0 => drop(characters.drain(at..end)),
            1 => {
                let copy = characters[at..end].to_vec();
                let to = random.below(characters.len() + 1);
                characters.splice(to..to, copy);
            }
            2 => drop(characters.splice(at..at, random.pick(&PARTS).chars())),
            _ if at < characters.len() => {
                characters[at] = char::from_u32(random.below(0x250) as u32).unwrap_or('x');
            }
            _ => {}
        }
    }
    characters.into_iter().collect()
}

/// Follows the grammar for a few tokens.
fn walk(grammar: &Grammar, pieces: &Arc<Pieces>, random: &mut Random) {
    let Ok(mut matcher) = Matcher::new(grammar, pieces.clone()) else { return };
    for _ in 0..4 {
        let Ok(mask) = matcher.allowed() else { return };
        let allowed: Vec<u32> = (0..pieces.len() as u32).filter(|&t| mask.allows(t)).collect();
        assert!(!allowed.is_empty(), "every text can be completed");
        let token = *random.pick(&allowed);
        matcher.accept_token(token).unwrap();
        if pieces.is_end(token) {
            return;
        }
    }
}

#[test]
fn damaged_grammars_and_schemas_do_no_harm() {
    let mut random = Random::new(41);
    let mut bytes: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    bytes.push(Vec::new());
    let pieces = Arc::new(Pieces::new(&bytes, &[256]).unwrap());
    let (mut good, mut bad) = (0, 0);
    for case in 0..6000 {
        let is_schema = case % 2 == 0;
        let text = if is_schema { *random.pick(&SCHEMAS) } else { *random.pick(&GRAMMARS) };
        let text = damage(text, &mut random);
        let grammar = match is_schema {
            true => Grammar::from_json_schema(&text),
            false => Grammar::from_gbnf(&text),
        };
        match grammar {
            Ok(grammar) => {
                good += 1;
                walk(&grammar, &pieces, &mut random);
            }
            Err(error) => {
                bad += 1;
                assert!(!error.to_string().is_empty());
            }
        }
    }
    assert!(good > 500 && bad > 500, "{good} good, {bad} bad");
}

fn steps(grammar: &str, text: &str) -> Result<(), Error> {
    let grammar = Grammar::from_gbnf(grammar)?;
    let mut bytes: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    bytes.push(text.as_bytes().to_vec());
    let mut matcher = Matcher::new(&grammar, Arc::new(Pieces::new(&bytes, &[])?))?;
    matcher.allowed()?;
    matcher.accept(text.as_bytes())?;
    matcher.allowed().map(drop)
}

#[test]
fn expensive_grammars_meet_limits() {
    let limit = |result: Result<(), Error>| {
        assert!(matches!(result, Err(Error::Limit { .. })), "{result:?}")
    };
    limit(steps(&format!("root ::= {}\"a\"{}", "(".repeat(100_000), ")".repeat(100_000)), "a"));
    limit(steps(&format!("root ::= {}", "\"a\"{60000} ".repeat(30)), "a"));
    // Repetitions of repetitions are calls, which cost little.
    steps("root ::= (((\"abc\"{9999}){9999}){9999}){9999}", "abcabca").unwrap();
    limit(steps(&"a".repeat(2_000_000), "a"));
    let repeated = format!("root ::= \"a\"{}", "*".repeat(100_000));
    assert!(Grammar::from_gbnf(&repeated).is_err());
    // Two calls of each rule at the beginning of the one before: 2^30 stacks.
    let mut doubling = String::from("root ::= r0\n");
    for level in 0..30 {
        let next = level + 1;
        doubling += &format!("r{level} ::= r{next} \"x\" | r{next} \"y\"\n");
    }
    limit(steps(&(doubling + "r30 ::= \"a\""), "a"));
    // Each repetition may be empty, so all of them begin at once.
    limit(steps("root ::= (\"a\"? \"b\"?){60000}", "a"));
    // Long chains of rules are fine.
    let mut chain = String::from("root ::= r0\n");
    for level in 0..5000 {
        chain += &format!("r{level} ::= \"(\"? r{} \")\"?\n", level + 1);
    }
    steps(&(chain + "r5000 ::= \"a\""), "((a))").unwrap();
}

#[test]
fn deep_texts_use_bounded_memory() {
    let grammar = Grammar::from_gbnf("root ::= \"[\" root \"]\" | \"x\"").unwrap();
    let pieces = Arc::new(Pieces::new(&["[", "]", "x", "[[[["], &[]).unwrap());
    let mut matcher = Matcher::new(&grammar, pieces).unwrap();
    // The tables are cleaned on the way; at some depth the stack itself is too large.
    let mut depth = 0usize;
    let error = loop {
        match matcher.accept(&[b'['; 1000]) {
            Ok(()) => depth += 1000,
            Err(error) => break error,
        }
        assert!(depth < 10_000_000);
    };
    assert!(matches!(error, Error::Limit { .. }) && depth > 100_000, "{error} at {depth}");
    matcher.reset();
    matcher.accept(&[b'['; 30_000]).unwrap();
    matcher.accept(b"x").unwrap();
    matcher.accept(&[b']'; 30_000]).unwrap();
    assert!(matcher.is_complete());
    // Long texts of many different depths: every state is new.
    matcher.reset();
    for _ in 0..40 {
        matcher.accept(&[b'['; 5_000]).unwrap();
        assert_eq!(matcher.allowed().unwrap().count(), 3);
    }
}

#[test]
fn expensive_schemas_meet_limits() {
    let nested = format!("{}{}{}", "{\"items\":".repeat(2000), "{}", "}".repeat(2000));
    assert!(Grammar::from_json_schema(&nested).is_err());
    // A chain of references through properties is followed without recursion.
    let mut chain = String::from("{\"$ref\":\"#/$defs/a0\",\"$defs\":{");
    for level in 0..8000 {
        let next = level + 1;
        chain += &format!(
            "\"a{level}\":{{\"items\":{{\"$ref\":\"#/$defs/a{next}\"}},\"type\":\"array\"}},"
        );
    }
    Grammar::from_json_schema(&(chain + "\"a8000\":{}}}")).unwrap();
    // 2^12 combinations.
    let pair = "{\"anyOf\":[{\"minimum\":1},{\"maximum\":1}]}";
    let product = format!("{{\"type\":\"integer\",\"allOf\":[{}]}}", [pair; 12].join(","));
    assert!(matches!(Grammar::from_json_schema(&product), Err(Error::Limit { .. })));
    // Each level twice: 2^40 ways through the references.
    let mut doubling = String::from("{\"$ref\":\"#/$defs/a0\",\"$defs\":{");
    for level in 0..40 {
        let next = format!("{{\"$ref\":\"#/$defs/a{}\"}}", level + 1);
        doubling += &format!("\"a{level}\":{{\"allOf\":[{next},{next}]}},");
    }
    let doubling = doubling + "\"a40\":{\"type\":\"null\"}}}";
    assert!(matches!(Grammar::from_json_schema(&doubling), Err(Error::Limit { .. })));
    // Large enumerations are fine, and so are long strings.
    let words: Vec<String> = (0..10_000).map(|n| format!("\"word {n}\"")).collect();
    Grammar::from_json_schema(&format!("{{\"enum\":[{}]}}", words.join(","))).unwrap();
    Grammar::from_json_schema("{\"type\":\"string\",\"maxLength\":1000000}").unwrap();
    assert!(Grammar::from_json_schema("{\"type\":\"string\",\"minLength\":1000000}").is_err());
}
