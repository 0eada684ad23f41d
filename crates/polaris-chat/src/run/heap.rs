//! What a rendering may use: steps and memory. Values are made here and nowhere else, so that what they take is
//! counted while they live, and what they cost is counted for good.

use std::cell::Cell;
use std::rc::Rc;

use super::object::{Kind, List, Map, Object, Text};
use crate::error::{Error, Result};
use crate::value::Value;

/// How much a rendering may use.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Statements and parts of expressions that are carried out, and [`STEP`] bytes that are read or written.
    pub steps: u64,
    /// Bytes of all values at one time.
    pub memory: usize,
    /// Bytes of the result.
    pub output: usize,
}

/// How many bytes are moved in about the time of one step.
const STEP: usize = 16;

/// How deep lists and maps may nest: more than what `serde_json` reads, and little enough for recursion.
pub(super) const MAX_NESTING: u32 = 140;

/// What a value takes beside its contents: two reference counts, a vector, its charge, and the allocator's share.
const OVERHEAD: usize = 96;

#[derive(Debug)]
struct Meter {
    limits: Limits,
    steps: Cell<u64>,
    held: Cell<usize>,
}

/// Memory that counts until it is dropped.
#[derive(Debug)]
pub(super) struct Charge {
    meter: Rc<Meter>,
    bytes: usize,
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.meter.held.set(self.meter.held.get() - self.bytes);
    }
}

impl Charge {
    /// Counts so many bytes more.
    fn grow(&mut self, bytes: usize) -> Result<()> {
        let held = self.meter.held.get().saturating_add(bytes);
        let limit = self.meter.limits.memory;
        if held > limit {
            return Err(Error::limit("the memory of its values in bytes", limit as u64));
        }
        self.meter.held.set(held);
        self.bytes += bytes;
        Ok(())
    }
}

/// The maker of values.
#[derive(Debug, Clone)]
pub(super) struct Heap {
    meter: Rc<Meter>,
}

impl Heap {
    pub fn new(limits: Limits) -> Self {
        Self { meter: Rc::new(Meter { limits, steps: Cell::new(0), held: Cell::new(0) }) }
    }

    /// Counts so many steps.
    pub fn step(&self, count: usize) -> Result<()> {
        let steps = self.meter.steps.get().saturating_add(count as u64);
        self.meter.steps.set(steps);
        if steps > self.meter.limits.steps {
            return Err(Error::limit("the number of its steps", self.meter.limits.steps));
        }
        Ok(())
    }

    /// Counts the steps of reading or writing so many bytes.
    pub fn work(&self, bytes: usize) -> Result<()> {
        self.step(bytes / STEP)
    }

    /// Counts the steps of going once through a value.
    pub fn pass(&self, value: &Object) -> Result<()> {
        match value {
            Object::Text(text) => self.work(text.len()),
            Object::List(list) => self.step(list.items.len() / 4),
            Object::Map(map) => self.step(map.entries.len() / 4),
            _ => Ok(()),
        }
    }

    fn hold(&self, bytes: usize) -> Result<Charge> {
        let mut charge = Charge { meter: self.meter.clone(), bytes: 0 };
        charge.grow(bytes)?;
        Ok(charge)
    }

    /// An error unless there is room for so many bytes; asked before something large is made.
    pub fn room(&self, bytes: usize) -> Result<()> {
        self.hold(bytes).map(drop)
    }

    /// An error unless there is room for a list of so many items.
    pub fn room_for_items(&self, count: usize) -> Result<()> {
        self.step(count / 4)?;
        self.room(count.saturating_mul(size_of::<Object>()))
    }

    pub fn text(&self, text: impl Into<Box<str>>) -> Result<Object> {
        self.marked(text, false)
    }

    /// Text that may be marked as safe for HTML.
    pub fn marked(&self, text: impl Into<Box<str>>, markup: bool) -> Result<Object> {
        let text = text.into();
        self.work(text.len())?;
        let charge = self.hold(OVERHEAD + text.len())?;
        Ok(Object::Text(Rc::new(Text { text, markup, _charge: charge })))
    }

    pub fn list(&self, items: Vec<Object>) -> Result<Object> {
        self.sequence(items, Kind::List)
    }

    pub fn sequence(&self, items: Vec<Object>, kind: Kind) -> Result<Object> {
        self.step(items.len() / 4)?;
        let nesting = self.nesting(items.iter())?;
        let charge = self.hold(OVERHEAD + items.len() * size_of::<Object>())?;
        Ok(Object::List(Rc::new(List {
            items,
            kind,
            nesting,
            taken: Cell::new(0),
            _charge: charge,
        })))
    }

    /// A map of entries with different keys.
    pub fn map(&self, entries: Vec<(Object, Object)>) -> Result<Object> {
        self.step(entries.len() / 4)?;
        let nesting = self.nesting(entries.iter().flat_map(|(key, value)| [key, value]))?;
        let charge = self.hold(OVERHEAD + entries.len() * size_of::<(Object, Object)>())?;
        Ok(Object::Map(Rc::new(Map { entries, nesting, _charge: charge })))
    }

    /// Memory for the attributes of a namespace.
    pub fn attribute(&self, name: &str) -> Result<Charge> {
        self.hold(OVERHEAD + name.len())
    }

    /// Values that know their surroundings (namespaces, macros, loops) are not stored in others: there would be cycles,
    /// which are never freed, and macros that outlive what they refer to.
    fn nesting<'o>(&self, values: impl Iterator<Item = &'o Object>) -> Result<u32> {
        let mut deepest = 0;
        for value in values {
            deepest = deepest.max(value.nesting().ok_or_else(|| value.not_stored())?);
        }
        if deepest >= MAX_NESTING {
            return Err(Error::limit("the depth of nested lists and maps", MAX_NESTING.into()));
        }
        Ok(deepest + 1)
    }

    /// A value of the conversation.
    pub fn import(&self, value: &Value, depth: u32) -> Result<Object> {
        self.step(1)?;
        if depth > MAX_NESTING {
            return Err(Error::limit("the depth of nested lists and maps", MAX_NESTING.into()));
        }
        Ok(match value {
            Value::None => Object::None,
            Value::Bool(value) => Object::Bool(*value),
            Value::Int(value) => Object::Int(*value),
            Value::Float(value) => Object::Float(*value),
            Value::Text(text) => self.text(text.as_str())?,
            Value::List(items) => {
                let items = items.iter().map(|item| self.import(item, depth + 1));
                self.list(items.collect::<Result<_>>()?)?
            }
            Value::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    Ok((self.text(key.as_str())?, self.import(value, depth + 1)?))
                });
                self.map(entries.collect::<Result<_>>()?)?
            }
        })
    }

    pub fn buffer(&self) -> Buffer {
        Buffer {
            text: String::new(),
            charge: Charge { meter: self.meter.clone(), bytes: 0 },
            limit: usize::MAX,
        }
    }

    /// The buffer of the result.
    pub fn output(&self) -> Buffer {
        Buffer { limit: self.meter.limits.output, ..self.buffer() }
    }
}

/// Text that grows within the limits.
#[derive(Debug)]
pub(super) struct Buffer {
    text: String,
    charge: Charge,
    limit: usize,
}

impl Buffer {
    pub fn push_str(&mut self, text: &str) -> Result<()> {
        let needed = self.text.len() + text.len();
        if needed > self.limit {
            return Err(Error::limit("the length of its output in bytes", self.limit as u64));
        }
        if needed > self.text.capacity() {
            let capacity = needed.max(self.text.capacity() * 2).max(64);
            self.charge.grow(capacity - self.text.capacity())?;
            self.text.reserve_exact(capacity - self.text.len());
        }
        self.text.push_str(text);
        Ok(())
    }

    pub fn push(&mut self, character: char) -> Result<()> {
        self.push_str(character.encode_utf8(&mut [0; 4]))
    }

    /// The same character so many times.
    pub fn fill(&mut self, character: char, count: usize) -> Result<()> {
        Heap { meter: self.charge.meter.clone() }
            .room(count.saturating_mul(character.len_utf8()))?;
        const CHUNK: usize = 256;
        let chunk = String::from(character).repeat(CHUNK.min(count));
        for _ in 0..count / CHUNK {
            self.push_str(&chunk)?;
        }
        self.push_str(&chunk[..count % CHUNK * character.len_utf8()])
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn finish(self) -> String {
        self.text
    }

    pub fn into_object(self, heap: &Heap) -> Result<Object> {
        drop(self.charge);
        heap.text(self.text)
    }
}
