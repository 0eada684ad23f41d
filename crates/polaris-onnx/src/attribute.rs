//! Parameters of nodes.

use std::sync::Arc;

use crate::{Error, Graph, Result, Tensor, Type};

/// A parameter of a node.
#[derive(Debug, Clone)]
pub enum Attribute {
    /// A number.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A string; its bytes need not be text.
    String(Vec<u8>),
    /// A tensor.
    Tensor(Tensor),
    /// A graph.
    Graph(Arc<Graph>),
    /// Numbers.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Strings.
    Strings(Vec<Vec<u8>>),
    /// Tensors.
    Tensors(Vec<Tensor>),
    /// A type.
    Type(Type),
}

/// The parameters of a node by their names.
#[derive(Debug, Clone, Default)]
pub struct Attributes(Vec<(String, Attribute)>);

impl Attributes {
    pub(crate) fn push(&mut self, name: &str, attribute: Attribute) -> Result<()> {
        if self.get(name).is_some() {
            return Err(Error::format(format!("the attribute `{name}` occurs twice")));
        }
        self.0.push((name.to_owned(), attribute));
        Ok(())
    }

    /// Sets a parameter, replacing what was there.
    pub fn set(&mut self, name: &str, attribute: Attribute) {
        self.0.retain(|(other, _)| other != name);
        self.0.push((name.to_owned(), attribute));
    }

    /// Removes a parameter, if it is there.
    pub fn remove(&mut self, name: &str) {
        self.0.retain(|(other, _)| other != name);
    }

    /// A parameter.
    pub fn get(&self, name: &str) -> Option<&Attribute> {
        self.0.iter().find(|(other, _)| other == name).map(|(_, attribute)| attribute)
    }

    /// All of them, in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Attribute)> {
        self.0.iter().map(|(name, attribute)| (name.as_str(), attribute))
    }

    /// An integer, if it is there.
    ///
    /// # Errors
    /// If it is something else.
    pub fn int(&self, name: &str) -> Result<Option<i64>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Int(value)) => Ok(Some(*value)),
            Some(other) => Err(wrong(name, "an integer", other)),
        }
    }

    /// An integer, or what stands for it.
    ///
    /// # Errors
    /// If it is something else.
    pub fn int_or(&self, name: &str, default: i64) -> Result<i64> {
        Ok(self.int(name)?.unwrap_or(default))
    }

    /// An integer that says yes or no, or what stands for it.
    ///
    /// # Errors
    /// If it is something else.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.int(name)?.map_or(default, |value| value != 0))
    }

    /// Integers, if they are there. A single one counts.
    ///
    /// # Errors
    /// If it is something else.
    pub fn ints(&self, name: &str) -> Result<Option<&[i64]>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Ints(values)) => Ok(Some(values)),
            Some(Attribute::Int(value)) => Ok(Some(std::slice::from_ref(value))),
            Some(other) => Err(wrong(name, "integers", other)),
        }
    }

    /// A number, if it is there.
    ///
    /// # Errors
    /// If it is something else.
    pub fn float(&self, name: &str) -> Result<Option<f32>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Float(value)) => Ok(Some(*value)),
            Some(other) => Err(wrong(name, "a number", other)),
        }
    }

    /// A number, or what stands for it.
    ///
    /// # Errors
    /// If it is something else.
    pub fn float_or(&self, name: &str, default: f32) -> Result<f32> {
        Ok(self.float(name)?.unwrap_or(default))
    }

    /// Numbers, if they are there.
    ///
    /// # Errors
    /// If it is something else.
    pub fn floats(&self, name: &str) -> Result<Option<&[f32]>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Floats(values)) => Ok(Some(values)),
            Some(other) => Err(wrong(name, "numbers", other)),
        }
    }

    /// A string, if it is there.
    ///
    /// # Errors
    /// If it is something else, or no text.
    pub fn string(&self, name: &str) -> Result<Option<&str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::String(bytes)) => text(name, bytes).map(Some),
            Some(other) => Err(wrong(name, "a string", other)),
        }
    }

    /// A string, or what stands for it.
    ///
    /// # Errors
    /// If it is something else, or no text.
    pub fn string_or<'a>(&'a self, name: &str, default: &'a str) -> Result<&'a str> {
        Ok(self.string(name)?.unwrap_or(default))
    }

    /// Strings, if they are there.
    ///
    /// # Errors
    /// If it is something else, or no text.
    pub fn strings(&self, name: &str) -> Result<Option<Vec<&str>>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Strings(values)) => {
                values.iter().map(|bytes| text(name, bytes)).collect::<Result<_>>().map(Some)
            }
            Some(other) => Err(wrong(name, "strings", other)),
        }
    }

    /// A tensor, if it is there.
    ///
    /// # Errors
    /// If it is something else.
    pub fn tensor(&self, name: &str) -> Result<Option<&Tensor>> {
        match self.get(name) {
            None => Ok(None),
            Some(Attribute::Tensor(value)) => Ok(Some(value)),
            Some(other) => Err(wrong(name, "a tensor", other)),
        }
    }

    /// A graph.
    ///
    /// # Errors
    /// If it is something else or missing.
    pub fn graph(&self, name: &str) -> Result<&Arc<Graph>> {
        match self.get(name) {
            Some(Attribute::Graph(graph)) => Ok(graph),
            Some(other) => Err(wrong(name, "a graph", other)),
            None => Err(Error::operands(format!("the attribute `{name}` is missing"))),
        }
    }

    /// The graphs among them, to be changed.
    pub fn graphs_mut(&mut self) -> impl Iterator<Item = &mut Arc<Graph>> {
        self.0.iter_mut().filter_map(|(_, attribute)| match attribute {
            Attribute::Graph(graph) => Some(graph),
            _ => None,
        })
    }

    /// The graphs among them.
    pub fn graphs(&self) -> impl Iterator<Item = &Arc<Graph>> {
        self.0.iter().filter_map(|(_, attribute)| match attribute {
            Attribute::Graph(graph) => Some(graph),
            _ => None,
        })
    }
}

fn text<'a>(name: &str, bytes: &'a [u8]) -> Result<&'a str> {
    std::str::from_utf8(bytes)
        .map_err(|_| Error::operands(format!("the attribute `{name}` is not UTF-8")))
}

fn wrong(name: &str, expected: &str, found: &Attribute) -> Error {
    let found = match found {
        Attribute::Float(_) => "a number",
        Attribute::Int(_) => "an integer",
        Attribute::String(_) => "a string",
        Attribute::Tensor(_) => "a tensor",
        Attribute::Graph(_) => "a graph",
        Attribute::Floats(_) => "numbers",
        Attribute::Ints(_) => "integers",
        Attribute::Strings(_) => "strings",
        Attribute::Tensors(_) => "tensors",
        Attribute::Type(_) => "a type",
    };
    Error::operands(format!("the attribute `{name}` should be {expected}, not {found}"))
}
