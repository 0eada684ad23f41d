//! Whether a value fits a schema, and whether two schemas exclude each other.

use super::json::Json;
use super::number::Bound;
use super::shape::{Shape, types};
use super::{Converter, Part};
use crate::Result;

/// How deep the questions go; beyond it the answer is unknown.
const DEEPEST: usize = 12;

impl<'a> Converter<'a> {
    /// Whether a value fits schemas that apply together; None where only running a pattern or format would tell.
    pub(super) fn admits(
        &mut self,
        parts: &[Part<'a>],
        value: &'a Json,
        depth: usize,
    ) -> Result<Option<bool>> {
        let shape = self.shape(parts)?;
        self.fits(&shape, value, depth)
    }

    pub(super) fn fits(
        &mut self,
        shape: &Shape<'a>,
        value: &'a Json,
        depth: usize,
    ) -> Result<Option<bool>> {
        if let Some(constants) = &shape.constants {
            self.count_work(constants.len())?;
            if !constants.iter().any(|known| known.equals(value)) {
                return Ok(Some(false));
            }
        }
        self.suits(shape, value, depth)
    }

    /// As `fits`, for a value that is one of the constants.
    pub(super) fn suits(
        &mut self,
        shape: &Shape<'a>,
        value: &'a Json,
        depth: usize,
    ) -> Result<Option<bool>> {
        self.count_work(1)?;
        if depth > DEEPEST {
            return Ok(None);
        }
        if shape.types & kind(value) == 0 {
            return Ok(Some(false));
        }
        let mut answer = match value {
            Json::Number(number) => {
                let number = number.as_f64().unwrap_or(f64::NAN);
                let above =
                    |low: Bound| number > low.value || number == low.value && !low.exclusive;
                let below =
                    |high: Bound| number < high.value || number == high.value && !high.exclusive;
                Some(shape.low.is_none_or(above) && shape.high.is_none_or(below))
            }
            Json::String(text) => {
                let length = text.chars().count() as u64;
                match within(length, shape.min_length, shape.max_length) {
                    true if shape.pattern.is_some() || shape.format.is_some() => None,
                    fits => Some(fits),
                }
            }
            Json::Array(items) => self.array_fits(shape, items, depth)?,
            Json::Object(entries) => self.object_fits(shape, entries, depth)?,
            Json::Null | Json::Bool(_) => Some(true),
        };
        for group in &shape.groups {
            let mut fitting = 0;
            let mut unknown = 0;
            for option in group.options {
                match self.admits(&[Part::new(option)], value, depth + 1)? {
                    Some(true) => fitting += 1,
                    Some(false) => {}
                    None => unknown += 1,
                }
            }
            let fits = match (fitting, unknown) {
                (0, 0) => Some(false),
                (1, 0) => Some(true),
                (1.., _) if !group.exclusive => Some(true),
                (2.., _) => Some(false),
                _ => None,
            };
            answer = both(answer, fits);
        }
        Ok(answer)
    }

    fn array_fits(
        &mut self,
        shape: &Shape<'a>,
        items: &'a [Json],
        depth: usize,
    ) -> Result<Option<bool>> {
        let mut answer = Some(within(items.len() as u64, shape.min_items, shape.max_items));
        for (index, item) in items.iter().enumerate() {
            let parts = self.item_parts(shape, index);
            answer = both(answer, self.admits(&parts, item, depth + 1)?);
        }
        Ok(answer)
    }

    fn object_fits(
        &mut self,
        shape: &Shape<'a>,
        entries: &'a [(String, Json)],
        depth: usize,
    ) -> Result<Option<bool>> {
        let count = within(entries.len() as u64, shape.min_properties, shape.max_properties);
        let has = |name: &&str| entries.iter().any(|(key, _)| key == name);
        let mut answer = Some(count && shape.required.iter().all(has));
        for (key, value) in entries {
            let parts = self.property_parts(shape, key);
            answer = both(answer, self.admits(&parts, value, depth + 1)?);
        }
        Ok(answer)
    }

    /// Whether no value that is written for one schema fits another; false where this is not certain.
    pub(super) fn avoids(
        &mut self,
        written: &'a Json,
        other: &'a Json,
        depth: usize,
    ) -> Result<bool> {
        if depth > DEEPEST {
            return Ok(false);
        }
        let a = self.shape(&[Part::new(written)])?;
        let b = self.shape(&[Part::new(other)])?;
        // A value fits one option of each group: it is enough that no option leads to both.
        for group in &a.groups {
            if self.all_avoid(group.options, |option| (option, other), depth)? {
                return Ok(true);
            }
        }
        for group in &b.groups {
            if self.all_avoid(group.options, |option| (written, option), depth)? {
                return Ok(true);
            }
        }
        for (constants, shape) in [(&a.constants, &b), (&b.constants, &a)] {
            let Some(constants) = constants else { continue };
            let mut apart = true;
            for value in constants {
                apart = apart && self.fits(shape, value, depth + 1)? == Some(false);
            }
            if apart {
                return Ok(true);
            }
        }
        let common = a.written() & b.types;
        let mut apart = true;
        for kind in (0..7).map(|bit| 1 << bit).filter(|kind| common & kind != 0) {
            apart = apart
                && match kind {
                    types::INTEGER | types::FRACTION => {
                        exceeds(a.low, b.high) || exceeds(b.low, a.high)
                    }
                    types::STRING => {
                        a.max_length.is_some_and(|most| most < b.min_length)
                            || b.max_length.is_some_and(|most| most < a.min_length)
                    }
                    types::ARRAY => {
                        a.max_items.is_some_and(|most| most < b.min_items)
                            || b.max_items.is_some_and(|most| most < a.min_items)
                    }
                    types::OBJECT => self.objects_avoid(&a, &b, depth)?,
                    _ => false,
                };
        }
        Ok(apart)
    }

    fn all_avoid(
        &mut self,
        options: &'a [Json],
        pair: impl Fn(&'a Json) -> (&'a Json, &'a Json),
        depth: usize,
    ) -> Result<bool> {
        for option in options {
            let (written, other) = pair(option);
            if !self.avoids(written, other, depth + 1)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether objects that are written for one shape lack a property that the other requires, or always have one
    /// whose value the other does not admit.
    fn objects_avoid(&mut self, a: &Shape<'a>, b: &Shape<'a>, depth: usize) -> Result<bool> {
        let is_written = |name: &str| {
            offers_more(a)
                || a.required.contains(&name)
                || a.objects.iter().any(|o| o.properties.iter().any(|(key, _)| key == name))
        };
        if b.required.iter().any(|name| !is_written(name)) {
            return Ok(true);
        }
        for name in a.required.iter().chain(&b.required) {
            for mine in self.property_parts(a, name) {
                for theirs in self.property_parts(b, name) {
                    if self.avoids(mine.json, theirs.json, depth + 1)? {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }
}

/// Whether objects of this shape are written with properties that no schema lists.
pub(super) fn offers_more(shape: &Shape<'_>) -> bool {
    let explicit = shape.objects.iter().any(|object| object.additional.is_some());
    let listed = shape.objects.iter().any(|object| object.lists);
    explicit || (!listed && shape.required.is_empty())
}

fn kind(value: &Json) -> u8 {
    match value {
        Json::Null => types::NULL,
        Json::Bool(_) => types::BOOLEAN,
        Json::String(_) => types::STRING,
        Json::Number(number) if number.as_f64().is_some_and(|n| n.fract() == 0.0) => types::INTEGER,
        Json::Number(_) => types::FRACTION,
        Json::Array(_) => types::ARRAY,
        Json::Object(_) => types::OBJECT,
    }
}

fn within(count: u64, least: u64, most: Option<u64>) -> bool {
    count >= least && most.is_none_or(|most| count <= most)
}

/// False if one is false, else unknown if one is unknown.
fn both(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

/// Whether a lower bound lies above an upper bound.
fn exceeds(low: Option<Bound>, high: Option<Bound>) -> bool {
    match (low, high) {
        (Some(low), Some(high)) => {
            low.value > high.value || low.value == high.value && (low.exclusive || high.exclusive)
        }
        _ => false,
    }
}
