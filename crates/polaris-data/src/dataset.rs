//! The `Dataset` trait: examples by index, all of one shape, with or without classes.

use crate::{Error, Result, memory};

/// Of which kind the numbers are. Two are enough: what a network computes with, and what it
/// looks up (classes, tokens).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 32-bit floating point.
    F32,
    /// 64-bit integers.
    I64,
}

impl Kind {
    /// Bytes of a number.
    pub(crate) fn size(self) -> usize {
        match self {
            Kind::F32 => 4,
            Kind::I64 => 8,
        }
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Kind::F32 => "f32",
            Kind::I64 => "i64",
        })
    }
}

/// The numbers of a batch or an example, in one of two kinds.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Floating-point numbers.
    F32(Vec<f32>),
    /// Integers.
    I64(Vec<i64>),
}

impl Values {
    /// No numbers yet, of a kind.
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::F32 => Values::F32(Vec::new()),
            Kind::I64 => Values::I64(Vec::new()),
        }
    }

    /// Makes room for `count` more numbers, or says why there is none.
    pub(crate) fn try_reserve(&mut self, count: usize) -> std::result::Result<(), String> {
        memory::require(count as u64 * self.kind().size() as u64)?;
        let reserved = match self {
            Values::F32(values) => values.try_reserve_exact(count),
            Values::I64(values) => values.try_reserve_exact(count),
        };
        reserved.map_err(|error| error.to_string())
    }

    /// Of which kind they are.
    pub fn kind(&self) -> Kind {
        match self {
            Values::F32(_) => Kind::F32,
            Values::I64(_) => Kind::I64,
        }
    }

    /// How many numbers there are.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::I64(values) => values.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers, if they are floating point.
    pub fn as_f32(&self) -> Option<&[f32]> {
        match self {
            Values::F32(values) => Some(values),
            Values::I64(_) => None,
        }
    }

    /// The numbers, if they are integers.
    pub fn as_i64(&self) -> Option<&[i64]> {
        match self {
            Values::F32(_) => None,
            Values::I64(values) => Some(values),
        }
    }

    /// Appends `from[start..start + count]`; both must be of one kind.
    pub(crate) fn append_range(&mut self, from: &Values, start: usize, count: usize) -> Result<()> {
        let missing = || Error::IndexOutOfRange { index: start + count, len: from.len() };
        match (self, from) {
            (Values::F32(to), Values::F32(from)) => {
                to.extend_from_slice(from.get(start..start + count).ok_or_else(missing)?);
            }
            (Values::I64(to), Values::I64(from)) => {
                to.extend_from_slice(from.get(start..start + count).ok_or_else(missing)?);
            }
            (to, from) => {
                return Err(Error::KindMismatch {
                    what: "the values to append to".into(),
                    expected: from.kind(),
                    found: to.kind(),
                });
            }
        }
        Ok(())
    }
}

impl From<Vec<f32>> for Values {
    fn from(values: Vec<f32>) -> Self {
        Values::F32(values)
    }
}

impl From<Vec<i64>> for Values {
    fn from(values: Vec<i64>) -> Self {
        Values::I64(values)
    }
}

/// What every example has: its dimensions and kind. Scalars (a class) have no dimensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// The dimensions of one example.
    pub dims: Vec<usize>,
    /// The kind of its numbers.
    pub kind: Kind,
}

impl Spec {
    /// Dimensions and kind.
    pub fn new(dims: impl Into<Vec<usize>>, kind: Kind) -> Self {
        Spec { dims: dims.into(), kind }
    }

    /// How many numbers an example has; an error where the dimensions hold nothing or more than
    /// can be addressed, so that no one divides by zero or allocates by an overflowed product.
    pub fn elements(&self) -> Result<usize> {
        match self.dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d)) {
            Some(n) if n > 0 && n <= isize::MAX as usize / 8 => Ok(n),
            _ => Err(Error::BadDims { dims: self.dims.clone() }),
        }
    }
}

/// Examples by index.
///
/// Implementations are read from several threads at once, and an example must be the same each
/// time it is read: randomness belongs to the loader, which can repeat it.
pub trait Dataset: Send + Sync {
    /// How many examples there are.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What every input looks like.
    fn input(&self) -> &Spec;

    /// What every target looks like.
    fn target(&self) -> &Spec;

    /// Names of the classes; empty if targets are not classes.
    fn classes(&self) -> &[String];

    /// The class of an example, without reading it; `None` if targets are not classes.
    fn label(&self, index: usize) -> Option<usize>;

    /// Appends one example: exactly as many numbers as [`Dataset::input`] and
    /// [`Dataset::target`] promise.
    fn append(&self, index: usize, input: &mut Values, target: &mut Values) -> Result<()>;
}

/// Several examples side by side.
#[derive(Debug, Clone, PartialEq)]
pub struct Batch {
    /// How many examples.
    pub size: usize,
    /// Their inputs, one after the other.
    pub inputs: Values,
    /// The dimensions of the inputs, with the batch first.
    pub input_dims: Vec<usize>,
    /// Their targets, one after the other.
    pub targets: Values,
    /// The dimensions of the targets, with the batch first.
    pub target_dims: Vec<usize>,
    /// Which examples they are, as indices into the data set.
    pub indices: Vec<usize>,
}

impl Batch {
    /// A batch of values and their dimensions, whose first counts the examples. The examples are numbered
    /// from 0.
    ///
    /// # Errors
    /// If values and dimensions do not go together.
    pub fn new(
        inputs: impl Into<Values>,
        input_dims: &[usize],
        targets: impl Into<Values>,
        target_dims: &[usize],
    ) -> Result<Self> {
        let size = input_dims.first().copied().unwrap_or(0);
        let mut batch = Batch {
            size,
            inputs: inputs.into(),
            input_dims: input_dims.to_vec(),
            targets: targets.into(),
            target_dims: target_dims.to_vec(),
            indices: Vec::new(),
        };
        batch.check_values()?;
        // Only now is the size known to be that of something that is there.
        batch.indices = (0..size).collect();
        Ok(batch)
    }

    /// Checks that values, dimensions, size and indices go together: batches are anyone's code, and one number
    /// too few would shift every example after it.
    ///
    /// # Errors
    /// What does not fit.
    pub fn check(&self) -> Result<()> {
        self.check_values()?;
        same_count("indices of examples", self.size, self.indices.len())
    }

    fn check_values(&self) -> Result<()> {
        for (what, dims, values) in [
            ("inputs", &self.input_dims, &self.inputs),
            ("targets", &self.target_dims, &self.targets),
        ] {
            let expected = Spec::new(dims.as_slice(), values.kind()).elements()?;
            same_count(format!("values of {what} {dims:?}"), expected, values.len())?;
            let examples = dims.first().copied().unwrap_or(0);
            same_count(format!("examples in {what} {dims:?}"), self.size, examples)?;
        }
        Ok(())
    }
}

fn same_count(what: impl Into<String>, expected: usize, found: usize) -> Result<()> {
    if expected == found {
        return Ok(());
    }
    let hint = "the first dimension counts the examples, the product of all counts the values";
    Err(Error::CountMismatch { what: what.into(), expected, found, hint })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_are_refused_unless_values_and_dimensions_go_together() {
        let batch = Batch::new(vec![0.0f32; 6], &[2, 3], vec![0i64; 2], &[2]).unwrap();
        assert_eq!((batch.size, batch.indices.len()), (2, 2));
        assert!(Batch { indices: vec![0], ..batch }.check().is_err());
        let refused = |inputs: &[usize], targets: &[usize]| {
            Batch::new(vec![0.0f32; 6], inputs, vec![0i64; 2], targets).unwrap_err().to_string()
        };
        assert!(refused(&[2, 4], &[2]).contains("values of inputs [2, 4]: 8"));
        assert!(refused(&[2, 3], &[1, 2]).contains("examples in targets"));
        for dims in [&[][..], &[0, 3], &[usize::MAX, 3]] {
            refused(dims, &[2]);
        }
    }
}
