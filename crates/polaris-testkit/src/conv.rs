//! The cases of convolution: the output, also with what follows it, and both gradients, of every floating-point type, with
//! kernels, strides, dilations, padding and groups drawn from the seed.

use polaris_core::DType;
use polaris_ops::conv::FusedConvolution;
use polaris_ops::matmul::Activation;
use polaris_ops::{Convolution, ConvolutionInputGradient, ConvolutionWeightGradient};

use crate::case::Case;
use crate::operand::{Arrangement, Operand};
use crate::suites::CaseParameters;
use crate::tolerance::Tolerance;
use crate::values::{Domain, Numbers};

/// Which of the arrays is computed.
#[derive(Debug, Clone, Copy)]
enum Part {
    Output,
    InputGradient,
    WeightGradient,
    /// The output with a residual or an activation.
    Fused,
}

/// Each operation of each type, `f32` first.
fn variants() -> Vec<(Part, DType)> {
    let parts = [Part::Output, Part::InputGradient, Part::WeightGradient];
    let types = [DType::F32, DType::F16, DType::BF16, DType::F64];
    let fused = types[..3].iter().map(|&dtype| (Part::Fused, dtype));
    types.into_iter().flat_map(|dtype| parts.map(|part| (part, dtype))).chain(fused).collect()
}

/// How many variants there are.
pub fn count() -> usize {
    variants().len()
}

/// Whether a short check should not leave it out.
pub fn is_essential(variant: usize) -> bool {
    variants()[variant].1 == DType::F32
}

/// A convolution and the shapes of its arrays.
struct Problem {
    problem: Convolution,
    x: Vec<usize>,
    weight: Vec<usize>,
    y: Vec<usize>,
}

impl Problem {
    /// Images have the lengths of the last axes of the parameters' shape, cut to what a reference
    /// can do in a moment; the rest is drawn.
    fn draw(parameters: &CaseParameters, numbers: &mut Numbers) -> Self {
        let mut below = |bound: usize| numbers.below(bound as u64) as usize;
        let is_empty = parameters.shape.contains(&0);
        let lengths = parameters.shape.iter().rev().map(|&length| length.clamp(1, 70));
        let mut lengths: Vec<usize> = lengths.chain([5, 1]).take(2).collect();
        lengths.reverse();
        lengths[0] = lengths[0].min(12);
        let images = if is_empty { 0 } else { 1 + below(3) };
        let (groups, inputs, outputs) = match below(4) {
            // Depthwise, also with several outputs for each input.
            0 => (1 + below(6), 1, 1 + below(2)),
            1 => (2, 1 + below(4), 5 + below(5)),
            _ => (1, 1 + below(6), 1 + below(20)),
        };
        let has_rows = parameters.shape.len() != 1;
        if !has_rows {
            lengths[0] = 1;
        }
        let mut problem = Convolution { groups, ..Convolution::default() };
        let (mut taps, mut positions) = ([1; 2], [1; 2]);
        let has_one_tap = below(5) == 0;
        for axis in if has_rows { 0 } else { 1 }..2 {
            let length = lengths[axis];
            if !has_one_tap {
                taps[axis] = 1 + below(4);
                problem.stride[axis] = 1 + below(3);
                problem.dilation[axis] = 1 + below(2);
                problem.padding[axis] = below(5);
            }
            let reach = problem.dilation[axis] * (taps[axis] - 1) + 1;
            let missing = reach.saturating_sub(length);
            problem.padding[axis] = problem.padding[axis].max(missing.div_ceil(2));
            let padded = length + 2 * problem.padding[axis];
            positions[axis] = (padded - reach) / problem.stride[axis] + 1;
        }
        let shape = |first: usize, second: usize, last: [usize; 2]| {
            let rest = if has_rows { &last[..] } else { &last[1..] };
            [first, second].iter().chain(rest).copied().collect::<Vec<usize>>()
        };
        Self {
            problem,
            x: shape(images, groups * inputs, [lengths[0], lengths[1]]),
            weight: shape(groups * outputs, inputs, taps),
            y: shape(images, groups * outputs, positions),
        }
    }
}

fn draw_below(numbers: &mut Numbers, bound: usize) -> usize {
    numbers.below(bound as u64) as usize
}

pub fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (part, dtype) = variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let Problem { problem, x, weight, y } = Problem::draw(parameters, numbers);
    let has_bias = numbers.below(2) == 1;
    let place = |index: usize| Arrangement {
        broadcast: 0,
        missing_axes: 0,
        ..parameters.inputs[index].clone()
    };
    let mut draw = |shape: &[usize], place: &Arrangement, special: bool| {
        Operand::input(shape, place, dtype, Domain::Any, special, numbers)
    };
    // What an infinite weight, or gradient, makes of the zeros around images is not defined.
    // And where a sum is stored as `f16` before what follows it, as the CPU does, one beyond its range is
    // infinite there, of which some activations make NaN: as of separate operations, but not as of one.
    let is_stored_narrow = matches!(part, Part::Fused) && dtype == DType::F16;
    let special = parameters.special && !is_stored_narrow;
    let product = |shape: &[usize]| shape.iter().product::<usize>();
    let (first, second, shape, depth) = match part {
        Part::Output | Part::Fused => (&x, &weight, &y, product(&weight[1..])),
        Part::InputGradient => (&y, &weight, &x, weight[0] * product(&weight[2..])),
        Part::WeightGradient => (&x, &y, &weight, y[0] * product(&y[2..])),
    };
    let mut inputs = vec![draw(first, &place(0), special), draw(second, &place(1), false)];
    let average = |operand: &Operand| {
        let finite = operand.contents.iter().filter(|value| value.is_finite());
        let (sum, count) = finite.fold((0.0, 0), |(sum, n), value| (sum + value.abs(), n + 1));
        sum / f64::from(count.max(1))
    };
    let mut scale = 2.0 * average(&inputs[0]) * average(&inputs[1]) * depth as f64;
    if has_bias && !matches!(part, Part::WeightGradient) {
        let in_line = Arrangement {
            gap: parameters.inputs[2].gap,
            offset: parameters.inputs[2].offset,
            ..Arrangement::default()
        };
        inputs.push(draw(&[shape[1]], &in_line, special));
        // Numbers around 1, but for the special ones, which are exact in every sum that is one.
        scale += 4.0;
    }
    let following = match part {
        Part::Fused => {
            let activation = Activation::ALL[draw_below(numbers, Activation::ALL.len())];
            let residual = draw_below(numbers, 2) == 1;
            Some(FusedConvolution { problem, bias: inputs.len() == 3, residual, activation })
        }
        _ => None,
    };
    if following.is_some_and(|op| op.residual) {
        let place = Arrangement { broadcast: 0, missing_axes: 0, ..parameters.inputs[2].clone() };
        inputs.push(Operand::input(shape, &place, dtype, Domain::Any, false, numbers));
        scale += 4.0;
    }
    let output = Operand::output(shape, &parameters.output, dtype, numbers);
    let (scale, tolerance) = (vec![scale; output.layout.elements()], Tolerance::Accumulated);
    if let Some(op) = following {
        return Case::new(op, inputs, output, tolerance, scale);
    }
    match part {
        Part::Output | Part::Fused => Case::new(problem, inputs, output, tolerance, scale),
        Part::InputGradient => {
            Case::new(ConvolutionInputGradient { problem }, inputs, output, tolerance, scale)
        }
        Part::WeightGradient => {
            Case::new(ConvolutionWeightGradient { problem }, inputs, output, tolerance, scale)
        }
    }
}
