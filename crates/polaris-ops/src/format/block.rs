//! Block formats, and what they have in common.

use polaris_core::DType;

/// Elements in blocks, each of the same number of bytes.
pub(crate) trait Blocks {
    /// Its name, as in files and kernels.
    const NAME: &'static str;
    /// Elements of a block.
    const ELEMENTS: usize;
    /// Bytes of a block.
    const BYTES: usize;
    /// OpenCL: the type `storage_NAME` of what memory holds, `load_NAME(p, i)` for element `i` of the blocks
    /// from `p` on, and `load4_NAME(p, i)` for four elements, of which the first is a multiple of four.
    const OPENCL: &'static str;

    /// The elements of a block.
    fn decode(block: &[u8], elements: &mut [f32]);

    /// The block that comes nearest to some elements.
    fn encode(elements: &[f32], block: &mut [u8]);
}

/// The most elements of a block.
pub(crate) const MOST_ELEMENTS: usize = 256;

/// A format of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is the format of its name")]
pub enum Block {
    Q8_0,
    Q4_0,
}

/// Does something with the type of a format of blocks.
macro_rules! with_block_type {
    ($block:expr, $type:ident => $body:expr) => {
        match $block {
            $crate::format::Block::Q8_0 => {
                type $type = $crate::format::Q8_0;
                $body
            }
            $crate::format::Block::Q4_0 => {
                type $type = $crate::format::Q4_0;
                $body
            }
        }
    };
}
pub(crate) use with_block_type;

impl Block {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Q8_0, Self::Q4_0];

    /// Its name, as in files and kernels.
    pub const fn name(self) -> &'static str {
        with_block_type!(self, B => B::NAME)
    }

    /// Elements of a block.
    pub const fn elements(self) -> usize {
        with_block_type!(self, B => B::ELEMENTS)
    }

    /// Bytes of a block.
    pub const fn bytes(self) -> usize {
        with_block_type!(self, B => B::BYTES)
    }

    /// See [`Blocks::OPENCL`].
    pub(crate) const fn opencl(self) -> &'static str {
        with_block_type!(self, B => B::OPENCL)
    }

    /// The elements of whole blocks.
    pub fn decode(self, blocks: &[u8], elements: &mut [f32]) {
        with_block_type!(self, B => {
            let each = elements.chunks_exact_mut(B::ELEMENTS);
            blocks.chunks_exact(B::BYTES).zip(each).for_each(|(block, to)| B::decode(block, to));
        });
    }

    /// The blocks that come nearest to elements, of which there are as many as whole blocks have.
    pub fn encode(self, elements: &[f32], blocks: &mut [u8]) {
        with_block_type!(self, B => {
            let each = elements.chunks_exact(B::ELEMENTS);
            blocks.chunks_exact_mut(B::BYTES).zip(each).for_each(|(to, from)| B::encode(from, to));
        });
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
            Self::Block(block) => block.name(),
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
        let text = match self {
            Self::Dense(_) => None,
            Self::Block(block) => Some(block.opencl()),
        };
        text.into_iter()
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

/// Elements of blocks, the first one and every `stride`-th after it, to `f32`s that are `to_stride` apart.
///
/// # Safety
/// The blocks that hold the elements must be readable, and the target writable.
pub(crate) unsafe fn read_blocks<B: Blocks>(
    blocks: *const u8,
    first: usize,
    stride: usize,
    count: usize,
    to: *mut f32,
    to_stride: usize,
) {
    let mut decoded = [0.0; MOST_ELEMENTS];
    let mut at = 0;
    while at < count {
        let element = first + at * stride;
        let (block, from) = (element / B::ELEMENTS, element % B::ELEMENTS);
        // Elements of this block from here on.
        let here = (B::ELEMENTS - from).div_ceil(stride.max(1));
        let here = if stride == 0 { count } else { here.min(count - at) };
        // SAFETY: by the caller's word.
        unsafe {
            let bytes = std::slice::from_raw_parts(blocks.add(block * B::BYTES), B::BYTES);
            B::decode(bytes, &mut decoded[..B::ELEMENTS]);
            for i in 0..here {
                *to.add((at + i) * to_stride) = decoded[from + i * stride];
            }
        }
        at += here;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block that is decoded and encoded again says the same, and errors are at most what the format allows.
    #[test]
    fn blocks_come_near_to_what_was_encoded() {
        for block in Block::ALL {
            let values: Vec<f32> =
                (0..8 * block.elements()).map(|i| ((i * 37 % 101) as f32 - 50.0) / 17.0).collect();
            let mut bytes = vec![0; 8 * block.bytes()];
            block.encode(&values, &mut bytes);
            let mut decoded = vec![0.0; values.len()];
            block.decode(&bytes, &mut decoded);
            let steps = if block == Block::Q8_0 { 254.0 } else { 15.0 };
            for (chunk, found) in
                values.chunks(block.elements()).zip(decoded.chunks(block.elements()))
            {
                let largest = chunk.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
                for (value, found) in chunk.iter().zip(found) {
                    let allowed = 1.2 * 2.0 * largest / steps;
                    assert!((value - found).abs() <= allowed, "{block:?}: {found} for {value}");
                }
            }
            let mut zeros = vec![1; block.bytes()];
            block.encode(&vec![0.0; block.elements()], &mut zeros);
            block.decode(&zeros, &mut decoded[..block.elements()]);
            assert!(decoded[..block.elements()].iter().all(|&value| value == 0.0));
        }
    }

    #[test]
    fn any_elements_are_read() {
        for block in Block::ALL {
            let values: Vec<f32> = (0..4 * block.elements()).map(|i| (i as f32).sin()).collect();
            let mut bytes = vec![0; 4 * block.bytes()];
            block.encode(&values, &mut bytes);
            let mut decoded = vec![0.0; values.len()];
            block.decode(&bytes, &mut decoded);
            for (first, stride, count) in
                [(0, 1, 128), (31, 1, 2), (5, 3, 30), (40, 0, 3), (1, 33, 3)]
            {
                let mut found = vec![f32::NAN; 2 * count];
                with_block_type!(block, B => {
                    // SAFETY: the elements lie inside the four blocks.
                    unsafe { read_blocks::<B>(bytes.as_ptr(), first, stride, count, found.as_mut_ptr(), 2) };
                });
                for i in 0..count {
                    assert_eq!(
                        found[2 * i],
                        decoded[first + i * stride],
                        "{block:?} {first} {stride}"
                    );
                }
            }
        }
    }
}
