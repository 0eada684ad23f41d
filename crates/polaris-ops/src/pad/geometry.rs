//! Source elements of padded or flipped axes.

use polaris_core::{Layout, MAX_RANK};

use super::PadMode;
use super::remap::Remap;

/// One axis of the output, or several that are walked as one.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// Its length in the output, and in the input.
    pub length: usize,
    pub source: usize,
    /// Elements of padding in front.
    pub before: usize,
    /// Whether the input is walked backwards.
    pub flipped: bool,
    pub output_stride: usize,
    pub input_stride: usize,
}

impl Axis {
    /// Neither padded nor turned around.
    fn is_plain(&self) -> bool {
        self.length == self.source && !self.flipped
    }

    /// The index of the input that an index of the output comes from; none in constant padding.
    pub fn source_of(&self, mode: PadMode, index: usize) -> Option<usize> {
        let n = self.source;
        if index < self.before {
            let distance = self.before - index;
            return match mode {
                PadMode::Constant(_) => None,
                PadMode::Reflect => Some(distance),
                PadMode::Replicate => Some(0),
                PadMode::Circular => Some(n - distance),
            };
        }
        let inside = index - self.before;
        if inside < n {
            return Some(if self.flipped { n - 1 - inside } else { inside });
        }
        let distance = inside - n;
        match mode {
            PadMode::Constant(_) => None,
            PadMode::Reflect => Some(n - 2 - distance),
            PadMode::Replicate => Some(n - 1),
            PadMode::Circular => Some(distance),
        }
    }
}

/// The axes of an output and its input, as few as describe them.
pub fn axes(op: &Remap, x: &Layout, output: &Layout) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::with_capacity(MAX_RANK);
    for axis in 0..output.shape().rank() {
        let next = Axis {
            length: output.shape()[axis],
            source: x.shape()[axis],
            before: op.before(axis),
            flipped: op.is_flipped(axis),
            output_stride: output.strides()[axis],
            input_stride: x.strides()[axis],
        };
        if next.is_plain() && next.length == 1 {
            continue;
        }
        match axes.last_mut() {
            Some(last)
                if last.is_plain()
                    && next.is_plain()
                    && last.output_stride == next.output_stride * next.length
                    && last.input_stride == next.input_stride * next.length =>
            {
                let length = last.length * next.length;
                *last = Axis { length, source: length, ..next };
            }
            _ => axes.push(next),
        }
    }
    if axes.is_empty() {
        let (output_stride, input_stride) = (1, 1);
        axes.push(Axis {
            length: 1,
            source: 1,
            before: 0,
            flipped: false,
            output_stride,
            input_stride,
        });
    }
    axes
}
