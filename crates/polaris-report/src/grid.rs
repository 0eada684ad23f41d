//! The counts of a confusion matrix as squares to draw: totals, and classes joined where there
//! are more of them than a picture has room for.

use std::collections::BTreeMap;

use crate::ConfusionMatrix;
use crate::svg::NAME;
use crate::text::shorten;

/// Rows and columns a picture may have. Beyond it neighbouring classes share a square, so that
/// a page with ten thousand classes is no larger than one with a hundred.
const MOST: usize = 128;

/// Squares with their totals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Grid {
    /// Classes of the matrix.
    pub(crate) classes: usize,
    /// Rows, and as many columns.
    pub(crate) size: usize,
    /// How many classes share a row.
    pub(crate) joined: usize,
    /// The names of the rows and columns.
    pub(crate) names: Vec<String>,
    /// The squares that count anything, by row and column.
    pub(crate) cells: BTreeMap<(usize, usize), u128>,
    /// How much each row counts.
    pub(crate) rows: Vec<u128>,
    /// How much each column counts.
    pub(crate) columns: Vec<u128>,
    /// How much was predicted right: of one class, not of those that share its square.
    pub(crate) right: Vec<u128>,
}

impl Grid {
    /// Adds up a matrix. Rows and columns that nobody named count as well, under their number;
    /// counts that are not there are zero.
    pub(crate) fn new(matrix: &ConfusionMatrix) -> Self {
        let widest = matrix.counts.iter().map(Vec::len).max().unwrap_or(0);
        let classes = matrix.classes.len().max(matrix.counts.len()).max(widest);
        let joined = classes.div_ceil(MOST).max(1);
        let size = classes.div_ceil(joined);
        let mut grid = Self {
            classes,
            size,
            joined,
            names: (0..size).map(|row| row_name(matrix, row * joined, joined, classes)).collect(),
            cells: BTreeMap::new(),
            rows: vec![0; size],
            columns: vec![0; size],
            right: vec![0; size],
        };
        for (truth, predicted, count) in counts(matrix) {
            let (row, column) = (truth / joined, predicted / joined);
            let count = u128::from(count);
            *grid.cells.entry((row, column)).or_default() += count;
            grid.rows[row] += count;
            grid.columns[column] += count;
            if truth == predicted {
                grid.right[row] += count;
            }
        }
        grid
    }

    /// Everything that was counted.
    pub(crate) fn total(&self) -> u128 {
        self.rows.iter().sum()
    }
}

/// Every count that is not zero, as truth, prediction and count.
pub(crate) fn counts(matrix: &ConfusionMatrix) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
    matrix.counts.iter().enumerate().flat_map(|(truth, row)| {
        row.iter()
            .enumerate()
            .filter(|&(_, &count)| count > 0)
            .map(move |(predicted, &count)| (truth, predicted, count))
    })
}

/// The name of a class, short enough to be repeated.
pub(crate) fn class_name(matrix: &ConfusionMatrix, index: usize) -> String {
    match matrix.classes.get(index) {
        Some(name) if !name.is_empty() => shorten(name, NAME),
        _ => format!("class {index}"),
    }
}

fn row_name(matrix: &ConfusionMatrix, first: usize, joined: usize, classes: usize) -> String {
    let last = (first + joined).min(classes) - 1;
    if last == first {
        return class_name(matrix, first);
    }
    format!("{} … {}", class_name(matrix, first), class_name(matrix, last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matrix(classes: usize, counts: Vec<Vec<u64>>) -> ConfusionMatrix {
        let classes = (0..classes).map(|c| format!("c{c}")).collect();
        ConfusionMatrix { title: String::new(), classes, counts }
    }

    #[test]
    fn rows_and_columns_add_up() {
        let grid = Grid::new(&matrix(2, vec![vec![3, 1], vec![0, 5]]));
        assert_eq!((grid.size, grid.joined, grid.total()), (2, 1, 9));
        assert_eq!((&grid.rows[..], &grid.columns[..]), (&[4, 5][..], &[3, 6][..]));
        assert_eq!(grid.right, [3, 5]);
        assert_eq!(grid.cells.len(), 3, "zeros are not drawn");
    }

    #[test]
    fn ragged_counts_and_missing_names_are_no_error() {
        let grid = Grid::new(&matrix(1, vec![vec![], vec![1, 2, 3]]));
        assert_eq!(grid.size, 3);
        assert_eq!(grid.names, ["c0", "class 1", "class 2"]);
        assert_eq!(grid.columns, [1, 2, 3]);
        assert_eq!(Grid::new(&matrix(0, vec![])).size, 0);
    }

    #[test]
    fn many_classes_share_squares_and_lose_no_count() {
        let counts = (0..1000).map(|t| (0..1000).map(|p| u64::from(t == p) * 7 + 1).collect());
        let grid = Grid::new(&matrix(1000, counts.collect()));
        assert_eq!((grid.joined, grid.size), (8, 125));
        assert_eq!(grid.total(), 1_007_000);
        assert_eq!(grid.right.iter().sum::<u128>(), 8000);
        assert_eq!(grid.names[1], "c8 … c15");
    }

    #[test]
    fn sums_beyond_64_bits_are_right() {
        let grid = Grid::new(&matrix(2, vec![vec![u64::MAX, u64::MAX], vec![u64::MAX]]));
        assert_eq!(grid.total(), 3 * u128::from(u64::MAX));
    }
}
