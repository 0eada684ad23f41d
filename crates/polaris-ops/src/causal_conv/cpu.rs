//! Causal convolution on the CPU: blocks of channels over all threads, token after token.

use polaris_core::Layout;
use polaris_runtime::HostOperands;
use polaris_runtime::cpu::CpuDevice;

use super::{CausalConv, MOST_TAPS, NAME, Sizes};
use crate::cpu::map::SendPointer;
use crate::cpu::math::Real;
use crate::cpu::simd::multiversion;
use crate::{Array, Error, Result};

/// Channels that are computed together.
const BLOCK: usize = 128;
/// Tokens that are computed with weights that are loaded once.
const SPAN: usize = 64;
/// Fewer products than this are not worth a second thread.
const GRAIN: usize = 32 * 1024;

/// An array of `f32` with up to three axes.
#[derive(Clone, Copy)]
struct Rows {
    start: SendPointer,
    offset: usize,
    strides: [usize; 3],
}

impl Rows {
    fn new(start: *const u8, layout: &Layout) -> Self {
        let mut strides = [0; 3];
        strides[..layout.strides().len()].copy_from_slice(layout.strides());
        Self { start: SendPointer(start.cast_mut()), offset: layout.offset(), strides }
    }

    fn at(&self, index: [usize; 3]) -> *mut f32 {
        let inside: usize = index.iter().zip(&self.strides).map(|(i, stride)| i * stride).sum();
        self.start.get().cast::<f32>().wrapping_add(self.offset + inside)
    }
}

/// Copies elements a stride apart.
///
/// # Safety
/// They must be readable.
unsafe fn load(start: *const f32, stride: usize, to: &mut [f32]) {
    for (at, to) in to.iter_mut().enumerate() {
        // SAFETY: by the caller's word.
        *to = unsafe { *start.add(at * stride) };
    }
}

pub fn run(
    op: &CausalConv,
    cpu: &CpuDevice,
    sizes: &Sizes,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let &Sizes { tokens, channels, taps, .. } = sizes;
    let buffers: Vec<_> = inputs.iter().map(|input| input.buffer()).collect();
    let operands = HostOperands::new(NAME, &buffers, output.buffer())?;
    let rows = |index: usize| Rows::new(operands.input(index), inputs[index].layout());
    let (x, tail, places, weight) = (rows(0), rows(1), rows(2), rows(3));
    let bias = op.bias.then(|| rows(4));
    let to = Rows::new(operands.output(), output.layout());
    // SAFETY: there is a place for each token, and the array is registered as read.
    let number = |token, column| unsafe { *places.at([token, column, 0]).cast::<i32>() };
    let places: Vec<[i32; 2]> =
        (0..tokens).map(|token| [number(token, 0), number(token, 1)]).collect();
    check(&places, sizes.slots)?;
    let blocks = channels.div_ceil(BLOCK);
    let spans = tokens.div_ceil(SPAN);
    let grain = (GRAIN / (taps * BLOCK * tokens.min(SPAN)).max(1)).max(1);
    cpu.pool().for_chunks(blocks * spans, grain, |chunk| {
        let mut weights = [[0.0f32; BLOCK]; MOST_TAPS];
        let mut biases = [0.0f32; BLOCK];
        let mut values = [0.0f32; BLOCK];
        let mut sums = [0.0f32; BLOCK];
        for item in chunk {
            let first = item / spans * BLOCK;
            let width = BLOCK.min(channels - first);
            // SAFETY: the arrays were checked to have these elements, and are registered; each element of the output
            // is written by one thread.
            unsafe {
                for (tap, weights) in weights[..taps].iter_mut().enumerate() {
                    load(weight.at([first, tap, 0]), weight.strides[0], &mut weights[..width]);
                }
                if let Some(bias) = bias {
                    load(bias.at([first, 0, 0]), bias.strides[0], &mut biases[..width]);
                }
                let span = item % spans * SPAN;
                for token in span..tokens.min(span + SPAN) {
                    sums[..width].copy_from_slice(&biases[..width]);
                    let [slot, position] = places[token];
                    for back in 0..taps.min(position as usize + 1) {
                        let at = position - back as i32;
                        let is_here = token >= back && places[token - back] == [slot, at];
                        let (start, stride) = match is_here {
                            true => (x.at([token - back, first, 0]), x.strides[1]),
                            false => {
                                let row = at as usize % (taps - 1);
                                (tail.at([slot as usize, row, first]), tail.strides[2])
                            }
                        };
                        load(start, stride, &mut values[..width]);
                        let weights = &weights[taps - 1 - back][..width];
                        add(cpu.simd(), weights, &values[..width], &mut sums[..width]);
                    }
                    if op.silu {
                        activate(cpu.simd(), &mut sums[..width]);
                    }
                    for (channel, sum) in sums[..width].iter().enumerate() {
                        *to.at([token, first + channel, 0]) = *sum;
                    }
                }
            }
        }
    });
    Ok(())
}

/// Whether all places exist.
fn check(places: &[[i32; 2]], slots: usize) -> Result<()> {
    for (token, &[slot, position]) in places.iter().enumerate() {
        if usize::try_from(slot).map_or(true, |slot| slot >= slots) {
            return Err(Error::IndexOutOfRange {
                op: NAME,
                index: i64::from(slot),
                position: token,
                axis: 0,
                length: slots,
            });
        }
        if position < 0 {
            let what = format!("token {token} is at position {position}; positions count from 0");
            return Err(Error::InvalidParameter { op: NAME, what });
        }
    }
    Ok(())
}

multiversion! {
    fn add<>(weights: &[f32], values: &[f32], sums: &mut [f32]) {
        for ((sum, weight), value) in sums.iter_mut().zip(weights).zip(values) {
            *sum = weight.multiply_add::<VECTOR_BYTES>(*value, *sum);
        }
    }
}

multiversion! {
    fn activate<>(sums: &mut [f32]) {
        for sum in sums {
            *sum = *sum / (1.0 + Real::exp(-*sum));
        }
    }
}
