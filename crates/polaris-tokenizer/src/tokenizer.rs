//! The tokenizer: text to tokens and back, whatever file it comes from.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use polaris_gguf::Metadata;

use crate::bpe::Bpe;
use crate::folder::Library;
use crate::merge::Merger;
use crate::specials::{Fragment, Specials};
use crate::spm::Spm;
use crate::vocabulary::{Kind, Vocabulary};
use crate::wordpiece::WordPiece;
use crate::{Error, Result, Stream};

/// What the texts of control tokens are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Special {
    /// Encoding: their texts become these tokens, as in a chat template. Decoding: they become their texts.
    Parse,
    /// Encoding: their texts are text like any other, as whatever users write should be. Decoding: they are hidden.
    Plain,
}

/// Turns text into token ids and back. Clones share their memory.
#[derive(Clone)]
pub struct Tokenizer(pub(crate) Arc<Parts>);

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Tokenizer");
        debug.field("vocabulary_size", &self.vocabulary_size());
        debug.field("begin", &self.begin()).field("end", &self.end());
        debug.field("stops", &self.0.stops).finish_non_exhaustive()
    }
}

/// What a tokenizer consists of.
#[derive(Debug)]
pub(crate) struct Parts {
    pub vocabulary: Vocabulary,
    pub specials: Specials,
    pub model: Model,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub begin: Vec<u32>,
    pub end: Vec<u32>,
    pub stops: BTreeSet<u32>,
    /// Whether a space is put before text, and taken away when it is decoded.
    pub space_prefix: bool,
}

/// How text is encoded.
#[derive(Debug)]
pub(crate) enum Model {
    /// By this crate: special tokens are cut out, and the rest is encoded.
    Own(Words),
    /// By the `tokenizers` crate, which does all of it.
    Library(Box<Library>),
}

/// How text between special tokens is encoded.
#[derive(Debug)]
pub(crate) enum Words {
    Bpe(Bpe),
    Spm(Spm),
    WordPiece(WordPiece),
}

/// The longest text of one call; positions have 32 bits.
const LONGEST_TEXT: usize = 1 << 30;

impl Tokenizer {
    /// Reads the tokenizer of a GGUF file from its metadata, `tokenizer.ggml.*`.
    ///
    /// ```no_run
    /// use polaris_gguf::Gguf;
    /// use polaris_tokenizer::{Special, Tokenizer};
    ///
    /// let gguf = Gguf::open("model.gguf".as_ref(), |path| polaris_files::read(path, 1 << 40).map(Into::into))?;
    /// let tokenizer = Tokenizer::from_gguf(gguf.metadata())?;
    /// let ids = tokenizer.framed(&tokenizer.encode("Hello, world!", Special::Plain)?);
    /// assert_eq!(tokenizer.decode(&ids, Special::Plain), "Hello, world!");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If keys are missing or contradict each other, or the kind of tokenizer is not supported.
    pub fn from_gguf(metadata: &Metadata) -> Result<Self> {
        crate::gguf::read(metadata).map(|parts| Self(Arc::new(parts)))
    }

    /// Reads the tokenizer of a folder of Hugging Face: `tokenizer.json`, and the ids of BOS and EOS from
    /// `tokenizer_config.json`, `generation_config.json` and `config.json` where these are.
    ///
    /// # Errors
    /// If `tokenizer.json` is missing, or one of the files is not what it should be.
    pub fn open_folder(folder: impl AsRef<Path>) -> Result<Self> {
        crate::folder::read(folder.as_ref()).map(|parts| Self(Arc::new(parts)))
    }

    /// The tokens of a text, without those that begin and end it: see [`Tokenizer::framed`].
    ///
    /// # Errors
    /// If the text is longer than 1 GiB, or the vocabulary has no token for a part of it.
    pub fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        let all = [Range { start: 0, end: text.len() }];
        self.encode_prompt(text, if special == Special::Plain { &all } else { &[] })
    }

    /// The tokens of a prompt of which parts are plain text: what users wrote, in text that a chat template made of it.
    /// Special tokens are those of [`Special::Parse`], except where their texts are in such a part or reach into one.
    /// If there are none, the tokens are the same as without these parts. `plain`: ranges of bytes in order, apart from
    /// each other.
    ///
    /// # Errors
    /// As for [`Tokenizer::encode`].
    pub fn encode_prompt(&self, text: &str, plain: &[Range<usize>]) -> Result<Vec<u32>> {
        if text.len() > LONGEST_TEXT {
            return Err(Error::TooLong { bytes: text.len(), limit: LONGEST_TEXT });
        }
        let parts = &*self.0;
        let words = match &parts.model {
            Model::Library(library) => return self.encode_by(library, text, plain),
            Model::Own(words) => words,
        };
        let vocabulary = &parts.vocabulary;
        let mut merger = Merger::default();
        let mut out = Vec::with_capacity(text.len() / 4 + 1);
        let mut begins = true;
        parts.specials.split(text, plain, |part| {
            let text = match part {
                Fragment::Token(id) => {
                    out.push(id);
                    begins = true;
                    return Ok(());
                }
                Fragment::Text(text) => text,
            };
            match words {
                Words::Bpe(model) => model.encode(vocabulary, text, &mut merger, &mut out)?,
                Words::Spm(model) => {
                    let mut text = crate::spm::as_spaces(text);
                    if begins && parts.space_prefix {
                        text.to_mut().insert(0, ' ');
                    }
                    model.encode(vocabulary, &text, &mut merger, &mut out)?;
                }
                Words::WordPiece(model) => model.encode(vocabulary, text, &mut out)?,
            }
            begins = false;
            Ok(())
        })?;
        Ok(out)
    }

    /// With the `tokenizers` crate, which treats all of a text alike. Where that gives other special tokens than wanted,
    /// the text is cut at those that are, and what is between them is encoded by itself.
    fn encode_by(&self, library: &Library, text: &str, plain: &[Range<usize>]) -> Result<Vec<u32>> {
        let tokens = |plain: &[Range<usize>]| {
            let mut found = Vec::new();
            self.0.specials.split(text, plain, |part| {
                found.push(part);
                Ok(())
            })?;
            Ok::<_, Error>(found)
        };
        if matches!(plain, [all] if *all == (0..text.len())) {
            return library.encode(text, Special::Plain);
        }
        let wanted = tokens(plain)?;
        if plain.is_empty() || wanted == tokens(&[])? {
            return library.encode(text, Special::Parse);
        }
        let mut out = Vec::new();
        for part in wanted {
            match part {
                Fragment::Token(id) => out.push(id),
                Fragment::Text(text) => out.extend(library.encode(text, Special::Plain)?),
            }
        }
        Ok(out)
    }

    /// The tokens that the model wants before a text: usually BOS or nothing.
    pub fn begin(&self) -> &[u32] {
        &self.0.begin
    }

    /// The tokens that the model wants behind a text: usually nothing.
    pub fn end(&self) -> &[u32] {
        &self.0.end
    }

    /// The tokens between [`Tokenizer::begin`] and [`Tokenizer::end`]. What is there already, as after a template that
    /// writes BOS, is not put there again.
    pub fn framed(&self, ids: &[u32]) -> Vec<u32> {
        let begin = if ids.starts_with(self.begin()) { &[] } else { self.begin() };
        let end = if ids.ends_with(self.end()) { &[] } else { self.end() };
        [begin, ids, end].concat()
    }

    /// The text of tokens. Bytes that belong to no character become U+FFFD, tokens that the vocabulary does not have
    /// become nothing, and the space that encoding put before the text is taken away.
    pub fn decode(&self, ids: &[u32], special: Special) -> String {
        let bytes: Vec<u8> = ids.iter().flat_map(|&id| self.shown(id, special)).copied().collect();
        let bytes = bytes.strip_prefix(b" ").filter(|_| self.0.space_prefix).unwrap_or(&bytes);
        String::from_utf8_lossy(bytes).into_owned()
    }

    /// Decodes tokens one by one, as they are generated. A space at the beginning stays: what is generated continues a
    /// text.
    pub fn stream(&self, special: Special) -> Stream {
        Stream::new(self.clone(), special)
    }

    /// The bytes of a token where text is shown.
    pub(crate) fn shown(&self, id: u32, special: Special) -> &[u8] {
        let hidden = special == Special::Plain && self.kind(id).is_some_and(Kind::is_hidden);
        if hidden { &[] } else { self.piece(id).unwrap_or_default() }
    }

    /// The bytes that a token stands for; not always whole characters. Control tokens stand for their texts.
    pub fn piece(&self, id: u32) -> Option<&[u8]> {
        self.0.vocabulary.piece(id)
    }

    /// The bytes of every token, by id.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.0.vocabulary.pieces()
    }

    /// What a token is for.
    pub fn kind(&self, id: u32) -> Option<Kind> {
        self.0.vocabulary.kind(id)
    }

    /// The token with this text: a special one, or else one that text turns into.
    pub fn token_id(&self, text: &str) -> Option<u32> {
        let text = text.as_bytes();
        self.0.vocabulary.special(text).or_else(|| self.0.vocabulary.word(text))
    }

    /// The number above that of any token.
    pub fn vocabulary_size(&self) -> usize {
        self.0.vocabulary.len()
    }

    /// The token that begins a text.
    pub fn bos(&self) -> Option<u32> {
        self.0.bos
    }

    /// The token that ends a text.
    pub fn eos(&self) -> Option<u32> {
        self.0.eos
    }

    /// Whether generation ends with this token: the end of the text, of a turn or of a message.
    pub fn is_stop(&self, id: u32) -> bool {
        self.0.stops.contains(&id)
    }

    /// The tokens that end a generation, in order.
    pub fn stops(&self) -> impl Iterator<Item = u32> {
        self.0.stops.iter().copied()
    }
}
