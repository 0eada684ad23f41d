//! Learns a byte-level byte-pair encoding: the pairs of neighbouring tokens that a text has most often.
//!
//! Words are counted first, so that a merge costs only the different words that have the pair. The result depends on the
//! text alone: of pairs that are equally frequent, the one with the lowest ids is merged first.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use polaris_tokenizer::{byte_character, for_each_word};

use crate::{Error, Result, memory};

/// The pre-tokenizer that texts are split with, as GGUF files name it.
pub(crate) const PRE_TOKENIZER: &str = "gpt-2";

/// Longer words are learned from in pieces: a text without spaces would be searched as a whole for every merge.
const LONGEST_WORD: usize = 256;

/// A pair that occurs only once makes no text shorter than another would.
const FEWEST: i64 = 2;

/// Bytes that a byte of a word takes while merges are learned: the word, its symbols, and places of its pairs.
const BYTES_PER_BYTE: u64 = 24;

/// A vocabulary: the 256 bytes in the order of their characters, then what merges make.
pub(crate) struct Learned {
    /// The bytes of each token.
    pub tokens: Vec<Vec<u8>>,
    /// The ids of the two tokens of each merge, in order.
    pub merges: Vec<(u32, u32)>,
}

impl Learned {
    /// A token as byte-level vocabularies write it.
    pub fn text(&self, id: u32) -> String {
        self.tokens[id as usize].iter().map(|&byte| byte_character(byte)).collect()
    }
}

/// Where a pair is.
#[derive(Default)]
struct Places {
    /// How often, over all words.
    count: i64,
    /// Words that have it, and perhaps some that had it.
    words: Vec<u32>,
}

/// A word as ids, and how often the text has it.
struct Word {
    ids: Vec<u32>,
    count: i64,
}

type Pair = (u32, u32);

/// Learns at most so many tokens. What the special texts stand for is left out.
pub(crate) fn learn(text: &str, special: &[&str], tokens: usize) -> Result<Learned> {
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.sort_by_key(|&byte| byte_character(byte));
    let mut ids = [0; 256];
    (0..).zip(&bytes).for_each(|(id, &byte)| ids[usize::from(byte)] = id);
    let mut words = words(text, special, &ids)?;
    let mut learned =
        Learned { tokens: bytes.into_iter().map(|byte| vec![byte]).collect(), merges: Vec::new() };
    let mut known: HashMap<Vec<u8>, u32> = learned.tokens.iter().cloned().zip(0..).collect();
    let mut pairs: HashMap<Pair, Places> = HashMap::new();
    for (at, word) in (0..).zip(&words) {
        count(&mut pairs, word, 1, Some(at));
    }
    let entry = |(&pair, places): (&Pair, &Places)| (places.count, Reverse(pair));
    let mut queue: BinaryHeap<(i64, Reverse<Pair>)> = pairs.iter().map(entry).collect();
    while learned.tokens.len() < tokens
        && let Some((frequency, Reverse(pair))) = queue.pop()
    {
        let Some(places) = pairs.get_mut(&pair) else { continue };
        if places.count < FEWEST {
            continue;
        }
        if places.count != frequency {
            // It has become rarer since it was put there.
            queue.push((places.count, Reverse(pair)));
            continue;
        }
        let merged =
            [&learned.tokens[pair.0 as usize][..], &learned.tokens[pair.1 as usize]].concat();
        // Two ways may lead to one token.
        let id = *known.entry(merged).or_insert_with_key(|merged| {
            learned.tokens.push(merged.clone());
            learned.tokens.len() as u32 - 1
        });
        learned.merges.push(pair);
        let mut made = BTreeSet::new();
        for at in std::mem::take(&mut places.words) {
            let word = &mut words[at as usize];
            if !word.ids.windows(2).any(|two| (two[0], two[1]) == pair) {
                continue;
            }
            count(&mut pairs, word, -1, None);
            merge(&mut word.ids, pair, id);
            count(&mut pairs, word, 1, None);
            for two in word.ids.windows(2).filter(|two| two.contains(&id)) {
                let pair = (two[0], two[1]);
                made.insert(pair);
                let places = pairs.entry(pair).or_default();
                if places.words.last() != Some(&at) {
                    places.words.push(at);
                }
            }
        }
        queue.extend(made.into_iter().map(|pair| (pairs[&pair].count, Reverse(pair))));
    }
    Ok(learned)
}

/// The different words of a text, as the ids of their bytes.
fn words(text: &str, special: &[&str], ids: &[u32; 256]) -> Result<Vec<Word>> {
    let mut counts: HashMap<&str, i64> = HashMap::new();
    for part in between(text, special) {
        for_each_word(PRE_TOKENIZER, part, |word| *counts.entry(word).or_default() += 1)
            .map_err(|error| Error::BadTokenizer { reason: error.to_string() })?;
    }
    let bytes: u64 = counts.keys().map(|word| word.len() as u64).sum();
    memory::require(bytes.saturating_mul(BYTES_PER_BYTE)).map_err(|reason| Error::NoMemory {
        what: "learning a vocabulary from the words of the text".into(),
        reason,
    })?;
    let pieces = counts.into_iter().flat_map(|(word, count)| {
        let pieces = word.as_bytes().chunks(LONGEST_WORD);
        pieces.map(move |piece| Word {
            ids: piece.iter().map(|&b| ids[usize::from(b)]).collect(),
            count,
        })
    });
    Ok(pieces.collect())
}

/// The parts of a text between special texts.
fn between<'t>(text: &'t str, special: &[&str]) -> Vec<&'t str> {
    let special: Vec<&str> =
        special.iter().copied().filter(|special| !special.is_empty()).collect();
    let find = |special: &str, from: usize| text[from..].find(special).map(|at| from + at);
    let mut next: Vec<Option<usize>> = special.iter().map(|special| find(special, 0)).collect();
    let mut parts = Vec::new();
    let mut from = 0;
    // The first of those ahead; of several at one place the longest.
    while let Some((at, Reverse(length))) = (next.iter().zip(&special))
        .filter_map(|(next, special)| next.map(|at| (at, Reverse(special.len()))))
        .min()
    {
        parts.push(&text[from..at]);
        from = at + length;
        for (next, special) in next.iter_mut().zip(&special) {
            if next.is_some_and(|at| at < from) {
                *next = find(special, from);
            }
        }
    }
    parts.push(&text[from..]);
    parts
}

/// Adds the pairs of a word to the counts, or takes them away, and remembers where they are.
fn count(pairs: &mut HashMap<Pair, Places>, word: &Word, sign: i64, at: Option<u32>) {
    for two in word.ids.windows(2) {
        let places = pairs.entry((two[0], two[1])).or_default();
        places.count += sign * word.count;
        if let Some(at) = at.filter(|at| places.words.last() != Some(at)) {
            places.words.push(at);
        }
    }
}

/// Replaces a pair by what it becomes, from the left.
fn merge(ids: &mut Vec<u32>, pair: Pair, id: u32) {
    let (mut read, mut write) = (0, 0);
    while read < ids.len() {
        let is_pair = ids[read] == pair.0 && ids.get(read + 1) == Some(&pair.1);
        ids[write] = if is_pair { id } else { ids[read] };
        read += if is_pair { 2 } else { 1 };
        write += 1;
    }
    ids.truncate(write);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn special_texts_are_cut_out() {
        assert_eq!(between("a<b>c<bb>d<b><b>", &["<b>", "<bb>", ""]), ["a", "c", "d", "", ""]);
        assert_eq!(between("", &["<b>"]), [""]);
        assert_eq!(between("<b<b>", &["<b", "<b>"]), ["", "", ""]);
    }

    #[test]
    fn merges_are_the_most_frequent_pairs_first() {
        let learned = learn("aaab aaab aaab cd cd", &[], 260).unwrap();
        let text = |&(left, right): &(u32, u32)| (learned.text(left), learned.text(right));
        let merges: Vec<(String, String)> = learned.merges.iter().map(text).collect();
        // `aaab` is there three times, twice with a space (`Ġ`) before it; `aa` overlaps itself.
        assert_eq!(merges[0], ("a".to_owned(), "a".to_owned()));
        assert_eq!(merges[1], ("a".to_owned(), "b".to_owned()));
        assert_eq!(merges[2], ("aa".to_owned(), "ab".to_owned()));
        assert_eq!(learned.tokens.len(), 260);
    }

    #[test]
    fn a_long_word_is_learned_from_in_pieces() {
        let learned = learn(&"x".repeat(1 << 20), &[], 300).unwrap();
        assert!(learned.tokens.iter().all(|token| token.len() <= LONGEST_WORD));
        assert_eq!(learned.tokens[256], b"xx");
    }
}
