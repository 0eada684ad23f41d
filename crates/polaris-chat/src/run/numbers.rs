//! Numbers as Python computes with them and writes them.

use super::object::Object;
use crate::error::{Error, Result};
use crate::syntax::ast::Operator;

#[derive(Debug, Clone, Copy)]
pub(super) enum Number {
    Int(i128),
    Float(f64),
}

impl Number {
    /// The number that a value is; booleans are 0 and 1.
    pub fn of(value: &Object) -> Option<Self> {
        match value {
            Object::Bool(value) => Some(Self::Int((*value).into())),
            Object::Int(value) => Some(Self::Int(*value)),
            Object::Float(value) => Some(Self::Float(*value)),
            _ => None,
        }
    }

    pub fn float(self) -> f64 {
        match self {
            Self::Int(value) => value as f64,
            Self::Float(value) => value,
        }
    }

    pub fn object(self) -> Object {
        match self {
            Self::Int(value) => Object::Int(value),
            Self::Float(value) => Object::Float(value),
        }
    }

    pub fn compute(self, operator: Operator, other: Self) -> Result<Self> {
        use Operator::{Add, Divide, FloorDivide, Multiply, Power, Remainder, Subtract};
        if matches!(operator, Divide | FloorDivide | Remainder) && other.float() == 0.0 {
            return Err(Error::render("division by zero"));
        }
        if let (Self::Int(a), Self::Int(b)) = (self, other) {
            let result = match operator {
                Add => a.checked_add(b),
                Subtract => a.checked_sub(b),
                Multiply => a.checked_mul(b),
                // Python rounds towards minus infinity: `-7 // 2` is -4, and `-7 % 2` is 1.
                FloorDivide => a
                    .checked_div(b)
                    .map(|quotient| quotient - i128::from(a % b != 0 && (a < 0) != (b < 0))),
                Remainder => a
                    .checked_rem(b)
                    .map(|rest| if rest != 0 && (rest < 0) != (b < 0) { rest + b } else { rest }),
                Power if b >= 0 => u32::try_from(b).ok().and_then(|b| a.checked_pow(b)),
                Divide | Power => return self.compute_floats(operator, other),
            };
            return result.map(Self::Int).ok_or_else(|| {
                Error::render("the result of a computation has more than 127 bits")
            });
        }
        self.compute_floats(operator, other)
    }

    fn compute_floats(self, operator: Operator, other: Self) -> Result<Self> {
        let (a, b) = (self.float(), other.float());
        if operator == Operator::Power && a == 0.0 && b < 0.0 {
            return Err(Error::render("division by zero"));
        }
        Ok(Self::Float(match operator {
            Operator::Add => a + b,
            Operator::Subtract => a - b,
            Operator::Multiply => a * b,
            Operator::Divide => a / b,
            Operator::FloorDivide => (a / b).floor(),
            Operator::Remainder => a - b * (a / b).floor(),
            Operator::Power => a.powf(b),
        }))
    }
}

/// A float as Python's `repr` writes it: the fewest digits that give the same float, an exponent from 1e16 and below
/// 1e-4.
pub(super) fn float_text(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if value != 0.0 && !(-4..16).contains(&power) {
        let sign = if power < 0 { '-' } else { '+' };
        return format!("{digits}e{sign}{:02}", power.abs());
    }
    let plain = format!("{value}");
    if plain.contains('.') { plain } else { plain + ".0" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_in_python() {
        let written = [0.1, 1.0, -0.0, 1e15, 1e16, 1.5e-5, 1e-4, 123456.789, 1e300, 2.5e-300];
        let expected = [
            "0.1",
            "1.0",
            "-0.0",
            "1000000000000000.0",
            "1e+16",
            "1.5e-05",
            "0.0001",
            "123456.789",
            "1e+300",
            "2.5e-300",
        ];
        assert_eq!(written.map(float_text), expected);
    }
}
