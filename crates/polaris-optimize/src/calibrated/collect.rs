//! Hessians of the inputs that a text makes.

use std::cell::Cell;
use std::collections::HashMap;

use polaris_llm::{Engine, Error as LlmError, Observation, Observe, Wanted};

use super::GptqOptions;
use super::inputs::Unit;
use crate::hessian::Hessian;
use crate::{Error, Plan, Result};

/// A text in windows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text<'a> {
    pub tokens: &'a [u32],
    pub first: Option<u32>,
    pub window: usize,
    pub windows: usize,
}

impl<'a> Text<'a> {
    pub fn new(engine: &Engine, tokens: &'a [u32], options: &GptqOptions) -> Result<Self> {
        let window = options.window;
        if window == 0 || window > engine.context() {
            return Err(Error::Window { window, context: engine.context() });
        }
        let windows = (tokens.len() / window).min(options.windows.unwrap_or(usize::MAX));
        if windows == 0 {
            return Err(Error::ShortText { tokens: tokens.len(), window });
        }
        Ok(Self { tokens, first: options.first, window, windows })
    }

    /// Computes a window and shows what is multiplied.
    pub fn feed(
        &self,
        engine: &mut Engine,
        number: usize,
        observer: &mut dyn Observe,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<()> {
        let mut window = self.tokens[number * self.window..][..self.window].to_vec();
        if let Some(first) = self.first {
            window[0] = first;
        }
        engine.truncate(0, 0);
        match engine.feed_observed(0, &window, Wanted::All, observer, cancelled) {
            Ok(_) => Ok(()),
            Err(LlmError::Cancelled) => Err(Error::Cancelled),
            Err(error) => Err(error.into()),
        }
    }
}

/// Adds what is multiplied with some matrices to their Hessians.
struct Collector<'a> {
    group: &'a mut [(Unit, Hessian)],
    /// The places in the group of the matrices of a tensor: that of the first tensor of each unit.
    places: HashMap<&'a str, HashMap<usize, usize>>,
    failed: Option<Error>,
    stop: &'a Cell<bool>,
}

impl Observe for Collector<'_> {
    fn observe(&mut self, seen: &Observation<'_>) {
        let Some(places) = self.places.get(seen.name) else { return };
        if self.failed.is_some() {
            return;
        }
        let added = if seen.matrices == 1 {
            places.get(&0).map_or(Ok(()), |&at| self.group[at].1.add(seen.rows))
        } else {
            // Rows of each matrix together, so that they are multiplied at once.
            let mut rows = HashMap::<usize, Vec<f32>>::new();
            for (row, chosen) in seen.pairs() {
                for matrix in chosen {
                    if let Some(&at) = places.get(&(*matrix as usize)) {
                        rows.entry(at).or_default().extend_from_slice(row);
                    }
                }
            }
            rows.into_iter().try_for_each(|(at, rows)| self.group[at].1.add(&rows))
        };
        if let Err(error) = added {
            self.failed = Some(match error {
                Error::NotFinite { value, .. } => {
                    Error::NotFiniteInput { tensor: seen.name.to_owned(), value }
                }
                error => error,
            });
            self.stop.set(true);
        }
    }
}

/// Adds the windows from one on to the Hessians of a group. After an error or cancellation these are of whole windows.
pub(crate) fn collect(
    engine: &mut Engine,
    text: &Text<'_>,
    group: &mut [(Unit, Hessian)],
    start: usize,
    plan: &Plan<'_>,
    progress: &mut dyn FnMut(usize),
    cancelled: &dyn Fn() -> bool,
) -> Result<()> {
    let mut places = HashMap::<&str, HashMap<usize, usize>>::new();
    for (at, (unit, _)) in group.iter().enumerate() {
        let name = &*plan.tensors()[unit.tensors[0]].name;
        places.entry(name).or_default().insert(unit.matrix, at);
    }
    let stop = Cell::new(false);
    let mut collector = Collector { group, places, failed: None, stop: &stop };
    for number in start..text.windows {
        // A window is in all Hessians or in none, so that a run that was stopped can go on: it ends between two.
        if cancelled() {
            return Err(Error::Cancelled);
        }
        let result = text.feed(engine, number, &mut collector, &|| stop.get());
        if let Some(error) = collector.failed.take() {
            return Err(error);
        }
        result?;
        progress(number + 1);
    }
    Ok(())
}
