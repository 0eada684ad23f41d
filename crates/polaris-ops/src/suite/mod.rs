//! Test cases of operations, for tests and device checks.
//!
//! A case is an operation with arrays of some layouts, offsets and values. It is run with every
//! kernel that supports it, between guard zones, over dirty memory, and compared with the
//! operation's `f64` reference. The cases of an operation are in its folder (`suite.rs`).

mod case;
mod operand;
mod tolerance;
mod values;

pub use case::{Case, Finding};
pub use operand::{Arrangement, Operand};
pub use tolerance::{Tolerance, agrees};
pub(crate) use values::rounded;
pub use values::{Domain, Numbers};

/// What a case is made of. The same parameters mean a case of every operation.
#[derive(Debug, Clone)]
pub struct CaseParameters {
    /// The shape of the output, or of a reduction's input.
    pub shape: Vec<usize>,
    /// The layouts of the inputs.
    pub inputs: [Arrangement; 3],
    /// The layout of the output.
    pub output: Arrangement,
    /// Axes of a reduction, as a bit mask.
    pub axes: u8,
    /// Whether NaN, infinities and extreme values occur.
    pub special: bool,
    /// Draws the values.
    pub seed: u64,
}

/// The kernel that a name in quarantine stands for: the name itself, `<op>_<dtype>_<variant>`,
/// without what is open-ended in it, the expression of a fused operation and the activation of a
/// fused convolution.
pub fn kernel_of(name: &str) -> String {
    let parts: Vec<&str> = name.split('_').collect();
    match parts.as_slice() {
        ["fused", "convolution", dtype, variant, ..] => {
            format!("fused_convolution_{dtype}_{variant}")
        }
        ["fused", _expression, dtype, variant] => format!("fused_{dtype}_{variant}"),
        _ => name.to_owned(),
    }
}

impl CaseParameters {
    /// Dense arrays of a shape without special values.
    pub fn dense(shape: &[usize], axes: u8, seed: u64) -> Self {
        let (shape, [a, b, c, output]) = (shape.to_vec(), Default::default());
        Self { shape, inputs: [a, b, c], output, axes, special: false, seed }
    }

    /// A fixed set that meets every kind of kernel: dense and odd, repeated values, transposed,
    /// padded at odd offsets, long in one direction, and hardly there at all.
    pub fn fixed() -> Vec<Self> {
        let dense = Arrangement::default();
        let new = Self::dense;
        let mut all = vec![
            Self { special: true, ..new(&[1031], 1, 1) },
            new(&[3, 5, 70], 0b100, 2),
            new(&[600, 40], 0b01, 3),
            new(&[2, 0, 3], 0b001, 4),
            new(&[], 0, 5),
            new(&[5000], 1, 6),
        ];
        let mut repeated = new(&[7, 33], 0b11, 7);
        repeated.inputs[1] = Arrangement { missing_axes: 1, ..dense.clone() };
        repeated.inputs[2] = Arrangement { broadcast: 0b11, ..dense.clone() };
        let mut transposed = Self { special: true, ..new(&[37, 65], 0b10, 8) };
        transposed.inputs[0].transposed = true;
        let mut scattered = new(&[4, 9, 35], 0b101, 9);
        scattered.inputs[0] = Arrangement { offset: 3, gap: 1, ..dense.clone() };
        scattered.inputs[1] = Arrangement { broadcast: 0b010, padding: 2, ..dense.clone() };
        scattered.inputs[2] = Arrangement { offset: 1, transposed: true, ..dense.clone() };
        scattered.output = Arrangement { offset: 5, padding: 3, transposed: true, ..dense.clone() };
        all.extend([repeated, transposed, scattered]);
        all
    }

    /// Parameters drawn at random, for property tests. Small dimensions, since borders are where things
    /// go wrong, with now and then a long one.
    pub fn drawn(seed: u64) -> Self {
        let numbers = &mut Numbers::new(seed);
        let mut shape: Vec<usize> = (0..numbers.below(5)).map(|_| drawn_length(numbers)).collect();
        while shape.iter().product::<usize>() > 6_000 {
            shape.pop();
        }
        let inputs = std::array::from_fn(|_| {
            let arrangement = drawn_arrangement(numbers);
            let broadcast = if numbers.below(3) == 0 { numbers.below(256) as u8 } else { 0 };
            let missing_axes =
                if numbers.below(5) == 0 { 1 + numbers.below(2) as usize } else { 0 };
            Arrangement { broadcast, missing_axes, ..arrangement }
        });
        Self {
            shape,
            inputs,
            output: drawn_arrangement(numbers),
            axes: numbers.below(256) as u8,
            special: numbers.below(2) == 1,
            seed: numbers.bits(),
        }
    }
}

/// Of 13 lengths 8 are below 9, 3 below 70, one is zero, and one is long.
fn drawn_length(numbers: &mut Numbers) -> usize {
    let [low, high] = match numbers.below(13) {
        0..8 => [1, 9],
        8..11 => [10, 70],
        11 => return 0,
        _ => [100, 400],
    };
    low + numbers.below((high - low) as u64) as usize
}

fn drawn_arrangement(numbers: &mut Numbers) -> Arrangement {
    let mut small = || match numbers.below(4) {
        0 => 1 + numbers.below(5) as usize,
        _ => 0,
    };
    let [offset, gap, padding] = [small(), small().min(2), small()];
    let transposed = numbers.below(10) < 3;
    Arrangement { offset, transposed, gap, padding, ..Arrangement::default() }
}
