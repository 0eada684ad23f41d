//! Formats of blocks in kernels: what OpenCL programs read them with, and reading any of their elements on the CPU.

use polaris_blocks::{Block, Blocks, MOST_ELEMENTS};
use polaris_core::DType;
use polaris_runtime::cpu::SimdLevel;

use crate::cpu::simd::multiversion;

/// How words of blocks are read, and what kernels expect of a format.
const WORDS: &str = include_str!("words.cl");

/// OpenCL texts of a format: the type `storage_NAME` of what memory holds, `load_NAME(p, i)` for element `i` of the
/// blocks from `p` on, `load4_NAME(p, i)` for four elements, of which the first is a multiple of four, and how a unit
/// of a row is unpacked (`words.cl`).
const fn opencl(block: Block) -> &'static [&'static str] {
    match block {
        Block::Q4_0 => &[WORDS, include_str!("q4_0.cl")],
        Block::Q4_1 => &[WORDS, include_str!("q4_1.cl")],
        Block::Q5_0 => &[WORDS, include_str!("fifths.cl"), include_str!("q5_0.cl")],
        Block::Q5_1 => &[WORDS, include_str!("fifths.cl"), include_str!("q5_1.cl")],
        Block::Q8_0 => &[WORDS, include_str!("q8_0.cl")],
        Block::Q2_K => &[WORDS, include_str!("q2_k.cl")],
        Block::Q3_K => &[WORDS, include_str!("q3_k.cl")],
        Block::Q4_K => &[WORDS, include_str!("k_ranges.cl"), include_str!("q4_k.cl")],
        Block::Q5_K => &[WORDS, include_str!("k_ranges.cl"), include_str!("q5_k.cl")],
        Block::Q6_K => &[WORDS, include_str!("q6_k.cl")],
        Block::IQ4_NL => &[WORDS, include_str!("iq4_table.cl"), include_str!("iq4_nl.cl")],
        Block::IQ4_XS => &[WORDS, include_str!("iq4_table.cl"), include_str!("iq4_xs.cl")],
        Block::MXFP4 => &[WORDS, include_str!("mxfp4.cl")],
    }
}

/// What kernels read from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Stored {
    Dense(DType),
    Block(Block),
}

impl Stored {
    /// Its name in kernels.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dense(dtype) => dtype.name(),
            Self::Block(block) => block.lower_name(),
        }
    }

    /// The type of its elements.
    pub const fn dtype(self) -> DType {
        match self {
            Self::Dense(dtype) => dtype,
            Self::Block(_) => DType::F32,
        }
    }

    /// The functions that kernels read it with, if it needs some.
    pub fn texts(self) -> impl Iterator<Item = &'static str> {
        let texts: &[_] = match self {
            Self::Dense(_) => &[],
            Self::Block(block) => opencl(block),
        };
        texts.iter().copied()
    }

    /// A small number for each, for kernel keys.
    pub const fn code(self) -> u64 {
        match self {
            Self::Dense(dtype) => dtype as u64,
            Self::Block(block) => 128 + block as u64,
        }
    }
}

impl std::fmt::Display for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Some elements of blocks: the first one, and every `stride`-th after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements {
    pub first: usize,
    pub stride: usize,
    pub count: usize,
}

/// Elements of blocks, to `f32`s that are `to_stride` apart.
///
/// # Safety
/// The blocks that hold the elements must be readable, and the target writable.
pub(crate) unsafe fn read_blocks<B: Blocks>(
    level: SimdLevel,
    blocks: *const u8,
    elements: Elements,
    to: *mut f32,
    to_stride: usize,
) {
    read::<B>(level, blocks, elements, to, to_stride);
}

multiversion! {
    /// Must only be called by `read_blocks`, whose caller vouches for the pointers.
    fn read<B: Blocks>(blocks: *const u8, elements: Elements, to: *mut f32, to_stride: usize) {
        let Elements { first, stride, count } = elements;
        let is_dense = stride == 1 && to_stride == 1;
        let mut decoded = [0.0; MOST_ELEMENTS];
        let mut at = 0;
        while at < count {
            let element = first + at * stride;
            let (block, from) = (element / B::ELEMENTS, element % B::ELEMENTS);
            // Elements of this block from here on.
            let here = (B::ELEMENTS - from).div_ceil(stride.max(1));
            let here = if stride == 0 { count } else { here.min(count - at) };
            // SAFETY: by the word of `read_blocks`'s caller.
            unsafe {
                let bytes = std::slice::from_raw_parts(blocks.add(block * B::BYTES), B::BYTES);
                if is_dense && here == B::ELEMENTS {
                    B::decode(bytes, std::slice::from_raw_parts_mut(to.add(at), here));
                } else {
                    B::decode(bytes, &mut decoded[..B::ELEMENTS]);
                    for i in 0..here {
                        *to.add((at + i) * to_stride) = decoded[from + i * stride];
                    }
                }
            }
            at += here;
        }
    }
}

/// Rows of blocks that are a stride apart. All numbers are of elements, and multiples of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockRows {
    pub first: usize,
    pub stride: usize,
    pub rows: usize,
    pub length: usize,
}

impl BlockRows {
    /// Whether rows begin and end at blocks.
    pub fn are_whole<B: Blocks>(&self) -> bool {
        [self.first, self.stride, self.length].into_iter().all(|at| at.is_multiple_of(B::ELEMENTS))
    }
}

/// The elements of [whole](BlockRows::are_whole) rows, to dense rows. One call for many of them: rows of a cache have two
/// to four blocks, less than a call of [`read_blocks`] costs beside them.
///
/// # Safety
/// The blocks must be readable, and the target writable.
pub(crate) unsafe fn read_block_rows<B: Blocks>(
    level: SimdLevel,
    blocks: *const u8,
    rows: BlockRows,
    to: *mut f32,
) {
    read_rows::<B>(level, blocks, rows, to);
}

multiversion! {
    /// Must only be called by `read_block_rows`, whose caller vouches for the pointers.
    fn read_rows<B: Blocks>(blocks: *const u8, rows: BlockRows, to: *mut f32) {
        let each = rows.length / B::ELEMENTS;
        for row in 0..rows.rows {
            let first = (rows.first + row * rows.stride) / B::ELEMENTS;
            for block in 0..each {
                // SAFETY: by the word of `read_block_rows`'s caller.
                let (bytes, elements) = unsafe {
                    let from = blocks.add((first + block) * B::BYTES);
                    let to = to.add((row * each + block) * B::ELEMENTS);
                    (
                        std::slice::from_raw_parts(from, B::BYTES),
                        std::slice::from_raw_parts_mut(to, B::ELEMENTS),
                    )
                };
                B::decode(bytes, elements);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use polaris_blocks::with_block_type;
    use polaris_runtime::cpu::SimdLevel;

    use super::*;

    #[test]
    fn any_elements_are_read() {
        let levels = [SimdLevel::Portable, SimdLevel::Avx2, SimdLevel::Avx512];
        let levels = levels.into_iter().filter(|&level| level <= SimdLevel::detect());
        for block in Block::ALL {
            let values: Vec<f32> = (0..4 * block.elements()).map(|i| (i as f32).sin()).collect();
            let mut bytes = vec![0; 4 * block.bytes()];
            block.encode_nearest(&values, &mut bytes).unwrap();
            let mut decoded = vec![0.0; values.len()];
            block.decode(&bytes, &mut decoded);
            let whole = 4 * block.elements();
            for (first, stride, count) in
                [(0, 1, whole), (31, 1, 2), (5, 3, 30), (40, 0, 3), (1, 33, 3), (7, 1, whole - 9)]
            {
                for (level, to_stride) in levels.clone().flat_map(|level| [(level, 1), (level, 2)])
                {
                    let mut found = vec![f32::NAN; to_stride * count];
                    let elements = Elements { first, stride, count };
                    let (from, to) = (bytes.as_ptr(), found.as_mut_ptr());
                    with_block_type!(block, B => {
                        // SAFETY: the elements lie inside the four blocks, and the processor has the level.
                        unsafe { read_blocks::<B>(level, from, elements, to, to_stride) };
                    });
                    for i in 0..count {
                        let expected = decoded[first + i * stride];
                        let place = (level, first, stride);
                        assert_eq!(found[to_stride * i], expected, "{block} {place:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn whole_rows_are_read_together() {
        let levels = [SimdLevel::Portable, SimdLevel::Avx2, SimdLevel::Avx512];
        for block in Block::ALL {
            let each = block.elements();
            let values: Vec<f32> = (0..12 * each).map(|i| (i as f32).cos()).collect();
            let mut bytes = vec![0; 12 * block.bytes()];
            block.encode_nearest(&values, &mut bytes).unwrap();
            let mut decoded = vec![0.0; values.len()];
            block.decode(&bytes, &mut decoded);
            let rows = BlockRows { first: each, stride: 4 * each, rows: 3, length: 2 * each };
            let expected: Vec<f32> = (0..3)
                .flat_map(|row| &decoded[rows.first + row * rows.stride..][..rows.length])
                .copied()
                .collect();
            for level in levels.into_iter().filter(|&level| level <= SimdLevel::detect()) {
                let mut found = vec![f32::NAN; expected.len()];
                with_block_type!(block, B => {
                    assert!(rows.are_whole::<B>());
                    assert!(!BlockRows { stride: 4 * each + 8, ..rows }.are_whole::<B>());
                    // SAFETY: the rows lie inside the blocks, and the processor has the level.
                    unsafe { read_block_rows::<B>(level, bytes.as_ptr(), rows, found.as_mut_ptr()) };
                });
                assert_eq!(found, expected, "{block} {level:?}");
            }
        }
    }
}
