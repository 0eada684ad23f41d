//! The problem as plain data, and the shapes that belong to it.

use polaris_core::{Error as CoreError, Shape};

use crate::{Error, Result};

/// The name in messages where no array is computed yet.
pub(super) const OP: &str = "convolution";

/// A convolution, and its own operation: the arrays are x, the weight and, if there are three, the
/// bias. Entries of pairs belong to the rows and the columns of images; images with one axis have
/// columns only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Convolution {
    /// From one position of the kernel to the next.
    pub stride: [usize; 2],
    /// Zeros before the first and after the last element.
    pub padding: [usize; 2],
    /// From one tap of the kernel to the next.
    pub dilation: [usize; 2],
    /// Parts into which channels are cut, and which do not see each other.
    pub groups: usize,
}

impl Default for Convolution {
    fn default() -> Self {
        Self { stride: [1; 2], padding: [0; 2], dilation: [1; 2], groups: 1 }
    }
}

impl Convolution {
    /// A convolution along the only axis of `[N, C, L]`.
    pub fn along_one_axis(stride: usize, padding: usize, dilation: usize, groups: usize) -> Self {
        let (stride, padding, dilation) = ([1, stride], [0, padding], [1, dilation]);
        Self { stride, padding, dilation, groups }
    }

    /// Positions of a kernel of `taps` along one of the two axes of an image of this length.
    pub(super) fn positions(
        &self,
        op: &'static str,
        axis: usize,
        length: usize,
        taps: usize,
    ) -> Result<usize> {
        let invalid = |what: String| Error::InvalidParameter { op, what };
        let (stride, padding, dilation) =
            (self.stride[axis], self.padding[axis], self.dilation[axis]);
        if stride == 0 || dilation == 0 {
            let what = format!("stride {stride} and dilation {dilation} must not be zero");
            return Err(invalid(what));
        }
        if taps == 0 {
            return Err(invalid("the kernel has no elements".to_owned()));
        }
        // Positions are computed as signed numbers further on, with room for a step beyond the end.
        let most = (isize::MAX / 8) as usize;
        let padded = padding.checked_mul(2).and_then(|both| both.checked_add(length));
        let reach = dilation.checked_mul(taps - 1).and_then(|last| last.checked_add(1));
        let (Some(padded), Some(reach)) = (padded, reach) else {
            return Err(invalid(format!("padding {padding} or dilation {dilation} overflow")));
        };
        if padded.max(reach).max(stride) > most {
            return Err(invalid(format!(
                "stride {stride}, padding {padding} or dilation {dilation} are too large"
            )));
        }
        if reach > padded {
            return Err(invalid(format!(
                "a kernel that reaches over {reach} elements is larger than the padded image of \
                 {padded}; pad more or use a smaller one"
            )));
        }
        Ok((padded - reach) / stride + 1)
    }

    /// The shape of the result.
    pub(super) fn output_shape(&self, x: &Shape, weight: &Shape) -> Result<Shape> {
        let spatial = self.spatial_axes(OP, x, weight)?;
        let mut dims = [x[0], weight[0], 1, 1];
        for (axis, place) in spatial {
            dims[place] = self.positions(OP, axis, x[place], weight[place])?;
        }
        Ok(Shape::new(&dims[..x.rank()])?)
    }

    /// The shape of the result of the transpose.
    pub(super) fn transposed_shape(
        &self,
        x: &Shape,
        weight: &Shape,
        output_padding: [usize; 2],
    ) -> Result<Shape> {
        const OP: &str = "transposed_convolution";
        let invalid = |what: String| Error::InvalidParameter { op: OP, what };
        let spatial = self.spatial_axes(OP, x, weight)?;
        let channels = weight[1].checked_mul(self.groups);
        let channels = channels.ok_or_else(|| invalid("too many groups".to_owned()))?;
        let mut dims = [x[0], channels, 1, 1];
        for (axis, place) in spatial {
            let (more, stride) = (output_padding[axis], self.stride[axis]);
            if more >= stride {
                let what = format!("output padding {more} must be smaller than stride {stride}");
                return Err(invalid(what));
            }
            let (length, taps) = (x[place], weight[place]);
            if length == 0 || taps == 0 {
                return Err(invalid("an image or kernel without elements".to_owned()));
            }
            let whole = (length - 1)
                .checked_mul(stride)
                .and_then(|at| at.checked_add(self.dilation[axis].checked_mul(taps - 1)?))
                .and_then(|at| at.checked_add(more + 1));
            let cut = self.padding[axis].checked_mul(2);
            let (Some(whole), Some(cut)) = (whole, cut) else {
                return Err(invalid("the result is too large".to_owned()));
            };
            dims[place] = whole.checked_sub(cut).ok_or_else(|| {
                invalid(format!("padding cuts {cut} elements off a result of {whole}"))
            })?;
        }
        Ok(Shape::new(&dims[..x.rank()])?)
    }

    /// The axes of the kernel by their entries in this problem and their places in shapes.
    pub(super) fn spatial_axes(
        &self,
        op: &'static str,
        images: &Shape,
        weight: &Shape,
    ) -> Result<impl Iterator<Item = (usize, usize)> + use<>> {
        let rank = images.rank();
        if weight.rank() != rank {
            return Err(unfit_weight(op, images, weight));
        }
        if !(3..=4).contains(&rank) {
            let what = format!("{images} is neither [N, C, L] nor [N, C, H, W]");
            return Err(Error::InvalidParameter { op, what });
        }
        if rank == 3 && self.padding[0] != 0 {
            let what = "images with one axis have no rows to pad".to_owned();
            return Err(Error::InvalidParameter { op, what });
        }
        Ok((4 - rank..2).map(move |axis| (axis, axis + rank - 2)))
    }
}

/// Images and a weight that do not go together.
pub(super) fn unfit_weight(op: &'static str, images: &Shape, weight: &Shape) -> Error {
    let hint =
        "the weight must be [outputs, channels / groups, ...] with as many axes as the images";
    CoreError::ShapeMismatch { op, lhs: *images, rhs: *weight, hint }.into()
}
