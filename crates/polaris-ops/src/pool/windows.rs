//! The positions of pooling windows along each axis.

use polaris_core::Shape;

use crate::{Error, Result};

/// The most axes that are pooled.
pub const MOST_AXES: usize = 2;

/// A window that slides along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Elements that it covers.
    pub kernel: usize,
    /// Distance to the next window.
    pub stride: usize,
    /// Elements that are added at either end of the axis: at most half of what a window spans.
    pub padding: usize,
    /// Distance between the elements that it covers; 1 for averages.
    pub dilation: usize,
}

impl Window {
    /// Windows of this length side by side, without padding or dilation.
    pub const fn new(kernel: usize) -> Self {
        Self { kernel, stride: kernel, padding: 0, dilation: 1 }
    }

    /// From its first to its last element.
    fn reach(self) -> Option<usize> {
        (self.kernel.checked_sub(1)?).checked_mul(self.dilation)?.checked_add(1)
    }

    /// The number of windows along an axis, or what is wrong.
    fn count(self, length: usize, ceil: bool) -> std::result::Result<usize, String> {
        if self.kernel == 0 || self.stride == 0 || self.dilation == 0 {
            return Err(format!("kernel, stride and dilation must be at least 1: {self:?}"));
        }
        let too_large = || format!("the window overflows the address space: {self:?}");
        let reach = self.reach().filter(|&reach| reach < LARGEST).ok_or_else(too_large)?;
        if self.padding > reach / 2 {
            return Err(format!("padding must be at most half of what a window spans: {self:?}"));
        }
        let extra = if ceil { self.stride - 1 } else { 0 };
        let room = (length + 2 * self.padding).checked_add(extra).ok_or_else(too_large)?;
        let Some(rest) = room.checked_sub(reach) else {
            return Err(format!("no window fits {length} elements: {self:?}"));
        };
        let count = rest / self.stride + 1;
        // A window that begins beyond the elements would cover padding alone.
        let beyond = ceil && (count - 1) * self.stride >= length + self.padding;
        Ok(if beyond { count - 1 } else { count })
    }
}

/// Larger windows could overflow when positions are computed.
const LARGEST: usize = isize::MAX as usize / 4;

/// The windows along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Along {
    /// One length and distance for all.
    Sliding(Window),
    /// As many as are asked for, of about equal length.
    Adaptive(usize),
}

/// The windows of a pooling along its last one or two axes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// A pooling of one axis has a second one of length 1 in front.
    pub(super) along: [Along; MOST_AXES],
    pub(super) axes: usize,
    ceil: bool,
}

impl Windows {
    /// Windows that slide along the last axis, or the last two.
    ///
    /// # Errors
    /// If there are not one or two.
    pub fn sliding(windows: &[Window]) -> Result<Self> {
        Self::new(windows.iter().map(|&window| Along::Sliding(window)))
    }

    /// As many windows as asked for along the last axis, or the last two: window `i` of `n` covers
    /// the elements from `floor(i * length / n)` to `ceil((i + 1) * length / n)`. One window covers
    /// all of an axis.
    ///
    /// # Errors
    /// If there are not one or two axes.
    pub fn adaptive(counts: &[usize]) -> Result<Self> {
        Self::new(counts.iter().map(|&count| Along::Adaptive(count)))
    }

    fn new(given: impl ExactSizeIterator<Item = Along>) -> Result<Self> {
        let axes = given.len();
        if axes == 0 || axes > MOST_AXES {
            let what = format!("windows along {axes} axes were given; one or two are supported");
            return Err(Error::InvalidParameter { op: "pool", what });
        }
        let mut along = [Along::Sliding(Window::new(1)); MOST_AXES];
        along[MOST_AXES - axes..].iter_mut().zip(given).for_each(|(to, from)| *to = from);
        Ok(Self { along, axes, ceil: false })
    }

    /// Rounds the number of sliding windows up: a last one that leaves the padded axis counts, if it
    /// begins inside the axis or the padding in front of it.
    #[must_use]
    pub const fn rounded_up(self) -> Self {
        Self { ceil: true, ..self }
    }

    /// The shape of the result for an array of this shape: the axes in front stay.
    ///
    /// # Errors
    /// If the windows do not fit it.
    pub fn pooled_shape(&self, shape: &Shape) -> Result<Shape> {
        self.output_shape("pool", shape)
    }

    pub(super) fn output_shape(&self, op: &'static str, shape: &Shape) -> Result<Shape> {
        let invalid = |what: String| Error::InvalidParameter { op, what };
        let axes = self.axes;
        let Some(lead) = shape.rank().checked_sub(axes).filter(|&lead| lead == 1 || lead == 2)
        else {
            let rank = shape.rank();
            let what = format!(
                "an array of {rank} axes was given; channels and {axes} more are needed, and \
                 possibly a batch in front"
            );
            return Err(invalid(what));
        };
        let mut dims = shape.to_vec();
        for (dim, along) in dims[lead..].iter_mut().zip(&self.along[MOST_AXES - axes..]) {
            if *dim == 0 {
                return Err(invalid(format!("an axis of {shape} that is pooled has no elements")));
            }
            *dim = match *along {
                Along::Sliding(window) => window.count(*dim, self.ceil).map_err(invalid)?,
                Along::Adaptive(count) => count,
            };
        }
        Ok(Shape::new(&dims)?)
    }

    /// Whether each axis has one window, which covers all of it.
    pub(super) fn cover_all(&self) -> bool {
        self.along[MOST_AXES - self.axes..].iter().all(|&along| along == Along::Adaptive(1))
    }

    /// Whether any window leaves out elements.
    pub(super) fn is_dilated(&self) -> bool {
        self.along.iter().any(|along| matches!(along, Along::Sliding(w) if w.dilation != 1))
    }
}

/// What one window covers along one axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its first element inside the axis.
    pub first: usize,
    /// Its elements inside the axis.
    pub taps: usize,
    /// Distance between them.
    pub step: usize,
    /// Its elements that lie in the padding before the first.
    pub skipped: usize,
    /// Its elements, those in the padding counted.
    pub padded: usize,
}

impl Along {
    /// What each of `count` windows covers of an axis.
    pub fn spans(self, length: usize, count: usize) -> Vec<Span> {
        (0..count).map(|index| self.span(index, length, count)).collect()
    }

    fn span(self, index: usize, length: usize, count: usize) -> Span {
        match self {
            Self::Sliding(Window { kernel, stride, padding, dilation }) => {
                let start = index * stride;
                let skipped = padding.saturating_sub(start).div_ceil(dilation).min(kernel);
                let first = (start + skipped * dilation).saturating_sub(padding);
                let inside = length.saturating_sub(first).div_ceil(dilation);
                let taps = inside.min(kernel - skipped);
                let padded = kernel.min((length + 2 * padding).saturating_sub(start));
                Span { first, taps, step: dilation, skipped, padded }
            }
            Self::Adaptive(_) => {
                let (length, count) = (length as u128, count as u128);
                let index = index as u128;
                let first = (index * length / count) as usize;
                let end = ((index + 1) * length).div_ceil(count) as usize;
                let taps = end - first;
                Span { first, taps, step: 1, skipped: 0, padded: taps }
            }
        }
    }
}
