//! Text embeddings.
//!
//! ```no_run
//! use polaris_models::embed::{Embedder, Options};
//! use polaris_runtime::{Runtime, RuntimeOptions};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let runtime = Runtime::discover(&RuntimeOptions::default())?;
//! let embedder = Embedder::open(&runtime, "all-MiniLM-L6-v2".as_ref(), &Options::default())?;
//! let vectors = embedder.embed(&["A cat sleeps.", "Eine Katze schläft."])?;
//! let cosine: f32 = vectors[0].iter().zip(&vectors[1]).map(|(a, b)| a * b).sum();
//! println!("{cosine}");
//! # Ok(())
//! # }
//! ```

mod batches;
mod encoder;
mod files;
mod pooling;
mod stream;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use polaris_data::{Sentence, SentenceTokenizer};
use polaris_runtime::Runtime;

pub use pooling::{Pooling, normalise};
pub use stream::{Listener, Summary};

use crate::{Error, Result};
use batches::Shapes;
use encoder::Encoder;

/// About how many tokens a batch has on the CPU, where its numbers should stay in the caches, and on a device
/// that wants much to do at once.
const TOKENS: [usize; 2] = [1024, 16384];
/// The most tokens of a text where no file says another number.
const LIMIT: usize = 512;

/// How a model is loaded and used. What is not said is taken from the model's files.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The `tokenizer.json`, if it does not lie next to the model.
    pub tokenizer: Option<PathBuf>,
    /// How tokens become one vector; where nobody says it, by their mean.
    pub pooling: Option<Pooling>,
    /// Whether vectors get the length 1; where nobody says it, they do.
    pub normalise: Option<bool>,
    /// Texts in a batch, whatever their length; otherwise a number that suits device and length.
    pub batch: Option<usize>,
    /// The most tokens of a text; what follows is cut off.
    pub max_tokens: Option<usize>,
    /// Where it runs.
    pub run: polaris_graph::Options,
}

/// A model that turns text into vectors.
#[derive(Debug)]
pub struct Embedder {
    encoder: Encoder,
    reader: Arc<Reader>,
    shapes: Shapes,
    pooling: Pooling,
    normalise: bool,
    dimension: usize,
}

/// From text to tokens, on any thread.
#[derive(Debug)]
struct Reader {
    tokenizer: SentenceTokenizer,
    lower_case: bool,
    threads: usize,
}

impl Embedder {
    /// Loads a model: a folder with `model.onnx`, `onnx/model.onnx` or `model.safetensors` and `config.json`, and
    /// with `tokenizer.json`, or such a file beside its tokenizer.
    ///
    /// # Errors
    /// If a part is missing or broken, or the options do not fit it.
    pub fn open(runtime: &Runtime, path: &Path, options: &Options) -> Result<Self> {
        let files = files::find(path, options.tokenizer.as_deref(), options.pooling.is_none())?;
        let mut tokenizer = SentenceTokenizer::from_file(&files.tokenizer)?;
        let encoder = Encoder::open(runtime, &files, &options.run)?;
        if let Some(rows) = encoder.vocabulary
            && tokenizer.vocabulary() > rows
        {
            let found = tokenizer.vocabulary();
            let why = format!(
                "it has {found} tokens, but the model has {rows}; use the tokenizer of this model"
            );
            return Err(Error::file(&files.tokenizer, why));
        }
        let most = encoder.most_tokens;
        let limit = match options.max_tokens {
            Some(limit) if most.is_some_and(|most| limit > most) => {
                let why = format!("the model has positions for {} tokens", most.unwrap_or(0));
                let value = limit.to_string();
                return Err(Error::BadOption { option: "max tokens", value, why });
            }
            Some(limit) => limit,
            None => {
                let said = files.settings.max_tokens.or(tokenizer.limit());
                let limit = said.or(most).unwrap_or(LIMIT);
                most.map_or(limit, |most| limit.min(most))
            }
        };
        tokenizer.set_limit(limit)?;
        let tokens = TOKENS[usize::from(encoder.on_device())];
        let (only_batch, only_length) = (encoder.only_batch, encoder.only_length);
        let shapes = Shapes { tokens, batch: options.batch, limit, only_batch, only_length };
        let threads = runtime.cpu().as_cpu().map_or(1, |cpu| cpu.pool().threads());
        let lower_case = files.settings.lower_case;
        let mut embedder = Self {
            dimension: 0,
            encoder,
            reader: Arc::new(Reader { tokenizer, lower_case, threads }),
            shapes,
            pooling: options.pooling.or(files.settings.pooling).unwrap_or_default(),
            normalise: options.normalise.or(files.settings.normalise).unwrap_or(true),
        };
        embedder.dimension = match embedder.encoder.dimension {
            Some(dimension) => dimension,
            // The file does not say; a run does.
            None => embedder
                .encoder
                .run(
                    &[&Sentence { ids: vec![0], types: vec![0] }],
                    embedder.shapes.cut(&[1])[0],
                    0,
                )?
                .dimension(),
        };
        Ok(embedder)
    }

    /// How many numbers a vector has.
    pub fn dimension(&self) -> usize {
        self.dimension
    }

    /// How tokens become one vector.
    pub fn pooling(&self) -> Pooling {
        self.pooling
    }

    /// Whether vectors have the length 1.
    pub fn normalises(&self) -> bool {
        self.normalise
    }

    /// The most tokens of a text.
    pub fn max_tokens(&self) -> usize {
        self.shapes.limit
    }

    /// The device it runs on, `cpu` if another one failed.
    pub fn device(&self) -> String {
        self.encoder.device()
    }

    /// The vectors of texts.
    ///
    /// # Errors
    /// If a device fails, or the model does.
    pub fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>> {
        let sentences =
            self.reader.read(texts).into_iter().collect::<std::result::Result<Vec<_>, _>>()?;
        let all: Vec<&Sentence> = sentences.iter().collect();
        let mut vectors = vec![Vec::new(); texts.len()];
        self.run(&all, |place, vector| vectors[place] = vector.to_vec(), |_| true)?;
        Ok(vectors)
    }

    /// Gives each sentence's vector to `take`, the longest first. After each batch `go_on` gets the places of its
    /// sentences and may stop it.
    fn run(
        &self,
        sentences: &[&Sentence],
        mut take: impl FnMut(usize, &[f32]),
        mut go_on: impl FnMut(&[usize]) -> bool,
    ) -> Result<()> {
        let mut order: Vec<usize> = (0..sentences.len()).collect();
        order.sort_by_key(|&place| std::cmp::Reverse(sentences[place].ids.len()));
        let lengths: Vec<usize> = order.iter().map(|&place| sentences[place].ids.len()).collect();
        let mut rest = &order[..];
        let mut vector = vec![0.0; self.dimension];
        for batch in self.shapes.cut(&lengths) {
            let (places, after) = rest.split_at(batch.texts);
            rest = after;
            let texts: Vec<&Sentence> = places.iter().map(|&place| sentences[place]).collect();
            let output = self.encoder.run(&texts, batch, self.reader.tokenizer.padding())?;
            output.check(self.dimension)?;
            for (row, (&place, text)) in places.iter().zip(&texts).enumerate() {
                match output.tokens(row, text.ids.len()) {
                    Some(tokens) => self.pooling.pool(tokens, &mut vector),
                    None => vector.copy_from_slice(output.pooled(row)),
                }
                if self.normalise {
                    normalise(&mut vector);
                }
                take(place, &vector);
            }
            if !go_on(places) {
                return Err(Error::Stopped);
            }
        }
        Ok(())
    }
}

impl Reader {
    /// Tokens of texts, made by several threads.
    fn read<T: AsRef<str> + Sync>(&self, texts: &[T]) -> Vec<polaris_data::Result<Sentence>> {
        let one = |text: &T| match self.lower_case {
            true => self.tokenizer.encode(&text.as_ref().to_lowercase()),
            false => self.tokenizer.encode(text.as_ref()),
        };
        // A thread is worth its start for some dozens of texts.
        let part = texts.len().div_ceil(self.threads).max(64);
        if texts.len() <= part {
            return texts.iter().map(one).collect();
        }
        let read = |part: &[T]| -> Vec<_> { part.iter().map(one).collect() };
        std::thread::scope(|scope| {
            let start = |part| {
                let thread = std::thread::Builder::new().spawn_scoped(scope, move || read(part));
                (thread.ok(), part)
            };
            let threads: Vec<_> = texts.chunks(part).map(start).collect();
            let finish = |(thread, part): (Option<std::thread::ScopedJoinHandle<'_, _>>, _)| {
                match thread.map(std::thread::ScopedJoinHandle::join) {
                    Some(Ok(sentences)) => sentences,
                    Some(Err(panic)) => std::panic::resume_unwind(panic),
                    // The system refused a thread: this one does its work.
                    None => read(part),
                }
            };
            threads.into_iter().flat_map(finish).collect()
        })
    }
}
