//! Per-channel statistics on the CPU: mean and variance, or the gradients of weight and bias. Each channel is split
//! into pieces, whose number depends on the shape alone; within a piece, blocks that fit the caches are read twice if
//! needed, so that memory is read once.

use std::ops::Range;

use polaris_core::DType;
use polaris_runtime::cpu::{CpuDevice, SimdLevel};
use polaris_runtime::{Buffer, HostOperands};

use super::Channels;
use super::cpu::numbers;
use super::cpu_loops as loops;
use super::operations::Arrays;
use crate::cpu::blocks::LONG_BLOCK;
use crate::cpu::map::SendPointer;
use crate::norm::cpu::{GRAIN, Place, load_row};
use crate::norm::cpu_rows::{self, Number};
use crate::{Array, Result};

/// The fewest elements of a piece, as far as there are as many.
const PIECE: usize = 4 * 1024;
/// Elements of each channel that are added in the compute type, where channels lie side by side.
const STRETCH: usize = 64;
/// Channels side by side that are worked on together: a stretch of them stays in the L2 cache.
const WIDTH: usize = 1024;

/// What is known of some elements of a channel: their number, and the mean and the sum of squared
/// differences from it, or the two sums of a gradient.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    count: f64,
    first: f64,
    second: f64,
}

impl State {
    /// From the sums of the differences from a number, and of their squares.
    fn of_moments(count: usize, centre: f64, [first, second]: [f64; 2]) -> Self {
        let count = count as f64;
        let rest = first / count;
        // A mean that is infinite is right as it is.
        let mean = if centre.is_finite() { centre + rest } else { centre };
        let squares = second - first * rest;
        // Rounding may leave a little less than nothing. NaN stays.
        let squares = if squares < 0.0 { 0.0 } else { squares };
        Self { count, first: mean, second: squares }
    }

    /// Of the elements of both.
    fn joined(self, other: Self, statistics: bool) -> Self {
        let count = self.count + other.count;
        if !statistics {
            let (first, second) = (self.first + other.first, self.second + other.second);
            return Self { count, first, second };
        }
        if self.count == 0.0 {
            return other;
        }
        let distance = other.first - self.first;
        if !distance.is_finite() {
            return Self { count, first: self.first + other.first, second: f64::NAN };
        }
        let share = other.count / count;
        let squares = distance * distance * self.count * share;
        Self {
            count,
            first: self.first + distance * share,
            second: self.second + other.second + squares,
        }
    }
}

pub fn run(
    op: &'static str,
    arrays: &Arrays<'_>,
    cpu: &CpuDevice,
    inputs: &[&Array],
) -> Result<()> {
    match arrays.x.dtype() {
        DType::F64 => channels::<f64>(op, arrays, cpu, inputs),
        _ => channels::<f32>(op, arrays, cpu, inputs),
    }
}

fn channels<C: Number>(
    op: &'static str,
    arrays: &Arrays<'_>,
    cpu: &CpuDevice,
    inputs: &[&Array],
) -> Result<()> {
    let Arrays { x, output, .. } = *arrays;
    let g = arrays.g.unwrap_or(x);
    let channels = Channels::new(x.shape(), [x.layout(), g.layout()])?;
    let buffers: Vec<&Buffer> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new(op, &buffers, output.buffer())?;
    let start = |index: usize| operands.input(index).cast_mut();
    // SAFETY: the buffers are registered as read while the operation lasts.
    let given = arrays
        .statistics
        .map(|[mean, variance]| unsafe { [numbers(mean, start(2)), numbers(variance, start(3))] });
    let centre = given
        .as_ref()
        .map_or_else(Vec::new, |[mean, _]| mean.iter().map(|&mean| C::of(mean)).collect());
    let side_by_side = channels.are_side_by_side();
    let (length, steps) = channels.rest.inner();
    let steps = match side_by_side {
        true => channels.strides,
        // Along a single element, nobody takes a step.
        false if length <= 1 => [1; 2],
        false => steps,
    };
    let places =
        [Place::new(start(0), x, steps[0]), Place::new(start(gradient_index(arrays)), g, steps[1])];
    let job = Job { cpu, channels: &channels, centre, places, level: cpu.simd() };
    let totals = match channels.elements() {
        0 => vec![State::default(); channels.count],
        _ if side_by_side => job.side_by_side(),
        _ => job.one_by_one(),
    };
    let finish = |channel: usize| -> [f64; 2] {
        let State { count, first, second } = totals[channel];
        match &given {
            None if count == 0.0 => [f64::NAN; 2],
            None => [first, second / count],
            Some([_, variance]) => [first / (variance[channel] + arrays.epsilon).sqrt(), second],
        }
    };
    for channel in 0..channels.count {
        for (row, value) in finish(channel).into_iter().enumerate() {
            let strides = output.layout().strides();
            let at = output.layout().offset() + row * strides[0] + channel * strides[1];
            // SAFETY: the layout was checked against the buffer, which is registered as written.
            unsafe { Place::new(operands.output(), output, 1).row(at).store(0, &[C::of(value)]) };
        }
    }
    Ok(())
}

/// Which input the gradient is; x stands in for one that is absent.
fn gradient_index(arrays: &Arrays<'_>) -> usize {
    usize::from(arrays.g.is_some())
}

struct Job<'a, C> {
    cpu: &'a CpuDevice,
    level: SimdLevel,
    channels: &'a Channels<2>,
    /// The given means; none where they are to be found.
    centre: Vec<C>,
    places: [Place; 2],
}

impl<C: Number> Job<'_, C> {
    fn wants_statistics(&self) -> bool {
        self.centre.is_empty()
    }

    /// The states of pieces, by pieces and then channels, joined for each channel.
    fn joined(&self, states: &[State]) -> Vec<State> {
        let mut totals = vec![State::default(); self.channels.count];
        for piece in states.chunks_exact(self.channels.count) {
            for (total, &state) in totals.iter_mut().zip(piece) {
                *total = total.joined(state, self.wants_statistics());
            }
        }
        totals
    }

    /// Rows that are of one channel.
    fn one_by_one(&self) -> Vec<State> {
        let Channels { count, strides, rest } = self.channels;
        let (length, _) = rest.inner();
        let runs = rest.elements() / length;
        let each = (PIECE / length).max(1);
        let pieces = runs.div_ceil(each);
        let mut states = vec![State::default(); pieces * count];
        let slots = SendPointer(states.as_mut_ptr().cast());
        let copied = self.places.map(|place| !place.is_direct::<C>());
        let grain = (GRAIN / (each * length)).max(1);
        self.cpu.pool().for_chunks(pieces * count, grain, |chunk| {
            let mut scratch =
                copied.map(|needed| vec![C::default(); if needed { length } else { 0 }]);
            for unit in chunk {
                let (piece, channel) = (unit / count, unit % count);
                let mut state = State::default();
                for run in piece * each..runs.min((piece + 1) * each) {
                    let at = rest.row(run);
                    let [x_scratch, g_scratch] = &mut scratch;
                    let row = |i: usize, scratch| {
                        let at = at[i] + channel * strides[i];
                        // SAFETY: the layouts were checked against their buffers, which are
                        // registered as read; the output was checked not to lie in them.
                        unsafe { load_row(self.places[i].row(at), length, copied[i], scratch) }
                    };
                    let x = row(0, x_scratch);
                    let g = if self.wants_statistics() { x } else { row(1, g_scratch) };
                    for (x, g) in x.chunks(LONG_BLOCK).zip(g.chunks(LONG_BLOCK)) {
                        state = state.joined(self.block(x, g, channel), self.wants_statistics());
                    }
                }
                // SAFETY: each unit owns its own state of the table, which outlives the call.
                unsafe { *slots.get().cast::<State>().add(unit) = state };
            }
        });
        self.joined(&states)
    }

    fn block(&self, x: &[C], g: &[C], channel: usize) -> State {
        let count = x.len();
        if self.wants_statistics() {
            let centre = C::of(cpu_rows::sum::<C>(self.level, x) / count as f64);
            let moments = cpu_rows::moments::<C>(self.level, x, centre);
            return State::of_moments(count, centre.wide(), moments);
        }
        let [first, second] = loops::products::<C>(self.level, x, g, self.centre[channel]);
        State { count: count as f64, first, second }
    }

    /// Rows with an element of each channel.
    fn side_by_side(&self) -> Vec<State> {
        let Channels { count, rest, .. } = self.channels;
        let points = rest.elements();
        let each = (PIECE / count).next_multiple_of(STRETCH).max(STRETCH);
        let pieces = points.div_ceil(each);
        let blocks = count.div_ceil(WIDTH);
        let mut states = vec![State::default(); pieces * count];
        let slots = SendPointer(states.as_mut_ptr().cast());
        let grain = (GRAIN / (each * count.min(&WIDTH))).max(1);
        self.cpu.pool().for_chunks(pieces * blocks, grain, |chunk| {
            let mut room = Room::new(WIDTH.min(*count));
            for unit in chunk {
                let (piece, block) = (unit / blocks, unit % blocks);
                let first = block * WIDTH;
                let width = WIDTH.min(count - first);
                // SAFETY: each unit owns its own states of the table, which outlives the call.
                let states = unsafe {
                    let start = slots.get().cast::<State>().add(piece * count + first);
                    std::slice::from_raw_parts_mut(start, width)
                };
                let mine = piece * each..points.min((piece + 1) * each);
                for start in mine.clone().step_by(STRETCH) {
                    let stretch = start..mine.end.min(start + STRETCH);
                    self.stretch(first, stretch, states, &mut room);
                }
            }
        });
        self.joined(&states)
    }

    /// One element of each of some channels.
    fn side<'s>(
        &self,
        operand: usize,
        point: usize,
        channels: Range<usize>,
        scratch: &'s mut [C],
    ) -> &'s [C] {
        let at = self.channels.rest.point(point)[operand];
        // SAFETY: as in `one_by_one`.
        unsafe { self.places[operand].row(at).load(channels.start, channels.len(), scratch) }
    }

    /// Adds a stretch of elements of the channels from `first` on to their states.
    fn stretch(
        &self,
        first: usize,
        points: Range<usize>,
        states: &mut [State],
        room: &mut Room<C>,
    ) {
        let width = states.len();
        let Room { scratch: [x_scratch, g_scratch], centre, sums: [one, two] } = room;
        let (one, two) = (&mut one[..width], &mut two[..width]);
        let channels = first..first + width;
        let count = points.len();
        one.fill(C::default());
        two.fill(C::default());
        if !self.wants_statistics() {
            let centre = &self.centre[first..][..width];
            for point in points {
                let x = self.side(0, point, channels.clone(), x_scratch);
                let g = self.side(1, point, channels.clone(), g_scratch);
                loops::add_products::<C>(self.level, x, g, centre, one, two);
            }
            for ((state, one), two) in states.iter_mut().zip(one).zip(two) {
                let other = State { count: count as f64, first: one.wide(), second: two.wide() };
                *state = state.joined(other, false);
            }
            return;
        }
        let centre = &mut centre[..width];
        for point in points.clone() {
            let x = self.side(0, point, channels.clone(), x_scratch);
            loops::add::<C>(self.level, x, one);
        }
        for (centre, sum) in centre.iter_mut().zip(&mut *one) {
            *centre = C::of(sum.wide() / count as f64);
            *sum = C::default();
        }
        for point in points {
            let x = self.side(0, point, channels.clone(), x_scratch);
            loops::add_moments::<C>(self.level, x, centre, one, two);
        }
        for (i, state) in states.iter_mut().enumerate() {
            let moments = [one[i].wide(), two[i].wide()];
            let other = State::of_moments(count, centre[i].wide(), moments);
            *state = state.joined(other, true);
        }
    }
}

/// What a thread needs for channels that lie side by side.
struct Room<C> {
    scratch: [Vec<C>; 2],
    centre: Vec<C>,
    sums: [Vec<C>; 2],
}

impl<C: Number> Room<C> {
    fn new(width: usize) -> Self {
        let row = || vec![C::default(); width];
        Self { scratch: [row(), row()], centre: row(), sums: [row(), row()] }
    }
}
