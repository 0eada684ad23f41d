//! Tuning decisions: those of this machine, then those that come with Polaris for this chip, its architecture or its
//! vendor. Nothing is measured here.
//!
//! A choice names its problem by operation, type, layout and shape:
//!
//! | Operation | Shape | Layout | Parameters |
//! |---|---|---|---|
//! | `matmul` | m, n, k | `nn`, `nt`, `tn`, `tt` | [`Tile`] |
//! | `gemv` | vectors, lines, k | `dots`: the matrix lies along k, or `columns` | [`Skinny`] |
//! | `reduce` | outputs, elements of each | `rows`: dense, or `axes` | [`Grouping`] |
//! | `permute` | outer, width, height | `t` | [`Tiling`] |
//!
//! Types have the names of [`DType::name`]. For products it is that of the first factor; for
//! reductions, all of which follow what was decided for sums, that of the input.

use polaris_core::DType;
use polaris_runtime::Device;
use polaris_runtime::opencl::OpenClDevice;
use polaris_tune::choices::{Choice, Choices};

use crate::copy::{Tiling, tiling_of};
use crate::matmul::{Skinny, Tile, skinny_of, tile_of};
use crate::reduce::{Grouping, grouping_of};

/// Choices that come with Polaris, by the chip, architecture or maker they are for.
const SHIPPED: &[(&str, &str)] = &[
    ("nvidia-h200", include_str!("../../../../tuning/nvidia-h200.json")),
    ("gfx803", include_str!("../../../../tuning/gfx803.json")),
];

/// How far, in doublings of all sizes together, a shape may be from one that was measured.
const NEAR: f32 = 1.0;
/// The same for predictions, which are made for powers of two: none is farther away.
const NEAR_PREDICTED: f32 = 1.5;

/// The kernels that are tuned, by the operation that they are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    MatMul,
    Gemv,
    Reduce,
    Permute,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parameters {
    Tile(Tile),
    Skinny(Skinny),
    Grouping(Grouping),
    Tiling(Tiling),
}

/// What a decision is for. Sizes that the operation has not got are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    pub family: Family,
    pub dtype: DType,
    pub layout: Letters,
    pub sizes: [usize; 3],
}

/// The name of a layout, with zeros behind it.
pub type Letters = [u8; 8];

/// The name of a layout; what does not fit is cut off, and then is not a layout's name.
pub const fn letters(name: &[u8]) -> Letters {
    let mut letters = [0; 8];
    let mut at = 0;
    while at < name.len() && at < letters.len() {
        letters[at] = name[at];
        at += 1;
    }
    letters
}

/// One decision.
#[derive(Debug, Clone, Copy)]
struct Entry {
    problem: Problem,
    logs: [f32; 3],
    predicted: bool,
    /// None where the default is best.
    parameters: Option<Parameters>,
}

/// The decisions for one device and all operations, nearest origin first.
#[derive(Debug, Default)]
struct Decisions {
    origins: Vec<Origin>,
}

/// Decisions that come from one place.
#[derive(Debug)]
struct Origin {
    /// The chip, architecture or maker whose choices came with Polaris; none for this machine's.
    shipped_for: Option<&'static str>,
    entries: Vec<Entry>,
}

/// Where the decision for a product comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explanation {
    /// The chip, architecture or maker whose choices came with Polaris; none if it was decided on
    /// this machine.
    pub shipped_for: Option<&'static str>,
    /// The shape that it was decided for: m, n, k.
    pub sizes: [usize; 3],
    /// Whether a model said so and nothing was measured.
    pub predicted: bool,
    /// The tile; none where the default is best.
    pub tile: Option<Tile>,
}

/// The decision for a problem. None if no shape like it was tuned, or the default is best.
pub fn decided(device: &OpenClDevice, problem: &Problem) -> Option<Parameters> {
    of(device)?.find(problem)?.1.parameters
}

/// The decision for a product, and where it comes from. None if no shape like it was tuned.
pub fn explain(
    device: &OpenClDevice,
    dtype: DType,
    layout: &str,
    sizes: [usize; 3],
) -> Option<Explanation> {
    let layout = letters(layout.as_bytes());
    let problem = Problem { family: Family::MatMul, dtype, layout, sizes };
    let (origin, entry) = of(device)?.find(&problem)?;
    let tile = match entry.parameters {
        Some(Parameters::Tile(tile)) => Some(tile),
        _ => None,
    };
    let (shipped_for, predicted) = (origin.shipped_for, entry.predicted);
    Some(Explanation { shipped_for, sizes: entry.problem.sizes, predicted, tile })
}

/// Whether anything was decided for a family. Where nothing was, callers need not describe their
/// problem.
pub fn has_decisions(device: &OpenClDevice, family: Family) -> bool {
    let is_for = |entry: &Entry| entry.problem.family == family;
    let any = |origin: &Origin| origin.entries.iter().any(is_for);
    of(device).is_some_and(|decisions| decisions.origins.iter().any(any))
}

fn of(device: &OpenClDevice) -> Option<&Decisions> {
    device.attached(|| Decisions::load(device))
}

/// The entry for these sizes, or for the nearest ones that are as well aligned: measured ones
/// before predicted ones.
fn find<'a>(entries: &'a [Entry], problem: &Problem) -> Option<&'a Entry> {
    let logs = logs(problem.sizes);
    let aligned = problem.sizes.map(|size| size.is_multiple_of(4));
    let mut best: Option<((bool, f32), &Entry)> = None;
    for entry in entries {
        let Problem { family, dtype, layout, sizes } = entry.problem;
        if family != problem.family || dtype != problem.dtype || layout != problem.layout {
            continue;
        }
        if sizes == problem.sizes && !entry.predicted {
            return Some(entry);
        }
        let distance: f32 = entry.logs.iter().zip(logs).map(|(a, b)| (a - b).abs()).sum();
        let limit = if entry.predicted { NEAR_PREDICTED } else { NEAR };
        let is_near = distance <= limit && sizes.map(|size| size.is_multiple_of(4)) == aligned;
        let rank = (entry.predicted, distance);
        if is_near && best.is_none_or(|(least, _)| rank < least) {
            best = Some((rank, entry));
        }
    }
    best.map(|(_, entry)| entry)
}

fn logs(sizes: [usize; 3]) -> [f32; 3] {
    sizes.map(|size| (size.max(1) as f32).log2())
}

impl Decisions {
    fn load(device: &OpenClDevice) -> Self {
        if std::env::var("POLARIS_TUNING").is_ok_and(|value| value.eq_ignore_ascii_case("off")) {
            return Self::default();
        }
        let chip = &device.info().chip;
        let own = device.tuning_folder();
        let own = own.map(|folder| (None, Choices::load(&Choices::file(folder, &chip.key))));
        let maker = chip.vendor.to_string().to_lowercase();
        let shipped = [&chip.key, &chip.architecture, &maker].into_iter().filter_map(|name| {
            let found = SHIPPED.iter().find(|(shipped, _)| shipped == name);
            found.map(|(name, text)| (Some(*name), Choices::from_json(text)))
        });
        let origins = own.into_iter().chain(shipped).map(|(shipped_for, choices)| {
            let entries = choices.choices.iter().filter_map(|choice| entry(device, choice));
            Origin { shipped_for, entries: entries.collect() }
        });
        Self { origins: origins.filter(|origin| !origin.entries.is_empty()).collect() }
    }

    fn find(&self, problem: &Problem) -> Option<(&Origin, &Entry)> {
        self.origins.iter().find_map(|origin| Some((origin, find(&origin.entries, problem)?)))
    }
}

/// A choice as an entry; nothing if it is for something else or this device cannot do it.
fn entry(device: &OpenClDevice, choice: &Choice) -> Option<Entry> {
    let problem = problem_of(choice)?;
    let parameters = match &choice.config {
        Some(config) => {
            Some(parameters(device, problem.family, &|name| config.get(name).copied())?)
        }
        None => None,
    };
    Some(Entry { problem, logs: logs(problem.sizes), predicted: choice.predicted, parameters })
}

/// What a choice is for; nothing if no operation has such problems.
fn problem_of(choice: &Choice) -> Option<Problem> {
    let key = &choice.problem;
    let (family, rank) = match key.operation.as_str() {
        "matmul" => (Family::MatMul, 3),
        "gemv" => (Family::Gemv, 3),
        "reduce" => (Family::Reduce, 2),
        "permute" => (Family::Permute, 3),
        _ => return None,
    };
    if key.shape.len() != rank {
        return None;
    }
    let dtype = DType::ALL.iter().copied().find(|dtype| dtype.name() == key.dtype)?;
    let size = |axis: usize| key.shape.get(axis).map_or(1, |&size| size as usize);
    let layout = letters(key.layout.as_bytes());
    Some(Problem { family, dtype, layout, sizes: [0, 1, 2].map(size) })
}

fn parameters(
    device: &OpenClDevice,
    family: Family,
    config: &dyn Fn(&str) -> Option<i64>,
) -> Option<Parameters> {
    match family {
        Family::MatMul => tile_of(device, config).map(Parameters::Tile),
        Family::Gemv => skinny_of(device, config).map(Parameters::Skinny),
        Family::Reduce => grouping_of(device, config).map(Parameters::Grouping),
        Family::Permute => tiling_of(device, config).map(Parameters::Tiling),
    }
}

#[cfg(test)]
mod tests {
    use polaris_tune::ProblemKey;

    use super::*;

    fn problem(sizes: [usize; 3]) -> Problem {
        Problem { family: Family::MatMul, dtype: DType::F32, layout: letters(b"nn"), sizes }
    }

    #[test]
    fn what_is_shipped_can_be_read() {
        for (name, text) in SHIPPED {
            let choices = Choices::from_json(text).choices;
            assert!(!choices.is_empty(), "{name}");
            for choice in choices {
                assert!(problem_of(&choice).is_some(), "{name}: {choice:?}");
                assert!(choice.seconds <= choice.default_seconds, "{name}: {choice:?}");
            }
        }
    }

    #[test]
    fn problems_are_read_as_they_are_written() {
        let read = |operation: &str, dtype: &str, layout: &str, shape: &[u64]| {
            let key = ProblemKey {
                operation: operation.into(),
                dtype: dtype.into(),
                layout: layout.into(),
                shape: shape.into(),
            };
            problem_of(&Choice {
                problem: key,
                config: None,
                seconds: 1.0,
                default_seconds: 1.0,
                driver: String::new(),
                source: String::new(),
                predicted: false,
            })
        };
        let expected = |family, dtype, layout: &str, sizes| {
            Some(Problem { family, dtype, layout: letters(layout.as_bytes()), sizes })
        };
        let (f32, f16) = (DType::F32, DType::F16);
        let product = expected(Family::MatMul, f32, "nt", [64, 32, 16]);
        assert_eq!(read("matmul", "f32", "nt", &[64, 32, 16]), product);
        let vector = expected(Family::Gemv, f16, "columns", [1, 4096, 11008]);
        assert_eq!(read("gemv", "f16", "columns", &[1, 4096, 11008]), vector);
        let sum = expected(Family::Reduce, f32, "rows", [7, 1000, 1]);
        assert_eq!(read("reduce", "f32", "rows", &[7, 1000]), sum);
        let turned = expected(Family::Permute, f32, "t", [2, 30, 40]);
        assert_eq!(read("permute", "f32", "t", &[2, 30, 40]), turned);
        assert_eq!(read("reduce", "f32", "rows", &[7, 1000, 1]), None);
        assert_eq!(read("gemv", "f32", "dots", &[]), None);
        assert_eq!(read("matmul", "f31", "nn", &[1, 1, 1]), None);
        assert_eq!(read("sort", "f32", "rows", &[7, 1000]), None);
    }

    #[test]
    fn the_nearest_shape_with_the_same_alignment_is_taken() {
        let tile = |m| Some(Parameters::Tile(Tile::new(m, 64, 16, 8, 8)));
        let entry = |size: usize, parameters| Entry {
            problem: problem([size; 3]),
            logs: logs([size; 3]),
            predicted: false,
            parameters,
        };
        let entries = [entry(512, tile(32)), entry(1024, tile(64)), entry(1023, None)];
        let found = |sizes| find(&entries, &problem(sizes)).map(|entry| entry.parameters);
        assert_eq!(found([512; 3]), Some(tile(32)));
        assert_eq!(found([1000; 3]), Some(tile(64)));
        assert_eq!(found([1021; 3]), Some(None));
        assert_eq!(found([64; 3]), None);
        let here = problem([512; 3]);
        assert!(find(&entries, &Problem { dtype: DType::F16, ..here }).is_none());
        assert!(find(&entries, &Problem { layout: letters(b"nt"), ..here }).is_none());
        assert!(find(&entries, &Problem { family: Family::Permute, ..here }).is_none());
        let guess = Entry { predicted: true, ..entry(1024, tile(128)) };
        let guesses = [guess, entry(768, tile(96))];
        let found = |sizes| find(&guesses, &problem(sizes)).map(|entry| entry.parameters);
        assert_eq!(found([900; 3]), Some(tile(96)), "measured before predicted");
        assert_eq!(found([1024, 1024, 2048]), Some(tile(128)), "too far from what was measured");
        assert_eq!(found([4096; 3]), None);
    }
}
