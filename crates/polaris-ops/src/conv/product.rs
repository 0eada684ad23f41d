//! 1x1 convolutions without stride and padding: a `matmul` of the weight with the channels of the images.

use polaris_core::{DType, Layout, Shape};

use super::geometry::{Form, Geometry, Roles, pixel_stride, strides};
use crate::matmul::{Bias, Epilogue, MatMul};
use crate::{Array, Result};

/// The same result as a product.
pub(super) struct Product {
    pub op: MatMul,
    pub inputs: Vec<Array>,
    pub output: Array,
}

impl Product {
    /// The product, if it is one.
    pub fn of(form: Form, geometry: &Geometry, roles: &Roles<'_>) -> Result<Option<Self>> {
        // A bias for each row is the same in all products of a batch, and in the type of sums.
        let has_fitting_bias = roles.bias.is_none_or(|bias| {
            geometry.groups == 1 && matches!(bias.dtype(), DType::F32 | DType::F64)
        });
        if form == Form::WeightGradient || !geometry.has_plain_taps() || !has_fitting_bias {
            return Ok(None);
        }
        let [rows, columns] = geometry.lengths.map(|lengths| lengths.input);
        let (Some(x_pixel), Some(y_pixel)) =
            (pixel_stride(rows, columns, geometry.x), pixel_stride(rows, columns, geometry.y))
        else {
            return Ok(None);
        };
        let Geometry { images, groups, inputs, outputs, .. } = *geometry;
        let batch = |array: &Array, channels: usize, strides: [usize; 4], pixel: usize| {
            let dims = [images, groups, channels, rows * columns];
            let strides = [strides[0], channels * strides[1], strides[1], pixel];
            view(array, &dims, &strides)
        };
        let x = batch(roles.x, inputs, geometry.x, x_pixel)?;
        let y = batch(roles.y, outputs, geometry.y, y_pixel)?;
        let [output_stride, input_stride, ..] = geometry.weight;
        let group_stride = outputs * output_stride;
        let (weight, source, output) = match form {
            Form::InputGradient => {
                let strides = [group_stride, input_stride, output_stride];
                (view(roles.weight, &[groups, inputs, outputs], &strides)?, y, x)
            }
            _ => {
                let strides = [group_stride, output_stride, input_stride];
                (view(roles.weight, &[groups, outputs, inputs], &strides)?, x, y)
            }
        };
        let mut all = vec![weight, source];
        all.extend(roles.bias.cloned());
        let bias = roles.bias.map(|_| Bias::PerRow);
        let op = MatMul { epilogue: Epilogue { bias, ..Epilogue::default() }, ..MatMul::default() };
        Ok(Some(Self { op, inputs: all, output }))
    }
}

impl Product {
    /// An array of the result's shape as the product sees it, if its rows follow one another.
    pub fn result_view(geometry: &Geometry, array: &Array) -> Result<Option<Array>> {
        let [rows, columns] = geometry.lengths.map(|lengths| lengths.output);
        let strides = strides(array);
        let Some(pixel) = pixel_stride(rows, columns, strides) else { return Ok(None) };
        let Geometry { images, groups, outputs, .. } = *geometry;
        let dims = [images, groups, outputs, rows * columns];
        let strides = [strides[0], outputs * strides[1], strides[1], pixel];
        view(array, &dims, &strides).map(Some)
    }
}

fn view(array: &Array, dims: &[usize], strides: &[usize]) -> Result<Array> {
    let layout = Layout::new(Shape::new(dims)?, strides, array.layout().offset())?;
    Array::new(array.buffer().clone(), layout)
}
