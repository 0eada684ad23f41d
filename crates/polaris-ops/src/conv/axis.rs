//! One axis of a sum over taps, the same for the convolution and for the gradient of its input: there,
//! positions with the same remainder by the stride see the same taps, and are a sum of their own.

/// Position `i` of `count` gathers from a source, with tap `j` of `taps`, the element
/// `i * step + first + j * advance`, or zero where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Axis {
    pub count: usize,
    /// Position `i` lies at `start + i * spacing` in the result.
    pub start: usize,
    pub spacing: usize,
    /// Elements of the source.
    pub source: usize,
    pub step: usize,
    pub first: isize,
    pub advance: isize,
    pub taps: usize,
    /// Tap `j` is element `first_tap + j * tap_step` of the kernel.
    pub first_tap: usize,
    pub tap_step: usize,
}

/// Lengths and parameters along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lengths {
    pub input: usize,
    pub output: usize,
    pub kernel: usize,
    pub stride: usize,
    pub padding: usize,
    pub dilation: usize,
}

impl Axis {
    /// The convolution itself.
    pub fn forward(lengths: &Lengths) -> Self {
        Self {
            count: lengths.output,
            start: 0,
            spacing: 1,
            source: lengths.input,
            step: lengths.stride,
            first: -(lengths.padding as isize),
            advance: lengths.dilation as isize,
            taps: lengths.kernel,
            first_tap: 0,
            tap_step: 1,
        }
    }

    /// The gradient of those elements of the input whose index has this remainder by the stride:
    /// element `i` met tap `k` at the output `(i + padding - k * dilation) / stride`, if that is one.
    pub fn gradient(lengths: &Lengths, remainder: usize) -> Self {
        let Lengths { input, output, kernel, stride, padding, dilation } = *lengths;
        let common = greatest_common_divisor(stride, dilation);
        let period = stride / common;
        let meets = |tap: usize| {
            let position = (remainder + padding) as isize - (tap * dilation) as isize;
            (position % stride as isize == 0).then(|| (tap, position / stride as isize))
        };
        // Taps that meet an output are a period apart.
        let found = (0..kernel.min(period)).find_map(meets);
        let (first_tap, first) = found.unwrap_or((0, 0));
        Self {
            count: input.saturating_sub(remainder).div_ceil(stride),
            start: remainder,
            spacing: stride,
            source: output,
            step: 1,
            first,
            advance: -((dilation / common) as isize),
            taps: if found.is_some() { (kernel - first_tap).div_ceil(period) } else { 0 },
            first_tap,
            tap_step: period,
        }
    }

    /// The source's element for a position and a tap, if it has one.
    pub fn place(&self, position: usize, tap: usize) -> Option<usize> {
        let at = (position * self.step) as isize + self.offset(tap);
        usize::try_from(at).ok().filter(|&at| at < self.source)
    }

    /// What a tap adds to `position * step`.
    pub fn offset(&self, tap: usize) -> isize {
        self.first + tap as isize * self.advance
    }

    /// The smallest offset of any tap.
    pub fn lowest(&self) -> isize {
        self.offset(0).min(self.offset(self.taps.saturating_sub(1)))
    }
}

fn greatest_common_divisor(mut a: usize, mut b: usize) -> usize {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every pair of an input and a tap that the convolution brings together, and no other, is in
    /// one of the sums of the gradient.
    #[test]
    fn the_gradient_sees_each_tap_where_the_convolution_does() {
        for (stride, dilation, kernel, padding) in
            [(1, 1, 3, 1), (2, 1, 3, 0), (2, 2, 3, 2), (3, 2, 4, 1), (3, 1, 2, 5), (4, 6, 3, 7)]
        {
            let input = 17;
            let output = (input + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
            let lengths = Lengths { input, output, kernel, stride, padding, dilation };
            let forward = Axis::forward(&lengths);
            let mut expected = Vec::new();
            for position in 0..output {
                for tap in 0..kernel {
                    expected.extend(forward.place(position, tap).map(|at| (at, tap, position)));
                }
            }
            let mut found = Vec::new();
            for axis in (0..stride).map(|remainder| Axis::gradient(&lengths, remainder)) {
                for position in 0..axis.count {
                    for tap in 0..axis.taps {
                        let at = axis.start + position * axis.spacing;
                        let kernel_tap = axis.first_tap + tap * axis.tap_step;
                        let output = axis.place(position, tap);
                        found.extend(output.map(|output| (at, kernel_tap, output)));
                    }
                }
            }
            expected.sort_unstable();
            found.sort_unstable();
            assert_eq!(found, expected, "{lengths:?}");
        }
    }
}
