//! Data sets in memory: from values, from arrays on disk, and (in `table.rs`) from tables.

use std::path::Path;

use crate::classes::Classes;
use crate::npy::NpyArray;
use crate::{Dataset, Error, Kind, Result, Spec, Values, names};

/// What targets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Target {
    /// Each a class: one of a few names or whole numbers.
    #[default]
    Class,
    /// Numbers to be approximated, as `f32`.
    Number,
    /// Whole numbers as they are, as `i64`: tokens, or a class per pixel.
    Integers,
}

/// How arrays become a data set.
#[derive(Debug, Clone)]
pub struct ArrayOptions {
    /// The kind of the inputs: `f32` (default), or `i64` for what is looked up, such as tokens.
    pub input_kind: Kind,
    /// What the targets are.
    pub target: Target,
    /// The classes, in order. By default they are those found, sorted. Give those of the training
    /// data when reading test data, so that a class missing there does not shift the others.
    pub classes: Option<Vec<String>>,
    /// The dimensions of each input, such as `[1, 8, 8]` for rows of 64 numbers. By default
    /// those of the array but the first.
    pub input_dims: Option<Vec<usize>>,
    /// What inputs are multiplied with, such as 1/255.
    pub scale: Option<f32>,
}

impl Default for ArrayOptions {
    fn default() -> Self {
        ArrayOptions {
            input_kind: Kind::F32,
            target: Target::default(),
            classes: None,
            input_dims: None,
            scale: None,
        }
    }
}

impl ArrayOptions {
    /// The kind in which targets are stored.
    pub(crate) fn target_kind(&self) -> Kind {
        match self.target {
            Target::Class | Target::Integers => Kind::I64,
            Target::Number => Kind::F32,
        }
    }
}

/// A data set in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrayDataset {
    len: usize,
    input: Spec,
    target: Spec,
    inputs: Values,
    targets: Values,
    input_elements: usize,
    target_elements: usize,
    classes: Vec<String>,
}

impl ArrayDataset {
    /// A data set of the examples that lie one after the other in `inputs` and `targets`.
    ///
    /// With `classes` the targets must be scalars of kind `i64` that count them from 0; without,
    /// they are whatever they are.
    pub fn new(
        input: Spec,
        inputs: Values,
        target: Spec,
        targets: Values,
        classes: Vec<String>,
    ) -> Result<Self> {
        let (input_elements, target_elements) = (input.elements()?, target.elements()?);
        for (what, spec, values) in [("inputs", &input, &inputs), ("targets", &target, &targets)] {
            if values.kind() != spec.kind {
                return Err(Error::KindMismatch {
                    what: what.into(),
                    expected: spec.kind,
                    found: values.kind(),
                });
            }
        }
        let len = inputs.len() / input_elements;
        let counts = [
            ("input values", len.checked_mul(input_elements), inputs.len()),
            ("target values", len.checked_mul(target_elements), targets.len()),
        ];
        for (what, expected, found) in counts {
            if expected != Some(found) {
                return Err(Error::CountMismatch {
                    what: format!(
                        "{what} of {len} examples, inputs {:?}, targets {:?}",
                        input.dims, target.dims
                    ),
                    expected: expected.unwrap_or(usize::MAX),
                    found,
                    hint: "give as many inputs as targets, each complete",
                });
            }
        }
        if !classes.is_empty() {
            if !target.dims.is_empty() {
                return Err(Error::BadDims { dims: target.dims });
            }
            let labels = targets.as_i64().ok_or(Error::KindMismatch {
                what: "targets that are classes".into(),
                expected: Kind::I64,
                found: targets.kind(),
            })?;
            let inside = |c: i64| usize::try_from(c).is_ok_and(|c| c < classes.len());
            if let Some(index) = labels.iter().position(|&c| !inside(c)) {
                let class = labels[index];
                return Err(Error::ClassOutOfRange { index, class, classes: classes.len() });
            }
        }
        Ok(ArrayDataset {
            len,
            input,
            target,
            inputs,
            targets,
            input_elements,
            target_elements,
            classes,
        })
    }

    /// A data set of two arrays whose first dimension counts the examples.
    pub(crate) fn from_arrays(
        (inputs_path, inputs): (&Path, NpyArray),
        (targets_path, targets): (&Path, NpyArray),
        options: &ArrayOptions,
    ) -> Result<Self> {
        let scalar = |path: &Path| Error::Format {
            path: path.into(),
            format: "array",
            reason: "it is a scalar; its first dimension should be the examples".into(),
        };
        let (&len, row) = inputs.dims.split_first().ok_or_else(|| scalar(inputs_path))?;
        let (&labels, rest) = targets.dims.split_first().ok_or_else(|| scalar(targets_path))?;
        if len != labels {
            return Err(Error::CountMismatch {
                what: format!(
                    "targets in {} for the inputs of {}",
                    targets_path.display(),
                    inputs_path.display()
                ),
                expected: len,
                found: labels,
                hint: "the first dimension of both must be the examples",
            });
        }
        if len == 0 {
            return Err(Error::Empty {
                path: inputs_path.into(),
                reason: format!("the array has dimensions {:?}", inputs.dims),
            });
        }
        let input = input_spec(Spec::new(row, inputs.values.kind()), options)?;
        let mut values = inputs.values;
        scale(&mut values, options.scale)?;
        let (targets, classes, dims) = match (options.target, targets.values) {
            (Target::Class, Values::I64(labels)) => {
                // One label per example, also as a column: [n] or [n, 1].
                if rest.iter().any(|&d| d != 1) {
                    return Err(Error::CountMismatch {
                        what: format!("classes per example in {}", targets_path.display()),
                        expected: 1,
                        found: rest.iter().product(),
                        hint: "read targets that are not classes as floats or integers",
                    });
                }
                let (labels, classes) = classify(targets_path, labels, options)?;
                (Values::I64(labels), classes, vec![])
            }
            (_, values) => (values, vec![], rest.to_vec()),
        };
        let target = Spec::new(dims, targets.kind());
        Self::new(input, values, target, targets, classes)
    }

    /// All inputs, one after the other.
    pub fn inputs(&self) -> &Values {
        &self.inputs
    }

    /// All targets, one after the other.
    pub fn targets(&self) -> &Values {
        &self.targets
    }
}

/// What inputs look like after reshaping.
pub(crate) fn input_spec(found: Spec, options: &ArrayOptions) -> Result<Spec> {
    let elements = found.elements()?;
    let Some(dims) = &options.input_dims else { return Ok(found) };
    let wanted = Spec::new(dims.as_slice(), found.kind);
    if wanted.elements()? != elements {
        return Err(Error::CountMismatch {
            what: format!("values per example for input_dims {dims:?}"),
            expected: wanted.elements()?,
            found: elements,
            hint: "the product of input_dims must be what an example has",
        });
    }
    Ok(wanted)
}

/// Multiplies inputs.
pub(crate) fn scale(values: &mut Values, scale: Option<f32>) -> Result<()> {
    let Some(scale) = scale else { return Ok(()) };
    let bad = |reason: &str| Error::BadOption {
        option: "scale",
        value: scale.to_string(),
        reason: reason.into(),
    };
    if !scale.is_finite() {
        return Err(bad("it must be a finite number"));
    }
    match values {
        Values::F32(values) => values.iter_mut().for_each(|x| *x *= scale),
        Values::I64(_) => return Err(bad("inputs of kind i64 are not scaled; leave it out")),
    }
    Ok(())
}

/// Turns whole numbers into classes.
fn classify(
    path: &Path,
    mut labels: Vec<i64>,
    options: &ArrayOptions,
) -> Result<(Vec<i64>, Vec<String>)> {
    let mut classes = Classes::new(options.classes.as_deref())?;
    for label in &mut labels {
        let name = label.to_string();
        let number = classes
            .number(&name)
            .ok_or_else(|| names::unknown(path, "class", classes.names(), &name))?;
        *label = number as i64;
    }
    let names = classes.finish(&mut labels);
    Ok((labels, names))
}

impl Dataset for ArrayDataset {
    fn len(&self) -> usize {
        self.len
    }

    fn input(&self) -> &Spec {
        &self.input
    }

    fn target(&self) -> &Spec {
        &self.target
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn label(&self, index: usize) -> Option<usize> {
        if self.classes.is_empty() {
            return None;
        }
        self.targets.as_i64()?.get(index).map(|&class| class as usize)
    }

    fn append(&self, index: usize, input: &mut Values, target: &mut Values) -> Result<()> {
        if index >= self.len {
            return Err(Error::IndexOutOfRange { index, len: self.len });
        }
        input.append_range(&self.inputs, index * self.input_elements, self.input_elements)?;
        target.append_range(&self.targets, index * self.target_elements, self.target_elements)
    }
}
