//! Texts that a sampler and a matcher write together, over random vocabularies, always fit their grammar.

use std::sync::Arc;

use polaris_sample::{Grammar, Matcher, Options, Pieces, Sampler};

use crate::Random;
use crate::recogniser::Tree;

/// All single bytes, some longer pieces that may cut characters, an empty one, and an end as the last token.
pub fn vocabulary(random: &mut Random) -> Vec<Vec<u8>> {
    let samples = "{\"a\": [1, -2.5e3, true], \"é日😀\": \"b\\n\\u00e9\", null, false}abc\n  ()+*";
    let mut pieces: Vec<Vec<u8>> = (0..=255).map(|byte| vec![byte]).collect();
    for _ in 0..200 {
        let start = random.below(samples.len());
        let end = (start + 2 + random.below(6)).min(samples.len());
        pieces.push(samples.as_bytes()[start..end].to_vec());
    }
    pieces.push(Vec::new());
    pieces.push(Vec::new());
    pieces
}

/// Writes a text: random logits, in which what closes a text grows with its length. None after too many tokens.
pub fn write(
    matcher: &mut Matcher,
    vocabulary: &[Vec<u8>],
    random: &mut Random,
    most: usize,
) -> Option<Vec<u8>> {
    let end = vocabulary.len() as u32 - 1;
    let options = Options {
        seed: random.0.bits(),
        top_k: 0,
        top_p: 1.0,
        min_p: 0.0,
        temperature: 1.0,
        ..Options::default()
    };
    let mut sampler = Sampler::new(&options, vocabulary.len()).unwrap();
    matcher.reset();
    let mut text = Vec::new();
    for step in 0..most {
        let mut logits: Vec<f32> = vocabulary.iter().map(|_| random.normal() * 2.0).collect();
        for closing in [b'"', b'}', b']', b')'] {
            logits[usize::from(closing)] += 2.0 + step as f32 * 0.05;
        }
        logits[end as usize] += 3.0 + step as f32 * 0.1;
        let token = sampler.sample_masked(&logits, matcher.allowed().unwrap()).unwrap();
        // A mask and a single question agree, for this token and others.
        assert!(matcher.permits(token).unwrap());
        let other = random.below(vocabulary.len()) as u32;
        let allowed = matcher.allowed().unwrap().allows(other);
        assert_eq!(matcher.permits(other).unwrap(), allowed);
        matcher.accept_token(token).unwrap();
        if token == end {
            return Some(text);
        }
        text.extend(&vocabulary[token as usize]);
    }
    None
}

pub fn pieces(vocabulary: &[Vec<u8>]) -> Arc<Pieces> {
    Arc::new(Pieces::new(vocabulary, &[vocabulary.len() as u32 - 1]).unwrap())
}

#[test]
fn texts_of_random_grammars_match_them() {
    let mut random = Random::new(17);
    let mut written = 0;
    for _ in 0..150 {
        let tree = Tree::random(&mut random, 3);
        let grammar = Grammar::from_gbnf(&format!("root ::= {}", tree.gbnf(&mut random))).unwrap();
        let vocabulary = vocabulary(&mut random);
        let mut matcher = Matcher::new(&grammar, pieces(&vocabulary)).unwrap();
        for _ in 0..4 {
            let Some(text) = write(&mut matcher, &vocabulary, &mut random, 400) else { continue };
            let text = String::from_utf8(text).expect("a complete text should be UTF-8");
            assert!(tree.matches(&text), "{text:?}");
            written += 1;
        }
    }
    assert!(written > 580, "{written} texts");
}

#[test]
fn texts_of_the_json_grammar_are_json() {
    let grammar = Grammar::from_json_schema("true").unwrap();
    let mut random = Random::new(18);
    let vocabulary = vocabulary(&mut random);
    let mut matcher = Matcher::new(&grammar, pieces(&vocabulary)).unwrap();
    let mut longest = 0;
    for _ in 0..200 {
        let text =
            write(&mut matcher, &vocabulary, &mut random, 3000).expect("the text should end");
        serde_json::from_slice::<serde_json::Value>(&text).unwrap();
        longest = longest.max(text.len());
    }
    assert!(longest > 50);
}
