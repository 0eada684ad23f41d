//! Inputs and outputs by name, checked against what the model declares.

use std::collections::HashMap;

use polaris_onnx::{Dim, Type, Value, ValueId};

use super::{Session, SessionValue};
use crate::{Error, Result};

impl Session {
    /// Inputs by place, checked against what the model declares.
    pub(super) fn check_inputs(
        &self,
        inputs: &[(&str, SessionValue)],
    ) -> Result<Vec<(ValueId, SessionValue)>> {
        let graph = self.graph();
        let wrong = |why: String| polaris_onnx::Error::input(why);
        let mut given = Vec::new();
        let mut names: HashMap<&str, usize> = HashMap::new();
        for (name, value) in inputs {
            let id = graph.inputs.iter().copied().find(|&id| graph.value(id).name == *name);
            let id = id.ok_or_else(|| {
                wrong(format!("the model has no input `{name}`; it has {}", self.inputs_in_words()))
            })?;
            if given.iter().any(|(other, _)| *other == id) {
                return Err(wrong(format!("the input `{name}` is given twice")).into());
            }
            if let Some(declared) = &graph.value(id).ty {
                check_type(name, declared, value, &mut names)?;
            }
            given.push((id, value.clone()));
        }
        let missing: Vec<&str> = graph
            .required_inputs()
            .filter(|id| !given.iter().any(|(other, _)| other == id))
            .map(|id| graph.value(id).name.as_str())
            .collect();
        if !missing.is_empty() {
            let (missing, all) = (missing.join("`, `"), self.inputs_in_words());
            return Err(
                wrong(format!("the input `{missing}` is missing; the model takes {all}")).into()
            );
        }
        Ok(given)
    }

    /// The outputs that are wanted, by place; all of them if none is named.
    pub(super) fn wanted_outputs(&self, names: Option<&[String]>) -> Result<Vec<ValueId>> {
        let graph = self.graph();
        let Some(names) = names else { return Ok(graph.outputs.clone()) };
        let named = |name: &String| {
            let id = graph.outputs.iter().copied().find(|&id| graph.value(id).name == *name);
            id.ok_or_else(|| {
                let all: Vec<&str> =
                    graph.outputs.iter().map(|&id| graph.value(id).name.as_str()).collect();
                let all = all.join("`, `");
                let why = format!("the model has no output `{name}`; it has `{all}`");
                polaris_onnx::Error::input(why).into()
            })
        };
        names.iter().map(named).collect()
    }

    /// The inputs with their types, for messages.
    pub fn inputs_in_words(&self) -> String {
        let one = |(name, ty): (&str, Option<&Type>)| {
            format!("`{name}`: {}", ty.map_or("any type".to_owned(), Type::to_string))
        };
        match self.inputs().into_iter().map(one).collect::<Vec<String>>().join(", ") {
            text if text.is_empty() => "none".to_owned(),
            text => text,
        }
    }
}

/// Whether a value is of a declared type. Names of lengths stand for the same number everywhere.
fn check_type<'a>(
    name: &str,
    declared: &'a Type,
    value: &SessionValue,
    lengths: &mut HashMap<&'a str, usize>,
) -> Result<()> {
    let found = value.ty();
    let wrong = |why: &str| -> Error {
        let why = format!("the input `{name}` should be {declared}, not {found}{why}");
        polaris_onnx::Error::input(why).into()
    };
    let (Type::Tensor(element, dims), Some((given, shape))) = (declared, found.known_tensor())
    else {
        let same = matches!(
            (declared, value),
            (Type::Sequence(_), SessionValue::Host(Value::Sequence(_)))
                | (Type::Optional(_) | Type::Other(_), _)
        );
        return if same { Ok(()) } else { Err(wrong("")) };
    };
    if *element != given {
        return Err(wrong(""));
    }
    let Some(dims) = dims else { return Ok(()) };
    if dims.len() != shape.len() {
        return Err(wrong(""));
    }
    for (dim, &length) in dims.iter().zip(&shape) {
        match dim {
            Dim::Known(expected) if *expected != length => return Err(wrong("")),
            Dim::Named(name) => {
                let known = *lengths.entry(name).or_insert(length);
                if known != length {
                    return Err(wrong(&format!(": `{name}` is {known} in another place")));
                }
            }
            _ => {}
        }
    }
    Ok(())
}
