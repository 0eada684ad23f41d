//! Writing vectors to a file or to stdout.

use std::io::{self, BufWriter, Stdout, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use polaris::data::{AtomicFile, NpyRows};
use serde::Serialize;

use crate::arguments::FormatName;

/// The writer of vectors.
pub struct Vectors {
    sink: Sink,
    dimension: usize,
    path: PathBuf,
}

enum Sink {
    Npy(NpyRows<BufWriter<AtomicFile>>),
    Jsonl(BufWriter<AtomicFile>),
    Stdout(BufWriter<Stdout>),
}

/// A JSON line.
#[derive(Serialize)]
struct Record<'a> {
    line: u64,
    embedding: Option<&'a [f32]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a str>,
}

impl Vectors {
    /// Creates the file, or writes JSON lines to stdout without one.
    pub fn create(
        path: Option<&Path>,
        format: FormatName,
        dimension: usize,
    ) -> anyhow::Result<Self> {
        const ROOM: usize = 1 << 16;
        let sink = match path {
            None => Ok(Sink::Stdout(BufWriter::with_capacity(ROOM, io::stdout()))),
            Some(path) => AtomicFile::create(path).and_then(|file| {
                let file = BufWriter::with_capacity(ROOM, file);
                Ok(match format {
                    FormatName::Npy => Sink::Npy(NpyRows::new(file, dimension)?),
                    FormatName::Jsonl => Sink::Jsonl(file),
                })
            }),
        };
        let path = path.map_or_else(PathBuf::new, Path::to_owned);
        let sink = sink.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { sink, dimension, path })
    }

    /// Writes the vector of a line: zeros or null for a skipped one.
    pub fn line(&mut self, number: u64, vector: Result<&[f32], &str>) -> io::Result<()> {
        let writer: &mut dyn Write = match &mut self.sink {
            Sink::Npy(rows) => {
                return match vector {
                    Ok(vector) => rows.row(vector),
                    Err(_) => rows.row(&vec![0.0; self.dimension]),
                };
            }
            Sink::Jsonl(writer) => writer,
            Sink::Stdout(writer) => writer,
        };
        let record = Record { line: number, embedding: vector.ok(), error: vector.err() };
        let mut text = serde_json::to_vec(&record)?;
        text.push(b'\n');
        writer.write_all(&text)
    }

    /// Flushes everything and gives the file its name.
    pub fn finish(self) -> anyhow::Result<()> {
        let whole = |writer: BufWriter<AtomicFile>| {
            writer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()
        };
        let done = match self.sink {
            Sink::Npy(rows) => rows.finish().and_then(whole),
            Sink::Jsonl(writer) => whole(writer),
            Sink::Stdout(mut writer) => match writer.flush() {
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
                done => done,
            },
        };
        done.map_err(|cause| unwritten(Some(&self.path), &cause))
    }
}

/// The error of a failed write. An incomplete file is removed.
pub fn unwritten(path: Option<&Path>, cause: &io::Error) -> anyhow::Error {
    let place = path.filter(|path| !path.as_os_str().is_empty());
    let place = place.map_or("stdout".to_owned(), |path| path.display().to_string());
    anyhow!("cannot write {place}: {cause}{}", polaris::files::write_advice(cause))
}
