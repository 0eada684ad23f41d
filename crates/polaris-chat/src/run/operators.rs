//! Operators and comparisons of values.

use std::cmp::Ordering;
use std::rc::Rc;

use super::arguments::size;
use super::filters::escape_into;
use super::format;
use super::heap::Heap;
use super::numbers::Number;
use super::object::{Kind, Object, Text};
use crate::error::{Error, Result};
use crate::syntax::ast::Operator;

/// `a + b` and the like.
pub(super) fn compute(heap: &Heap, a: &Object, operator: Operator, b: &Object) -> Result<Object> {
    if let (Some(a), Some(b)) = (Number::of(a), Number::of(b)) {
        return a.compute(operator, b).map(Number::object);
    }
    match (operator, a, b) {
        (Operator::Add, Object::Text(a), Object::Text(b)) => join(heap, a, b),
        (Operator::Add, Object::List(first), Object::List(second))
            if first.kind == second.kind && matches!(first.kind, Kind::List | Kind::Tuple) =>
        {
            heap.room_for_items(first.items.len() + second.items.len())?;
            heap.sequence([&first.items[..], &second.items[..]].concat(), first.kind)
        }
        (Operator::Multiply, Object::Text(text), count)
        | (Operator::Multiply, count, Object::Text(text)) => {
            let count = repetitions(count, a, b)?;
            let bytes = text.len().saturating_mul(count);
            heap.work(bytes)?;
            heap.room(bytes)?;
            heap.derived(text.repeat(if text.is_empty() { 0 } else { count }), text)
        }
        (Operator::Multiply, Object::List(list), count)
        | (Operator::Multiply, count, Object::List(list))
            if matches!(list.kind, Kind::List | Kind::Tuple) =>
        {
            let count = repetitions(count, a, b)?;
            let total = list.items.len().saturating_mul(count);
            heap.room_for_items(total)?;
            heap.sequence(list.items.iter().cycle().take(total).cloned().collect(), list.kind)
        }
        (Operator::Remainder, Object::Text(pattern), values) => {
            let values = match values {
                Object::List(list) if list.kind == Kind::Tuple => list.items.clone(),
                other => vec![other.clone()],
            };
            format::percent(heap, pattern, &values)
        }
        _ => Err(unsupported(operator, a, b)),
    }
}

fn repetitions(count: &Object, a: &Object, b: &Object) -> Result<usize> {
    match Number::of(count) {
        Some(Number::Int(count)) => Ok(size(count)),
        _ => Err(unsupported(Operator::Multiply, a, b)),
    }
}

fn unsupported(operator: Operator, a: &Object, b: &Object) -> Error {
    let sign = match operator {
        Operator::Add => "+",
        Operator::Subtract => "-",
        Operator::Multiply => "*",
        Operator::Divide => "/",
        Operator::FloorDivide => "//",
        Operator::Remainder => "%",
        Operator::Power => "**",
    };
    Error::render(format!("`{sign}` does not work for {} and {}", a.name(), b.name()))
}

/// Text behind text. Where one of them is safe for HTML, the other one is escaped.
fn join(heap: &Heap, a: &Rc<Text>, b: &Rc<Text>) -> Result<Object> {
    let markup = a.markup || b.markup;
    let mut buffer = heap.buffer();
    for part in [a, b] {
        heap.work(part.len())?;
        if markup && !part.markup {
            escape_into(part, &mut buffer)?;
        } else {
            buffer.push_text(part)?;
        }
    }
    buffer.into_marked(heap, markup)
}

/// `a == b`.
pub(super) fn equal(heap: &Heap, a: &Object, b: &Object) -> Result<bool> {
    heap.step(1)?;
    if let (Some(a), Some(b)) = (Number::of(a), Number::of(b)) {
        return Ok(match (a, b) {
            (Number::Int(a), Number::Int(b)) => a == b,
            _ => a.float() == b.float(),
        });
    }
    Ok(match (a, b) {
        (Object::Undefined, Object::Undefined) | (Object::None, Object::None) => true,
        (Object::Text(a), Object::Text(b)) => {
            heap.work(a.len().min(b.len()))?;
            a.text == b.text
        }
        (Object::List(a), Object::List(b)) => {
            if Rc::ptr_eq(a, b) {
                return Ok(true);
            }
            let comparable = a.kind == b.kind && a.kind != Kind::Generator;
            if !comparable || a.items.len() != b.items.len() {
                return Ok(false);
            }
            for (a, b) in a.items.iter().zip(&b.items) {
                if !equal(heap, a, b)? {
                    return Ok(false);
                }
            }
            true
        }
        (Object::Map(a), Object::Map(b)) => {
            if Rc::ptr_eq(a, b) {
                return Ok(true);
            }
            if a.entries.len() != b.entries.len() {
                return Ok(false);
            }
            for (key, value) in &a.entries {
                match entry(heap, &b.entries, key)? {
                    Some(other) if equal(heap, value, other)? => {}
                    _ => return Ok(false),
                }
            }
            true
        }
        (Object::Namespace(a), Object::Namespace(b)) => Rc::ptr_eq(a, b),
        (Object::Loop(a), Object::Loop(b)) => Rc::ptr_eq(a, b),
        (Object::Function(a), Object::Function(b)) => a == b,
        (Object::Macro { index: a, scope: first }, Object::Macro { index: b, scope: second }) => {
            (a, first) == (b, second)
        }
        _ => false,
    })
}

/// The value under a key.
pub(super) fn entry<'o>(
    heap: &Heap,
    entries: &'o [(Object, Object)],
    key: &Object,
) -> Result<Option<&'o Object>> {
    for (found, value) in entries {
        if equal(heap, found, key)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Puts a value under a key, in the place of the one that is there.
pub(super) fn insert(
    heap: &Heap,
    entries: &mut Vec<(Object, Object)>,
    key: Object,
    value: Object,
) -> Result<()> {
    if matches!(&key, Object::Map(_))
        || matches!(&key, Object::List(list) if list.kind != Kind::Tuple)
    {
        return Err(Error::render(format!("{} cannot be the key of a map", key.name())));
    }
    for (found, old) in entries.iter_mut() {
        if equal(heap, found, &key)? {
            *old = value;
            return Ok(());
        }
    }
    entries.push((key, value));
    Ok(())
}

/// Which of two values is less.
pub(super) fn order(heap: &Heap, a: &Object, b: &Object) -> Result<Option<Ordering>> {
    heap.step(1)?;
    if let (Some(a), Some(b)) = (Number::of(a), Number::of(b)) {
        return Ok(match (a, b) {
            (Number::Int(a), Number::Int(b)) => Some(a.cmp(&b)),
            _ => a.float().partial_cmp(&b.float()),
        });
    }
    match (a, b) {
        (Object::Text(a), Object::Text(b)) => {
            heap.work(a.len().min(b.len()))?;
            // The order of UTF-8 is that of the code points, by which Python compares.
            Ok(Some(a.text.cmp(&b.text)))
        }
        (Object::List(a), Object::List(b))
            if a.kind == b.kind && matches!(a.kind, Kind::List | Kind::Tuple) =>
        {
            for (a, b) in a.items.iter().zip(&b.items) {
                if !equal(heap, a, b)? {
                    return order(heap, a, b);
                }
            }
            Ok(Some(a.items.len().cmp(&b.items.len())))
        }
        _ => Err(Error::render(format!("{} and {} have no order", a.name(), b.name()))),
    }
}

/// Elements in the order of their keys; equal ones stay as they are. The standard library's sort may panic where
/// values have no total order, and cannot stop at an error: this is a merge sort that can.
pub(super) fn sorted<T>(heap: &Heap, items: Vec<T>, key: impl Fn(&T) -> &Object) -> Result<Vec<T>> {
    let mut places: Vec<usize> = (0..items.len()).collect();
    let mut width = 1;
    while width < places.len() {
        let mut merged = Vec::with_capacity(places.len());
        for pair in places.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let (Some(&a), Some(&b)) = (left.first(), right.first()) {
                if order(heap, key(&items[b]), key(&items[a]))? == Some(Ordering::Less) {
                    merged.push(b);
                    right = &right[1..];
                } else {
                    merged.push(a);
                    left = &left[1..];
                }
            }
            merged.extend(left.iter().chain(right));
        }
        places = merged;
        width *= 2;
    }
    let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
    Ok(places.into_iter().filter_map(|place| items[place].take()).collect())
}

/// `item in container`.
pub(super) fn contains(heap: &Heap, container: &Object, item: &Object) -> Result<bool> {
    match (container, item) {
        (Object::Text(text), Object::Text(part)) => {
            heap.work(text.len() + part.len())?;
            Ok(text.contains(&*part.text))
        }
        (Object::Text(_), item) => {
            Err(Error::render(format!("a string cannot contain {}", item.name())))
        }
        (Object::Map(map), key) => Ok(entry(heap, &map.entries, key)?.is_some()),
        (container, item) => {
            for element in &container.elements(heap)?.items {
                if equal(heap, element, item)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
    }
}
