//! Weights and activations of quantised models: integers between `QuantizeLinear` and `DequantizeLinear`.

use polaris_onnx::{Attribute, ElementType};

use super::writer::{Value, Writer};
use crate::module::products;
use crate::quantize::{InputPoint, IntegerWeight};
use crate::{Layer, Parameter, Result};

/// The first version of operators with integers of four bits and scales of blocks.
const NARROW_OPSET: i64 = 21;

/// Bits of the integers in bytes.
const BYTE: u32 = 8;

/// The version of operators that a model needs.
pub(super) fn opset_of(model: &dyn Layer) -> Result<i64> {
    for weight in products(model).into_iter().filter_map(|product| product.weight) {
        if weight.integers()?.is_some_and(|weight| is_narrow(&weight) || has_blocks(&weight)) {
            return Ok(NARROW_OPSET);
        }
    }
    Ok(super::OPSET)
}

fn is_narrow(weight: &IntegerWeight) -> bool {
    weight.bits <= 4
}

fn has_blocks(weight: &IntegerWeight) -> bool {
    weight.group < weight.columns
}

impl Writer {
    /// What a layer multiplies with: dequantised integers if the parameter is rounded to these, otherwise `f32`. A
    /// parameter of several layers is there once.
    ///
    /// # Errors
    /// If its elements cannot be read.
    pub fn weight(&mut self, name: &str, parameter: &Parameter) -> Result<String> {
        if let Some(name) = self.written(parameter) {
            return Ok(name);
        }
        let value = match parameter.integers()? {
            Some(weight) => self.integer_weight(name, parameter.tensor().dims(), &weight),
            None => self.parameter(name, parameter)?,
        };
        self.write_down(parameter, &value);
        Ok(value)
    }

    /// The transpose of a matrix.
    ///
    /// # Errors
    /// If its elements cannot be read.
    pub fn turned_weight(&mut self, name: &str, parameter: &Parameter) -> Result<String> {
        if self.written(parameter).is_none()
            && let Some(weight) = parameter.integers()?
        {
            let IntegerWeight { rows, columns, group, ref levels, ref scales, .. } = weight;
            let groups = columns.div_ceil(group);
            let turned = IntegerWeight {
                levels: turned(levels, rows, columns),
                scales: turned(scales, rows, groups),
                ..weight
            };
            return Ok(self.dequantized(name, &[columns, rows], 1, &turned));
        }
        // Engines transpose a constant once.
        let weight = self.weight(name, parameter)?;
        Ok(self.node("Transpose", &[&weight], &[("perm", vec![1, 0].into())]))
    }

    /// Integers of a weight with these dimensions.
    fn integer_weight(&mut self, name: &str, dims: &[usize], weight: &IntegerWeight) -> String {
        if !has_blocks(weight) || dims.len() == 2 {
            return self.dequantized(name, dims, 0, weight);
        }
        // Blocks are along one axis: that of all elements of an output.
        let flat = self.dequantized(name, &[weight.rows, weight.columns], 0, weight);
        let shape: Vec<i64> = dims.iter().map(|&length| length as i64).collect();
        let shape = self.integers(&shape);
        self.node("Reshape", &[&flat, &shape], &[])
    }

    /// Integers whose outputs are along an axis; those of blocks are matrices, and blocks along the other axis.
    fn dequantized(
        &mut self,
        name: &str,
        dims: &[usize],
        outputs: usize,
        weight: &IntegerWeight,
    ) -> String {
        let element = if is_narrow(weight) { ElementType::I4 } else { ElementType::I8 };
        let bytes = weight.levels.iter().map(|&level| level as u8).collect();
        let levels = self.named_initializer(name, element, dims, bytes);
        let groups = weight.columns.div_ceil(weight.group);
        let (mut axis, mut of_scales) = (outputs, vec![weight.rows]);
        let mut attributes: Vec<(&str, Attribute)> = Vec::new();
        if has_blocks(weight) {
            axis = 1 - outputs;
            of_scales.insert(axis, groups);
            attributes.push(("block_size", (weight.group as i64).into()));
        }
        attributes.push(("axis", (axis as i64).into()));
        let bytes = weight.scales.iter().flat_map(|scale| scale.to_le_bytes()).collect();
        let scale = format!("{name}_scale");
        let scale = self.named_initializer(&scale, ElementType::F32, &of_scales, bytes);
        self.node("DequantizeLinear", &[&levels, &scale], &attributes)
    }

    /// What a layer reads: rounded to integers and back, if there is a quantiser.
    ///
    /// # Errors
    /// If its scale cannot be read.
    pub fn input(&mut self, point: &InputPoint, x: &Value) -> Result<Value> {
        let Some(quantizer) = point.quantizer().filter(|quantizer| quantizer.bits() > 0) else {
            return Ok(x.clone());
        };
        let (scale, zero) = quantizer.scaling()?;
        let mut read = x.name().to_owned();
        if quantizer.bits() < BYTE {
            // Integers in bytes have more levels than these: what lies beyond is cut off before.
            let zero = f64::from(zero);
            let top = f64::from((1 << quantizer.bits()) - 1);
            let [low, high] =
                [0.0, top].map(|level| self.number((level - zero) * f64::from(scale)));
            read = self.node("Clip", &[&read, &low, &high], &[]);
        }
        let bytes = scale.to_le_bytes().to_vec();
        let scale = self.named_initializer("input_scale", ElementType::F32, &[], bytes);
        let zero = self.named_initializer("input_zero", ElementType::U8, &[], vec![zero]);
        let integers = self.node("QuantizeLinear", &[&read, &scale, &zero], &[]);
        Ok(x.like(self.node("DequantizeLinear", &[&integers, &scale, &zero], &[])))
    }
}

/// The transpose of a matrix.
fn turned<T: Copy>(matrix: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..rows * columns).map(|at| matrix[at % rows.max(1) * columns + at / rows.max(1)]).collect()
}
