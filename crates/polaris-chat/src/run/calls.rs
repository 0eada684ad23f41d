//! Calls of macros, loops and functions.

use std::rc::Rc;

use super::arguments::{Arguments, integer, size};
use super::interpreter::{CALL, Flow, Interpreter};
use super::object::{Function, Kind, Namespace, Object};
use super::operators;
use super::{methods, show};
use crate::error::{Error, Result, shown};

/// The longest `range`, as in Jinja's sandbox.
const MAX_RANGE: usize = 100_000;

impl Interpreter<'_> {
    pub(super) fn call(&mut self, callee: &Object, arguments: Arguments) -> Result<Object> {
        match callee {
            Object::Macro { index, scope } => {
                self.deeper(CALL, |this| this.call_macro(*index, *scope, arguments))
            }
            Object::Loop(state) if self.program.loops[state.index].recursive => {
                let [items] = arguments.take(["iterable"])?;
                let items = items.unwrap_or(Object::Undefined);
                let (index, scope, depth) = (state.index, state.scope, state.depth + 1);
                self.captured(|this| {
                    this.deeper(CALL, |this| this.run_loop(index, &items, scope, depth))?;
                    Ok(Flow::Next)
                })
            }
            Object::Method(method) => methods::call(&self.heap, &method.0, method.1, arguments),
            Object::Function(function) => self.call_function(*function, arguments),
            Object::Undefined => Err(Error::render("an undefined value is called")),
            other => Err(Error::render(format!("{} cannot be called", other.name()))),
        }
    }

    fn call_macro(&mut self, index: usize, scope: usize, arguments: Arguments) -> Result<Object> {
        let program = self.program;
        let definition = &program.macros[index];
        let parameters = &definition.parameters;
        let Arguments { mut positional, mut named } = arguments;
        let more = positional.split_off(positional.len().min(parameters.len()));
        self.captured(|this| {
            this.scoped(scope, |this| {
                for (place, (name, default)) in parameters.iter().enumerate() {
                    let given = match positional.get_mut(place) {
                        Some(value) => Some(std::mem::replace(value, Object::None)),
                        None => named
                            .iter()
                            .position(|(given, _)| given == name)
                            .map(|found| named.remove(found).1),
                    };
                    let value = match (given, default) {
                        (Some(value), _) => value,
                        (None, Some(default)) => this.evaluate(default)?,
                        (None, None) => Object::Undefined,
                    };
                    this.define(name, value);
                }
                if definition.uses_caller && !parameters.iter().any(|(name, _)| name == "caller") {
                    let caller = named.iter().position(|(name, _)| name == "caller");
                    let caller = caller.map(|found| named.remove(found).1);
                    this.define("caller", caller.unwrap_or(Object::Undefined));
                }
                if definition.uses_kwargs {
                    let mut entries = Vec::with_capacity(named.len());
                    for (name, value) in named.drain(..) {
                        // They may come from a map of the conversation.
                        entries.push((this.heap.content(name)?, value));
                    }
                    let kwargs = this.heap.map(entries)?;
                    this.define("kwargs", kwargs);
                } else if let Some((name, _)) = named.first() {
                    return Err(Error::render(format!(
                        "the macro `{}` has no parameter `{}`",
                        shown(&definition.name),
                        shown(name)
                    )));
                }
                if definition.uses_varargs {
                    let varargs = this.heap.sequence(more, Kind::Tuple)?;
                    this.define("varargs", varargs);
                } else if !more.is_empty() {
                    return Err(Error::render(format!(
                        "the macro `{}` is called with {} arguments; it accepts {}",
                        shown(&definition.name),
                        parameters.len() + more.len(),
                        parameters.len()
                    )));
                }
                this.run(&definition.body)
            })
        })
    }

    fn call_function(&mut self, function: Function, arguments: Arguments) -> Result<Object> {
        match function {
            Function::Range => self.range(arguments),
            Function::Dict => {
                let entries = self.entries(arguments)?;
                self.heap.map(entries)
            }
            Function::Namespace => {
                let namespace = Namespace::default();
                for (name, value) in self.entries(arguments)? {
                    let Object::Text(name) = name else {
                        return Err(Error::render("the name of an attribute is no string"));
                    };
                    namespace.set(&self.heap, &name, value)?;
                }
                Ok(Object::Namespace(Rc::new(namespace)))
            }
            Function::RaiseException => {
                let [message] = arguments.take(["message"])?;
                let message = message.unwrap_or(Object::Undefined);
                // Shown to a person: a longer one says nothing more.
                const LONGEST: usize = 2_000;
                let message = show::to_text(&message, &self.heap)?;
                Err(Error::Refused { message: message.chars().take(LONGEST).collect() })
            }
            Function::StrftimeNow => {
                let [pattern] = arguments.take(["format"])?;
                match (pattern, self.now) {
                    (Some(Object::Text(pattern)), Some(now)) => {
                        self.heap.derived(now.format(&pattern)?, &pattern)
                    }
                    _ => Err(Error::render("strftime_now needs a pattern such as `%Y-%m-%d`")),
                }
            }
        }
    }

    /// The entries that `dict` and `namespace` are called with: those of a map or of pairs, then the named ones.
    fn entries(&mut self, arguments: Arguments) -> Result<Vec<(Object, Object)>> {
        let Arguments { positional, named } = arguments;
        let mut entries = Vec::new();
        match positional.as_slice() {
            [] => {}
            [Object::Undefined] => {
                return Err(Error::render("a map is made of an undefined value"));
            }
            [Object::Map(map)] => {
                self.heap.room_for_items(map.entries.len() * 2)?;
                entries.extend(map.entries.iter().cloned());
            }
            [pairs] => {
                for pair in &pairs.elements(&self.heap)?.items {
                    match pair.elements(&self.heap)?.items.as_slice() {
                        [key, value] => {
                            operators::insert(&self.heap, &mut entries, key.clone(), value.clone())?
                        }
                        _ => return Err(Error::render("an entry of a map is no pair")),
                    }
                }
            }
            _ => {
                return Err(Error::render(
                    "`dict` and `namespace` accept one value without a name",
                ));
            }
        }
        for (name, value) in named {
            // It may come from a map of the conversation.
            let name = self.heap.content(name)?;
            operators::insert(&self.heap, &mut entries, name, value)?;
        }
        Ok(entries)
    }

    fn range(&mut self, arguments: Arguments) -> Result<Object> {
        let given = arguments.positional.len();
        let [first, second, step] = arguments.take(["start", "stop", "step"])?;
        if given == 0 {
            return Err(Error::render("`range` needs a number"));
        }
        let (start, stop) = match second {
            None => (0, integer(&first, "stop", 0)?),
            Some(_) => (integer(&first, "start", 0)?, integer(&second, "stop", 0)?),
        };
        let step = integer(&step, "step", 1)?;
        if step == 0 {
            return Err(Error::render("the step of a range is 0"));
        }
        let distance =
            if step > 0 { stop.saturating_sub(start) } else { start.saturating_sub(stop) };
        let (distance, by) = (distance.max(0), step.saturating_abs());
        let count = size(distance / by + i128::from(distance % by != 0));
        if count > MAX_RANGE {
            return Err(Error::limit("the length of a range", MAX_RANGE as u64));
        }
        self.heap.room_for_items(count)?;
        let items = (0..count as i128).map(|at| Object::Int(start + at * step));
        self.heap.list(items.collect())
    }
}
