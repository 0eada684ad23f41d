//! What a rendering may use: steps and memory. Values are made here and nowhere else, so that what they take is
//! counted while they live, and what they cost is counted for good.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use super::content::{self, Content};
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

/// What a value takes beside its contents: two reference counts, vectors, its charge, and the allocator's share.
const OVERHEAD: usize = 128;

/// Where a value of the conversation comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// Its texts count as the template's.
    Template,
    /// A list of messages, or one: what they say is content.
    Messages,
    /// All of its texts are content.
    Content,
}

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

    /// Text of the template.
    pub fn text(&self, text: impl Into<Box<str>>) -> Result<Object> {
        self.made(text.into(), false, Content::default())
    }

    /// Text of the conversation.
    pub fn content(&self, text: impl Into<Box<str>>) -> Result<Object> {
        let text = text.into();
        let content = Content::all(text.len(), true);
        self.made(text, false, content)
    }

    /// Text that was made of another one, whose bytes cannot be followed: all of it is content if some of the other is.
    pub fn derived(&self, text: impl Into<Box<str>>, from: &Text) -> Result<Object> {
        let text = text.into();
        let content = Content::all(text.len(), from.has_content());
        self.made(text, from.markup, content)
    }

    /// A part of another text.
    pub fn part(&self, part: &str, of: &Text) -> Result<Object> {
        let Some(place) = content::place(of, part) else { return self.derived(part, of) };
        let mut content = Content::default();
        of.content.within(place).for_each(|range| content.add(range));
        self.made(part.into(), of.markup, content)
    }

    /// Text that may be marked as safe for HTML, and may have content.
    fn made(&self, text: Box<str>, markup: bool, content: Content) -> Result<Object> {
        self.work(text.len())?;
        let ranges = content.ranges().saturating_sub(1) * size_of::<Range<usize>>();
        let charge = self.hold(OVERHEAD + text.len() + ranges)?;
        Ok(Object::Text(Rc::new(Text { text, markup, content, _charge: charge })))
    }

    pub fn list(&self, items: Vec<Object>) -> Result<Object> {
        self.sequence(items, Kind::List)
    }

    pub fn sequence(&self, items: Vec<Object>, kind: Kind) -> Result<Object> {
        self.step(items.len() / 4)?;
        let nesting = self.nesting(items.iter())?;
        let has_content = items.iter().any(Object::has_content);
        let charge = self.hold(OVERHEAD + items.len() * size_of::<Object>())?;
        Ok(Object::List(Rc::new(List {
            items,
            kind,
            nesting,
            has_content,
            taken: Cell::new(0),
            _charge: charge,
        })))
    }

    /// A map of entries with different keys.
    pub fn map(&self, entries: Vec<(Object, Object)>) -> Result<Object> {
        self.step(entries.len() / 4)?;
        let nesting = self.nesting(entries.iter().flat_map(|(key, value)| [key, value]))?;
        let has_content =
            entries.iter().any(|(key, value)| key.has_content() || value.has_content());
        let charge = self.hold(OVERHEAD + entries.len() * size_of::<(Object, Object)>())?;
        Ok(Object::Map(Rc::new(Map { entries, nesting, has_content, _charge: charge })))
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
    pub fn import(&self, value: &Value, depth: u32, origin: Origin) -> Result<Object> {
        self.step(1)?;
        if depth > MAX_NESTING {
            return Err(Error::limit("the depth of nested lists and maps", MAX_NESTING.into()));
        }
        Ok(match value {
            Value::None => Object::None,
            Value::Bool(value) => Object::Bool(*value),
            Value::Int(value) => Object::Int(*value),
            Value::Float(value) => Object::Float(*value),
            Value::Text(text) => self.imported(text, origin)?,
            Value::List(items) => {
                let items = items.iter().map(|item| self.import(item, depth + 1, origin));
                self.list(items.collect::<Result<_>>()?)?
            }
            Value::Map(entries) => {
                let entries = entries.iter().map(|(key, value)| {
                    let (of_key, of_value) = match origin {
                        // Applications name the fields of a message, not users.
                        Origin::Messages if is_role(key, value) => {
                            (Origin::Template, Origin::Template)
                        }
                        Origin::Messages => (Origin::Template, Origin::Content),
                        other => (other, other),
                    };
                    Ok((self.imported(key, of_key)?, self.import(value, depth + 1, of_value)?))
                });
                self.map(entries.collect::<Result<_>>()?)?
            }
        })
    }

    fn imported(&self, text: &str, origin: Origin) -> Result<Object> {
        if origin == Origin::Template { self.text(text) } else { self.content(text) }
    }

    pub fn buffer(&self) -> Buffer {
        Buffer {
            text: String::new(),
            content: Content::default(),
            charge: Charge { meter: self.meter.clone(), bytes: 0 },
            limit: usize::MAX,
        }
    }

    /// The buffer of the result.
    pub fn output(&self) -> Buffer {
        Buffer { limit: self.meter.limits.output, ..self.buffer() }
    }
}

/// Whether a field of a message is its role, which templates put into special tokens: `'<|' + role + '|>'`. One that is
/// no plain word is content.
fn is_role(name: &str, value: &Value) -> bool {
    let is_word =
        |role: &str| role.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    name == "role" && value.as_text().is_some_and(is_word)
}

/// Text that grows within the limits.
#[derive(Debug)]
pub(super) struct Buffer {
    text: String,
    content: Content,
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

    /// A part of a text, with what of it is content.
    pub fn push_part(&mut self, part: &str, of: &Text) -> Result<()> {
        let start = self.text.len();
        self.push_str(part)?;
        if !of.has_content() {
            return Ok(());
        }
        let Some(place) = content::place(of, part) else { return self.mark(start) };
        of.content
            .within(place)
            .try_for_each(|range| self.add_content(start + range.start..start + range.end))
    }

    /// Text, with what of it is content.
    pub fn push_text(&mut self, text: &Text) -> Result<()> {
        self.push_part(text, text)
    }

    /// Makes everything content that was written since the buffer had this length.
    pub fn mark(&mut self, start: usize) -> Result<()> {
        self.add_content(start..self.text.len())
    }

    fn add_content(&mut self, range: Range<usize>) -> Result<()> {
        let before = self.content.ranges();
        self.content.add(range);
        self.charge.grow((self.content.ranges() - before) * size_of::<Range<usize>>())
    }

    pub fn len(&self) -> usize {
        self.text.len()
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

    pub fn finish(self) -> (String, Content) {
        (self.text, self.content)
    }

    pub fn into_object(self, heap: &Heap) -> Result<Object> {
        self.into_marked(heap, false)
    }

    /// Text that may be marked as safe for HTML.
    pub fn into_marked(self, heap: &Heap, markup: bool) -> Result<Object> {
        drop(self.charge);
        heap.made(self.text.into(), markup, self.content)
    }
}
