//! GridSample and AffineGrid: elements at places that a grid says.

use super::interpolate::cubic;
use crate::limits::checked_elements;
use crate::operators::{Call, one};
use crate::room::{filled, with_room};
use crate::{ElementType, Error, Result, Tensor, Value};

/// What lies beyond the border.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Padding {
    Zeros,
    Border,
    Reflection,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// How places along one axis are read.
struct Sampler {
    length: usize,
    mode: Mode,
    padding: Padding,
    align_corners: bool,
}

/// Numbers beyond it are the same as it, and fit integers.
const FAR: f64 = 1e9;

impl Sampler {
    /// The first and the last place that are not beyond the border.
    fn border(&self) -> (f64, f64) {
        let length = self.length as f64;
        if self.align_corners { (0.0, length - 1.0) } else { (-0.5, length - 0.5) }
    }

    /// A place mirrored at the borders until it lies between them.
    fn reflected(&self, place: f64) -> f64 {
        let (low, high) = self.border();
        let range = high - low;
        if range <= 0.0 {
            return 0.0;
        }
        let (distance, from, to) = if place < low {
            (low - place, low, high)
        } else if place > high {
            (place - high, high, low)
        } else {
            return place;
        };
        let turns = (distance / range).floor();
        let rest = (distance - turns * range).copysign(to - from);
        if turns % 2.0 == 0.0 { from + rest } else { to - rest }
    }

    /// The element at a whole place, if there is one.
    fn element(&self, at: f64) -> Option<usize> {
        let last = self.length as f64 - 1.0;
        let at = match self.padding {
            Padding::Zeros if !(0.0..=last).contains(&at) => return None,
            Padding::Zeros | Padding::Border => at,
            Padding::Reflection => self.reflected(at).trunc(),
        };
        Some(at.clamp(0.0, last) as usize)
    }

    /// The elements with their weights for a coordinate between -1 and 1.
    fn taps(&self, coordinate: f64) -> Vec<(usize, f64)> {
        let length = self.length as f64;
        let place = if self.align_corners {
            (coordinate + 1.0) / 2.0 * (length - 1.0)
        } else {
            ((coordinate + 1.0) * length - 1.0) / 2.0
        };
        // Rounded to f32, as coordinates are: halves stay halves.
        let mut place = f64::from(place as f32).clamp(-FAR, FAR);
        if self.mode == Mode::Nearest {
            place = place.round_ties_even();
        }
        let (low, high) = self.border();
        if place < low || place > high {
            place = match self.padding {
                Padding::Zeros => place,
                Padding::Border => place.clamp(0.0, length - 1.0),
                Padding::Reflection => self.reflected(place),
            };
        }
        let floor = place.floor();
        let weights: Vec<(f64, f64)> = match self.mode {
            Mode::Nearest => vec![(place.trunc(), 1.0)],
            Mode::Linear => vec![(floor, 1.0 - (place - floor)), (floor + 1.0, place - floor)],
            Mode::Cubic => {
                let at = (-1..=2).map(|step| floor + f64::from(step));
                at.map(|at| (at, cubic(at - place, -0.75))).collect()
            }
        };
        let known = weights.into_iter();
        known.filter_map(|(at, weight)| Some((self.element(at)?, weight))).collect()
    }
}

pub fn grid_sample(call: &Call<'_>) -> Result<Vec<Value>> {
    let (x, grid) = (call.tensor(0)?, call.tensor(1)?);
    let attributes = call.attributes();
    let mode = match attributes.string_or("mode", "linear")? {
        "linear" | "bilinear" => Mode::Linear,
        "cubic" | "bicubic" => Mode::Cubic,
        "nearest" => Mode::Nearest,
        other => return Err(Error::operands(format!("there is no mode `{other}`"))),
    };
    let padding = match attributes.string_or("padding_mode", "zeros")? {
        "zeros" => Padding::Zeros,
        "border" => Padding::Border,
        "reflection" => Padding::Reflection,
        other => return Err(Error::operands(format!("there is no padding_mode `{other}`"))),
    };
    let align_corners = attributes.flag("align_corners", false)?;
    let wrong = || {
        let (x, grid) = (x.shape(), grid.shape());
        Error::operands(format!("a grid of {grid:?} does not match {x:?}"))
    };
    let [batch, channels, axes @ ..] = x.shape() else { return Err(wrong()) };
    let [grid_batch, places @ .., coordinates] = grid.shape() else { return Err(wrong()) };
    if grid_batch != batch
        || *coordinates != axes.len()
        || places.len() != axes.len()
        || axes.is_empty()
    {
        return Err(wrong());
    }
    let mut shape = vec![*batch, *channels];
    shape.extend_from_slice(places);
    let mut y = filled(0.0, checked_elements(ElementType::F64, &shape)?)?;
    let samplers: Vec<Sampler> =
        axes.iter().map(|&length| Sampler { length, mode, padding, align_corners }).collect();
    let (values, grid) = (x.to_f64()?, grid.to_f64()?);
    if !y.is_empty() && values.is_empty() {
        return Err(Error::operands("there is nothing to sample"));
    }
    let (input, output): (usize, usize) = (axes.iter().product(), places.iter().product());
    if !y.is_empty() {
        for (point, coordinates) in grid.chunks(axes.len()).enumerate() {
            let (of, place) = (point / output, point % output);
            let mut taps = vec![(0, 1.0)];
            // The coordinates begin with the last axis.
            for (sampler, &coordinate) in samplers.iter().zip(coordinates.iter().rev()) {
                let along = sampler.taps(coordinate);
                taps = (taps.iter())
                    .flat_map(|&(start, weight)| {
                        let length = sampler.length;
                        along.iter().map(move |&(at, more)| (start * length + at, weight * more))
                    })
                    .collect();
            }
            for channel in of * channels..(of + 1) * channels {
                let source = &values[channel * input..(channel + 1) * input];
                y[channel * output + place] =
                    taps.iter().map(|&(at, weight)| weight * source[at]).sum();
            }
        }
    }
    Ok(one(Tensor::from_f64(x.element(), &shape, &y)?))
}

pub fn affine_grid(call: &Call<'_>) -> Result<Vec<Value>> {
    let theta = call.tensor(0)?;
    let align_corners = call.attributes().flag("align_corners", false)?;
    let size: Vec<usize> = (call.tensor(1)?.to_i64()?.into_iter())
        .map(|length| usize::try_from(length).map_err(|_| Error::operands("a negative length")))
        .collect::<Result<_>>()?;
    let [batch, _, axes @ ..] = size.as_slice() else {
        return Err(Error::operands(format!("{size:?} is not the size of an image")));
    };
    let rank = axes.len();
    if rank == 0 || theta.shape() != [*batch, rank, rank + 1] {
        let found = theta.shape();
        return Err(Error::operands(format!("transformations of {found:?} for {size:?}")));
    }
    let mut shape = vec![*batch];
    shape.extend_from_slice(axes);
    shape.push(rank);
    let mut grid = with_room(checked_elements(ElementType::F64, &shape)?)?;
    let transformations = theta.to_f64()?;
    let coordinate = |at: usize, length: usize| match (align_corners, length) {
        (true, 1) => -1.0,
        (true, length) => 2.0 * at as f64 / (length as f64 - 1.0) - 1.0,
        (false, length) => (2.0 * at as f64 + 1.0) / length as f64 - 1.0,
    };
    for matrix in transformations.chunks(rank * (rank + 1)) {
        for place in 0..axes.iter().product() {
            let at = crate::operators::walk::coordinates(place, axes);
            // The coordinates begin with the last axis, and end with a 1 for the shift.
            let mut point: Vec<f64> =
                at.iter().zip(axes).rev().map(|(&at, &length)| coordinate(at, length)).collect();
            point.push(1.0);
            grid.extend(matrix.chunks(rank + 1).map(|row| {
                row.iter().zip(&point).map(|(factor, number)| factor * number).sum::<f64>()
            }));
        }
    }
    Ok(one(Tensor::from_f64(theta.element(), &shape, &grid)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_far_outside_and_no_numbers_are_read() {
        for padding in [Padding::Zeros, Padding::Border, Padding::Reflection] {
            for mode in [Mode::Nearest, Mode::Linear, Mode::Cubic] {
                for (length, align_corners) in [(1, true), (1, false), (3, true), (3, false)] {
                    let sampler = Sampler { length, mode, padding, align_corners };
                    for coordinate in [f64::NAN, f64::INFINITY, -1e300, 7.7, -3.2] {
                        assert!(sampler.taps(coordinate).iter().all(|&(at, _)| at < length));
                    }
                }
            }
        }
    }
}
