//! The cases of reductions over any axes.

use polaris_core::{DType, MAX_RANK};

use super::{Reduce, Reduction};
use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new(
    "reduce",
    super::opencl_program::shipped_programs,
    || variants().len(),
    |variant| variants()[variant].1 == DType::F32,
    case,
);

fn variants() -> Vec<(Reduction, DType)> {
    let of = |dtype: DType| Reduction::ALL.map(|reduction| (reduction, dtype));
    let defined =
        |&(reduction, dtype): &(Reduction, DType)| reduction != Reduction::Mean || dtype.is_float();
    DType::ALL.into_iter().flat_map(of).filter(defined).collect()
}

fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (reduction, dtype) = variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let mut shape = parameters.shape.clone();
    if !matches!(reduction, Reduction::Sum) {
        // Of no elements there is no largest, and the mean is NaN by definition.
        shape.iter_mut().for_each(|dim| *dim = (*dim).max(1));
    }
    let arrangement = Arrangement { broadcast: 0, missing_axes: 0, ..parameters.inputs[0].clone() };
    let input =
        Operand::input(&shape, &arrangement, dtype, Domain::Any, parameters.special, numbers);
    let mut axes = [false; MAX_RANK];
    let mut kept = Vec::new();
    for (axis, &dim) in shape.iter().enumerate() {
        axes[axis] = parameters.axes >> axis & 1 == 1;
        if !axes[axis] {
            kept.push(dim);
        }
    }
    let output = Operand::output(&kept, &parameters.output, reduction.output_dtype(dtype), numbers);
    let tolerance = match reduction {
        Reduction::Sum | Reduction::Mean => Tolerance::Accumulated,
        _ => Tolerance::Exact,
    };
    // The error of a sum scales with the magnitudes it is made of, not with what is left.
    let finite =
        || input.contents.iter().filter(|value| value.is_finite()).map(|value| value.abs());
    let average = finite().sum::<f64>() / finite().count().max(1) as f64;
    let count =
        shape.iter().product::<usize>() as f64 / kept.iter().product::<usize>().max(1) as f64;
    let scale = if reduction == Reduction::Mean { average } else { average * count };
    let scale = vec![scale; output.layout.elements()];
    Case::new(Reduce { reduction, axes }, vec![input], output, tolerance, scale)
}
