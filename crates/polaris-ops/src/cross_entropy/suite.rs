//! The cases of cross-entropy: losses and gradients, with and without weights, smoothing and rows
//! that are ignored.

use crate::{CrossEntropy, CrossEntropyGradient, CrossEntropyOptions};
use polaris_core::DType;

use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family =
    Family::new("cross_entropy", super::shipped_programs, count, is_essential, case);

/// Whether it is the gradient, the type of the logits and that of the targets.
fn variants() -> Vec<(bool, DType, DType)> {
    let types = [
        (DType::F32, DType::I64),
        (DType::F32, DType::I32),
        (DType::F64, DType::I64),
        (DType::F16, DType::I64),
        (DType::BF16, DType::I32),
    ];
    types.into_iter().flat_map(|(x, t)| [(false, x, t), (true, x, t)]).collect()
}

/// How many variants there are.
fn count() -> usize {
    variants().len()
}

/// Whether a short check should not leave it out.
fn is_essential(variant: usize) -> bool {
    variants()[variant].1 == DType::F32
}

/// The target that is ignored where one is.
const IGNORED: i64 = -100;

/// Rows are all axes but the last.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (gradient, dtype, target_dtype) = variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let classes = parameters.shape.last().copied().unwrap_or(1).max(1);
    let rows = parameters.shape.iter().rev().skip(1).product::<usize>();
    let flag = |bit: u32| parameters.seed >> bit & 1 == 1;
    let (has_weights, smooths, ignores) = (flag(0), flag(1), flag(2));
    let options = CrossEntropyOptions {
        smoothing: if smooths { 0.1 } else { 0.0 },
        ignore_index: ignores.then_some(IGNORED),
    };
    let [first, second, third] = &parameters.inputs;
    let place =
        |place: &Arrangement| Arrangement { broadcast: 0, missing_axes: 0, ..place.clone() };
    let mut draw = |shape: &[usize], at: &Arrangement, dtype: DType, special: bool| {
        Operand::input(shape, &place(at), dtype, Domain::Any, special, numbers)
    };
    let logits = draw(&[rows, classes], first, dtype, parameters.special);
    let mut targets = draw(&[rows], second, target_dtype, false);
    for target in &mut targets.contents {
        let ignored = ignores && target.rem_euclid(7.0) == 0.0;
        *target = if ignored { IGNORED as f64 } else { target.rem_euclid(classes as f64) };
    }
    let loss_dtype = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let mut inputs = vec![logits, targets];
    let mut g_scale = 1.0;
    if gradient {
        let g = draw(&[rows], third, loss_dtype, false);
        g_scale = largest(&g.contents);
        inputs.push(g);
    }
    let mut weight_scale = 1.0;
    if has_weights {
        let weights = draw(&[classes], second, loss_dtype, false);
        weight_scale = largest(&weights.contents);
        inputs.push(weights);
    }
    let written = if gradient { vec![rows, classes] } else { vec![rows] };
    let output_dtype = if gradient { dtype } else { loss_dtype };
    let output = Operand::output(&written, &parameters.output, output_dtype, numbers);
    // A loss is a difference of logits plus a logarithm of what is at least 1; probabilities are at
    // most 1.
    let scale = match gradient {
        true => 2.0 * g_scale,
        false => 2.0 * largest(&inputs[0].contents) + 1.0 + (classes as f64).ln(),
    };
    let scale = vec![scale * weight_scale; output.layout.elements()];
    let tolerance = Tolerance::Accumulated;
    if gradient {
        let op = CrossEntropyGradient { options, has_weights };
        Case::new(op, inputs, output, tolerance, scale)
    } else {
        Case::new(CrossEntropy { options, has_weights }, inputs, output, tolerance, scale)
    }
}

/// The largest finite magnitude.
fn largest(values: &[f64]) -> f64 {
    values.iter().filter(|value| value.is_finite()).fold(0.0, |most, value| value.abs().max(most))
}
