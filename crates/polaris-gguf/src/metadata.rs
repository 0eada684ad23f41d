//! The key/value pairs of a file, looked up where they lie.

use std::fmt;

use bytes::Bytes;

use crate::convert::FromValue;
use crate::cursor::Cursor;
use crate::error::{Shown, with_room};
use crate::value::Value;
use crate::{Error, Result};

/// The least bytes of a pair: the length of a key, one character, the type, one byte of value.
pub(crate) const LEAST_PAIR: u64 = 8 + 1 + 4 + 1;

/// The metadata of a file.
///
/// Only the positions of the pairs are kept, eight bytes for each: a file of a given size cannot make it allocate
/// more than that size. Values are read from the file's bytes when they are asked for.
#[derive(Clone)]
pub struct Metadata {
    bytes: Bytes,
    /// Where the first pair begins.
    start: usize,
    /// Where each pair begins, by key.
    pairs: Vec<u64>,
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(key, value)| (key, value.to_string()))).finish()
    }
}

/// A value that is the same for every layer, or one for each.
#[derive(Debug, Clone, PartialEq)]
pub enum PerLayer<T> {
    /// The same for every layer.
    One(T),
    /// As many as there are layers.
    Each(Vec<T>),
}

impl<T: Copy> PerLayer<T> {
    /// The value of a layer, counted from 0.
    ///
    /// # Panics
    /// If there are values for each layer and this is none of them.
    pub fn of(&self, layer: usize) -> T {
        match self {
            Self::One(value) => *value,
            Self::Each(values) => values[layer],
        }
    }
}

fn read_pair<'a>(cursor: &mut Cursor<'a>, number: usize) -> Result<(&'a str, Value<'a>)> {
    let start = cursor.at();
    let key = cursor.text(format_args!("the key of metadata pair {number}"))?;
    if key.is_empty() {
        return Err(Error::format(start, format!("the key of metadata pair {number} is empty")));
    }
    let value = Value::read(cursor, format_args!("the value of `{}`", Shown(key)))?;
    Ok((key, value))
}

/// The key of a pair that was read before.
fn key_at(bytes: &[u8], at: u64) -> &[u8] {
    Cursor::new(bytes, at as usize).string(format_args!("a key")).unwrap_or_default()
}

impl Metadata {
    /// Reads `count` pairs, each of which the file was found to have room for, and checks them.
    pub(crate) fn read(bytes: &Bytes, start: usize, count: usize) -> Result<(Self, usize)> {
        let mut cursor = Cursor::new(bytes, start);
        let mut pairs = with_room(count)?;
        for number in 0..count {
            pairs.push(cursor.at() as u64);
            read_pair(&mut cursor, number)?;
        }
        pairs.sort_unstable_by(|&a, &b| (key_at(bytes, a), a).cmp(&(key_at(bytes, b), b)));
        if let Some(two) =
            pairs.windows(2).find(|two| key_at(bytes, two[0]) == key_at(bytes, two[1]))
        {
            let key = String::from_utf8_lossy(key_at(bytes, two[0]));
            let why =
                format!("the metadata key `{}` was there before, at byte {}", Shown(&key), two[0]);
            return Err(Error::format(two[1] as usize, why));
        }
        Ok((Self { bytes: bytes.clone(), start, pairs }, cursor.at()))
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// All pairs, in the order of the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, Value<'_>)> {
        let mut cursor = Cursor::new(&self.bytes, self.start);
        (0..self.len()).map(move |number| {
            read_pair(&mut cursor, number)
                .expect("pairs should have been checked when they were read")
        })
    }

    /// The value of a key, whatever its type.
    pub fn value(&self, key: &str) -> Option<Value<'_>> {
        let order = |&at: &u64| key_at(&self.bytes, at).cmp(key.as_bytes());
        let place = self.pairs.binary_search_by(order).ok()?;
        let mut cursor = Cursor::new(&self.bytes, self.pairs[place] as usize);
        let pair = read_pair(&mut cursor, place);
        Some(pair.expect("pairs should have been checked when they were read").1)
    }

    /// The value of a key that may be absent.
    ///
    /// ```
    /// # use polaris_gguf::{Gguf, Writer};
    /// # let mut writer = Writer::new();
    /// # writer.set("llama.block_count", 32u32)?;
    /// # let gguf = Gguf::from_bytes(writer.into_bytes()?.into())?;
    /// let metadata = gguf.metadata();
    /// assert_eq!(metadata.get::<u32>("llama.block_count")?, Some(32));
    /// assert_eq!(metadata.get::<f32>("llama.rope.freq_base")?.unwrap_or(1e4), 1e4);
    /// # Ok::<(), polaris_gguf::Error>(())
    /// ```
    ///
    /// # Errors
    /// If it is there and of another type, or does not fit.
    pub fn get<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<T>> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match T::from_value(value) {
            Some(value) => Ok(Some(value)),
            None => Err(Error::key(key, format!("is {value}; expected is {}", T::EXPECTED))),
        }
    }

    /// The value of a key that must be there.
    ///
    /// # Errors
    /// As [`Metadata::get`], and if it is missing.
    pub fn require<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<T> {
        self.get(key)?
            .ok_or_else(|| Error::key(key, format!("is missing; expected is {}", T::EXPECTED)))
    }

    /// The elements of an array that may be absent.
    ///
    /// # Errors
    /// If it is there and no array, or an element is of another type or does not fit.
    pub fn list<'a, T: FromValue<'a>>(&'a self, key: &str) -> Result<Option<Vec<T>>> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::Array(array)) => {
                let mut list = with_room(array.len())?;
                for (place, value) in array.values().enumerate() {
                    list.push(T::from_value(value).ok_or_else(|| {
                        Error::key(
                            key,
                            format!("has {value} as element {place}; expected is {}", T::EXPECTED),
                        )
                    })?);
                }
                Ok(Some(list))
            }
            Some(other) => Err(Error::key(
                key,
                format!("is {other}; expected is an array, each element {}", T::EXPECTED),
            )),
        }
    }

    /// A value that may be absent, and is one for all layers or an array with one for each.
    ///
    /// # Errors
    /// As [`Metadata::get`] and [`Metadata::list`], and if an array does not have `layers` elements.
    pub fn per_layer<'a, T: FromValue<'a>>(
        &'a self,
        key: &str,
        layers: usize,
    ) -> Result<Option<PerLayer<T>>> {
        if !matches!(self.value(key), Some(Value::Array(_))) {
            return Ok(self.get(key)?.map(PerLayer::One));
        }
        let Some(list) = self.list(key)? else { return Ok(None) };
        if list.len() != layers {
            let why = format!("has {} values; the model has {layers} layers", list.len());
            return Err(Error::key(key, why));
        }
        Ok(Some(PerLayer::Each(list)))
    }
}
