//! The tokens of a tokenizer: their bytes, their kinds, and the way back from bytes to ids.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};

use crate::hash::Seeded;
use crate::{Error, Result};

/// The longest token that is accepted, in bytes. The longest of real vocabularies are a few hundred spaces or signs.
pub(crate) const LONGEST: usize = 1 << 14;

/// What a token is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A part of text.
    Normal,
    /// What stands for text that no other token stands for.
    Unknown,
    /// A sign for the model, such as the end of a turn. Text becomes one only if it is asked for.
    Control,
    /// A text that is always one token.
    UserDefined,
    /// A place without use.
    Unused,
    /// One byte, for text that no other token stands for.
    Byte,
}

impl Kind {
    /// Whether it is hidden where text is shown to people.
    pub const fn is_hidden(self) -> bool {
        matches!(self, Self::Control | Self::Unknown)
    }

    /// Whether text is searched for it before it is split into words.
    pub(crate) const fn is_special(self) -> bool {
        matches!(self, Self::Control | Self::Unknown | Self::UserDefined)
    }
}

/// Ids by bytes.
pub(crate) type Ids = HashMap<Box<[u8]>, u32, Seeded>;

/// The tokens.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    bytes: Vec<u8>,
    /// Where the bytes of each token end.
    ends: Vec<usize>,
    kinds: Vec<Kind>,
    /// Tokens that text turns into.
    words: Ids,
    /// Tokens that text is searched for.
    specials: Ids,
    /// For each token whether its own bytes encode to it alone: unknown, yes or no.
    whole: Vec<AtomicU8>,
}

/// A token on its way into a vocabulary.
pub(crate) struct Token {
    pub bytes: Vec<u8>,
    pub kind: Kind,
    /// Whether it is what these bytes turn into; otherwise they are only what it is shown as.
    pub is_word: bool,
}

impl Vocabulary {
    pub(crate) fn new(tokens: impl ExactSizeIterator<Item = Token>) -> Result<Self> {
        let count = tokens.len();
        if count == 0 || u32::try_from(count).is_err() {
            let why = format!("it has {count} tokens; accepted are 1 to {}", u32::MAX);
            return Err(Error::vocabulary(why));
        }
        let mut new = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(count),
            kinds: Vec::with_capacity(count),
            words: HashMap::with_capacity_and_hasher(count, Seeded::default()),
            specials: HashMap::default(),
            whole: Vec::with_capacity(count),
        };
        for (id, token) in (0..).zip(tokens) {
            if token.bytes.len() > LONGEST {
                let bytes = token.bytes.len();
                let why = format!("token {id} has {bytes} bytes; at most {LONGEST} are accepted");
                return Err(Error::vocabulary(why));
            }
            new.bytes.extend_from_slice(&token.bytes);
            new.ends.push(new.bytes.len());
            new.kinds.push(token.kind);
            new.whole.push(AtomicU8::new(0));
            let ids = if token.kind.is_special() { &mut new.specials } else { &mut new.words };
            if !token.bytes.is_empty() && (token.is_word || token.kind.is_special()) {
                // The first of two stays: which is which was decided by their texts before.
                ids.entry(token.bytes.into_boxed_slice()).or_insert(id);
            }
        }
        Ok(new)
    }

    pub(crate) fn len(&self) -> usize {
        self.kinds.len()
    }

    pub(crate) fn piece(&self, id: u32) -> Option<&[u8]> {
        let end = *self.ends.get(id as usize)?;
        let start = if id == 0 { 0 } else { self.ends[id as usize - 1] };
        Some(&self.bytes[start..end])
    }

    pub(crate) fn pieces(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|id| self.piece(id as u32).unwrap_or_default())
    }

    pub(crate) fn kind(&self, id: u32) -> Option<Kind> {
        self.kinds.get(id as usize).copied()
    }

    /// The token that text of these bytes turns into.
    pub(crate) fn word(&self, bytes: &[u8]) -> Option<u32> {
        self.words.get(bytes).copied()
    }

    /// The token that text is searched for.
    pub(crate) fn special(&self, bytes: &[u8]) -> Option<u32> {
        self.specials.get(bytes).copied()
    }

    pub(crate) fn words(&self) -> impl Iterator<Item = (&[u8], u32)> {
        self.words.iter().map(|(bytes, &id)| (&**bytes, id))
    }

    /// The tokens that text is searched for.
    pub(crate) fn specials(&self) -> impl Iterator<Item = (&[u8], u32)> {
        self.specials.iter().map(|(bytes, &id)| (&**bytes, id))
    }

    /// Whether the bytes of a token encode to it alone. The first who asks finds out; all others are faster.
    pub(crate) fn is_whole(&self, id: u32, find_out: impl FnOnce() -> bool) -> bool {
        const YES: u8 = 1;
        const NO: u8 = 2;
        let known = &self.whole[id as usize];
        match known.load(Ordering::Relaxed) {
            YES => true,
            NO => false,
            _ => {
                let found = find_out();
                known.store(if found { YES } else { NO }, Ordering::Relaxed);
                found
            }
        }
    }

    /// Whether no word has a space behind another character, so that no token reaches over the beginning of a word.
    pub(crate) fn splits_at_spaces(&self) -> bool {
        self.words().all(|(bytes, _)| !bytes.windows(2).any(|two| two[0] != b' ' && two[1] == b' '))
    }

    /// The longest word, in bytes.
    pub(crate) fn longest_word(&self) -> usize {
        self.words().map(|(bytes, _)| bytes.len()).max().unwrap_or(0)
    }
}

/// The byte that a token such as `<0x0A>` stands for.
pub(crate) fn byte_of(text: &[u8]) -> Option<u8> {
    let digits = text.strip_prefix(b"<0x")?.strip_suffix(b">")?;
    let is_hex = digits.len() == 2 && digits.iter().all(u8::is_ascii_hexdigit);
    let digits = std::str::from_utf8(digits).ok().filter(|_| is_hex)?;
    u8::from_str_radix(digits, 16).ok()
}
