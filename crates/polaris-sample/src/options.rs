//! How tokens are chosen, as plain data, and which values are accepted.

use crate::{Error, Result};

/// The most tokens that penalties and DRY look back: histories beyond it would only cost memory.
const LONGEST_HISTORY: i32 = 1 << 20;
/// The longest sequence that breaks repetitions, in tokens.
const LONGEST_BREAKER: usize = 21;

/// Which version of mirostat replaces the truncating samplers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mirostat {
    /// None.
    #[default]
    Off,
    /// Mirostat: the number of candidates follows from an estimate of Zipf's exponent.
    V1,
    /// Mirostat 2.0: candidates whose surprise exceeds a running target are dropped.
    V2,
}

/// How tokens are chosen. The defaults are those of llama.cpp, and so is the order in which the samplers act: logit
/// bias, penalties, DRY, top-n-sigma, top-k, typical, top-p, min-p, XTC, temperature.
///
/// With mirostat, only logit bias and temperature act before it.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Decides all random numbers: the same seed and logits give the same tokens.
    pub seed: u64,
    /// Added to the logits of tokens; -inf excludes a token.
    pub logit_bias: Vec<(u32, f32)>,
    /// How many of the last tokens the penalties look at; 0 disables them, and -1 is for [`Options::for_context`].
    pub penalty_last_n: i32,
    /// Divides positive and multiplies negative logits of tokens that occurred; 1 disables it.
    pub penalty_repeat: f32,
    /// Subtracted from a logit for each time the token occurred.
    pub penalty_frequency: f32,
    /// Subtracted from a logit if the token occurred.
    pub penalty_presence: f32,
    /// The weight of DRY, which penalises tokens that continue a repetition by `dry_multiplier * dry_base ^ (length -
    /// dry_allowed_length)`; 0 disables it.
    pub dry_multiplier: f32,
    /// The base of DRY's exponential.
    pub dry_base: f32,
    /// Shorter repetitions are free.
    pub dry_allowed_length: i32,
    /// How many of the last tokens DRY looks at; 0 disables it, and -1 is for [`Options::for_context`].
    pub dry_last_n: i32,
    /// Sequences of tokens over which no repetition extends; see [`breakers`](crate::breakers).
    pub dry_breakers: Vec<Vec<u32>>,
    /// Keeps logits within so many standard deviations of the largest; 0 disables it.
    pub top_n_sigma: f32,
    /// Keeps the largest logits; 0 and -1 disable it.
    pub top_k: i32,
    /// Keeps the tokens whose surprise is nearest to the entropy, up to this probability; 1 disables it.
    pub typical_p: f32,
    /// Keeps the most probable tokens, up to this probability; 1 disables it.
    pub top_p: f32,
    /// Keeps tokens at least so probable relative to the most probable; 0 disables it.
    pub min_p: f32,
    /// The chance that XTC acts: it drops all but the least probable of the tokens above the threshold. 0 disables it.
    pub xtc_probability: f32,
    /// XTC's threshold; above 0.5 it never acts.
    pub xtc_threshold: f32,
    /// Divides the logits; 0 or less chooses the largest.
    pub temperature: f32,
    /// How far the temperature moves with the entropy, down and up; 0 disables it.
    pub dynamic_temperature_range: f32,
    /// The exponent of the normalised entropy in the dynamic temperature.
    pub dynamic_temperature_exponent: f32,
    /// The version of mirostat.
    pub mirostat: Mirostat,
    /// The surprise that mirostat aims at, in bits.
    pub mirostat_tau: f32,
    /// Mirostat's learning rate.
    pub mirostat_eta: f32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            seed: 0,
            logit_bias: Vec::new(),
            penalty_last_n: 64,
            penalty_repeat: 1.0,
            penalty_frequency: 0.0,
            penalty_presence: 0.0,
            dry_multiplier: 0.0,
            dry_base: 1.75,
            dry_allowed_length: 2,
            dry_last_n: 64,
            dry_breakers: Vec::new(),
            top_n_sigma: 0.0,
            top_k: 40,
            typical_p: 1.0,
            top_p: 0.95,
            min_p: 0.05,
            xtc_probability: 0.0,
            xtc_threshold: 0.1,
            temperature: 0.8,
            dynamic_temperature_range: 0.0,
            dynamic_temperature_exponent: 1.0,
            mirostat: Mirostat::Off,
            mirostat_tau: 5.0,
            mirostat_eta: 0.1,
        }
    }
}

impl Options {
    /// The same with a context of so many tokens where penalties or DRY look back -1 tokens.
    pub fn for_context(&self, tokens: usize) -> Self {
        let length = i32::try_from(tokens).unwrap_or(i32::MAX).min(LONGEST_HISTORY);
        let known = |last_n: i32| if last_n == -1 { length } else { last_n };
        Self {
            penalty_last_n: known(self.penalty_last_n),
            dry_last_n: known(self.dry_last_n),
            ..self.clone()
        }
    }

    /// Whether a sampler takes these options with a vocabulary of this size.
    pub fn check(&self, vocabulary_size: usize) -> Result<()> {
        const HISTORY: &str = "0 to 1048576";
        const NON_NEGATIVE: &str = "finite numbers from 0";
        if vocabulary_size == 0 || u32::try_from(vocabulary_size).is_err() {
            return Err(refused("vocabulary_size", vocabulary_size, "1 to 4294967295"));
        }
        whole("penalty_last_n", self.penalty_last_n, 0..=LONGEST_HISTORY, HISTORY)?;
        whole("dry_last_n", self.dry_last_n, 0..=LONGEST_HISTORY, HISTORY)?;
        whole("dry_allowed_length", self.dry_allowed_length, 1..=LONGEST_HISTORY, "1 to 1048576")?;
        whole("top_k", self.top_k, -1..=i32::MAX, "0 and -1 (off), and more")?;
        if !(self.penalty_repeat > 0.0
            && self.penalty_repeat.is_finite()
            && self.penalty_repeat.recip().is_finite())
        {
            let accepted = "finite numbers above 0 with a finite inverse";
            return Err(refused("penalty_repeat", self.penalty_repeat, accepted));
        }
        for (name, value) in [
            ("penalty_frequency", self.penalty_frequency),
            ("penalty_presence", self.penalty_presence),
            ("temperature", self.temperature),
        ] {
            number(name, value, f32::MIN, f32::MAX, "finite numbers")?;
        }
        number("dry_base", self.dry_base, 1.0, f32::MAX, "finite numbers from 1")?;
        for (name, value) in [
            ("dry_multiplier", self.dry_multiplier),
            ("top_n_sigma", self.top_n_sigma),
            ("dynamic_temperature_range", self.dynamic_temperature_range),
            ("dynamic_temperature_exponent", self.dynamic_temperature_exponent),
            ("mirostat_tau", self.mirostat_tau),
            ("mirostat_eta", self.mirostat_eta),
        ] {
            number(name, value, 0.0, f32::MAX, NON_NEGATIVE)?;
        }
        for (name, value) in [
            ("typical_p", self.typical_p),
            ("top_p", self.top_p),
            ("min_p", self.min_p),
            ("xtc_probability", self.xtc_probability),
            ("xtc_threshold", self.xtc_threshold),
        ] {
            number(name, value, 0.0, 1.0, "0 to 1")?;
        }
        self.check_tokens(vocabulary_size)
    }

    fn check_tokens(&self, size: usize) -> Result<()> {
        let known = |name, token: u32| {
            if (token as usize) < size {
                return Ok(());
            }
            let accepted = format!("tokens from 0 to {}", size - 1);
            Err(Error::Option { name, found: format!("token {token}"), accepted })
        };
        for &(token, bias) in &self.logit_bias {
            known("logit_bias", token)?;
            if bias.is_nan() || bias == f32::INFINITY {
                return Err(refused("logit_bias", bias, "finite numbers and -inf"));
            }
        }
        for breaker in &self.dry_breakers {
            if breaker.is_empty() || breaker.len() > LONGEST_BREAKER {
                let found = format!("a sequence of {} tokens", breaker.len());
                return Err(refused("dry_breakers", found, "sequences of 1 to 21 tokens"));
            }
            breaker.iter().try_for_each(|&token| known("dry_breakers", token))?;
        }
        Ok(())
    }

    /// Whether the penalties change any logit.
    pub(crate) fn penalises(&self) -> bool {
        self.penalty_last_n > 0
            && (self.penalty_repeat != 1.0
                || self.penalty_frequency != 0.0
                || self.penalty_presence != 0.0)
    }

    /// Whether DRY changes any logit.
    pub(crate) fn uses_dry(&self) -> bool {
        self.dry_multiplier > 0.0 && self.dry_last_n > 0
    }

    /// Whether XTC ever acts.
    pub(crate) fn uses_xtc(&self) -> bool {
        self.xtc_probability > 0.0 && self.xtc_threshold <= 0.5
    }
}

fn refused(name: &'static str, found: impl ToString, accepted: &str) -> Error {
    Error::Option { name, found: found.to_string(), accepted: accepted.into() }
}

fn whole(
    name: &'static str,
    value: i32,
    range: std::ops::RangeInclusive<i32>,
    accepted: &str,
) -> Result<()> {
    if range.contains(&value) { Ok(()) } else { Err(refused(name, value, accepted)) }
}

/// NaN is in no range.
fn number(name: &'static str, value: f32, low: f32, high: f32, accepted: &str) -> Result<()> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(refused(name, value, accepted)) }
}
