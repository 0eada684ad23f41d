//! Attributes, subscripts and slices.

use std::rc::Rc;

use super::heap::Heap;
use super::methods;
use super::numbers::Number;
use super::object::{Kind, Loop, Object};
use super::operators;
use crate::error::{Error, Result, shown};

/// `value.name`: a method or attribute, then an entry of a map.
pub(super) fn attribute(heap: &Heap, value: &Object, name: &str) -> Result<Object> {
    if value.is_undefined() {
        let why = format!("an undefined value has no attribute `{}`", shown(name));
        return Err(Error::render(why));
    }
    if let Some(found) = own_attribute(heap, value, name)? {
        return Ok(found);
    }
    match value {
        Object::Map(map) => Ok(map.get(heap, name)?.cloned().unwrap_or(Object::Undefined)),
        _ => Ok(Object::Undefined),
    }
}

/// `value[key]`: an element or entry, then a method or attribute.
pub(super) fn item(heap: &Heap, value: &Object, key: &Object) -> Result<Object> {
    let found = match value {
        Object::Undefined => return Err(Error::render("an undefined value has no elements")),
        Object::Map(map) => match key {
            Object::Text(name) => map.get(heap, name)?.cloned(),
            key => operators::entry(heap, &map.entries, key)?.cloned(),
        },
        Object::List(list) if matches!(list.kind, Kind::List | Kind::Tuple) => {
            index(key, list.items.len()).map(|at| list.items[at].clone())
        }
        Object::Text(text) => {
            heap.work(text.len())?;
            let at = index(key, text.chars().count());
            let character = at.and_then(|at| text.char_indices().nth(at));
            character.map(|(at, c)| heap.part(&text[at..at + c.len_utf8()], text)).transpose()?
        }
        _ => None,
    };
    match (found, key) {
        (Some(found), _) => Ok(found),
        (None, Object::Text(name)) => {
            Ok(own_attribute(heap, value, name)?.unwrap_or(Object::Undefined))
        }
        _ => Ok(Object::Undefined),
    }
}

/// A position from the start, or from the end where it is negative.
fn index(key: &Object, length: usize) -> Option<usize> {
    let Some(Number::Int(at)) = Number::of(key) else { return None };
    let at = if at < 0 { at.checked_add(length as i128)? } else { at };
    usize::try_from(at).ok().filter(|at| *at < length)
}

fn own_attribute(heap: &Heap, value: &Object, name: &str) -> Result<Option<Object>> {
    if let Some(method) = methods::find(value, name) {
        return Ok(Some(Object::Method(Rc::new((value.clone(), method)))));
    }
    match value {
        Object::Namespace(namespace) => namespace.get(heap, name),
        Object::Loop(state) => Ok(loop_attribute(state, name)),
        _ => Ok(None),
    }
}

fn loop_attribute(state: &Loop, name: &str) -> Option<Object> {
    let (at, length) = (state.at.get(), state.items.items.len());
    let number = |value: usize| Object::Int(value as i128);
    let neighbour = |at: Option<usize>| {
        at.and_then(|at| state.items.items.get(at)).cloned().unwrap_or(Object::Undefined)
    };
    Some(match name {
        "index" => number(at + 1),
        "index0" => number(at),
        "revindex" => number(length - at),
        "revindex0" => number(length - at - 1),
        "first" => Object::Bool(at == 0),
        "last" => Object::Bool(at + 1 == length),
        "length" => number(length),
        "depth" => number(state.depth + 1),
        "depth0" => number(state.depth),
        "previtem" => neighbour(at.checked_sub(1)),
        "nextitem" => neighbour(Some(at + 1)),
        _ => return None,
    })
}

/// `value[start:stop:step]`.
pub(super) fn slice(heap: &Heap, value: &Object, bounds: [Option<Object>; 3]) -> Result<Object> {
    let length = match value {
        Object::Text(text) => {
            heap.work(text.len())?;
            text.chars().count()
        }
        Object::List(list) if matches!(list.kind, Kind::List | Kind::Tuple) => list.items.len(),
        _ => return Err(Error::render(format!("{} cannot be sliced", value.name()))),
    };
    let mut numbers = [None; 3];
    for (number, bound) in numbers.iter_mut().zip(&bounds) {
        *number = match bound {
            None | Some(Object::None) => None,
            Some(bound) => match Number::of(bound) {
                Some(Number::Int(value)) => Some(value),
                _ => {
                    let why = format!("a bound of a slice is {}, not an integer", bound.name());
                    return Err(Error::render(why));
                }
            },
        };
    }
    let [start, stop, step] = numbers;
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(Error::render("the step of a slice is 0"));
    }
    let places = places(length, start, stop, step);
    match value {
        Object::Text(text) if step == 1 => {
            let (first, last) = (places.start as usize, places.end as usize);
            let from = |at: usize| text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
            let (first, last) = (from(first), from(last));
            heap.part(&text[first..last.max(first)], text)
        }
        Object::Text(text) => {
            heap.room(text.len().saturating_mul(4))?;
            let characters: Vec<char> = text.chars().collect();
            let picked: String = places.map(|at| characters[at]).collect();
            heap.derived(picked, text)
        }
        Object::List(list) => {
            heap.room_for_items(length)?;
            heap.sequence(places.map(|at| list.items[at].clone()).collect(), list.kind)
        }
        _ => Ok(Object::Undefined),
    }
}

/// The positions of a slice.
struct Places {
    start: i128,
    end: i128,
    step: i128,
}

impl Iterator for Places {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        let more = if self.step > 0 { self.start < self.end } else { self.start > self.end };
        let at = self.start as usize;
        self.start = self.start.saturating_add(self.step);
        more.then_some(at)
    }
}

fn places(length: usize, start: Option<i128>, stop: Option<i128>, step: i128) -> Places {
    let length = length as i128;
    // Backwards, the positions run from the last to before the first, which is -1.
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let bound = |value: i128| {
        let value = if value < 0 { value.saturating_add(length) } else { value };
        value.clamp(low, high.max(low))
    };
    let (first, last) = if step > 0 { (low, high) } else { (high, low) };
    Places { start: start.map_or(first, bound), end: stop.map_or(last, bound), step }
}
