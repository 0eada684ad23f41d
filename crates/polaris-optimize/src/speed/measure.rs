//! The measurements: models in turns, a token each, so that a disturbance affects all of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use polaris_gguf::{Gguf, TensorType};
use polaris_llm::{Engine, EngineOptions, LoadOptions, Model, Source, Wanted};
use polaris_runtime::DeviceRef;
use polaris_runtime::cpu::CpuDevice;

use super::{Measured, TokenTimes, drawn, times, undisturbed};
use crate::{PlannedTensor, Result};

/// Positions between which tokens are measured: attention is a small part there.
const FIRST: usize = 32;
const LAST: usize = 128;

/// How long a model computes tokens that do not count when its turn comes, one at least.
const WARM_UP: Duration = Duration::from_millis(4);

/// How long is measured.
#[derive(Debug, Clone, Copy)]
pub struct SpeedOptions {
    /// Rounds of all models, whatever time they take.
    pub least: usize,
    /// Rounds that are enough, if they took `shortest`: what disturbs a machine for a moment should not decide.
    pub enough: usize,
    /// The time of small models.
    pub shortest: Duration,
    /// No round begins after this, but for the least.
    pub longest: Duration,
}

impl Default for SpeedOptions {
    fn default() -> Self {
        let [shortest, longest] = [1, 20].map(Duration::from_secs);
        Self { least: 5, enough: 30, shortest, longest }
    }
}

impl SpeedOptions {
    /// Whether to begin another round after so many, which took so long.
    fn goes_on(&self, rounds: usize, taken: Duration) -> bool {
        let is_enough = rounds >= self.enough && taken >= self.shortest;
        rounds < self.least || !is_enough && taken < self.longest
    }
}

/// Measures what decoding takes on a device, as the model is and with each format that tensors can get. `tensors` are all of
/// the plan, `formats` are those whose types are chosen, with what they can be.
///
/// # Errors
/// If the model is not supported, cannot continue a text or does not fit the device, weights are not finite, or `cancelled`
/// says so.
pub fn measure(
    gguf: &Gguf,
    tensors: &[PlannedTensor],
    formats: &[(&str, Vec<TensorType>)],
    device: &DeviceRef,
    cpu: &CpuDevice,
    options: &SpeedOptions,
    cancelled: &dyn Fn() -> bool,
) -> Result<TokenTimes> {
    let count = formats.iter().map(|(_, types)| types.len()).max().unwrap_or(0);
    let mut source = Decoder::new(&load(&Source::from_gguf(gguf)?, device, cancelled)?)?;
    let mut all = Vec::with_capacity(count);
    for number in 0..count {
        let ty = |types: &[TensorType]| types.get(number).or(types.last()).copied();
        let types: BTreeMap<String, TensorType> = formats
            .iter()
            .filter_map(|(name, types)| Some(((*name).to_owned(), ty(types)?)))
            .collect();
        let model = drawn::model(gguf, cpu, tensors, &types)?;
        let decoder = Decoder::new(&load(&model, device, cancelled)?)?;
        all.push((decoder, Measured { types, ..Measured::default() }));
    }
    let mut whole = Vec::new();
    let begin = Instant::now();
    while options.goes_on(whole.len(), begin.elapsed()) {
        source.warm_up(cancelled)?;
        whole.push(source.token(cancelled)?);
        for (decoder, measured) in &mut all {
            decoder.warm_up(cancelled)?;
            measured.whole.push(decoder.token(cancelled)?);
            let token = decoder.next(cancelled)?;
            measured.steps.push(decoder.engine.step_timed(0, token, cancelled)?);
        }
    }
    let all: Vec<Measured> = all.into_iter().map(|(_, measured)| measured).collect();
    Ok(times(&whole, &all, tensors))
}

/// The speed of some models, one token after another, in turns: the lower quartile of their
/// times, as for predictions.
///
/// # Errors
/// As [`measure`].
pub fn tokens_per_second(
    models: &[&Model],
    options: &SpeedOptions,
    cancelled: &dyn Fn() -> bool,
) -> Result<Vec<f64>> {
    let mut decoders =
        models.iter().map(|model| Decoder::new(model)).collect::<Result<Vec<_>>>()?;
    let mut times = vec![Vec::new(); models.len()];
    let begin = Instant::now();
    let mut rounds = 0;
    while !models.is_empty() && options.goes_on(rounds, begin.elapsed()) {
        rounds += 1;
        for (decoder, times) in decoders.iter_mut().zip(&mut times) {
            decoder.warm_up(cancelled)?;
            times.push(decoder.token(cancelled)?);
        }
    }
    Ok(times.into_iter().map(|times| super::rate(1e9 * undisturbed(times))).collect())
}

fn load(source: &Source, device: &DeviceRef, cancelled: &dyn Fn() -> bool) -> Result<Model> {
    let model =
        Model::load(source, device, &LoadOptions { context: LAST }, |_| match cancelled() {
            true => Err(polaris_llm::Error::Cancelled),
            false => Ok(()),
        })?;
    Ok(model)
}

/// A model that goes through tokens.
struct Decoder {
    engine: Engine,
    first: usize,
}

impl Decoder {
    fn new(model: &Model) -> Result<Self> {
        // Some models have fewer positions.
        let context = LAST.min(model.config().context.max(2));
        let options = EngineOptions { context, ..EngineOptions::default() };
        Ok(Self { engine: Engine::new(model, &options)?, first: FIRST.min(context / 2) })
    }

    /// The token that comes next; the text begins anew if the context is full.
    fn next(&mut self, cancelled: &dyn Fn() -> bool) -> Result<u32> {
        let vocabulary = self.engine.model().vocabulary().max(1) as u32;
        // Drawn from the vocabulary, the same each time.
        let token = |place: usize| (place as u32).wrapping_mul(2_654_435_761) % vocabulary;
        let done = self.engine.tokens(0).len();
        if done == 0 || done >= self.engine.context() {
            self.engine.truncate(0, 0);
            let prompt: Vec<u32> = (0..self.first).map(token).collect();
            self.engine.feed(0, &prompt, Wanted::None, cancelled)?;
        }
        Ok(token(self.engine.tokens(0).len()))
    }

    /// Brings weights into the caches that the model before it had, if they fit: one token is not enough for that.
    fn warm_up(&mut self, cancelled: &dyn Fn() -> bool) -> Result<()> {
        let begin = Instant::now();
        self.token(cancelled)?;
        while begin.elapsed() < WARM_UP {
            self.token(cancelled)?;
        }
        Ok(())
    }

    /// The seconds of a token.
    fn token(&mut self, cancelled: &dyn Fn() -> bool) -> Result<f64> {
        let token = self.next(cancelled)?;
        let begin = Instant::now();
        self.engine.step(&[(0, token)], cancelled)?;
        Ok(begin.elapsed().as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_end_when_they_are_enough_or_take_too_long() {
        let options = SpeedOptions::default();
        let seconds = |seconds| Duration::from_secs_f64(seconds);
        assert!(options.goes_on(4, seconds(100.0)) && !options.goes_on(5, seconds(100.0)));
        assert!(options.goes_on(29, seconds(7.0)) && !options.goes_on(30, seconds(7.0)));
        assert!(options.goes_on(400, seconds(0.9)));
    }
}
