//! The cases of softmax: both functions and their gradients, of every floating-point type.

use crate::softmax::{Softmax, SoftmaxGradient};
use polaris_core::DType;

use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family =
    Family::new("softmax", super::shipped_programs, || variants().len(), is_essential, case);

/// Whether it is the logarithm, whether it is the gradient, and the type.
fn variants() -> Vec<(bool, bool, DType)> {
    let of = |dtype: DType| {
        [(false, false), (true, false), (false, true), (true, true)]
            .map(|(log, gradient)| (log, gradient, dtype))
    };
    DType::ALL.into_iter().filter(|dtype| dtype.is_float()).flat_map(of).collect()
}

/// The functions in `f32`.
fn is_essential(variant: usize) -> bool {
    variants()[variant].2 == DType::F32
}

/// The axis is the first one that a reduction would take.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (log, gradient, dtype) = variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let shape = parameters.shape.clone();
    let axis = parameters.axes.trailing_zeros() as usize % shape.len().max(1);
    let mut input = |index: usize, special: bool| {
        let arrangement =
            Arrangement { broadcast: 0, missing_axes: 0, ..parameters.inputs[index].clone() };
        Operand::input(&shape, &arrangement, dtype, Domain::Any, special, numbers)
    };
    // Logarithms whose exponentials overflow do not come from a log-softmax: infinity times a sum
    // that is zero but for rounding would be anything.
    let first = input(0, parameters.special && !(log && gradient));
    let inputs = if gradient { vec![first, input(1, parameters.special)] } else { vec![first] };
    let output = Operand::output(&shape, &parameters.output, dtype, numbers);
    let scale = match (gradient, log) {
        (false, false) => Vec::new(),
        // A logarithm near zero is off by as much as one near 1.
        (false, true) => vec![1.0; output.layout.elements()],
        (true, _) => gradient_scale(&shape, axis, log, &inputs),
    };
    if gradient {
        let op = SoftmaxGradient { axis, log };
        Case::new(op, inputs, output, Tolerance::Accumulated, scale)
    } else {
        Case::new(Softmax { axis, log }, inputs, output, Tolerance::Accumulated, scale)
    }
}

/// The error of a gradient scales with the magnitudes that it and its row's sum are made of, not
/// with what is left.
fn gradient_scale(shape: &[usize], axis: usize, log: bool, inputs: &[Operand]) -> Vec<f64> {
    let magnitude = |value: f64| if value.is_finite() { value.abs() } else { 0.0 };
    let [y, g] = [0, 1].map(|index| inputs[index].elements());
    let inner: usize = shape.iter().skip(axis + 1).product();
    let length = shape.get(axis).copied().unwrap_or(1);
    let row = |at: usize| at / (inner * length) * inner + at % inner;
    let mut sums = vec![0.0; y.len() / length.max(1)];
    for at in 0..y.len() {
        let share = if log { 1.0 } else { magnitude(y[at]) };
        sums[row(at)] += share * magnitude(g[at]);
    }
    (0..y.len())
        .map(|at| match log {
            true => magnitude(g[at]) + y[at].exp() * sums[row(at)],
            false => magnitude(y[at]) * (magnitude(g[at]) + sums[row(at)]),
        })
        .collect()
}
