//! RotaryEmbedding: positions as rotations of pairs of numbers.

use super::heads::Heads;
use crate::operators::{Call, one};
use crate::{Error, Result, Tensor, Value};

pub fn rotary_embedding(call: &Call<'_>) -> Result<Vec<Value>> {
    let attributes = call.attributes();
    let x = call.tensor(0)?;
    let heads = Heads::read(x, attributes.int("num_heads")?)?;
    let rotated = match attributes.int_or("rotary_embedding_dim", 0)? {
        0 => heads.size,
        count => usize::try_from(count).unwrap_or(usize::MAX),
    };
    if rotated > heads.size || !rotated.is_multiple_of(2) {
        let size = heads.size;
        return Err(Error::operands(format!(
            "{rotated} of {size} numbers cannot be rotated in pairs"
        )));
    }
    let half = rotated / 2;
    let (batch, length) = (heads.batch, heads.length);
    let rows = rows(call, batch, length)?;
    let cos = table(call.tensor(1)?, half, &rows)?;
    let sin = table(call.tensor(2)?, half, &rows)?;
    let interleaved = attributes.flag("interleaved", false)?;
    let mut values = heads.values().to_vec();
    for (index, vector) in values.chunks_mut(heads.size.max(1)).enumerate() {
        let token = index / (length * heads.heads) * length + index % length;
        let start = rows[token] * half;
        for pair in 0..half {
            let (first, second) =
                if interleaved { (2 * pair, 2 * pair + 1) } else { (pair, half + pair) };
            let (a, b) = (vector[first], vector[second]);
            let (cos, sin) = (cos[start + pair], sin[start + pair]);
            vector[first] = cos * a - sin * b;
            vector[second] = sin * a + cos * b;
        }
    }
    let result = Heads::new(heads.shape(), values);
    Ok(one(match x.rank() {
        3 => result.packed(x.element())?,
        _ => result.tensor(x.element())?,
    }))
}

/// The row of the tables for each token of each of the batch.
fn rows(call: &Call<'_>, batch: usize, length: usize) -> Result<Vec<usize>> {
    let Some(positions) = call.optional(3)? else {
        // Without positions the tables have a row for each token.
        return Ok((0..batch * length).collect());
    };
    if positions.shape() != [batch, length] {
        let found = positions.shape();
        return Err(Error::operands(format!(
            "positions of the shape [{batch}, {length}] were expected, not {found:?}"
        )));
    }
    let row = |position: i64| {
        usize::try_from(position).map_err(|_| Error::operands(format!("the position {position}")))
    };
    positions.to_i64()?.into_iter().map(row).collect()
}

/// A table that has all of these rows.
fn table(tensor: &Tensor, half: usize, rows: &[usize]) -> Result<Vec<f64>> {
    let available = tensor.elements() / half.max(1);
    let needed = rows.iter().max().map_or(0, |&last| last.saturating_add(1));
    if tensor.shape().last() != Some(&half) || available < needed {
        let found = tensor.shape();
        return Err(Error::operands(format!(
            "a table of {found:?} does not have {needed} rows of {half} numbers"
        )));
    }
    tensor.to_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_too_short_is_refused() {
        let tensor = Tensor::new(&[2, 1], vec![0.5f32, 0.25]).unwrap();
        assert!(table(&tensor, 1, &[0, 1]).is_ok());
        assert!(table(&tensor, 1, &[usize::MAX]).is_err());
        assert!(table(&tensor, 2, &[0]).is_err());
    }
}
