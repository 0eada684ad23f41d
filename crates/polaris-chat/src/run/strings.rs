//! Methods of strings, as in Python.

use super::arguments::{Arguments, integer, size, text, text_object};
use super::format;
use super::heap::Heap;
use super::is_space;
use super::object::{Kind, Object, Text};
use crate::error::{Error, Result};

/// Calls a method of a string.
pub(super) fn call(
    heap: &Heap,
    subject: &Text,
    name: &str,
    arguments: Arguments,
) -> Result<Object> {
    let made = |text: &str| heap.part(text, subject);
    let place = |found: Option<usize>| match found {
        Some(bytes) => Ok(Object::Int(subject[..bytes].chars().count() as i128)),
        None if name.ends_with("index") => Err(Error::render(format!("`{name}` finds nothing"))),
        None => Ok(Object::Int(-1)),
    };
    match name {
        "strip" | "lstrip" | "rstrip" => {
            let [characters] = arguments.take(["chars"])?;
            let characters = match &characters {
                None | Some(Object::None) => None,
                given => Some(text(given, "chars")?),
            };
            if let Some(characters) = characters {
                heap.step((subject.len() / 64).saturating_mul(characters.len()))?;
            }
            let strip = |c: char| characters.map_or_else(|| is_space(c), |set| set.contains(c));
            let start =
                if name == "rstrip" { &**subject } else { subject.trim_start_matches(strip) };
            made(if name == "lstrip" { start } else { start.trim_end_matches(strip) })
        }
        "split" | "rsplit" => split(heap, subject, name == "rsplit", arguments),
        "splitlines" => {
            let [keep] = arguments.take(["keepends"])?;
            let keep = keep.is_some_and(|keep| keep.truth());
            let lines =
                lines(subject).map(|line| made(if keep { line } else { without_end(line) }));
            heap.list(lines.collect::<Result<_>>()?)
        }
        "partition" | "rpartition" => {
            let [separator] = arguments.take(["sep"])?;
            let separator = text(&separator, "sep")?;
            if separator.is_empty() {
                return Err(Error::render("the separator is empty"));
            }
            let first = name == "partition";
            let found = if first { subject.find(separator) } else { subject.rfind(separator) };
            let parts = match found {
                Some(at) => {
                    let end = at + separator.len();
                    [&subject[..at], &subject[at..end], &subject[end..]]
                }
                None if first => [subject, "", ""],
                None => ["", "", subject],
            };
            heap.sequence(parts.map(made).into_iter().collect::<Result<_>>()?, Kind::Tuple)
        }
        "startswith" | "endswith" => {
            let [affix] = arguments.take(["prefix"])?;
            let fits = |affix: &str| {
                if name == "startswith" {
                    subject.starts_with(affix)
                } else {
                    subject.ends_with(affix)
                }
            };
            if let Some(Object::List(list)) = &affix
                && list.kind == Kind::Tuple
            {
                heap.step(list.items.len())?;
                let mut any = false;
                for item in &list.items {
                    any |= fits(text(&Some(item.clone()), "prefix")?);
                }
                return Ok(Object::Bool(any));
            }
            Ok(Object::Bool(fits(text(&affix, "prefix")?)))
        }
        "removeprefix" | "removesuffix" => {
            let [affix] = arguments.take(["prefix"])?;
            let affix = text(&affix, "prefix")?;
            let rest = if name == "removeprefix" {
                subject.strip_prefix(affix)
            } else {
                subject.strip_suffix(affix)
            };
            made(rest.unwrap_or(subject))
        }
        "replace" => {
            let [old, new, count] = arguments.take(["old", "new", "count"])?;
            let count = integer(&count, "count", -1)?;
            replace(heap, subject, text(&old, "old")?, text_object(&new, "new")?, count)
        }
        "find" | "index" => {
            let [part] = arguments.take(["sub"])?;
            place(subject.find(text(&part, "sub")?))
        }
        "rfind" | "rindex" => {
            let [part] = arguments.take(["sub"])?;
            place(subject.rfind(text(&part, "sub")?))
        }
        "count" => {
            let [part] = arguments.take(["sub"])?;
            Ok(Object::Int(subject.matches(text(&part, "sub")?).count() as i128))
        }
        "join" => {
            let [items] = arguments.take(["iterable"])?;
            let items = items.ok_or_else(|| Error::render("`join` needs a list"))?;
            let mut buffer = heap.buffer();
            for (place, item) in items.elements(heap)?.items.iter().enumerate() {
                heap.work(64 + subject.len())?;
                if place > 0 {
                    buffer.push_text(subject)?;
                }
                let Object::Text(item) = item else {
                    return Err(Error::render(format!(
                        "`join` joins strings, not {}",
                        item.name()
                    )));
                };
                buffer.push_text(item)?;
            }
            buffer.into_object(heap)
        }
        "format" => format::braces(heap, subject, &arguments),
        "center" | "ljust" | "rjust" => {
            let [width, fill] = arguments.take(["width", "fillchar"])?;
            let fill = match &fill {
                None => ' ',
                given => {
                    let mut characters = text(given, "fillchar")?.chars();
                    match (characters.next(), characters.next()) {
                        (Some(fill), None) => fill,
                        _ => return Err(Error::render("`fillchar` is not one character")),
                    }
                }
            };
            let width = size(integer(&width, "width", 0)?);
            let missing = width.saturating_sub(subject.chars().count());
            let left = match name {
                "ljust" => 0,
                "rjust" => missing,
                // An odd remainder goes where Python puts it.
                _ => missing / 2 + (missing & width & 1),
            };
            let mut buffer = heap.buffer();
            buffer.fill(fill, left)?;
            buffer.push_text(subject)?;
            buffer.fill(fill, missing - left)?;
            buffer.into_object(heap)
        }
        "zfill" => {
            let [width] = arguments.take(["width"])?;
            let width = size(integer(&width, "width", 0)?);
            let (sign, digits) = subject.split_at(usize::from(subject.starts_with(['+', '-'])));
            let mut buffer = heap.buffer();
            buffer.push_part(sign, subject)?;
            buffer.fill('0', width.saturating_sub(subject.chars().count()))?;
            buffer.push_part(digits, subject)?;
            buffer.into_object(heap)
        }
        _ => {
            arguments.none()?;
            heap.room(subject.len().saturating_mul(3))?;
            cased(heap, subject, name)
        }
    }
}

/// The methods without arguments.
fn cased(heap: &Heap, subject: &Text, name: &str) -> Result<Object> {
    let all =
        |test: fn(char) -> bool| Ok(Object::Bool(!subject.is_empty() && subject.chars().all(test)));
    let case = |wrong: fn(char) -> bool| {
        let cased = subject.chars().any(|c| c.is_lowercase() || c.is_uppercase());
        Ok(Object::Bool(cased && !subject.chars().any(wrong)))
    };
    match name {
        "upper" => heap.derived(subject.to_uppercase(), subject),
        "lower" | "casefold" => heap.derived(subject.to_lowercase(), subject),
        "capitalize" => {
            let mut characters = subject.chars();
            let first: String =
                characters.next().into_iter().flat_map(char::to_uppercase).collect();
            heap.derived(first + &characters.as_str().to_lowercase(), subject)
        }
        "title" => {
            let mut titled = String::with_capacity(subject.len());
            let mut inside = false;
            for character in subject.chars() {
                if inside {
                    titled.extend(character.to_lowercase());
                } else {
                    titled.extend(character.to_uppercase());
                }
                inside = character.is_lowercase() || character.is_uppercase();
            }
            heap.derived(titled, subject)
        }
        "isalnum" => all(char::is_alphanumeric),
        "isalpha" => all(char::is_alphabetic),
        "isascii" => Ok(Object::Bool(subject.is_ascii())),
        "isdecimal" | "isdigit" => all(|c| c.is_ascii_digit() || (!c.is_ascii() && c.is_numeric())),
        "isnumeric" => all(char::is_numeric),
        "isspace" => all(is_space),
        "islower" => case(char::is_uppercase),
        "isupper" => case(char::is_lowercase),
        _ => Err(Error::render(format!("a string has no method `{name}`"))),
    }
}

/// `str.replace`; a negative count replaces all.
pub(super) fn replace(
    heap: &Heap,
    subject: &Text,
    old: &str,
    new: &Text,
    count: i128,
) -> Result<Object> {
    heap.work(subject.len())?;
    let count = if count < 0 { usize::MAX } else { size(count) };
    let mut buffer = heap.buffer();
    let mut end = 0;
    for (at, part) in subject.match_indices(old).take(count) {
        heap.work(16 + new.len())?;
        buffer.push_part(&subject[end..at], subject)?;
        buffer.push_text(new)?;
        end = at + part.len();
    }
    buffer.push_part(&subject[end..], subject)?;
    buffer.into_object(heap)
}

fn split<'s>(
    heap: &Heap,
    subject: &'s Text,
    backwards: bool,
    arguments: Arguments,
) -> Result<Object> {
    let [separator, most] = arguments.take(["sep", "maxsplit"])?;
    let most = integer(&most, "maxsplit", -1)?;
    let most = if most < 0 { usize::MAX } else { size(most) };
    let pieces = most.saturating_add(1);
    let mut parts: Vec<Object> = Vec::new();
    let mut add = |part: &str| {
        parts.push(heap.part(part, subject)?);
        Ok(())
    };
    match &separator {
        None | Some(Object::None) => {
            // What is left after the last split keeps its whitespace at the other end.
            let trim = |rest: &'s str| match backwards {
                true => rest.trim_end_matches(is_space),
                false => rest.trim_start_matches(is_space),
            };
            let mut rest = trim(subject);
            for _ in 0..most {
                let cut = if backwards { rest.rfind(is_space) } else { rest.find(is_space) };
                let Some(cut) = cut else { break };
                let after = rest[cut..].chars().next().map_or(cut, |c| cut + c.len_utf8());
                let (before, after) = (&rest[..cut], &rest[after..]);
                add(if backwards { after } else { before })?;
                rest = trim(if backwards { before } else { after });
            }
            if !rest.is_empty() {
                add(rest)?;
            }
        }
        given => {
            let separator = text(given, "sep")?;
            if separator.is_empty() {
                return Err(Error::render("the separator is empty"));
            }
            if backwards {
                subject.rsplitn(pieces, separator).try_for_each(add)?;
            } else {
                subject.splitn(pieces, separator).try_for_each(add)?;
            }
        }
    }
    if backwards {
        parts.reverse();
    }
    heap.list(parts)
}

/// The lines of a text with their ends, at all line breaks that Python's `splitlines` knows.
pub(super) fn lines(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (at, end) =
            rest.char_indices().find(|(_, c)| is_line_end(*c)).unwrap_or((rest.len(), '\n'));
        let mut length = (at + end.len_utf8()).min(rest.len());
        if rest[at..].starts_with("\r\n") {
            length = at + 2;
        }
        let (line, after) = rest.split_at(length);
        rest = after;
        (!line.is_empty()).then_some(line)
    })
}

/// A line without its end.
pub(super) fn without_end(line: &str) -> &str {
    match line.strip_suffix("\r\n") {
        Some(line) => line,
        None => line.strip_suffix(is_line_end).unwrap_or(line),
    }
}

fn is_line_end(character: char) -> bool {
    matches!(
        character,
        '\n' | '\r' | '\x0b' | '\x0c' | '\x1c'..='\x1e' | '\u{85}' | '\u{2028}' | '\u{2029}'
    )
}
