//! Tests: what stands after `is`.

use super::arguments::Arguments;
use super::expressions::compare;
use super::heap::Heap;
use super::interpreter::Interpreter;
use super::numbers::Number;
use super::object::{Kind, Object};
use crate::error::{Error, Result, shown};
use crate::syntax::ast::{Comparison, Operator};

impl Interpreter<'_> {
    pub(super) fn test(
        &mut self,
        name: &str,
        value: &Object,
        arguments: Arguments,
    ) -> Result<bool> {
        let heap = &self.heap;
        let comparison = match name {
            "eq" | "equalto" | "==" => Some(Comparison::Equal),
            "ne" | "!=" => Some(Comparison::NotEqual),
            "lt" | "lessthan" | "<" => Some(Comparison::Less),
            "le" | "<=" => Some(Comparison::LessOrEqual),
            "gt" | "greaterthan" | ">" => Some(Comparison::Greater),
            "ge" | ">=" => Some(Comparison::GreaterOrEqual),
            "in" => Some(Comparison::In),
            _ => None,
        };
        if let Some(comparison) = comparison {
            return compare(heap, value, comparison, &argument(name, arguments)?);
        }
        match name {
            "divisibleby" => {
                let by = argument(name, arguments)?;
                let remainder = super::operators::compute(heap, value, Operator::Remainder, &by)?;
                return super::operators::equal(heap, &remainder, &Object::Int(0));
            }
            "sameas" => {
                let other = argument(name, arguments)?;
                return same(heap, value, &other);
            }
            "filter" | "test" => {
                let known = if name == "filter" { super::filters::NAMES } else { NAMES };
                arguments.none()?;
                return Ok(value.as_text().is_some_and(|name| known.contains(&name)));
            }
            _ => arguments.none()?,
        }
        Ok(match name {
            "defined" => !value.is_undefined(),
            "undefined" => value.is_undefined(),
            "none" => matches!(value, Object::None),
            "boolean" => matches!(value, Object::Bool(_)),
            "true" => matches!(value, Object::Bool(true)),
            "false" => matches!(value, Object::Bool(false)),
            "integer" => matches!(value, Object::Int(_)),
            "float" => matches!(value, Object::Float(_)),
            "number" => Number::of(value).is_some(),
            "string" => matches!(value, Object::Text(_)),
            "mapping" => matches!(value, Object::Map(_)),
            // Python asks for a length and an element by number, which maps have too.
            "sequence" => match value {
                Object::List(list) => matches!(list.kind, Kind::List | Kind::Tuple),
                Object::Text(_) | Object::Map(_) | Object::Undefined => true,
                _ => false,
            },
            "iterable" => matches!(
                value,
                Object::List(_)
                    | Object::Text(_)
                    | Object::Map(_)
                    | Object::Undefined
                    | Object::Loop(_)
            ),
            "callable" => matches!(
                value,
                Object::Macro { .. }
                    | Object::Function(_)
                    | Object::Method(_)
                    | Object::Loop(_)
                    | Object::Undefined
            ),
            "escaped" => matches!(value, Object::Text(text) if text.markup),
            "odd" | "even" => match Number::of(value) {
                Some(Number::Int(number)) => (number.rem_euclid(2) == 1) == (name == "odd"),
                _ => {
                    return Err(Error::render(format!("{} is neither odd nor even", value.name())));
                }
            },
            "lower" | "upper" => {
                let text = super::show::to_text(value, heap)?;
                let wrong =
                    |c: char| if name == "lower" { c.is_uppercase() } else { c.is_lowercase() };
                text.chars().any(|c| c.is_lowercase() || c.is_uppercase())
                    && !text.chars().any(wrong)
            }
            _ => return Err(Error::render(format!("there is no test `{}`", shown(name)))),
        })
    }
}

/// All tests, for `is test`.
const NAMES: &[&str] = &[
    "boolean",
    "callable",
    "defined",
    "divisibleby",
    "eq",
    "equalto",
    "escaped",
    "even",
    "false",
    "filter",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "number",
    "odd",
    "sameas",
    "sequence",
    "string",
    "test",
    "true",
    "undefined",
    "upper",
];

fn argument(name: &str, arguments: Arguments) -> Result<Object> {
    let [value] = arguments.take(["value"])?;
    value.ok_or_else(|| Error::render(format!("the test `{name}` needs an argument")))
}

/// Python's `is`, as far as it does not depend on where values are kept.
fn same(heap: &Heap, a: &Object, b: &Object) -> Result<bool> {
    let kinds = std::mem::discriminant(a) == std::mem::discriminant(b);
    Ok(kinds && super::operators::equal(heap, a, b)?)
}
