//! Problems of each operation that is tuned, as the database names them.

use polaris_bench::gemm::{Dims, Numbers, Transpose};
use polaris_core::DType;
use polaris_tune::ProblemKey;

/// How the matrix of a product with vectors lies in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatrixLayout {
    /// Neighbours in the matrix are multiplied with neighbours in the vector.
    Dots,
    /// Neighbours in the matrix belong to neighbouring results.
    Columns,
}

impl MatrixLayout {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dots => "dots",
            Self::Columns => "columns",
        }
    }
}

/// Products of square `f32` matrices of these sizes.
pub fn squares(sizes: &[usize]) -> Vec<ProblemKey> {
    let shapes: Vec<Dims> = sizes.iter().copied().map(Dims::square).collect();
    products(&shapes, Numbers::F32, Transpose::Nn)
}

/// Sizes a little smaller and larger than one, and that one first.
pub fn around(size: usize) -> [usize; 3] {
    let step = (size / 40).max(1);
    [size, size.saturating_sub(step).max(1), size + step]
}

/// Matmuls.
pub fn products(shapes: &[Dims], numbers: Numbers, transpose: Transpose) -> Vec<ProblemKey> {
    let layout = transpose.name();
    once(shapes.iter().map(|dims| problem("matmul", numbers.name(), layout, &sizes_of(dims))))
}

/// Products of a few vectors with a matrix: m vectors, n lines of the matrix, k elements of each.
pub fn vector_products(shapes: &[Dims], numbers: Numbers, layout: MatrixLayout) -> Vec<ProblemKey> {
    let layout = layout.name();
    once(shapes.iter().map(|dims| problem("gemv", numbers.name(), layout, &sizes_of(dims))))
}

/// Sums of dense rows: how many, and the elements of each.
pub fn reductions(shapes: &[[usize; 2]], dtype: DType) -> Vec<ProblemKey> {
    once(shapes.iter().map(|shape| problem("reduce", dtype.name(), "rows", shape)))
}

/// Transpositions: m matrices, n rows and k columns of each as they are stored.
pub fn permutations(shapes: &[Dims], dtype: DType) -> Vec<ProblemKey> {
    once(shapes.iter().map(|dims| problem("permute", dtype.name(), "t", &sizes_of(dims))))
}

fn sizes_of(dims: &Dims) -> [usize; 3] {
    [dims.m, dims.n, dims.k]
}

fn problem(operation: &str, dtype: &str, layout: &str, shape: &[usize]) -> ProblemKey {
    ProblemKey {
        operation: operation.to_owned(),
        dtype: dtype.to_owned(),
        layout: layout.to_owned(),
        shape: shape.iter().map(|&size| size as u64).collect(),
    }
}

/// Each problem once, in the order in which they were named.
fn once(problems: impl Iterator<Item = ProblemKey>) -> Vec<ProblemKey> {
    let mut all: Vec<ProblemKey> = Vec::new();
    for problem in problems {
        if !all.contains(&problem) {
            all.push(problem);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_are_named_once() {
        assert_eq!(around(1280), [1280, 1248, 1312]);
        assert_eq!(around(1), [1, 1, 2]);
        let sizes: Vec<u64> = squares(&around(1)).iter().map(|key| key.shape[0]).collect();
        assert_eq!(sizes, [1, 2]);
        let reduced = reductions(&[[3, 5]], DType::F16);
        assert_eq!((reduced[0].operation.as_str(), reduced[0].dtype.as_str()), ("reduce", "f16"));
    }
}
