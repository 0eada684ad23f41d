//! Functions of one, two or three tensors, element by element, with NumPy's broadcasting.

use polaris_core::Shape;
use polaris_ops::fused::{Builder, Expression};
use polaris_ops::{Binary, Function, Ternary, Unary, elementwise, fill};

use crate::{Result, Tensor};

/// Methods for functions of one tensor.
macro_rules! unary {
    ($($(#[$doc:meta])* $method:ident = $function:ident),* $(,)?) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// If the function is not defined for the type, or there is no room.
            pub fn $method(&self) -> Result<Self> {
                self.unary(Unary::$function)
            }
        )*}
    };
}

/// Methods for functions of two tensors, and of a tensor and a number.
macro_rules! binary {
    ($($(#[$doc:meta])* $method:ident $scalar:ident = $function:ident),* $(,)?) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// If shapes, types or devices do not fit, or there is no room.
            pub fn $method(&self, other: &Self) -> Result<Self> {
                self.binary(Binary::$function, other)
            }

            #[doc = concat!("[`", stringify!($method), "`](Self::", stringify!($method),
                            ") with the same number for every element.")]
            ///
            /// # Errors
            /// If the function is not defined for the type, or there is no room.
            pub fn $scalar(&self, value: f64) -> Result<Self> {
                self.with_number(Binary::$function, value)
            }
        )*}
    };
}

/// Methods for functions of two tensors that no gradient flows through.
macro_rules! comparison {
    ($($(#[$doc:meta])* $method:ident = $function:ident),* $(,)?) => {
        impl Tensor {$(
            $(#[$doc])*
            ///
            /// # Errors
            /// If shapes, types or devices do not fit, or there is no room.
            pub fn $method(&self, other: &Self) -> Result<Self> {
                Ok(Self::new(elementwise::binary(Binary::$function, self.array(), other.array())?))
            }
        )*}
    };
}

unary! {
    /// `-x`
    neg = Neg,
    /// `|x|`; its gradient at 0 is 0.
    abs = Abs,
    /// -1, 0 or 1; its gradient is 0.
    sign = Sign,
    /// `x * x`
    square = Square,
    /// `max(x, 0)`; its gradient at 0 is 0.
    relu = Relu,
    /// Square root.
    sqrt = Sqrt,
    /// `1 / sqrt(x)`
    rsqrt = Rsqrt,
    /// `1 / x`
    reciprocal = Reciprocal,
    /// e to the x.
    exp = Exp,
    /// Natural logarithm.
    log = Log,
    /// Sine of radians.
    sin = Sin,
    /// Cosine of radians.
    cos = Cos,
    /// Hyperbolic tangent.
    tanh = Tanh,
    /// The error function.
    erf = Erf,
    /// `1 / (1 + exp(-x))`
    sigmoid = Sigmoid,
    /// `x * sigmoid(x)`
    silu = Silu,
    /// GELU by its definition with the error function.
    gelu = GeluErf,
    /// GELU by its approximation with tanh.
    gelu_tanh = GeluTanh,
    /// The next integer below; its gradient is 0.
    floor = Floor,
    /// The next integer above; its gradient is 0.
    ceil = Ceil,
    /// The nearest integer, halves to even; its gradient is 0.
    round = Round,
    /// Whether it is zero, as `bool`.
    logical_not = Not,
}

binary! {
    /// `a + b`
    add add_scalar = Add,
    /// `a - b`
    sub sub_scalar = Sub,
    /// `a * b`
    mul mul_scalar = Mul,
    /// `a / b`
    div div_scalar = Div,
    /// `a` to the `b`.
    pow pow_scalar = Pow,
    /// The larger; equal ones share the gradient.
    maximum maximum_scalar = Maximum,
    /// The smaller; equal ones share the gradient.
    minimum minimum_scalar = Minimum,
}

comparison! {
    /// `a == b`, as `bool`.
    eq = Equal,
    /// `a != b`, as `bool`.
    ne = NotEqual,
    /// `a < b`, as `bool`.
    lt = Less,
    /// `a <= b`, as `bool`.
    le = LessEqual,
    /// `a > b`, as `bool`.
    gt = Greater,
    /// `a >= b`, as `bool`.
    ge = GreaterEqual,
    /// Both are true.
    logical_and = And,
    /// Either is true.
    logical_or = Or,
    /// Exactly one is true.
    logical_xor = Xor,
}

impl Tensor {
    fn unary(&self, function: Unary) -> Result<Self> {
        let result = Self::new(elementwise::unary(function, self.array())?);
        Self::apply(function.into(), result, &[self])
    }

    fn binary(&self, function: Binary, other: &Self) -> Result<Self> {
        let result = Self::new(elementwise::binary(function, self.array(), other.array())?);
        Self::apply(function.into(), result, &[self, other])
    }

    fn ternary(function: Ternary, a: &Self, b: &Self, c: &Self) -> Result<Self> {
        let result = elementwise::ternary(function, a.array(), b.array(), c.array())?;
        Self::apply(function.into(), Self::new(result), &[a, b, c])
    }

    /// Remembers a result as that of a function.
    fn apply(function: Function, result: Self, inputs: &[&Self]) -> Result<Self> {
        if !inputs.iter().any(|input| input.is_tracked()) || !result.dtype().is_float() {
            return Ok(result);
        }
        Self::record_derivative(function.name(), result, expression(function)?, inputs)
    }

    /// A function of this tensor and a number, in one kernel that serves all numbers.
    fn with_number(&self, function: Binary, value: f64) -> Result<Self> {
        if !self.dtype().is_float() {
            return self.binary(function, &self.scalar_like(value)?);
        }
        let build = Builder::new(1);
        let expression = build.finish(build.input(0).binary(function, build.scalar(value)))?;
        Self::expression(function.name(), expression, &[self])
    }

    /// `chosen` where this `bool` tensor is true, otherwise `other`.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit, or there is no room.
    pub fn where_(&self, chosen: &Self, other: &Self) -> Result<Self> {
        Self::ternary(Ternary::Where, self, chosen, other)
    }

    /// `self * factor + term`, without rounding in between where the device can.
    ///
    /// # Errors
    /// If shapes, types or devices do not fit, or there is no room.
    pub fn mul_add(&self, factor: &Self, term: &Self) -> Result<Self> {
        Self::ternary(Ternary::MulAdd, self, factor, term)
    }

    /// Not below `low` nor above `high`; the gradient passes where the value was within.
    ///
    /// # Errors
    /// If the type is not a number, or there is no room.
    pub fn clamp(&self, low: f64, high: f64) -> Result<Self> {
        Self::ternary(Ternary::Clamp, self, &self.scalar_like(low)?, &self.scalar_like(high)?)
    }

    /// A number, as a tensor that goes with this one.
    fn scalar_like(&self, value: f64) -> Result<Self> {
        Ok(Self::new(fill::full(self.device(), self.dtype(), Shape::SCALAR, value)?))
    }
}

/// A function, as an expression of its arguments.
fn expression(function: Function) -> Result<Expression> {
    let build = Builder::new(function.arity());
    let first = build.input(0);
    let value = match function {
        Function::Unary(function) => first.unary(function),
        Function::Binary(function) => first.binary(function, build.input(1)),
        Function::Ternary(function) => first.ternary(function, build.input(1), build.input(2)),
    };
    Ok(build.finish(value)?)
}
