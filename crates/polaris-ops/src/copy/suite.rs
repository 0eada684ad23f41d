//! The cases of copies: from every type to every type.

use polaris_core::DType;

use super::Copy;
use crate::families::Family;
use crate::format::Block;
use crate::suite::{Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "copy",
    super::shipped_programs,
    || variants().len(),
    |variant| {
        let (from, to) = variants()[variant];
        from == From::Type(to) || matches!(from, From::Blocks(_))
    },
    case,
);

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq)]
enum From {
    Type(DType),
    Blocks(Block),
}

/// From every type to every type, and from blocks to `f32`.
fn variants() -> Vec<(From, DType)> {
    let types = DType::ALL.into_iter().flat_map(|from| DType::ALL.map(|to| (From::Type(from), to)));
    // What is read does not depend on what it becomes.
    let blocks = Block::ALL.into_iter().map(|block| (From::Blocks(block), DType::F32));
    types.chain(blocks).chain([(From::Blocks(Block::Q8_0), DType::F16)]).collect()
}

fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (from, to) = variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let input = match from {
        From::Type(from) => Operand::input(
            &parameters.shape,
            &parameters.inputs[0],
            from,
            Domain::Any,
            parameters.special,
            numbers,
        ),
        From::Blocks(block) => Operand::blocks(&parameters.shape, block, numbers),
    };
    let output = Operand::output(&parameters.shape, &parameters.output, to, numbers);
    Case::new(Copy, vec![input], output, Tolerance::Exact, Vec::new())
}
