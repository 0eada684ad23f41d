//! The functions' loops on the CPU: one over dense blocks for each function and compute type.

use super::{Binary, Function, Ternary, Unary};
use crate::cpu::blocks::{ComputeType, STREAMED, stream};
use crate::cpu::map::{BlockFunction, SendPointer};
use crate::cpu::math::Real;
use crate::cpu::simd::multiversion;

/// A function as a type, so that each has its own loop.
pub(crate) trait Apply<C> {
    fn apply(a: C, b: C, c: C) -> C;
}

/// Which of three arguments are there.
trait Arity {
    const COUNT: usize;
}

struct One;
struct Two;
struct Three;

impl Arity for One {
    const COUNT: usize = 1;
}

impl Arity for Two {
    const COUNT: usize = 2;
}

impl Arity for Three {
    const COUNT: usize = 3;
}

/// A stretch of the arguments; those that are not there yield zeros and cost nothing.
struct Arguments<'a, C, N> {
    slices: [&'a [C]; 3],
    arity: std::marker::PhantomData<N>,
}

impl<'a, C: ComputeType, N: Arity> Arguments<'a, C, N> {
    /// Some elements of each argument. Cutting them here lets the compiler see that no index of
    /// the loop that follows is out of bounds.
    #[inline(always)]
    fn new(slices: [&'a [C]; 3], first: usize, length: usize) -> Self {
        let cut = |i: usize| if i < N::COUNT { &slices[i][first..][..length] } else { &[][..] };
        Self { slices: [cut(0), cut(1), cut(2)], arity: std::marker::PhantomData }
    }

    #[inline(always)]
    fn apply<F: Apply<C>>(&self, i: usize) -> C {
        let argument = |n: usize| if n < N::COUNT { self.slices[n][i] } else { C::default() };
        F::apply(argument(0), argument(1), argument(2))
    }
}

multiversion! {
    fn plain<C: ComputeType, F: Apply<C>, N: Arity>(arguments: [&[C]; 3], result: &mut [C]) {
        let ([a, b, c], none) = (arguments, C::default());
        let results = result.iter_mut();
        // Zipped and not indexed: a bound that the compiler cannot see would make it leave the last
        // vectors to a loop over single elements.
        match N::COUNT {
            1 => {
                for (result, &a) in results.zip(a) {
                    *result = F::apply(a, none, none);
                }
            }
            2 => {
                for ((result, &a), &b) in results.zip(a).zip(b) {
                    *result = F::apply(a, b, none);
                }
            }
            _ => {
                for (((result, &a), &b), &c) in results.zip(a).zip(b).zip(c) {
                    *result = F::apply(a, b, c);
                }
            }
        }
    }
}

multiversion! {
    fn streamed<C: ComputeType, F: Apply<C>, N: Arity>(arguments: [&[C]; 3], target: SendPointer) {
        let length = arguments[0].len();
        let target = target.get().cast::<C>();
        let whole = length / STREAMED * STREAMED;
        for at in (0..whole).step_by(STREAMED) {
            let arguments = Arguments::<C, N>::new(arguments, at, STREAMED);
            let mut values = [C::default(); STREAMED];
            for (i, value) in values.iter_mut().enumerate() {
                *value = arguments.apply::<F>(i);
            }
            // SAFETY: the caller gives aligned memory for as many results as there are arguments.
            unsafe { stream::<C, VECTOR_BYTES>(&values, target.add(at)) };
        }
        let rest = Arguments::<C, N>::new(arguments, whole, length - whole);
        for i in 0..length - whole {
            // SAFETY: as above.
            unsafe { *target.add(whole + i) = rest.apply::<F>(i) };
        }
    }
}

fn one<C: ComputeType, F: Apply<C>>() -> BlockFunction<C> {
    BlockFunction { plain: plain::<C, F, One>, streamed: streamed::<C, F, One> }
}

fn two<C: ComputeType, F: Apply<C>>() -> BlockFunction<C> {
    BlockFunction { plain: plain::<C, F, Two>, streamed: streamed::<C, F, Two> }
}

fn three<C: ComputeType, F: Apply<C>>() -> BlockFunction<C> {
    BlockFunction { plain: plain::<C, F, Three>, streamed: streamed::<C, F, Three> }
}

/// A function of floating-point numbers.
macro_rules! real {
    ($name:ident, |$a:ident, $b:ident, $c:ident| $body:expr) => {
        pub(crate) struct $name;

        impl<C: Real> Apply<C> for $name {
            #[inline(always)]
            fn apply($a: C, $b: C, $c: C) -> C {
                $body
            }
        }
    };
}

/// A function of integers, computed in `i64`: narrower results are cut off when stored, which is
/// what wrapping arithmetic in the narrow type gives.
macro_rules! whole {
    ($name:ident, |$a:ident, $b:ident, $c:ident| $body:expr) => {
        impl Apply<i64> for $name {
            #[inline(always)]
            fn apply($a: i64, $b: i64, $c: i64) -> i64 {
                $body
            }
        }
    };
}

#[inline(always)]
fn sigmoid<C: Real>(x: C) -> C {
    C::of(1.0) / (C::of(1.0) + (-x).exp())
}

#[inline(always)]
fn truth<C: Real>(value: bool) -> C {
    C::of(f64::from(u8::from(value)))
}

pub(crate) struct Same;

impl<C> Apply<C> for Same {
    #[inline(always)]
    fn apply(a: C, _b: C, _c: C) -> C {
        a
    }
}

/// Nothing: loading and storing do the work of a conversion.
pub fn same<C: ComputeType>() -> BlockFunction<C> {
    one::<C, Same>()
}

real!(Neg, |a, _b, _c| -a);
real!(Abs, |a, _b, _c| a.abs());
real!(Sign, |a, _b, _c| if a > C::of(0.0) {
    C::of(1.0)
} else if a < C::of(0.0) {
    C::of(-1.0)
} else {
    a
});
real!(Square, |a, _b, _c| a * a);
real!(Relu, |a, _b, _c| if a < C::of(0.0) { C::of(0.0) } else { a });
real!(Sqrt, |a, _b, _c| a.sqrt());
real!(Rsqrt, |a, _b, _c| C::of(1.0) / a.sqrt());
real!(Reciprocal, |a, _b, _c| C::of(1.0) / a);
real!(Exp, |a, _b, _c| a.exp());
real!(Log, |a, _b, _c| a.ln());
real!(Sin, |a, _b, _c| a.sin());
real!(Cos, |a, _b, _c| a.cos());
real!(Tanh, |a, _b, _c| a.tanh());
real!(Erf, |a, _b, _c| a.erf());
real!(Sigmoid, |a, _b, _c| sigmoid(a));
real!(Silu, |a, _b, _c| a * sigmoid(a));
real!(GeluErf, |a, _b, _c| a * a.normal_cdf());
real!(GeluTanh, |a, _b, _c| {
    // (1 + tanh(x)) / 2 is the sigmoid of 2x.
    a * sigmoid(C::of(2.0 * 0.797_884_560_802_865_4) * (a + C::of(0.044715) * a * a * a))
});
real!(GeluErfSlope, |a, _b, _c| a.gelu_slope());
real!(Floor, |a, _b, _c| a.floor());
real!(Ceil, |a, _b, _c| a.ceil());
real!(Round, |a, _b, _c| a.round_ties_even());
real!(Not, |a, _b, _c| truth(a == C::of(0.0)));
real!(Sum, |a, b, _c| a + b);
real!(Difference, |a, b, _c| a - b);
real!(Product, |a, b, _c| a * b);
real!(Quotient, |a, b, _c| a / b);
real!(Pow, |a, b, _c| a.powf(b));
// `a` if it is larger or NaN; a NaN in `b` fails every comparison and is taken.
real!(Maximum, |a, b, _c| if a > b || a.is_nan() { a } else { b });
real!(Minimum, |a, b, _c| if a < b || a.is_nan() { a } else { b });
real!(Equal, |a, b, _c| truth(a == b));
real!(NotEqual, |a, b, _c| truth(a != b));
real!(Less, |a, b, _c| truth(a < b));
real!(LessEqual, |a, b, _c| truth(a <= b));
real!(Greater, |a, b, _c| truth(a > b));
real!(GreaterEqual, |a, b, _c| truth(a >= b));
// On numbers only inside of expressions, where bools are numbers.
real!(And, |a, b, _c| truth(a != C::of(0.0) && b != C::of(0.0)));
real!(Or, |a, b, _c| truth(a != C::of(0.0) || b != C::of(0.0)));
real!(Xor, |a, b, _c| truth((a != C::of(0.0)) != (b != C::of(0.0))));
real!(Where, |a, b, c| if a != C::of(0.0) { b } else { c });
real!(MulAdd, |a, b, c| a * b + c);
real!(Clamp, |a, b, c| if a < b {
    b
} else if a > c {
    c
} else {
    a
});

whole!(Neg, |a, _b, _c| a.wrapping_neg());
whole!(Abs, |a, _b, _c| a.wrapping_abs());
whole!(Sign, |a, _b, _c| a.signum());
whole!(Square, |a, _b, _c| a.wrapping_mul(a));
whole!(Relu, |a, _b, _c| a.max(0));
whole!(Not, |a, _b, _c| i64::from(a == 0));
whole!(Sum, |a, b, _c| a.wrapping_add(b));
whole!(Difference, |a, b, _c| a.wrapping_sub(b));
whole!(Product, |a, b, _c| a.wrapping_mul(b));
whole!(Quotient, |a, b, _c| if b == 0 { 0 } else { a.wrapping_div(b) });
whole!(Maximum, |a, b, _c| a.max(b));
whole!(Minimum, |a, b, _c| a.min(b));
whole!(Equal, |a, b, _c| i64::from(a == b));
whole!(NotEqual, |a, b, _c| i64::from(a != b));
whole!(Less, |a, b, _c| i64::from(a < b));
whole!(LessEqual, |a, b, _c| i64::from(a <= b));
whole!(Greater, |a, b, _c| i64::from(a > b));
whole!(GreaterEqual, |a, b, _c| i64::from(a >= b));
whole!(And, |a, b, _c| i64::from(a != 0 && b != 0));
whole!(Or, |a, b, _c| i64::from(a != 0 || b != 0));
whole!(Xor, |a, b, _c| i64::from((a != 0) != (b != 0)));
whole!(Where, |a, b, c| if a != 0 { b } else { c });
whole!(MulAdd, |a, b, c| a.wrapping_mul(b).wrapping_add(c));
whole!(Clamp, |a, b, c| if a < b {
    b
} else if a > c {
    c
} else {
    a
});

/// The loop of a function of floating-point numbers.
pub fn float<C: Real>(function: Function) -> BlockFunction<C> {
    match function {
        Function::Unary(unary) => match unary {
            Unary::Neg => one::<C, Neg>(),
            Unary::Abs => one::<C, Abs>(),
            Unary::Sign => one::<C, Sign>(),
            Unary::Square => one::<C, Square>(),
            Unary::Relu => one::<C, Relu>(),
            Unary::Sqrt => one::<C, Sqrt>(),
            Unary::Rsqrt => one::<C, Rsqrt>(),
            Unary::Reciprocal => one::<C, Reciprocal>(),
            Unary::Exp => one::<C, Exp>(),
            Unary::Log => one::<C, Log>(),
            Unary::Sin => one::<C, Sin>(),
            Unary::Cos => one::<C, Cos>(),
            Unary::Tanh => one::<C, Tanh>(),
            Unary::Erf => one::<C, Erf>(),
            Unary::Sigmoid => one::<C, Sigmoid>(),
            Unary::Silu => one::<C, Silu>(),
            Unary::GeluErf => one::<C, GeluErf>(),
            Unary::GeluTanh => one::<C, GeluTanh>(),
            Unary::GeluErfSlope => one::<C, GeluErfSlope>(),
            Unary::Floor => one::<C, Floor>(),
            Unary::Ceil => one::<C, Ceil>(),
            Unary::Round => one::<C, Round>(),
            Unary::Not => one::<C, Not>(),
        },
        Function::Binary(binary) => match binary {
            Binary::Add => two::<C, Sum>(),
            Binary::Sub => two::<C, Difference>(),
            Binary::Mul => two::<C, Product>(),
            Binary::Div => two::<C, Quotient>(),
            Binary::Pow => two::<C, Pow>(),
            Binary::Maximum => two::<C, Maximum>(),
            Binary::Minimum => two::<C, Minimum>(),
            Binary::Equal => two::<C, Equal>(),
            Binary::NotEqual => two::<C, NotEqual>(),
            Binary::Less => two::<C, Less>(),
            Binary::LessEqual => two::<C, LessEqual>(),
            Binary::Greater => two::<C, Greater>(),
            Binary::GreaterEqual => two::<C, GreaterEqual>(),
            Binary::And => two::<C, And>(),
            Binary::Or => two::<C, Or>(),
            Binary::Xor => two::<C, Xor>(),
        },
        Function::Ternary(ternary) => match ternary {
            Ternary::Where => three::<C, Where>(),
            Ternary::MulAdd => three::<C, MulAdd>(),
            Ternary::Clamp => three::<C, Clamp>(),
        },
    }
}

/// The loop of a function of integers or bools.
pub fn integer(function: Function) -> BlockFunction<i64> {
    match function {
        Function::Unary(unary) => match unary {
            Unary::Neg => one::<i64, Neg>(),
            Unary::Abs => one::<i64, Abs>(),
            Unary::Sign => one::<i64, Sign>(),
            Unary::Square => one::<i64, Square>(),
            Unary::Relu => one::<i64, Relu>(),
            Unary::Not => one::<i64, Not>(),
            _ => unreachable!("{} should be checked to be on floats", unary.name()),
        },
        Function::Binary(binary) => match binary {
            Binary::Add => two::<i64, Sum>(),
            Binary::Sub => two::<i64, Difference>(),
            Binary::Mul => two::<i64, Product>(),
            Binary::Div => two::<i64, Quotient>(),
            Binary::Maximum => two::<i64, Maximum>(),
            Binary::Minimum => two::<i64, Minimum>(),
            Binary::Equal => two::<i64, Equal>(),
            Binary::NotEqual => two::<i64, NotEqual>(),
            Binary::Less => two::<i64, Less>(),
            Binary::LessEqual => two::<i64, LessEqual>(),
            Binary::Greater => two::<i64, Greater>(),
            Binary::GreaterEqual => two::<i64, GreaterEqual>(),
            Binary::And => two::<i64, And>(),
            Binary::Or => two::<i64, Or>(),
            Binary::Xor => two::<i64, Xor>(),
            Binary::Pow => unreachable!("pow should be checked to be on floats"),
        },
        Function::Ternary(ternary) => match ternary {
            Ternary::Where => three::<i64, Where>(),
            Ternary::MulAdd => three::<i64, MulAdd>(),
            Ternary::Clamp => three::<i64, Clamp>(),
        },
    }
}
