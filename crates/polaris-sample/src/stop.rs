//! Stop strings in streamed text: what may still become one is held back.

use crate::{Error, Result};

/// The most stop strings, and the most bytes of each.
const MOST: usize = 256;
const LONGEST: usize = 4096;

/// Finds the first stop string in text that arrives in pieces, however it is cut.
///
/// The text ends before the stop string that is complete first; of several that end at the same place, the longest
/// counts.
///
/// ```
/// use polaris_sample::StopDetector;
///
/// let mut stops = StopDetector::new(&["</s>", "\n\n"])?;
/// assert_eq!(stops.push("one <"), ("one ", None));
/// assert_eq!(stops.push("b></"), ("<b>", None));
/// assert_eq!(stops.push("s> rest"), ("", Some(0)));
/// # Ok::<(), polaris_sample::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct StopDetector {
    stops: Vec<Stop>,
    /// Text that was held back, then the text of the last call.
    text: String,
    /// How much of `text` the last call returned.
    returned: usize,
    stopped: Option<usize>,
}

/// One string with the state of its Knuth-Morris-Pratt automaton.
#[derive(Debug, Clone)]
struct Stop {
    bytes: Vec<u8>,
    /// For each prefix, the length of its longest proper prefix that is also its suffix.
    fallback: Vec<usize>,
    /// How many bytes match at the end of the text.
    matched: usize,
}

impl StopDetector {
    /// A detector of these strings.
    pub fn new<S: AsRef<str>>(stops: &[S]) -> Result<Self> {
        if stops.len() > MOST {
            return Err(Error::limit("stop strings", MOST));
        }
        let stops = stops.iter().map(|stop| Stop::new(stop.as_ref())).collect::<Result<_>>()?;
        Ok(Self { stops, text: String::new(), returned: 0, stopped: None })
    }

    /// Takes the next text; the text that can be shown, and which string stopped it. Text after a stop is dropped.
    pub fn push(&mut self, text: &str) -> (&str, Option<usize>) {
        self.text.drain(..self.returned);
        self.returned = 0;
        if self.stopped.is_some() {
            return ("", self.stopped);
        }
        for (offset, &byte) in text.as_bytes().iter().enumerate() {
            let mut longest: Option<(usize, usize)> = None;
            for (index, stop) in self.stops.iter_mut().enumerate() {
                if stop.step(byte) && longest.is_none_or(|(length, _)| stop.bytes.len() > length) {
                    longest = Some((stop.bytes.len(), index));
                }
            }
            if let Some((length, index)) = longest {
                let end = self.text.len() + offset + 1 - length;
                self.text.push_str(&text[..=offset]);
                self.text.truncate(end);
                self.stopped = Some(index);
                return (self.take(0), Some(index));
            }
        }
        self.text.push_str(text);
        let held = self.stops.iter().map(|stop| stop.matched).max().unwrap_or(0);
        (self.take(held), None)
    }

    /// The text that was held back, at the end of the stream.
    pub fn finish(&mut self) -> &str {
        self.text.drain(..self.returned);
        self.take(0)
    }

    /// Starts a new text.
    pub fn reset(&mut self) {
        self.text.clear();
        self.returned = 0;
        self.stopped = None;
        self.stops.iter_mut().for_each(|stop| stop.matched = 0);
    }

    /// All but the last `held` bytes. A held part is the beginning of a string, so it begins with a character.
    fn take(&mut self, held: usize) -> &str {
        self.returned = self.text.len() - held;
        &self.text[..self.returned]
    }
}

impl Stop {
    fn new(text: &str) -> Result<Self> {
        if text.is_empty() || text.len() > LONGEST {
            return Err(Error::Option {
                name: "stop",
                found: format!("a string of {} bytes", text.len()),
                accepted: format!("strings of 1 to {LONGEST} bytes"),
            });
        }
        let bytes = text.as_bytes().to_vec();
        let mut fallback = vec![0; bytes.len()];
        let mut matched = 0;
        for end in 1..bytes.len() {
            while matched > 0 && bytes[matched] != bytes[end] {
                matched = fallback[matched - 1];
            }
            matched += usize::from(bytes[matched] == bytes[end]);
            fallback[end] = matched;
        }
        Ok(Self { bytes, fallback, matched: 0 })
    }

    /// Whether the string ends with this byte.
    fn step(&mut self, byte: u8) -> bool {
        if self.matched == self.bytes.len() {
            self.matched = self.fallback[self.matched - 1];
        }
        while self.matched > 0 && self.bytes[self.matched] != byte {
            self.matched = self.fallback[self.matched - 1];
        }
        self.matched += usize::from(self.bytes[self.matched] == byte);
        self.matched == self.bytes.len()
    }
}
