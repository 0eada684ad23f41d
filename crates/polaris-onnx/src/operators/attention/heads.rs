//! Queries, keys and values as vectors of heads, and the products between them.

use crate::limits::checked_elements;
use crate::room::{filled, with_room};
use crate::{ElementType, Error, Result, Tensor};

/// Vectors in the order batch, head, position.
pub struct Heads {
    pub batch: usize,
    pub heads: usize,
    pub length: usize,
    /// Numbers in a vector.
    pub size: usize,
    values: Vec<f64>,
}

impl Heads {
    /// Of a tensor with four axes in that order, or with three: batch, position, and the heads' vectors
    /// one after another, of which `heads` says how many there are.
    pub fn read(tensor: &Tensor, heads: Option<i64>) -> Result<Self> {
        match *tensor.shape() {
            [batch, heads, length, size] => {
                Ok(Self { batch, heads, length, size, values: tensor.to_f64()? })
            }
            [batch, length, hidden] => {
                let heads = heads
                    .and_then(|heads| usize::try_from(heads).ok())
                    .filter(|&heads| heads > 0 && heads <= hidden && hidden.is_multiple_of(heads))
                    .ok_or_else(|| {
                        let why = format!("{hidden} features cannot be split into {heads:?} heads");
                        Error::operands(why)
                    })?;
                let size = hidden / heads;
                let packed = tensor.to_f64()?;
                let values = swap_middle(&packed, [batch, length, heads, size]);
                Ok(Self { batch, heads, length, size, values })
            }
            ref other => {
                Err(Error::operands(format!("three or four axes were expected, not {other:?}")))
            }
        }
    }

    /// Of values that are in the right order already.
    pub fn new([batch, heads, length, size]: [usize; 4], values: Vec<f64>) -> Self {
        Self { batch, heads, length, size, values }
    }

    pub fn shape(&self) -> [usize; 4] {
        [self.batch, self.heads, self.length, self.size]
    }

    /// All vectors of one head, one after another.
    pub fn head(&self, batch: usize, head: usize) -> &[f64] {
        let each = self.length * self.size;
        let start = (batch * self.heads + head) * each;
        &self.values[start..start + each]
    }

    /// These vectors after others along the positions.
    pub fn after(self, past: &Self) -> Result<Self> {
        if (past.batch, past.heads, past.size) != (self.batch, self.heads, self.size) {
            return Err(Error::operands(format!(
                "a past of {:?} does not match {:?}",
                past.shape(),
                self.shape()
            )));
        }
        let shape = [self.batch, self.heads, past.length + self.length, self.size];
        let mut values = with_room(checked_elements(ElementType::F64, &shape)?)?;
        for batch in 0..self.batch {
            for head in 0..self.heads {
                values.extend_from_slice(past.head(batch, head));
                values.extend_from_slice(self.head(batch, head));
            }
        }
        Ok(Self::new(shape, values))
    }

    /// As a tensor with four axes.
    pub fn tensor(&self, element: ElementType) -> Result<Tensor> {
        Tensor::from_f64(element, &self.shape(), &self.values)
    }

    /// As a tensor with three axes, the heads' vectors one after another.
    pub fn packed(&self, element: ElementType) -> Result<Tensor> {
        let values = swap_middle(&self.values, self.shape());
        let shape = [self.batch, self.length, self.heads * self.size];
        Tensor::from_f64(element, &shape, &values)
    }

    pub fn values(&self) -> &[f64] {
        &self.values
    }
}

/// Exchanges the two axes in the middle.
fn swap_middle(values: &[f64], [outer, rows, columns, size]: [usize; 4]) -> Vec<f64> {
    let mut swapped = Vec::with_capacity(values.len());
    for block in 0..outer {
        for column in 0..columns {
            for row in 0..rows {
                let start = ((block * rows + row) * columns + column) * size;
                swapped.extend_from_slice(&values[start..start + size]);
            }
        }
    }
    swapped
}

/// How many query heads share a head of keys and values.
pub fn group(query: &Heads, key: &Heads, value: &Heads) -> Result<usize> {
    let fits = query.batch == key.batch
        && key.batch == value.batch
        && key.heads == value.heads
        && key.length == value.length
        && query.size == key.size;
    if !fits || key.heads == 0 || !query.heads.is_multiple_of(key.heads) {
        return Err(Error::operands(format!(
            "queries of {:?}, keys of {:?} and values of {:?} are incompatible",
            query.shape(),
            key.shape(),
            value.shape()
        )));
    }
    Ok(query.heads / key.heads)
}

/// The product of each query with each key of its head, times `scale`.
pub fn scores(query: &Heads, key: &Heads, group: usize, scale: f64) -> Result<Vec<f64>> {
    let shape = [query.batch, query.heads, query.length, key.length];
    let mut scores = with_room(checked_elements(ElementType::F64, &shape)?)?;
    let size = query.size;
    for batch in 0..query.batch {
        for head in 0..query.heads {
            let (queries, keys) = (query.head(batch, head), key.head(batch, head / group));
            for row in 0..query.length {
                let q = &queries[row * size..(row + 1) * size];
                scores.extend((0..key.length).map(|column| {
                    let k = &keys[column * size..(column + 1) * size];
                    scale * q.iter().zip(k).map(|(a, b)| a * b).sum::<f64>()
                }));
            }
        }
    }
    Ok(scores)
}

/// Softmax of each row of `length` scores. A row that is masked as a whole becomes NaN, as ONNX has it.
pub fn softmax(scores: &mut [f64], length: usize) {
    for row in scores.chunks_mut(length.max(1)) {
        let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut sum = 0.0;
        for score in row.iter_mut() {
            *score = (*score - most).exp();
            sum += *score;
        }
        for score in row.iter_mut() {
            *score /= sum;
        }
    }
}

/// Sums of values, weighted by probabilities for each query.
pub fn weighted(
    probabilities: &[f64],
    query: &Heads,
    value: &Heads,
    group: usize,
) -> Result<Heads> {
    let shape = [query.batch, query.heads, query.length, value.size];
    let mut sums = filled(0.0, checked_elements(ElementType::F64, &shape)?)?;
    let (size, length) = (value.size, value.length);
    if size == 0 || length == 0 {
        return Ok(Heads::new(shape, sums));
    }
    let rows = sums.chunks_mut(size).zip(probabilities.chunks(length));
    for (index, (sum, row)) in rows.enumerate() {
        let head = index / query.length;
        let values = value.head(head / query.heads, head % query.heads / group);
        for (vector, &weight) in values.chunks(size).zip(row) {
            for (sum, &number) in sum.iter_mut().zip(vector) {
                *sum += weight * number;
            }
        }
    }
    Ok(Heads::new(shape, sums))
}

/// The type that an attribute `softmax_precision` names.
pub fn precision(code: i64) -> Result<ElementType> {
    i32::try_from(code)
        .ok()
        .and_then(|code| ElementType::from_code(code).ok())
        .filter(|element| element.is_float())
        .ok_or_else(|| Error::operands(format!("{code} is not a type of softmax")))
}

/// Values as a type holds them.
pub fn rounded(values: &[f64], element: ElementType) -> Result<Vec<f64>> {
    Tensor::from_f64(element, &[values.len()], values)?.to_f64()
}
