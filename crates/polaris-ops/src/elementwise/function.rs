//! The functions, and the types they are defined for.

use polaris_core::DType;

macro_rules! functions {
    ($(#[$meta:meta])* $group:ident { $($(#[$doc:meta])* $variant:ident = $name:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $group { $($(#[$doc])* $variant),* }

        impl $group {
            /// Every function of this kind.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Its name.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name),* }
            }
        }

        impl From<$group> for Function {
            fn from(function: $group) -> Self {
                Self::$group(function)
            }
        }
    };
}

functions! {
    /// Functions of one argument.
    Unary {
        /// `-x`
        Neg = "neg",
        /// `|x|`
        Abs = "abs",
        /// -1, 0 or 1; NaN stays NaN.
        Sign = "sign",
        /// `x * x`
        Square = "square",
        /// `max(x, 0)`; NaN stays NaN.
        Relu = "relu",
        /// Square root.
        Sqrt = "sqrt",
        /// `1 / sqrt(x)`
        Rsqrt = "rsqrt",
        /// `1 / x`
        Reciprocal = "reciprocal",
        /// e to the x.
        Exp = "exp",
        /// Natural logarithm.
        Log = "log",
        /// Sine of radians.
        Sin = "sin",
        /// Cosine of radians.
        Cos = "cos",
        /// Hyperbolic tangent.
        Tanh = "tanh",
        /// The error function.
        Erf = "erf",
        /// `1 / (1 + exp(-x))`
        Sigmoid = "sigmoid",
        /// `x * sigmoid(x)`
        Silu = "silu",
        /// GELU by its definition with the error function.
        GeluErf = "gelu_erf",
        /// GELU by its approximation with tanh.
        GeluTanh = "gelu_tanh",
        /// The derivative of GELU by its definition with the error function.
        GeluErfSlope = "gelu_erf_slope",
        /// The next integer below.
        Floor = "floor",
        /// The next integer above.
        Ceil = "ceil",
        /// The nearest integer; halves to even.
        Round = "round",
        /// Whether `x` is zero.
        Not = "not",
    }
}

functions! {
    /// Functions of two arguments. Integer arithmetic wraps.
    Binary {
        /// `a + b`
        Add = "add",
        /// `a - b`
        Sub = "sub",
        /// `a * b`
        Mul = "mul",
        /// `a / b`; integers toward zero, and 0 where `b` is 0.
        Div = "div",
        /// `a` to the `b`.
        Pow = "pow",
        /// The larger; NaN if either is.
        Maximum = "maximum",
        /// The smaller; NaN if either is.
        Minimum = "minimum",
        /// `a == b`
        Equal = "equal",
        /// `a != b`
        NotEqual = "not_equal",
        /// `a < b`
        Less = "less",
        /// `a <= b`
        LessEqual = "less_equal",
        /// `a > b`
        Greater = "greater",
        /// `a >= b`
        GreaterEqual = "greater_equal",
        /// Both are true.
        And = "and",
        /// Either is true.
        Or = "or",
        /// Exactly one is true.
        Xor = "xor",
    }
}

functions! {
    /// Functions of three arguments.
    Ternary {
        /// `b` where the `bool` `a` is true, otherwise `c`.
        Where = "where",
        /// `a * b + c`
        MulAdd = "mul_add",
        /// `a`, but not below `b` nor above `c`; NaN stays NaN.
        Clamp = "clamp",
    }
}

/// A function of one, two or three arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Function {
    /// Of one.
    Unary(Unary),
    /// Of two.
    Binary(Binary),
    /// Of three.
    Ternary(Ternary),
}

impl Function {
    /// Every function.
    pub fn all() -> impl Iterator<Item = Self> {
        let unary = Unary::ALL.iter().copied().map(Self::Unary);
        let binary = Binary::ALL.iter().copied().map(Self::Binary);
        unary.chain(binary).chain(Ternary::ALL.iter().copied().map(Self::Ternary))
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unary(function) => function.name(),
            Self::Binary(function) => function.name(),
            Self::Ternary(function) => function.name(),
        }
    }

    /// How many arguments it takes.
    pub const fn arity(self) -> usize {
        match self {
            Self::Unary(_) => 1,
            Self::Binary(_) => 2,
            Self::Ternary(_) => 3,
        }
    }

    /// Whether the result is a bool whatever the arguments' type.
    pub const fn is_predicate(self) -> bool {
        use Binary::{And, Equal, Greater, GreaterEqual, Less, LessEqual, NotEqual, Or, Xor};
        matches!(
            self,
            Self::Unary(Unary::Not)
                | Self::Binary(
                    Equal | NotEqual | Less | LessEqual | Greater | GreaterEqual | And | Or | Xor
                )
        )
    }

    /// The type of an argument, given the type of the last one.
    pub fn input_dtype(self, index: usize, last: DType) -> DType {
        if self == Self::Ternary(Ternary::Where) && index == 0 { DType::Bool } else { last }
    }

    /// The type of the result, given the type of the last argument.
    pub fn output_dtype(self, last: DType) -> DType {
        if self.is_predicate() { DType::Bool } else { last }
    }

    /// Whether it has a meaning for arguments of this type.
    pub fn is_defined_for(self, dtype: DType) -> bool {
        use Unary::{Abs, Neg, Relu, Sign, Square};
        match self {
            Self::Binary(Binary::And | Binary::Or | Binary::Xor) => dtype == DType::Bool,
            Self::Ternary(Ternary::Where) | Self::Unary(Unary::Not) => true,
            function if function.is_predicate() => true,
            _ if dtype == DType::Bool => false,
            Self::Unary(Neg | Abs | Sign | Square | Relu) => true,
            Self::Unary(_) | Self::Binary(Binary::Pow) => dtype.is_float(),
            Self::Binary(_) | Self::Ternary(_) => true,
        }
    }
}
