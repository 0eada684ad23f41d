//! The loops of batch normalisation on the CPU: along a row of one channel, and over channels that
//! lie side by side.

use crate::cpu::simd::multiversion;
use crate::norm::cpu_rows::{Number, write};

/// Independent running sums.
const LANES: usize = 32;

multiversion! {
    /// The sum of a block's gradients times the differences from a number, and that of the gradients.
    pub fn products<C: Number>(x: &[C], g: &[C], centre: C) -> [f64; 2] {
        let mut first = [C::default(); LANES];
        let mut second = [C::default(); LANES];
        for (x, g) in x.chunks(LANES).zip(g.chunks(LANES)) {
            for (((first, second), &x), &g) in first.iter_mut().zip(&mut second).zip(x).zip(g) {
                *first = *first + g * (x - centre);
                *second = *second + g;
            }
        }
        [first, second].map(|lanes| lanes.into_iter().map(C::wide).sum())
    }
}

multiversion! {
    /// Adds one element of each channel to its sum.
    pub fn add<C: Number>(x: &[C], sums: &mut [C]) {
        for (sum, &x) in sums.iter_mut().zip(x) {
            *sum = *sum + x;
        }
    }
}

multiversion! {
    /// Adds the difference of one element of each channel, and its square.
    pub fn add_moments<C: Number>(x: &[C], centre: &[C], first: &mut [C], second: &mut [C]) {
        let sums = first.iter_mut().zip(second.iter_mut());
        for ((&x, &centre), (first, second)) in x.iter().zip(centre).zip(sums) {
            let difference = x - centre;
            *first = *first + difference;
            *second = *second + difference * difference;
        }
    }
}

multiversion! {
    /// Adds the gradient of one element of each channel times its difference, and the gradient.
    pub fn add_products<C: Number>(
        x: &[C],
        g: &[C],
        centre: &[C],
        first: &mut [C],
        second: &mut [C],
    ) {
        let sums = first.iter_mut().zip(second.iter_mut());
        for (((&x, &g), &centre), (first, second)) in x.iter().zip(g).zip(centre).zip(sums) {
            *first = *first + g * (x - centre);
            *second = *second + g;
        }
    }
}

/// What a channel's elements become: `(x - centre) * factor + shift`, and `g * slope` more where there
/// is a gradient.
#[derive(Debug, Clone, Copy, Default)]
pub struct Coefficients<C> {
    pub centre: C,
    pub factor: C,
    pub shift: C,
    pub slope: C,
}

multiversion! {
    /// Writes a row of one channel, whose gradient is empty if there is none.
    pub fn write_row<C: Number>(
        x: &[C],
        g: &[C],
        by: Coefficients<C>,
        result: &mut [C],
        streamed: bool,
    ) {
        let Coefficients { centre, factor, shift, slope } = by;
        if g.is_empty() {
            write::<C, VECTOR_BYTES>([x, x, x], result, streamed, |x, _, _| {
                (x - centre) * factor + shift
            });
        } else {
            write::<C, VECTOR_BYTES>([x, g, x], result, streamed, |x, g, _| {
                g * slope + ((x - centre) * factor + shift)
            });
        }
    }
}

multiversion! {
    /// Writes one element of each channel; the gradient is empty if there is none.
    pub fn write_channels<C: Number>(
        x: &[C],
        g: &[C],
        by: &[Coefficients<C>],
        result: &mut [C],
    ) {
        if g.is_empty() {
            for ((result, &x), by) in result.iter_mut().zip(x).zip(by) {
                *result = (x - by.centre) * by.factor + by.shift;
            }
        } else {
            for (((result, &x), &g), by) in result.iter_mut().zip(x).zip(g).zip(by) {
                *result = g * by.slope + ((x - by.centre) * by.factor + by.shift);
            }
        }
    }
}
