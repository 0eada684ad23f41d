//! What is done with scores in the end: the transforms of `post_transform`, and labels for the best.

use crate::{Error, Result, Tensor};

/// A transform of the scores of one sample.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    None,
    Softmax,
    Logistic,
    SoftmaxZero,
    Probit,
}

impl Transform {
    pub fn named(name: &str) -> Result<Self> {
        Ok(match name {
            "NONE" => Self::None,
            "SOFTMAX" => Self::Softmax,
            "LOGISTIC" => Self::Logistic,
            "SOFTMAX_ZERO" => Self::SoftmaxZero,
            "PROBIT" => Self::Probit,
            other => return Err(Error::unsupported(format!("the transform `{other}` of scores"))),
        })
    }

    pub fn numbered(number: i64) -> Result<Self> {
        let all = [Self::None, Self::Softmax, Self::Logistic, Self::SoftmaxZero, Self::Probit];
        let found = usize::try_from(number).ok().and_then(|number| all.get(number).copied());
        found.ok_or_else(|| Error::unsupported(format!("the transform {number} of scores")))
    }

    pub fn apply(self, scores: &mut [f64]) {
        let each = |scores: &mut [f64], of: fn(f64) -> f64| {
            scores.iter_mut().for_each(|score| *score = of(*score));
        };
        match self {
            Self::None => {}
            Self::Logistic => each(scores, |x| 1.0 / (1.0 + (-x).exp())),
            Self::Probit => each(scores, probit),
            Self::Softmax => softmax(scores, |_| true),
            // Scores of zero mean that nothing is known, and stay zero.
            Self::SoftmaxZero => softmax(scores, |x| x.abs() > 1e-7),
        }
    }
}

fn softmax(scores: &mut [f64], counts: impl Fn(f64) -> bool) {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for score in scores.iter_mut() {
        *score = if counts(*score) { (*score - largest).exp() } else { 0.0 };
    }
    let sum: f64 = scores.iter().sum();
    if sum != 0.0 {
        scores.iter_mut().for_each(|score| *score /= sum);
    }
}

/// The inverse of the normal distribution, by the approximation that runtimes use.
fn probit(probability: f64) -> f64 {
    let x = 2.0 * probability - 1.0;
    let log = ((1.0 - x) * (1.0 + x)).ln();
    if !log.is_finite() {
        return 0.0;
    }
    let v = 2.0 / (std::f64::consts::PI * 0.147) + 0.5 * log;
    let root = ((v * v - log / 0.147).sqrt() - v).sqrt();
    std::f64::consts::SQRT_2 * root.copysign(x)
}

/// The names of classes.
pub enum Classes {
    Integers(Vec<i64>),
    Strings(Vec<String>),
}

impl Classes {
    /// Names from two attributes of which one is there.
    pub fn new(integers: Option<&[i64]>, strings: Option<Vec<&str>>) -> Result<Self> {
        match (integers, strings) {
            (_, Some(list)) if !list.is_empty() => {
                Ok(Self::Strings(list.into_iter().map(str::to_owned).collect()))
            }
            (Some(list), _) if !list.is_empty() => Ok(Self::Integers(list.to_vec())),
            _ => Err(Error::operands("the labels of the classes are missing")),
        }
    }

    pub fn count(&self) -> usize {
        match self {
            Self::Integers(list) => list.len(),
            Self::Strings(list) => list.len(),
        }
    }

    /// The names of classes by their places; `None` is not a class at all.
    pub fn labels(&self, places: &[Option<usize>]) -> Result<Tensor> {
        let shape = [places.len()];
        match self {
            Self::Integers(list) => {
                let label = |place: &Option<usize>| place.map_or(0, |place| list[place]);
                Tensor::new(&shape, places.iter().map(label).collect())
            }
            Self::Strings(list) => {
                let label = |place: &Option<usize>| {
                    place.map_or_else(String::new, |place| list[place].clone())
                };
                Tensor::strings(&shape, places.iter().map(label).collect())
            }
        }
    }
}

/// The place of the largest score; the first of several.
pub fn best(scores: &[f64]) -> usize {
    let mut best = 0;
    for (index, &score) in scores.iter().enumerate() {
        if score > scores[best] {
            best = index;
        }
    }
    best
}
