//! Two models with the same inputs and outputs, on the same samples.

use polaris_onnx::Tensor;

use super::Noise;
use crate::{Error, Result};

/// What an output is compared by, besides its numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Classes {
    /// Rows of scores.
    pub rows: u64,
    /// Rows in which both models name the same class.
    pub same_top: u64,
    /// The sum over rows of the divergence of the second model's distribution from the first's (KL).
    pub divergence: f64,
    /// The largest of them.
    pub largest: f64,
    /// Rows with a label.
    pub labelled: u64,
    /// Labels that the first and the second model name.
    pub right: [u64; 2],
}

/// An output of both models.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Output {
    /// Its name in the first model.
    pub name: String,
    /// How its numbers differ.
    pub noise: Noise,
    /// How its classes do, if it looks like scores of some.
    pub classes: Option<Classes>,
}

/// The outputs of both models, in the order of the first.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    /// Each output.
    pub outputs: Vec<Output>,
}

impl Comparison {
    /// Compares the outputs for some samples. `labels` are the classes of these samples, by which accuracy is counted.
    ///
    /// # Errors
    /// If the models have other outputs, or outputs of other shapes.
    pub fn add(
        &mut self,
        first: &[(String, Tensor)],
        second: &[(String, Tensor)],
        labels: Option<&[i64]>,
    ) -> Result<()> {
        for (name, a) in first {
            let Some((_, b)) = second.iter().find(|(other, _)| other == name) else {
                let others: Vec<&str> = second.iter().map(|(name, _)| name.as_str()).collect();
                let why =
                    format!("the second model has no such output; it has {}", others.join(", "));
                return Err(Error::Activation { tensor: name.clone(), why });
            };
            if a.shape() != b.shape() {
                let why =
                    format!("shape {:?} in one model, {:?} in the other", a.shape(), b.shape());
                return Err(Error::Activation { tensor: name.clone(), why });
            }
            let at = match self.outputs.iter().position(|output| output.name == *name) {
                Some(at) => at,
                None => {
                    self.outputs.push(Output { name: name.clone(), ..Output::default() });
                    self.outputs.len() - 1
                }
            };
            let output = &mut self.outputs[at];
            let (x, y) = (a.to_f64()?, b.to_f64()?);
            output.noise.add(&x, &y);
            if let Some(count) = classes_of(a) {
                let classes = output.classes.get_or_insert_default();
                let rows = x.chunks(count).zip(y.chunks(count)).enumerate();
                let samples = a.shape()[0];
                for (row, (x, y)) in rows {
                    // One row for each sample, or no labels.
                    let label = labels.filter(|labels| {
                        labels.len() == samples && x.len() * samples == a.elements()
                    });
                    classes.add(x, y, label.map(|labels| labels[row]));
                }
            }
        }
        Ok(())
    }
}

/// The number of classes of an output that looks like scores: floats with a row for each sample or position.
fn classes_of(tensor: &Tensor) -> Option<usize> {
    // Classifiers may end in a pooling, with axes of one element behind the classes.
    let trailing = tensor.shape().iter().skip(2).all(|&length| length == 1);
    let count = match tensor.shape() {
        [_, count, ..] if trailing => *count,
        [_, _, count] => *count,
        _ => return None,
    };
    (tensor.element().is_float() && count > 1 && tensor.elements() > 0).then_some(count)
}

impl Classes {
    fn add(&mut self, x: &[f64], y: &[f64], label: Option<i64>) {
        let (top, other) = (largest(x), largest(y));
        self.rows += 1;
        self.same_top += u64::from(top == other);
        if let Some(label) = label {
            self.labelled += 1;
            for (right, top) in self.right.iter_mut().zip([top, other]) {
                *right += u64::from(top as i64 == label);
            }
        }
        let [p, q] = [x, y].map(log_probabilities);
        // What is impossible adds nothing, whatever the other one says.
        let possible = p.iter().zip(&q).filter(|(p, _)| **p != f64::NEG_INFINITY);
        let divergence: f64 = possible.map(|(p, q)| p.exp() * (p - q)).sum();
        self.divergence += divergence;
        self.largest = self.largest.max(divergence);
    }
}

/// The first of the largest numbers.
fn largest(row: &[f64]) -> usize {
    (0..row.len()).fold(0, |best, at| if row[at] > row[best] { at } else { best })
}

/// Logarithms of probabilities: of scores by softmax, of what is probabilities already as it is.
fn log_probabilities(row: &[f64]) -> Vec<f64> {
    let sum: f64 = row.iter().sum();
    if row.iter().all(|&x| (0.0..=1.0).contains(&x)) && (sum - 1.0).abs() < 1e-3 {
        // Bytes may have made a zero of what is not impossible.
        return row.iter().map(|&x| x.max(1e-9).ln()).collect();
    }
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let all = row.iter().map(|x| (x - most).exp()).sum::<f64>().ln();
    row.iter().map(|x| x - most - all).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[f32], columns: usize) -> Vec<(String, Tensor)> {
        let shape = [values.len() / columns, columns];
        vec![("y".to_owned(), Tensor::new(&shape, values.to_vec()).unwrap())]
    }

    #[test]
    fn classes_labels_and_divergences_are_counted() {
        let mut found = Comparison::default();
        let a = rows(&[0.0, 1.0, 3.0, 2.0, 0.0, 0.0], 3);
        let b = rows(&[0.0, 1.0, 3.0, 0.0, 2.0, 0.0], 3);
        found.add(&a, &b, Some(&[2, 1])).unwrap();
        let output = &found.outputs[0];
        let classes = output.classes.as_ref().unwrap();
        assert_eq!((classes.rows, classes.same_top, classes.right), (2, 1, [1, 2]));
        assert_eq!((output.noise.largest, output.noise.noise), (2.0, 8.0));
        // Softmax of 2, 0, 0 against that of 0, 2, 0: two of the three terms are there.
        let (high, low) = (2f64.exp() / (2f64.exp() + 2.0), 1.0 / (2f64.exp() + 2.0));
        assert!((classes.divergence - (high - low) * 2.0).abs() < 1e-12);
        assert_eq!(classes.divergence, classes.largest);
    }

    #[test]
    fn probabilities_are_taken_as_they_are() {
        let mut found = Comparison::default();
        found.add(&rows(&[0.25, 0.75], 2), &rows(&[0.5, 0.5], 2), None).unwrap();
        let classes = found.outputs[0].classes.as_ref().unwrap();
        let wanted = 0.25 * 0.5f64.ln() + 0.75 * 1.5f64.ln();
        assert!((classes.divergence - wanted).abs() < 1e-12, "{classes:?}");
        assert_eq!(classes.labelled, 0);
    }

    #[test]
    fn masked_classes_diverge_from_nothing() {
        let mut found = Comparison::default();
        let row = rows(&[1.0, f32::NEG_INFINITY, 3.0], 3);
        found.add(&row, &row, None).unwrap();
        assert_eq!(found.outputs[0].classes.as_ref().unwrap().divergence, 0.0);
    }

    #[test]
    fn other_outputs_are_refused() {
        let mut found = Comparison::default();
        let error = found.add(&rows(&[1.0, 2.0], 2), &rows(&[1.0, 2.0, 3.0], 3), None);
        assert!(error.unwrap_err().to_string().contains("`y`"));
        let other = vec![("z".to_owned(), Tensor::scalar(1.0f32))];
        assert!(
            found.add(&rows(&[1.0, 2.0], 2), &other, None).unwrap_err().to_string().contains("z")
        );
    }
}
