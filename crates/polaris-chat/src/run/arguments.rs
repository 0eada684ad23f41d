//! The arguments of a call of a filter, test, method or function.

use super::object::{Object, Text};
use crate::error::{Error, Result, shown};

#[derive(Debug, Default)]
pub(super) struct Arguments {
    pub positional: Vec<Object>,
    pub named: Vec<(String, Object)>,
}

impl Arguments {
    /// The arguments for these parameters, by place or by name.
    pub fn take<const N: usize>(self, parameters: [&str; N]) -> Result<[Option<Object>; N]> {
        let mut values = [const { None }; N];
        if self.positional.len() > N {
            let found = self.positional.len();
            return Err(Error::render(format!("found {found} arguments where {N} are accepted")));
        }
        for (place, value) in self.positional.into_iter().enumerate() {
            values[place] = Some(value);
        }
        for (name, value) in self.named {
            match parameters.iter().position(|parameter| *parameter == name) {
                Some(place) if values[place].is_none() => values[place] = Some(value),
                Some(_) => {
                    return Err(Error::render(format!("the argument `{name}` is given twice")));
                }
                None => {
                    return Err(Error::render(format!(
                        "there is no parameter `{}`; accepted are: {}",
                        shown(&name),
                        parameters.join(", ")
                    )));
                }
            }
        }
        Ok(values)
    }

    pub fn none(self) -> Result<()> {
        self.take([]).map(|[]| ())
    }
}

/// An argument that has to be text.
pub(super) fn text<'o>(value: &'o Option<Object>, name: &str) -> Result<&'o str> {
    text_object(value, name).map(|text| &*text.text)
}

/// An argument that has to be text, with what of it is content.
pub(super) fn text_object<'o>(value: &'o Option<Object>, name: &str) -> Result<&'o Text> {
    match value {
        Some(Object::Text(text)) => Ok(text),
        Some(other) => {
            Err(Error::render(format!("the argument `{name}` is {}, not a string", other.name())))
        }
        None => Err(Error::render(format!("the argument `{name}` is missing"))),
    }
}

/// An argument that is an integer; the default where it is not given.
pub(super) fn integer(value: &Option<Object>, name: &str, default: i128) -> Result<i128> {
    match value {
        None => Ok(default),
        Some(Object::Int(value)) => Ok(*value),
        Some(Object::Bool(value)) => Ok((*value).into()),
        Some(other) => {
            Err(Error::render(format!("the argument `{name}` is {}, not an integer", other.name())))
        }
    }
}

/// An integer as a size: what is too large for memory stays too large.
pub(super) fn size(value: i128) -> usize {
    usize::try_from(value.max(0)).unwrap_or(usize::MAX)
}
