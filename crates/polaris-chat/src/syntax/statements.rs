//! The parser of statements.

use super::ast::{Expr, Filter, For, Macro, Node, Program, Statement, Target};
use super::lexer::{self, Token};
use crate::error::{Error, Result, shown};

/// In bytes. The largest templates of real models have about 30 KB; the tree takes some 50 bytes for each of them.
pub(crate) const MAX_SOURCE: usize = 1 << 20;

/// Parses a template.
pub(crate) fn parse(source: &str) -> Result<Program> {
    if source.len() > MAX_SOURCE {
        return Err(Error::Limit {
            line: 1,
            what: "the length of the template in bytes",
            limit: MAX_SOURCE as u64,
        });
    }
    let tokens = lexer::tokens(source)?;
    let program = Program::default();
    let mut parser = Parser { tokens, at: 0, depth: 0, mentions: [0; NAMES.len()], program };
    let body = parser.body(&[])?;
    Ok(Program { body, ..parser.program })
}

/// Names whose mention changes what surrounds it.
const NAMES: [&str; 4] = ["loop", "varargs", "kwargs", "caller"];

pub(super) struct Parser {
    tokens: Vec<(Token, u32)>,
    at: usize,
    pub(super) depth: usize,
    /// How often each of [`NAMES`] was mentioned so far.
    mentions: [usize; NAMES.len()],
    program: Program,
}

impl Parser {
    pub(super) fn token(&self) -> &Token {
        &self.tokens[self.at].0
    }

    pub(super) fn line(&self) -> u32 {
        self.tokens[self.at].1
    }

    /// The last token is never passed.
    pub(super) fn skip(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn following(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].0
    }

    pub(super) fn next_is_name(&self, name: &str) -> bool {
        matches!(self.following(), Token::Name(found) if found == name)
    }

    pub(super) fn next_is(&self, operator: &str) -> bool {
        matches!(self.following(), Token::Operator(found) if *found == operator)
    }

    pub(super) fn at_name(&self, name: &str) -> bool {
        matches!(self.token(), Token::Name(found) if found == name)
    }

    pub(super) fn take_name(&mut self, name: &str) -> bool {
        let found = self.at_name(name);
        if found {
            self.skip();
        }
        found
    }

    pub(super) fn at_operator(&self, operator: &str) -> bool {
        matches!(self.token(), Token::Operator(found) if *found == operator)
    }

    pub(super) fn take_operator(&mut self, operator: &str) -> bool {
        let found = self.at_operator(operator);
        if found {
            self.skip();
        }
        found
    }

    pub(super) fn expect_operator(&mut self, operator: &str) -> Result<()> {
        if self.take_operator(operator) {
            Ok(())
        } else {
            self.unexpected(&format!("`{operator}`"))
        }
    }

    pub(super) fn expect_name(&mut self, what: &str) -> Result<String> {
        let Token::Name(name) = self.token() else { return self.unexpected(what) };
        let name = name.clone();
        self.skip();
        Ok(name)
    }

    pub(super) fn fail<T>(&self, why: impl Into<String>) -> Result<T> {
        Err(Error::syntax(self.line(), why))
    }

    pub(super) fn unexpected<T>(&self, expected: &str) -> Result<T> {
        self.fail(format!("found {} where {expected} is expected", self.token().describe()))
    }

    pub(super) fn mention(&mut self, name: &str) {
        if let Some(place) = NAMES.iter().position(|known| *known == name) {
            self.mentions[place] += 1;
        }
    }

    fn end_block(&mut self) -> Result<()> {
        if *self.token() != Token::EndBlock {
            return self.unexpected("`%}`");
        }
        self.skip();
        Ok(())
    }

    /// Statements up to a block with one of these names, of which `{%` has been read afterwards; without names, up to
    /// the end of the template.
    fn body(&mut self, ends: &[&str]) -> Result<Vec<Node>> {
        let mut nodes = Vec::new();
        loop {
            let line = self.line();
            let statement = match self.token().clone() {
                Token::Data(text) => {
                    self.skip();
                    Statement::Text(text)
                }
                Token::BeginPrint => {
                    self.skip();
                    let value = self.tuple(Self::expression)?;
                    if *self.token() != Token::EndPrint {
                        return self.unexpected("`}}`");
                    }
                    self.skip();
                    Statement::Print(value)
                }
                Token::BeginBlock => {
                    self.skip();
                    if ends.iter().any(|end| self.at_name(end)) {
                        return Ok(nodes);
                    }
                    let name = self.expect_name("the name of a block")?;
                    self.nested(|parser| parser.statement(&name))?
                }
                Token::End if ends.is_empty() => return Ok(nodes),
                _ => {
                    let ends =
                        ends.iter().map(|end| format!("`{{% {end} %}}`")).collect::<Vec<_>>();
                    return self.unexpected(&ends.join(" or "));
                }
            };
            nodes.push(Node { line, statement });
        }
    }

    /// The body of a block up to its end, which is read.
    fn block(&mut self, end: &str) -> Result<Vec<Node>> {
        self.end_block()?;
        let body = self.body(&[end])?;
        self.skip();
        self.end_block()?;
        Ok(body)
    }

    fn statement(&mut self, name: &str) -> Result<Statement> {
        Ok(match name {
            "if" => self.if_statement()?,
            "for" => self.for_statement()?,
            "set" => self.set_statement()?,
            "macro" => {
                let name = self.expect_name("the name of a macro")?;
                Statement::Macro(self.macro_body(name, "endmacro")?)
            }
            "call" => {
                let signature = self.at_operator("(");
                let parameters = if signature { self.parameters()? } else { Vec::new() };
                let (callee, arguments) = match self.expression()? {
                    Expr::Postfix(value, mut postfixes) => match postfixes.pop() {
                        Some(super::ast::Postfix::Call(arguments)) if postfixes.is_empty() => {
                            (*value, arguments)
                        }
                        Some(super::ast::Postfix::Call(arguments)) => {
                            (Expr::Postfix(value, postfixes), arguments)
                        }
                        _ => return self.fail("a call block needs a call"),
                    },
                    _ => return self.fail("a call block needs a call"),
                };
                let caller = self.macro_with("caller".to_owned(), parameters, "endcall")?;
                Statement::CallBlock { caller, callee, arguments }
            }
            "filter" => {
                let mut filters = vec![self.filter()?];
                while self.take_operator("|") {
                    filters.push(self.filter()?);
                }
                Statement::FilterBlock { filters, body: self.block("endfilter")? }
            }
            "with" => {
                let mut values = Vec::new();
                while *self.token() != Token::EndBlock {
                    let target = self.target()?;
                    self.expect_operator("=")?;
                    values.push((target, self.expression()?));
                    if *self.token() != Token::EndBlock {
                        self.expect_operator(",")?;
                    }
                }
                Statement::With { values, body: self.block("endwith")? }
            }
            "generation" => Statement::Scope(self.block("endgeneration")?),
            "break" | "continue" => {
                self.end_block()?;
                if name == "break" { Statement::Break } else { Statement::Continue }
            }
            _ => return self.fail(format!("the block `{}` is not supported", shown(name))),
        })
    }

    fn if_statement(&mut self) -> Result<Statement> {
        let mut branches = Vec::new();
        let mut otherwise = Vec::new();
        loop {
            let condition = self.tuple(Self::unconditional)?;
            self.end_block()?;
            branches.push((condition, self.body(&["elif", "else", "endif"])?));
            if self.take_name("elif") {
                continue;
            }
            if self.take_name("else") {
                self.end_block()?;
                otherwise = self.body(&["endif"])?;
            }
            self.skip();
            self.end_block()?;
            return Ok(Statement::If { branches, otherwise });
        }
    }

    fn for_statement(&mut self) -> Result<Statement> {
        let target = self.targets()?;
        if !self.take_name("in") {
            return self.unexpected("`in`");
        }
        let items = self.tuple(Self::unconditional)?;
        let filter = if self.take_name("if") { Some(self.expression()?) } else { None };
        let recursive = self.take_name("recursive");
        self.end_block()?;
        let before = self.mentions[0];
        let body = self.body(&["else", "endfor"])?;
        let uses_loop = self.mentions[0] > before;
        let mut otherwise = Vec::new();
        if self.take_name("else") {
            self.end_block()?;
            otherwise = self.body(&["endfor"])?;
        }
        self.skip();
        self.end_block()?;
        let statement = For { target, items, filter, body, otherwise, recursive, uses_loop };
        self.program.loops.push(statement);
        Ok(Statement::For(self.program.loops.len() - 1))
    }

    fn set_statement(&mut self) -> Result<Statement> {
        let target = self.targets()?;
        if self.take_operator("=") {
            let value = self.tuple(Self::expression)?;
            self.end_block()?;
            return Ok(Statement::Set { target, value });
        }
        let mut filters: Vec<Filter> = Vec::new();
        while self.take_operator("|") {
            filters.push(self.filter()?);
        }
        Ok(Statement::SetBlock { target, filters, body: self.block("endset")? })
    }

    /// What a value is assigned to, several with commas.
    fn targets(&mut self) -> Result<Target> {
        let first = self.target()?;
        if !self.at_operator(",") {
            return Ok(first);
        }
        let mut targets = vec![first];
        while self.take_operator(",") && !self.at_name("in") && !self.at_operator("=") {
            targets.push(self.target()?);
        }
        Ok(Target::Tuple(targets))
    }

    fn target(&mut self) -> Result<Target> {
        if self.take_operator("(") {
            let target = self.nested(Self::targets)?;
            self.expect_operator(")")?;
            return Ok(target);
        }
        let name = self.expect_name("the name of a variable")?;
        if matches!(name.as_str(), "true" | "false" | "none" | "True" | "False" | "None") {
            return self.fail(format!("nothing can be assigned to `{name}`"));
        }
        if self.take_operator(".") {
            return Ok(Target::Attribute(name, self.expect_name("the name of an attribute")?));
        }
        Ok(Target::Name(name))
    }

    fn macro_body(&mut self, name: String, end: &str) -> Result<usize> {
        let parameters = self.parameters()?;
        self.macro_with(name, parameters, end)
    }

    fn macro_with(
        &mut self,
        name: String,
        parameters: Vec<(String, Option<Expr>)>,
        end: &str,
    ) -> Result<usize> {
        let before = self.mentions;
        let body = self.block(end)?;
        let uses = |name: usize| self.mentions[name] > before[name];
        let (uses_varargs, uses_kwargs, uses_caller) = (uses(1), uses(2), uses(3));
        let new = Macro { name, parameters, body, uses_varargs, uses_kwargs, uses_caller };
        self.program.macros.push(new);
        Ok(self.program.macros.len() - 1)
    }

    /// The parameters of a macro with their defaults.
    fn parameters(&mut self) -> Result<Vec<(String, Option<Expr>)>> {
        let mut parameters: Vec<(String, Option<Expr>)> = Vec::new();
        self.expect_operator("(")?;
        while !self.at_operator(")") {
            let name = self.expect_name("the name of a parameter")?;
            let default = if self.take_operator("=") { Some(self.expression()?) } else { None };
            if default.is_none() && parameters.iter().any(|(_, default)| default.is_some()) {
                return self.fail("a parameter without a default stands after one with a default");
            }
            parameters.push((name, default));
            if !self.at_operator(")") {
                self.expect_operator(",")?;
            }
        }
        self.skip();
        Ok(parameters)
    }
}
