//! The encoder: a session, its inputs, and the output that is used.

use polaris_data::Sentence;
use polaris_graph::Session;
use polaris_graph::plan::Side;
use polaris_onnx::{Dim, ElementType, Tensor, Type, Value};
use polaris_runtime::Runtime;

use super::batches::Batch;
use super::files::Files;
use crate::bert::{self, Config, Weights};
use crate::{Error, Result};

/// What an input holds for each token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meaning {
    Token,
    Mask,
    TokenType,
    Position,
}

const MEANINGS: [(&str, Meaning); 5] = [
    ("input_ids", Meaning::Token),
    ("attention_mask", Meaning::Mask),
    ("token_type_ids", Meaning::TokenType),
    ("segment_ids", Meaning::TokenType),
    ("position_ids", Meaning::Position),
];

/// Outputs by the names that exporters give them, best first: a vector for each token, which can be pooled in any
/// way, before one for the text.
const OUTPUTS: [&str; 4] =
    ["last_hidden_state", "token_embeddings", "sentence_embedding", "text_embeds"];

/// The longest batch, text or vector that a model may declare: far more than any has.
const LONGEST: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Encoder {
    session: Session,
    inputs: Vec<(String, Meaning, ElementType)>,
    output: usize,
    /// Numbers of a vector, if the file says it.
    pub dimension: Option<usize>,
    /// Tokens that the model knows, if that is known.
    pub vocabulary: Option<usize>,
    /// The most tokens that the model has positions for, if that is known.
    pub most_tokens: Option<usize>,
    /// The only number of texts that the model takes, if there is one.
    pub only_batch: Option<usize>,
    /// The only length that the model takes, if there is one.
    pub only_length: Option<usize>,
}

impl Encoder {
    pub fn open(
        runtime: &Runtime,
        files: &Files,
        options: &polaris_graph::Options,
    ) -> Result<Self> {
        let is_onnx = files.model.extension().is_some_and(|extension| extension == "onnx");
        if is_onnx {
            // Other families have other configurations; what they have in common is enough here.
            let json = files.config.as_deref().map(super::files::read).transpose()?.flatten();
            let json = json.unwrap_or_default();
            let number = |name: &str| json[name].as_u64().and_then(|n| usize::try_from(n).ok());
            let session = Session::open(runtime, &files.model, options)?;
            let positions = match (json["model_type"].as_str(), number("max_position_embeddings")) {
                // Those up to the padding's are kept free.
                (Some("roberta" | "xlm-roberta" | "camembert" | "mpnet"), Some(rows)) => {
                    Some(rows.saturating_sub(number("pad_token_id").unwrap_or(1).saturating_add(1)))
                }
                (_, rows) => rows,
            };
            return Self::new(session, number("vocab_size"), positions);
        }
        let config = files.config.as_deref().ok_or_else(|| {
            Error::file(
                &files.model,
                "there is no config.json next to it, which describes the model",
            )
        })?;
        let (config, weights) = (Config::read(config)?, Weights::open(&files.model)?);
        let vocabulary = weights.vocabulary();
        let session = Session::new(runtime, bert::model(&config, &weights)?, options)?;
        Self::new(session, vocabulary, Some(config.most_tokens()))
    }

    fn new(session: Session, vocabulary: Option<usize>, positions: Option<usize>) -> Result<Self> {
        let not = |why: String| Error::NotAnEncoder { why };
        let (mut only_batch, mut only_length) = (None, None);
        let mut inputs = Vec::new();
        for (name, ty) in session.inputs() {
            let meaning =
                MEANINGS.iter().find(|(known, _)| *known == name).map(|(_, meaning)| *meaning);
            let element = match ty {
                Some(Type::Tensor(element, _)) if element.is_integer() => Some(*element),
                None => Some(ElementType::I64),
                _ => None,
            };
            let (Some(meaning), Some(element)) = (meaning, element) else {
                return Err(not(format!(
                    "it takes {}, and what is known to be asked for are integers named input_ids, \
                     attention_mask, token_type_ids and position_ids",
                    session.inputs_in_words()
                )));
            };
            if let Some(Type::Tensor(_, Some(dims))) = ty {
                let [batch, length] = &dims[..] else {
                    return Err(not(format!(
                        "its input `{name}` does not have the shape [batch, tokens]"
                    )));
                };
                only_batch = only_batch.or(batch.known());
                only_length = only_length.or(length.known());
            }
            inputs.push((name.to_owned(), meaning, element));
        }
        if !inputs.iter().any(|(_, meaning, _)| *meaning == Meaning::Token) {
            return Err(not("it has no input `input_ids`".to_owned()));
        }
        let outputs = session.outputs();
        let named = |wanted: &str| outputs.iter().position(|(name, _)| *name == wanted);
        let output = OUTPUTS.iter().find_map(|name| named(name)).unwrap_or(0);
        let dimension = match outputs.get(output) {
            None => return Err(not("it has no output".to_owned())),
            Some((_, Some(Type::Tensor(_, Some(dims))))) => dims.last().and_then(Dim::known),
            Some(_) => None,
        };
        for (what, length) in [("batch", only_batch), ("text", only_length), ("vector", dimension)]
        {
            if let Some(length) = length.filter(|length| !(1..=LONGEST).contains(length)) {
                return Err(not(format!(
                    "it declares a {what} of {length}; from 1 to {LONGEST} is accepted"
                )));
            }
        }
        let most_tokens = [positions, only_length].into_iter().flatten().min();
        Ok(Self {
            session,
            inputs,
            output,
            dimension,
            vocabulary,
            most_tokens,
            only_batch,
            only_length,
        })
    }

    /// Whether it runs on another device than the CPU.
    pub fn on_device(&self) -> bool {
        self.session.side() == Side::Gpu
    }

    pub fn device(&self) -> String {
        self.session.device().id().to_string()
    }

    /// The output for a batch; rows without a text are one token of padding, of which nobody reads the result.
    pub fn run(&self, texts: &[&Sentence], batch: Batch, padding: u32) -> Result<Output> {
        let Batch { rows, length, .. } = batch;
        let mut given = Vec::with_capacity(self.inputs.len());
        for (name, meaning, element) in &self.inputs {
            let mut values: Vec<i64> = Vec::new();
            let room =
                rows.checked_mul(length).filter(|&room| values.try_reserve_exact(room).is_ok());
            let Some(room) = room else {
                let why =
                    format!("not enough memory for an input of {rows} texts of {length} tokens");
                return Err(Error::NotAnEncoder { why });
            };
            values.resize(room, 0);
            for (row, values) in values.chunks_exact_mut(length.max(1)).enumerate() {
                let text = texts.get(row);
                let count = text.map_or(1, |text| text.ids.len());
                match meaning {
                    Meaning::Token => {
                        values.fill(padding.into());
                        fill(values, text.map_or(&[], |text| &text.ids));
                    }
                    Meaning::TokenType => fill(values, text.map_or(&[], |text| &text.types)),
                    // A row of nothing but padding would have no scores to share out.
                    Meaning::Mask => values[..count].fill(1),
                    Meaning::Position => {
                        values.iter_mut().enumerate().for_each(|(at, value)| *value = at as i64);
                    }
                }
            }
            let shape = [rows, length];
            let tensor = match element {
                ElementType::I64 => Tensor::new(&shape, values)?,
                ElementType::I32 => {
                    Tensor::new(&shape, values.into_iter().map(|value| value as i32).collect())?
                }
                other => {
                    let wide: Vec<i128> = values.into_iter().map(i128::from).collect();
                    Tensor::from_integers(*other, &shape, &wide)?
                }
            };
            given.push((name.as_str(), Value::Tensor(tensor)));
        }
        let (_, value) = self.session.run(&given)?.swap_remove(self.output);
        let tensor = value.tensor()?;
        let shape = tensor.shape().to_vec();
        let fits = match shape[..] {
            [found, tokens, width] => (found, tokens) == (rows, length) && width > 0,
            [found, width] => found == rows && width > 0,
            _ => false,
        };
        if !fits {
            let why = format!(
                "its output has shape {shape:?}; expected [{rows}, {length}, N] or [{rows}, N]"
            );
            return Err(Error::NotAnEncoder { why });
        }
        let values = match tensor.element() {
            ElementType::F32 => tensor.values::<f32>()?.into_owned(),
            _ => tensor.to_f64()?.into_iter().map(|x| x as f32).collect(),
        };
        Ok(Output { values, shape })
    }
}

fn fill(values: &mut [i64], from: &[u32]) {
    values.iter_mut().zip(from).for_each(|(value, &token)| *value = token.into());
}

/// What the model made of a batch.
#[derive(Debug)]
pub(super) struct Output {
    values: Vec<f32>,
    shape: Vec<usize>,
}

impl Output {
    pub fn dimension(&self) -> usize {
        self.shape[self.shape.len() - 1]
    }

    /// # Errors
    /// If vectors have not as many numbers as they should.
    pub fn check(&self, dimension: usize) -> Result<()> {
        match self.dimension() {
            found if found == dimension => Ok(()),
            found => {
                let why = format!("its vectors have {found} numbers, and then {dimension}");
                Err(Error::NotAnEncoder { why })
            }
        }
    }

    /// The vectors of a row's first tokens, if there is one for each token.
    pub fn tokens(&self, row: usize, count: usize) -> Option<&[f32]> {
        let [_, length, width] = self.shape[..] else { return None };
        Some(&self.values[row * length * width..][..count * width])
    }

    /// The vector of a row.
    pub fn pooled(&self, row: usize) -> &[f32] {
        let width = self.dimension();
        &self.values[row * width..][..width]
    }
}
