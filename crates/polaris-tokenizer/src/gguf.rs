//! Tokenizers from the metadata of GGUF files, `tokenizer.ggml.*`.

use std::collections::HashMap;

use polaris_gguf::{Metadata, Value, ValueType};

use crate::bpe::{Bpe, check_byte};
use crate::hash::Seeded;
use crate::pre::{self, Pre};
use crate::specials::{Specials, Strip};
use crate::spm::{self, Spm};
use crate::stops;
use crate::tokenizer::{Model, Parts, Words};
use crate::vocabulary::{Kind, LONGEST, Token, Vocabulary, byte_of};
use crate::wordpiece::WordPiece;
use crate::{Error, Result};

fn key(name: &str) -> String {
    format!("tokenizer.ggml.{name}")
}

/// The texts of the tokens in the file, which are all different.
struct Texts<'a> {
    texts: Vec<&'a [u8]>,
    ids: HashMap<&'a [u8], u32, Seeded>,
}

impl<'a> Texts<'a> {
    fn read(metadata: &'a Metadata) -> Result<Self> {
        let texts: Vec<&[u8]> = required(metadata, "tokens")?;
        let mut ids = HashMap::with_capacity_and_hasher(texts.len(), Seeded::default());
        for (id, &text) in texts.iter().enumerate() {
            if text.len() > LONGEST {
                let bytes = text.len();
                let why = format!("token {id} has {bytes} bytes; at most {LONGEST} are accepted");
                return Err(Error::vocabulary(why));
            }
            // Some files fill up their vocabulary with empty texts.
            let other = if text.is_empty() { None } else { ids.insert(text, id as u32) };
            if let Some(other) = other {
                let why = format!(
                    "tokens {other} and {id} are the same text; expected are different ones"
                );
                return Err(Error::vocabulary(why));
            }
        }
        Ok(Self { texts, ids })
    }

    fn find(&self, text: &[u8]) -> Option<u32> {
        self.ids.get(text).copied()
    }
}

fn required<'a, T: polaris_gguf::FromValue<'a>>(
    metadata: &'a Metadata,
    name: &str,
) -> Result<Vec<T>> {
    let key = key(name);
    match metadata.list(&key)? {
        Some(list) => Ok(list),
        None => metadata.require::<&str>(&key).map(|_| Vec::new()).map_err(Error::Gguf),
    }
}

/// The id of a special token, which must be one of the vocabulary.
fn special_id(metadata: &Metadata, name: &str, count: usize) -> Result<Option<u32>> {
    let key = key(name);
    let id = metadata.get::<u32>(&key)?;
    match id {
        Some(id) if id as usize >= count => {
            let why = format!("`{key}` is {id}; the vocabulary has {count} tokens");
            Err(Error::vocabulary(why))
        }
        id => Ok(id),
    }
}

fn kinds(metadata: &Metadata, texts: &Texts<'_>) -> Result<Vec<Kind>> {
    let count = texts.texts.len();
    let Some(numbers) = metadata.list::<i64>(&key("token_type"))? else {
        let kind = |text: &&[u8]| if byte_of(text).is_some() { Kind::Byte } else { Kind::Normal };
        return Ok(texts.texts.iter().map(kind).collect());
    };
    if numbers.len() != count {
        let found = numbers.len();
        let why =
            format!("it has {found} token types for {count} tokens; expected is one for each");
        return Err(Error::vocabulary(why));
    }
    let kind = |(id, number): (usize, i64)| match number {
        1 => Ok(Kind::Normal),
        2 => Ok(Kind::Unknown),
        3 => Ok(Kind::Control),
        4 => Ok(Kind::UserDefined),
        // Files write 0 for tokens of which nothing is known.
        0 | 5 => Ok(Kind::Unused),
        6 => Ok(Kind::Byte),
        _ => Err(Error::vocabulary(format!(
            "the type of token {id} is {number}; accepted are 0 to 6"
        ))),
    };
    numbers.into_iter().enumerate().map(kind).collect()
}

/// Scores are floats; some converters wrote integers.
fn scores(metadata: &Metadata) -> Result<Vec<f32>> {
    match metadata.value(&key("scores")) {
        Some(Value::Array(array)) if array.item() == ValueType::I32 => {
            Ok(required::<i32>(metadata, "scores")?.into_iter().map(|score| score as f32).collect())
        }
        _ => required(metadata, "scores"),
    }
}

/// The kinds of tokenizers.
#[derive(Clone, Copy)]
enum Family {
    Bpe(Pre),
    Spm,
    WordPiece,
}

pub(crate) fn read(metadata: &Metadata) -> Result<Parts> {
    let model: &str = metadata.require(&key("model"))?;
    let name: Option<&str> = metadata.get(&key("pre"))?;
    let family = match model {
        "gpt2" => Family::Bpe(pre::find(name)?),
        "gemma4" => Family::Bpe(pre::find(Some("gemma4"))?),
        "llama" => Family::Spm,
        "bert" => Family::WordPiece,
        _ => return Err(Error::Model { found: model.to_owned() }),
    };
    let texts = Texts::read(metadata)?;
    let count = texts.texts.len();
    // What files of this family mean where they do not say.
    let id = |name: &str, default: Option<u32>| {
        let default = default.filter(|&id| (id as usize) < count);
        Ok::<_, Error>(special_id(metadata, name, count)?.or(default))
    };
    let defaults = match family {
        Family::Bpe(_) => [None; 4],
        Family::Spm => [Some(1), Some(2), Some(0), None],
        Family::WordPiece => [Some(101), None, Some(100), Some(102)],
    };
    let bos = id("bos_token_id", defaults[0])?;
    let eos = id("eos_token_id", defaults[1])?;
    let unknown = id("unknown_token_id", defaults[2])?;
    // The key is misspelled in the format.
    let separator = id("seperator_token_id", defaults[3])?;
    let ends = [eos, id("eot_token_id", None)?, id("eom_token_id", None)?];

    let mut kinds = kinds(metadata, &texts)?;
    let stops =
        stops::settle(&mut kinds, |text| texts.find(text.as_bytes()), ends.into_iter().flatten());
    let token = |(id, &text): (usize, &&[u8])| {
        let kind = kinds[id];
        let (bytes, is_word) = match (kind, family) {
            (Kind::Byte, _) => (check_byte(id, text)?, false),
            (kind, _) if kind.is_special() => (text.to_vec(), false),
            (_, Family::Bpe(pre)) => Bpe::piece(&pre, text),
            (_, Family::Spm | Family::WordPiece) => spm::unescape(text),
        };
        Ok(Token { bytes, kind, is_word })
    };
    let tokens: Vec<Token> = texts.texts.iter().enumerate().map(token).collect::<Result<_>>()?;
    let vocabulary = Vocabulary::new(tokens.into_iter())?;

    let strip = strips(metadata, name, &texts)?;
    let specials = Specials::new(&vocabulary, strip);
    let find = |text: &[u8]| texts.find(text);
    let flag = |name: &str| metadata.get::<bool>(&key(name));
    let add_bos = flag("add_bos_token")?;
    let add_eos = flag("add_eos_token")?.unwrap_or(false);
    let (words, add_bos, space_prefix) = match family {
        Family::Bpe(pre) => {
            let merges: Vec<&[u8]> = required(metadata, "merges")?;
            let model = Bpe::new(pre, &vocabulary, merges.into_iter(), find, unknown)?;
            // Gemma 4 needs BOS, and some of its files say otherwise.
            let add_bos = pre.whole_lines || add_bos.unwrap_or(pre.add_bos);
            (Words::Bpe(model), add_bos, false)
        }
        Family::Spm => {
            let model = Spm::new(&vocabulary, &scores(metadata)?, find, unknown)?;
            let space_prefix = flag("add_space_prefix")?.unwrap_or(true);
            (Words::Spm(model), add_bos.unwrap_or(true), space_prefix)
        }
        Family::WordPiece => {
            let lowercase = flag("normalizer.lowercase")?.unwrap_or(true);
            let strip_accents = flag("normalizer.strip_accents")?;
            let model = WordPiece::new(&vocabulary, lowercase, strip_accents, unknown)?;
            (Words::WordPiece(model), true, true)
        }
    };
    let end = match family {
        Family::WordPiece => separator,
        _ => eos.filter(|_| add_eos),
    };
    let begin = bos.filter(|_| add_bos);
    Ok(Parts {
        vocabulary,
        specials,
        model: Model::Own(words),
        bos,
        eos,
        begin: begin.into_iter().collect(),
        end: end.into_iter().collect(),
        stops,
        space_prefix,
    })
}

/// Which special tokens take white space with them. Files do not say; it is known of a few models.
fn strips(
    metadata: &Metadata,
    pre: Option<&str>,
    texts: &Texts<'_>,
) -> Result<impl Fn(u32) -> Strip + use<>> {
    let text = |key: &str| Ok::<_, Error>(metadata.get::<&str>(key)?.unwrap_or("").to_lowercase());
    let (name, architecture) = (text("general.name")?, text("general.architecture")?);
    let id = |text: &str| texts.find(text.as_bytes());
    let is_jina =
        pre.is_some_and(|pre| ["jina-v2-de", "jina-v2-es", "jina-v2-code"].contains(&pre));
    let has_mask = is_jina || ["nomic-bert-moe", "jina-bert-v3"].contains(&architecture.as_str());
    let is_phi3 = !has_mask && (name.contains("phi-3") || name.contains("phi3"));
    let mask =
        if has_mask { id("<mask>") } else { id("[MASK]").filter(|_| name.contains("modern-bert")) };
    let kept: Vec<u32> = ["<unk>", "<s>", "<|endoftext|>"].into_iter().filter_map(id).collect();
    Ok(move |id| Strip { left: mask == Some(id), right: is_phi3 && !kept.contains(&id) })
}
