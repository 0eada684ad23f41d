//! Tokenizers from folders of Hugging Face, run by the `tokenizers` crate.

use std::path::Path;

use serde_json::Value;
use tokenizers::Tokenizer as Inner;

use crate::alphabet;
use crate::library::{guarded, probe, read_json};
use crate::specials::{Specials, Strip};
use crate::spm;
use crate::stops;
use crate::tokenizer::{Model, Parts};
use crate::vocabulary::{Kind, Token, Vocabulary, byte_of};
use crate::{Error, Result, Special};

/// The largest `tokenizer.json` that is read; those with a quarter of a million tokens have some 20 MB.
const LARGEST: u64 = 256 << 20;
/// The largest of the other files that is read.
const LARGEST_CONFIG: u64 = 16 << 20;

/// The `tokenizers` crate, once for each way to treat special tokens: it has a switch and no argument for it.
#[derive(Debug)]
pub(crate) struct Library {
    parse: Inner,
    plain: Inner,
}

impl Library {
    /// The tokens of a text.
    pub(crate) fn encode(&self, text: &str, special: Special) -> Result<Vec<u32>> {
        let inner = match special {
            Special::Parse => &self.parse,
            Special::Plain => &self.plain,
        };
        let encoding = guarded("encode the text", || inner.encode_fast(text, false))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// What it puts before and behind a text.
    fn frame(&self) -> Result<(Vec<u32>, Vec<u32>)> {
        let encode =
            |special: bool| guarded("encode the text", || self.parse.encode_fast("a", special));
        let (bare, framed) = (encode(false)?, encode(true)?);
        let (bare, framed) = (bare.get_ids(), framed.get_ids());
        let at = framed.windows(bare.len().max(1)).position(|ids| ids == bare);
        let (begin, end) = match at {
            Some(at) => (&framed[..at], &framed[at + bare.len()..]),
            None => (&[][..], &[][..]),
        };
        Ok((begin.to_vec(), end.to_vec()))
    }
}

pub(crate) fn read(folder: &Path) -> Result<Parts> {
    let path = folder.join("tokenizer.json");
    let json = polaris_files::read(&path, LARGEST)
        .map_err(|source| Error::Read { path: path.clone(), source })?;
    let configs = Configs {
        tokenizer: config(folder, "tokenizer_config.json")?,
        generation: config(folder, "generation_config.json")?,
        model: config(folder, "config.json")?,
    };
    parts(&json, &configs).map_err(|reason| Error::File { path, reason: Box::new(reason) })
}

/// A file of JSON that may be absent.
fn config(folder: &Path, name: &str) -> Result<Value> {
    let path = folder.join(name);
    match polaris_files::read(&path, LARGEST_CONFIG) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Value::Null),
        Err(source) => Err(Error::Read { path, source }),
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|error| {
            let reason = Box::new(Error::Json { reason: error.to_string() });
            Error::File { path, reason }
        }),
    }
}

struct Configs {
    tokenizer: Value,
    generation: Value,
    model: Value,
}

impl Configs {
    /// The ids of a special token such as `eos`: of the first file that names any. A model may have several.
    fn ids(&self, name: &str, find: impl Fn(&str) -> Option<u32>) -> Vec<u32> {
        let key = format!("{name}_token_id");
        let numbers = |config: &Value| -> Vec<u32> {
            let value = &config[&key];
            let values = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
            values.iter().filter_map(|id| u32::try_from(id.as_u64()?).ok()).collect()
        };
        // The text stands alone or in a description of the token.
        let named = &self.tokenizer[format!("{name}_token")];
        let named = named.as_str().or_else(|| named["content"].as_str()).and_then(find);
        let mut ids = numbers(&self.generation);
        if ids.is_empty() {
            ids = numbers(&self.model);
        }
        ids.extend(named.filter(|id| !ids.contains(id)));
        ids
    }
}

/// How the texts of tokens stand for bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spelling {
    ByteLevel,
    Escaped,
    WordPiece,
    Plain,
}

fn spelling(inner: &Inner) -> Spelling {
    let json = |part: Option<Value>| part.map(|part| part.to_string()).unwrap_or_default();
    let decoder = json(inner.get_decoder().and_then(|part| serde_json::to_value(part).ok()));
    let has = |name: &str| decoder.contains(name);
    if has("\"ByteLevel\"") {
        Spelling::ByteLevel
    } else if has("\"WordPiece\"") {
        Spelling::WordPiece
    } else if has(spm::ESCAPED) || has("\"ByteFallback\"") || has("\"Metaspace\"") {
        Spelling::Escaped
    } else {
        Spelling::Plain
    }
}

fn parts(json: &[u8], configs: &Configs) -> Result<Parts> {
    let mut parse = read_json(json)?;
    // Files hold what was convenient where they were written; prompts are neither cut nor filled up.
    parse.with_padding(None);
    guarded("read it", || parse.with_truncation(None).map(drop))?;
    let mut plain = parse.clone();
    plain.set_encode_special_tokens(true);
    let library = Library { parse, plain };
    let is_contradiction = |error: &Error| matches!(error, Error::Contradiction { .. });
    probe(|text| library.encode(text, Special::Parse).map(drop), is_contradiction)?;

    let (vocabulary, stops, bos, eos) = vocabulary(&library.parse, configs)?;
    let (mut begin, mut end) = library.frame()?;
    let wants = |key: &str| configs.tokenizer[key].as_bool() == Some(true);
    if begin.is_empty() && wants("add_bos_token") {
        begin.extend(bos);
    }
    if end.is_empty() && wants("add_eos_token") {
        end.extend(eos);
    }
    // Where a space is put before "a", decoding takes it away.
    let spelled = spelling(&library.parse);
    let first = library.encode("a", Special::Plain).ok().and_then(|ids| ids.first().copied());
    let is_prefixed =
        first.and_then(|id| vocabulary.piece(id)).is_some_and(|piece| piece.starts_with(b" "));
    let space_prefix = spelled != Spelling::ByteLevel && is_prefixed;
    let model = Model::Library(Box::new(library));
    let specials = Specials::new(&vocabulary, |_| Strip::default());
    Ok(Parts { vocabulary, specials, model, bos, eos, begin, end, stops, space_prefix })
}

type Settled = (Vocabulary, std::collections::BTreeSet<u32>, Option<u32>, Option<u32>);

fn vocabulary(inner: &Inner, configs: &Configs) -> Result<Settled> {
    let texts = inner.get_vocab(true);
    let largest = texts.values().max().copied();
    let count = largest.map_or(0, |largest| largest as usize + 1);
    // Ids may have gaps, but a table that is mostly gaps is no vocabulary.
    if count > texts.len().saturating_mul(2).saturating_add(1 << 16) {
        let why = format!("it has {} tokens, and the largest id is {}", texts.len(), count - 1);
        return Err(Error::vocabulary(format!("{why}; expected are ids without large gaps")));
    }
    let mut tokens: Vec<(&str, Kind)> = vec![("", Kind::Unused); count];
    for (text, &id) in &texts {
        tokens[id as usize] = (text, Kind::Normal);
    }
    let spelling = spelling(inner);
    if spelling == Spelling::Escaped {
        for token in tokens.iter_mut().filter(|(text, _)| byte_of(text.as_bytes()).is_some()) {
            token.1 = Kind::Byte;
        }
    }
    for (id, added) in inner.get_added_tokens_decoder() {
        tokens[id as usize].1 = if added.special { Kind::Control } else { Kind::UserDefined };
    }
    let find = |text: &str| inner.token_to_id(text);
    let known = |id: &u32| (*id as usize) < count;
    let of_kind = |name| configs.ids(name, find).into_iter().filter(known).collect::<Vec<_>>();
    let (bos, eos) = (of_kind("bos"), of_kind("eos"));
    let mut kinds: Vec<Kind> = tokens.iter().map(|token| token.1).collect();
    // A known text ends generation only if it is an added token; among the others it is ordinary text.
    let is_added = |id: u32| tokens[id as usize].1.is_special();
    let stops = stops::settle(
        &mut kinds,
        |text| find(text).filter(|&id| is_added(id)),
        eos.iter().copied(),
    );
    let token = |((text, before), kind): (&(&str, Kind), &Kind)| {
        // An added token stays one, whatever it is for.
        let kind =
            if before.is_special() && !kind.is_special() { Kind::UserDefined } else { *kind };
        let plain = || text.as_bytes().to_vec();
        let bytes = match spelling {
            _ if kind.is_special() => plain(),
            Spelling::ByteLevel => alphabet::bytes(text.as_bytes()).unwrap_or_else(plain),
            Spelling::Escaped => byte_of(text.as_bytes())
                .map_or_else(|| spm::unescape(text.as_bytes()).0, |byte| vec![byte]),
            Spelling::WordPiece => match text.strip_prefix("##") {
                Some(rest) => rest.as_bytes().to_vec(),
                None => format!(" {text}").into_bytes(),
            },
            Spelling::Plain => plain(),
        };
        Token { is_word: kind != Kind::Byte, bytes, kind }
    };
    let tokens: Vec<Token> = tokens.iter().zip(&kinds).map(token).collect();
    let vocabulary = Vocabulary::new(tokens.into_iter())?;
    Ok((vocabulary, stops, bos.first().copied(), eos.first().copied()))
}
