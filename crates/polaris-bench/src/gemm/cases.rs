//! The cases: sizes, types and transposes, and their syntax.

use std::fmt;
use std::str::FromStr;

use polaris_core::DType;
use polaris_ops::matmul::{Precision, VARIANTS, Variant};
use serde::{Serialize, Serializer};

use super::GemmOptions;
use crate::{Error, Result};

/// Sizes that are measured if the user names none.
const USUAL_SIZES: [usize; 3] = [512, 1024, 2048];

/// The largest dimension: other libraries count in 32 bits.
const LARGEST: usize = i32::MAX as usize;

/// The most sizes of a sweep: more are a slip of the keyboard.
const LONGEST_SWEEP: usize = 10_000;

/// The size of a product: an m x k matrix with a k x n one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dims {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Elements of each sum.
    pub k: usize,
}

impl Dims {
    /// A product of square matrices.
    pub const fn square(size: usize) -> Self {
        Self { m: size, n: size, k: size }
    }

    /// A multiplication and an addition for each element of each sum.
    pub fn operations(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }
}

impl fmt::Display for Dims {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}x{}", self.m, self.n, self.k)
    }
}

impl FromStr for Dims {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split('x').collect();
        let [m, n, k] = parts[..] else {
            return Err(unreadable("expected three sizes MxNxK, as in 128x768x3072"));
        };
        Ok(Self { m: parse_dimension(m)?, n: parse_dimension(n)?, k: parse_dimension(k)? })
    }
}

/// Square sizes at equal distances.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sweep {
    from: usize,
    to: usize,
    step: usize,
}

impl Sweep {
    /// The products of these sizes.
    pub fn products(self) -> impl Iterator<Item = Dims> {
        (self.from..=self.to).step_by(self.step).map(Dims::square)
    }
}

impl FromStr for Sweep {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let [from, to, step] = parts[..] else {
            return Err(unreadable("expected FROM:TO:STEP, as in 1200:1450:10"));
        };
        let sweep = Self {
            from: parse_dimension(from)?,
            to: parse_dimension(to)?,
            step: parse_dimension(step)?,
        };
        if sweep.from > sweep.to {
            let Self { from, to, .. } = sweep;
            return Err(unreadable(format!("the sweep starts at {from} and ends before, at {to}")));
        }
        let count = (sweep.to - sweep.from) / sweep.step + 1;
        if count > LONGEST_SWEEP {
            let why = format!("{count} sizes; at most {LONGEST_SWEEP} are measured in one run");
            return Err(unreadable(why));
        }
        Ok(sweep)
    }
}

fn unreadable(why: impl Into<String>) -> Error {
    Error::Unreadable(why.into())
}

/// Reads a size of at least one.
///
/// # Errors
/// If it is none, or more than other libraries can count.
pub fn parse_dimension(text: &str) -> Result<usize> {
    let size = text.trim().parse::<usize>();
    match size.map_err(|_| unreadable(format!("{text:?} is not a whole number")))? {
        0 => Err(unreadable("a size must be at least 1")),
        size if size > LARGEST => {
            Err(unreadable(format!("{size} is too large; the largest size is {LARGEST}")))
        }
        size => Ok(size),
    }
}

/// The type of the operands, and how they may be multiplied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Numbers {
    /// `f32`.
    F32,
    /// `f32`, multiplied as TF32 where the device can.
    Tf32,
    /// `f16`.
    F16,
    /// `bf16`.
    Bf16,
    /// `i8`, summed in `i32`.
    I8,
    /// `f64`.
    F64,
}

impl Numbers {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::F32, Self::Tf32, Self::F16, Self::Bf16, Self::I8, Self::F64];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Tf32 => "tf32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::I8 => "i8",
            Self::F64 => "f64",
        }
    }

    /// The type of the operands.
    pub const fn dtype(self) -> DType {
        match self {
            Self::F32 | Self::Tf32 => DType::F32,
            Self::F16 => DType::F16,
            Self::Bf16 => DType::BF16,
            Self::I8 => DType::I8,
            Self::F64 => DType::F64,
        }
    }

    /// The type of the result.
    pub fn output(self) -> DType {
        if self.dtype().is_float() { self.dtype() } else { DType::I32 }
    }

    /// How they may be multiplied.
    pub const fn precision(self) -> Precision {
        if matches!(self, Self::Tf32) { Precision::Tf32 } else { Precision::Full }
    }
}

impl Serialize for Numbers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Which operands are stored as their transposes: the first letter is A's, the second B's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Transpose {
    /// Neither.
    Nn,
    /// B.
    Nt,
    /// A.
    Tn,
    /// Both.
    Tt,
}

impl Transpose {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nn, Self::Nt, Self::Tn, Self::Tt];

    /// Whether A is.
    pub const fn a(self) -> bool {
        matches!(self, Self::Tn | Self::Tt)
    }

    /// Whether B is.
    pub const fn b(self) -> bool {
        matches!(self, Self::Nt | Self::Tt)
    }

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nn => "nn",
            Self::Nt => "nt",
            Self::Tn => "tn",
            Self::Tt => "tt",
        }
    }
}

/// A kernel that the user asks for.
#[derive(Debug, Clone, Copy)]
pub enum VariantChoice {
    /// What Polaris takes by itself.
    Default,
    /// Every kernel with a name that works on the device.
    All,
    /// One kernel.
    Named(&'static Variant),
}

impl VariantChoice {
    /// Whether it may name something that is not a plain kernel and needs more operands.
    pub fn is_more_than_default(&self) -> bool {
        !matches!(self, Self::Default)
    }
}

impl FromStr for VariantChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "default" => Ok(Self::Default),
            "all" => Ok(Self::All),
            name => VARIANTS
                .iter()
                .find(|variant| variant.name == name)
                .map(Self::Named)
                .ok_or_else(|| {
                    let names: Vec<&str> = VARIANTS.iter().map(|variant| variant.name).collect();
                    let names = names.join(", ");
                    unreadable(format!("there is no such variant; expected default, all, {names}"))
                }),
        }
    }
}

/// What may follow a product.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EpilogueName {
    /// A bias for each column, then GELU.
    BiasGelu,
}

impl EpilogueName {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BiasGelu => "bias-gelu",
        }
    }
}

impl FromStr for EpilogueName {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(&[Self::BiasGelu], Self::name, text, "epilogue")
    }
}

impl FromStr for Numbers {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(&Self::ALL, Self::name, text, "data type")
    }
}

impl FromStr for Transpose {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        named(&Self::ALL, Self::name, text, "transpose")
    }
}

/// The one of this name, in large or small letters.
fn named<T: Copy>(all: &[T], name: fn(T) -> &'static str, text: &str, what: &str) -> Result<T> {
    let found = all.iter().copied().find(|&one| name(one).eq_ignore_ascii_case(text));
    found.ok_or_else(|| unreadable(format!("{text:?} is not a {what}")))
}

/// One product to measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Case {
    /// Its size.
    pub dims: Dims,
    /// The type of its operands.
    pub numbers: Numbers,
    /// How they are stored.
    pub transpose: Transpose,
}

impl Case {
    /// Bytes of both operands and the result; they may be more than any machine has.
    pub fn bytes(&self) -> u128 {
        let Dims { m, n, k } = self.dims;
        let elements = |rows: usize, columns: usize| rows as u128 * columns as u128;
        (elements(m, k) + elements(k, n)) * self.numbers.dtype().size() as u128
            + elements(m, n) * self.numbers.output().size() as u128
    }
}

/// All cases, by type, then transpose, then size.
pub(super) fn cases(options: &GemmOptions) -> Vec<Case> {
    let mut sizes = options.sizes.clone();
    if sizes.is_empty() {
        sizes.extend(USUAL_SIZES.map(Dims::square));
    }
    let mut cases = Vec::new();
    for &numbers in &options.numbers {
        for &transpose in &options.transposes {
            cases.extend(sizes.iter().map(|&dims| Case { dims, numbers, transpose }));
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_and_slips_are_named() {
        assert_eq!("1x4096x32".parse::<Dims>().unwrap(), Dims { m: 1, n: 4096, k: 32 });
        let sweep = Sweep { from: 8, to: 16, step: 4 };
        assert_eq!("8:16:4".parse::<Sweep>().unwrap(), sweep);
        assert!(sweep.products().eq([8, 12, 16].map(Dims::square)));
        for bad in ["", "5", "1x2", "1x2x3x4", "0x1x1", "-1x2x3", "1x2x99999999999"] {
            assert!(bad.parse::<Dims>().is_err(), "{bad}");
        }
        for bad in ["", "8", "8:16", "16:8:4", "8:16:0", "1:2000000000:1", "a:b:c"] {
            assert!(bad.parse::<Sweep>().is_err(), "{bad}");
        }
    }

    #[test]
    fn enormous_cases_have_sizes_too() {
        let dims = Dims::square(LARGEST);
        let case = Case { dims, numbers: Numbers::F64, transpose: Transpose::Nn };
        assert!(case.bytes() > 1 << 66);
        assert!(dims.operations() > 1e28);
    }
}
