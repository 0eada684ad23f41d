//! Interpolation along one axis: which elements an output element is made of, with which weights.

use crate::limits::checked_elements;
use crate::room::{Collected, with_room};
use crate::{ElementType, Error, Result};

/// How neighbours are weighted.
#[derive(Debug, Clone, Copy)]
pub enum Kernel {
    Nearest(Rounding),
    Linear,
    /// With the coefficient that ONNX calls `cubic_coeff_a`.
    Cubic(f64),
}

/// Which neighbour is the nearest.
#[derive(Debug, Clone, Copy)]
pub enum Rounding {
    HalfDown,
    HalfUp,
    Down,
    Up,
}

/// How a place in the result becomes one in the operand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Transformation {
    HalfPixel,
    HalfPixelSymmetric,
    /// Of versions 11 and 13 alone.
    HalfPixelForNearest,
    PytorchHalfPixel,
    AlignCorners,
    Asymmetric,
    /// Cut out from one fraction of the axis to another.
    Crop(f64, f64),
}

/// An axis that changes its length.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    pub input: usize,
    pub output: usize,
    pub scale: f64,
    /// The length that the scale makes, before it is cut off to a whole number.
    pub resized: f64,
    pub transformation: Transformation,
    pub kernel: Kernel,
    /// Widens the kernel where the axis becomes shorter.
    pub antialias: bool,
    /// Elements outside do not count, instead of repeating the border.
    pub exclude_outside: bool,
}

/// Elements with their weights; `None` where the place lies outside and a fixed value stands.
pub type Taps = Option<Vec<(usize, f64)>>;

/// The weight of an element at this distance by cubic interpolation.
pub fn cubic(distance: f64, a: f64) -> f64 {
    let x = distance.abs();
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    } else {
        0.0
    }
}

impl Axis {
    /// Whether nothing changes.
    pub fn is_identity(&self) -> bool {
        let whole = match self.transformation {
            Transformation::Crop(start, end) => start == 0.0 && end == 1.0,
            _ => true,
        };
        whole && self.input == self.output && (self.scale - 1.0).abs() < 1e-9
    }

    /// Where an element of the result lies in the operand.
    fn place(&self, at: usize) -> f64 {
        let (x, last) = (at as f64, self.input as f64 - 1.0);
        let half_pixel = (x + 0.5) / self.scale - 0.5;
        match self.transformation {
            Transformation::HalfPixel => half_pixel,
            Transformation::HalfPixelSymmetric => {
                let adjustment = self.output as f64 / self.resized;
                self.input as f64 / 2.0 * (1.0 - adjustment) + half_pixel
            }
            Transformation::HalfPixelForNearest => (x + 0.5) / self.scale,
            Transformation::PytorchHalfPixel if self.resized == 1.0 => 0.0,
            Transformation::PytorchHalfPixel => half_pixel,
            Transformation::AlignCorners if self.resized == 1.0 => 0.0,
            Transformation::AlignCorners => x * last / (self.resized - 1.0),
            Transformation::Asymmetric => x / self.scale,
            Transformation::Crop(start, end) if self.resized == 1.0 => 0.5 * (start + end) * last,
            Transformation::Crop(start, end) => {
                start * last + x * (end - start) * last / (self.resized - 1.0)
            }
        }
    }

    /// What each element of the result is made of.
    pub fn taps(&self) -> Result<Vec<Taps>> {
        if self.input == 0 {
            return Err(Error::operands("nothing can be made of an axis without elements"));
        }
        // An element has four taps, but for those that shrink an axis, and then there are few elements.
        checked_elements(ElementType::C128, &[self.output, 6])?;
        let last = self.input as f64 - 1.0;
        let make = |at: usize| {
            let mut place = self.place(at);
            if matches!(self.kernel, Kernel::Nearest(_)) {
                // Scales come in f32: rounded to it, a place that should be whole is.
                place = f64::from(place as f32);
            }
            let cropped = matches!(self.transformation, Transformation::Crop(..));
            // Not `<`: a place that is NaN lies outside too.
            if cropped && !(0.0..=last).contains(&place) {
                return None;
            }
            // Far outside there is nothing but the border.
            let reach = 4.0 / self.scale.min(1.0) + 4.0;
            Some(self.taps_at(place.max(-reach).min(last + reach)))
        };
        (0..self.output).map(make).collected()
    }

    fn taps_at(&self, place: f64) -> Vec<(usize, f64)> {
        let floor = place.floor();
        let clamp = |at: f64| at.clamp(0.0, self.input as f64 - 1.0) as usize;
        if let Kernel::Nearest(rounding) = self.kernel {
            let nearest = match rounding {
                Rounding::HalfDown => (place - 0.5).ceil(),
                Rounding::HalfUp => (place + 0.5).floor(),
                Rounding::Down => floor,
                Rounding::Up => place.ceil(),
            };
            return vec![(clamp(nearest), 1.0)];
        }
        let width = if self.antialias { self.scale.min(1.0) } else { 1.0 };
        let radius = match self.kernel {
            Kernel::Cubic(_) => 2.0 / width,
            _ => 1.0 / width,
        };
        let weight = |distance: f64| match self.kernel {
            Kernel::Cubic(a) => cubic(distance * width, a),
            _ => (1.0 - (distance * width).abs()).max(0.0),
        };
        let (first, last) = ((place - radius).ceil(), (place + radius).floor());
        let count = (last - first).max(0.0) as usize + 1;
        let mut taps = Vec::with_capacity(count);
        for index in 0..count {
            let at = first + index as f64;
            let outside = at < 0.0 || at >= self.input as f64;
            if !(self.exclude_outside && outside) {
                taps.push((clamp(at), weight(at - place)));
            }
        }
        let sum: f64 = taps.iter().map(|(_, weight)| weight).sum();
        if taps.is_empty() || sum == 0.0 {
            return vec![(clamp(place.round()), 1.0)];
        }
        if self.antialias || self.exclude_outside {
            taps.iter_mut().for_each(|(_, weight)| *weight /= sum);
        }
        taps
    }
}

/// Applies taps along the middle one of three axes: `outer`, that axis, `inner`.
pub fn apply(
    values: &[f64],
    [outer, length, inner]: [usize; 3],
    taps: &[Taps],
    outside: f64,
) -> Result<Vec<f64>> {
    let mut made = with_room(outer * taps.len() * inner)?;
    for block in 0..outer {
        let source = &values[block * length * inner..(block + 1) * length * inner];
        for taps in taps {
            let start = made.len();
            let Some(taps) = taps else {
                made.resize(start + inner, outside);
                continue;
            };
            made.resize(start + inner, 0.0);
            for &(at, weight) in taps {
                let row = &source[at * inner..(at + 1) * inner];
                for (sum, &value) in made[start..].iter_mut().zip(row) {
                    *sum += weight * value;
                }
            }
        }
    }
    Ok(made)
}
