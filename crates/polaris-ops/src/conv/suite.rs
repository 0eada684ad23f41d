//! The cases of convolution: the output, also with an epilogue, and both gradients, of every floating-point type, with
//! kernels, strides, dilations, padding and groups drawn from the seed.

use crate::conv::{FusedConvolution, QuantizedConvolution};
use crate::matmul::Activation;
use crate::{Convolution, ConvolutionInputGradient, ConvolutionWeightGradient};
use polaris_core::DType;

use crate::families::Family;
use crate::format::{Block, Role};
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new("conv", super::shipped_programs, count, is_essential, case);

/// Which of the arrays is computed.
#[derive(Debug, Clone, Copy)]
enum Part {
    Output,
    InputGradient,
    WeightGradient,
    /// The output with a residual or an activation.
    Fused,
    /// The same with a weight that is made ready.
    Packed,
    /// The same with a weight of blocks.
    Blocks(Block),
    /// Of bytes into bytes; the type is that of images.
    Quantized,
    /// The same with a weight that is made ready.
    PackedQuantized,
}

impl Part {
    const fn is_fused(self) -> bool {
        matches!(self, Self::Fused | Self::Packed | Self::Blocks(_))
    }
}

/// Each operation of each type, `f32` first.
fn variants() -> Vec<(Part, DType)> {
    let parts = [Part::Output, Part::InputGradient, Part::WeightGradient];
    let types = [DType::F32, DType::F16, DType::BF16, DType::F64];
    let fused = types[..3].iter().map(|&dtype| (Part::Fused, dtype));
    let weights = [Part::Packed, Part::Blocks(Block::Q8_0), Part::Blocks(Block::Q4_K)];
    let weights = weights.map(|part| (part, DType::F32));
    let quantized = [Part::Quantized, Part::PackedQuantized]
        .into_iter()
        .flat_map(|part| [(part, DType::U8), (part, DType::I8)]);
    (types.into_iter().flat_map(|dtype| parts.map(|part| (part, dtype))))
        .chain(fused)
        .chain(weights)
        .chain(quantized)
        .collect()
}

/// How many variants there are.
fn count() -> usize {
    variants().len()
}

/// Whether a short check should not leave it out.
fn is_essential(variant: usize) -> bool {
    let (part, dtype) = variants()[variant];
    dtype == DType::F32 || matches!(part, Part::Quantized | Part::PackedQuantized)
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

fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (part, dtype) = variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let drawn = Problem::draw(parameters, numbers);
    if matches!(part, Part::Quantized | Part::PackedQuantized) {
        return quantized(matches!(part, Part::PackedQuantized), dtype, &drawn, parameters);
    }
    let Problem { problem, x, weight, y } = drawn;
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
    let is_stored_narrow = part.is_fused() && dtype == DType::F16;
    let special = parameters.special && !is_stored_narrow;
    let product = |shape: &[usize]| shape.iter().product::<usize>();
    let (first, second, shape, depth) = match part {
        Part::InputGradient => (&y, &weight, &x, weight[0] * product(&weight[2..])),
        Part::WeightGradient => (&x, &y, &weight, y[0] * product(&y[2..])),
        _ => (&x, &weight, &y, product(&weight[1..])),
    };
    let mut inputs = vec![draw(first, &place(0), special), draw(second, &place(1), false)];
    match part {
        Part::Packed => {
            let role = Role::Convolution { groups: problem.groups };
            let weight = inputs.remove(1);
            inputs.push(weight.prepared(role));
        }
        Part::Blocks(block) => {
            let numbers = &mut Numbers::new(parameters.seed ^ 1);
            inputs[1] = Operand::blocks(&weight, block, numbers);
        }
        _ => {}
    }
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
        _ if part.is_fused() => {
            // What others make of infinity is not defined everywhere.
            let all = if special {
                &[Activation::Identity, Activation::Relu][..]
            } else {
                &Activation::ALL
            };
            let activation = all[draw_below(numbers, all.len())];
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
        Part::InputGradient => {
            Case::new(ConvolutionInputGradient { problem }, inputs, output, tolerance, scale)
        }
        Part::WeightGradient => {
            Case::new(ConvolutionWeightGradient { problem }, inputs, output, tolerance, scale)
        }
        _ => Case::new(problem, inputs, output, tolerance, scale),
    }
}

/// A convolution of bytes. Factors are such that few results saturate.
fn quantized(packed: bool, dtype: DType, drawn: &Problem, parameters: &CaseParameters) -> Case {
    let numbers = &mut Numbers::new(parameters.seed ^ 2);
    let Problem { problem, x, weight, y } = drawn;
    let place = |index: usize| Arrangement {
        broadcast: 0,
        missing_axes: 0,
        ..parameters.inputs[index].clone()
    };
    let zero = |numbers: &mut Numbers| {
        numbers.below(256) as i32 - if dtype == DType::I8 { 128 } else { 0 }
    };
    let (input_zero, output_zero) = (zero(numbers), zero(numbers));
    let relu = numbers.below(2) == 1;
    let op = QuantizedConvolution { problem: *problem, input_zero, output_zero, relu };
    let mut draw = |shape: &[usize], place: &Arrangement, dtype: DType| {
        Operand::input(shape, place, dtype, Domain::Any, false, numbers)
    };
    let in_line =
        Arrangement { gap: place(2).gap, offset: place(2).offset, ..Arrangement::default() };
    let mut inputs = vec![draw(x, &place(0), dtype), draw(weight, &place(1), DType::I8)];
    if packed {
        let weight = inputs.remove(1);
        inputs.push(weight.prepared(Role::Convolution { groups: problem.groups }));
    }
    let mut factors = draw(&[weight[0]], &in_line, DType::F32);
    let depth = weight[1..].iter().product::<usize>().max(1) as f64;
    for factor in &mut factors.contents {
        *factor = f64::from((*factor / (4000.0 * depth.sqrt())) as f32);
    }
    inputs.push(factors);
    if parameters.seed.is_multiple_of(3) {
        inputs.push(draw(&[weight[0]], &in_line, DType::I32));
    }
    let output = Operand::output(y, &parameters.output, dtype, numbers);
    Case::new(op, inputs, output, Tolerance::Exact, Vec::new())
}
