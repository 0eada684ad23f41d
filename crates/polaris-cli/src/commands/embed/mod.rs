//! `polaris embed`: a vector for each line of a text.

mod vectors;

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{anyhow, bail};
use clap::CommandFactory;
use indicatif::ProgressBar;
use polaris::data::Lines;
use polaris::models::Error;
use polaris::models::embed::{Embedder, Listener, Options, Summary};
use serde::Serialize;

use super::model;
use crate::arguments::{Arguments, Embed, FormatName, Global};
use crate::output::say;
use crate::session::Session;
use crate::{exit, interrupt, output};
use vectors::Vectors;

/// The number of skipped lines that are reported one by one; the others are counted.
const NAMED: u64 = 24;

#[derive(Serialize)]
struct Embedded<'a> {
    model: &'a Path,
    input: Option<PathBuf>,
    output: Option<PathBuf>,
    format: &'static str,
    device: String,
    dimension: usize,
    pooling: String,
    normalised: bool,
    max_tokens: usize,
    #[serde(flatten)]
    summary: Summary,
    load_seconds: f64,
    seconds: f64,
    sentences_per_second: f64,
}

pub fn run(global: Global, options: &Embed) -> anyhow::Result<u8> {
    let json = global.json;
    let (path, format) = options.destination(json).unwrap_or_else(|why| {
        // Nothing has started yet, so the process may end here, as for other wrong usage.
        Arguments::command().error(clap::error::ErrorKind::ArgumentConflict, why).exit()
    });
    let input = (options.input != Path::new("-")).then_some(options.input.as_path());
    if let (Some(input), Some(path)) = (input, path)
        && same_file(input, path)
    {
        bail!("{}: this is the input text; name another output file", path.display());
    }
    let lines = match input {
        Some(path) => Lines::open(path).map_err(|error| match &error {
            polaris::data::Error::Io { cause, .. } if cause.kind() == ErrorKind::InvalidInput => {
                anyhow!("{error}, or pipe the text to stdin: ... | polaris embed MODEL -")
            }
            _ => error.into(),
        })?,
        None => Lines::new(std::io::stdin()),
    };
    let begin = Instant::now();
    let mut session = Session::for_mode(global, options.mode)?;
    let run = model::options(&mut session, options.mode, &options.passes)?;
    let embedder = Embedder::open(
        &session.runtime,
        &options.model,
        &Options {
            tokenizer: options.tokenizer.clone(),
            pooling: options.pooling.map(Into::into),
            normalise: options.normalised(),
            batch: options.batch.map(usize::from),
            max_tokens: options.max_tokens.map(|tokens| tokens as usize),
            run,
        },
    )?;
    let load_seconds = begin.elapsed().as_secs_f64();
    let vectors = Vectors::create(path, format, embedder.dimension())?;
    let bar = output::byte_progress(lines.total_bytes(), "embedding");
    let begin = Instant::now();
    let mut taker = Taker { vectors, bar, begin, lines: 0, skipped: 0 };
    let streamed = embedder.stream(lines, &mut taker);
    taker.bar.finish_and_clear();
    let summary = match streamed {
        // A closed pipe (`polaris embed ... | head -1`) is not an error.
        Err(Error::Writing { cause })
            if path.is_none() && cause.kind() == ErrorKind::BrokenPipe =>
        {
            return Ok(exit::OK);
        }
        Err(Error::Writing { cause }) => return Err(vectors::unwritten(path, &cause)),
        streamed => streamed?,
    };
    taker.finish()?;
    let seconds = begin.elapsed().as_secs_f64();
    let embedded = Embedded {
        model: &options.model,
        input: input.map(Path::to_owned),
        output: path.map(Path::to_owned),
        format: if format == FormatName::Npy { "npy" } else { "jsonl" },
        device: embedder.device(),
        dimension: embedder.dimension(),
        pooling: embedder.pooling().to_string(),
        normalised: embedder.normalises(),
        max_tokens: embedder.max_tokens(),
        summary,
        load_seconds,
        seconds,
        sentences_per_second: (summary.lines - summary.skipped) as f64 / seconds.max(1e-9),
    };
    match json {
        true => output::print_json("polaris.embed/1", &embedded)?,
        false => print(&embedded)?,
    }
    Ok(if summary.skipped > 0 { exit::FOUND_WRONG } else { exit::OK })
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

fn print(embedded: &Embedded<'_>) -> anyhow::Result<()> {
    let Summary { lines, tokens, skipped } = embedded.summary;
    let words = format!(
        "{lines} lines, {tokens} tokens, {skipped} skipped; dimension {}, {} pooling, on {}: {:.1} s, {:.1} \
         sentences/s",
        embedded.dimension,
        embedded.pooling,
        embedded.device,
        embedded.seconds,
        embedded.sentences_per_second
    );
    match &embedded.output {
        Some(path) => output::print_line(&format!("{}: {words}", path.display())),
        // Stdout carries the vectors.
        None => {
            say!("{words}");
            Ok(())
        }
    }
}

/// Writes vectors, counts lines, and reports skipped ones.
struct Taker {
    vectors: Vectors,
    bar: ProgressBar,
    begin: Instant,
    lines: u64,
    skipped: u64,
}

impl Listener for Taker {
    fn line(&mut self, number: u64, vector: Result<&[f32], &str>) -> std::io::Result<()> {
        if let Err(why) = vector {
            self.skipped += 1;
            if self.skipped <= NAMED {
                self.bar.suspend(|| say!("note: skipped line {number}: {why}"));
            }
        }
        self.vectors.line(number, vector)
    }

    fn advance(&mut self, lines: usize, bytes: u64) -> bool {
        self.lines += lines as u64;
        self.bar.inc(bytes);
        let rate = self.lines as f64 / self.begin.elapsed().as_secs_f64().max(1e-9);
        self.bar.set_message(format!("{} lines, {rate:.0} lines/s", self.lines));
        !interrupt::requested()
    }
}

impl Taker {
    fn finish(self) -> anyhow::Result<()> {
        if self.skipped > NAMED {
            say!("note: skipped {} more lines", self.skipped - NAMED);
        }
        self.vectors.finish()
    }
}
