//! Constant weights of few bits that stay packed: those whose DequantizeLinear a block format says exactly.
//!
//! Blocks have scales in half precision. Where a model's scales are not such numbers, or a format has no place for its
//! zero points, blocks would change its results, and the weight is dequantised like any other (`weights`).

use half::f16;
use polaris_onnx::{ElementType, Node, Tensor, ValueId};
use polaris_ops::format::Block;

use super::matching::{is, operand};

/// Elements of a block of the formats that weights become.
const BLOCK: usize = 32;

/// A matrix of integers with scales and zero points, as the operands of a DequantizeLinear.
pub(crate) struct Integers<'a> {
    levels: &'a Tensor,
    scales: Vec<f32>,
    zeros: Vec<i32>,
    /// Steps from scale to scale along either axis, and the elements of the second that share one.
    rows: usize,
    groups: usize,
    group: usize,
    /// The axis along which products are summed, and so that of blocks.
    along: usize,
}

/// The axis along which those that read a value sum it, if all are products with it as their second factor.
pub(crate) fn summed_axis<'g>(
    id: ValueId,
    readers: impl Iterator<Item = &'g Node>,
) -> Option<usize> {
    let axis = |node: &Node| -> Option<usize> {
        let is_second = operand(node, 1) == Some(id);
        if !is_second || node.needs().filter(|&need| need == id).count() != 1 {
            return None;
        }
        match is(node, "Gemm") {
            true => Some(usize::from(node.attributes.flag("transB", false).ok()?)),
            false => is(node, "MatMul").then_some(0),
        }
    };
    let mut axes = readers.map(axis);
    let first = axes.next()??;
    axes.all(|axis| axis == Some(first)).then_some(first)
}

impl<'a> Integers<'a> {
    /// The operands of a node, if its scales are shared by whole blocks along an axis of a matrix.
    pub fn of(
        node: &Node,
        along: usize,
        constant: impl Fn(usize) -> Option<&'a Tensor>,
    ) -> Option<Self> {
        use ElementType::{F32, I4, I8, U4, U8};
        let levels = constant(0)?;
        let &[a, b] = levels.shape() else { return None };
        let scale = constant(1)?;
        let zero = match operand(node, 2) {
            Some(_) => Some(constant(2)?),
            None => None,
        };
        let fits = is(node, "DequantizeLinear")
            && matches!(levels.element(), I4 | I8 | U4 | U8)
            && scale.element() == F32
            && matches!(node.attributes.int_or("output_dtype", 0), Ok(0 | 1))
            && zero.is_none_or(|zero| zero.shape() == scale.shape());
        let columns = levels.shape()[along];
        if !fits || levels.elements() == 0 || !columns.is_multiple_of(BLOCK) {
            return None;
        }
        let axis = node.attributes.int_or("axis", 1).ok()?;
        let axis = usize::try_from(if axis < 0 { axis + 2 } else { axis }).ok()?;
        let group = usize::try_from(node.attributes.int_or("block_size", 0).ok()?).ok()?;
        // Scales as a matrix of rows and groups, wherever they lie.
        let (rows, groups, group) = match (scale.shape(), group) {
            _ if scale.elements() == 1 => (0, 0, columns),
            (&[length], 0) if axis == 1 - along && length == [a, b][axis] => (1, 0, columns),
            (found, group) if group > 0 && axis == along => {
                let mut expected = [a, b];
                expected[axis] = expected[axis].div_ceil(group);
                let is_whole =
                    found == expected && (group.is_multiple_of(BLOCK) || group >= columns);
                is_whole.then(|| match along {
                    0 => (1, b, group),
                    _ => (expected[1], 1, group),
                })?
            }
            _ => return None,
        };
        let scales = scale.values::<f32>().ok()?.into_owned();
        let zeros = match zero {
            Some(zero) => zero.to_i64().ok()?.into_iter().map(|zero| zero as i32).collect(),
            None => vec![0; scales.len()],
        };
        Some(Self { levels, scales, zeros, rows, groups, group, along })
    }

    /// Rows and columns of the matrix of blocks.
    pub fn dims(&self) -> [usize; 2] {
        let shape = self.levels.shape();
        [shape[1 - self.along], shape[self.along]]
    }

    /// The format that has every element exactly, if there is one.
    pub fn block(&self) -> Option<Block> {
        use ElementType::{I4, I8, U4, U8};
        let is_exact = |value: f32| value.is_finite() && f16::from_f32(value).to_f32() == value;
        if !self.scales.iter().all(|&scale| is_exact(scale)) {
            return None;
        }
        let (lowest, highest, center) = match self.levels.element() {
            I4 => (-8, 7, 0),
            U4 => (0, 15, 8),
            I8 => (-128, 127, 0),
            U8 => (0, 255, 128),
            _ => return None,
        };
        let has_few = highest - lowest == 15;
        if self.zeros.iter().all(|&zero| zero == center) {
            return Some(if has_few { Block::Q4_0 } else { Block::Q8_0 });
        }
        let mut offsets = self
            .scales
            .iter()
            .zip(&self.zeros)
            .map(|(&scale, &zero)| scale * (lowest - zero) as f32);
        if has_few && offsets.all(is_exact) {
            return Some(Block::Q4_1);
        }
        let in_bytes = |&zero: &i32| lowest - zero >= -128 && highest - zero <= 127;
        self.zeros.iter().all(in_bytes).then_some(Block::Q8_0)
    }

    /// The matrix in a format that [`Self::block`] gave, row by row.
    pub fn pack(&self, block: Block) -> Option<Vec<u8>> {
        let levels = self.levels.bytes().ok()?;
        let is_signed = self.levels.element().is_signed_integer();
        let lowest = if is_signed { -8 } else { 0 };
        let [rows, columns] = self.dims();
        let (row_step, step) = if self.along == 0 { (1, rows) } else { (columns, 1) };
        let mut bytes = Vec::with_capacity(rows * columns / BLOCK * block.bytes());
        for row in 0..rows {
            for first in (0..columns).step_by(BLOCK) {
                let at = row * self.rows + first / self.group * self.groups;
                let (scale, zero) = (self.scales[at], self.zeros[at]);
                let level = |i: usize| {
                    let byte = levels[row * row_step + (first + i) * step];
                    if is_signed { i32::from(byte as i8) } else { i32::from(byte) }
                };
                let centred = |i: usize| level(i) - zero;
                let nibbles = |bytes: &mut Vec<u8>, number: &dyn Fn(usize) -> i32| {
                    bytes.extend((0..16).map(|i| (number(i) | number(i + 16) << 4) as u8));
                };
                bytes.extend(f16::from_f32(scale).to_le_bytes());
                match block {
                    Block::Q4_0 => nibbles(&mut bytes, &|i| centred(i) + 8),
                    Block::Q4_1 => {
                        let offset = scale * (lowest - zero) as f32;
                        bytes.extend(f16::from_f32(offset).to_le_bytes());
                        nibbles(&mut bytes, &|i| level(i) - lowest);
                    }
                    Block::Q8_0 => bytes.extend((0..BLOCK).map(|i| centred(i) as i8 as u8)),
                    _ => return None,
                }
            }
        }
        Some(bytes)
    }
}
