//! The cases of pooling: windows of every kind along one axis or two.

use crate::pool::{Pool, PoolGradient, Pooling, Window, Windows};
use polaris_core::{DType, Shape};

use crate::families::Family;
use crate::suite::{Arrangement, Case, CaseParameters, Domain, Numbers, Operand, Tolerance};

/// Its entry in the list of operations.
pub const FAMILY: Family = Family::new("pool", super::shipped_programs, count, is_essential, case);

/// Which operation.
#[derive(Debug, Clone, Copy, PartialEq)]
enum What {
    Max,
    Indices,
    Average,
    MaxGradient,
    AverageGradient,
}

/// All in `f32` and `f64`, and what is rounded in the half precisions.
fn variants() -> Vec<(What, DType)> {
    let all = [What::Max, What::Indices, What::Average, What::MaxGradient, What::AverageGradient];
    let of = |dtype: DType| all.map(|what| (what, dtype));
    let mut variants = [of(DType::F32), of(DType::F64)].concat();
    for dtype in [DType::F16, DType::BF16] {
        variants.extend([What::Average, What::MaxGradient].map(|what| (what, dtype)));
    }
    variants
}

/// How many variants there are.
fn count() -> usize {
    variants().len()
}

/// Whether a short check should not leave it out.
fn is_essential(variant: usize) -> bool {
    variants()[variant].1 == DType::F32
}

/// The last of the parameters' axes are pooled; they grow where a window would not fit.
fn case(variant: usize, parameters: &CaseParameters) -> Case {
    let (what, dtype) = variants()[variant];
    let numbers = &mut Numbers::new(parameters.seed);
    let axes = 1 + numbers.below(2) as usize;
    let mut shape = parameters.shape.clone();
    shape.drain(..shape.len().saturating_sub(axes + 2));
    while shape.len() < axes + 1 {
        shape.insert(0, 1 + numbers.below(3) as usize);
    }
    let lead = shape.len() - axes;
    let averages = matches!(what, What::Average | What::AverageGradient);
    let (windows, shares) = draw_windows(&mut shape[lead..], averages, numbers);
    let pooled = windows
        .pooled_shape(&Shape::new(&shape).expect("test shapes should be small"))
        .expect("windows should be drawn so that they fit")
        .to_vec();
    let whole =
        |place: &Arrangement| Arrangement { broadcast: 0, missing_axes: 0, ..place.clone() };
    let [first, second, _] = &parameters.inputs;
    let special = parameters.special;
    let mut input = |shape: &[usize], place: &Arrangement| {
        Operand::input(shape, &whole(place), dtype, Domain::Any, special, numbers)
    };
    let inputs = match what {
        What::Max | What::Indices | What::Average => vec![input(&shape, first)],
        What::MaxGradient => vec![input(&shape, first), input(&pooled, second)],
        What::AverageGradient => vec![input(&pooled, second)],
    };
    let (written, tolerance) = match what {
        What::Max => (&pooled, Tolerance::Exact),
        What::Indices => (&pooled, Tolerance::Exact),
        What::Average => (&pooled, Tolerance::Accumulated),
        What::MaxGradient | What::AverageGradient => (&shape, Tolerance::Accumulated),
    };
    let output_dtype = if what == What::Indices { DType::I64 } else { dtype };
    let output = Operand::output(written, &parameters.output, output_dtype, numbers);
    // Sums err by the magnitudes that they are made of.
    let finite = inputs[inputs.len() - 1].contents.iter().filter(|value| value.is_finite());
    let largest = finite.fold(0.0f64, |most, value| most.max(value.abs()));
    let scale = vec![largest * shares as f64; output.layout.elements()];
    let count_padding = parameters.seed & 1 == 1;
    let pooling = match what {
        What::Max | What::MaxGradient => Pooling::Max,
        What::Indices => Pooling::ArgMax,
        What::Average | What::AverageGradient => Pooling::Average { count_padding },
    };
    match what {
        What::MaxGradient | What::AverageGradient => {
            Case::new(PoolGradient { pooling, windows }, inputs, output, tolerance, scale)
        }
        _ => Case::new(Pool { pooling, windows }, inputs, output, tolerance, scale),
    }
}

/// Windows along the axes of these lengths, and how much of a window's gradient an element may get
/// from all of them together.
fn draw_windows(lengths: &mut [usize], averages: bool, numbers: &mut Numbers) -> (Windows, usize) {
    lengths.iter_mut().for_each(|length| *length = (*length).max(1));
    if numbers.below(4) == 0 {
        let counts: Vec<usize> = lengths.iter().map(|_| numbers.below(9) as usize).collect();
        let over = lengths.iter().zip(&counts).map(|(&length, count)| count / length + 2);
        let shares = over.product();
        return (Windows::adaptive(&counts).expect("there should be one or two axes"), shares);
    }
    let mut taps = 1;
    let mut windows = Vec::new();
    for length in lengths {
        let dilation = if averages { 1 } else { 1 + numbers.below(3) as usize };
        let kernel = 1 + numbers.below(5) as usize;
        let reach = (kernel - 1) * dilation + 1;
        let padding = numbers.below(reach as u64 / 2 + 1) as usize;
        *length = (*length).max(reach - padding);
        let stride = 1 + numbers.below(4) as usize;
        windows.push(Window { kernel, stride, padding, dilation });
        taps *= kernel;
    }
    let windows = Windows::sliding(&windows).expect("there should be one or two axes");
    let windows = if numbers.below(2) == 0 { windows.rounded_up() } else { windows };
    // Each of an element's windows may give it all, or one part in as many as there are.
    (windows, if averages { 1 } else { taps })
}
