//! Elements of several axes as a few evenly spaced runs.

/// Elements of three axes, in as few evenly spaced runs as possible.
pub(super) struct Runs {
    pub length: usize,
    pub stride: usize,
    outer: [(usize, usize); 2],
}

impl Runs {
    /// Of lengths and strides, outermost first.
    pub fn new(axes: [(usize, usize); 3]) -> Self {
        let joined = |outer: (usize, usize), inner: (usize, usize)| match (outer, inner) {
            (outer, (1, _)) => Some(outer),
            ((1, _), inner) => Some(inner),
            _ => (outer.1 == inner.0 * inner.1).then_some((outer.0 * inner.0, inner.1)),
        };
        let [first, second, third] = axes;
        let (inner, outer) = match joined(second, third) {
            None => (third, [first, second]),
            Some(inner) => match joined(first, inner) {
                None => (inner, [first, (1, 0)]),
                Some(all) => (all, [(1, 0); 2]),
            },
        };
        Self { length: inner.0, stride: inner.1, outer }
    }

    /// Where the runs begin, in order.
    pub fn starts(&self) -> impl Iterator<Item = usize> {
        let [first, second] = self.outer;
        (0..first.0).flat_map(move |i| (0..second.0).map(move |j| i * first.1 + j * second.1))
    }
}
