//! Filters of sequences.

use std::rc::Rc;

use super::access;
use super::arguments::{Arguments, text};
use super::filters::{add, as_text, folded};
use super::heap::Heap;
use super::interpreter::Interpreter;
use super::object::{Kind, List, Object};
use super::{methods, operators, show};
use crate::error::{Error, Result};

impl Interpreter<'_> {
    pub(super) fn sequence_filter(
        &mut self,
        name: &str,
        value: Object,
        arguments: Arguments,
    ) -> Result<Object> {
        let heap = self.heap.clone();
        match name {
            "list" => {
                arguments.none()?;
                let elements = value.elements(&heap)?;
                heap.room_for_items(elements.items.len())?;
                heap.list(elements.items.clone())
            }
            "first" => {
                arguments.none()?;
                if let Object::List(list) = &value
                    && list.kind == Kind::Generator
                {
                    let at = list.taken.get();
                    list.taken.set((at + 1).min(list.items.len()));
                    return Ok(list.items.get(at).cloned().unwrap_or(Object::Undefined));
                }
                Ok(value.elements(&heap)?.items.first().cloned().unwrap_or(Object::Undefined))
            }
            "last" => {
                arguments.none()?;
                if matches!(&value, Object::List(list) if list.kind == Kind::Generator) {
                    return Err(Error::render("a generator has no last element; use `list` first"));
                }
                Ok(value.elements(&heap)?.items.last().cloned().unwrap_or(Object::Undefined))
            }
            "reverse" => {
                arguments.none()?;
                if let Object::Text(text) = &value {
                    return heap.derived(text.chars().rev().collect::<String>(), text);
                }
                let elements = value.elements(&heap)?;
                heap.room_for_items(elements.items.len())?;
                heap.sequence(elements.items.iter().rev().cloned().collect(), Kind::Generator)
            }
            "join" => join(&heap, &value, arguments),
            "sort" => {
                let [reverse, case, attribute] =
                    arguments.take(["reverse", "case_sensitive", "attribute"])?;
                let elements = value.elements(&heap)?;
                let items = elements.items.iter().map(|item| {
                    let key = attribute_of(&heap, item, attribute.as_ref())?;
                    Ok((folded(&heap, &key, truth(&case))?, item.clone()))
                });
                let items = items.collect::<Result<Vec<_>>>()?;
                heap.list(ordered(&heap, items, truth(&reverse))?)
            }
            "dictsort" => {
                let [case, by, reverse] = arguments.take(["case_sensitive", "by", "reverse"])?;
                let place = match &by {
                    None => 0,
                    Some(Object::Text(by)) if &*by.text == "key" => 0,
                    Some(Object::Text(by)) if &*by.text == "value" => 1,
                    _ => return Err(Error::render("`dictsort` sorts by key or by value")),
                };
                let Object::Map(map) = &value else {
                    return Err(Error::render(format!(
                        "`dictsort` sorts maps, not {}",
                        value.name()
                    )));
                };
                let pairs = methods::pairs(&heap, &value)?;
                let keys = map.entries.iter().map(|entry| [&entry.0, &entry.1][place]);
                let items = keys
                    .zip(pairs)
                    .map(|(key, pair)| Ok((folded(&heap, key, truth(&case))?, pair)));
                let items = items.collect::<Result<Vec<_>>>()?;
                heap.list(ordered(&heap, items, truth(&reverse))?)
            }
            "min" | "max" => {
                let [case, attribute] = arguments.take(["case_sensitive", "attribute"])?;
                let mut best: Option<(Object, Object)> = None;
                for item in &value.elements(&heap)?.items {
                    let key = attribute_of(&heap, item, attribute.as_ref())?;
                    let key = folded(&heap, &key, truth(&case))?;
                    let better = match &best {
                        None => true,
                        Some((held, _)) => {
                            let order = operators::order(&heap, &key, held)?;
                            order.is_some_and(|o| if name == "min" { o.is_lt() } else { o.is_gt() })
                        }
                    };
                    if better {
                        best = Some((key, item.clone()));
                    }
                }
                Ok(best.map_or(Object::Undefined, |(_, item)| item))
            }
            "sum" => {
                let [attribute, start] = arguments.take(["attribute", "start"])?;
                let mut total = start.unwrap_or(Object::Int(0));
                for item in &value.elements(&heap)?.items {
                    let item = attribute_of(&heap, item, attribute.as_ref())?;
                    total = add(&heap, &total, &item)?;
                }
                Ok(total)
            }
            "unique" => {
                let [case, attribute] = arguments.take(["case_sensitive", "attribute"])?;
                let (mut seen, mut items) = (Vec::new(), Vec::new());
                for item in &value.elements(&heap)?.items {
                    let key = attribute_of(&heap, item, attribute.as_ref())?;
                    let key = folded(&heap, &key, truth(&case))?;
                    let before = seen.len();
                    operators::insert(&heap, &mut seen, key, Object::None)?;
                    if seen.len() > before {
                        items.push(item.clone());
                    }
                }
                heap.sequence(items, Kind::Generator)
            }
            "map" => self.map_filter(&value, arguments),
            _ => self.select_filter(name, &value, arguments),
        }
    }

    /// An attribute of every element, or every element through a filter.
    fn map_filter(&mut self, value: &Object, mut arguments: Arguments) -> Result<Object> {
        let heap = self.heap.clone();
        let elements = elements_or_none(&heap, value)?;
        heap.room_for_items(elements.items.len())?;
        let mut items = Vec::with_capacity(elements.items.len());
        if arguments.positional.is_empty() {
            let [attribute, default] = arguments.take(["attribute", "default"])?;
            if attribute.is_none() {
                return Err(Error::render("`map` needs an attribute or the name of a filter"));
            }
            for item in &elements.items {
                let found = attribute_of(&heap, item, attribute.as_ref())?;
                items.push(match &default {
                    Some(default) if found.is_undefined() => default.clone(),
                    _ => found,
                });
            }
        } else {
            let filter = Some(arguments.positional.remove(0));
            let filter = text(&filter, "filter")?;
            for item in &elements.items {
                let copy = copied(&heap, &arguments)?;
                items.push(self.deeper(1, |this| this.filter(filter, item.clone(), copy))?);
            }
        }
        heap.sequence(items, Kind::Generator)
    }

    /// The elements that pass a test, or those that fail it, by themselves or by an attribute.
    fn select_filter(
        &mut self,
        name: &str,
        value: &Object,
        mut arguments: Arguments,
    ) -> Result<Object> {
        let heap = self.heap.clone();
        let wanted = name.starts_with("select");
        let attribute = if name.ends_with("attr") {
            if arguments.positional.is_empty() {
                return Err(Error::render(format!("`{name}` needs an attribute")));
            }
            Some(arguments.positional.remove(0))
        } else {
            None
        };
        let has_test = !arguments.positional.is_empty();
        let test = if has_test { Some(arguments.positional.remove(0)) } else { None };
        let mut items = Vec::new();
        for item in &elements_or_none(&heap, value)?.items {
            heap.step(1)?;
            let subject = attribute_of(&heap, item, attribute.as_ref())?;
            let passed = if has_test {
                let copy = copied(&heap, &arguments)?;
                self.test(text(&test, "test")?, &subject, copy)?
            } else {
                subject.truth()
            };
            if passed == wanted {
                items.push(item.clone());
            }
        }
        heap.sequence(items, Kind::Generator)
    }
}

/// The elements of a value; none of what counts as false, as in Jinja's `map` and `select`.
fn elements_or_none(heap: &Heap, value: &Object) -> Result<Rc<List>> {
    if value.truth() { value } else { &Object::Undefined }.elements(heap)
}

/// The arguments once more, for the next element.
fn copied(heap: &Heap, arguments: &Arguments) -> Result<Arguments> {
    let names: usize = arguments.named.iter().map(|(name, _)| name.len()).sum();
    heap.step(1 + arguments.positional.len() + arguments.named.len())?;
    heap.work(names)?;
    Ok(Arguments { positional: arguments.positional.clone(), named: arguments.named.clone() })
}

fn truth(value: &Option<Object>) -> bool {
    value.as_ref().is_some_and(Object::truth)
}

/// The value at a path such as `function.name` or `0`; the value itself without a path.
fn attribute_of(heap: &Heap, item: &Object, path: Option<&Object>) -> Result<Object> {
    match path {
        None | Some(Object::None) => Ok(item.clone()),
        Some(Object::Text(path)) => {
            let mut value = item.clone();
            for part in path.split('.') {
                heap.step(1)?;
                let key = match part.parse::<u32>() {
                    Ok(index) => Object::Int(index.into()),
                    Err(_) => heap.text(part)?,
                };
                value = access::item(heap, &value, &key)?;
            }
            Ok(value)
        }
        Some(index) => access::item(heap, item, index),
    }
}

/// The second of each pair, in the order of the first.
fn ordered(heap: &Heap, items: Vec<(Object, Object)>, reverse: bool) -> Result<Vec<Object>> {
    heap.room_for_items(items.len() * 4)?;
    let mut items = items;
    // Equal ones keep their order backwards too, as in Python.
    if reverse {
        items.reverse();
    }
    let mut items = operators::sorted(heap, items, |(key, _)| key)?;
    if reverse {
        items.reverse();
    }
    Ok(items.into_iter().map(|(_, item)| item).collect())
}

fn join(heap: &Heap, value: &Object, arguments: Arguments) -> Result<Object> {
    let [between, attribute] = arguments.take(["d", "attribute"])?;
    let between = between.map(|between| as_text(heap, &between)).transpose()?;
    let mut buffer = heap.buffer();
    for (place, item) in value.elements(heap)?.items.iter().enumerate() {
        heap.step(1)?;
        if let Some(between) = between.as_ref().filter(|_| place > 0) {
            heap.work(between.len())?;
            buffer.push_text(between)?;
        }
        let item = attribute_of(heap, item, attribute.as_ref())?;
        show::write(&item, heap, &mut buffer)?;
    }
    buffer.into_object(heap)
}
