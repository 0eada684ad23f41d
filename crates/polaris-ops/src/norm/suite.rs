//! The cases of normalisation: both kinds, their gradients, every floating-point type.

use crate::{Norm, NormGradient, NormKind, NormWeightGradient};
use polaris_core::DType;

use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new("norm", super::shipped_programs, count, is_essential, case);

/// Which of the three operations.
#[derive(Debug, Clone, Copy)]
enum Part {
    Output,
    Gradient,
    WeightGradient,
}

/// Each operation of each kind and type, `f32` first.
fn variants() -> Vec<(Part, NormKind, DType)> {
    let mut variants = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for kind in NormKind::ALL {
            let parts = [Part::Output, Part::Gradient, Part::WeightGradient];
            variants.extend(parts.map(|part| (part, kind, dtype)));
        }
    }
    variants
}

/// How many variants there are.
fn count() -> usize {
    variants().len()
}

/// Whether a short check should not leave it out.
fn is_essential(variant: usize) -> bool {
    variants()[variant].2 == DType::F32
}

fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (part, kind, dtype) = variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let mut shape = parameters.shape.clone();
    if shape.is_empty() {
        // A single value has no last axis.
        shape.push(1);
    }
    let length = shape[shape.len() - 1];
    let epsilon = [1e-5, 1e-6, 1e-3][(parameters.seed % 3) as usize];
    let flag = |bit: u32| parameters.seed >> bit & 1 == 1;
    let (has_weight, has_bias) = (flag(2), flag(3));
    let [first, second, third] = &parameters.inputs;
    let whole =
        |place: &Arrangement| Arrangement { broadcast: 0, missing_axes: 0, ..place.clone() };
    let in_line = |place: &Arrangement| Arrangement {
        gap: place.gap,
        offset: place.offset,
        ..Arrangement::default()
    };
    let mut draw = |shape: &[usize], place: &Arrangement, special: bool| {
        Operand::input(shape, place, dtype, Domain::Any, special, numbers)
    };
    // Special values of the gradient and the weight would meet differences that are zero but for
    // rounding, and what infinity times those is depends on their sign.
    let mut inputs = vec![draw(&shape, &whole(first), parameters.special)];
    if !matches!(part, Part::Output) {
        inputs.push(draw(&shape, &whole(second), false));
    }
    let most = |operand: &Operand| largest(&operand.contents);
    let mut weight_scale = 1.0;
    if has_weight && !matches!(part, Part::WeightGradient) {
        let weight = draw(&[length], &in_line(third), false);
        weight_scale = most(&weight);
        inputs.push(weight);
    }
    let mut bias_scale = 0.0;
    if has_bias && matches!(part, Part::Output) {
        let bias = draw(&[length], &in_line(second), parameters.special);
        bias_scale = most(&bias);
        inputs.push(bias);
    }
    let rows = statistics(kind, epsilon, &inputs[0].elements(), length);
    let per_element = |scale: &dyn Fn(&Row) -> f64| -> Vec<f64> {
        rows.iter().flat_map(|row| std::iter::repeat_n(scale(row), length)).collect()
    };
    let tolerance = Tolerance::Accumulated;
    match part {
        Part::Output => {
            let scale = per_element(&|row| (1.0 + row.largest) * weight_scale + bias_scale);
            let output = Operand::output(&shape, &parameters.output, dtype, numbers);
            let op = Norm { kind, epsilon, has_weight, has_bias };
            Case::new(op, inputs, output, tolerance, scale)
        }
        Part::Gradient => {
            let inner = most(&inputs[1]) * weight_scale;
            let scale = per_element(&|row| (2.0 + row.largest) * inner * row.factor);
            let output = Operand::output(&shape, &parameters.output, dtype, numbers);
            Case::new(NormGradient { kind, epsilon, has_weight }, inputs, output, tolerance, scale)
        }
        Part::WeightGradient => {
            let sum = rows.iter().map(|row| 1.0 + row.largest).sum::<f64>();
            let scale = vec![sum * most(&inputs[1]); length];
            let dtype = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
            let output = Operand::output(&[length], &in_line(&parameters.output), dtype, numbers);
            Case::new(NormWeightGradient { kind, epsilon }, inputs, output, tolerance, scale)
        }
    }
}

/// What the errors of a row scale with.
struct Row {
    /// The largest magnitude of its normalised elements.
    largest: f64,
    /// What its differences are multiplied by.
    factor: f64,
}

fn statistics(kind: NormKind, epsilon: f64, x: &[f64], length: usize) -> Vec<Row> {
    let of_row = |row: &[f64]| {
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / row.len() as f64;
        let centre = match kind {
            NormKind::Layer => mean(&mut row.iter().copied()),
            NormKind::Rms => 0.0,
        };
        let variance = mean(&mut row.iter().map(|x| (x - centre).powi(2)));
        let factor = 1.0 / (variance + epsilon).sqrt();
        let normal: Vec<f64> = row.iter().map(|x| (x - centre) * factor).collect();
        // Where there is NaN, there is nothing to scale.
        Row { largest: largest(&normal), factor: if factor.is_finite() { factor } else { 0.0 } }
    };
    x.chunks(length.max(1)).map(of_row).collect()
}

/// The largest finite magnitude.
fn largest(values: &[f64]) -> f64 {
    values.iter().filter(|value| value.is_finite()).fold(0.0, |most, value| value.abs().max(most))
}
