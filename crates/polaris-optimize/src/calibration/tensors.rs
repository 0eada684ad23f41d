//! The histograms of a model's tensors.

use std::collections::BTreeMap;

use super::{Calibrator, Histogram, Range, Source};
use crate::integer::Grid;
use crate::{Error, Result};

/// The values of a tensor: one histogram, or one for each channel.
#[derive(Debug, Clone, PartialEq)]
pub struct TensorHistogram {
    /// The axis of its channels, if they have ranges of their own.
    pub axis: Option<usize>,
    /// One for each channel; a single one without an axis.
    pub channels: Vec<Histogram>,
}

impl TensorHistogram {
    /// All channels together.
    pub fn whole(&self) -> Histogram {
        let mut channels = self.channels.iter();
        let mut whole = channels.next().cloned().unwrap_or_default();
        channels.for_each(|channel| whole.merge(channel));
        whole
    }
}

/// The histograms of a model's tensors by their names, with what they were made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Histograms {
    /// What computes the tensors: histograms of another model are not added to these.
    pub model: String,
    /// The data that has been counted.
    pub sources: Vec<Source>,
    pub(super) side: usize,
    pub(super) tensors: BTreeMap<String, TensorHistogram>,
}

impl Histograms {
    /// None yet, of a model; with so many bins on each side of zero, as [`Histogram::new`] takes them.
    pub fn new(model: &str, side: usize) -> Self {
        let side = Histogram::new(side).side();
        Self { model: model.to_owned(), sources: Vec::new(), side, tensors: BTreeMap::new() }
    }

    /// The tensors by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorHistogram)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// The histogram of a tensor.
    pub fn get(&self, name: &str) -> Option<&TensorHistogram> {
        self.tensors.get(name)
    }

    /// Bytes of memory that all of them take.
    pub fn bytes(&self) -> usize {
        let channels = self.tensors.values().flat_map(|tensor| &tensor.channels);
        channels.map(Histogram::bytes).sum()
    }

    /// Counts the values of a tensor, those of each index of an axis by themselves if one is named.
    ///
    /// # Errors
    /// If a value is not finite; if the tensor does not have the axis, or as many values as its shape says; if it had another
    /// axis or another number of channels before.
    pub fn observe(
        &mut self,
        name: &str,
        shape: &[usize],
        values: &[f32],
        axis: Option<usize>,
    ) -> Result<()> {
        let elements: usize = shape.iter().product();
        let length = axis.map_or(Some(1), |axis| shape.get(axis).copied());
        let Some(length) = length.filter(|_| elements == values.len()) else {
            return Err(Error::Activation {
                tensor: name.to_owned(),
                why: format!("{} values of shape {shape:?} have no axis {axis:?}", values.len()),
            });
        };
        let new = || TensorHistogram { axis, channels: vec![Histogram::new(self.side); length] };
        let tensor = match self.tensors.get_mut(name) {
            Some(tensor) => tensor,
            None => self.tensors.entry(name.to_owned()).or_insert_with(new),
        };
        check_channels(name, tensor, axis, length)?;
        if values.is_empty() {
            return Ok(());
        }
        let inner = match axis {
            Some(axis) => shape[axis + 1..].iter().product(),
            None => elements,
        };
        for (row, run) in values.chunks(inner).enumerate() {
            tensor.channels[row % length].observe(run).map_err(|at| {
                let (value, at) = (run[at], row * inner + at);
                Error::NotFiniteActivation { tensor: name.to_owned(), value, at }
            })?;
        }
        Ok(())
    }

    /// Adds those of other data.
    ///
    /// # Errors
    /// If they are those of another model, or have other bins or channels. Then nothing was added.
    pub fn merge(&mut self, other: &Self) -> Result<()> {
        if self.model != other.model {
            let (expected, found) = (self.model.clone(), other.model.clone());
            return Err(Error::OtherHistograms { expected, found });
        }
        if self.side != other.side {
            return Err(Error::Bins { expected: self.side, found: other.side });
        }
        for (name, more) in &other.tensors {
            if let Some(tensor) = self.tensors.get(name) {
                check_channels(name, tensor, more.axis, more.channels.len())?;
            }
        }
        for (name, more) in &other.tensors {
            match self.tensors.get_mut(name) {
                Some(tensor) => {
                    let pairs = tensor.channels.iter_mut().zip(&more.channels);
                    pairs.for_each(|(channel, more)| channel.merge(more));
                }
                None => {
                    self.tensors.insert(name.clone(), more.clone());
                }
            }
        }
        other.sources.iter().for_each(|source| self.add_source(source.clone()));
        Ok(())
    }

    /// The range of a tensor, whatever channels it has.
    ///
    /// # Errors
    /// If it has no values, or one value only; the error names it.
    pub fn range(&self, name: &str, calibrator: Calibrator, grid: Grid) -> Result<Range> {
        calibrator.check()?;
        grid.check()?;
        let whole = self.tensors.get(name).map(TensorHistogram::whole).unwrap_or_default();
        let empty = || Error::EmptyActivation { tensor: name.to_owned() };
        let (min, max) = whole.extremes().ok_or_else(empty)?;
        if min == max {
            let (tensor, count) = (name.to_owned(), whole.total());
            return Err(Error::ConstantActivation { tensor, value: min, count });
        }
        calibrator.range(&whole, grid).ok_or_else(empty)
    }

    /// The range of each channel of a tensor. A channel with one value only has a range that contains it.
    ///
    /// # Errors
    /// If a channel has no values; the error names the tensor.
    pub fn ranges(&self, name: &str, calibrator: Calibrator, grid: Grid) -> Result<Vec<Range>> {
        calibrator.check()?;
        grid.check()?;
        let channels = self.tensors.get(name).map_or(&[][..], |tensor| &tensor.channels);
        let empty = || Error::EmptyActivation { tensor: name.to_owned() };
        if channels.is_empty() {
            return Err(empty());
        }
        let range = |channel| calibrator.range(channel, grid).ok_or_else(empty);
        channels.iter().map(range).collect()
    }
}

fn check_channels(
    name: &str,
    tensor: &TensorHistogram,
    axis: Option<usize>,
    length: usize,
) -> Result<()> {
    if (tensor.axis, tensor.channels.len()) == (axis, length) {
        return Ok(());
    }
    let in_words = |axis: Option<usize>, length: usize| match axis {
        Some(axis) => format!("{length} channels along axis {axis}"),
        None => "no channels".to_owned(),
    };
    let (before, now) = (in_words(tensor.axis, tensor.channels.len()), in_words(axis, length));
    Err(Error::Activation { tensor: name.to_owned(), why: format!("{now}, but {before} before") })
}
