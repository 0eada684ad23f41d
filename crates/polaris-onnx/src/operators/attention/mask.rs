//! Which keys a query may see.

use super::super::walk;
use crate::{ElementType, Error, Result, Tensor};

/// What is added to scores of the shape batch, head, query, key.
pub struct Mask {
    /// A table, with its place for each score.
    table: Option<(Vec<f64>, Vec<usize>)>,
    /// Keys before the first query, if a query sees no later keys.
    causal: Option<usize>,
    /// Keys that count, for each of the batch.
    counts: Option<Vec<usize>>,
    shape: [usize; 4],
}

impl Mask {
    pub fn new(shape: [usize; 4], causal: Option<usize>) -> Self {
        Self { table: None, causal, counts: None, shape }
    }

    /// Adds a table: bools that say which keys are seen, or numbers. Keys beyond its end are not seen.
    pub fn with_table(mut self, table: &Tensor) -> Result<Self> {
        let mut values = table.to_f64()?;
        if table.element() == ElementType::Bool {
            for value in &mut values {
                *value = if *value == 0.0 { f64::NEG_INFINITY } else { 0.0 };
            }
        }
        let mut shape = table.shape().to_vec();
        let keys = self.shape[3];
        if let Some(last) = shape.last_mut()
            && *last < keys
        {
            let mut wide = Vec::new();
            for row in 0..values.len() / (*last).max(1) {
                wide.extend_from_slice(&values[row * *last..(row + 1) * *last]);
                wide.extend(std::iter::repeat_n(f64::NEG_INFINITY, keys - *last));
            }
            (*last, values) = (keys, wide);
        }
        let fits = shape.len() <= 4
            && walk::broadcast_shapes(&[&shape, &self.shape]).is_ok_and(|all| all == self.shape)
            && values.len() == shape.iter().product::<usize>();
        if !fits {
            let (found, wanted) = (table.shape(), self.shape);
            return Err(Error::operands(format!(
                "a mask of {found:?} does not broadcast to {wanted:?}"
            )));
        }
        let places = walk::broadcast_places(&shape, &self.shape)?;
        self.table = Some((values, places));
        Ok(self)
    }

    /// Lets only the first keys of each of the batch be seen.
    pub fn with_counts(mut self, counts: &Tensor) -> Result<Self> {
        if counts.shape() != [self.shape[0]] {
            let why =
                format!("one length for each of the batch was expected: {:?}", counts.shape());
            return Err(Error::operands(why));
        }
        let counts = counts.to_i64()?.into_iter();
        self.counts = Some(counts.map(|count| usize::try_from(count).unwrap_or(0)).collect());
        Ok(self)
    }

    pub fn apply(&self, scores: &mut [f64]) {
        let [_, heads, queries, keys] = self.shape;
        if let Some((values, places)) = &self.table {
            for (score, &place) in scores.iter_mut().zip(places) {
                *score += values[place];
            }
        }
        for (index, row) in scores.chunks_mut(keys.max(1)).enumerate() {
            let (query, batch) = (index % queries, index / (queries * heads));
            let causal = self.causal.map(|past| past + query + 1);
            let counted = self.counts.as_ref().map(|counts| counts[batch]);
            for seen in [causal, counted].into_iter().flatten() {
                for score in row.iter_mut().skip(seen) {
                    *score = f64::NEG_INFINITY;
                }
            }
        }
    }
}
