//! The cases of random numbers: each distribution in the types that have it.

use polaris_core::DType;

use super::{Distribution, Random};
use crate::families::Family;
use crate::suite::{Case, CaseParameters, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "random",
    super::opencl::shipped_programs,
    || variants().len(),
    |variant| variants()[variant].1 == DType::F32,
    case,
);

fn variants() -> Vec<(Distribution, DType)> {
    let uniform = Distribution::Uniform { low: -2.0, high: 5.0 };
    let normal = Distribution::Normal { mean: 1.0, deviation: 3.0 };
    let of = |dtype: DType| match dtype.is_float() {
        true => vec![(uniform, dtype), (normal, dtype)],
        false => vec![(Distribution::Bits, dtype)],
    };
    DType::ALL.into_iter().flat_map(of).collect()
}

fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (distribution, dtype) = variants()[variant];
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
