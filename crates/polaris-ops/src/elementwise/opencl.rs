//! Elementwise functions on OpenCL devices.

use polaris_core::{Collapsed, DType, Layout};
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, EXACT_DIVISION, OpenClDevice, ProgramSource};

use super::{Binary, Function, Ternary, Unary};
use crate::opencl::{
    ELEMENT, Enqueue, compute_type, dtype_code, needs_wide_index, pass_array, pass_axes, work_group,
};
use crate::{Array, Result};

/// The kernels of elementwise functions.
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
}

const PARTS: &[&str] = &[ELEMENT, include_str!("elementwise.cl")];

/// What one program is specialised for.
#[derive(Debug, Clone, Copy)]
struct Config {
    function: Function,
    kernel: Kernel,
    dtype: DType,
    wide: bool,
    work_group: usize,
}

impl Config {
    fn key(&self) -> u64 {
        let function = match self.function {
            Function::Unary(f) => f as u64,
            Function::Binary(f) => 64 + f as u64,
            Function::Ternary(f) => 128 + f as u64,
        };
        let flags = u64::from(self.wide) << 1 | self.kernel as u64;
        ((function << 8 | dtype_code(self.dtype)) << 8 | flags) << 16 | self.work_group as u64
    }

    fn source(&self) -> ProgramSource {
        let function = self.function;
        // Unused inputs are passed the first one.
        let input = |index: usize| {
            let index = if index < function.arity() { index } else { 0 };
            function.input_dtype(index, self.dtype).name()
        };
        let defines = Defines::new()
            .code("APPLY(a, b, c)", format!("({})", expression(function, self.dtype)))
            .code("C", compute_type(self.dtype))
            .code("A", input(0))
            .code("B_", input(1))
            .code("C_", input(2))
            .code("OUT", function.output_dtype(self.dtype).name())
            .code("INDEX", if self.wide { "ulong" } else { "uint" })
            .number("WORK_GROUP", self.work_group as i64)
            .number("VECTOR", self.kernel == Kernel::Vector);
        let name =
            format!("elementwise.cl {}_{}_{}", function.name(), self.dtype, self.kernel.name());
        let wide = if self.wide { "_wide" } else { "" };
        // Memory is what these wait for: rounding correctly takes no longer.
        ProgramSource { name: name + wide, parts: PARTS, defines, options: EXACT_DIVISION }
    }
}

/// The function as an expression of OpenCL C over `a`, `b` and `c` of the compute type `C`.
fn expression(function: Function, dtype: DType) -> &'static str {
    if dtype.is_float() { float_expression(function) } else { integer_expression(function) }
}

/// A function of one number `a`, as an expression of the compute type `C`.
pub(crate) fn unary_expression(function: Unary) -> &'static str {
    float_expression(Function::Unary(function))
}

/// A function of numbers `a`, `b` and `c`, as an expression of the floating-point compute type `C`.
/// Truth values are 1 and 0 of that type.
pub(crate) fn float_expression(function: Function) -> &'static str {
    match function {
        Function::Unary(unary) => match unary {
            Unary::Neg => "-(a)",
            Unary::Abs => "fabs(a)",
            Unary::Sign => "(a) > 0 ? (C)1 : ((a) < 0 ? (C)-1 : (a))",
            Unary::Square => "(a) * (a)",
            Unary::Relu => "(a) < 0 ? (C)0 : (a)",
            Unary::Sqrt => "sqrt(a)",
            Unary::Rsqrt => "(C)1 / sqrt(a)",
            Unary::Reciprocal => "(C)1 / (a)",
            Unary::Exp => "exp(a)",
            Unary::Log => "log(a)",
            Unary::Sin => "sin(a)",
            Unary::Cos => "cos(a)",
            Unary::Tanh => "tanh(a)",
            Unary::Erf => "ERF(C)(a)",
            Unary::Sigmoid => "(C)1 / ((C)1 + exp(-(a)))",
            Unary::Silu => "(a) / ((C)1 + exp(-(a)))",
            Unary::GeluErf => "(a) * NORMAL_CDF(C)(a)",
            Unary::GeluTanh => {
                "(C)0.5 * (a) * ((C)1 + tanh((C)0.79788456080286541 * ((a) + (C)0.044715 * (a) * (a) * (a))))"
            }
            Unary::GeluErfSlope => {
                "NORMAL_CDF(C)(a) + (a) * (C)0.39894228040143268 * exp((C)-0.5 * (a) * (a))"
            }
            Unary::Floor => "floor(a)",
            Unary::Ceil => "ceil(a)",
            Unary::Round => "rint(a)",
            Unary::Not => "(C)((a) == 0)",
        },
        Function::Binary(binary) => match binary {
            Binary::Add => "(a) + (b)",
            Binary::Sub => "(a) - (b)",
            Binary::Mul => "(a) * (b)",
            Binary::Div => "(a) / (b)",
            Binary::Pow => "pow(a, b)",
            Binary::Maximum => "((a) > (b) || isnan(a)) ? (a) : (b)",
            Binary::Minimum => "((a) < (b) || isnan(a)) ? (a) : (b)",
            other => comparison(other),
        },
        Function::Ternary(ternary) => match ternary {
            Ternary::MulAdd => "(a) * (b) + (c)",
            other => choice(other),
        },
    }
}

/// Signed overflow is undefined in OpenCL C, so arithmetic that may wrap is done unsigned.
fn integer_expression(function: Function) -> &'static str {
    match function {
        Function::Unary(unary) => match unary {
            Unary::Neg => "(C)(0 - (ulong)(a))",
            Unary::Abs => "(a) < 0 ? (C)(0 - (ulong)(a)) : (a)",
            Unary::Sign => "(C)((a) > 0) - (C)((a) < 0)",
            Unary::Square => "(C)((ulong)(a) * (ulong)(a))",
            Unary::Relu => "(a) < 0 ? (C)0 : (a)",
            Unary::Not => "(C)((a) == 0)",
            _ => unreachable!("{} should be checked to be on floats", unary.name()),
        },
        Function::Binary(binary) => match binary {
            Binary::Add => "(C)((ulong)(a) + (ulong)(b))",
            Binary::Sub => "(C)((ulong)(a) - (ulong)(b))",
            Binary::Mul => "(C)((ulong)(a) * (ulong)(b))",
            // The smallest number divided by -1 wraps to itself; hardware may trap on it.
            Binary::Div => "(b) == 0 ? (C)0 : ((b) == -1 ? (C)(0 - (ulong)(a)) : (a) / (b))",
            Binary::Maximum => "max(a, b)",
            Binary::Minimum => "min(a, b)",
            Binary::Pow => unreachable!("pow should be checked to be on floats"),
            other => comparison(other),
        },
        Function::Ternary(ternary) => match ternary {
            Ternary::MulAdd => "(C)((ulong)(a) * (ulong)(b) + (ulong)(c))",
            other => choice(other),
        },
    }
}

fn comparison(binary: Binary) -> &'static str {
    match binary {
        Binary::Equal => "(C)((a) == (b))",
        Binary::NotEqual => "(C)((a) != (b))",
        Binary::Less => "(C)((a) < (b))",
        Binary::LessEqual => "(C)((a) <= (b))",
        Binary::Greater => "(C)((a) > (b))",
        Binary::GreaterEqual => "(C)((a) >= (b))",
        Binary::And => "(C)((a) != 0 && (b) != 0)",
        Binary::Or => "(C)((a) != 0 || (b) != 0)",
        Binary::Xor => "(C)(((a) != 0) != ((b) != 0))",
        _ => unreachable!("{} should have an expression of its own", binary.name()),
    }
}

fn choice(ternary: Ternary) -> &'static str {
    match ternary {
        Ternary::Where => "(a) != 0 ? (b) : (c)",
        Ternary::Clamp => "(a) < (b) ? (b) : ((a) > (c) ? (c) : (a))",
        Ternary::MulAdd => unreachable!("mul_add should have an expression of its own"),
    }
}

pub fn supports(kernel: Kernel, device: &OpenClDevice, inputs: &[&Array], output: &Array) -> bool {
    let types = inputs.iter().all(|input| device.capabilities().supports(input.dtype()));
    types && (kernel == Kernel::Strided || vector_layout(inputs, output).is_some())
}

/// Which inputs are single values, as bits, if everything else is dense and aligned to four elements.
pub(crate) fn vector_layout(inputs: &[&Array], output: &Array) -> Option<u32> {
    let first_element = |array: &Array| {
        array.buffer().byte_offset() / array.dtype().size() + array.layout().offset()
    };
    let dense = |array: &Array| {
        array.layout().is_contiguous()
            && array.shape().elements() == output.elements()
            && first_element(array).is_multiple_of(4)
    };
    let mut ones = 0;
    for (index, input) in inputs.iter().enumerate() {
        let one = input.elements() == 1 && output.elements() > 1;
        if !one && !dense(input) {
            return None;
        }
        ones |= u32::from(one) << index;
    }
    dense(output).then_some(ones)
}

pub fn run(
    function: Function,
    device: &OpenClDevice,
    kernel: Kernel,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let shape = output.shape();
    let mut layouts = [Layout::broadcast_to(inputs[0].layout(), function.name(), shape)?; 3];
    for (layout, input) in layouts.iter_mut().zip(inputs) {
        *layout = input.layout().broadcast_to(function.name(), shape)?;
    }
    let space = Collapsed::new(shape, [output.layout(), &layouts[0], &layouts[1], &layouts[2]]);
    let config = Config {
        function,
        kernel,
        dtype: inputs[inputs.len() - 1].dtype(),
        wide: kernel == Kernel::Strided && needs_wide_index(&space),
        work_group: work_group(device),
    };
    let entry = match kernel {
        Kernel::Vector => "elementwise_vector",
        Kernel::Strided => "elementwise_strided",
    };
    let built = device.kernel(("elementwise", config.key()), entry, || config.source())?;
    let elements = output.elements();
    let mut launch = device.launch(&built).value(elements as u64);
    let items = match kernel {
        Kernel::Vector => {
            launch = launch.value(vector_layout(inputs, output).unwrap_or_default());
            elements.div_ceil(4)
        }
        Kernel::Strided => {
            launch = pass_axes(launch.value(space.rank() as u32), space.dims(), config.wide);
            for operand in 0..4 {
                launch = pass_axes(launch, space.strides(operand), config.wide);
            }
            elements
        }
    };
    launch = pass_array(launch, output);
    for index in 0..3 {
        launch = pass_array(launch, inputs.get(index).unwrap_or(&inputs[0]));
    }
    launch.enqueue(&[items], &[config.work_group])
}

/// The configurations that stand for all: each function in `f32`, and each type in `add`.
pub(crate) fn shipped_programs() -> Vec<ProgramSource> {
    let mut configs = Vec::new();
    for kernel in [Kernel::Vector, Kernel::Strided] {
        let config =
            |function, dtype, wide| Config { function, kernel, dtype, wide, work_group: 256 };
        for function in Function::all() {
            let dtype = if function.is_defined_for(DType::F32) { DType::F32 } else { DType::Bool };
            configs.push(config(function, dtype, false));
        }
        for dtype in DType::ALL {
            let function = if dtype == DType::Bool { Binary::Equal } else { Binary::Add };
            configs.push(config(function.into(), dtype, true));
        }
    }
    configs.iter().map(Config::source).collect()
}
