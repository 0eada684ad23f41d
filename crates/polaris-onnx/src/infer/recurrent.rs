//! Networks that go over a sequence step by step.

use super::{Fact, Known, Rule, dims};
use crate::{Dim, Result};

pub(super) const RULES: &[(&str, Rule)] =
    &[("GRU", recurrent), ("LSTM", recurrent), ("RNN", recurrent)];

/// The states after every step, and the last ones.
fn recurrent(known: &Known<'_>) -> Result<Vec<Fact>> {
    let attributes = known.attributes();
    let element = known.element(0);
    let both = attributes.string_or("direction", "forward")?.eq_ignore_ascii_case("bidirectional");
    let directions = Dim::Known(if both { 2 } else { 1 });
    let of_weights = known.shape(2).and_then(|shape| shape.get(2).cloned());
    let hidden = match (of_weights, attributes.int("hidden_size")?) {
        (Some(hidden), _) if hidden.known().is_some() => hidden,
        (_, Some(hidden)) => dims::length(&dims::from_signed(hidden))?,
        (hidden, None) => hidden.unwrap_or(Dim::Unknown),
    };
    let batch_first = attributes.flag("layout", false)?;
    let (steps, batch) = match known.shape(0).as_deref() {
        Some([batch, steps, _]) if batch_first => (steps.clone(), batch.clone()),
        Some([steps, batch, _]) => (steps.clone(), batch.clone()),
        _ => (Dim::Unknown, Dim::Unknown),
    };
    let (all, last) = if batch_first {
        (
            vec![batch.clone(), steps, directions.clone(), hidden.clone()],
            [batch, directions, hidden],
        )
    } else {
        (
            vec![steps, directions.clone(), batch.clone(), hidden.clone()],
            [directions, batch, hidden],
        )
    };
    let last = Fact::tensor(element, Some(last.to_vec()));
    Ok(vec![Fact::tensor(element, Some(all)), last.clone(), last])
}
