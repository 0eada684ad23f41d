//! The kernel for a few vectors and a matrix in blocks: what it takes, and its parameters.

use polaris_runtime::Device;
use polaris_runtime::opencl::OpenClDevice;

use super::Skinny;
use super::factors::{Direction, Factors};
use crate::Array;
use crate::format::{Format, Share};
use crate::matmul::geometry::{A, B, Geometry, Matrix};

/// Vectors that it can take.
const LIMIT: usize = 64;

/// Its parameters: work-items in a group, lanes on a row of one vector, and groups for each compute unit below which k
/// is split. Rows of 2048 elements and more keep 32 lanes busy; a second launch for parts of k costs more than it
/// gains wherever there are a few groups.
pub(super) const BLOCKS: Skinny = Skinny { group: 256, lanes: 32, groups_per_unit: 1 };

/// How a product is shared among work-items.
pub(super) fn share(
    skinny: Skinny,
    device: &OpenClDevice,
    factors: &Factors,
    k: usize,
    batches: usize,
) -> Share {
    let [vectors, lines] = factors.sizes;
    let Skinny { group, lanes, .. } = skinny.on(device.capabilities());
    let share = Share::new(group.into(), lanes.into(), vectors);
    let share = match factors.arrays[1].format() {
        Format::Block(block) => share.for_rows(block, k),
        _ => share,
    };
    share.spread(device, lines, vectors, batches, 1)
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
