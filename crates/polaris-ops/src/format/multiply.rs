//! How kernels with `multiply.cl` share a product of rows in blocks with a few vectors among work-items.

use polaris_blocks::Block;
use polaris_runtime::Device;
use polaris_runtime::opencl::{Defines, OpenClDevice};

/// The text that the parameters here are for.
pub(crate) const MULTIPLY: &str = include_str!("multiply.cl");

/// Vectors that kernels with blocks are preferred for; with more, tiles unpack less.
pub(crate) const MOST_VECTORS: usize = 32;

/// Rows that a work-item unpacks: each four elements of a vector are read for all of them.
const ROWS: usize = 2;

/// Work-items in a group where there is little to do.
const SMALL_GROUP: u16 = 128;

/// Units of all vectors that are in local memory at once: 16 KiB, so that a compute unit has room for several groups.
const STAGED: usize = 64;

/// The parameters of `multiply.cl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Share {
    pub columns: u8,
    pub group: u16,
    pub lanes: u16,
    pub rows: u8,
}

impl Share {
    /// For a group of so many work-items, of which so many (a power of two) share rows if there is one vector.
    pub fn new(group: usize, lanes: usize, vectors: usize) -> Self {
        let columns = vectors.next_power_of_two().clamp(1, 8);
        let lanes = lanes.min(STAGED / columns).min(group);
        Self { columns: columns as u8, group: group as u16, lanes: lanes as u16, rows: ROWS as u8 }
    }

    /// With fewer rows for each work-item, but not fewer than `least`, and then smaller groups, where compute units would
    /// have no work otherwise. There are `batches` of lines and vectors.
    #[must_use]
    pub fn spread(
        self,
        device: &OpenClDevice,
        lines: usize,
        vectors: usize,
        batches: usize,
        least: u8,
    ) -> Self {
        let units = device.capabilities().compute_units.div_ceil(batches.max(1));
        if self.groups(lines, vectors) >= 2 * units {
            return self;
        }
        let share = Self { rows: least, ..self };
        let is_enough = share.groups(lines, vectors) >= units || share.group <= SMALL_GROUP;
        if is_enough { share } else { Self { group: SMALL_GROUP, ..share } }
    }

    /// As it suits rows of so many elements: half as many lanes where a quarter of them would have nothing to do.
    #[must_use]
    pub fn for_rows(self, block: Block, k: usize) -> Self {
        let units = k.div_ceil(Self::unit(block));
        let turns = |lanes: usize| units.div_ceil(lanes) * lanes;
        let lanes = usize::from(self.lanes);
        match lanes >= 32 && 4 * turns(lanes / 2) <= 3 * turns(lanes) {
            true => Self { lanes: self.lanes / 2, ..self },
            false => self,
        }
    }

    /// Elements of a unit of a row, `elements_NAME` in the source.
    pub const fn unit(block: Block) -> usize {
        match block {
            Block::IQ4_XS => 32,
            other if other.elements() == 256 => 64,
            _ => 32,
        }
    }

    /// Rows that a group takes.
    pub fn lines(self) -> usize {
        usize::from(self.group / self.lanes) * usize::from(self.rows)
    }

    /// Groups for so many rows and vectors.
    pub fn groups(self, lines: usize, vectors: usize) -> usize {
        lines.div_ceil(self.lines()) * vectors.div_ceil(usize::from(self.columns))
    }

    /// Bytes of local memory of a group, with the largest units.
    pub fn local_bytes(self) -> usize {
        let columns = usize::from(self.columns);
        let staged = columns * 64 * (usize::from(self.lanes) * self.repeats() + 1);
        let sums = usize::from(self.group) * usize::from(self.rows) * columns;
        (staged.max(sums) + 16) * size_of::<f32>()
    }

    /// Units of a work-item between two barriers.
    fn repeats(self) -> usize {
        (STAGED / (usize::from(self.columns) * usize::from(self.lanes))).max(1)
    }

    /// The parameters as the source names them.
    pub fn define(self, defines: Defines) -> Defines {
        defines
            .number("COLUMNS", self.columns)
            .number("WORK_GROUP", self.group)
            .number("LANES", self.lanes)
            .number("ROWS", self.rows)
            .number("REPEATS", self.repeats() as i64)
    }

    /// A description for messages and the machine-code report.
    pub fn name(self) -> String {
        let Self { columns, group, lanes, rows } = self;
        format!("blocks{columns} {group}x{lanes}x{rows}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::Stored;

    #[test]
    fn units_are_those_of_the_sources() {
        for block in Block::ALL {
            let line = format!("#define elements_{} {}\n", block.lower_name(), Share::unit(block));
            let is_there = Stored::Block(block).texts().any(|text| text.contains(&line));
            assert!(is_there, "{line}");
        }
    }

    #[test]
    fn lanes_suit_the_length_of_rows() {
        let share = Share::new(256, 32, 1);
        let lanes = |k| share.for_rows(Block::Q4_K, k).lanes;
        // 16 units need 16 lanes, and 24 as many turns of 16 as of 32.
        assert_eq!([lanes(1024), lanes(1536), lanes(4096), lanes(8960)], [16, 32, 32, 32]);
        assert_eq!(share.lines(), 16);
        assert_eq!(Share::new(256, 32, 5), Share { columns: 8, lanes: 8, ..share });
        assert_eq!(share.groups(100, 1), 7);
    }
}
