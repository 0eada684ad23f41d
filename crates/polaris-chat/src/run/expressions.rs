//! Expressions.

use std::cmp::Ordering;

use super::access;
use super::arguments::Arguments;
use super::interpreter::Interpreter;
use super::numbers::Number;
use super::object::{Kind, Object};
use super::operators;
use super::show;
use crate::error::{Error, Result, shown};
use crate::syntax::ast::{self, Comparison, Expr, Operator, Postfix};

impl<'t> Interpreter<'t> {
    pub(super) fn evaluate(&mut self, expression: &'t Expr) -> Result<Object> {
        self.heap.step(1)?;
        match expression {
            Expr::None => Ok(Object::None),
            Expr::Bool(value) => Ok(Object::Bool(*value)),
            Expr::Int(value) => Ok(Object::Int(*value)),
            Expr::Float(value) => Ok(Object::Float(*value)),
            Expr::Text(text) => self.heap.text(text.as_str()),
            Expr::Name(name) => self.lookup(name),
            composed => self.deeper(1, |this| this.evaluate_composed(composed)),
        }
    }

    fn evaluate_all(&mut self, expressions: &'t [Expr]) -> Result<Vec<Object>> {
        let mut values = Vec::with_capacity(expressions.len());
        for expression in expressions {
            values.push(self.evaluate(expression)?);
        }
        Ok(values)
    }

    fn evaluate_composed(&mut self, expression: &'t Expr) -> Result<Object> {
        match expression {
            Expr::List(items) => {
                let items = self.evaluate_all(items)?;
                self.heap.list(items)
            }
            Expr::Tuple(items) => {
                let items = self.evaluate_all(items)?;
                self.heap.sequence(items, Kind::Tuple)
            }
            Expr::Map(entries) => self.evaluate_map(entries),
            Expr::Postfix(value, postfixes) => self.evaluate_postfixes(value, postfixes),
            Expr::Not(value) => Ok(Object::Bool(!self.evaluate(value)?.truth())),
            Expr::Negative(value) => self.evaluate_signed(value, -1),
            Expr::Positive(value) => self.evaluate_signed(value, 1),
            Expr::Arithmetic(first, rest) => {
                let mut value = self.evaluate(first)?;
                for (operator, operand) in rest {
                    let operand = self.evaluate(operand)?;
                    value = operators::compute(&self.heap, &value, *operator, &operand)?;
                }
                Ok(value)
            }
            Expr::Concat(parts) => {
                let mut buffer = self.heap.buffer();
                for part in self.evaluate_all(parts)? {
                    show::write(&part, &self.heap, &mut buffer)?;
                }
                buffer.into_object(&self.heap)
            }
            Expr::Compare(first, rest) => self.evaluate_comparison(first, rest),
            Expr::And(operands) => self.evaluate_until(operands, false),
            Expr::Or(operands) => self.evaluate_until(operands, true),
            Expr::Conditional { condition, then, otherwise } => {
                if self.evaluate(condition)?.truth() {
                    return self.evaluate(then);
                }
                otherwise.as_ref().map_or(Ok(Object::Undefined), |value| self.evaluate(value))
            }
            simple => self.evaluate(simple),
        }
    }

    /// The first operand of this truth, or the last one: `and` and `or` give operands, not booleans.
    fn evaluate_until(&mut self, operands: &'t [Expr], truth: bool) -> Result<Object> {
        let mut value = Object::Undefined;
        for operand in operands {
            value = self.evaluate(operand)?;
            if value.truth() == truth {
                break;
            }
        }
        Ok(value)
    }

    fn evaluate_map(&mut self, entries: &'t [(Expr, Expr)]) -> Result<Object> {
        let mut map = Vec::with_capacity(entries.len());
        for (key, value) in entries {
            let key = self.evaluate(key)?;
            let value = self.evaluate(value)?;
            operators::insert(&self.heap, &mut map, key, value)?;
        }
        self.heap.map(map)
    }

    fn evaluate_signed(&mut self, value: &'t Expr, sign: i128) -> Result<Object> {
        let value = self.evaluate(value)?;
        let number = Number::of(&value)
            .ok_or_else(|| Error::render(format!("{} has no sign", value.name())))?;
        number.compute(Operator::Multiply, Number::Int(sign)).map(Number::object)
    }

    fn evaluate_comparison(
        &mut self,
        first: &'t Expr,
        rest: &'t [(Comparison, Expr)],
    ) -> Result<Object> {
        let mut left = self.evaluate(first)?;
        for (comparison, operand) in rest {
            let right = self.evaluate(operand)?;
            if !compare(&self.heap, &left, *comparison, &right)? {
                return Ok(Object::Bool(false));
            }
            left = right;
        }
        Ok(Object::Bool(true))
    }

    fn evaluate_postfixes(&mut self, first: &'t Expr, postfixes: &'t [Postfix]) -> Result<Object> {
        let mut value = self.evaluate(first)?;
        if let (Object::Undefined, Expr::Name(name), Some(postfix)) =
            (&value, first, postfixes.first())
            && !matches!(postfix, Postfix::Filter(_) | Postfix::Test { .. })
        {
            return Err(Error::render(format!("`{}` is undefined", shown(name))));
        }
        for postfix in postfixes {
            self.heap.step(1)?;
            value = match postfix {
                Postfix::Attribute(name) => access::attribute(&self.heap, &value, name)?,
                Postfix::Item(key) => {
                    let key = self.evaluate(key)?;
                    access::item(&self.heap, &value, &key)?
                }
                Postfix::Slice(bounds) => self.evaluate_slice(&value, bounds)?,
                Postfix::Call(arguments) => {
                    let arguments = self.evaluate_arguments(arguments)?;
                    self.call(&value, arguments)?
                }
                Postfix::Filter(filter) => self.evaluate_filter(value, filter)?,
                Postfix::Test { test, negated } => {
                    let arguments = self.evaluate_arguments(&test.arguments)?;
                    Object::Bool(self.test(&test.name, &value, arguments)? != *negated)
                }
            };
        }
        Ok(value)
    }

    fn evaluate_slice(&mut self, value: &Object, bounds: &'t [Option<Expr>; 3]) -> Result<Object> {
        let mut values = [const { None }; 3];
        for (value, bound) in values.iter_mut().zip(bounds) {
            *value = bound.as_ref().map(|bound| self.evaluate(bound)).transpose()?;
        }
        access::slice(&self.heap, value, values)
    }

    pub(super) fn evaluate_filter(
        &mut self,
        value: Object,
        filter: &'t ast::Filter,
    ) -> Result<Object> {
        let arguments = self.evaluate_arguments(&filter.arguments)?;
        self.filter(&filter.name, value, arguments)
    }

    pub(super) fn evaluate_arguments(&mut self, from: &'t ast::Arguments) -> Result<Arguments> {
        let mut arguments =
            Arguments { positional: self.evaluate_all(&from.positional)?, named: Vec::new() };
        for (name, value) in &from.named {
            let value = self.evaluate(value)?;
            arguments.named.push((name.clone(), value));
        }
        if let Some(sequence) = &from.sequence {
            let items = self.evaluate(sequence)?.elements(&self.heap)?;
            self.heap.room_for_items(items.items.len())?;
            arguments.positional.extend(items.items.iter().cloned());
        }
        if let Some(mapping) = &from.mapping {
            match self.evaluate(mapping)? {
                Object::Map(map) => {
                    for (key, value) in &map.entries {
                        let Object::Text(name) = key else {
                            return Err(Error::render("the name of an argument is no string"));
                        };
                        self.heap.work(name.len())?;
                        self.heap.room(name.len())?;
                        arguments.named.push((name.text.to_string(), value.clone()));
                    }
                }
                other => {
                    let why =
                        format!("{} stands after `**`, where a map is expected", other.name());
                    return Err(Error::render(why));
                }
            }
        }
        Ok(arguments)
    }
}

/// `a < b` and the like.
pub(super) fn compare(
    heap: &super::heap::Heap,
    a: &Object,
    comparison: Comparison,
    b: &Object,
) -> Result<bool> {
    Ok(match comparison {
        Comparison::Equal => operators::equal(heap, a, b)?,
        Comparison::NotEqual => !operators::equal(heap, a, b)?,
        Comparison::In => operators::contains(heap, b, a)?,
        Comparison::NotIn => !operators::contains(heap, b, a)?,
        Comparison::Less => operators::order(heap, a, b)? == Some(Ordering::Less),
        Comparison::Greater => operators::order(heap, a, b)? == Some(Ordering::Greater),
        Comparison::LessOrEqual => {
            operators::order(heap, a, b)?.is_some_and(|order| order != Ordering::Greater)
        }
        Comparison::GreaterOrEqual => {
            operators::order(heap, a, b)?.is_some_and(|order| order != Ordering::Less)
        }
    })
}
