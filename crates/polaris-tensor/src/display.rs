//! Tensors as text, in NumPy's manner: all elements of small ones, the edges of large ones.

use std::fmt;

use polaris_core::DType;

use crate::{Result, Tensor};

/// Tensors of more elements are shortened.
const MOST_ELEMENTS: usize = 1000;
/// What is shown of an axis of a tensor that is shortened, at either end.
const EDGE: usize = 3;

impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match shown(self) {
            Ok((dims, words)) => {
                let width = words.iter().map(String::len).max().unwrap_or(0);
                let text = Text {
                    dims: &dims,
                    cut: self.elements() > MOST_ELEMENTS,
                    whole: self.dims(),
                    width,
                };
                text.nested(f, 0, &words)?;
            }
            Err(error) => write!(f, "<{error}>")?,
        }
        write!(f, "\n{} {} on {}", self.dtype(), self.shape(), self.device().id())
    }
}

/// The elements that are shown, as words, and the lengths of their axes.
fn shown(tensor: &Tensor) -> Result<(Vec<usize>, Vec<String>)> {
    let mut part = tensor.detach();
    if tensor.elements() > MOST_ELEMENTS {
        for axis in 0..tensor.rank() {
            let length = tensor.dims()[axis];
            if length > 2 * EDGE {
                let (front, back) =
                    (part.narrow(axis, 0..EDGE)?, part.narrow(axis, length - EDGE..length)?);
                part = Tensor::concatenate(&[&front, &back], axis)?;
            }
        }
    }
    let words = match part.dtype() {
        // Integers of 64 bits have more digits than f64.
        DType::I64 => part.to_vec::<i64>()?.iter().map(i64::to_string).collect(),
        DType::Bool => part.to_f64()?.iter().map(|&value| (value != 0.0).to_string()).collect(),
        dtype if dtype.is_float() => floats(&part.to_f64()?),
        _ => part.to_f64()?.iter().map(f64::to_string).collect(),
    };
    Ok((part.dims().to_vec(), words))
}

/// Floats with as many digits as four places need, or with an exponent where they differ by much.
fn floats(values: &[f64]) -> Vec<String> {
    let sizes =
        || values.iter().map(|value| value.abs()).filter(|size| size.is_finite() && *size > 0.0);
    let (largest, smallest) = (sizes().fold(0.0, f64::max), sizes().fold(f64::INFINITY, f64::min));
    let plain = largest < 1e6 && (smallest >= 1e-4 || smallest.is_infinite());
    let whole = sizes().all(|size| size.fract() == 0.0) && largest < 1e6;
    let word = |value: &f64| match (whole, plain) {
        _ if !value.is_finite() => value.to_string(),
        (true, _) => format!("{value:.1}"),
        (_, true) => format!("{value:.4}"),
        _ => format!("{value:.4e}"),
    };
    values.iter().map(word).collect()
}

/// How words are arranged.
struct Text<'a> {
    /// Lengths of the axes of what is shown.
    dims: &'a [usize],
    /// Whether something is left out of long axes.
    cut: bool,
    /// Lengths of the tensor's axes.
    whole: &'a [usize],
    /// Of the longest word.
    width: usize,
}

impl Text<'_> {
    fn nested(&self, f: &mut fmt::Formatter<'_>, axis: usize, words: &[String]) -> fmt::Result {
        if axis == self.dims.len() {
            return match words.first() {
                Some(word) => write!(f, "{word:>width$}", width = self.width),
                None => Ok(()),
            };
        }
        let (length, last) = (self.dims[axis], axis + 1 == self.dims.len());
        let each = words.len().checked_div(length).unwrap_or(0);
        write!(f, "[")?;
        for at in 0..length {
            if at > 0 {
                self.separate(f, axis, last)?;
            }
            if self.cut && at == EDGE && self.whole[axis] > 2 * EDGE {
                write!(f, "...")?;
                self.separate(f, axis, last)?;
            }
            self.nested(f, axis + 1, &words[at * each..(at + 1) * each])?;
        }
        write!(f, "]")
    }

    /// A comma, and a new line with an indent unless these are single elements.
    fn separate(&self, f: &mut fmt::Formatter<'_>, axis: usize, last: bool) -> fmt::Result {
        match last {
            true => write!(f, ", "),
            false => write!(f, ",\n{:indent$}", "", indent = axis + 1),
        }
    }
}
