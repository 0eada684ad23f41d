//! The parser of expressions, one function for each precedence, the lowest first.

use super::ast::{Arguments, Comparison, Expr, Filter, Operator, Postfix};
use super::lexer::Token;
use super::statements::Parser;
use crate::error::{Error, Result};

/// How deep brackets, calls, signs and blocks may nest. Templates of real models nest up to about 20 levels; every
/// level takes about a dozen frames of the stack here.
const MAX_DEPTH: usize = 100;

impl Parser {
    /// Runs `parse` one level deeper.
    pub(super) fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth == MAX_DEPTH {
            return Err(Error::Limit {
                line: self.line(),
                what: "the depth of nested expressions and blocks",
                limit: MAX_DEPTH as u64,
            });
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    /// An expression.
    pub(super) fn expression(&mut self) -> Result<Expr> {
        self.nested(Self::conditional)
    }

    /// An expression without `if` outside of brackets: the items of a loop and the condition of an `if` block.
    pub(super) fn unconditional(&mut self) -> Result<Expr> {
        self.nested(Self::or)
    }

    /// An expression, or several with commas as a tuple.
    pub(super) fn tuple(&mut self, element: fn(&mut Self) -> Result<Expr>) -> Result<Expr> {
        let first = element(self)?;
        if !self.at_operator(",") {
            return Ok(first);
        }
        let mut items = vec![first];
        while self.take_operator(",") && !self.at_tuple_end() {
            items.push(element(self)?);
        }
        Ok(Expr::Tuple(items))
    }

    fn at_tuple_end(&self) -> bool {
        matches!(self.token(), Token::EndPrint | Token::EndBlock | Token::Operator(")"))
            || self.at_name("recursive")
    }

    fn conditional(&mut self) -> Result<Expr> {
        let mut value = self.or()?;
        let mut levels = 0;
        while self.take_name("if") {
            levels += 1;
            if self.depth + levels > MAX_DEPTH {
                return self.nested(|parser| parser.fail("too many conditions in one expression"));
            }
            let condition = self.or()?;
            let otherwise =
                if self.take_name("else") { Some(Box::new(self.expression()?)) } else { None };
            value = Expr::Conditional {
                condition: Box::new(condition),
                then: Box::new(value),
                otherwise,
            };
        }
        Ok(value)
    }

    fn or(&mut self) -> Result<Expr> {
        let first = self.and()?;
        if !self.at_name("or") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.take_name("or") {
            operands.push(self.and()?);
        }
        Ok(Expr::Or(operands))
    }

    fn and(&mut self) -> Result<Expr> {
        let first = self.not()?;
        if !self.at_name("and") {
            return Ok(first);
        }
        let mut operands = vec![first];
        while self.take_name("and") {
            operands.push(self.not()?);
        }
        Ok(Expr::And(operands))
    }

    fn not(&mut self) -> Result<Expr> {
        if self.take_name("not") {
            let operand = self.nested(Self::not)?;
            return Ok(Expr::Not(Box::new(operand)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Result<Expr> {
        let first = self.sum()?;
        let mut rest = Vec::new();
        loop {
            let comparison = match self.token() {
                Token::Operator("==") => Comparison::Equal,
                Token::Operator("!=") => Comparison::NotEqual,
                Token::Operator("<") => Comparison::Less,
                Token::Operator("<=") => Comparison::LessOrEqual,
                Token::Operator(">") => Comparison::Greater,
                Token::Operator(">=") => Comparison::GreaterOrEqual,
                Token::Name(name) if name == "in" => Comparison::In,
                Token::Name(name) if name == "not" && self.next_is_name("in") => {
                    self.skip();
                    Comparison::NotIn
                }
                _ => break,
            };
            self.skip();
            rest.push((comparison, self.sum()?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Compare(Box::new(first), rest) })
    }

    /// A chain of operators of one precedence.
    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<Expr>,
        operators: &[(&str, Operator)],
    ) -> Result<Expr> {
        let first = operand(self)?;
        let mut rest = Vec::new();
        while let Token::Operator(found) = self.token() {
            let Some((_, operator)) = operators.iter().find(|(text, _)| text == found) else {
                break;
            };
            self.skip();
            rest.push((*operator, operand(self)?));
        }
        Ok(if rest.is_empty() { first } else { Expr::Arithmetic(Box::new(first), rest) })
    }

    fn sum(&mut self) -> Result<Expr> {
        self.chain(Self::concatenation, &[("+", Operator::Add), ("-", Operator::Subtract)])
    }

    fn concatenation(&mut self) -> Result<Expr> {
        let first = self.product()?;
        if !self.at_operator("~") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.take_operator("~") {
            parts.push(self.product()?);
        }
        Ok(Expr::Concat(parts))
    }

    fn product(&mut self) -> Result<Expr> {
        self.chain(
            Self::power,
            &[
                ("*", Operator::Multiply),
                ("/", Operator::Divide),
                ("//", Operator::FloorDivide),
                ("%", Operator::Remainder),
            ],
        )
    }

    fn power(&mut self) -> Result<Expr> {
        self.chain(Self::filtered, &[("**", Operator::Power)])
    }

    /// A value with a sign, attributes, calls, filters and tests.
    fn filtered(&mut self) -> Result<Expr> {
        let value = self.signed()?;
        let mut postfixes = Vec::new();
        loop {
            if self.take_operator("|") {
                postfixes.push(Postfix::Filter(self.filter()?));
            } else if self.take_name("is") {
                let negated = self.take_name("not");
                postfixes.push(Postfix::Test { test: self.test()?, negated });
            } else if self.at_operator("(") {
                postfixes.push(Postfix::Call(self.arguments()?));
            } else {
                break;
            }
        }
        Ok(with_postfixes(value, postfixes))
    }

    fn signed(&mut self) -> Result<Expr> {
        let value = if self.take_operator("-") {
            Expr::Negative(Box::new(self.nested(Self::signed)?))
        } else if self.take_operator("+") {
            Expr::Positive(Box::new(self.nested(Self::signed)?))
        } else {
            self.primary()?
        };
        self.subscripts(value)
    }

    /// The attributes, subscripts and calls after a value.
    fn subscripts(&mut self, value: Expr) -> Result<Expr> {
        let mut postfixes = Vec::new();
        loop {
            if self.take_operator(".") {
                match self.token().clone() {
                    Token::Name(name) => postfixes.push(Postfix::Attribute(name)),
                    Token::Int(index) => postfixes.push(Postfix::Item(Expr::Int(index))),
                    _ => return self.unexpected("a name or number after `.`"),
                }
                self.skip();
            } else if self.take_operator("[") {
                postfixes.push(self.subscript()?);
                self.expect_operator("]")?;
            } else if self.at_operator("(") {
                postfixes.push(Postfix::Call(self.arguments()?));
            } else {
                break;
            }
        }
        Ok(with_postfixes(value, postfixes))
    }

    fn subscript(&mut self) -> Result<Postfix> {
        let mut parts = [None, None, None];
        let mut colons = 0;
        loop {
            if self.at_operator("]") {
                break;
            } else if self.take_operator(":") {
                colons += 1;
                if colons > 2 {
                    return self.fail("a slice has at most two `:`");
                }
            } else if parts[colons].is_none() {
                parts[colons] = Some(self.expression()?);
            } else {
                return self.unexpected("`]`");
            }
        }
        match parts {
            [Some(index), None, None] if colons == 0 => Ok(Postfix::Item(index)),
            _ if colons == 0 => self.unexpected("an index"),
            parts => Ok(Postfix::Slice(Box::new(parts))),
        }
    }

    /// A filter after its `|`.
    pub(super) fn filter(&mut self) -> Result<Filter> {
        let mut name = self.expect_name("the name of a filter")?;
        while self.take_operator(".") {
            name.push('.');
            name.push_str(&self.expect_name("the name of a filter")?);
        }
        let arguments =
            if self.at_operator("(") { self.arguments()? } else { Arguments::default() };
        Ok(Filter { name, arguments })
    }

    /// A test after `is`; its only argument may be without parentheses.
    fn test(&mut self) -> Result<Filter> {
        let name = self.expect_name("the name of a test")?;
        let mut arguments = Arguments::default();
        let is_argument = match self.token() {
            Token::Operator("(") => {
                arguments = self.arguments()?;
                false
            }
            Token::Name(name) => !matches!(name.as_str(), "else" | "or" | "and" | "is"),
            Token::Text(_) | Token::Int(_) | Token::Float(_) => true,
            Token::Operator(operator) => matches!(*operator, "[" | "{"),
            _ => false,
        };
        if is_argument {
            let argument = self.primary()?;
            arguments.positional.push(self.subscripts(argument)?);
        }
        Ok(Filter { name, arguments })
    }

    /// The arguments of a call, with its parentheses.
    pub(super) fn arguments(&mut self) -> Result<Arguments> {
        let mut arguments = Arguments::default();
        self.expect_operator("(")?;
        while !self.at_operator(")") {
            if self.take_operator("**") {
                arguments.mapping = Some(Box::new(self.expression()?));
            } else if self.take_operator("*") {
                arguments.sequence = Some(Box::new(self.expression()?));
            } else if let (Token::Name(name), true) = (self.token().clone(), self.next_is("=")) {
                self.skip();
                self.skip();
                arguments.named.push((name, self.expression()?));
            } else if arguments.named.is_empty() && arguments.sequence.is_none() {
                arguments.positional.push(self.expression()?);
            } else {
                return self.fail("an argument without a name stands after one with a name");
            }
            if !self.at_operator(")") {
                self.expect_operator(",")?;
            }
        }
        self.expect_operator(")")?;
        Ok(arguments)
    }

    /// A literal, a name, or something in brackets.
    pub(super) fn primary(&mut self) -> Result<Expr> {
        let token = self.token().clone();
        if matches!(token, Token::Name(_) | Token::Text(_) | Token::Int(_) | Token::Float(_)) {
            self.skip();
        }
        Ok(match token {
            Token::Name(name) => match name.as_str() {
                "true" | "True" => Expr::Bool(true),
                "false" | "False" => Expr::Bool(false),
                "none" | "None" => Expr::None,
                _ => {
                    self.mention(&name);
                    Expr::Name(name)
                }
            },
            Token::Text(mut text) => {
                while let Token::Text(more) = self.token() {
                    text.push_str(more);
                    self.skip();
                }
                Expr::Text(text)
            }
            Token::Int(value) => Expr::Int(value),
            Token::Float(value) => Expr::Float(value),
            Token::Operator("(") => {
                self.skip();
                let value = if self.at_operator(")") {
                    Expr::Tuple(Vec::new())
                } else {
                    self.tuple(Self::expression)?
                };
                self.expect_operator(")")?;
                value
            }
            Token::Operator("[") => {
                self.skip();
                let mut items = Vec::new();
                while !self.at_operator("]") {
                    items.push(self.expression()?);
                    if !self.at_operator("]") {
                        self.expect_operator(",")?;
                    }
                }
                self.skip();
                Expr::List(items)
            }
            Token::Operator("{") => {
                self.skip();
                let mut entries = Vec::new();
                while !self.at_operator("}") {
                    let key = self.expression()?;
                    self.expect_operator(":")?;
                    entries.push((key, self.expression()?));
                    if !self.at_operator("}") {
                        self.expect_operator(",")?;
                    }
                }
                self.skip();
                Expr::Map(entries)
            }
            _ => return self.unexpected("a value"),
        })
    }
}

/// The value itself where nothing follows it. Filters join the attributes in front of them, so that
/// `message.content | trim` is one list.
fn with_postfixes(value: Expr, mut postfixes: Vec<Postfix>) -> Expr {
    match value {
        value if postfixes.is_empty() => value,
        Expr::Postfix(value, mut first) => {
            first.append(&mut postfixes);
            Expr::Postfix(value, first)
        }
        value => Expr::Postfix(Box::new(value), postfixes),
    }
}
