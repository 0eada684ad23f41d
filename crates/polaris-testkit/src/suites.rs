//! The suites: for each operation, the cases that parameters stand for.

use polaris_core::{DType, MAX_RANK};
use polaris_ops::copy::Copy;
use polaris_ops::elementwise::Elementwise;
use polaris_ops::fill::Fill;
use polaris_ops::random::Random;
use polaris_ops::reduce::Reduce;
use polaris_ops::{Binary, Distribution, Function, Reduction, Ternary, Unary};
use proptest::prelude::*;

use crate::case::Case;
use crate::operand::{Arrangement, Operand};
use crate::tolerance::Tolerance;
use crate::values::{Domain, Numbers};

/// What a case is made of. The same parameters mean a case of every operation.
#[derive(Debug, Clone)]
pub struct CaseParameters {
    /// The shape of the output, or of a reduction's input.
    pub shape: Vec<usize>,
    /// Where the inputs lie.
    pub inputs: [Arrangement; 3],
    /// Where the output lies.
    pub output: Arrangement,
    /// Axes of a reduction, as a bit mask.
    pub axes: u8,
    /// Whether NaN, infinities and extreme values occur.
    pub special: bool,
    /// Draws the values.
    pub seed: u64,
}

/// The cases of one operation.
pub struct Suite {
    /// The operation's name.
    pub name: &'static str,
    /// How many variants (functions, types) there are.
    pub variants: fn() -> usize,
    /// Whether a variant is one that even a short check should not leave out.
    pub is_essential: fn(usize) -> bool,
    /// Whether a full check takes a variant with a layout, by its place in
    /// [`CaseParameters::fixed`]. Each program costs a build.
    pub takes: fn(usize, usize) -> bool,
    /// The case of a variant and parameters.
    pub case: fn(usize, &CaseParameters) -> Case,
}

/// The kernel that a name in quarantine stands for: the name itself, `<op>_<dtype>_<variant>`,
/// without what is open-ended in it, the expression of a fused operation and the activation of a
/// fused convolution.
pub fn kernel_of(name: &str) -> String {
    let parts: Vec<&str> = name.split('_').collect();
    match parts.as_slice() {
        ["fused", "convolution", dtype, variant, ..] => {
            format!("fused_convolution_{dtype}_{variant}")
        }
        ["fused", _expression, dtype, variant] => format!("fused_{dtype}_{variant}"),
        _ => name.to_owned(),
    }
}

/// Every operation's suite.
pub const SUITES: &[Suite] = &[
    Suite {
        name: "elementwise",
        variants: || elementwise_variants().len(),
        is_essential: |variant| elementwise_variants()[variant].1 == DType::F32,
        takes: |_, _| true,
        case: elementwise,
    },
    Suite {
        name: "copy",
        variants: || copy_variants().len(),
        is_essential: |variant| copy_variants()[variant].0 == copy_variants()[variant].1,
        takes: |_, _| true,
        case: copy,
    },
    Suite {
        name: "fill",
        variants: || DType::ALL.len(),
        is_essential: |_| true,
        takes: |_, _| true,
        case: fill,
    },
    Suite {
        name: "random",
        variants: || random_variants().len(),
        is_essential: |variant| random_variants()[variant].1 == DType::F32,
        takes: |_, _| true,
        case: random,
    },
    Suite {
        name: "reduce",
        variants: || reduce_variants().len(),
        is_essential: |variant| reduce_variants()[variant].1 == DType::F32,
        takes: |_, _| true,
        case: reduce,
    },
    Suite {
        name: "softmax",
        variants: || crate::softmax::variants().len(),
        is_essential: crate::softmax::is_essential,
        takes: |_, _| true,
        case: crate::softmax::case,
    },
    Suite {
        name: "norm",
        variants: crate::norm::count,
        is_essential: crate::norm::is_essential,
        takes: |_, _| true,
        case: crate::norm::case,
    },
    Suite {
        name: "fused",
        variants: crate::fused::count,
        is_essential: crate::fused::is_essential,
        takes: |_, _| true,
        case: crate::fused::case,
    },
    Suite {
        name: "batch_norm",
        variants: crate::batch_norm::count,
        is_essential: crate::batch_norm::is_essential,
        takes: |_, _| true,
        case: crate::batch_norm::case,
    },
    Suite {
        name: "pool",
        variants: crate::pool::count,
        is_essential: crate::pool::is_essential,
        takes: |_, _| true,
        case: crate::pool::case,
    },
    Suite {
        name: "cross_entropy",
        variants: crate::cross_entropy::count,
        is_essential: crate::cross_entropy::is_essential,
        takes: |_, _| true,
        case: crate::cross_entropy::case,
    },
    Suite {
        name: "indexing",
        variants: || crate::indexing::VARIANTS.len(),
        is_essential: crate::indexing::is_essential,
        takes: |_, _| true,
        case: crate::indexing::case,
    },
    Suite {
        name: "pad",
        variants: || crate::pad::VARIANTS.len(),
        is_essential: crate::pad::is_essential,
        takes: |_, _| true,
        case: crate::pad::case,
    },
    Suite {
        name: "scan",
        variants: || crate::scan::VARIANTS.len(),
        is_essential: crate::scan::is_essential,
        takes: |_, _| true,
        case: crate::scan::case,
    },
    Suite {
        name: "sort",
        variants: || crate::sort::VARIANTS.len(),
        is_essential: crate::sort::is_essential,
        takes: |_, _| true,
        case: crate::sort::case,
    },
    Suite {
        name: "attention",
        variants: || crate::attention::VARIANTS.len(),
        is_essential: crate::attention::is_essential,
        takes: |_, _| true,
        case: crate::attention::case,
    },
    Suite {
        name: "conv",
        variants: crate::conv::count,
        is_essential: crate::conv::is_essential,
        takes: |_, _| true,
        case: crate::conv::case,
    },
    Suite {
        name: "matmul",
        variants: || crate::matmul::VARIANTS.len(),
        is_essential: crate::matmul::is_essential,
        takes: crate::matmul::takes,
        case: crate::matmul::case,
    },
];

impl CaseParameters {
    /// A fixed set that meets every kind of kernel: dense and odd, repeated values, transposed,
    /// padded at odd offsets, long in one direction, and hardly there at all.
    pub fn fixed() -> Vec<Self> {
        let dense = Arrangement::default();
        let new = |shape: &[usize], axes: u8, seed: u64| Self {
            shape: shape.to_vec(),
            inputs: [dense.clone(), dense.clone(), dense.clone()],
            output: dense.clone(),
            axes,
            special: false,
            seed,
        };
        let mut all = vec![
            Self { special: true, ..new(&[1031], 1, 1) },
            new(&[3, 5, 70], 0b100, 2),
            new(&[600, 40], 0b01, 3),
            new(&[2, 0, 3], 0b001, 4),
            new(&[], 0, 5),
            new(&[5000], 1, 6),
        ];
        let mut repeated = new(&[7, 33], 0b11, 7);
        repeated.inputs[1] = Arrangement { missing_axes: 1, ..dense.clone() };
        repeated.inputs[2] = Arrangement { broadcast: 0b11, ..dense.clone() };
        let mut transposed = Self { special: true, ..new(&[37, 65], 0b10, 8) };
        transposed.inputs[0].transposed = true;
        let mut scattered = new(&[4, 9, 35], 0b101, 9);
        scattered.inputs[0] = Arrangement { offset: 3, gap: 1, ..dense.clone() };
        scattered.inputs[1] = Arrangement { broadcast: 0b010, padding: 2, ..dense.clone() };
        scattered.inputs[2] = Arrangement { offset: 1, transposed: true, ..dense.clone() };
        scattered.output = Arrangement { offset: 5, padding: 3, transposed: true, ..dense.clone() };
        all.extend([repeated, transposed, scattered]);
        all
    }

    /// Arbitrary parameters, for property tests. Small dimensions, since borders are where things
    /// go wrong, with now and then a long one.
    pub fn arbitrary() -> impl Strategy<Value = Self> {
        let dim = prop_oneof![8 => 1usize..9, 3 => 10usize..70, 1 => Just(0), 1 => 100usize..400];
        let shape = prop::collection::vec(dim, 0..5).prop_map(|mut shape| {
            while shape.iter().product::<usize>() > 6_000 {
                shape.pop();
            }
            shape
        });
        let flag = || prop::bool::weighted(0.3);
        let small = || prop_oneof![3 => Just(0usize), 1 => 1usize..6];
        let arrangement = || {
            (small(), flag(), small(), small()).prop_map(|(offset, transposed, gap, padding)| {
                Arrangement {
                    offset,
                    transposed,
                    gap: gap.min(2),
                    padding,
                    ..Arrangement::default()
                }
            })
        };
        let input =
            move || {
                (
                    arrangement(),
                    prop_oneof![2 => Just(0u8), 1 => any::<u8>()],
                    prop_oneof![4 => Just(0usize), 1 => 1usize..3],
                )
                    .prop_map(|(arrangement, broadcast, missing_axes)| {
                        Arrangement { broadcast, missing_axes, ..arrangement }
                    })
            };
        (
            shape,
            [input(), input(), input()],
            arrangement(),
            any::<u8>(),
            any::<bool>(),
            any::<u64>(),
        )
            .prop_map(|(shape, inputs, output, axes, special, seed)| Self {
                shape,
                inputs,
                output,
                axes,
                special,
                seed,
            })
    }
}

fn elementwise_variants() -> Vec<(Function, DType)> {
    let of_f32 = Function::all().filter(|f| f.is_defined_for(DType::F32)).map(|f| (f, DType::F32));
    let logic = [Binary::And, Binary::Or, Binary::Xor].map(|f| (Function::Binary(f), DType::Bool));
    let mut variants: Vec<(Function, DType)> = of_f32.chain(logic).collect();
    let typical: [Function; 9] = [
        Binary::Add.into(),
        Binary::Mul.into(),
        Binary::Div.into(),
        Binary::Maximum.into(),
        Binary::Less.into(),
        Unary::Neg.into(),
        Unary::Exp.into(),
        Unary::Not.into(),
        Ternary::Where.into(),
    ];
    for dtype in DType::ALL.into_iter().skip(1) {
        variants
            .extend(typical.into_iter().filter(|f| f.is_defined_for(dtype)).map(|f| (f, dtype)));
    }
    variants
}

fn elementwise(variant: usize, parameters: &CaseParameters) -> Case {
    let (function, dtype) = elementwise_variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let domain = |index: usize| match (function, index) {
        (Function::Unary(Unary::Sqrt | Unary::Log | Unary::Rsqrt), _) => Domain::Positive,
        (Function::Binary(Binary::Pow), 0) => Domain::Positive,
        (Function::Unary(Unary::Reciprocal), _) | (Function::Binary(Binary::Div), 1) => {
            Domain::NonZero
        }
        _ => Domain::Any,
    };
    // Where a device may answer what it likes, there is nothing to compare: powers and angles of
    // infinities, and GELU of minus infinity, which is infinity times a rounded zero.
    let special = parameters.special
        && !matches!(
            function,
            Function::Binary(Binary::Pow)
                | Function::Unary(Unary::Sin | Unary::Cos | Unary::GeluErf | Unary::GeluTanh)
                | Function::Unary(Unary::GeluErfSlope)
        );
    let inputs: Vec<Operand> = (0..function.arity())
        .map(|index| {
            let dtype = function.input_dtype(index, dtype);
            Operand::input(
                &parameters.shape,
                &parameters.inputs[index],
                dtype,
                domain(index),
                special,
                numbers,
            )
        })
        .collect();
    let output = Operand::output(
        &parameters.shape,
        &parameters.output,
        function.output_dtype(dtype),
        numbers,
    );
    let tolerance = match function {
        _ if function.is_predicate() => Tolerance::Exact,
        Function::Unary(unary) => match unary {
            Unary::Neg
            | Unary::Abs
            | Unary::Sign
            | Unary::Relu
            | Unary::Floor
            | Unary::Ceil
            | Unary::Round => Tolerance::Exact,
            Unary::Square => Tolerance::Arithmetic,
            Unary::Sqrt | Unary::Reciprocal => Tolerance::Division,
            _ => Tolerance::Elementary,
        },
        Function::Binary(Binary::Maximum | Binary::Minimum) => Tolerance::Exact,
        Function::Binary(Binary::Div) => Tolerance::Division,
        Function::Binary(Binary::Pow) => Tolerance::Elementary,
        Function::Ternary(Ternary::Where | Ternary::Clamp) => Tolerance::Exact,
        _ => Tolerance::Arithmetic,
    };
    let scale = cancellation_scale(function, &inputs, &output);
    Case::new(Elementwise { function }, inputs, output, tolerance, scale)
}

/// Where a result comes from the difference of larger numbers, its error scales with those.
fn cancellation_scale(function: Function, inputs: &[Operand], output: &Operand) -> Vec<f64> {
    let largest = inputs
        .iter()
        .flat_map(|input| input.contents.iter().copied())
        .filter(|value| value.is_finite())
        .fold(1.0f64, |largest, value| largest.max(value.abs()));
    let scale = match function {
        Function::Unary(Unary::Sin | Unary::Cos | Unary::GeluErfSlope) => 1.0,
        Function::Unary(Unary::GeluErf | Unary::GeluTanh) => largest,
        Function::Ternary(Ternary::MulAdd) => largest * largest,
        _ => return Vec::new(),
    };
    vec![scale; output.layout.elements()]
}

fn copy_variants() -> Vec<(DType, DType)> {
    DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|to| (from, to))).collect()
}

fn copy(variant: usize, parameters: &CaseParameters) -> Case {
    let (from, to) = copy_variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let input = Operand::input(
        &parameters.shape,
        &parameters.inputs[0],
        from,
        Domain::Any,
        parameters.special,
        numbers,
    );
    let output = Operand::output(&parameters.shape, &parameters.output, to, numbers);
    Case::new(Copy, vec![input], output, Tolerance::Exact, Vec::new())
}

fn fill(variant: usize, parameters: &CaseParameters) -> Case {
    let dtype = DType::ALL[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let output = Operand::output(&parameters.shape, &parameters.output, dtype, numbers);
    let value = if parameters.special { f64::NAN } else { numbers.between(-100.0, 100.0) };
    Case::new(Fill { value }, Vec::new(), output, Tolerance::Exact, Vec::new())
}

fn random_variants() -> Vec<(Distribution, DType)> {
    let uniform = Distribution::Uniform { low: -2.0, high: 5.0 };
    let normal = Distribution::Normal { mean: 1.0, deviation: 3.0 };
    let of = |dtype: DType| match dtype.is_float() {
        true => vec![(uniform, dtype), (normal, dtype)],
        false => vec![(Distribution::Bits, dtype)],
    };
    DType::ALL.into_iter().flat_map(of).collect()
}

fn random(variant: usize, parameters: &CaseParameters) -> Case {
    let (distribution, dtype) = random_variants()[variant];
    let output = Operand::output(
        &parameters.shape,
        &parameters.output,
        dtype,
        &mut Numbers::new(parameters.seed),
    );
    let tolerance = match distribution {
        Distribution::Normal { .. } => Tolerance::Absolute(2e-5),
        // Rounded twice where the reference rounds once.
        Distribution::Uniform { .. } => Tolerance::Arithmetic,
        Distribution::Bits => Tolerance::Exact,
    };
    let scale = vec![8.0; output.layout.elements()];
    let op = Random { distribution, seed: parameters.seed, offset: parameters.seed % 1000 * 4 };
    Case::new(op, Vec::new(), output, tolerance, scale)
}

fn reduce_variants() -> Vec<(Reduction, DType)> {
    let of = |dtype: DType| Reduction::ALL.map(|reduction| (reduction, dtype));
    let defined =
        |&(reduction, dtype): &(Reduction, DType)| reduction != Reduction::Mean || dtype.is_float();
    DType::ALL.into_iter().flat_map(of).filter(defined).collect()
}

fn reduce(variant: usize, parameters: &CaseParameters) -> Case {
    let (reduction, dtype) = reduce_variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let mut shape = parameters.shape.clone();
    if !matches!(reduction, Reduction::Sum) {
        // Of no elements there is no largest, and the mean is NaN by definition.
        shape.iter_mut().for_each(|dim| *dim = (*dim).max(1));
    }
    let arrangement = Arrangement { broadcast: 0, missing_axes: 0, ..parameters.inputs[0].clone() };
    let input =
        Operand::input(&shape, &arrangement, dtype, Domain::Any, parameters.special, numbers);
    let mut axes = [false; MAX_RANK];
    let mut kept = Vec::new();
    for (axis, &dim) in shape.iter().enumerate() {
        axes[axis] = parameters.axes >> axis & 1 == 1;
        if !axes[axis] {
            kept.push(dim);
        }
    }
    let output = Operand::output(&kept, &parameters.output, reduction.output_dtype(dtype), numbers);
    let tolerance = match reduction {
        Reduction::Sum | Reduction::Mean => Tolerance::Accumulated,
        _ => Tolerance::Exact,
    };
    // The error of a sum scales with the magnitudes it is made of, not with what is left.
    let finite =
        || input.contents.iter().filter(|value| value.is_finite()).map(|value| value.abs());
    let average = finite().sum::<f64>() / finite().count().max(1) as f64;
    let count =
        shape.iter().product::<usize>() as f64 / kept.iter().product::<usize>().max(1) as f64;
    let scale = if reduction == Reduction::Mean { average } else { average * count };
    let scale = vec![scale; output.layout.elements()];
    Case::new(Reduce { reduction, axes }, vec![input], output, tolerance, scale)
}
