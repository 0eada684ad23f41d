//! The loops of softmax on the CPU: along a row, and over parts of rows that lie side by side.

use crate::cpu::blocks::{LONG_BLOCK, STREAMED, stream};
use crate::cpu::map::SendPointer;
use crate::cpu::math::Real;
use crate::cpu::simd::multiversion;

/// What a sum needs of its numbers.
pub trait Number: Real {
    const LOWEST: Self;

    fn wide(self) -> f64;
}

impl Number for f32 {
    const LOWEST: Self = f32::NEG_INFINITY;

    #[inline(always)]
    fn wide(self) -> f64 {
        f64::from(self)
    }
}

impl Number for f64 {
    const LOWEST: Self = f64::NEG_INFINITY;

    #[inline(always)]
    fn wide(self) -> f64 {
        self
    }
}

/// One of the functions: what each element adds to its row's sum, and what becomes of it then.
/// `a` and `b` are elements of the two inputs, or the same one of a single input.
pub trait Rule<C>: Sync {
    /// How many inputs there are.
    const INPUTS: usize;
    /// Whether the row's largest element is needed.
    const SHIFTS: bool;
    /// Whether results are made of the addends by [`Scale`], so that it pays to keep them.
    const KEEPS: bool;

    fn addend<const VECTOR_BYTES: usize>(a: C, b: C, largest: C) -> C;
    /// What results need of the row's sum.
    fn total(sum: f64) -> f64;
    fn result<const VECTOR_BYTES: usize>(a: C, b: C, largest: C, total: C) -> C;
}

macro_rules! rule {
    ($name:ident, inputs: $inputs:literal, shifts: $shifts:literal, keeps: $keeps:literal,
     addend: |$a:ident, $b:ident, $largest:ident| $addend:expr, total: |$sum:ident| $total:expr,
     result: |$x:ident, $y:ident, $l:ident, $t:ident| $result:expr) => {
        pub struct $name;

        impl<C: Number> Rule<C> for $name {
            const INPUTS: usize = $inputs;
            const SHIFTS: bool = $shifts;
            const KEEPS: bool = $keeps;

            #[inline(always)]
            fn addend<const VECTOR_BYTES: usize>($a: C, $b: C, $largest: C) -> C {
                $addend
            }

            #[inline(always)]
            fn total($sum: f64) -> f64 {
                $total
            }

            #[inline(always)]
            fn result<const VECTOR_BYTES: usize>($x: C, $y: C, $l: C, $t: C) -> C {
                $result
            }
        }
    };
}

rule!(Softmax, inputs: 1, shifts: true, keeps: true,
    addend: |a, _b, largest| (a - largest).exp_of_small::<VECTOR_BYTES>(),
    total: |sum| 1.0 / sum,
    result: |a, _b, largest, total| (a - largest).exp_of_small::<VECTOR_BYTES>() * total);
rule!(LogSoftmax, inputs: 1, shifts: true, keeps: false,
    addend: |a, _b, largest| (a - largest).exp_of_small::<VECTOR_BYTES>(),
    total: |sum| sum.ln(),
    result: |a, _b, largest, total| a - largest - total);
rule!(SoftmaxGradient, inputs: 2, shifts: false, keeps: false,
    addend: |a, b, _largest| a * b,
    total: |sum| sum,
    result: |a, b, _largest, total| a * (b - total));
rule!(LogSoftmaxGradient, inputs: 2, shifts: false, keeps: false,
    addend: |_a, b, _largest| b,
    total: |sum| sum,
    result: |a, b, _largest, total| b - a.exp_of_small::<VECTOR_BYTES>() * total);
// What is left to do with kept addends.
rule!(Scale, inputs: 1, shifts: false, keeps: false,
    addend: |a, _b, _largest| a,
    total: |sum| sum,
    result: |a, _b, _largest, total| a * total);

/// Independent running results of a search, and of a sum: powers of two.
const SEARCHED: usize = 64;
const SUMMED: usize = 32;

/// A NaN is never the larger one: it shows in the sum, whatever is subtracted from it.
#[inline(always)]
fn larger<C: PartialOrd>(a: C, b: C) -> C {
    if b > a { b } else { a }
}

/// All lanes combined, the upper half with the lower one again and again: one after another, they
/// would wait for each other longer than a short row takes.
#[inline(always)]
fn halved<T: Copy, const N: usize>(mut lanes: [T; N], combine: impl Fn(T, T) -> T) -> T {
    let mut width = N / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = combine(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

multiversion! {
    /// The largest of a row.
    pub fn largest<C: Number>(values: &[C]) -> C {
        let mut lanes = [C::LOWEST; SEARCHED];
        let mut chunks = values.chunks_exact(SEARCHED);
        for chunk in &mut chunks {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane = larger(*lane, value);
            }
        }
        for (lane, &value) in lanes.iter_mut().zip(chunks.remainder()) {
            *lane = larger(*lane, value);
        }
        halved(lanes, larger)
    }
}

/// Adds one stretch of at most `SUMMED` elements to the lanes.
#[inline(always)]
fn add<C: Number, F: Rule<C>, const VECTOR_BYTES: usize>(
    lanes: &mut [C; SUMMED],
    a: &[C],
    b: &[C],
    largest: C,
    kept: &mut [C],
) {
    let b = &b[..a.len()];
    for i in 0..a.len().min(SUMMED) {
        let addend = F::addend::<VECTOR_BYTES>(a[i], b[i], largest);
        lanes[i] = lanes[i] + addend;
        if F::KEEPS {
            kept[i] = addend;
        }
    }
}

multiversion! {
    /// The sum of a row's addends, in `f64` between blocks; they are kept where that is of use.
    pub fn sum<C: Number, F: Rule<C>>(a: &[C], b: &[C], largest: C, kept: &mut [C]) -> f64 {
        let mut total = 0.0;
        for start in (0..a.len()).step_by(LONG_BLOCK) {
            let end = a.len().min(start + LONG_BLOCK);
            let whole = end - (end - start) % SUMMED;
            let mut lanes = [C::default(); SUMMED];
            for at in (start..whole).step_by(SUMMED) {
                let kept: &mut [C] = if F::KEEPS { &mut kept[at..][..SUMMED] } else { &mut [] };
                add::<C, F, VECTOR_BYTES>(&mut lanes, &a[at..][..SUMMED], &b[at..][..SUMMED], largest, kept);
            }
            let kept: &mut [C] = if F::KEEPS { &mut kept[whole..end] } else { &mut [] };
            add::<C, F, VECTOR_BYTES>(&mut lanes, &a[whole..end], &b[whole..end], largest, kept);
            total += halved(lanes.map(C::wide), |a, b| a + b);
        }
        total
    }
}

multiversion! {
    /// The results of a row.
    pub fn results<C: Number, F: Rule<C>>(
        a: &[C],
        b: &[C],
        largest: C,
        total: C,
        results: &mut [C],
    ) {
        for ((result, &a), &b) in results.iter_mut().zip(a).zip(b) {
            *result = F::result::<VECTOR_BYTES>(a, b, largest, total);
        }
    }
}

multiversion! {
    /// The results of a row, written past the caches to memory that is aligned to a line.
    pub fn streamed_results<C: Number, F: Rule<C>>(
        a: &[C],
        b: &[C],
        largest: C,
        total: C,
        target: SendPointer,
    ) {
        let target = target.get().cast::<C>();
        let whole = a.len() / STREAMED * STREAMED;
        for at in (0..whole).step_by(STREAMED) {
            let (a, b) = (&a[at..][..STREAMED], &b[at..][..STREAMED]);
            let mut values = [C::default(); STREAMED];
            for (i, value) in values.iter_mut().enumerate() {
                *value = F::result::<VECTOR_BYTES>(a[i], b[i], largest, total);
            }
            // SAFETY: the caller gives aligned memory for as many results as there are elements.
            unsafe { stream::<C, VECTOR_BYTES>(&values, target.add(at)) };
        }
        for at in whole..a.len() {
            // SAFETY: as above.
            unsafe { *target.add(at) = F::result::<VECTOR_BYTES>(a[at], b[at], largest, total) };
        }
    }
}

multiversion! {
    /// The largest of each of several rows, whose elements lie side by side in the tile.
    pub fn largest_of_each<C: Number>(tile: &[C], largest: &mut [C]) {
        for part in tile.chunks_exact(largest.len()) {
            for (largest, &value) in largest.iter_mut().zip(part) {
                *largest = larger(*largest, value);
            }
        }
    }
}

multiversion! {
    /// The sums of several rows that lie side by side in the tiles. Addends take the place of the
    /// first tile's elements where they are of use.
    pub fn sum_of_each<C: Number, F: Rule<C>>(
        a: &mut [C],
        b: &[C],
        largest: &[C],
        sums: &mut [f64],
    ) {
        let width = sums.len();
        let largest = &largest[..width];
        for (index, a) in a.chunks_exact_mut(width).enumerate() {
            let b: &[C] = if F::INPUTS == 2 { &b[index * width..][..width] } else { &[] };
            for i in 0..width {
                let other = if F::INPUTS == 2 { b[i] } else { a[i] };
                let addend = F::addend::<VECTOR_BYTES>(a[i], other, largest[i]);
                sums[i] += addend.wide();
                if F::KEEPS {
                    a[i] = addend;
                }
            }
        }
    }
}

multiversion! {
    /// The results of several rows that lie side by side in the tiles, in the place of the first
    /// tile's elements.
    pub fn result_of_each<C: Number, F: Rule<C>>(
        a: &mut [C],
        b: &[C],
        largest: &[C],
        totals: &[C],
    ) {
        let width = totals.len();
        let largest = &largest[..width];
        for (index, a) in a.chunks_exact_mut(width).enumerate() {
            let b: &[C] = if F::INPUTS == 2 { &b[index * width..][..width] } else { &[] };
            for i in 0..width {
                let other = if F::INPUTS == 2 { b[i] } else { a[i] };
                a[i] = F::result::<VECTOR_BYTES>(a[i], other, largest[i], totals[i]);
            }
        }
    }
}
