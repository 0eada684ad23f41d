//! Texts of similar length in batches of few shapes.
//!
//! A session makes a plan for each shape of its inputs and keeps only some of them. So lengths are rounded up to
//! a few, and each of these has one number of texts in a batch. Planning takes a few milliseconds, much less than
//! a batch, so that lengths may be fine: what is rounded up is computed for nothing.

/// Lengths are multiples of at least this.
const STEP: usize = 4;

/// What shapes of batches there are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shapes {
    /// About how many tokens a batch has, padding included.
    pub tokens: usize,
    /// How many texts a batch has instead, whatever their length.
    pub batch: Option<usize>,
    /// The most tokens of a text.
    pub limit: usize,
    /// The only number of texts that the model takes.
    pub only_batch: Option<usize>,
    /// The only length that the model takes.
    pub only_length: Option<usize>,
}

/// A batch of texts that follow one another in the order of [`Shapes::cut`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Batch {
    /// Texts in it.
    pub texts: usize,
    /// Rows of the model's input; those behind the texts are padding.
    pub rows: usize,
    /// Tokens of each row.
    pub length: usize,
}

impl Shapes {
    /// The length that texts of so many tokens are filled up to: four lengths for each doubling, so that less than
    /// a quarter is added, and multiples of 4 for short texts.
    pub fn padded(&self, tokens: usize) -> usize {
        if let Some(length) = self.only_length {
            return length;
        }
        let step = (tokens.next_power_of_two() / 8).max(STEP);
        tokens.max(1).next_multiple_of(step).min(self.limit)
    }

    /// How many texts of a length a full batch has.
    pub fn rows(&self, length: usize) -> usize {
        let by_tokens = (self.tokens / length.max(1)).max(1);
        self.only_batch.or(self.batch).unwrap_or(by_tokens)
    }

    /// Cuts texts into batches. The lengths are sorted, the longest first.
    pub fn cut(&self, lengths: &[usize]) -> Vec<Batch> {
        let mut batches = Vec::new();
        let mut rest = lengths;
        while let Some(&longest) = rest.first() {
            let length = self.padded(longest);
            let full = self.rows(length);
            let texts = full.min(rest.len());
            // What is left at the end comes in ever new numbers; powers of two are few.
            let rows = match self.only_batch {
                Some(rows) => rows,
                None => texts.next_power_of_two().min(full),
            };
            batches.push(Batch { texts, rows, length });
            rest = &rest[texts..];
        }
        batches
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn shapes() -> Shapes {
        Shapes { tokens: 1024, batch: None, limit: 300, only_batch: None, only_length: None }
    }

    #[test]
    fn lengths_are_few_and_long_enough() {
        let lengths: BTreeSet<usize> = (1..=300).map(|tokens| shapes().padded(tokens)).collect();
        let short = (1..=8).map(|length| 4 * length);
        let long = [40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 300];
        assert!(lengths.into_iter().eq(short.chain(long)));
        assert!((1..=300).all(|tokens| shapes().padded(tokens) >= tokens));
        assert!((16..=300).all(|tokens| shapes().padded(tokens) < tokens + tokens / 4 + 1));
        // 12 would be more than the model has positions for.
        assert_eq!(Shapes { limit: 10, ..shapes() }.padded(9), 10);
    }

    #[test]
    fn every_text_is_in_one_batch_that_is_long_enough() {
        for count in [0, 1, 2, 63, 64, 65, 1000] {
            let mut lengths: Vec<usize> = (0..count).map(|i| 1 + (i * 7919) % 300).collect();
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            for shapes in [
                shapes(),
                Shapes { batch: Some(10), ..shapes() },
                Shapes { only_batch: Some(4), only_length: Some(300), ..shapes() },
            ] {
                let mut rest = &lengths[..];
                for batch in shapes.cut(&lengths) {
                    let (texts, after) = rest.split_at(batch.texts);
                    assert!(texts.iter().all(|&length| length <= batch.length), "{batch:?}");
                    assert!(batch.texts >= 1 && batch.texts <= batch.rows, "{batch:?}");
                    assert!(batch.rows <= shapes.rows(batch.length), "{batch:?}");
                    rest = after;
                }
                assert!(rest.is_empty());
            }
        }
    }

    #[test]
    fn few_shapes_occur() {
        let mut seen = BTreeSet::new();
        for window in 0..50 {
            let mut lengths: Vec<usize> =
                (0..1000 + window).map(|i| 1 + ((i + window) * 7919) % 256).collect();
            lengths.sort_unstable_by(|a, b| b.cmp(a));
            seen.extend(shapes().cut(&lengths).iter().map(|batch| (batch.rows, batch.length)));
        }
        // As many as there are lengths, and some more for the last batches of windows.
        assert!(seen.len() <= 26, "{seen:?}");
    }
}
