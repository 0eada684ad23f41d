//! Times of copies and matmuls by the device's clock: how far they overlapped.

use std::sync::Arc;
use std::time::Duration;

use polaris_runtime::{Event, Queue};

use crate::Result;

/// How long copies and products took, and for how long both were under way.
#[derive(Debug, Clone, Copy, Default)]
pub struct Overlap {
    /// Time in which copies were under way.
    pub copying: Duration,
    /// Time in which products were under way.
    pub computing: Duration,
    /// Time in which both were.
    pub both: Duration,
}

/// Events that mark the begin and end of copies and products.
pub struct Timeline {
    /// Its marks wait for the events of queues that keep no time themselves.
    clock: Arc<dyn Queue>,
    copies: Vec<[Event; 2]>,
    products: Vec<[Event; 2]>,
}

impl Timeline {
    /// With a queue of its own that keeps time.
    pub fn new(clock: Arc<dyn Queue>) -> Self {
        Self { clock, copies: Vec::new(), products: Vec::new() }
    }

    /// A copy between two marks of a queue that keeps time.
    pub fn copied(&mut self, begin: Event, end: Event) {
        self.copies.push([begin, end]);
    }

    /// A product that began once its operands were there (and the product before was done), and
    /// has ended with `done`.
    pub fn computed(&mut self, operands: &Event, done: &Event) -> Result<()> {
        self.clock.wait_for(operands)?;
        let begin = self.clock.record()?;
        self.clock.wait_for(done)?;
        self.products.push([begin, self.clock.record()?]);
        Ok(())
    }

    /// Waits for everything and adds it up. Nothing where the driver keeps no time.
    pub fn overlap(&self) -> Result<Overlap> {
        self.clock.finish()?;
        let spans = |pairs: &[[Event; 2]]| -> Result<Vec<(u64, u64)>> {
            let mut spans = Vec::new();
            for [begin, end] in pairs {
                end.wait()?;
                if let (Some(begin), Some(end)) = (begin.timestamps(), end.timestamps()) {
                    spans.push((begin.ended, end.ended.max(begin.ended)));
                }
            }
            Ok(united(spans))
        };
        let (copies, products) = (spans(&self.copies)?, spans(&self.products)?);
        let both = copies.iter().flat_map(|&copy| {
            products
                .iter()
                .map(move |&product| copy.1.min(product.1).saturating_sub(copy.0.max(product.0)))
        });
        let total = |spans: &[(u64, u64)]| spans.iter().map(|(begin, end)| end - begin).sum();
        Ok(Overlap {
            copying: Duration::from_nanos(total(&copies)),
            computing: Duration::from_nanos(total(&products)),
            both: Duration::from_nanos(both.sum()),
        })
    }
}

/// Spans that touch become one.
fn united(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut united: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in spans {
        match united.last_mut() {
            Some(last) if begin <= last.1 => last.1 = last.1.max(end),
            _ => united.push((begin, end)),
        }
    }
    united
}

#[cfg(test)]
mod tests {
    use super::united;

    #[test]
    fn spans_that_touch_are_one() {
        assert_eq!(united(vec![(5, 7), (0, 2), (2, 3), (6, 9)]), [(0, 3), (5, 9)]);
    }
}
