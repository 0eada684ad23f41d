//! Random augmentation of images.
//!
//! Pixels from outside an image repeat the nearest edge pixel: unlike zero, that works with any normalisation.

use crate::{Error, Kind, Random, Result, Spec};

/// A random change to an input of dimensions `[C, H, W]`. All channels change alike, but for
/// noise.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Augment {
    /// Moves the image by whole pixels, up to so many to each side.
    Shift {
        /// The most pixels.
        pixels: usize,
    },
    /// Swaps left and right.
    Flip {
        /// How often, from 0 (never) to 1 (always).
        probability: f32,
    },
    /// Turns the image about its centre, up to so far to each side; bilinear.
    Rotate {
        /// The largest angle.
        degrees: f32,
    },
    /// Makes the image larger or smaller about its centre by a factor from `1 - amount` to
    /// `1 + amount`; bilinear.
    Scale {
        /// From 0 (not at all) to below 1.
        amount: f32,
    },
    /// Adds to every number one of a normal distribution.
    Noise {
        /// Its standard deviation.
        std: f32,
    },
}

impl Augment {
    /// Whether this change is possible for inputs of this kind.
    pub(crate) fn check(&self, input: &Spec) -> Result<()> {
        let (option, value, fine, range) = match *self {
            // Larger shifts would leave nothing of the image, and are surely a mistake.
            Augment::Shift { pixels } => (
                "shift pixels",
                pixels as f64,
                input.dims.len() != 3 || pixels < input.dims[1].min(input.dims[2]),
                "from 0 to below the smaller side of the image",
            ),
            Augment::Flip { probability: p } => {
                ("flip probability", p.into(), (0.0..=1.0).contains(&p), "from 0 to 1")
            }
            Augment::Rotate { degrees: d } => {
                ("rotate degrees", d.into(), (0.0..=180.0).contains(&d), "from 0 to 180")
            }
            Augment::Scale { amount: a } => {
                ("scale amount", a.into(), (0.0..1.0).contains(&a), "from 0 to below 1")
            }
            Augment::Noise { std } => {
                ("noise std", std.into(), (0.0..f32::INFINITY).contains(&std), "0 or more")
            }
        };
        if input.dims.len() != 3 || input.kind != Kind::F32 {
            return Err(Error::BadOption {
                option: "augment",
                value: format!("{self:?}"),
                reason: format!(
                    "inputs must be f32 images of dimensions [C, H, W]; these are {} {:?}: leave \
                     it out, or give input_dims",
                    input.kind, input.dims
                ),
            });
        }
        if !fine {
            return Err(Error::BadOption {
                option,
                value: value.to_string(),
                reason: format!("it must be {range}"),
            });
        }
        Ok(())
    }

    /// Changes an image of dimensions `[C, H, W]`; other inputs are left as they are, but for
    /// noise.
    pub fn apply(&self, image: &mut [f32], dims: &[usize], random: &mut Random) {
        match *self {
            Augment::Shift { pixels } => {
                let mut step = || random.below(2 * pixels as u64 + 1) as f64 - pixels as f64;
                let (down, right) = (step(), step());
                resample(image, dims, |y, x| (y - down, x - right));
            }
            Augment::Flip { probability } => {
                if random.uniform() < f64::from(probability) {
                    let width = dims.last().copied().unwrap_or(1).max(1);
                    image.chunks_exact_mut(width).for_each(<[f32]>::reverse);
                }
            }
            Augment::Rotate { degrees } => {
                let (sin, cos) = random.within(f64::from(degrees).to_radians()).sin_cos();
                about_centre(image, dims, |y, x| (cos * y - sin * x, sin * y + cos * x));
            }
            Augment::Scale { amount } => {
                let factor = 1.0 + random.within(amount.into());
                about_centre(image, dims, |y, x| (y / factor, x / factor));
            }
            Augment::Noise { std } => {
                for value in image {
                    *value += std * random.normal() as f32;
                }
            }
        }
    }
}

/// Resamples an image by a map of places relative to its centre.
fn about_centre(image: &mut [f32], dims: &[usize], from: impl Fn(f64, f64) -> (f64, f64)) {
    let &[_, height, width] = dims else { return };
    let (middle_y, middle_x) = ((height as f64 - 1.0) / 2.0, (width as f64 - 1.0) / 2.0);
    resample(image, dims, |y, x| {
        let (y, x) = from(y - middle_y, x - middle_x);
        (y + middle_y, x + middle_x)
    });
}

/// Gives each pixel the value at the place `from` says, between pixels by bilinear weights, and
/// outside the image by the nearest edge.
fn resample(image: &mut [f32], dims: &[usize], from: impl Fn(f64, f64) -> (f64, f64)) {
    let &[_, height, width] = dims else { return };
    if height == 0 || width == 0 {
        return;
    }
    let split = |place: f64, size: usize| {
        let place = place.clamp(0.0, (size - 1) as f64);
        let low = place.floor();
        (low as usize, (low as usize + 1).min(size - 1), (place - low) as f32)
    };
    let blend = |a: f32, b: f32, weight: f32| if weight == 0.0 { a } else { a + (b - a) * weight };
    for plane in image.chunks_exact_mut(height * width) {
        let old = plane.to_vec();
        for (place, pixel) in plane.iter_mut().enumerate() {
            let (y, x) = from((place / width) as f64, (place % width) as f64);
            let ((top, bottom, down), (left, right, across)) = (split(y, height), split(x, width));
            let row = |y: usize| blend(old[y * width + left], old[y * width + right], across);
            *pixel = blend(row(top), row(bottom), down);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Vec<f32> {
        (0..24).map(|n| ((n * 7) % 24) as f32).collect()
    }
    const DIMS: [usize; 3] = [2, 3, 4];

    fn changed(augment: Augment, seed: u64) -> Vec<f32> {
        let mut image = picture();
        augment.apply(&mut image, &DIMS, &mut Random::new(&[seed]));
        image
    }

    #[test]
    fn nothing_changes_where_nothing_is_asked_for() {
        for seed in 0..20 {
            for augment in [
                Augment::Shift { pixels: 0 },
                Augment::Flip { probability: 0.0 },
                Augment::Rotate { degrees: 0.0 },
                Augment::Scale { amount: 0.0 },
                Augment::Noise { std: 0.0 },
            ] {
                assert_eq!(changed(augment, seed), picture(), "{augment:?}");
            }
        }
    }

    #[test]
    fn flipping_twice_gives_the_image_back() {
        let flip = Augment::Flip { probability: 1.0 };
        let mut image = changed(flip, 1);
        assert_eq!(image[..4], [21.0, 14.0, 7.0, 0.0]);
        flip.apply(&mut image, &DIMS, &mut Random::new(&[2]));
        assert_eq!(image, picture());
    }

    #[test]
    fn shifts_move_pixels_and_repeat_edges() {
        let old = picture();
        let at = |y: isize, x: isize| old[(y.clamp(0, 2) * 4 + x.clamp(0, 3)) as usize];
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..200 {
            let new = changed(Augment::Shift { pixels: 1 }, seed);
            let moved = (-1..=1)
                .flat_map(|dy| (-1..=1).map(move |dx| (dy, dx)))
                .find(|&(dy, dx)| (0..12).all(|i| new[i as usize] == at(i / 4 - dy, i % 4 - dx)));
            seen.insert(moved.expect("a shift should move every pixel by the same"));
        }
        assert_eq!(seen.len(), 9);
    }

    #[test]
    fn turning_a_square_by_right_angles_permutes_it() {
        let mut image: Vec<f32> = (0..9).map(|n| n as f32).collect();
        let quarter = |y: f64, x: f64| (-x, y);
        about_centre(&mut image, &[1, 3, 3], quarter);
        assert_eq!(image, [6.0, 3.0, 0.0, 7.0, 4.0, 1.0, 8.0, 5.0, 2.0]);
    }

    /// Bilinear weights are exact on a slope, so turning keeps its steepness, and scaling
    /// divides it; the centre stays.
    #[test]
    fn slopes_turn_and_stretch() {
        let slope: Vec<f32> = (0..81).map(|n| (3 * (n / 9) + 4 * (n % 9)) as f32).collect();
        for seed in 0..50 {
            let steepness = |augment: Augment| {
                let mut image = slope.clone();
                augment.apply(&mut image, &[1, 9, 9], &mut Random::new(&[seed]));
                assert!((image[40] - slope[40]).abs() < 1e-4);
                (image[49] - image[31]).hypot(image[41] - image[39]) / 2.0
            };
            assert!((steepness(Augment::Rotate { degrees: 180.0 }) - 5.0).abs() < 1e-3);
            let stretched = steepness(Augment::Scale { amount: 0.5 });
            assert!((5.0 / 1.5 - 1e-3..=5.0 / 0.5 + 1e-3).contains(&stretched), "{stretched}");
        }
    }

    #[test]
    fn a_plain_image_stays_plain_and_values_stay_within_range() {
        for seed in 0..50 {
            for augment in [Augment::Rotate { degrees: 30.0 }, Augment::Scale { amount: 0.5 }] {
                let mut plain = vec![0.25; 24];
                augment.apply(&mut plain, &DIMS, &mut Random::new(&[seed]));
                assert_eq!(plain, vec![0.25; 24]);
                let image = changed(augment, seed);
                assert!(image.iter().all(|x| (-1e-4..=23.0001).contains(x)));
                assert_ne!(image, picture());
            }
        }
    }

    #[test]
    fn noise_has_the_deviation_asked_for() {
        let mut image = vec![1.0; 20_000];
        Augment::Noise { std: 0.5 }.apply(&mut image, &[1, 100, 200], &mut Random::new(&[3]));
        let variance: f32 = image.iter().map(|x| (x - 1.0).powi(2)).sum::<f32>() / 20_000.0;
        assert!((variance - 0.25).abs() < 0.02, "{variance}");
    }

    #[test]
    fn impossible_changes_are_refused() {
        let image = Spec::new([1, 8, 6], Kind::F32);
        assert!(Augment::Shift { pixels: 5 }.check(&image).is_ok());
        for augment in [
            Augment::Shift { pixels: 6 },
            Augment::Flip { probability: 1.5 },
            Augment::Rotate { degrees: f32::NAN },
            Augment::Scale { amount: 1.0 },
            Augment::Noise { std: f32::INFINITY },
        ] {
            assert!(augment.check(&image).is_err(), "{augment:?}");
        }
        for other in [Spec::new([64], Kind::F32), Spec::new([1, 8, 8], Kind::I64)] {
            assert!(Augment::Noise { std: 0.1 }.check(&other).is_err());
        }
    }
}
