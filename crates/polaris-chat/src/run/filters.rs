//! Filters of single values. Those of sequences are in `sequences`.

use std::rc::Rc;

use super::arguments::{Arguments, integer, size, text};
use super::heap::{Buffer, Heap};
use super::interpreter::Interpreter;
use super::numbers::Number;
use super::object::{Kind, Object, Text};
use super::{access, format, is_space, json, methods, operators, show, strings};
use crate::error::{Error, Result, shown};

/// All filters, for `is filter`.
pub(super) const NAMES: &[&str] = &[
    "abs",
    "attr",
    "capitalize",
    "count",
    "d",
    "default",
    "dictsort",
    "e",
    "escape",
    "first",
    "float",
    "format",
    "indent",
    "int",
    "items",
    "join",
    "last",
    "length",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "safe",
    "select",
    "selectattr",
    "sort",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "wordcount",
];

impl Interpreter<'_> {
    pub(super) fn filter(
        &mut self,
        name: &str,
        value: Object,
        arguments: Arguments,
    ) -> Result<Object> {
        let heap = &self.heap;
        heap.pass(&value)?;
        match name {
            "default" | "d" => {
                let [default, falsy] = arguments.take(["default_value", "boolean"])?;
                let falsy = falsy.is_some_and(|falsy| falsy.truth());
                if value.is_undefined() || falsy && !value.truth() {
                    return default.map_or_else(|| heap.text(""), Ok);
                }
                Ok(value)
            }
            "tojson" => json::tojson(heap, &value, arguments),
            "length" | "count" => {
                arguments.none()?;
                Ok(Object::Int(value.length(heap)? as i128))
            }
            "string" => {
                arguments.none()?;
                as_text(heap, &value).map(Object::Text)
            }
            "safe" => {
                arguments.none()?;
                let mut buffer = heap.buffer();
                show::write(&value, heap, &mut buffer)?;
                buffer.into_marked(heap, true)
            }
            "escape" | "e" => {
                arguments.none()?;
                if matches!(&value, Object::Text(text) if text.markup) {
                    return Ok(value);
                }
                let (mut buffer, text) = (heap.buffer(), as_text(heap, &value)?);
                escape_into(&text, &mut buffer)?;
                buffer.into_marked(heap, true)
            }
            "upper" | "lower" | "capitalize" => {
                let text = Object::Text(as_text(heap, &value)?);
                let method = NAMES.iter().find(|known| **known == name).copied().unwrap_or("upper");
                methods::call(heap, &text, method, arguments)
            }
            "trim" => {
                let text = Object::Text(as_text(heap, &value)?);
                let [characters] = arguments.take(["chars"])?;
                let positional = Vec::from_iter(characters);
                methods::call(heap, &text, "strip", Arguments { positional, named: Vec::new() })
            }
            "replace" => {
                let [old, new, count] = arguments.take(["old", "new", "count"])?;
                let subject = as_text(heap, &value)?;
                let part = |value: Option<Object>| match value {
                    Some(value) => as_text(heap, &value),
                    None => Err(Error::render("`replace` needs a text and its replacement")),
                };
                let count = count.filter(|count| !matches!(count, Object::None));
                let count = integer(&count, "count", -1)?;
                let (old, new) = (part(old)?, part(new)?);
                strings::replace(heap, &subject, &old, &new, count)
            }
            "title" => {
                arguments.none()?;
                let text = as_text(heap, &value)?;
                title(heap, &text)
            }
            "indent" => indent(heap, &value, arguments),
            "format" => {
                let pattern = as_text(heap, &value)?;
                if !arguments.named.is_empty() {
                    return Err(Error::render("`format` accepts no named arguments"));
                }
                format::percent(heap, &pattern, &arguments.positional)
            }
            "abs" => {
                arguments.none()?;
                match Number::of(&value) {
                    Some(Number::Int(number)) => Ok(Object::Int(number.saturating_abs())),
                    Some(Number::Float(number)) => Ok(Object::Float(number.abs())),
                    None => Err(Error::render(format!("{} has no absolute value", value.name()))),
                }
            }
            "int" => to_int(&value, arguments),
            "float" => to_float(&value, arguments),
            "round" => round(&value, arguments),
            "wordcount" => {
                arguments.none()?;
                let text = show::to_text(&value, heap)?;
                let words = text.split(|c: char| c != '_' && !c.is_alphanumeric());
                Ok(Object::Int(words.filter(|word| !word.is_empty()).count() as i128))
            }
            "attr" => {
                let [name] = arguments.take(["name"])?;
                match &value {
                    Object::Map(_) => Ok(Object::Undefined),
                    value => access::attribute(heap, value, text(&name, "name")?),
                }
            }
            "items" => {
                arguments.none()?;
                match &value {
                    Object::Undefined => heap.sequence(Vec::new(), Kind::Generator),
                    Object::Map(_) => {
                        let items = methods::pairs(heap, &value)?;
                        heap.sequence(items, Kind::Generator)
                    }
                    other => Err(Error::render(format!("{} has no items", other.name()))),
                }
            }
            _ if NAMES.contains(&name) => self.sequence_filter(name, value, arguments),
            _ => Err(Error::render(format!("there is no filter `{}`", shown(name)))),
        }
    }
}

/// The value as text; text stays as it is.
pub(super) fn as_text(heap: &Heap, value: &Object) -> Result<Rc<Text>> {
    if let Object::Text(text) = value {
        return Ok(text.clone());
    }
    let mut buffer = heap.buffer();
    show::write(value, heap, &mut buffer)?;
    match buffer.into_object(heap)? {
        Object::Text(text) => Ok(text),
        _ => unreachable!("the text of a buffer should be text"),
    }
}

/// Writes text with the characters of HTML escaped.
pub(super) fn escape_into(text: &Text, buffer: &mut Buffer) -> Result<()> {
    for (at, character) in text.char_indices() {
        match character {
            '&' => buffer.push_str("&amp;")?,
            '<' => buffer.push_str("&lt;")?,
            '>' => buffer.push_str("&gt;")?,
            '\'' => buffer.push_str("&#39;")?,
            '"' => buffer.push_str("&#34;")?,
            other => buffer.push_part(&text[at..at + other.len_utf8()], text)?,
        }
    }
    Ok(())
}

/// Upper case after whitespace, dashes and opening brackets, lower case elsewhere.
fn title(heap: &Heap, text: &Text) -> Result<Object> {
    let mut buffer = heap.buffer();
    let mut starts = true;
    for character in text.chars() {
        let separator = is_space(character) || "-({[<".contains(character);
        if starts && !separator {
            character.to_uppercase().try_for_each(|c| buffer.push(c))?;
        } else {
            character.to_lowercase().try_for_each(|c| buffer.push(c))?;
        }
        starts = separator;
    }
    if text.has_content() {
        buffer.mark(0)?;
    }
    buffer.into_object(heap)
}

fn indent(heap: &Heap, value: &Object, arguments: Arguments) -> Result<Object> {
    let [width, first, blank] = arguments.take(["width", "first", "blank"])?;
    let mut indentation = heap.buffer();
    match &width {
        Some(Object::Text(text)) => indentation.push_text(text)?,
        width => indentation.fill(' ', size(integer(width, "width", 4)?))?,
    }
    let truth = |value: Option<Object>| value.is_some_and(|value| value.truth());
    let (first, blank) = (truth(first), truth(blank));
    let Object::Text(text) = value else {
        return Err(Error::render(format!("`indent` indents strings, not {}", value.name())));
    };
    let Object::Text(indentation) = indentation.into_object(heap)? else {
        unreachable!("the text of a buffer should be text")
    };
    heap.room(text.len())?;
    // The last line counts as one even where nothing is in it.
    let ended = text.text.to_string() + "\n";
    let mut buffer = heap.buffer();
    let mut at = 0;
    for (place, whole) in strings::lines(&ended).enumerate() {
        let line = strings::without_end(whole);
        let line = &text[at..at + line.len()];
        at += whole.len();
        if place > 0 {
            buffer.push('\n')?;
        }
        if (place == 0 && first) || (place > 0 && (blank || !line.is_empty())) {
            heap.work(indentation.len())?;
            buffer.push_text(&indentation)?;
        }
        buffer.push_part(line, text)?;
    }
    buffer.into_object(heap)
}

fn to_int(value: &Object, arguments: Arguments) -> Result<Object> {
    let [default, base] = arguments.take(["default", "base"])?;
    let base = integer(&base, "base", 10)?;
    let number = match value {
        Object::Undefined => return Err(Error::render("an undefined value is no integer")),
        Object::Text(text) => {
            let digits = text.trim_matches(is_space).replace('_', "");
            let radix = u32::try_from(base).ok().filter(|base| (2..=36).contains(base));
            let whole = radix.and_then(|radix| i128::from_str_radix(&digits, radix).ok());
            whole.or_else(|| digits.parse().ok().and_then(truncated))
        }
        value => match Number::of(value) {
            Some(Number::Int(number)) => Some(number),
            Some(Number::Float(number)) => truncated(number),
            None => None,
        },
    };
    Ok(number.map_or_else(|| default.unwrap_or(Object::Int(0)), Object::Int))
}

fn truncated(number: f64) -> Option<i128> {
    // Beyond 2^126 a float would be cut off without notice.
    (number.abs() < 2f64.powi(126)).then_some(number as i128)
}

fn to_float(value: &Object, arguments: Arguments) -> Result<Object> {
    let [default] = arguments.take(["default"])?;
    let number = match value {
        Object::Undefined => return Err(Error::render("an undefined value is no float")),
        Object::Text(text) => text.trim_matches(is_space).replace('_', "").parse().ok(),
        value => Number::of(value).map(Number::float),
    };
    Ok(number.map_or_else(|| default.unwrap_or(Object::Float(0.0)), Object::Float))
}

fn round(value: &Object, arguments: Arguments) -> Result<Object> {
    let [precision, method] = arguments.take(["precision", "method"])?;
    let precision = integer(&precision, "precision", 0)?;
    let method = if method.is_some() { text(&method, "method")? } else { "common" };
    let number = match Number::of(value) {
        Some(number @ Number::Int(_)) if method == "common" && precision >= 0 => {
            return Ok(number.object());
        }
        Some(number) => number.float(),
        None => return Err(Error::render(format!("{} cannot be rounded", value.name()))),
    };
    // A double has no more digits than these.
    let precision = precision.clamp(-308, 308) as i32;
    let scale = 10f64.powi(precision);
    Ok(Object::Float(match method {
        "ceil" => (number * scale).ceil() / scale,
        "floor" => (number * scale).floor() / scale,
        // The digits of the exact value decide, and a tie goes to the even one, as in Python.
        "common" if precision >= 0 => {
            format!("{number:.*}", precision as usize).parse().unwrap_or(number)
        }
        "common" => (number * scale).round_ties_even() / scale,
        _ => return Err(Error::render("`round` knows the methods common, ceil and floor")),
    }))
}

/// The value by which another one is sorted or found: text in lower case, unless case counts.
pub(super) fn folded(heap: &Heap, value: &Object, case_sensitive: bool) -> Result<Object> {
    match value {
        Object::Text(text) if !case_sensitive => {
            heap.work(text.len())?;
            heap.text(text.to_lowercase())
        }
        value => Ok(value.clone()),
    }
}

/// The sum of numbers.
pub(super) fn add(heap: &Heap, a: &Object, b: &Object) -> Result<Object> {
    operators::compute(heap, a, crate::syntax::ast::Operator::Add, b)
}
