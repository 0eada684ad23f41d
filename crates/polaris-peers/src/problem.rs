//! The matmul problem of peers: sizes, types and layouts.

use polaris_core::DType;

use crate::{Error, Result};

/// A product of an m x k matrix with a k x n one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// Rows of the result.
    pub m: usize,
    /// Columns of the result.
    pub n: usize,
    /// Length of the sums.
    pub k: usize,
    /// The first operand is stored as k x m.
    pub transpose_a: bool,
    /// The second operand is stored as n x k.
    pub transpose_b: bool,
    /// The operands' type.
    pub dtype: DType,
    /// `f32` may be rounded to eleven significant bits before it is multiplied.
    pub tf32: bool,
}

impl Problem {
    /// The type of the result: integers are summed in `i32`.
    pub fn output_dtype(&self) -> DType {
        if self.dtype.is_float() { self.dtype } else { DType::I32 }
    }

    /// Bytes of the result.
    pub(crate) fn output_bytes(&self) -> usize {
        self.m * self.n * self.output_dtype().size()
    }

    /// Elements from one stored row of the first operand to the next.
    pub(crate) fn row_a(&self) -> usize {
        if self.transpose_a { self.m } else { self.k }
    }

    /// Elements from one stored row of the second operand to the next.
    pub(crate) fn row_b(&self) -> usize {
        if self.transpose_b { self.k } else { self.n }
    }

    /// Foreign libraries trust the sizes they are given: this is what makes calling them sound.
    pub(crate) fn check_operands(&self, a: &[u8], b: &[u8]) -> Result<()> {
        let fits = |size: usize| i32::try_from(size).is_ok();
        let sizes = [self.m, self.n, self.k];
        if sizes.contains(&0) || !sizes.into_iter().all(fits) {
            let what = format!("a product of size {} x {} x {}", self.m, self.n, self.k);
            return Err(Error::Unsupported { what });
        }
        for (operand, rows, columns, bytes) in [('A', self.m, self.k, a), ('B', self.k, self.n, b)]
        {
            let expected = rows * columns * self.dtype.size();
            if bytes.len() != expected {
                return Err(Error::WrongLength { operand, expected, found: bytes.len() });
            }
        }
        Ok(())
    }

    /// For libraries that count in C's `int`.
    pub(crate) fn int_sizes(&self) -> [i32; 5] {
        let sizes = [self.m, self.n, self.k, self.row_a(), self.row_b()];
        sizes.map(|size| i32::try_from(size).expect("sizes should have been checked"))
    }

    pub(crate) fn unsupported(&self) -> Error {
        let what = if self.tf32 { "tf32".to_owned() } else { self.dtype.to_string() };
        Error::Unsupported { what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operands_of_another_size_are_refused() {
        let problem = Problem {
            m: 2,
            n: 3,
            k: 4,
            transpose_a: false,
            transpose_b: true,
            dtype: DType::F32,
            tf32: false,
        };
        let (a, b) = ([0; 32], [0; 48]);
        assert!(problem.check_operands(&a, &b).is_ok());
        assert_eq!((problem.row_a(), problem.row_b(), problem.output_bytes()), (4, 4, 24));
        let message = problem.check_operands(&a, &b[4..]).unwrap_err().to_string();
        assert!(message.contains("operand B has 44 bytes"), "{message}");
        let empty = Problem { n: 0, ..problem };
        assert!(empty.check_operands(&a, &[]).is_err());
        let huge = Problem { m: 1 << 31, ..problem };
        assert!(huge.check_operands(&a, &b).is_err());
    }
}
