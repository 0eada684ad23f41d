//! The values of a running template. They never change, except for namespaces, so clones share them.

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;

use super::content::Content;
use super::heap::{Charge, Heap};
use crate::error::{Error, Result};

#[derive(Debug, Clone)]
pub(super) enum Object {
    /// What has no value: empty in text and loops, an error almost everywhere else.
    Undefined,
    None,
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(Rc<Text>),
    List(Rc<List>),
    Map(Rc<Map>),
    Namespace(Rc<Namespace>),
    /// A macro by its number in the program, with the scope that it was defined in.
    Macro {
        index: usize,
        scope: usize,
    },
    Loop(Rc<Loop>),
    Function(Function),
    /// A method with its receiver: `text.strip`.
    Method(Rc<(Object, &'static str)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Range,
    Dict,
    Namespace,
    RaiseException,
    StrftimeNow,
}

#[derive(Debug)]
pub(super) struct Text {
    pub text: Box<str>,
    /// Safe for HTML, as after `safe`: what is added to it is escaped.
    pub markup: bool,
    /// What of it comes from the conversation.
    pub content: Content,
    pub(super) _charge: Charge,
}

impl Text {
    /// Whether some of it comes from the conversation.
    pub fn has_content(&self) -> bool {
        !self.content.is_empty()
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

/// What a sequence is in Python, where it makes a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    List,
    Tuple,
    /// The keys, values or items of a map: with a length, without indices.
    View,
    /// What filters like `select` give: without a length, empty after it was read, always true.
    Generator,
}

#[derive(Debug)]
pub(super) struct List {
    pub items: Vec<Object>,
    pub kind: Kind,
    pub(super) nesting: u32,
    /// Whether a text in it has content.
    pub(super) has_content: bool,
    /// How many items of a generator have been read.
    pub(super) taken: Cell<usize>,
    pub(super) _charge: Charge,
}

/// Entries in order. Maps of conversations have a few keys, so these are compared one by one; the steps are counted.
#[derive(Debug)]
pub(super) struct Map {
    pub entries: Vec<(Object, Object)>,
    pub(super) nesting: u32,
    /// Whether a text in it has content.
    pub(super) has_content: bool,
    pub(super) _charge: Charge,
}

impl Map {
    /// The value under a name.
    pub fn get(&self, heap: &Heap, name: &str) -> Result<Option<&Object>> {
        heap.step(self.entries.len() / 4)?;
        for (key, value) in &self.entries {
            if let Object::Text(key) = key
                && key.len() == name.len()
            {
                heap.work(name.len())?;
                if &*key.text == name {
                    return Ok(Some(value));
                }
            }
        }
        Ok(None)
    }
}

#[derive(Debug, Default)]
pub(super) struct Namespace {
    attributes: RefCell<Vec<(String, Object, Charge)>>,
}

impl Namespace {
    pub fn get(&self, heap: &Heap, name: &str) -> Result<Option<Object>> {
        let attributes = self.attributes.borrow();
        heap.step(attributes.len() / 4)?;
        Ok(attributes.iter().find(|(key, ..)| key == name).map(|(_, value, _)| value.clone()))
    }

    pub fn set(&self, heap: &Heap, name: &str, value: Object) -> Result<()> {
        if value.nesting().is_none() {
            return Err(value.not_stored());
        }
        let mut attributes = self.attributes.borrow_mut();
        heap.step(attributes.len() / 4)?;
        match attributes.iter_mut().find(|(key, ..)| key == name) {
            Some((_, old, _)) => *old = value,
            None => attributes.push((name.to_owned(), value, heap.attribute(name)?)),
        }
        Ok(())
    }
}

/// A loop as its body sees it.
#[derive(Debug)]
pub(super) struct Loop {
    pub items: Rc<List>,
    pub at: Cell<usize>,
    pub depth: usize,
    /// The number of the loop in the program and the scope around it, for `loop(...)`.
    pub index: usize,
    pub scope: usize,
    /// The last arguments of `loop.changed`.
    pub changed: RefCell<Option<Object>>,
}

impl Object {
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Whether it is or holds text that comes from the conversation.
    pub fn has_content(&self) -> bool {
        match self {
            Self::Text(text) => text.has_content(),
            Self::List(list) => list.has_content,
            Self::Map(map) => map.has_content,
            _ => false,
        }
    }

    pub fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    /// How deep the value nests; nothing for values that cannot be stored in others.
    pub fn nesting(&self) -> Option<u32> {
        match self {
            Self::List(list) => Some(list.nesting),
            Self::Map(map) => Some(map.nesting),
            Self::Namespace(_) | Self::Macro { .. } | Self::Loop(_) | Self::Method(_) => None,
            _ => Some(0),
        }
    }

    pub fn not_stored(&self) -> Error {
        Error::render(format!("{} cannot be stored in a list, map or namespace", self.name()))
    }

    /// What it is, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Undefined => "an undefined value",
            Self::None => "none",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Text(_) => "a string",
            Self::List(list) => match list.kind {
                Kind::List => "a list",
                Kind::Tuple => "a tuple",
                Kind::View => "a view of a map",
                Kind::Generator => "a generator",
            },
            Self::Map(_) => "a map",
            Self::Namespace(_) => "a namespace",
            Self::Macro { .. } => "a macro",
            Self::Loop(_) => "a loop",
            Self::Function(_) | Self::Method(_) => "a function",
        }
    }

    /// Whether it counts as true.
    pub fn truth(&self) -> bool {
        match self {
            Self::Undefined | Self::None => false,
            Self::Bool(value) => *value,
            Self::Int(value) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => list.kind == Kind::Generator || !list.items.is_empty(),
            Self::Map(map) => !map.entries.is_empty(),
            _ => true,
        }
    }

    /// The number of elements, where Python's `len` has one.
    pub fn length(&self, heap: &Heap) -> Result<usize> {
        heap.pass(self)?;
        match self {
            Self::Undefined => Ok(0),
            Self::Text(text) => Ok(text.chars().count()),
            Self::List(list) if list.kind != Kind::Generator => Ok(list.items.len()),
            Self::Map(map) => Ok(map.entries.len()),
            Self::Loop(state) => Ok(state.items.items.len()),
            _ => Err(Error::render(format!("{} has no length", self.name()))),
        }
    }

    /// The elements as a sequence: characters, items or keys. A generator gives those that are left.
    pub fn elements(&self, heap: &Heap) -> Result<Rc<List>> {
        let items = match self {
            Self::List(list) if list.kind != Kind::Generator => return Ok(list.clone()),
            Self::List(list) => {
                let start = list.taken.replace(list.items.len());
                if start == 0 {
                    return Ok(list.clone());
                }
                heap.room_for_items(list.items.len() - start)?;
                list.items[start..].to_vec()
            }
            Self::Undefined => Vec::new(),
            Self::Text(text) => {
                heap.work(text.len())?;
                let characters = text.char_indices();
                characters
                    .map(|(at, c)| heap.part(&text[at..at + c.len_utf8()], text))
                    .collect::<Result<_>>()?
            }
            Self::Map(map) => {
                heap.room_for_items(map.entries.len())?;
                map.entries.iter().map(|(key, _)| key.clone()).collect()
            }
            _ => return Err(Error::render(format!("{} cannot be iterated over", self.name()))),
        };
        match heap.list(items)? {
            Self::List(list) => Ok(list),
            _ => unreachable!("a list should be a list"),
        }
    }
}
