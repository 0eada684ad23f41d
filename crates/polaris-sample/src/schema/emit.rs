//! From collected keywords to rules: alternatives, constants, strings, arrays.

use super::json::{Json, quoted};
use super::shape::{Shape, types};
use super::{Converter, Part, number, pattern};
use crate::error::Shown;
use crate::grammar::charset::CharSet;
use crate::grammar::expr::Expr;
use crate::grammar::gbnf::MOST_REPETITIONS;
use crate::{Error, Result};

/// The most combinations of alternatives.
const MOST_COMBINATIONS: usize = 1024;
/// The values of `format` that have a rule of that name.
const FORMATS: [&str; 8] =
    ["date", "time", "date-time", "uuid", "ipv4", "hostname", "email", "uri"];

impl<'a> Converter<'a> {
    /// The rule for values that fit all these schemas.
    pub(super) fn rule(&mut self, parts: &[Part<'a>]) -> Result<Expr> {
        let mut parts = parts.to_vec();
        for part in &mut parts {
            // A schema that only refers to another is that one.
            while let Json::Object(entries) = part.json {
                let [(key, target)] = &entries[..] else { break };
                if key != "$ref" {
                    break;
                }
                self.count_work(1)?;
                part.json = self.resolve(part.json, target)?;
            }
        }
        let mut key: Vec<_> = parts.iter().map(Part::key).collect();
        key.sort_unstable();
        key.dedup();
        if let Some(&rule) = self.known.get(&key) {
            return Ok(Expr::Rule(rule));
        }
        let name = parts.first().map_or("any".into(), |part| self.pointer(part.json));
        let rule = self.rules.add(name, Expr::never())?;
        self.known.insert(key, rule);
        self.pending.push((rule, parts));
        Ok(Expr::Rule(rule))
    }

    /// What a rule for these schemas matches.
    pub(super) fn body(&mut self, parts: &[Part<'a>]) -> Result<Expr> {
        let shape = self.shape(parts)?;
        match shape.groups.is_empty() {
            true => self.values(&shape, parts.first().map_or(self.root, |part| part.json)),
            false => self.combinations(&shape, parts),
        }
    }

    /// One option of each group, together with everything else.
    fn combinations(&mut self, shape: &Shape<'a>, parts: &[Part<'a>]) -> Result<Expr> {
        let mut count = 1usize;
        for group in &shape.groups {
            if group.exclusive {
                self.check_exclusive(group.options, group.at)?;
            }
            count = count.saturating_mul(group.options.len());
        }
        if count > MOST_COMBINATIONS {
            return Err(Error::limit("combinations of `anyOf` and `oneOf`", MOST_COMBINATIONS));
        }
        let others: Vec<_> = match shape.is_free() {
            true => Vec::new(),
            false => parts.iter().map(|part| Part { json: part.json, bare: true }).collect(),
        };
        let mut choices = Vec::with_capacity(count);
        for index in 0..count {
            let mut rest = index;
            let mut chosen = others.clone();
            for group in &shape.groups {
                chosen.push(Part::new(&group.options[rest % group.options.len()]));
                rest /= group.options.len();
            }
            choices.push(self.rule(&chosen)?);
        }
        Ok(Expr::Choice(choices))
    }

    /// A value must fit exactly one option, so no two may have one in common.
    fn check_exclusive(&mut self, options: &'a [Json], at: &Json) -> Result<()> {
        for (index, a) in options.iter().enumerate() {
            for (other, b) in options.iter().enumerate() {
                if index != other && !self.avoids(a, b, 0)? {
                    return Err(self.unsupported(
                        at,
                        format!(
                            "`oneOf` whose options {index} and {other} may fit the same value; use `anyOf`, or \
                             different values of a required property"
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    fn values(&mut self, shape: &Shape<'a>, at: &Json) -> Result<Expr> {
        if shape.is_free() {
            return Ok(self.base("value"));
        }
        if let Some(constants) = &shape.constants {
            let mut choices = Vec::new();
            for &value in constants {
                match self.suits(shape, value, 0)? {
                    Some(true) => choices.push(Expr::text(value.to_string())),
                    Some(false) => {}
                    None => {
                        let what = "`enum` or `const` together with `pattern` or `format`";
                        return Err(self.unsupported(at, what));
                    }
                }
            }
            return Ok(Expr::Choice(choices));
        }
        let written = shape.written();
        let mut choices = Vec::new();
        for (kind, name) in [(types::NULL, "null"), (types::BOOLEAN, "boolean")] {
            if written & kind != 0 {
                choices.push(self.base(name));
            }
        }
        if written & types::STRING != 0 {
            choices.push(self.string(shape)?);
        }
        if written & types::NUMBER != 0 {
            let bounded = shape.low.is_some() || shape.high.is_some();
            choices.push(match (written & types::FRACTION != 0, bounded) {
                (true, false) => self.base("number"),
                (false, false) => self.base("integer"),
                (true, true) => number::decimal(shape.low, shape.high),
                (false, true) => number::integer(shape.low, shape.high),
            });
        }
        if written & types::OBJECT != 0 {
            choices.push(self.object(shape, at)?);
        }
        if written & types::ARRAY != 0 {
            choices.push(self.array(shape)?);
        }
        Ok(Expr::Choice(choices))
    }

    fn string(&mut self, shape: &Shape<'a>) -> Result<Expr> {
        let limited = shape.min_length > 0 || shape.max_length.is_some();
        let quote = || Expr::text("\"");
        if let Some(at) = shape.pattern.or(shape.format) {
            let both = shape.pattern.is_some() && shape.format.is_some();
            if limited || both {
                let what = "two of `pattern`, `format` and limits of the length for one string";
                return Err(self.unsupported(at, what));
            }
        }
        if let Some(value) = shape.pattern {
            let text = value.as_str();
            let text = text.ok_or_else(|| self.invalid(value, "`pattern` is not a string"))?;
            let inside = pattern::read(text, &self.base("char"))
                .map_err(|why| self.unsupported(value, format!("`{}`: {why}", Shown(text))))?;
            return Ok(Expr::Sequence(vec![quote(), inside, quote()]));
        }
        if let Some(value) = shape.format {
            let text = value.as_str();
            let text = text.ok_or_else(|| self.invalid(value, "`format` is not a string"))?;
            if !FORMATS.contains(&text) {
                let list = FORMATS.join(", ");
                let what = format!("the format `{}`; supported are {list}", Shown(text));
                return Err(self.unsupported(value, what));
            }
            return Ok(Expr::Sequence(vec![quote(), self.base(text), quote()]));
        }
        if !limited {
            return Ok(self.base("string"));
        }
        let range = (self.repetitions(shape.min_length)?, self.most(shape.max_length));
        if range.1.is_some_and(|most| most < range.0) {
            return Ok(Expr::never());
        }
        if let Some(&rule) = self.strings.get(&range) {
            return Ok(Expr::Rule(rule));
        }
        let characters = self.base("char").repeat(range.0, range.1);
        let body = Expr::Sequence(vec![quote(), characters, quote()]);
        let rule = self.rules.add("string", body)?;
        self.strings.insert(range, rule);
        Ok(Expr::Rule(rule))
    }

    /// How often something repeats at least.
    fn repetitions(&self, count: u64) -> Result<u32> {
        match u32::try_from(count) {
            Ok(count) if count <= MOST_REPETITIONS => Ok(count),
            _ => Err(Error::limit("repetitions", MOST_REPETITIONS as usize)),
        }
    }

    /// How often something repeats at most; what nobody writes out in full is cut.
    fn most(&self, count: Option<u64>) -> Option<u32> {
        count.map(|count| count.min(MOST_REPETITIONS.into()) as u32)
    }

    /// The schemas of the item at an index.
    pub(super) fn item_parts(&self, shape: &Shape<'a>, index: usize) -> Vec<Part<'a>> {
        let schema = |array: &super::shape::Array<'a>| array.prefix.get(index).or(array.items);
        shape.arrays.iter().filter_map(schema).map(Part::new).collect()
    }

    fn array(&mut self, shape: &Shape<'a>) -> Result<Expr> {
        let prefix = shape.arrays.iter().map(|array| array.prefix.len()).max().unwrap_or(0);
        let least = self.repetitions(shape.min_items)?;
        let most = self.most(shape.max_items);
        if most.is_some_and(|most| most < least) {
            return Ok(Expr::never());
        }
        let space = self.base("space");
        let separated = |item| Expr::Sequence(vec![Expr::text(","), space.clone(), item]);
        // Items beyond the prefix are written if a schema is given for them, or if there must be some.
        let explicit = shape.arrays.iter().any(|array| array.items.is_some());
        let offered = explicit || prefix == 0 || least as usize > prefix;
        let (needed, room) = (
            least.saturating_sub(prefix as u32),
            most.map(|most| most.saturating_sub(prefix as u32)),
        );
        let mut tail = Expr::empty();
        if offered && room != Some(0) {
            let parts = self.item_parts(shape, prefix);
            let item = self.rule(&parts)?;
            tail = match prefix {
                0 => {
                    let more = separated(item.clone());
                    let more = more.repeat(needed.saturating_sub(1), room.map(|room| room - 1));
                    let items = Expr::Sequence(vec![item, more]);
                    if needed == 0 { items.optional() } else { items }
                }
                _ => separated(item).repeat(needed, room),
            };
        }
        // From the last item of the prefix to the first, each with all that follows it.
        for index in (0..prefix).rev() {
            if most.is_some_and(|most| index >= most as usize) {
                continue;
            }
            let parts = self.item_parts(shape, index);
            let item = self.rule(&parts)?;
            let item = if index > 0 { separated(item) } else { item };
            let body = Expr::Sequence(vec![item, tail]);
            let body = if index >= least as usize { body.optional() } else { body };
            tail = Expr::Rule(self.rules.add("items", body)?);
        }
        Ok(Expr::Sequence(vec![
            Expr::text("["),
            space.clone(),
            tail,
            space.clone(),
            Expr::text("]"),
        ]))
    }

    /// A name that is none of these, written without escapes.
    pub(super) fn other_name(&mut self, names: &[&str]) -> Result<Expr> {
        if names.is_empty() {
            return Ok(self.base("string"));
        }
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        let plain = CharSet::new([(0, 0x1f), (0x7f, 0x7f)]).union(&CharSet::of("\"\\")).negated();
        let rest = Expr::Sequence(vec![Expr::Set(plain.clone()).repeat(0, None), Expr::text("\"")]);
        let rest = Expr::Rule(self.rules.add("name", rest)?);
        let top = self.rules.add("name", Expr::never())?;
        // The names that share the characters so far, how many bytes these are, and the rule for what follows.
        let mut todo = vec![(&names[..], 0, top)];
        while let Some((names, length, rule)) = todo.pop() {
            let is_name = names[0].len() == length;
            let longer = if is_name { &names[1..] } else { names };
            let first = |name: &str| name[length..].chars().next();
            let mut next = CharSet::default();
            let mut choices = Vec::new();
            for group in longer.chunk_by(|a, b| first(a) == first(b)) {
                let character = first(group[0]).expect("a longer name should have a character");
                let set = CharSet::of(character.encode_utf8(&mut [0; 4]));
                // A character that is only written escaped is never written here.
                if plain.contains(character) {
                    let below = self.rules.add("name", Expr::never())?;
                    choices.push(Expr::Sequence(vec![Expr::Set(set.clone()), Expr::Rule(below)]));
                    todo.push((group, length + character.len_utf8(), below));
                }
                next = next.union(&set);
            }
            choices.push(Expr::Sequence(vec![Expr::Set(plain.without(&next)), rest.clone()]));
            if !is_name {
                choices.push(Expr::text("\""));
            }
            self.rules.bodies[rule] = Expr::Choice(choices);
        }
        Ok(Expr::Sequence(vec![Expr::text("\""), Expr::Rule(top)]))
    }

    /// A property's name, as JSON.
    pub(super) fn name(&self, name: &str) -> Expr {
        Expr::text(quoted(name))
    }
}
