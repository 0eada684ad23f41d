//! The cases of padding, its gradient and flips.

use crate::PadMode;
use crate::pad::{PadGradient, Remap};
use polaris_core::{DType, MAX_RANK};

use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family =
    Family::new("pad", super::shipped_programs, || VARIANTS.len(), is_essential, case);

/// What is done to the elements.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Rule {
    Pad(PadMode),
    Gradient(PadMode),
    Flip,
}

const CONSTANT: PadMode = PadMode::Constant(-2.5);

/// The rule and the type.
const VARIANTS: [(Rule, DType); 14] = [
    (Rule::Pad(CONSTANT), DType::F32),
    (Rule::Pad(PadMode::Reflect), DType::F32),
    (Rule::Pad(PadMode::Replicate), DType::F32),
    (Rule::Pad(PadMode::Circular), DType::F32),
    (Rule::Gradient(PadMode::Reflect), DType::F32),
    (Rule::Gradient(PadMode::Replicate), DType::F32),
    (Rule::Gradient(PadMode::Circular), DType::F32),
    (Rule::Flip, DType::F32),
    (Rule::Pad(CONSTANT), DType::BF16),
    (Rule::Pad(CONSTANT), DType::I8),
    (Rule::Pad(CONSTANT), DType::F64),
    (Rule::Gradient(PadMode::Replicate), DType::F16),
    (Rule::Gradient(PadMode::Reflect), DType::F64),
    (Rule::Flip, DType::I64),
];

/// All rules in `f32`.
fn is_essential(variant: usize) -> bool {
    VARIANTS[variant].1 == DType::F32
}

/// The parameters' shape is that of the array without padding.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (rule, dtype) = VARIANTS[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let shape = match (rule, &parameters.shape[..]) {
        (Rule::Gradient(_), []) => vec![1],
        (_, shape) => shape.to_vec(),
    };
    let mut widths = [(0, 0); MAX_RANK];
    if let Rule::Pad(mode) | Rule::Gradient(mode) = rule {
        for (widths, &dim) in widths.iter_mut().zip(&shape) {
            let mut draw = || width(mode, dim, numbers);
            *widths = (draw(), draw());
        }
    }
    let axis = parameters.axes.trailing_zeros() as usize % shape.len().max(1);
    if let Rule::Gradient(_) = rule {
        let along = widths[axis];
        widths = [(0, 0); MAX_RANK];
        widths[axis] = along;
    }
    let longer = |(dim, (before, after)): (&usize, &(usize, usize))| before + dim + after;
    let padded: Vec<usize> = shape.iter().zip(&widths).map(longer).collect();
    let arrangement = Arrangement { broadcast: 0, missing_axes: 0, ..parameters.inputs[0].clone() };
    let mut input = |shape: &[usize]| {
        Operand::input(shape, &arrangement, dtype, Domain::Any, parameters.special, numbers)
    };
    match rule {
        Rule::Pad(mode) => {
            let inputs = vec![input(&shape)];
            let output = Operand::output(&padded, &parameters.output, dtype, numbers);
            let op = Remap::Pad { widths, mode };
            Case::new(op, inputs, output, Tolerance::Exact, Vec::new())
        }
        Rule::Flip => {
            let inputs = vec![input(&shape)];
            let output = Operand::output(&shape, &parameters.output, dtype, numbers);
            let axes = std::array::from_fn(|axis| parameters.axes >> axis & 1 == 1);
            Case::new(Remap::Flip { axes }, inputs, output, Tolerance::Exact, Vec::new())
        }
        Rule::Gradient(mode) => {
            let inputs = vec![input(&padded)];
            let output = Operand::output(&shape, &parameters.output, dtype, numbers);
            let (before, after) = widths[axis];
            let finite = inputs[0].contents.iter().filter(|value| value.is_finite());
            let largest = finite.fold(0.0f64, |largest, value| largest.max(value.abs()));
            let most = (before + after + 1) as f64 * largest;
            let scale = vec![most; output.layout.elements()];
            let op = PadGradient { axis, before, after, mode };
            Case::new(op, inputs, output, Tolerance::Arithmetic, scale)
        }
    }
}

/// A width that the mode allows.
fn width(mode: PadMode, dim: usize, numbers: &mut Numbers) -> usize {
    let most = match mode {
        PadMode::Constant(_) => 4,
        PadMode::Reflect => dim.saturating_sub(1).min(5),
        PadMode::Replicate => {
            if dim > 0 {
                4
            } else {
                0
            }
        }
        PadMode::Circular => dim.min(5),
    };
    numbers.below(most as u64 + 1) as usize
}
