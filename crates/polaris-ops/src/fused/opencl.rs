//! Expressions on OpenCL devices: one program for each structure and each set of types.

use polaris_core::{Collapsed, DType, MAX_RANK};
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, EXACT_DIVISION, Launch, OpenClDevice, ProgramSource};

use super::expression::{Expression, MAX_INPUTS, Node};
use super::{Builder, NAME, Value};
use crate::elementwise::{opencl_float_expression, vector_layout};
use crate::opencl::{
    ELEMENT, Enqueue, compute_type, dtype_code, needs_wide_index, pass_array, pass_axes, work_group,
};
use crate::{Array, Binary, Result, Ternary, Unary};

/// The kernels of expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// Dense arrays and single values, four elements at a time.
    Vector,
    /// Any layout, one element at a time.
    Strided,
}

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Vector => "vector",
            Self::Strided => "strided",
        }
    }

    const fn entry(self) -> &'static str {
        match self {
            Self::Vector => "fused_vector",
            Self::Strided => "fused_strided",
        }
    }
}

const PARTS: &[&str] = &[ELEMENT, include_str!("fused.cl")];

/// The parameters of the source for the types of the inputs.
const INPUT_TYPES: [&str; MAX_INPUTS] = ["T0", "T1", "T2", "T3", "T4", "T5", "T6", "T7"];

/// Few enough that lengths and strides of all arrays stay in the scalar registers of a GPU.
const FEW_AXES: usize = 4;

/// What one program is specialised for. Its scalars are arguments.
#[derive(Clone, Copy)]
struct Config<'a> {
    expression: &'a Expression,
    inputs: &'a [DType],
    output: DType,
    kernel: Kernel,
    /// Whether there may be more than [`FEW_AXES`].
    many_axes: bool,
    wide: bool,
    work_group: usize,
}

impl Config<'_> {
    fn key(&self) -> u64 {
        let dtypes = self
            .inputs
            .iter()
            .fold(self.expression.fingerprint(), |sum, &dtype| sum.with(dtype_code(dtype)));
        let flags = [self.many_axes, self.wide, self.kernel == Kernel::Vector];
        let flags = flags.iter().fold(0, |bits, &flag| bits << 1 | u64::from(flag));
        dtypes.with(dtype_code(self.output)).with(flags).with(self.work_group as u64).0
    }

    fn computed(&self) -> DType {
        let is_double = self.inputs.contains(&DType::F64) || self.output == DType::F64;
        if is_double { DType::F64 } else { DType::F32 }
    }

    /// Passes lengths or strides.
    fn pass<'a>(&self, launch: Launch<'a>, values: &[usize]) -> Launch<'a> {
        if self.many_axes {
            return pass_axes(launch, values, self.wide);
        }
        let mut padded = [1; FEW_AXES];
        padded[..values.len()].copy_from_slice(values);
        match self.wide {
            true => launch.value(padded.map(|value| value as u64)),
            false => launch.value(padded.map(|value| value as u32)),
        }
    }

    fn source(&self) -> ProgramSource {
        let expression = self.expression;
        let scalars = 0..expression.scalars().len();
        let scalars: String = scalars.map(|index| format!(", C c{index}")).collect();
        let (body, result) = body(expression);
        let mut defines = Defines::new()
            .code("FOR_EACH_INPUT", format!("FOR_EACH_{}", self.inputs.len()))
            .code("OUT", self.output.name())
            .code("C", compute_type(self.computed()))
            .code("SCALARS", scalars)
            .code("BODY", body)
            .code("RESULT", result)
            .number("AXES", if self.many_axes { MAX_RANK as i64 } else { FEW_AXES as i64 })
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64)
            .number("VECTOR", self.kernel == Kernel::Vector);
        for (name, dtype) in INPUT_TYPES.into_iter().zip(self.inputs) {
            defines = defines.code(name, dtype.name());
        }
        let result = match expression.result() {
            Node::Apply(function, _) => function.name(),
            _ => "leaf",
        };
        let (dtype, kernel) = (self.output, self.kernel.name());
        let fingerprint = expression.fingerprint().0;
        let name = format!("{NAME}.cl {result}_{fingerprint:016x}_{dtype}_{kernel}");
        let axes = if self.many_axes { "_axes" } else { "" };
        let wide = if self.wide { "_wide" } else { "" };
        // One function alone or in a chain gives the same result.
        let (name, options) = (name + axes + wide, EXACT_DIVISION);
        ProgramSource { name, parts: PARTS, defines, options }
    }
}

/// The statements that compute an expression, and the name of its result.
fn body(expression: &Expression) -> (String, String) {
    let name = |at: usize| match expression.nodes()[at] {
        Node::Input(index) => format!("x{index}"),
        Node::Scalar(index) => format!("c{index}"),
        Node::Constant(bits) => number(f64::from_bits(bits)),
        Node::Apply(..) => format!("v{at}"),
    };
    let mut statements = String::new();
    for (at, node) in expression.nodes().iter().enumerate() {
        if let Node::Apply(function, arguments) = *node {
            let value = with_arguments(opencl_float_expression(function), arguments.map(name));
            statements.push_str(&format!("const C v{at} = {value}; "));
        }
    }
    (statements, name(expression.nodes().len() - 1))
}

/// A number of the compute type. Rust writes the shortest text that means the same number.
fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "(C)NAN".to_owned(),
        f64::INFINITY => "(C)INFINITY".to_owned(),
        f64::NEG_INFINITY => "(C)-INFINITY".to_owned(),
        value => format!("(C){value:e}"),
    }
}

/// An expression over `a`, `b` and `c` with these names in their places.
fn with_arguments(expression: &str, names: [String; 3]) -> String {
    let is_part_of_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut text = String::new();
    let mut rest = expression;
    while !rest.is_empty() {
        let length = rest.find(|c| !is_part_of_word(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        text.push_str(match word {
            "a" => &names[0],
            "b" => &names[1],
            "c" => &names[2],
            other => other,
        });
        let (between, after) = after.split_at(after.find(is_part_of_word).unwrap_or(after.len()));
        text.push_str(between);
        rest = after;
    }
    text
}

pub fn supports(kernel: Kernel, device: &OpenClDevice, inputs: &[&Array], output: &Array) -> bool {
    let supported = |array: &Array| device.capabilities().supports(array.dtype());
    inputs.iter().all(|input| supported(input))
        && supported(output)
        && (kernel == Kernel::Strided || vector_layout(inputs, output).is_some())
}

pub fn run(
    expression: &Expression,
    device: &OpenClDevice,
    kernel: Kernel,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let shape = output.shape();
    let mut layouts = [*output.layout(); MAX_INPUTS + 1];
    let mut dtypes = [output.dtype(); MAX_INPUTS];
    for (index, input) in inputs.iter().enumerate() {
        layouts[index + 1] = input.layout().broadcast_to(NAME, shape)?;
        dtypes[index] = input.dtype();
    }
    let space = Collapsed::new(shape, layouts.each_ref());
    let config = Config {
        expression,
        inputs: &dtypes[..inputs.len()],
        output: output.dtype(),
        kernel,
        many_axes: kernel == Kernel::Strided && space.rank() > FEW_AXES,
        wide: kernel == Kernel::Strided && needs_wide_index(&space),
        work_group: work_group(device),
    };
    let built = device.kernel((NAME, config.key()), kernel.entry(), || config.source())?;
    let elements = output.elements();
    let mut launch = device.launch(&built).value(elements as u64);
    let items = match kernel {
        Kernel::Vector => {
            launch = launch.value(vector_layout(inputs, output).unwrap_or_default());
            elements.div_ceil(4)
        }
        Kernel::Strided => {
            launch = config.pass(launch.value(space.rank() as u32), space.dims());
            for operand in 0..=inputs.len() {
                launch = config.pass(launch, space.strides(operand));
            }
            elements
        }
    };
    launch = pass_array(launch, output);
    for input in inputs {
        launch = pass_array(launch, input);
    }
    for &scalar in expression.scalars() {
        launch = match config.computed() {
            DType::F64 => launch.value(scalar),
            _ => launch.value(scalar as f32),
        };
    }
    launch.enqueue(&[items], &[config.work_group])
}

/// Expressions that stand for all: an activation of a scaled array, the gradients of the activations
/// with the most values at once, a choice by a mask, a step of Adam, and as many inputs as there may
/// be.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    use DType::{BF16, Bool, F16, F32, F64};
    let finished = |build: &Builder, value: Value<'_>| {
        build.finish(value).expect("an expression of the list should be small")
    };
    let activation = |function: Unary| {
        let build = Builder::new(3);
        let [a, x, b] = build.inputs();
        finished(&build, (a * x + b).unary(function))
    };
    let gradient = |expression: Expression| {
        expression.gradient(1).expect("a gradient of the list should be small")
    };
    let choice = {
        let build = Builder::new(3);
        let [mask, x, y] = build.inputs();
        let largest = x.binary(Binary::Maximum, y).ternary(Ternary::Clamp, -1.0, 1.0);
        finished(&build, mask.ternary(Ternary::Where, largest, x))
    };
    let full = {
        let build = Builder::new(MAX_INPUTS);
        let values = (0..MAX_INPUTS).map(|index| build.input(index) * build.scalar(1.0));
        let sum = values.reduce(|sum, value| sum + value);
        finished(&build, sum.expect("there should be an input"))
    };
    let forms: [(Expression, &[DType], DType); 9] = [
        (activation(Unary::GeluErf), &[F32; 3], F32),
        (activation(Unary::GeluErf), &[F16; 3], F16),
        (activation(Unary::Tanh), &[BF16, F32, BF16], BF16),
        (gradient(activation(Unary::GeluErf)), &[F32; 4], F32),
        (gradient(activation(Unary::GeluTanh)), &[F32; 4], F32),
        (gradient(activation(Unary::Silu)), &[F64; 4], F64),
        (choice, &[Bool, F32, F32], F32),
        (adam(), &[F32; 4], F32),
        (full, &[F32; MAX_INPUTS], F32),
    ];
    let mut programs = Vec::new();
    for (expression, inputs, output) in &forms {
        let config = Config {
            expression,
            inputs,
            output: *output,
            kernel: Kernel::Vector,
            many_axes: false,
            wide: false,
            work_group: 256,
        };
        programs.push(config.source());
        let strided = Config { kernel: Kernel::Strided, ..config };
        programs.push(strided.source());
        // Arrays that need wide indices fill a card's memory: there are not many of them.
        if inputs.len() < MAX_INPUTS {
            programs.push(Config { wide: true, ..strided }.source());
        }
        if inputs.len() < 4 {
            programs.push(Config { many_axes: true, ..strided }.source());
        }
    }
    programs
}

/// The weights after a step of Adam, from weights, gradient, and the two moments before.
fn adam() -> Expression {
    let build = Builder::new(4);
    let [weight, gradient, mean, square] = build.inputs();
    let [rate, decay, first, second] = [1e-3, 1e-2, 0.9, 0.999].map(|value| build.scalar(value));
    let mean = gradient + first * (mean - gradient);
    let new_square = gradient.unary(Unary::Square);
    let square = new_square + second * (square - new_square);
    let step = mean / (square.unary(Unary::Sqrt) + 1e-8);
    let result = weight - rate * (step + decay * weight);
    build.finish(result).expect("a step of Adam should be small")
}
