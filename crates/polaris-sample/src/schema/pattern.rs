//! Regular expressions of the keyword `pattern`, as the JSON strings that they describe.

use crate::grammar::charset::CharSet;
use crate::grammar::expr::Expr;
use crate::grammar::gbnf::MOST_REPETITIONS;

/// The deepest groups.
const DEEPEST: usize = 64;

type Result<T> = std::result::Result<T, String>;

/// The contents of a JSON string that the pattern matches; `any` is one character of a string.
pub(super) fn read(pattern: &str, any: &Expr) -> Result<Expr> {
    let mut reader = Reader { rest: pattern, depth: 0 };
    let mut choices = Vec::new();
    loop {
        // A pattern without anchors may match anywhere in the string.
        let around = |anchored| if anchored { Expr::empty() } else { any.clone().repeat(0, None) };
        let before = around(reader.take("^"));
        let items = reader.sequence()?;
        let after = around(reader.take("$"));
        choices.push(Expr::Sequence(vec![before, items, after]));
        if !reader.take("|") {
            break;
        }
    }
    match reader.rest.chars().next() {
        None => Ok(Expr::Choice(choices)),
        Some(')') => Err("`)` closes no group".into()),
        Some(found) => Err(format!("`{found}` is supported at the ends of a pattern only")),
    }
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn next(&mut self) -> Option<char> {
        let character = self.rest.chars().next()?;
        self.rest = &self.rest[character.len_utf8()..];
        Some(character)
    }

    fn take(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sequence(&mut self) -> Result<Expr> {
        let mut items = Vec::new();
        while let Some(character) = self.rest.chars().next() {
            if matches!(character, '|' | ')' | '^' | '$') {
                break;
            }
            let item = self.item()?;
            let item = match self.quantifier()? {
                Some((least, most)) => item.repeat(least, most),
                None => item,
            };
            items.push(item);
        }
        Ok(Expr::Sequence(items))
    }

    fn item(&mut self) -> Result<Expr> {
        Ok(match self.next() {
            Some('.') => encoded(&CharSet::of("\n\r\u{2028}\u{2029}").negated()),
            Some('[') => encoded(&self.class()?),
            Some('\\') => encoded(&self.escape(false)?),
            Some('(') => return self.group(),
            Some(found @ ('*' | '+' | '?' | '{')) => {
                return Err(format!("there is nothing to repeat before `{found}`"));
            }
            Some(character) => encoded(&single(character)),
            None => return Err("the pattern ends too early".into()),
        })
    }

    fn group(&mut self) -> Result<Expr> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("groups nest deeper than {DEEPEST}"));
        }
        if self.take("?") && !self.take(":") {
            // `(?<name>...)` is a plain group; `(?<=`, `(?<!`, `(?=` and `(?!` are not.
            let name = self.rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
            match name {
                Some((name, rest)) if !name.starts_with(['=', '!']) => self.rest = rest,
                _ => return Err("`(?` is supported in `(?:` and `(?<name>` only".into()),
            }
        }
        let mut choices = vec![self.sequence()?];
        while self.take("|") {
            choices.push(self.sequence()?);
        }
        if !self.take(")") {
            return Err("a group does not end, or has an anchor inside".into());
        }
        self.depth -= 1;
        Ok(Expr::Choice(choices))
    }

    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>)>> {
        let range = if self.take("*") {
            (0, None)
        } else if self.take("+") {
            (1, None)
        } else if self.take("?") {
            (0, Some(1))
        } else if self.take("{") {
            let Some((inside, rest)) = self.rest.split_once('}') else {
                return Err("`{` has no `}`".into());
            };
            self.rest = rest;
            let (least, most) = match inside.split_once(',') {
                None => (count(inside)?, Some(count(inside)?)),
                Some((least, "")) => (count(least)?, None),
                Some((least, most)) => (count(least)?, Some(count(most)?)),
            };
            if most.is_some_and(|most| most < least) {
                return Err("a repetition ends below where it begins".into());
            }
            (least, most)
        } else {
            return Ok(None);
        };
        // A lazy quantifier matches the same strings.
        self.take("?");
        Ok(Some(range))
    }

    fn class(&mut self) -> Result<CharSet> {
        let negated = self.take("^");
        let mut set = CharSet::default();
        while !self.take("]") {
            let low = self.class_item()?;
            let range = self.rest.starts_with('-') && !self.rest.starts_with("-]");
            let (Some(from), true) = (only(&low), range) else {
                set = set.union(&low);
                continue;
            };
            self.take("-");
            let Some(to) = only(&self.class_item()?) else {
                return Err("a range of a class ends with a class".into());
            };
            if to < from {
                return Err("a range of a class ends below where it begins".into());
            }
            set = set.union(&CharSet::new([(from, to)]));
        }
        Ok(if negated { set.negated() } else { set })
    }

    fn class_item(&mut self) -> Result<CharSet> {
        match self.next() {
            Some('\\') => self.escape(true),
            Some(character) => Ok(single(character)),
            None => Err("`[` has no `]`".into()),
        }
    }

    fn escape(&mut self, in_class: bool) -> Result<CharSet> {
        let digits = CharSet::of("0123456789");
        let word = CharSet::new([(0x30, 0x39), (0x41, 0x5a), (0x5f, 0x5f), (0x61, 0x7a)]);
        Ok(match self.next() {
            Some('d') => digits,
            Some('D') => digits.negated(),
            Some('w') => word,
            Some('W') => word.negated(),
            Some('s') => space(),
            Some('S') => space().negated(),
            Some('n') => single('\n'),
            Some('r') => single('\r'),
            Some('t') => single('\t'),
            Some('f') => single('\x0c'),
            Some('v') => single('\x0b'),
            Some('b') if in_class => single('\x08'),
            Some('x') => self.code(2)?,
            Some('u') => self.code(4)?,
            Some(character) if !character.is_ascii_alphanumeric() => single(character),
            Some(character) => return Err(format!("`\\{character}` is not supported")),
            None => return Err("the pattern ends after `\\`".into()),
        })
    }

    fn code(&mut self, digits: usize) -> Result<CharSet> {
        let text =
            self.rest.get(..digits).filter(|text| text.chars().all(|c| c.is_ascii_hexdigit()));
        let character = text
            .and_then(|text| u32::from_str_radix(text, 16).ok())
            .and_then(char::from_u32)
            .ok_or_else(|| {
                format!("`\\x` or `\\u` is not followed by the {digits} digits of a character")
            })?;
        self.rest = &self.rest[digits..];
        Ok(single(character))
    }
}

fn count(text: &str) -> Result<u32> {
    let number = text.parse().ok().filter(|_| text.chars().all(|c| c.is_ascii_digit()));
    match number {
        Some(number) if number <= MOST_REPETITIONS => Ok(number),
        _ => Err(format!("`{{` is followed by no number from 0 to {MOST_REPETITIONS}")),
    }
}

fn single(character: char) -> CharSet {
    CharSet::new([(character.into(), character.into())])
}

/// The code point of a set with one character.
fn only(set: &CharSet) -> Option<u32> {
    match set.ranges() {
        [(low, high)] if low == high => Some(*low),
        _ => None,
    }
}

/// White space as ECMAScript defines it.
fn space() -> CharSet {
    CharSet::of("\t\n\x0b\x0c\r \u{a0}\u{1680}\u{2028}\u{2029}\u{202f}\u{205f}\u{3000}\u{feff}")
        .union(&CharSet::new([(0x2000, 0x200a)]))
}

/// One character of a set as it is written in a JSON string.
fn encoded(set: &CharSet) -> Expr {
    let special = CharSet::new([(0, 0x1f), ('"'.into(), '"'.into()), ('\\'.into(), '\\'.into())]);
    let mut choices = Vec::new();
    let plain = set.without(&special);
    if !plain.is_empty() {
        choices.push(Expr::Set(plain));
    }
    for &(low, high) in special.ranges() {
        for character in (low..=high).filter_map(char::from_u32) {
            if set.contains(character) {
                let quoted = super::json::quoted(&character.to_string());
                choices.push(Expr::text(&quoted[1..quoted.len() - 1]));
            }
        }
    }
    match choices.len() {
        1 => choices.remove(0),
        _ => Expr::Choice(choices),
    }
}
