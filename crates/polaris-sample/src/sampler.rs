//! The sampler: from logits to a token, through all steps in their order.

mod candidates;
mod dry;
mod mirostat;
mod penalties;

use polaris_core::random::SplitMix64;

pub use candidates::Candidate;
use candidates::Candidates;
use dry::Dry;
pub use dry::breakers;
use penalties::Penalties;

use crate::{Error, Mask, Mirostat, Options, Result};

/// Chooses tokens from logits. It remembers the tokens it is told of, for penalties and DRY.
///
/// Candidates stay in the order of their tokens, so that equal logits and equal probabilities are treated the same on
/// every machine: of equal logits, the smaller token counts as the larger logit.
///
/// ```
/// use polaris_sample::{Options, Sampler};
///
/// let mut sampler = Sampler::new(&Options { seed: 7, ..Options::default() }, 4)?;
/// let token = sampler.sample(&[0.1, 2.0, -1.0, 1.9])?;
/// sampler.accept(token)?;
/// assert!(token == 1 || token == 3);
/// # Ok::<(), polaris_sample::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Sampler {
    options: Options,
    size: usize,
    /// The logits of the step, changed by bias, penalties and DRY; -inf excludes a token.
    scores: Vec<f32>,
    candidates: Candidates,
    penalties: Option<Penalties>,
    dry: Option<Dry>,
    random: SplitMix64,
    /// Mirostat's running limit of the surprise.
    mu: f64,
}

impl Sampler {
    /// A sampler for logits of a vocabulary of this size.
    pub fn new(options: &Options, vocabulary_size: usize) -> Result<Self> {
        options.check(vocabulary_size)?;
        let plain = options.mirostat == Mirostat::Off;
        Ok(Self {
            size: vocabulary_size,
            scores: Vec::with_capacity(vocabulary_size),
            candidates: Candidates::default(),
            penalties: (plain && options.penalises())
                .then(|| Penalties::new(options, vocabulary_size)),
            dry: (plain && options.uses_dry()).then(|| Dry::new(options, vocabulary_size)),
            random: SplitMix64::new(options.seed),
            mu: 2.0 * f64::from(options.mirostat_tau),
            options: options.clone(),
        })
    }

    /// The options it was made with.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Forgets all tokens and starts again with the seed.
    pub fn reset(&mut self) {
        if let Some(penalties) = &mut self.penalties {
            penalties.reset();
        }
        if let Some(dry) = &mut self.dry {
            dry.reset();
        }
        self.random = SplitMix64::new(self.options.seed);
        self.mu = 2.0 * f64::from(self.options.mirostat_tau);
    }

    /// Adds a token to the text so far: each chosen one, and those of the prompt if they are to be penalised too.
    pub fn accept(&mut self, token: u32) -> Result<()> {
        if token as usize >= self.size {
            return Err(Error::Token { token, size: self.size });
        }
        if let Some(penalties) = &mut self.penalties {
            penalties.accept(token);
        }
        if let Some(dry) = &mut self.dry {
            dry.accept(token);
        }
        Ok(())
    }

    /// Chooses a token. Logits are finite or -inf, which excludes a token.
    pub fn sample(&mut self, logits: &[f32]) -> Result<u32> {
        self.load(logits)?;
        self.choose("all logits are -inf")
    }

    /// Chooses one of the tokens that the mask allows.
    pub fn sample_masked(&mut self, logits: &[f32], mask: &Mask) -> Result<u32> {
        self.load(logits)?;
        mask.apply(&mut self.scores)?;
        self.choose("the mask excludes every token whose logit is not -inf")
    }

    /// What the last token was chosen from, by token, with the final probabilities.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates.items
    }

    fn load(&mut self, logits: &[f32]) -> Result<()> {
        check_logits(logits, self.size)?;
        self.scores.clear();
        self.scores.extend_from_slice(logits);
        Ok(())
    }

    fn choose(&mut self, nothing: &'static str) -> Result<u32> {
        for &(token, bias) in &self.options.logit_bias {
            shift(&mut self.scores[token as usize], f64::from(bias));
        }
        if let Some(penalties) = &mut self.penalties {
            penalties.apply(&mut self.scores);
        }
        if let Some(dry) = &mut self.dry {
            dry.apply(&mut self.scores);
        }
        let greedy = self.truncate();
        if self.candidates.items.is_empty() {
            return Err(Error::NoToken { why: nothing });
        }
        if greedy {
            return Ok(self.candidates.keep_largest());
        }
        let temperature = match self.options.mirostat {
            Mirostat::Off => self.temperature(),
            _ => f64::from(self.options.temperature),
        };
        if temperature <= 0.0 {
            return Ok(self.candidates.keep_largest());
        }
        self.candidates.softmax(temperature);
        let chosen = match self.options.mirostat {
            Mirostat::Off => self.candidates.draw(&mut self.random),
            Mirostat::V1 => self.mirostat_v1(temperature),
            Mirostat::V2 => self.mirostat_v2(),
        };
        Ok(self.candidates.items[chosen].token)
    }

    /// The samplers that drop candidates. True if only the largest logit counts.
    fn truncate(&mut self) -> bool {
        let options = &self.options;
        let candidates = &mut self.candidates;
        let cold = options.temperature <= 0.0;
        if options.mirostat != Mirostat::Off {
            candidates.fill(&self.scores);
            return cold;
        }
        // Only typical and XTC can drop the largest logit.
        if cold && options.dynamic_temperature_range == 0.0 {
            let keeps_largest = options.typical_p >= 1.0 && !options.uses_xtc();
            if keeps_largest {
                candidates.fill_top(&self.scores, 1);
                return true;
            }
        }
        if options.top_n_sigma > 0.0 {
            candidates::top_n_sigma(&mut self.scores, f64::from(options.top_n_sigma));
        }
        match options.top_k {
            ..=0 => candidates.fill(&self.scores),
            k => candidates.fill_top(&self.scores, k as usize),
        }
        if candidates.items.is_empty() {
            return cold;
        }
        if options.typical_p < 1.0 {
            candidates.typical(f64::from(options.typical_p));
        }
        if options.top_p < 1.0 {
            candidates.top_p(f64::from(options.top_p));
        }
        if options.min_p > 0.0 {
            candidates.min_p(options.min_p);
        }
        if options.uses_xtc() && candidates.items.len() > 1 {
            // As everywhere, the random number is used up whether XTC acts or not.
            if self.random.unit() <= f64::from(options.xtc_probability) {
                candidates.xtc(options.xtc_threshold);
            }
        }
        false
    }

    /// The temperature of this step; a dynamic one grows with the entropy of the candidates.
    fn temperature(&mut self) -> f64 {
        let middle = f64::from(self.options.temperature);
        let range = f64::from(self.options.dynamic_temperature_range);
        let count = self.candidates.items.len();
        if range == 0.0 || count < 2 {
            return middle;
        }
        let low = (middle - range).max(0.0);
        let normaliser = self.candidates.softmax(1.0);
        let entropy = self.candidates.entropy(normaliser) / (count as f64).ln();
        let exponent = f64::from(self.options.dynamic_temperature_exponent);
        low + (middle + range - low) * entropy.clamp(0.0, 1.0).powf(exponent)
    }
}

/// Whether these are logits to choose by: one for each token, finite or -inf.
pub(crate) fn check_logits(logits: &[f32], size: usize) -> Result<()> {
    if logits.len() != size {
        return Err(Error::Length { found: logits.len(), expected: size });
    }
    // Blocks without an early exit within them compile to vector instructions.
    for (block, chunk) in logits.chunks(1024).enumerate() {
        if !chunk.iter().fold(true, |good, &logit| good & (logit < f32::INFINITY)) {
            let bad = chunk.iter().position(|logit| logit.is_nan() || *logit == f32::INFINITY);
            let at = bad.expect("the block should have a bad logit");
            return Err(Error::Logit { token: block * 1024 + at, value: chunk[at] });
        }
    }
    Ok(())
}

/// Adds to a logit without leaving the finite numbers; -inf stays, and a change of -inf excludes.
fn shift(score: &mut f32, change: f64) {
    if change == f64::NEG_INFINITY {
        *score = f32::NEG_INFINITY;
    } else if *score != f32::NEG_INFINITY {
        *score = (f64::from(*score) + change).clamp(f32::MIN.into(), f32::MAX.into()) as f32;
    }
}
