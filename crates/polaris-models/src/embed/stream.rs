//! Embeds any number of lines in bounded memory.
//!
//! A thread reads and tokenises windows of lines ahead of the model. In a window texts are sorted by length, so
//! that a batch holds little padding; vectors leave it in the order of the lines.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use polaris_data::{Lines, Sentence};
use serde::Serialize;

use super::{Embedder, Reader};
use crate::{Error, Result};

/// Lines of a window.
const LINES: usize = 4096;
/// Bytes after which a window ends with fewer lines.
const BYTES: u64 = 8 << 20;
/// How often someone is asked whether to go on, while no text comes.
const PATIENCE: Duration = Duration::from_millis(50);

/// Whoever takes the vectors.
pub trait Listener {
    /// The vector of a line, counted from 1, or why there is none. Lines come in their order.
    ///
    /// # Errors
    /// If it cannot be kept; then no more lines come.
    fn line(&mut self, number: u64, vector: std::result::Result<&[f32], &str>) -> io::Result<()>;

    /// So many more lines and bytes of the text are done, though their vectors may come later. Also called now
    /// and then while nothing happens. With `false` it ends with [`Error::Stopped`].
    fn advance(&mut self, lines: usize, bytes: u64) -> bool {
        let _ = (lines, bytes);
        true
    }
}

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Summary {
    /// Lines, with those that were left out.
    pub lines: u64,
    /// Lines that have no vector.
    pub skipped: u64,
    /// Tokens of the others, without padding.
    pub tokens: u64,
}

/// A line in tokens, or why it has none, and its bytes.
type Read = (u64, std::result::Result<Sentence, String>);

impl Embedder {
    /// The vectors of lines, given to a listener one by one. A line that is empty, too long or no text has none, and
    /// neither has one for which the model gives something that is NaN.
    ///
    /// # Errors
    /// If the text cannot be read, the model fails, or the listener refuses a vector or wants no more.
    pub fn stream(&self, lines: Lines, listener: &mut dyn Listener) -> Result<Summary> {
        let windows = read_ahead(Arc::clone(&self.reader), lines)?;
        let mut summary = Summary::default();
        while let Some(window) = next(&windows, listener)? {
            self.window(window?, listener, &mut summary)?;
        }
        Ok(summary)
    }

    fn window(
        &self,
        window: Vec<Read>,
        listener: &mut dyn Listener,
        summary: &mut Summary,
    ) -> Result<()> {
        let good: Vec<usize> = (0..window.len()).filter(|&at| window[at].1.is_ok()).collect();
        let sentences: Vec<&Sentence> =
            window.iter().filter_map(|(_, read)| read.as_ref().ok()).collect();
        let mut vectors: Vec<f32> = Vec::new();
        let room = sentences.len() * self.dimension;
        vectors.try_reserve_exact(room).map_err(|_| Error::NotAnEncoder {
            why: format!("not enough memory for {} vectors of {}", sentences.len(), self.dimension),
        })?;
        vectors.resize(room, 0.0);
        let bad = window.iter().filter(|(_, read)| read.is_err());
        let (count, bytes) = bad.fold((0, 0), |(count, sum), (bytes, _)| (count + 1, sum + bytes));
        if !listener.advance(count, bytes) {
            return Err(Error::Stopped);
        }
        self.run(
            &sentences,
            |place, vector| {
                vectors[place * self.dimension..][..self.dimension].copy_from_slice(vector);
            },
            |places| {
                let bytes = places.iter().map(|&place| window[good[place]].0).sum();
                listener.advance(places.len(), bytes)
            },
        )?;
        let mut vectors = vectors.chunks_exact(self.dimension);
        for (_, read) in &window {
            summary.lines += 1;
            let vector = match read {
                Err(why) => Err(why.as_str()),
                Ok(_) => match vectors.next() {
                    Some(vector) if vector.iter().all(|x| x.is_finite()) => Ok(vector),
                    _ => Err("the model returned NaN or infinity"),
                },
            };
            match (&vector, read) {
                (Ok(_), Ok(sentence)) => summary.tokens += sentence.ids.len() as u64,
                _ => summary.skipped += 1,
            }
            listener.line(summary.lines, vector).map_err(|cause| Error::Writing { cause })?;
        }
        Ok(())
    }
}

/// The next window, as soon as there is one.
fn next<T>(windows: &Receiver<T>, listener: &mut dyn Listener) -> Result<Option<T>> {
    loop {
        match windows.recv_timeout(PATIENCE) {
            Ok(window) => return Ok(Some(window)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) if listener.advance(0, 0) => {}
            Err(RecvTimeoutError::Timeout) => return Err(Error::Stopped),
        }
    }
}

/// Reads windows on a thread of its own, one ahead. Nobody waits for the thread: it may sit in a read that never
/// ends, and ends by itself when nobody takes its windows.
fn read_ahead(reader: Arc<Reader>, lines: Lines) -> Result<Receiver<Result<Vec<Read>>>> {
    let (sender, receiver) = sync_channel(1);
    let thread = std::thread::Builder::new().name("polaris-lines".to_owned());
    thread
        .spawn(move || read_windows(&reader, lines, &sender))
        .map_err(|cause| Error::Reading { line: 1, cause })?;
    Ok(receiver)
}

fn read_windows(reader: &Reader, mut lines: Lines, sender: &SyncSender<Result<Vec<Read>>>) {
    let mut number = 0;
    loop {
        let mut texts: Vec<String> = Vec::new();
        let mut window: Vec<Read> = Vec::new();
        let mut bytes = 0;
        while window.len() < LINES && bytes < BYTES {
            number += 1;
            let line = match lines.next() {
                None => break,
                Some(Err(cause)) => {
                    let _ = sender.send(Err(Error::Reading { line: number, cause }));
                    return;
                }
                Some(Ok(line)) => line,
            };
            bytes += line.bytes;
            let read = match line.text {
                Ok(text) => {
                    texts.push(text);
                    Ok(Sentence::default())
                }
                Err(fault) => Err(fault.to_string()),
            };
            window.push((line.bytes, read));
        }
        if window.is_empty() {
            return;
        }
        let good = window.iter_mut().filter(|(_, read)| read.is_ok());
        for ((_, read), sentence) in good.zip(reader.read(&texts)) {
            *read = match sentence {
                Ok(sentence) if sentence.ids.is_empty() => Err("it has no tokens".to_owned()),
                sentence => sentence.map_err(|error| error.to_string()),
            };
        }
        if sender.send(Ok(window)).is_err() {
            return;
        }
    }
}
