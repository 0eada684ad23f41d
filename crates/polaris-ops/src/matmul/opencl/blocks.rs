//! The kernel for a few vectors and a matrix in blocks: what it takes, and its parameters.

use super::Skinny;
use super::factors::Direction;
use crate::Array;
use crate::format::Format;
use crate::matmul::geometry::{A, B, Geometry, Matrix};

/// Vectors that it is preferred for; with more, tiles read less.
pub(super) const MOST_VECTORS: usize = 16;

/// Vectors that it can take.
const LIMIT: usize = 64;

/// Rows of the matrix that a work-item unpacks: each four elements of a vector are read for all of them.
pub(super) const ROWS: usize = 2;

/// Vectors and lanes together: more need more local memory than several work-groups of a compute unit have.
const VECTORS_AND_LANES: usize = 32;

/// Its parameters. Sixteen lanes with 64 elements each are busy wherever k is a multiple of
/// 1024; four work-groups of two wavefronts give a compute unit of GCN enough loads to wait for.
pub(super) const BLOCKS: Skinny = Skinny { group: 128, lanes: 16, groups_per_unit: 4 };

/// Vectors that a work-group takes at once: a power of two.
pub(super) fn columns(vectors: usize) -> usize {
    vectors.next_power_of_two().clamp(1, 8)
}

/// Work-items in a group and on a row, for so many vectors at once.
pub(super) fn shape(skinny: Skinny, columns: usize) -> [usize; 2] {
    let lanes = usize::from(skinny.lanes).min((VECTORS_AND_LANES / columns).max(4));
    [usize::from(skinny.group), lanes]
}

/// Lines of the matrix that a work-group takes.
pub(super) fn lines(skinny: Skinny, columns: usize) -> usize {
    let [group, lanes] = shape(skinny, columns);
    group / lanes * ROWS
}

/// Whether rows of the matrix begin with blocks and lie along k, and vectors can be read in fours.
pub(super) fn takes(geometry: &Geometry, a: &Array, b: &Array) -> bool {
    let Format::Block(block) = b.format() else { return false };
    let &Geometry { m, n, k, .. } = geometry;
    let turned = Matrix { rows: geometry.b.columns, columns: geometry.b.rows };
    let whole = |direction: Option<Direction>, array: &Array, operand: usize, of: usize| {
        let steps = geometry.batches.strides(operand).iter().copied();
        direction.is_some_and(|direction| {
            let sizes = [direction.stride, array.first_element()];
            direction.along_k && sizes.into_iter().chain(steps).all(|it| it.is_multiple_of(of))
        })
    };
    m <= LIMIT
        && k.is_multiple_of(block.elements())
        && whole(Direction::of(turned, n, k), b, B, block.elements())
        && whole(Direction::of(geometry.a, m, k), a, A, 4)
}
