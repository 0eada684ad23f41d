//! The matmul problem as plain data: the computation and its arrays.

use polaris_core::DType;

use crate::{Array, Error, Result, Unary};

/// A product of matrices, `epilogue(alpha * A B + beta * C)`. Shapes, transposes, strides and
/// batches are those of the arrays: a transposed matrix is a permuted view.
///
/// The arrays are, in this order and as far as the problem has them: A, B, C (if `beta` is not
/// zero), row scales, column scales, bias, residual. B may be in half precision where A and the result are `f32`: it is
/// read as it is stored.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MatMul {
    /// Factor of the product.
    pub alpha: f64,
    /// Factor of C. With zero there is no C, and nothing is read of it.
    pub beta: f64,
    /// What becomes of each element before it is stored.
    pub epilogue: Epilogue,
    /// How `f32` may be multiplied.
    pub precision: Precision,
}

/// What becomes of each element, in this order: `x` is the product times `alpha` and times the
/// scales of its row and column, plus `beta` times C; then the result is
/// `scale * activation(x + bias) + residual`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Epilogue {
    /// A factor for each row of the result, as quantised operands need it.
    pub row_scales: bool,
    /// A factor for each column of the result.
    pub column_scales: bool,
    /// What is added before the activation.
    pub bias: Option<Bias>,
    /// The activation.
    pub activation: Activation,
    /// A factor after the activation.
    pub scale: f64,
    /// Whether an array of the result's shape (or one that broadcasts to it) is added at the end.
    pub residual: bool,
}

/// Along which axis a bias has its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bias {
    /// One value for each row of the result.
    PerRow,
    /// One value for each column of the result: the bias of a linear layer.
    PerColumn,
}

/// A function of one number.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// The number itself.
    Identity,
    /// `max(x, 0)`.
    Relu,
    /// GELU by the error function.
    GeluErf,
    /// GELU by its approximation with tanh.
    GeluTanh,
    /// `x * sigmoid(x)`.
    Silu,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// The hyperbolic tangent.
    Tanh,
    /// Between two limits; NaN stays NaN.
    Clamp {
        /// The lower limit.
        low: f64,
        /// The upper limit.
        high: f64,
    },
}

impl Activation {
    /// One of each, for checks.
    pub const ALL: [Self; 8] = [
        Self::Identity,
        Self::Relu,
        Self::GeluErf,
        Self::GeluTanh,
        Self::Silu,
        Self::Sigmoid,
        Self::Tanh,
        Self::Clamp { low: -0.5, high: 0.75 },
    ];

    /// The elementwise function that does the same, but for clamping, which takes its limits.
    pub const fn function(self) -> Option<Unary> {
        match self {
            Self::Identity | Self::Clamp { .. } => None,
            Self::Relu => Some(Unary::Relu),
            Self::GeluErf => Some(Unary::GeluErf),
            Self::GeluTanh => Some(Unary::GeluTanh),
            Self::Silu => Some(Unary::Silu),
            Self::Sigmoid => Some(Unary::Sigmoid),
            Self::Tanh => Some(Unary::Tanh),
        }
    }

    /// The limits of a clamp.
    pub(crate) const fn limits(self) -> (f64, f64) {
        match self {
            Self::Clamp { low, high } => (low, high),
            _ => (f64::NEG_INFINITY, f64::INFINITY),
        }
    }

    /// What it keeps numbers between, if it does nothing else. Limits the wrong way round have a meaning
    /// of their own.
    pub(crate) const fn between(self) -> Option<[f64; 2]> {
        match self {
            Self::Identity => Some([f64::NEG_INFINITY, f64::INFINITY]),
            Self::Relu => Some([0.0, f64::INFINITY]),
            Self::Clamp { low, high } if low <= high => Some([low, high]),
            _ => None,
        }
    }

    /// Its name in kernel names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Clamp { .. } => "clamp",
            Self::Relu => "relu",
            Self::GeluErf => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::Silu => "silu",
            Self::Sigmoid => "sigmoid",
            Self::Tanh => "tanh",
        }
    }
}

/// How `f32` numbers are multiplied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// In `f32`.
    #[default]
    Full,
    /// Rounded to eleven significant bits where the device has units for that, and summed in
    /// `f32`; elsewhere as `Full`.
    Tf32,
    /// With a weight in a block format, the other factor is rounded to signed bytes, with a scale for each 32 along k,
    /// where the device multiplies those faster: on the CPU. Elsewhere, and with other weights, as `Full`.
    Int8,
}

impl Default for MatMul {
    fn default() -> Self {
        Self { alpha: 1.0, beta: 0.0, epilogue: Epilogue::default(), precision: Precision::Full }
    }
}

impl Default for Epilogue {
    fn default() -> Self {
        Self {
            row_scales: false,
            column_scales: false,
            bias: None,
            activation: Activation::Identity,
            scale: 1.0,
            residual: false,
        }
    }
}

impl Epilogue {
    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The arrays of a problem by their roles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parts<'a> {
    pub a: &'a Array,
    pub b: &'a Array,
    pub c: Option<&'a Array>,
    pub row_scales: Option<&'a Array>,
    pub column_scales: Option<&'a Array>,
    pub bias: Option<&'a Array>,
    pub residual: Option<&'a Array>,
}

impl<'a> Parts<'a> {
    /// All of them, in the order of the problem.
    pub fn all(&self) -> Vec<&'a Array> {
        let Parts { a, b, c, row_scales, column_scales, bias, residual } = *self;
        [Some(a), Some(b), c, row_scales, column_scales, bias, residual]
            .into_iter()
            .flatten()
            .collect()
    }
}

impl MatMul {
    /// Sorts the arrays by their roles.
    pub(crate) fn parts<'a>(&self, inputs: &[&'a Array]) -> Result<Parts<'a>> {
        let epilogue = &self.epilogue;
        let optional = [
            self.beta != 0.0,
            epilogue.row_scales,
            epilogue.column_scales,
            epilogue.bias.is_some(),
            epilogue.residual,
        ];
        let expected = 2 + optional.iter().filter(|&&is_there| is_there).count();
        if inputs.len() != expected {
            return Err(Error::WrongArity { op: "matmul", expected, found: inputs.len() });
        }
        let mut rest = inputs[2..].iter().copied();
        let [c, row_scales, column_scales, bias, residual] =
            optional.map(|is_there| if is_there { rest.next() } else { None });
        Ok(Parts { a: inputs[0], b: inputs[1], c, row_scales, column_scales, bias, residual })
    }
}

/// The type of results that belongs to types of factors, if they can be multiplied.
pub(crate) fn allows(a: DType, b: DType, output: DType) -> bool {
    use DType::{BF16, F16, F32, F64, I8, I32, U8};
    matches!(
        (a, b, output),
        (F32, F32 | F16 | BF16, F32)
            | (F64, F64, F64)
            | (F16, F16, F16 | F32)
            | (BF16, BF16, BF16 | F32)
            | (I8 | U8, I8, I32 | F32)
    )
}

/// Whether the second factor is widened to the type of the first as it is read: weights in half precision.
pub(crate) const fn widens(a: DType, b: DType) -> bool {
    matches!((a, b), (DType::F32, DType::F16 | DType::BF16))
}

/// The type in which products are summed; scales and bias have it too, but for integers, whose
/// scales and bias are `f32`.
pub(crate) const fn vector_dtype(a: DType) -> DType {
    match a {
        DType::F64 => DType::F64,
        _ => DType::F32,
    }
}
