//! Models as ONNX, so that other engines compute what was learned here; language models also as GGUF ([`Gguf`]).
//!
//! Each layer writes its own nodes ([`Module::export`]), beside the code that computes it: one that cannot be
//! exported says so. What is written is the model as it is evaluated, in `f32`; what was trained as integers is written as
//! integers with their scales.

mod fold;
#[cfg(feature = "text")]
mod gguf;
mod integers;
#[cfg(feature = "text")]
mod vocabulary;
mod writer;

#[cfg(feature = "text")]
pub use gguf::Gguf;
#[cfg(feature = "text")]
pub use polaris_gguf::TensorType;
pub use polaris_onnx::Attribute;
pub use writer::{Value, Writer, element};

use polaris_onnx::{Dim, ElementType, Type};
use polaris_tensor::no_grad;
use serde::Serialize;

use crate::train::ModelFile;
use crate::{Error, Module, Result};

/// The version of operators that models are written in, unless they have integers that are newer.
pub const OPSET: i64 = 17;

/// A length: a number, or the name of one that callers choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Length {
    /// A number.
    Known(usize),
    /// Lengths of the same name are the same.
    Open(&'static str),
}

/// What a model gets or gives.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct End {
    /// Its name.
    pub name: &'static str,
    /// The type of its elements, `f32` or `i64`.
    #[serde(rename = "type")]
    pub element: &'static str,
    /// The length of each axis.
    pub shape: Vec<Length>,
}

impl End {
    /// Numbers, or, with `tokens`, integers.
    pub fn new(name: &'static str, tokens: bool, shape: Vec<Length>) -> Self {
        Self { name, element: if tokens { "i64" } else { "f32" }, shape }
    }

    fn ty(&self) -> Type {
        let dim = |length: &Length| match length {
            Length::Known(length) => Dim::Known(*length),
            Length::Open(name) => Dim::Named((*name).to_owned()),
        };
        let element = if self.element == "i64" { ElementType::I64 } else { ElementType::F32 };
        Type::tensor(element, self.shape.iter().map(dim))
    }
}

/// A model as a file of ONNX.
#[derive(Debug, Clone, PartialEq)]
pub struct Onnx {
    /// The file.
    pub bytes: Vec<u8>,
    /// The version of its operators.
    pub opset: i64,
    /// What it gets.
    pub input: End,
    /// What it gives.
    pub output: End,
}

impl Onnx {
    /// A trained model, with what is known about it in its metadata: `task`, `classes` as a list in JSON, and
    /// for text `context` and `tokenizer`, its own file or `bytes`.
    ///
    /// # Errors
    /// If a layer cannot be exported, or the file would be larger than the format allows.
    pub fn of(about: &ModelFile, model: &dyn Module) -> Result<Self> {
        let batch = Length::Open("batch");
        let outputs = Length::Known(about.outputs);
        let reads_tokens = about.config.model.reads_tokens();
        let (input, output) = if reads_tokens {
            let tokens = [batch, Length::Open("tokens")];
            (tokens.to_vec(), [&tokens[..], &[outputs]].concat())
        } else {
            let example = about.input.iter().map(|&length| Length::Known(length));
            (std::iter::once(batch.clone()).chain(example).collect(), vec![batch, outputs])
        };
        let json = |value: serde_json::Result<String>| {
            value.map_err(|error| Error::invalid(error.to_string()))
        };
        let task = json(serde_json::to_string(&about.task))?;
        let mut words = vec![("task", task.trim_matches('"').to_owned())];
        if !about.classes.is_empty() {
            words.push(("classes", json(serde_json::to_string(&about.classes))?));
        }
        if reads_tokens {
            let context: usize = about.input.iter().product();
            words.push(("context", context.to_string()));
            let tokenizer = about.tokenizer.clone();
            words.push(("tokenizer", tokenizer.unwrap_or_else(|| "bytes".to_owned())));
        }
        let (input, output) =
            (End::new("input", reads_tokens, input), End::new("output", false, output));
        Self::between(model, input, output, &words)
    }

    /// Any model between what it gets and gives, with words about it.
    ///
    /// # Errors
    /// If a layer cannot be exported, or the file would be larger than the format allows.
    pub fn between(
        model: &dyn Module,
        input: End,
        output: End,
        words: &[(&str, String)],
    ) -> Result<Self> {
        let opset = integers::opset_of(model)?;
        let mut writer = Writer::new("polaris", &input, &output, opset);
        let x = Value::new(input.name, input.shape.len());
        let last = no_grad(|| model.export(&x, &mut writer))?;
        if last.rank() != output.shape.len() {
            let (found, expected) = (last.rank(), output.shape.len());
            return Err(writer.refusal(format!("it gives {found} axes, not {expected}")));
        }
        let mut model = writer.finish(&last, &output)?;
        fold::fold(&mut model.graph)?;
        let entry = |(key, value): &(&str, String)| ((*key).to_owned(), value.clone());
        model.metadata = words.iter().map(entry).collect();
        let bytes = model.to_bytes().map_err(|error| refusal(error.to_string()))?;
        Ok(Self { bytes, opset, input, output })
    }
}

/// Why a model as a whole cannot be exported.
fn refusal(why: String) -> Error {
    Error::NoExport { layer: "the model".to_owned(), why }
}
