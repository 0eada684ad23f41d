//! String and number literals, as Python reads them.

use crate::error::{Error, Result, shown};

/// The text of a string literal without its quotes: Python's `unicode-escape`.
pub(super) fn unescape(text: &str, line: u32) -> Result<String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        result.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(escape) = rest.chars().next() else { break };
        rest = &rest[escape.len_utf8()..];
        let code = match escape {
            '\n' => continue,
            '\\' | '\'' | '"' => escape,
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            '0'..='7' => {
                let more = rest.bytes().take(2).take_while(|b| (b'0'..=b'7').contains(b)).count();
                let digits = format!("{escape}{}", &rest[..more]);
                rest = &rest[more..];
                character(u32::from_str_radix(&digits, 8).ok(), &digits, line)?
            }
            'x' | 'u' | 'U' => {
                let count = match escape {
                    'x' => 2,
                    'u' => 4,
                    _ => 8,
                };
                let digits = rest.get(..count).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
                let Some(digits) = digits else {
                    let why = format!("`\\{escape}` in a string needs {count} hexadecimal digits");
                    return Err(Error::syntax(line, why));
                };
                rest = &rest[count..];
                character(u32::from_str_radix(digits, 16).ok(), digits, line)?
            }
            'N' => {
                let why = "`\\N{...}` in a string is not supported; write the character itself";
                return Err(Error::syntax(line, why));
            }
            other => {
                result.push('\\');
                other
            }
        };
        result.push(code);
    }
    result.push_str(rest);
    Ok(result)
}

fn character(code: Option<u32>, digits: &str, line: u32) -> Result<char> {
    code.and_then(char::from_u32).ok_or_else(|| {
        Error::syntax(line, format!("the escape `{digits}` in a string is no character"))
    })
}

/// A number at the start of the text.
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

/// The number that the text begins with and its length in bytes. `after_dot`: as in `a.0.1`, no fraction follows.
pub(super) fn number(text: &str, after_dot: bool, line: u32) -> Result<(Number, usize)> {
    let bytes = text.as_bytes();
    let whole = digits(bytes, 0, |b| b.is_ascii_digit());
    if !after_dot {
        let mut end = whole;
        if bytes.get(end) == Some(&b'.') {
            let fraction = digits(bytes, end + 1, |b| b.is_ascii_digit());
            if fraction > end + 1 {
                end = fraction;
            }
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(bytes, end + 1 + sign, |b| b.is_ascii_digit());
            if exponent > end + 1 + sign {
                end = exponent;
            }
        }
        if end > whole {
            let value = text[..end].replace('_', "").parse();
            let value =
                value.map_err(|_| Error::syntax(line, format!("{} is no number", &text[..end])))?;
            return Ok((Number::Float(value), end));
        }
    }
    let (radix, end) = match bytes.get(..2) {
        Some(b"0x" | b"0X") => (16, digits(bytes, 2, |b| b.is_ascii_hexdigit())),
        Some(b"0o" | b"0O") => (8, digits(bytes, 2, |b| (b'0'..=b'7').contains(&b))),
        Some(b"0b" | b"0B") => (2, digits(bytes, 2, |b| matches!(b, b'0' | b'1'))),
        _ => (10, whole),
    };
    let (radix, start, end) = if radix != 10 && end > 2 { (radix, 2, end) } else { (10, 0, whole) };
    let number = text[start..end].replace('_', "");
    if radix == 10
        && number.len() > 1
        && number.starts_with('0')
        && number.bytes().any(|b| b != b'0')
    {
        return Err(Error::syntax(line, format!("the number {} begins with 0", shown(&number))));
    }
    i128::from_str_radix(&number, radix)
        .map(|value| (Number::Int(value), end))
        .map_err(|_| Error::syntax(line, format!("the number {} is too large", shown(&number))))
}

/// The end of the digits from `start`, which may be separated by single underscores.
fn digits(bytes: &[u8], start: usize, is_digit: impl Fn(u8) -> bool) -> usize {
    let mut end = start;
    while let Some(&byte) = bytes.get(end) {
        let separator = byte == b'_'
            && end > start
            && bytes[end - 1] != b'_'
            && bytes.get(end + 1).is_some_and(|b| is_digit(*b));
        if !is_digit(byte) && !separator {
            break;
        }
        end += 1;
    }
    end
}
