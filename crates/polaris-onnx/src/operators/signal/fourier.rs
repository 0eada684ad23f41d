//! The discrete Fourier transform of a line of any length, in n log n steps.

use std::f64::consts::PI;

use crate::Result;
use crate::room::{Collected, filled};

/// A real and an imaginary part.
pub type Complex = [f64; 2];

fn times(a: Complex, b: Complex) -> Complex {
    [a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]]
}

/// The transform of a line. The inverse is divided by the length.
pub fn transform(line: &[Complex], inverse: bool) -> Result<Vec<Complex>> {
    let length = line.len();
    // The inverse transform is the forward one of the conjugate, conjugated.
    let flip = |[re, im]: Complex| if inverse { [re, -im] } else { [re, im] };
    let mut values = line.iter().copied().map(flip).collected()?;
    if length.is_power_of_two() {
        powers_of_two(&mut values)?;
    } else if length > 0 {
        values = by_convolution(&values)?;
    }
    let scale = if inverse { 1.0 / length as f64 } else { 1.0 };
    values.iter_mut().for_each(|value| *value = flip(*value).map(|part| part * scale));
    Ok(values)
}

/// The transform of a line whose length is a power of two: halves are transformed and combined.
fn powers_of_two(values: &mut [Complex]) -> Result<()> {
    let length = values.len();
    if length < 2 {
        return Ok(());
    }
    let bits = length.trailing_zeros();
    for index in 0..length {
        let reversed = index.reverse_bits() >> (usize::BITS - bits);
        if index < reversed {
            values.swap(index, reversed);
        }
    }
    let turns = (0..length / 2).map(|index| turn(index as f64, length)).collected()?;
    let mut half = 1;
    while half < length {
        let step = length / (2 * half);
        for block in values.chunks_exact_mut(2 * half) {
            let (first, second) = block.split_at_mut(half);
            for (index, (a, b)) in first.iter_mut().zip(second).enumerate() {
                let turned = times(*b, turns[index * step]);
                (*a, *b) =
                    ([a[0] + turned[0], a[1] + turned[1]], [a[0] - turned[0], a[1] - turned[1]]);
            }
        }
        half *= 2;
    }
    Ok(())
}

/// The unit vector after `part` of `whole` turns, clockwise.
fn turn(part: f64, whole: usize) -> Complex {
    let angle = -2.0 * PI * part / whole as f64;
    [angle.cos(), angle.sin()]
}

/// The transform of a line of any length, as a convolution with a chirp (Bluestein), which is computed
/// by transforms whose length is a power of two.
fn by_convolution(values: &[Complex]) -> Result<Vec<Complex>> {
    let length = values.len();
    let padded = (2 * length).next_power_of_two();
    // Squares are reduced as integers: as floating-point angles they would lose their digits.
    let twice = 2 * length as u128;
    let square = |index: usize| (index as u128 * index as u128 % twice) as f64;
    let chirp = (0..length).map(|index| turn(square(index), 2 * length)).collected()?;
    let mut signal = filled([0.0; 2], padded)?;
    let mut filter = filled([0.0; 2], padded)?;
    for (index, (&value, &[re, im])) in values.iter().zip(&chirp).enumerate() {
        signal[index] = times(value, [re, im]);
        filter[index] = [re, -im];
        filter[(padded - index) % padded] = [re, -im];
    }
    powers_of_two(&mut signal)?;
    powers_of_two(&mut filter)?;
    for (a, b) in signal.iter_mut().zip(filter) {
        *a = times(*a, b);
    }
    let product = transform(&signal, true)?;
    product.into_iter().zip(chirp).map(|(value, chirp)| times(value, chirp)).collected()
}

#[cfg(test)]
mod tests {
    use super::{Complex, times, transform, turn};

    #[test]
    fn every_length_is_the_sum_it_is_defined_by() {
        for length in [1, 2, 3, 5, 8, 12, 17, 30, 64] {
            let line: Vec<Complex> =
                (0..length).map(|i| [(i * i % 7) as f64, (i % 3) as f64 - 1.0]).collect();
            let found = transform(&line, false).unwrap();
            for (k, found) in found.iter().enumerate() {
                let mut sum = [0.0; 2];
                for (n, &value) in line.iter().enumerate() {
                    let [re, im] = times(value, turn((k * n % length) as f64, length));
                    sum = [sum[0] + re, sum[1] + im];
                }
                assert!((sum[0] - found[0]).hypot(sum[1] - found[1]) < 1e-9, "{length} {k}");
            }
            for (back, value) in transform(&found, true).unwrap().iter().zip(&line) {
                assert!((back[0] - value[0]).hypot(back[1] - value[1]) < 1e-9, "{length}");
            }
        }
    }
}
