//! Pooling of token vectors into one for the text.

use std::fmt;

/// How the vectors of tokens become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pooling {
    /// Their mean.
    #[default]
    Mean,
    /// That of the first token.
    Cls,
    /// The largest number in each place.
    Max,
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean",
            Self::Cls => "cls",
            Self::Max => "max",
        })
    }
}

impl Pooling {
    /// The vector of a text from those of its tokens, one after another, padding left out.
    pub fn pool(self, tokens: &[f32], into: &mut [f32]) {
        let mut rows = tokens.chunks_exact(into.len());
        let count = rows.len();
        let Some(first) = rows.next() else { return into.fill(0.0) };
        into.copy_from_slice(first);
        match self {
            Self::Cls => {}
            Self::Max => {
                for row in rows {
                    into.iter_mut().zip(row).for_each(|(x, &y)| *x = x.max(y));
                }
            }
            Self::Mean => {
                for row in rows {
                    into.iter_mut().zip(row).for_each(|(x, &y)| *x += y);
                }
                into.iter_mut().for_each(|x| *x /= count as f32);
            }
        }
    }
}

/// Gives a vector the length 1; one of zeros stays as it is.
pub fn normalise(vector: &mut [f32]) {
    let square: f64 = vector.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    let length = square.sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|x| *x = (f64::from(*x) / length) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pooling_is_what_plain_loops_say() {
        let (rows, columns) = (7, 5);
        let tokens: Vec<f32> = (0..rows * columns).map(|i| ((i * 37) % 23) as f32 - 11.0).collect();
        let pooled = |pooling: Pooling| {
            let mut vector = vec![9.0; columns];
            pooling.pool(&tokens, &mut vector);
            vector
        };
        let (mean, cls, max) = (pooled(Pooling::Mean), pooled(Pooling::Cls), pooled(Pooling::Max));
        for column in 0..columns {
            let (mut sum, mut largest) = (0.0f64, f64::NEG_INFINITY);
            for row in 0..rows {
                let x = f64::from(tokens[row * columns + column]);
                sum += x;
                largest = largest.max(x);
            }
            assert!((f64::from(mean[column]) - sum / rows as f64).abs() < 1e-5);
            assert_eq!(f64::from(max[column]), largest);
            assert_eq!(cls[column], tokens[column]);
        }
    }

    #[test]
    fn lengths_become_one() {
        let mut vector = [3.0, 0.0, -4.0];
        normalise(&mut vector);
        assert_eq!(vector, [0.6, 0.0, -0.8]);
        let mut zero = [0.0; 3];
        normalise(&mut zero);
        assert_eq!(zero, [0.0; 3]);
        // Squares of these do not fit f32.
        let mut large = [3e30, 4e30];
        normalise(&mut large);
        assert!((large[0] - 0.6).abs() < 1e-6 && (large[1] - 0.8).abs() < 1e-6, "{large:?}");
    }
}
