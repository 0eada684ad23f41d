//! Random grammars as trees, written as GBNF, with a recogniser that follows the definition: the set of places where a
//! match can end.

use std::collections::BTreeSet;
use std::sync::Arc;

use polaris_sample::{Grammar, Matcher, Pieces};

use crate::Random;

pub enum Tree {
    Text(String),
    Class { negated: bool, ranges: Vec<(char, char)> },
    Any,
    Sequence(Vec<Tree>),
    Choice(Vec<Tree>),
    Repeat(Box<Tree>, usize, Option<usize>),
}

const LETTERS: [char; 9] = ['a', 'b', 'c', '"', '\\', '\n', 'é', '日', '😀'];

impl Tree {
    pub fn random(random: &mut Random, depth: usize) -> Self {
        let kinds = if depth == 0 { 3 } else { 7 };
        match random.below(kinds) {
            0 => Self::Text((0..1 + random.below(3)).map(|_| *random.pick(&LETTERS)).collect()),
            1 => {
                let mut range = || {
                    let (a, b) = (*random.pick(&LETTERS), *random.pick(&LETTERS));
                    (a.min(b), a.max(b))
                };
                let ranges = vec![range(), range()];
                Self::Class { negated: random.chance(0.3), ranges }
            }
            2 => Self::Any,
            3 | 4 => Self::Sequence(Self::some(random, depth)),
            5 => Self::Choice(Self::some(random, depth)),
            _ => {
                let least = random.below(3);
                let most = random.chance(0.5).then(|| least + random.below(3));
                Self::Repeat(Box::new(Self::random(random, depth - 1)), least, most)
            }
        }
    }

    fn some(random: &mut Random, depth: usize) -> Vec<Self> {
        (0..1 + random.below(3)).map(|_| Self::random(random, depth - 1)).collect()
    }

    pub fn gbnf(&self, random: &mut Random) -> String {
        let all = |trees: &[Self], random: &mut Random, between: &str| {
            let parts: Vec<String> = trees.iter().map(|tree| tree.gbnf(random)).collect();
            format!("({})", parts.join(between))
        };
        match self {
            Self::Text(text) => {
                let escaped: String = text.chars().map(|c| escape(c, random)).collect();
                format!("\"{escaped}\"")
            }
            Self::Class { negated, ranges } => {
                let mut text = if *negated { "[^".to_owned() } else { "[".to_owned() };
                for (low, high) in ranges {
                    let high_text = escape(*high, random);
                    text += &format!("{}-{high_text}", escape(*low, random));
                }
                text + "]"
            }
            Self::Any => ".".into(),
            Self::Sequence(trees) => all(trees, random, " "),
            Self::Choice(trees) => all(trees, random, "\n | # a comment\n"),
            Self::Repeat(tree, least, most) => {
                let inner = tree.gbnf(random);
                match (least, most) {
                    (0, None) => format!("({inner})*"),
                    (1, None) => format!("({inner}) +"),
                    (0, Some(1)) => format!("({inner})?"),
                    (least, None) => format!("({inner}){{{least},}}"),
                    (least, Some(most)) if least == most => format!("({inner}){{ {least} }}"),
                    (least, Some(most)) => format!("({inner}){{{least}, {most}}}"),
                }
            }
        }
    }

    /// Where a match that begins at one of these places can end.
    pub fn ends(&self, text: &[char], starts: &BTreeSet<usize>) -> BTreeSet<usize> {
        let step = |accepts: &dyn Fn(char) -> bool| {
            let fits = |at: &&usize| text.get(**at).is_some_and(|&c| accepts(c));
            starts.iter().filter(fits).map(|at| at + 1).collect()
        };
        match self {
            Self::Text(wanted) => {
                let wanted: Vec<char> = wanted.chars().collect();
                let fits = |at: &&usize| text[**at..].starts_with(&wanted);
                starts.iter().filter(fits).map(|at| at + wanted.len()).collect()
            }
            Self::Class { negated, ranges } => {
                step(&|c| ranges.iter().any(|&(low, high)| low <= c && c <= high) != *negated)
            }
            Self::Any => step(&|_| true),
            Self::Sequence(trees) => {
                trees.iter().fold(starts.clone(), |starts, tree| tree.ends(text, &starts))
            }
            Self::Choice(trees) => trees.iter().flat_map(|tree| tree.ends(text, starts)).collect(),
            Self::Repeat(tree, least, most) => {
                let mut places = starts.clone();
                for _ in 0..*least {
                    places = tree.ends(text, &places);
                }
                let mut all = places.clone();
                for _ in 0..most.map_or(usize::MAX, |most| most - least) {
                    places = tree.ends(text, &places).difference(&all).copied().collect();
                    if places.is_empty() {
                        break;
                    }
                    all.extend(&places);
                }
                all
            }
        }
    }

    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        self.ends(&text, &BTreeSet::from([0])).contains(&text.len())
    }
}

fn escape(character: char, random: &mut Random) -> String {
    let code = u32::from(character);
    match (character, random.below(3)) {
        (_, 0) => format!("\\U{code:08X}"),
        (_, 1) if code < 0x100 => format!("\\x{code:02x}"),
        ('\n', _) => "\\n".into(),
        ('"', _) => "\\\"".into(),
        ('\\', _) => "\\\\".into(),
        _ => character.into(),
    }
}

/// Whether a text, given byte by byte in random parts, is complete.
pub fn accepts(grammar: &Grammar, text: &[u8], random: &mut Random) -> bool {
    let mut matcher =
        Matcher::new(grammar, Arc::new(Pieces::new::<&[u8]>(&[], &[]).unwrap())).unwrap();
    let mut rest = text;
    while !rest.is_empty() {
        let (now, later) = rest.split_at(1 + random.below(rest.len()));
        if matcher.accept(now).is_err() {
            return false;
        }
        rest = later;
    }
    matcher.is_complete()
}

#[test]
fn random_grammars_accept_what_their_definition_accepts() {
    let mut random = Random::new(8);
    let (mut accepted, mut rejected) = (0, 0);
    for _ in 0..600 {
        let tree = Tree::random(&mut random, 3);
        let text = format!("# a comment\nroot ::= {}\n", tree.gbnf(&mut random));
        let Ok(grammar) = Grammar::from_gbnf(&text) else {
            // The only trees that are refused are negated classes of everything and repeated repetitions.
            panic!("{text}: {}", Grammar::from_gbnf(&text).unwrap_err());
        };
        for _ in 0..20 {
            let word: String = (0..random.below(7)).map(|_| *random.pick(&LETTERS)).collect();
            let expected = tree.matches(&word);
            let found = accepts(&grammar, word.as_bytes(), &mut random);
            assert_eq!(found, expected, "{text}\n{word:?}");
            if expected {
                accepted += 1;
            } else {
                rejected += 1;
            }
        }
    }
    assert!(accepted > 500 && rejected > 500, "{accepted} accepted, {rejected} rejected");
}
