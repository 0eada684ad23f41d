//! `tojson` as Hugging Face Transformers defines it: Python's `json.dumps`, with characters beyond ASCII as they are.

use super::arguments::Arguments;
use super::heap::{Buffer, Heap, Limits, Origin};
use super::numbers::float_text;
use super::object::{Kind, Object, Text};
use super::operators;
use crate::error::{Error, Result};
use crate::value::Value;

/// How the JSON is written.
struct Style {
    ascii: bool,
    /// What stands for one level of indentation; without it everything is on one line.
    indent: Option<String>,
    between: String,
    after_key: String,
    sorted: bool,
}

/// A value of a conversation as JSON, as `tojson` writes it without arguments.
pub(crate) fn text(value: &Value) -> Result<String> {
    // Every character may become an escape of six bytes.
    let bytes = value.size().saturating_mul(16);
    let heap = Heap::new(Limits { steps: bytes as u64, memory: bytes, output: bytes });
    let style = Style {
        ascii: false,
        indent: None,
        between: ", ".to_owned(),
        after_key: ": ".to_owned(),
        sorted: false,
    };
    let mut buffer = heap.buffer();
    write(&heap.import(value, 0, Origin::Template)?, &heap, &style, 0, &mut buffer)?;
    Ok(buffer.finish().0)
}

/// The filter.
pub(super) fn tojson(heap: &Heap, value: &Object, arguments: Arguments) -> Result<Object> {
    let [ascii, indent, separators, sorted] =
        arguments.take(["ensure_ascii", "indent", "separators", "sort_keys"])?;
    let indent = match indent {
        None | Some(Object::None) => None,
        Some(Object::Text(text)) => Some(text.text.to_string()),
        Some(Object::Int(count)) => {
            // More than any line is wide: it could only be meant to fill the memory.
            const WIDEST: i128 = 100;
            if count > WIDEST {
                return Err(Error::limit("the indentation of tojson", WIDEST as u64));
            }
            Some(" ".repeat(count.max(0) as usize))
        }
        Some(other) => {
            return Err(Error::render(format!(
                "the indentation of tojson is {}; an integer or a string is accepted",
                other.name()
            )));
        }
    };
    let (mut between, mut after_key) =
        (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned());
    match &separators {
        None | Some(Object::None) => {}
        Some(Object::List(list)) => match list.items.as_slice() {
            [Object::Text(first), Object::Text(second)] => {
                (between, after_key) = (first.text.to_string(), second.text.to_string());
            }
            _ => return Err(Error::render("the separators of tojson are not two strings")),
        },
        Some(_) => return Err(Error::render("the separators of tojson are not two strings")),
    }
    let truth = |value: Option<Object>| value.is_some_and(|value| value.truth());
    let style = Style { ascii: truth(ascii), indent, between, after_key, sorted: truth(sorted) };
    let mut buffer = heap.buffer();
    write(value, heap, &style, 0, &mut buffer)?;
    buffer.into_object(heap)
}

fn write(
    value: &Object,
    heap: &Heap,
    style: &Style,
    depth: usize,
    buffer: &mut Buffer,
) -> Result<()> {
    heap.step(1)?;
    match value {
        Object::None => buffer.push_str("null"),
        Object::Bool(value) => buffer.push_str(if *value { "true" } else { "false" }),
        Object::Int(value) => buffer.push_str(&value.to_string()),
        Object::Float(value) => buffer.push_str(&float(*value)),
        Object::Text(text) => string(text, heap, style, buffer),
        Object::List(list) if matches!(list.kind, Kind::List | Kind::Tuple) => {
            if list.items.is_empty() {
                return buffer.push_str("[]");
            }
            buffer.push_str("[")?;
            for (place, item) in list.items.iter().enumerate() {
                separate(place, style, depth + 1, buffer)?;
                write(item, heap, style, depth + 1, buffer)?;
            }
            end_line(style, depth, buffer)?;
            buffer.push_str("]")
        }
        Object::Map(map) => {
            if map.entries.is_empty() {
                return buffer.push_str("{}");
            }
            buffer.push_str("{")?;
            let mut entries: Vec<_> = map.entries.iter().collect();
            if style.sorted {
                entries = operators::sorted(heap, entries, |entry| &entry.0)?;
            }
            for (place, (key, value)) in entries.into_iter().enumerate() {
                separate(place, style, depth + 1, buffer)?;
                match key {
                    Object::Text(text) => string(text, heap, style, buffer)?,
                    Object::Int(_) | Object::Float(_) | Object::Bool(_) | Object::None => {
                        buffer.push_str("\"")?;
                        write(key, heap, style, depth, buffer)?;
                        buffer.push_str("\"")?;
                    }
                    key => {
                        return Err(Error::render(format!("{} is no key of JSON", key.name())));
                    }
                }
                buffer.push_str(&style.after_key)?;
                write(value, heap, style, depth + 1, buffer)?;
            }
            end_line(style, depth, buffer)?;
            buffer.push_str("}")
        }
        other => Err(Error::render(format!("{} cannot be written as JSON", other.name()))),
    }
}

fn separate(place: usize, style: &Style, depth: usize, buffer: &mut Buffer) -> Result<()> {
    if place > 0 {
        buffer.push_str(&style.between)?;
    }
    end_line(style, depth, buffer)
}

fn end_line(style: &Style, depth: usize, buffer: &mut Buffer) -> Result<()> {
    let Some(indent) = &style.indent else { return Ok(()) };
    buffer.push_str("\n")?;
    (0..depth).try_for_each(|_| buffer.push_str(indent))
}

fn float(value: f64) -> String {
    match float_text(value).as_str() {
        "nan" => "NaN".to_owned(),
        "inf" => "Infinity".to_owned(),
        "-inf" => "-Infinity".to_owned(),
        finite => finite.to_owned(),
    }
}

fn string(text: &Text, heap: &Heap, style: &Style, buffer: &mut Buffer) -> Result<()> {
    heap.work(text.len())?;
    let start = buffer.len();
    buffer.push_str("\"")?;
    let is_plain = |c: char| c >= ' ' && c != '"' && c != '\\' && (!style.ascii || c.is_ascii());
    let mut rest: &str = text;
    while let Some(at) = rest.find(|c| !is_plain(c)) {
        buffer.push_str(&rest[..at])?;
        let mut characters = rest[at..].chars();
        match characters.next() {
            Some('"') => buffer.push_str("\\\"")?,
            Some('\\') => buffer.push_str("\\\\")?,
            Some('\n') => buffer.push_str("\\n")?,
            Some('\r') => buffer.push_str("\\r")?,
            Some('\t') => buffer.push_str("\\t")?,
            Some('\x08') => buffer.push_str("\\b")?,
            Some('\x0c') => buffer.push_str("\\f")?,
            other => {
                for unit in other.unwrap_or_default().encode_utf16(&mut [0; 2]) {
                    buffer.push_str(&format!("\\u{unit:04x}"))?;
                }
            }
        }
        rest = characters.as_str();
    }
    buffer.push_str(rest)?;
    buffer.push_str("\"")?;
    if text.has_content() { buffer.mark(start) } else { Ok(()) }
}
