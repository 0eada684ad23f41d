//! Methods of values, as in Python: which there are, and those of lists, maps and loops.

use super::arguments::Arguments;
use super::heap::Heap;
use super::object::{Kind, Object};
use super::operators;
use super::strings;
use crate::error::{Error, Result};

const TEXT: &[&str] = &[
    "capitalize",
    "casefold",
    "center",
    "count",
    "endswith",
    "find",
    "format",
    "index",
    "isalnum",
    "isalpha",
    "isascii",
    "isdecimal",
    "isdigit",
    "islower",
    "isnumeric",
    "isspace",
    "isupper",
    "join",
    "ljust",
    "lower",
    "lstrip",
    "partition",
    "removeprefix",
    "removesuffix",
    "replace",
    "rfind",
    "rindex",
    "rjust",
    "rpartition",
    "rsplit",
    "rstrip",
    "split",
    "splitlines",
    "startswith",
    "strip",
    "title",
    "upper",
    "zfill",
];
const LIST: &[&str] = &["copy", "count", "index"];
const MAP: &[&str] = &["copy", "get", "items", "keys", "values"];
const LOOP: &[&str] = &["changed", "cycle"];

/// Whether the value has such a method. Those that change a value are not there, as in Jinja's immutable sandbox.
pub(super) fn find(value: &Object, name: &str) -> Option<&'static str> {
    let names = match value {
        Object::Text(_) => TEXT,
        Object::List(list) if matches!(list.kind, Kind::List | Kind::Tuple) => LIST,
        Object::Map(_) => MAP,
        Object::Loop(_) => LOOP,
        _ => return None,
    };
    names.iter().find(|known| **known == name).copied()
}

/// Calls a method that [`find`] has found.
pub(super) fn call(
    heap: &Heap,
    value: &Object,
    name: &str,
    arguments: Arguments,
) -> Result<Object> {
    heap.pass(value)?;
    match value {
        Object::Text(subject) => {
            if arguments.positional.iter().any(Object::is_undefined) && name != "format" {
                return Err(Error::render(format!("an argument of `{name}` is undefined")));
            }
            strings::call(heap, subject, name, arguments)
        }
        Object::List(list) => match name {
            "copy" => Ok(value.clone()),
            _ => {
                let [item] = arguments.take(["value"])?;
                let item = item.unwrap_or(Object::Undefined);
                let mut count = 0;
                for (place, element) in list.items.iter().enumerate() {
                    if operators::equal(heap, element, &item)? {
                        if name == "index" {
                            return Ok(Object::Int(place as i128));
                        }
                        count += 1;
                    }
                }
                if name == "count" {
                    return Ok(Object::Int(count));
                }
                Err(Error::render("`index` does not find the value in the list"))
            }
        },
        Object::Map(map) => match name {
            "get" => {
                let [key, default] = arguments.take(["key", "default"])?;
                let key = key.ok_or_else(|| Error::render("`get` needs a key"))?;
                let found = operators::entry(heap, &map.entries, &key)?.cloned();
                Ok(found.or(default).unwrap_or(Object::None))
            }
            "copy" => Ok(value.clone()),
            _ => {
                arguments.none()?;
                heap.room_for_items(map.entries.len())?;
                let items = match name {
                    "keys" => map.entries.iter().map(|(key, _)| key.clone()).collect(),
                    "values" => map.entries.iter().map(|(_, value)| value.clone()).collect(),
                    _ => pairs(heap, value)?,
                };
                heap.sequence(items, Kind::View)
            }
        },
        Object::Loop(state) if name == "cycle" => {
            let values = &arguments.positional;
            if values.is_empty() {
                return Err(Error::render("`cycle` needs values"));
            }
            Ok(values[state.at.get() % values.len()].clone())
        }
        Object::Loop(state) => {
            let values = heap.sequence(arguments.positional, Kind::Tuple)?;
            let last = state.changed.replace(Some(values.clone()));
            let same = match &last {
                Some(last) => operators::equal(heap, last, &values)?,
                None => false,
            };
            Ok(Object::Bool(!same))
        }
        other => Err(Error::render(format!("{} has no method `{name}`", other.name()))),
    }
}

/// The entries of a map as pairs.
pub(super) fn pairs(heap: &Heap, value: &Object) -> Result<Vec<Object>> {
    let Object::Map(map) = value else { return Ok(Vec::new()) };
    let pair = |(key, value): &(Object, Object)| {
        heap.sequence(vec![key.clone(), value.clone()], Kind::Tuple)
    };
    map.entries.iter().map(pair).collect()
}
