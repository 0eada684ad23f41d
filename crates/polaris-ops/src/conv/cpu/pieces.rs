//! Positions of a result in blocks: pieces of rows, one after another, of one image after another.

use super::super::axis::Axis;
use super::window::CHUNK;

/// Neighbouring positions of one row.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece {
    pub image: usize,
    pub row: usize,
    /// The first position, and how many.
    pub column: usize,
    pub width: usize,
    /// Where it begins in its block.
    pub at: usize,
}

/// How positions are cut into blocks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blocks {
    images: usize,
    rows: usize,
    columns: usize,
    /// Positions of a piece, and pieces of a row.
    pub width: usize,
    per_row: usize,
    /// Pieces of a block.
    pub pieces: usize,
    /// Pieces begin on a multiple of this.
    alignment: usize,
}

impl Blocks {
    /// Blocks of about `most` positions, which is a multiple of the alignment and of a chunk.
    pub fn new(images: usize, axes: &[Axis; 2], most: usize, alignment: usize) -> Self {
        let [rows, columns] = [axes[0].count, axes[1].count];
        let per_row = columns.div_ceil(most).max(1);
        let width = columns.div_ceil(per_row).max(1);
        // Whole chunks, where a row has several pieces.
        let width = if per_row > 1 { width.next_multiple_of(CHUNK) } else { width };
        let pieces = (most / width.next_multiple_of(alignment)).clamp(1, (images * rows).max(1));
        Self { images, rows, columns, width, per_row, pieces, alignment }
    }

    /// Blocks that there are.
    pub fn count(&self) -> usize {
        let pieces = if self.columns == 0 { 0 } else { self.images * self.rows * self.per_row };
        pieces.div_ceil(self.pieces)
    }

    /// Positions of the largest block, with what alignment adds.
    pub fn most_positions(&self) -> usize {
        self.pieces * self.width.next_multiple_of(self.alignment)
    }

    /// Lists the pieces of a block, and returns its positions.
    pub fn list(&self, block: usize, pieces: &mut Vec<Piece>) -> usize {
        pieces.clear();
        let all = self.images * self.rows * self.per_row;
        let mut at = 0;
        for piece in block * self.pieces..all.min((block + 1) * self.pieces) {
            let (row, column) = (piece / self.per_row, piece % self.per_row * self.width);
            // Rounding up may leave nothing for the last pieces of a row.
            let width = self.width.min(self.columns.saturating_sub(column));
            let (image, row) = (row / self.rows, row % self.rows);
            pieces.push(Piece { image, row, column, width, at });
            at += width.next_multiple_of(self.alignment);
        }
        at
    }
}
