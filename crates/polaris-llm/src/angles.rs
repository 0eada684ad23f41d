//! The angles of rotary embeddings: frequencies with their scaling, and the tables for some positions.

use crate::{Error, Result};

/// How frequencies are changed for contexts longer than those of training.
#[derive(Debug, Clone, PartialEq)]
pub enum Scaling {
    /// Not at all.
    None,
    /// All positions are divided by the factor.
    Linear,
    /// YaRN: high frequencies stay, low ones are divided, between them the two are blended.
    Yarn(Yarn),
}

/// The parameters of YaRN.
#[derive(Debug, Clone, PartialEq)]
pub struct Yarn {
    /// The context of training.
    pub original_context: usize,
    /// Above so many turns over the original context, a frequency stays.
    pub beta_fast: f64,
    /// Below so many turns, it is divided.
    pub beta_slow: f64,
    /// How much of the ramp counts: 1, or 0 for none.
    pub extrapolation: f64,
    /// Whether the ramp begins and ends at whole pairs.
    pub truncates: bool,
}

/// A rotary embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct Rotary {
    /// Elements of a head that are rotated.
    pub size: usize,
    /// The base of the frequencies.
    pub base: f64,
    /// The factor of the context.
    pub factor: f64,
    /// How the factor is used.
    pub scaling: Scaling,
    /// Cosines and sines are multiplied by this.
    pub magnitude: f64,
    /// Divisors of the frequencies, as Llama 3 and LongRoPE have them.
    pub divisors: Option<Vec<f32>>,
}

impl Rotary {
    /// The angle that each pair turns by with each position.
    ///
    /// # Errors
    /// If there is another number of divisors than of pairs.
    pub fn frequencies(&self) -> Result<Vec<f64>> {
        let pairs = self.size / 2;
        if let Some(divisors) = &self.divisors
            && divisors.len() < pairs
        {
            let found = divisors.len();
            return Err(Error::model(format!(
                "there are {found} factors of frequencies for {pairs} rotated pairs"
            )));
        }
        let frequency = |pair: usize| {
            let power = self.base.powf(-2.0 * pair as f64 / self.size as f64);
            let plain = match &self.divisors {
                Some(divisors) => power / f64::from(divisors[pair]),
                None => power,
            };
            match &self.scaling {
                Scaling::None => plain,
                Scaling::Linear => plain / self.factor,
                Scaling::Yarn(yarn) => {
                    let keep = yarn.extrapolation * self.kept(yarn, pair);
                    plain / self.factor * (1.0 - keep) + plain * keep
                }
            }
        };
        Ok((0..pairs).map(frequency).collect())
    }

    /// How much of a frequency YaRN keeps, from 0 to 1.
    fn kept(&self, yarn: &Yarn, pair: usize) -> f64 {
        // The pair that makes so many turns over the original context.
        let pair_of = |turns: f64| {
            let ratio = yarn.original_context as f64 / (turns * std::f64::consts::TAU);
            self.size as f64 * ratio.ln() / (2.0 * self.base.ln())
        };
        let (low, high) = (pair_of(yarn.beta_fast), pair_of(yarn.beta_slow));
        let (low, high) = if yarn.truncates { (low.floor(), high.ceil()) } else { (low, high) };
        let (low, high) = (low.max(0.0), high.min(self.size as f64 - 1.0));
        let ramp = (pair as f64 - low) / (high - low).max(0.001);
        1.0 - ramp.clamp(0.0, 1.0)
    }

    /// Cosines and sines for positions: a row for each position, an element for each pair.
    pub fn fill(&self, frequencies: &[f64], positions: &[i32], cos: &mut [f32], sin: &mut [f32]) {
        let rows =
            cos.chunks_mut(frequencies.len().max(1)).zip(sin.chunks_mut(frequencies.len().max(1)));
        for (&position, (cos, sin)) in positions.iter().zip(rows) {
            for ((&frequency, cos), sin) in frequencies.iter().zip(cos).zip(sin) {
                let (s, c) = (f64::from(position) * frequency).sin_cos();
                *cos = (c * self.magnitude) as f32;
                *sin = (s * self.magnitude) as f32;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotary(scaling: Scaling) -> Rotary {
        Rotary { size: 64, base: 1e4, factor: 4.0, scaling, magnitude: 1.0, divisors: None }
    }

    #[test]
    fn linear_scaling_divides_and_divisors_too() {
        let plain = rotary(Scaling::None).frequencies().unwrap();
        assert_eq!(plain[0], 1.0);
        assert!((plain[16] - 1e-2).abs() < 1e-12);
        let linear = rotary(Scaling::Linear).frequencies().unwrap();
        assert!(plain.iter().zip(&linear).all(|(a, b)| (a / 4.0 - b).abs() < 1e-15));
        let divided = Rotary { divisors: Some(vec![2.0; 32]), ..rotary(Scaling::None) };
        assert_eq!(divided.frequencies().unwrap()[0], 0.5);
        let short = Rotary { divisors: Some(vec![2.0; 31]), ..rotary(Scaling::None) };
        assert!(short.frequencies().is_err());
    }

    #[test]
    fn yarn_keeps_high_frequencies_and_divides_low_ones() {
        let yarn = Yarn {
            original_context: 4096,
            beta_fast: 32.0,
            beta_slow: 1.0,
            extrapolation: 1.0,
            truncates: true,
        };
        let plain = rotary(Scaling::None).frequencies().unwrap();
        let scaled = rotary(Scaling::Yarn(yarn)).frequencies().unwrap();
        assert_eq!(scaled[0], plain[0]);
        assert!((scaled[31] - plain[31] / 4.0).abs() < 1e-15);
        // In between there is something in between, and less and less.
        assert!(scaled.windows(2).all(|two| two[0] > two[1]));
        assert!(scaled[16] < plain[16] && scaled[16] > plain[16] / 4.0);
    }

    #[test]
    fn tables_have_a_row_for_each_position() {
        let rotary = Rotary { magnitude: 2.0, ..rotary(Scaling::None) };
        let frequencies = rotary.frequencies().unwrap();
        let (mut cos, mut sin) = (vec![0.0; 64], vec![0.0; 64]);
        rotary.fill(&frequencies, &[0, 3], &mut cos, &mut sin);
        assert_eq!((cos[0], sin[0]), (2.0, 0.0));
        assert!((cos[32] - 2.0 * 3f32.cos()).abs() < 1e-6);
        assert!((sin[32] - 2.0 * 3f32.sin()).abs() < 1e-6);
    }
}
