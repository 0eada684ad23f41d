//! The cases of fills.

use polaris_core::DType;

use super::Fill;
use crate::families::Family;
use crate::suite::{Case, CaseParameters, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new("fill", Vec::new, || DType::ALL.len(), |_| true, case);

fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let dtype = DType::ALL[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let output = Operand::output(&parameters.shape, &parameters.output, dtype, numbers);
    let value = if parameters.special { f64::NAN } else { numbers.between(-100.0, 100.0) };
    Case::new(Fill { value }, Vec::new(), output, Tolerance::Exact, Vec::new())
}
