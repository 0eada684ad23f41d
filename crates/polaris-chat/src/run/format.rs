//! Formatted text: `"{:>8}".format(x)` and `"%5.2f" % x`.

use super::arguments::Arguments;
use super::filters::as_text;
use super::heap::{Buffer, Heap};
use super::numbers::Number;
use super::object::{Object, Text};
use super::show;
use crate::error::{Error, Result, shown};

/// A float has no more digits than these behind its point.
const MOST_DIGITS: usize = 400;

/// How one value is written.
#[derive(Debug)]
struct Spec {
    fill: char,
    /// `<`, `>`, `^` or `=` (between sign and digits); by default text is left and numbers are right.
    align: Option<char>,
    /// `+` or a space in front of numbers that are not negative.
    sign: Option<char>,
    /// `,` or `_` between thousands.
    thousands: Option<char>,
    width: usize,
    precision: Option<usize>,
    kind: char,
}

impl Spec {
    fn plain(kind: char) -> Self {
        Self {
            fill: ' ',
            align: None,
            sign: None,
            thousands: None,
            width: 0,
            precision: None,
            kind,
        }
    }

    /// Python's format specification: `[[fill]align][sign][0][width][,][.precision][type]`.
    fn parse(text: &str) -> Result<Self> {
        let unknown = || Error::render(format!("the format `{}` is not supported", shown(text)));
        let mut spec = Self::plain('\0');
        let mut rest = text;
        let mut characters = text.chars();
        if let (Some(first), second) = (characters.next(), characters.next()) {
            if let Some(align) = second.filter(|c| "<>^=".contains(*c)) {
                (spec.fill, spec.align) = (first, Some(align));
                rest = characters.as_str();
            } else if "<>^=".contains(first) {
                spec.align = Some(first);
                rest = &text[1..];
            }
        }
        if let Some(sign) = rest.chars().next().filter(|c| "+- ".contains(*c)) {
            spec.sign = Some(sign).filter(|c| *c != '-');
            rest = &rest[1..];
        }
        if rest.starts_with('0') && spec.align.is_none() {
            (spec.fill, spec.align) = ('0', Some('='));
        }
        spec.width = number(&mut rest)?.unwrap_or(0);
        if let Some(separator) = rest.chars().next().filter(|c| ",_".contains(*c)) {
            spec.thousands = Some(separator);
            rest = &rest[1..];
        }
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            spec.precision = Some(number(&mut rest)?.ok_or_else(unknown)?);
        }
        let mut characters = rest.chars();
        match (characters.next(), characters.next()) {
            (None, _) => Ok(spec),
            (Some(kind), None) if "sdxXobfFeE%".contains(kind) => Ok(Self { kind, ..spec }),
            _ => Err(unknown()),
        }
    }

    /// Writes a value. In text made with `%`, floats become integers for `%d`.
    fn write(&self, heap: &Heap, value: &Object, buffer: &mut Buffer) -> Result<()> {
        let number = match (self.kind, value) {
            ('s', _) => None,
            ('\0', Object::Bool(_)) => None,
            (_, value) => Number::of(value),
        };
        let Some(number) = number else {
            if !matches!(self.kind, '\0' | 's') {
                let why = format!("`{}` formats numbers, not {}", self.kind, value.name());
                return Err(Error::render(why));
            }
            if self.width == 0 && self.precision.is_none() {
                return show::write(value, heap, buffer);
            }
            let start = buffer.len();
            let mut text = show::to_text(value, heap)?;
            if let Some(precision) = self.precision
                && let Some((end, _)) = text.char_indices().nth(precision)
            {
                text.truncate(end);
            }
            self.pad(heap, "", &text, '<', buffer)?;
            return if value.has_content() { buffer.mark(start) } else { Ok(()) };
        };
        let (negative, digits) = self.digits(number)?;
        let sign =
            if negative { "-".to_owned() } else { self.sign.map(String::from).unwrap_or_default() };
        let digits = self.thousands.map_or_else(|| digits.clone(), |by| grouped(&digits, by));
        self.pad(heap, &sign, &digits, '>', buffer)
    }

    /// Whether the number is negative, and its digits.
    fn digits(&self, number: Number) -> Result<(bool, String)> {
        let precision = self.precision.unwrap_or(6).min(MOST_DIGITS);
        Ok(match (self.kind, number) {
            ('f' | 'F', number) => {
                let value = number.float();
                (value.is_sign_negative(), format!("{:.precision$}", value.abs()))
            }
            ('%', number) => {
                let value = number.float() * 100.0;
                (value.is_sign_negative(), format!("{:.precision$}%", value.abs()))
            }
            ('e' | 'E', number) => {
                let value = number.float();
                let text = format!("{:.precision$e}", value.abs());
                let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
                let exponent: i32 = exponent.parse().unwrap_or(0);
                let sign = if exponent < 0 { '-' } else { '+' };
                let kind = self.kind;
                (value.is_sign_negative(), format!("{digits}{kind}{sign}{:02}", exponent.abs()))
            }
            (kind, Number::Int(value)) => {
                let magnitude = value.unsigned_abs();
                let digits = match kind {
                    'x' => format!("{magnitude:x}"),
                    'X' => format!("{magnitude:X}"),
                    'o' => format!("{magnitude:o}"),
                    'b' => format!("{magnitude:b}"),
                    _ => magnitude.to_string(),
                };
                (value < 0, digits)
            }
            ('\0', Number::Float(value)) if self.precision.is_none() => {
                (value.is_sign_negative(), super::numbers::float_text(value.abs()))
            }
            _ => return Err(Error::render("a float is formatted with `f`, `e` or `%`")),
        })
    }

    fn pad(
        &self,
        heap: &Heap,
        sign: &str,
        text: &str,
        default: char,
        buffer: &mut Buffer,
    ) -> Result<()> {
        let length = |text: &str| if self.width == 0 { 0 } else { text.chars().count() };
        let missing = self.width.saturating_sub(length(sign) + length(text));
        heap.work(missing)?;
        let align = self.align.unwrap_or(default);
        let left = match align {
            '<' => 0,
            '^' => missing / 2,
            _ => missing,
        };
        if align == '=' {
            buffer.push_str(sign)?;
        }
        buffer.fill(self.fill, left)?;
        if align != '=' {
            buffer.push_str(sign)?;
        }
        buffer.push_str(text)?;
        buffer.fill(self.fill, missing - left)
    }
}

/// The number that the text begins with, which is taken off.
fn number(rest: &mut &str) -> Result<Option<usize>> {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    if digits.is_empty() {
        return Ok(None);
    }
    let value = digits.parse();
    value.map(Some).map_err(|_| Error::render(format!("{} is too wide", shown(digits))))
}

/// Digits in groups of three, before the point.
fn grouped(digits: &str, by: char) -> String {
    let whole = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (place, digit) in digits[..whole].chars().enumerate() {
        if place > 0 && (whole - place) % 3 == 0 {
            text.push(by);
        }
        text.push(digit);
    }
    text + &digits[whole..]
}

/// `str.format`. Fields are numbers and names; attributes of them are not looked up.
pub(super) fn braces(heap: &Heap, pattern: &Text, arguments: &Arguments) -> Result<Object> {
    let invalid = |why: &str| Error::render(format!("in the format `{}`: {why}", shown(pattern)));
    let mut buffer = heap.buffer();
    let mut next = 0;
    let mut rest: &str = pattern;
    while let Some(at) = rest.find(['{', '}']) {
        heap.step(1)?;
        buffer.push_part(&rest[..at], pattern)?;
        let brace = &rest[at..at + 1];
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix(brace) {
            buffer.push_part(brace, pattern)?;
            rest = after;
            continue;
        }
        let end = rest.find('}').filter(|_| brace == "{");
        let end = end.ok_or_else(|| invalid("a single brace"))?;
        let field = &rest[..end];
        rest = &rest[end + 1..];
        let (field, spec) = field.split_once(':').unwrap_or((field, ""));
        let (field, conversion) = match field.split_once('!') {
            Some((field, conversion)) => (field, Some(conversion)),
            None => (field, None),
        };
        let value = if field.is_empty() {
            next += 1;
            arguments.positional.get(next - 1)
        } else if let Ok(place) = field.parse::<usize>() {
            arguments.positional.get(place)
        } else {
            arguments.named.iter().find(|(name, _)| name == field).map(|(_, value)| value)
        };
        let value = value.ok_or_else(|| invalid("a field has no argument"))?;
        let spec = Spec::parse(spec)?;
        match conversion {
            None => spec.write(heap, value, &mut buffer)?,
            Some("s") => spec.write(heap, &Object::Text(as_text(heap, value)?), &mut buffer)?,
            Some("r") => spec.write(heap, &repr(heap, value)?, &mut buffer)?,
            Some(_) => return Err(invalid("a conversion other than `!r` and `!s`")),
        }
    }
    buffer.push_part(rest, pattern)?;
    buffer.into_object(heap)
}

fn repr(heap: &Heap, value: &Object) -> Result<Object> {
    let mut buffer = heap.buffer();
    show::write_repr(value, heap, &mut buffer)?;
    buffer.into_object(heap)
}

/// The operator `%` of text, and the filter `format`.
pub(super) fn percent(heap: &Heap, pattern: &Text, values: &[Object]) -> Result<Object> {
    let invalid = |why: &str| Error::render(format!("in the format `{}`: {why}", shown(pattern)));
    let mut buffer = heap.buffer();
    let mut next = values.iter();
    let mut named = false;
    let mut rest: &str = pattern;
    while let Some(at) = rest.find('%') {
        heap.step(1)?;
        buffer.push_part(&rest[..at], pattern)?;
        rest = &rest[at + 1..];
        let name = match rest.strip_prefix('(') {
            None => None,
            Some(after) => {
                let (name, after) = after.split_once(')').ok_or_else(|| invalid("no `)`"))?;
                rest = after;
                named = true;
                Some(name)
            }
        };
        let mut spec = Spec::plain('s');
        spec.align = Some('>');
        while let Some(flag) = rest.chars().next().filter(|c| "-+ 0#".contains(*c)) {
            match flag {
                '-' => (spec.align, spec.fill) = (Some('<'), ' '),
                '0' if spec.align != Some('<') => (spec.align, spec.fill) = (Some('='), '0'),
                '+' | ' ' => spec.sign = Some(flag),
                _ => {}
            }
            rest = &rest[1..];
        }
        spec.width = number(&mut rest)?.unwrap_or(0);
        if let Some(after) = rest.strip_prefix('.') {
            rest = after;
            spec.precision = Some(number(&mut rest)?.unwrap_or(0));
        }
        let kind = rest.chars().next().ok_or_else(|| invalid("it ends within a field"))?;
        rest = &rest[kind.len_utf8()..];
        if kind == '%' {
            buffer.push('%')?;
            continue;
        }
        let value = match name {
            None => next.next().cloned(),
            Some(name) => match values {
                [Object::Map(map)] => map.get(heap, name)?.cloned(),
                _ => None,
            },
        };
        let value = value.ok_or_else(|| invalid("a field has no value"))?;
        let (kind, value) = match (kind, value) {
            ('s', value) => ('s', value),
            ('r', value) => ('s', repr(heap, &value)?),
            ('d' | 'i' | 'u', Object::Float(value)) => ('d', Object::Int(value as i128)),
            ('d' | 'i' | 'u', value) => ('d', value),
            ('x' | 'X' | 'o' | 'f' | 'F' | 'e' | 'E', value) => (kind, value),
            _ => return Err(invalid("a field of an unknown kind")),
        };
        if kind == 's' && spec.fill == '0' {
            (spec.fill, spec.align) = (' ', Some('>'));
        }
        Spec { kind, ..spec }.write(heap, &value, &mut buffer)?;
    }
    buffer.push_part(rest, pattern)?;
    let mapping = matches!(values, [Object::Map(_)]);
    if next.next().is_some() && !named && !mapping {
        return Err(invalid("not all values are used"));
    }
    buffer.into_object(heap)
}
