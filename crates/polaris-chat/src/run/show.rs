//! Values as text, as Python's `str` and `repr` write them.

use super::heap::{Buffer, Heap};
use super::numbers::float_text;
use super::object::{Kind, Object};
use crate::error::Result;

/// Writes a value as `str` does: text as it is.
pub(super) fn write(value: &Object, heap: &Heap, buffer: &mut Buffer) -> Result<()> {
    match value {
        Object::Undefined => Ok(()),
        Object::Text(text) => {
            heap.work(text.len())?;
            buffer.push_text(text)
        }
        value => write_repr(value, heap, buffer),
    }
}

/// The text of a value, for what does not reach the output.
pub(super) fn to_text(value: &Object, heap: &Heap) -> Result<String> {
    let mut buffer = heap.buffer();
    write(value, heap, &mut buffer)?;
    Ok(buffer.finish().0)
}

/// Writes a value as `repr` does: text in quotes.
pub(super) fn write_repr(value: &Object, heap: &Heap, buffer: &mut Buffer) -> Result<()> {
    heap.step(1)?;
    match value {
        Object::Undefined => buffer.push_str("Undefined"),
        Object::None => buffer.push_str("None"),
        Object::Bool(true) => buffer.push_str("True"),
        Object::Bool(false) => buffer.push_str("False"),
        Object::Int(value) => buffer.push_str(&value.to_string()),
        Object::Float(value) => buffer.push_str(&float_text(*value)),
        Object::Text(text) => {
            heap.work(text.len())?;
            let start = buffer.len();
            quoted(text, buffer)?;
            if text.has_content() { buffer.mark(start) } else { Ok(()) }
        }
        Object::List(list) => {
            let (open, close) = match list.kind {
                Kind::List => ("[", "]"),
                Kind::Tuple if list.items.len() == 1 => ("(", ",)"),
                Kind::Tuple => ("(", ")"),
                Kind::View => ("dict_view([", "])"),
                Kind::Generator => return buffer.push_str("<generator>"),
            };
            buffer.push_str(open)?;
            for (place, item) in list.items.iter().enumerate() {
                buffer.push_str(if place > 0 { ", " } else { "" })?;
                write_repr(item, heap, buffer)?;
            }
            buffer.push_str(close)
        }
        Object::Map(map) => {
            buffer.push_str("{")?;
            for (place, (key, value)) in map.entries.iter().enumerate() {
                buffer.push_str(if place > 0 { ", " } else { "" })?;
                write_repr(key, heap, buffer)?;
                buffer.push_str(": ")?;
                write_repr(value, heap, buffer)?;
            }
            buffer.push_str("}")
        }
        Object::Namespace(_) => buffer.push_str("<namespace>"),
        Object::Macro { .. } => buffer.push_str("<macro>"),
        Object::Loop(_) => buffer.push_str("<loop>"),
        Object::Function(_) | Object::Method(_) => buffer.push_str("<function>"),
    }
}

fn quoted(text: &str, buffer: &mut Buffer) -> Result<()> {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    buffer.push(quote)?;
    for character in text.chars() {
        match character {
            '\n' => buffer.push_str("\\n")?,
            '\r' => buffer.push_str("\\r")?,
            '\t' => buffer.push_str("\\t")?,
            '\\' => buffer.push_str("\\\\")?,
            _ if character == quote => {
                buffer.push('\\')?;
                buffer.push(quote)?;
            }
            _ if is_printable(character) => buffer.push(character)?,
            _ => {
                let code = u32::from(character);
                buffer.push_str(&match code {
                    0..=0xff => format!("\\x{code:02x}"),
                    0x100..=0xffff => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                })?;
            }
        }
    }
    buffer.push(quote)
}

/// Python escapes what Unicode counts as control, format, private or as a space other than U+0020. The private and
/// unassigned characters beyond the first plane are not listed here.
fn is_printable(character: char) -> bool {
    let format = matches!(
        u32::from(character),
        0xad | 0x61c | 0x180e | 0x200b..=0x200f | 0x202a..=0x202e | 0x2060..=0x206f
            | 0xe000..=0xf8ff | 0xfeff | 0xfff9..=0xfffb
    );
    character == ' ' || !(format || character.is_control() || character.is_whitespace())
}
