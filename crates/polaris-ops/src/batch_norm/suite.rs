//! The cases of batch normalisation: statistics, elements, and the gradients.

use crate::{BatchNorm, BatchNormGradient, BatchNormSums, BatchStatistics};
use polaris_core::DType;

use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family =
    Family::new("batch_norm", super::shipped_programs, count, is_essential, case);

/// Which of the four operations.
#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Statistics,
    Norm,
    Sums,
    Gradient,
}

/// Each operation of each type, `f32` first.
fn variants() -> Vec<(What, DType)> {
    let all = [What::Statistics, What::Norm, What::Sums, What::Gradient];
    let types = [DType::F32, DType::F16, DType::BF16, DType::F64];
    types.into_iter().flat_map(|dtype| all.map(|what| (what, dtype))).collect()
}

/// How many variants there are.
fn count() -> usize {
    variants().len()
}

/// Whether a short check should not leave it out.
fn is_essential(variant: usize) -> bool {
    variants()[variant].1 == DType::F32
}

/// The second axis of the parameters are the channels.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (what, dtype) = variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let mut shape = parameters.shape.clone();
    while shape.len() < 2 {
        shape.push(3);
    }
    let channels = shape[1];
    let size = shape.iter().product::<usize>() as f64 / channels.max(1) as f64;
    let sum_dtype = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let epsilon = [1e-5, 1e-3][(parameters.seed % 2) as usize];
    let flag = |bit: u32| parameters.seed >> bit & 1 == 1;
    let (has_weight, has_bias, training) = (flag(1), flag(2), flag(3));
    let [first, second, third] = &parameters.inputs;
    let place =
        |place: &Arrangement| Arrangement { broadcast: 0, missing_axes: 0, ..place.clone() };
    let mut draw = |shape: &[usize], at: &Arrangement, dtype, domain, special| {
        Operand::input(shape, &place(at), dtype, domain, special, numbers)
    };
    let x = draw(&shape, first, dtype, Domain::Any, parameters.special);
    let x_scale = largest(&x);
    let mut inputs = vec![x];
    let mut g_scale = 0.0;
    if matches!(what, What::Sums | What::Gradient) {
        // Special values would meet differences that are zero but for rounding, and what infinity
        // times those is depends on their sign.
        let g = draw(&shape, second, dtype, Domain::Any, false);
        g_scale = largest(&g);
        inputs.push(g);
    }
    let mut column = |at: &Arrangement, dtype, domain| draw(&[channels], at, dtype, domain, false);
    if what != What::Statistics {
        inputs.push(column(third, sum_dtype, Domain::Any));
        inputs.push(column(second, sum_dtype, Domain::Positive));
    }
    // No variance is below what `Domain::Positive` draws, no mean beyond `Domain::Any`.
    let deviation = 0.2;
    let normal = (x_scale + 4.0) / deviation;
    let mut weight_scale = 1.0;
    if has_weight && matches!(what, What::Norm | What::Gradient) {
        let weight = column(first, dtype, Domain::Any);
        weight_scale = largest(&weight);
        inputs.push(weight);
    }
    let mut bias_scale = 0.0;
    if has_bias && what == What::Norm {
        let bias = column(third, dtype, Domain::Any);
        bias_scale = largest(&bias);
        inputs.push(bias);
    }
    if training && what == What::Gradient {
        let sums = [third, second].map(|at| column(at, sum_dtype, Domain::Any));
        let most = sums.iter().map(largest).fold(0.0, f64::max);
        g_scale += most * (1.0 + normal) / size.max(1.0);
        inputs.extend(sums);
    }
    let tolerance = Tolerance::Accumulated;
    if matches!(what, What::Statistics | What::Sums) {
        let output = Operand::output(&[2, channels], &parameters.output, sum_dtype, numbers);
        let scales = match what {
            What::Statistics => [x_scale, x_scale * x_scale],
            _ => [g_scale * normal * size, g_scale * size],
        };
        let scale = scales.into_iter().flat_map(|scale| vec![scale; channels]).collect();
        return match what {
            What::Statistics => Case::new(BatchStatistics, inputs, output, tolerance, scale),
            _ => Case::new(BatchNormSums { epsilon }, inputs, output, tolerance, scale),
        };
    }
    let output = Operand::output(&shape, &parameters.output, dtype, numbers);
    let elements = output.layout.elements();
    if what == What::Norm {
        let scale = vec![normal * weight_scale + bias_scale; elements];
        let op = BatchNorm { epsilon, has_weight, has_bias };
        return Case::new(op, inputs, output, tolerance, scale);
    }
    let scale = vec![g_scale * weight_scale / deviation; elements];
    let op = BatchNormGradient { epsilon, has_weight, training };
    Case::new(op, inputs, output, tolerance, scale)
}

/// The largest finite magnitude.
fn largest(operand: &Operand) -> f64 {
    let finite = operand.contents.iter().filter(|value| value.is_finite());
    finite.fold(0.0, |most, value| value.abs().max(most))
}
