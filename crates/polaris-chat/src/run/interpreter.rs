//! Statements, scopes and output.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use super::content::Content;
use super::heap::{Buffer, Heap, Limits, Origin};
use super::object::{Function, Loop, Object};
use super::show;
use crate::clock::DateTime;
use crate::error::{Error, Result};
use crate::syntax::ast::{For, Node, Program, Statement, Target};
use crate::value::Value;

/// How deep statements, expressions and calls of macros may nest while a template runs. Macros that follow a JSON
/// schema take about ten levels for each of its own; a level takes up to a kilobyte of the stack.
const MAX_DEPTH: usize = 500;

/// The levels of a call of a macro or loop, by the stack that it takes.
pub(super) const CALL: usize = 4;

/// Renders a program with these variables.
pub(crate) fn render<'t>(
    program: &'t Program,
    variables: impl IntoIterator<Item = (&'t str, &'t Value)>,
    now: Option<DateTime>,
    limits: Limits,
) -> Result<(String, Content)> {
    let heap = Heap::new(limits);
    let mut global = Scope::default();
    for (name, value) in variables {
        let origin = match name {
            "bos_token" | "eos_token" => Origin::Template,
            "messages" => Origin::Messages,
            _ => Origin::Content,
        };
        global.variables.insert(name, heap.import(value, 0, origin)?);
    }
    let mut interpreter = Interpreter {
        program,
        now,
        scopes: vec![global],
        current: 0,
        outputs: vec![heap.output()],
        depth: 0,
        line: 0,
        heap,
    };
    match interpreter.run(&program.body) {
        Ok(_) => Ok(interpreter.outputs.swap_remove(0).finish()),
        Err(error) => Err(error.at(interpreter.line)),
    }
}

/// What a statement does to the loop around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    Break,
    Continue,
}

#[derive(Debug, Default)]
pub(super) struct Scope<'t> {
    pub variables: BTreeMap<&'t str, Object>,
    pub parent: Option<usize>,
}

/// A running template. Scopes are a stack, and values refer to them by their place: what refers to a scope is only
/// stored in variables of scopes above it, so it is gone when the scope is.
pub(super) struct Interpreter<'t> {
    pub program: &'t Program,
    pub now: Option<DateTime>,
    pub heap: Heap,
    pub scopes: Vec<Scope<'t>>,
    pub current: usize,
    /// The result, and above it what is captured by macros and blocks.
    outputs: Vec<Buffer>,
    depth: usize,
    line: u32,
}

impl<'t> Interpreter<'t> {
    /// Runs `work` so many levels deeper.
    pub fn deeper<T>(
        &mut self,
        levels: usize,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        if self.depth + levels > MAX_DEPTH {
            return Err(Error::limit("the depth of its calls and expressions", MAX_DEPTH as u64));
        }
        self.depth += levels;
        let result = work(self);
        self.depth -= levels;
        result
    }

    pub fn lookup(&self, name: &str) -> Result<Object> {
        let mut scope = self.scopes.get(self.current);
        while let Some(here) = scope {
            if let Some(value) = here.variables.get(name) {
                return Ok(value.clone());
            }
            self.heap.step(1)?;
            scope = here.parent.and_then(|parent| self.scopes.get(parent));
        }
        let function = match name {
            "range" => Function::Range,
            "dict" => Function::Dict,
            "namespace" => Function::Namespace,
            "raise_exception" => Function::RaiseException,
            "strftime_now" if self.now.is_some() => Function::StrftimeNow,
            _ => return Ok(Object::Undefined),
        };
        Ok(Object::Function(function))
    }

    pub fn define(&mut self, name: &'t str, value: Object) {
        self.scopes[self.current].variables.insert(name, value);
    }

    /// Runs `work` in a new scope within another one.
    pub fn scoped<T>(
        &mut self,
        parent: usize,
        work: impl FnOnce(&mut Self) -> Result<T>,
    ) -> Result<T> {
        let (length, outer) = (self.scopes.len(), self.current);
        self.scopes.push(Scope { variables: BTreeMap::new(), parent: Some(parent) });
        self.current = length;
        let result = work(self);
        self.scopes.truncate(length);
        self.current = outer;
        result
    }

    /// What `work` writes, as text.
    pub fn captured(&mut self, work: impl FnOnce(&mut Self) -> Result<Flow>) -> Result<Object> {
        self.outputs.push(self.heap.buffer());
        work(self)?;
        let buffer = self.outputs.pop().unwrap_or_else(|| self.heap.buffer());
        buffer.into_object(&self.heap)
    }

    pub fn emit(&mut self, value: &Object) -> Result<()> {
        match self.outputs.last_mut() {
            Some(output) => show::write(value, &self.heap, output),
            None => Ok(()),
        }
    }

    pub fn run(&mut self, nodes: &'t [Node]) -> Result<Flow> {
        for node in nodes {
            self.line = node.line;
            let flow = self.deeper(1, |this| this.statement(node))?;
            if flow != Flow::Next {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn statement(&mut self, node: &'t Node) -> Result<Flow> {
        self.heap.step(1)?;
        match &node.statement {
            Statement::Text(text) => {
                self.heap.work(text.len())?;
                if let Some(output) = self.outputs.last_mut() {
                    output.push_str(text)?;
                }
            }
            Statement::Print(value) => {
                let value = self.evaluate(value)?;
                self.emit(&value)?;
            }
            Statement::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.evaluate(condition)?.truth() {
                        return self.run(body);
                    }
                }
                return self.run(otherwise);
            }
            Statement::For(index) => {
                let items = self.evaluate(&self.program.loops[*index].items)?;
                self.run_loop(*index, &items, self.current, 0)?;
            }
            Statement::Set { target, value } => {
                let value = self.evaluate(value)?;
                self.assign(target, value)?;
            }
            Statement::Macro(index) => {
                let name = self.program.macros[*index].name.as_str();
                self.define(name, Object::Macro { index: *index, scope: self.current });
            }
            block => return self.block(block),
        }
        Ok(Flow::Next)
    }

    /// The statements with a body that are less common.
    fn block(&mut self, statement: &'t Statement) -> Result<Flow> {
        match statement {
            Statement::SetBlock { target, filters, body } => {
                let value = self.filtered_block(filters, body)?;
                self.assign(target, value)?;
            }
            Statement::FilterBlock { filters, body } => {
                let value = self.filtered_block(filters, body)?;
                self.emit(&value)?;
            }
            Statement::CallBlock { caller, callee, arguments } => {
                let callee = self.evaluate(callee)?;
                let mut arguments = self.evaluate_arguments(arguments)?;
                let caller = Object::Macro { index: *caller, scope: self.current };
                arguments.named.push(("caller".to_owned(), caller));
                let value = self.call(&callee, arguments)?;
                self.emit(&value)?;
            }
            Statement::With { values, body } => {
                let mut evaluated = Vec::with_capacity(values.len());
                for (_, value) in values {
                    evaluated.push(self.evaluate(value)?);
                }
                return self.scoped(self.current, |this| {
                    for ((target, _), value) in values.iter().zip(evaluated) {
                        this.assign(target, value)?;
                    }
                    this.run(body)
                });
            }
            Statement::Scope(body) => return self.scoped(self.current, |this| this.run(body)),
            Statement::Break => return Ok(Flow::Break),
            Statement::Continue => return Ok(Flow::Continue),
            _ => {}
        }
        Ok(Flow::Next)
    }

    fn filtered_block(
        &mut self,
        filters: &'t [crate::syntax::ast::Filter],
        body: &'t [Node],
    ) -> Result<Object> {
        let mut value = self.captured(|this| this.scoped(this.current, |this| this.run(body)))?;
        for filter in filters {
            value = self.evaluate_filter(value, filter)?;
        }
        Ok(value)
    }

    fn assign(&mut self, target: &'t Target, value: Object) -> Result<()> {
        match target {
            Target::Name(name) => {
                self.define(name, value);
                Ok(())
            }
            Target::Attribute(name, attribute) => match self.lookup(name)? {
                Object::Namespace(namespace) => namespace.set(&self.heap, attribute, value),
                other => Err(Error::render(format!(
                    "`{name}` is {}; attributes can only be set in a namespace",
                    other.name()
                ))),
            },
            Target::Tuple(targets) => {
                let items = value.elements(&self.heap)?;
                if items.items.len() != targets.len() {
                    return Err(Error::render(format!(
                        "found {} values for {} variables",
                        items.items.len(),
                        targets.len()
                    )));
                }
                targets
                    .iter()
                    .zip(&items.items)
                    .try_for_each(|(target, item)| self.assign(target, item.clone()))
            }
        }
    }

    /// Runs a loop over the elements of a value, `depth` loops within itself.
    pub fn run_loop(
        &mut self,
        index: usize,
        items: &Object,
        scope: usize,
        depth: usize,
    ) -> Result<()> {
        let program = self.program;
        let statement = &program.loops[index];
        let mut items = items.elements(&self.heap)?;
        if let (Some(filter), true) = (&statement.filter, statement.uses_loop) {
            // The loop's length and neighbours are those of the items that pass the filter.
            let mut passed = Vec::new();
            for item in &items.items {
                if self.passes(statement, filter, item, scope)? {
                    passed.push(item.clone());
                }
            }
            items = self.heap.list(passed)?.elements(&self.heap)?;
        }
        let changed = RefCell::new(None);
        let state = Loop { items, at: Cell::new(0), depth, index, scope, changed };
        let state = Rc::new(state);
        let mut ran = false;
        for (at, item) in state.items.items.iter().enumerate() {
            self.heap.step(1)?;
            if let (Some(filter), false) = (&statement.filter, statement.uses_loop)
                && !self.passes(statement, filter, item, scope)?
            {
                continue;
            }
            ran = true;
            state.at.set(at);
            let flow = self.scoped(scope, |this| {
                if statement.uses_loop {
                    this.define("loop", Object::Loop(state.clone()));
                }
                this.assign(&statement.target, item.clone())?;
                this.run(&statement.body)
            })?;
            if flow == Flow::Break {
                break;
            }
        }
        if !ran {
            self.scoped(scope, |this| this.run(&statement.otherwise))?;
        }
        Ok(())
    }

    fn passes(
        &mut self,
        statement: &'t For,
        filter: &'t crate::syntax::ast::Expr,
        item: &Object,
        scope: usize,
    ) -> Result<bool> {
        self.scoped(scope, |this| {
            this.assign(&statement.target, item.clone())?;
            Ok(this.evaluate(filter)?.truth())
        })
    }
}
