//! Collecting importance from a text.

use polaris_llm::{Engine, Model, Observation, Observe, Wanted};

use super::{ColumnSums, Importance};
use crate::fnv::Fnv;
use crate::{Error, Result};

/// Tokens that are computed at once: many enough for the products, and few enough that their logits are small.
const PIECE: usize = 128;

/// A text as tokens, in windows.
#[derive(Debug, Clone, Copy)]
pub struct CalibrationText<'a> {
    /// Its name, for the file.
    pub name: &'a str,
    /// All tokens; what does not fill a window at the end is left out.
    pub tokens: &'a [u32],
    /// What every window begins with, if the model wants that.
    pub first: Option<u32>,
    /// The most windows; all without it.
    pub windows: Option<usize>,
}

/// What one window adds, so that a window that is stopped adds nothing.
#[derive(Debug, Default)]
struct Window {
    sums: Importance,
    /// The first tensor that met what is no number.
    failed: Option<(String, f64)>,
}

impl Observe for Window {
    fn observe(&mut self, seen: &Observation<'_>) {
        let Observation { name, columns, matrices, .. } = *seen;
        if !self.sums.tensors.contains_key(name) {
            let zeros =
                ColumnSums { squares: vec![0.0; matrices * columns], rows: vec![0; matrices] };
            self.sums.insert(name, zeros);
        }
        let Some(sums) = self.sums.tensors.get_mut(name) else { return };
        for (row, chosen) in seen.pairs() {
            for &matrix in chosen {
                let matrix = matrix as usize;
                sums.rows[matrix] += 1;
                let squares = &mut sums.squares[matrix * columns..][..columns];
                for (sum, &x) in squares.iter_mut().zip(row) {
                    *sum += f64::from(x) * f64::from(x);
                }
            }
        }
        if self.failed.is_none()
            && let Some(&sum) = sums.squares.iter().find(|sum| !sum.is_finite())
        {
            self.failed = Some((name.to_owned(), sum));
        }
    }
}

impl Importance {
    /// Computes a text with a model, from the first window on that is not in yet. `done` is told after every window; what
    /// there is then is whole, whatever happens afterwards.
    ///
    /// # Errors
    /// If the text has no window, or is not the one that was begun with; if the window does not fit the context; if an
    /// activation is not finite, the model is not on the CPU, or `done` or `cancelled` says so.
    pub fn collect(
        &mut self,
        engine: &mut Engine,
        text: &CalibrationText<'_>,
        done: &mut dyn FnMut(&Self) -> Result<()>,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let &CalibrationText { name, tokens, first, windows } = text;
        let window = self.window;
        if window == 0 || window > engine.context() {
            return Err(Error::Window { window, context: engine.context() });
        }
        let count = (tokens.len() / window).min(windows.unwrap_or(usize::MAX));
        if count == 0 {
            return Err(Error::ShortText { tokens: tokens.len(), window });
        }
        let run = fingerprint(engine.model(), tokens, first, window);
        match self.windows {
            // Sums without windows are of a run that nobody knows.
            0 if self.tensors().len() == 0 => {
                self.run = Some(run);
                self.texts = vec![name.to_owned()];
            }
            _ if self.run == Some(run) => {}
            windows => return Err(Error::OtherRun { windows, texts: self.texts.join(", ") }),
        }
        for chunk in tokens.chunks_exact(window).take(count).skip(self.windows) {
            let mut chunk = chunk.to_vec();
            if let Some(first) = first {
                chunk[0] = first;
            }
            let mut seen = Window::default();
            engine.truncate(0, 0);
            // Without an order, tokens see those that are computed with them alone.
            let piece = if engine.model().config().causal { PIECE } else { window };
            for piece in chunk.chunks(piece) {
                engine.feed_observed(0, piece, Wanted::All, &mut seen, cancelled)?;
                if let Some((tensor, sum)) = seen.failed {
                    return Err(Error::Activations { tensor, sum });
                }
            }
            self.add(&seen.sums)?;
            self.windows += 1;
            done(self)?;
        }
        Ok(())
    }
}

/// A number for the tokens of a run and the model's size.
fn fingerprint(model: &Model, tokens: &[u32], first: Option<u32>, window: usize) -> u64 {
    let mut hash = Fnv::default();
    let first = first.map_or(u64::MAX, u64::from);
    for value in [window as u64, first, model.bytes() as u64] {
        hash.add(&value.to_le_bytes());
    }
    tokens.iter().for_each(|token| hash.add(&token.to_le_bytes()));
    hash.0
}
