//! The arrays of a convolution by their roles, with their checks, sizes and strides.

use polaris_core::{Error as CoreError, Shape};

use super::axis::{Axis, Lengths};
use super::problem::Convolution;
use crate::operation::{check_apart, writes_each_element_once};
use crate::{Array, Error, Result};

/// Which of the three arrays is computed from the other two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Output,
    InputGradient,
    WeightGradient,
}

impl Form {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Output => "convolution",
            Self::InputGradient => "convolution_input_gradient",
            Self::WeightGradient => "convolution_weight_gradient",
        }
    }
}

/// The arrays by their roles in the convolution, whichever of them is computed.
#[derive(Clone, Copy)]
pub(super) struct Roles<'a> {
    pub x: &'a Array,
    pub weight: &'a Array,
    pub y: &'a Array,
    pub bias: Option<&'a Array>,
}

impl<'a> Roles<'a> {
    pub fn new(form: Form, inputs: &[&'a Array], output: &'a Array) -> Result<Self> {
        match (form, inputs) {
            (Form::Output, [x, weight, rest @ ..]) if rest.len() <= 1 => {
                Ok(Self { x, weight, y: output, bias: rest.first().copied() })
            }
            (Form::InputGradient, [g, weight, rest @ ..]) if rest.len() <= 1 => {
                Ok(Self { x: output, weight, y: g, bias: rest.first().copied() })
            }
            (Form::WeightGradient, [x, g]) => Ok(Self { x, weight: output, y: g, bias: None }),
            _ => {
                let expected = if form == Form::WeightGradient || inputs.len() < 2 { 2 } else { 3 };
                Err(Error::WrongArity { op: form.name(), expected, found: inputs.len() })
            }
        }
    }
}

/// Sizes and strides. Images with one axis have one row, of stride zero.
#[derive(Debug, Clone, Copy)]
pub(super) struct Geometry {
    pub images: usize,
    pub groups: usize,
    /// Channels of x, and of y, in a group.
    pub inputs: usize,
    pub outputs: usize,
    /// Along rows and columns.
    pub lengths: [Lengths; 2],
    /// Strides of images, channels, rows and columns; of outputs, inputs and taps for the weight.
    pub x: [usize; 4],
    pub weight: [usize; 4],
    pub y: [usize; 4],
}

impl Geometry {
    /// Checks that the arrays fit together, and describes them.
    pub fn new(
        form: Form,
        problem: &Convolution,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<Self> {
        check_dtypes(form.name(), inputs, output)?;
        Self::of_any_type(form, problem, inputs, output)
    }

    /// The same for arrays whose types are the caller's affair.
    pub fn of_any_type(
        form: Form,
        problem: &Convolution,
        inputs: &[&Array],
        output: &Array,
    ) -> Result<Self> {
        let op = form.name();
        let Roles { x, weight, y, bias } = Roles::new(form, inputs, output)?;
        let [xs, ws, ys] = [x.shape(), weight.shape(), y.shape()];
        let spatial = problem.spatial_axes(op, xs, ws)?;
        let groups = problem.groups;
        let mismatch = |lhs: &Shape, rhs: &Shape| -> Error {
            CoreError::unequal_shapes(op, *lhs, *rhs).into()
        };
        if groups == 0 || !xs[1].is_multiple_of(groups) || !ws[0].is_multiple_of(groups) {
            let what = format!(
                "{} and {} channels cannot be split into {groups} equal groups",
                xs[1], ws[0]
            );
            return Err(Error::InvalidParameter { op, what });
        }
        if ws[1] != xs[1] / groups {
            return Err(super::problem::unfit_weight(op, xs, ws));
        }
        let single = Lengths { input: 1, output: 1, kernel: 1, stride: 1, padding: 0, dilation: 1 };
        let mut lengths = [single; 2];
        let mut dims = [xs[0], ws[0], 1, 1];
        for (axis, place) in spatial {
            let positions = problem.positions(op, axis, xs[place], ws[place])?;
            dims[place] = positions;
            lengths[axis] = Lengths {
                input: xs[place],
                output: positions,
                kernel: ws[place],
                stride: problem.stride[axis],
                padding: problem.padding[axis],
                dilation: problem.dilation[axis],
            };
        }
        let expected = Shape::new(&dims[..xs.rank()])?;
        if *ys != expected {
            return Err(mismatch(ys, &expected));
        }
        if let Some(bias) = bias {
            let channels = if form == Form::Output { ws[0] } else { xs[1] };
            let expected = Shape::new(&[channels])?;
            if *bias.shape() != expected {
                return Err(mismatch(bias.shape(), &expected));
            }
        }
        for input in inputs {
            check_apart(op, input, output)?;
        }
        writes_each_element_once(op, output)?;
        Ok(Self {
            images: xs[0],
            groups,
            inputs: ws[1],
            outputs: ws[0] / groups,
            lengths,
            x: strides(x),
            weight: strides(weight),
            y: strides(y),
        })
    }

    /// Whether the kernel has one element, and every position sees the element of its own index.
    pub fn has_plain_taps(&self) -> bool {
        self.lengths
            .iter()
            .all(|lengths| lengths.kernel == 1 && lengths.stride == 1 && lengths.padding == 0)
    }

    /// Makes one long row of each image if taps are plain and that is how images lie.
    pub fn join_rows(&mut self) -> bool {
        let [rows, columns] = self.lengths;
        let stride = |strides| pixel_stride(rows.input, columns.input, strides);
        let (true, Some(x), Some(y)) = (self.has_plain_taps(), stride(self.x), stride(self.y))
        else {
            return false;
        };
        let pixels = rows.input * columns.input;
        self.lengths[0] = Lengths { input: 1, output: 1, ..rows };
        self.lengths[1] = Lengths { input: pixels, output: pixels, ..columns };
        (self.x[3], self.y[3]) = (x, y);
        true
    }

    /// The sums that make up the output, or the gradient of the input: one for each remainder of
    /// rows and columns by the strides.
    pub fn gathers(&self, form: Form) -> Vec<Gather> {
        let gather = |axes: [Axis; 2]| {
            let [outputs, inputs, row_taps, column_taps] = self.weight;
            let taps = [row_taps, column_taps];
            let group = self.outputs * outputs;
            let (rows, channels, source, result, weight) = match form {
                Form::InputGradient => {
                    let weight = WeightStrides { group, row: inputs, channel: outputs, taps };
                    (self.inputs, self.outputs, self.y, self.x, weight)
                }
                _ => {
                    let weight = WeightStrides { group, row: outputs, channel: inputs, taps };
                    (self.outputs, self.inputs, self.x, self.y, weight)
                }
            };
            let (images, groups) = (self.images, self.groups);
            Gather { images, groups, rows, channels, axes, source, result, weight }
        };
        if form == Form::Output {
            return vec![gather(self.lengths.each_ref().map(Axis::forward))];
        }
        let [rows, columns] = &self.lengths;
        let remainders = |lengths: &Lengths| 0..lengths.stride.min(lengths.input);
        remainders(rows)
            .flat_map(|row| remainders(columns).map(move |column| (row, column)))
            .map(|(row, column)| {
                gather([Axis::gradient(rows, row), Axis::gradient(columns, column)])
            })
            .collect()
    }
}

/// The stride of an image's elements if its rows follow one another.
pub(super) fn pixel_stride(rows: usize, columns: usize, strides: [usize; 4]) -> Option<usize> {
    match (rows, columns) {
        (0 | 1, _) => Some(strides[3]),
        (_, 1) => Some(strides[2]),
        _ => (strides[2] == columns * strides[3]).then_some(strides[3]),
    }
}

/// Strides of the weight by what its axes are to a [`Gather`].
#[derive(Debug, Clone, Copy)]
pub(super) struct WeightStrides {
    pub group: usize,
    pub row: usize,
    pub channel: usize,
    pub taps: [usize; 2],
}

/// Channels of a result, `rows` in each group, that are sums over `channels` of a source and the
/// taps of two axes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gather {
    pub images: usize,
    pub groups: usize,
    pub rows: usize,
    pub channels: usize,
    pub axes: [Axis; 2],
    /// Strides of images, channels, rows and columns.
    pub source: [usize; 4],
    pub result: [usize; 4],
    pub weight: WeightStrides,
}

impl Gather {
    /// Numbers that are added up for each element of the result.
    pub fn depth(&self) -> usize {
        self.channels * self.axes[0].taps * self.axes[1].taps
    }
}

/// Strides with a row for images that have none.
pub(super) fn strides(array: &Array) -> [usize; 4] {
    match array.layout().strides() {
        [first, second, column] => [*first, *second, 0, *column],
        [first, second, row, column] => [*first, *second, *row, *column],
        _ => [0; 4],
    }
}

fn check_dtypes(op: &'static str, inputs: &[&Array], output: &Array) -> Result<()> {
    let dtype = output.dtype();
    for input in inputs {
        if !input.dtype().is_float() {
            let hint = "cast to f32 first";
            return Err(CoreError::UnsupportedDType { op, dtype: input.dtype(), hint }.into());
        }
        if input.dtype() != dtype {
            return Err(CoreError::DTypeMismatch { op, lhs: input.dtype(), rhs: dtype }.into());
        }
    }
    Ok(())
}
