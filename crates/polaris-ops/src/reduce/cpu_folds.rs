//! The folds of reductions: how a block of elements is added to a running result.

use std::marker::PhantomData;

use super::cpu::Level;
use crate::cpu::blocks::ComputeType;
use crate::cpu::simd::multiversion;

/// A reduction of elements of type `C`.
pub trait Fold<C>: Sync {
    type State: Copy + Send + Sync;

    /// The result of no elements.
    fn start(&self) -> Self::State;

    /// Adds elements whose indices start at `first`.
    fn block(&self, level: Level, state: &mut Self::State, values: &[C], first: u64);

    /// Adds one element to each of several results.
    fn side_by_side(&self, level: Level, states: &mut [Self::State], values: &[C], index: u64);

    /// The result of `a`'s elements followed by `b`'s.
    fn combine(&self, a: Self::State, b: Self::State) -> Self::State;
}

/// Elements of the widest vector register, in `f32`.
const WIDTH: usize = 16;

/// Independent running results: enough for four such registers.
const LANES: usize = 4 * WIDTH;

/// What a sum needs of its elements.
pub trait Summand: ComputeType {
    type Total: Copy + Send + Sync + Default;

    /// In the elements' own type, for short stretches.
    fn plus(self, other: Self) -> Self;
    fn widen(self) -> Self::Total;
    fn add(total: Self::Total, other: Self::Total) -> Self::Total;
}

macro_rules! summand {
    ($type:ty, $total:ty, |$a:ident, $b:ident| $plus:expr, |$t:ident, $o:ident| $add:expr) => {
        impl Summand for $type {
            type Total = $total;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $plus
            }

            #[inline(always)]
            fn widen(self) -> $total {
                <$total>::from(self)
            }

            #[inline(always)]
            fn add($t: $total, $o: $total) -> $total {
                $add
            }
        }
    };
}

summand!(f32, f64, |a, b| a + b, |a, b| a + b);
summand!(f64, f64, |a, b| a + b, |a, b| a + b);
summand!(i64, i64, |a, b| a.wrapping_add(b), |a, b| a.wrapping_add(b));

/// Sums, in `f64` between blocks.
pub struct Sum<C>(PhantomData<C>);

impl<C> Sum<C> {
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

multiversion! {
    fn sum_block<C: Summand>(values: &[C]) -> C::Total {
        // Four streams side by side: the processor fetches ahead in each of them, which brings
        // more from memory than one stream alone.
        let quarter = values.len() / 4 / WIDTH * WIDTH;
        let (streams, rest) = values.split_at(4 * quarter);
        let mut lanes = [[C::default(); WIDTH]; 4];
        for at in (0..quarter).step_by(WIDTH) {
            for (stream, lanes) in lanes.iter_mut().enumerate() {
                let values = &streams[stream * quarter + at..][..WIDTH];
                for (lane, &value) in lanes.iter_mut().zip(values) {
                    *lane = lane.plus(value);
                }
            }
        }
        for (i, &value) in rest.iter().enumerate() {
            lanes[i / WIDTH % 4][i % WIDTH] = lanes[i / WIDTH % 4][i % WIDTH].plus(value);
        }
        let mut totals = [C::Total::default(); WIDTH];
        for lanes in lanes {
            for (total, lane) in totals.iter_mut().zip(lanes) {
                *total = C::add(*total, lane.widen());
            }
        }
        totals.into_iter().fold(C::Total::default(), C::add)
    }
}

multiversion! {
    fn sum_columns<C: Summand>(states: &mut [C::Total], values: &[C]) {
        for (state, &value) in states.iter_mut().zip(values) {
            *state = C::add(*state, value.widen());
        }
    }
}

impl<C: Summand> Fold<C> for Sum<C> {
    type State = C::Total;

    fn start(&self) -> C::Total {
        C::Total::default()
    }

    fn block(&self, level: Level, state: &mut C::Total, values: &[C], _: u64) {
        *state = C::add(*state, sum_block::<C>(level, values));
    }

    fn side_by_side(&self, level: Level, states: &mut [C::Total], values: &[C], _: u64) {
        sum_columns::<C>(level, states, values);
    }

    fn combine(&self, a: C::Total, b: C::Total) -> C::Total {
        C::add(a, b)
    }
}

/// What the search for an extreme needs of its elements.
pub trait Ordered: ComputeType {
    const LOWEST: Self;
    const HIGHEST: Self;

    fn is_nan(self) -> bool;
}

impl Ordered for f32 {
    const LOWEST: Self = f32::NEG_INFINITY;
    const HIGHEST: Self = f32::INFINITY;

    #[inline(always)]
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
}

impl Ordered for f64 {
    const LOWEST: Self = f64::NEG_INFINITY;
    const HIGHEST: Self = f64::INFINITY;

    #[inline(always)]
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
}

impl Ordered for i64 {
    const LOWEST: Self = i64::MIN;
    const HIGHEST: Self = i64::MAX;

    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
}

/// The larger or a NaN. A NaN in `a` stays: nothing is larger.
#[inline(always)]
fn larger<C: Ordered>(a: C, b: C) -> C {
    if b > a || b.is_nan() { b } else { a }
}

#[inline(always)]
fn smaller<C: Ordered>(a: C, b: C) -> C {
    if b < a || b.is_nan() { b } else { a }
}

multiversion! {
    fn largest_of<C: Ordered>(values: &[C]) -> C {
        let mut lanes = [C::LOWEST; LANES];
        let mut chunks = values.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane = larger(*lane, value);
            }
        }
        for (lane, &value) in lanes.iter_mut().zip(chunks.remainder()) {
            *lane = larger(*lane, value);
        }
        lanes.into_iter().fold(C::LOWEST, larger)
    }
}

multiversion! {
    fn smallest_of<C: Ordered>(values: &[C]) -> C {
        let mut lanes = [C::HIGHEST; LANES];
        let mut chunks = values.chunks_exact(LANES);
        for chunk in &mut chunks {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane = smaller(*lane, value);
            }
        }
        for (lane, &value) in lanes.iter_mut().zip(chunks.remainder()) {
            *lane = smaller(*lane, value);
        }
        lanes.into_iter().fold(C::HIGHEST, smaller)
    }
}

/// The largest or smallest.
pub struct Extreme<C> {
    largest: bool,
    element: PhantomData<C>,
}

impl<C> Extreme<C> {
    pub fn new(largest: bool) -> Self {
        Self { largest, element: PhantomData }
    }
}

impl<C: Ordered> Fold<C> for Extreme<C> {
    type State = C;

    fn start(&self) -> C {
        if self.largest { C::LOWEST } else { C::HIGHEST }
    }

    fn block(&self, level: Level, state: &mut C, values: &[C], _: u64) {
        let found = if self.largest {
            largest_of::<C>(level, values)
        } else {
            smallest_of::<C>(level, values)
        };
        *state = self.combine(*state, found);
    }

    fn side_by_side(&self, _: Level, states: &mut [C], values: &[C], _: u64) {
        let pairs = states.iter_mut().zip(values);
        if self.largest {
            pairs.for_each(|(state, &value)| *state = larger(*state, value));
        } else {
            pairs.for_each(|(state, &value)| *state = smaller(*state, value));
        }
    }

    fn combine(&self, a: C, b: C) -> C {
        if self.largest { larger(a, b) } else { smaller(a, b) }
    }
}

/// The first largest or first NaN, with its index.
pub struct ArgMax<C>(PhantomData<C>);

impl<C> ArgMax<C> {
    pub fn new() -> Self {
        Self(PhantomData)
    }
}

/// Whether an element that comes later replaces the one found before.
fn replaces<C: Ordered>(later: C, found: C) -> bool {
    later > found || later.is_nan() && !found.is_nan()
}

impl<C: Ordered> Fold<C> for ArgMax<C> {
    type State = (C, u64);

    fn start(&self) -> (C, u64) {
        (C::LOWEST, u64::MAX)
    }

    fn block(&self, level: Level, state: &mut (C, u64), values: &[C], first: u64) {
        // Most blocks hold nothing better: their largest is found fast, its place only if needed.
        let largest = largest_of::<C>(level, values);
        if state.1 == u64::MAX || replaces(largest, state.0) {
            let place = values.iter().position(|&v| v == largest || v.is_nan());
            *state = (largest, first + place.unwrap_or_default() as u64);
        }
    }

    fn side_by_side(&self, _: Level, states: &mut [(C, u64)], values: &[C], index: u64) {
        for (state, &value) in states.iter_mut().zip(values) {
            if state.1 == u64::MAX || replaces(value, state.0) {
                *state = (value, index);
            }
        }
    }

    fn combine(&self, a: (C, u64), b: (C, u64)) -> (C, u64) {
        let take = a.1 == u64::MAX || b.1 != u64::MAX && replaces(b.0, a.0);
        if take { b } else { a }
    }
}
