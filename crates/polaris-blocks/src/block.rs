//! The formats: names, numbers, sizes, and what each has to provide.

use std::fmt;

use crate::{CHUNK, Error, Levels, Refusal, Result, Simd, Values};

/// One format, as a type. Names and sizes are those of [`Block`].
pub trait Blocks {
    /// The format.
    const BLOCK: Block;
    /// Elements of a block.
    const ELEMENTS: usize;
    /// Bytes of a block.
    const BYTES: usize;

    /// Elements that share a scale: 16 or 32.
    const GROUP: usize;
    /// The highest level of an element.
    const HIGHEST: u8;
    /// What the numbers that elements are stored as stand for.
    const VALUES: Values;

    /// The elements of one block. Implementations are always inlined and free of branches on data.
    fn decode(block: &[u8], elements: &mut [f32]);

    /// The same of [`CHUNK`](crate::CHUNK) elements, before they are multiplied: see [`Levels`]. Always inlined, too.
    fn levels<S: Simd>(simd: S, blocks: &[u8]) -> Levels<S>;

    /// Writes numbers of the elements of one block, below the count of [`Self::VALUES`]; scales stay.
    fn write_numbers(numbers: &[u8], block: &mut [u8]);

    /// One block that comes near to finite elements: each rounded to the nearest that the scales allow, which follow from
    /// extremes alone. That of Q4_0 and Q8_0, which caches are written in, is always inlined.
    ///
    /// # Errors
    /// If a scale is beyond half precision.
    fn encode_nearest(elements: &[f32], block: &mut [u8]) -> std::result::Result<(), Refusal>;

    /// The blocks of [`CHUNK`] finite elements, with scales that were searched for; squared errors count by the importance of
    /// their elements, if there is one. Always inlined.
    ///
    /// # Errors
    /// If a scale is beyond half precision.
    #[inline(always)]
    fn encode_best(
        elements: &[f32; CHUNK],
        _importance: Option<&[f32; CHUNK]>,
        blocks: &mut [u8],
    ) -> std::result::Result<(), Refusal> {
        let pairs = elements.chunks_exact(Self::ELEMENTS).zip(blocks.chunks_exact_mut(Self::BYTES));
        for (elements, block) in pairs {
            Self::encode_nearest(elements, block)?;
        }
        Ok(())
    }
}

/// The most elements that a block of any format has.
pub const MOST_ELEMENTS: usize = 256;

/// A format of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(non_camel_case_types, reason = "the names that files, tools and papers use")]
pub enum Block {
    /// 4 bits, one scale for 32.
    Q4_0,
    /// 4 bits, scale and minimum for 32.
    Q4_1,
    /// 5 bits, one scale for 32.
    Q5_0,
    /// 5 bits, scale and minimum for 32.
    Q5_1,
    /// 8 bits, one scale for 32.
    Q8_0,
    /// 2 bits, a 4-bit scale and minimum for 16.
    Q2_K,
    /// 3 bits, a 6-bit scale for 16.
    Q3_K,
    /// 4 bits, a 6-bit scale and minimum for 32.
    Q4_K,
    /// 5 bits, a 6-bit scale and minimum for 32.
    Q5_K,
    /// 6 bits, an 8-bit scale for 16.
    Q6_K,
    /// 4 bits that choose from a table, one scale for 32.
    IQ4_NL,
    /// 4 bits that choose from a table, a 6-bit scale for 32.
    IQ4_XS,
    /// The OCP microscaling format: E2M1 elements, one power of two for 32.
    MXFP4,
}

/// Does something with the type of a format: `with_block_type!(block, B => B::BYTES)`.
#[macro_export]
macro_rules! with_block_type {
    ($block:expr, $type:ident => $body:expr) => {
        $crate::with_block_type! {
            $block, $type => $body;
            Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K
            Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4
        }
    };
    ($block:expr, $type:ident => $body:expr; $($name:ident)*) => {
        match $block {
            $($crate::Block::$name => {
                type $type = $crate::$name;
                $body
            })*
        }
    };
}

/// Number, name, name in lower case.
struct Row(u32, &'static str, &'static str);

impl Block {
    /// All of them, by number.
    pub const ALL: [Self; 13] = [
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q8_0,
        Self::Q2_K,
        Self::Q3_K,
        Self::Q4_K,
        Self::Q5_K,
        Self::Q6_K,
        Self::IQ4_NL,
        Self::IQ4_XS,
        Self::MXFP4,
    ];

    const fn row(self) -> Row {
        match self {
            Self::Q4_0 => Row(2, "Q4_0", "q4_0"),
            Self::Q4_1 => Row(3, "Q4_1", "q4_1"),
            Self::Q5_0 => Row(6, "Q5_0", "q5_0"),
            Self::Q5_1 => Row(7, "Q5_1", "q5_1"),
            Self::Q8_0 => Row(8, "Q8_0", "q8_0"),
            Self::Q2_K => Row(10, "Q2_K", "q2_k"),
            Self::Q3_K => Row(11, "Q3_K", "q3_k"),
            Self::Q4_K => Row(12, "Q4_K", "q4_k"),
            Self::Q5_K => Row(13, "Q5_K", "q5_k"),
            Self::Q6_K => Row(14, "Q6_K", "q6_k"),
            Self::IQ4_NL => Row(20, "IQ4_NL", "iq4_nl"),
            Self::IQ4_XS => Row(23, "IQ4_XS", "iq4_xs"),
            Self::MXFP4 => Row(39, "MXFP4", "mxfp4"),
        }
    }

    /// The format with this number in GGUF files.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|block| block.id() == id)
    }

    /// Its number in GGUF files.
    pub const fn id(self) -> u32 {
        self.row().0
    }

    /// Its name, as in files.
    pub const fn name(self) -> &'static str {
        self.row().1
    }

    /// Its name in lower case, as in names of kernels.
    pub const fn lower_name(self) -> &'static str {
        self.row().2
    }

    /// Elements of a block.
    pub const fn elements(self) -> usize {
        with_block_type!(self, B => B::ELEMENTS)
    }

    /// Bytes of a block.
    pub const fn bytes(self) -> usize {
        with_block_type!(self, B => B::BYTES)
    }

    /// Whether [`Self::encode_nearest`] gives the bytes of the Python package `gguf`. It has no encoder for the K and IQ
    /// formats, whose scales quantisers search for.
    pub const fn has_reference_encoder(self) -> bool {
        match self {
            Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Q8_0 | Self::MXFP4 => true,
            Self::Q2_K | Self::Q3_K | Self::Q4_K | Self::Q5_K | Self::Q6_K => false,
            Self::IQ4_NL | Self::IQ4_XS => false,
        }
    }

    /// The elements of whole blocks, as many as both sides have.
    pub fn decode(self, blocks: &[u8], elements: &mut [f32]) {
        with_block_type!(self, B => {
            let each = elements.chunks_exact_mut(B::ELEMENTS);
            blocks.chunks_exact(B::BYTES).zip(each).for_each(|(block, to)| B::decode(block, to));
        });
    }

    /// Blocks that come near to elements: each is rounded to the nearest that the scales allow, which follow from the
    /// extremes of their elements without a search. See [`Self::has_reference_encoder`].
    ///
    /// # Errors
    /// If the elements do not fill the blocks, one of them is not finite, or a scale is beyond half precision.
    pub fn encode_nearest(self, elements: &[f32], blocks: &mut [u8]) -> Result<()> {
        self.check(elements, blocks)?;
        let each = self.elements();
        let pairs = elements.chunks_exact(each).zip(blocks.chunks_exact_mut(self.bytes()));
        for (number, (from, to)) in pairs.enumerate() {
            with_block_type!(self, B => B::encode_nearest(from, to)).map_err(|refusal| {
                let first = number * each;
                Error::Scale { block: self, first, last: first + each - 1, refusal }
            })?;
        }
        Ok(())
    }

    /// Whether [`Self::encode_best`] searches: the scales of Q8_0 and MXFP4 follow from extremes.
    pub const fn is_searched(self) -> bool {
        !matches!(self, Self::Q8_0 | Self::MXFP4)
    }

    /// Blocks that come nearer to elements than those of [`Self::encode_nearest`]: scales are searched for, and what
    /// larger elements miss counts for more. With an importance of each element, its squared error counts by that, too.
    /// Formats that are [not searched](Self::is_searched) are the same as there.
    ///
    /// # Errors
    /// As [`Self::encode_nearest`]; if there is not an importance for each element, or one is negative or not finite.
    pub fn encode_best(
        self,
        elements: &[f32],
        importance: Option<&[f32]>,
        blocks: &mut [u8],
    ) -> Result<()> {
        self.encode_best_by(
            elements,
            importance,
            blocks,
            |from, by, to| with_block_type!(self, B => B::encode_best(from, by, to)),
        )
    }

    /// The same, where `encode` is this format's [`Blocks::encode_best`], compiled for some instructions.
    ///
    /// # Errors
    /// As [`Self::encode_best`].
    #[inline(always)]
    pub fn encode_best_by(
        self,
        elements: &[f32],
        importance: Option<&[f32]>,
        blocks: &mut [u8],
        encode: impl Fn(
            &[f32; CHUNK],
            Option<&[f32; CHUNK]>,
            &mut [u8],
        ) -> std::result::Result<(), Refusal>,
    ) -> Result<()> {
        self.check(elements, blocks)?;
        if let Some(importance) = importance {
            self.check_importance(elements, importance)?;
        }
        let bytes = CHUNK / self.elements() * self.bytes();
        for (number, from) in elements.chunks(CHUNK).enumerate() {
            let first = number * CHUNK;
            let refused = |refusal| Error::Scale {
                block: self,
                first,
                last: first + from.len() - 1,
                refusal,
            };
            let to = &mut blocks[number * bytes..];
            let by = importance.map(|importance| &importance[first..first + from.len()]);
            if let Ok(from) = <&[f32; CHUNK]>::try_from(from) {
                let by = by.and_then(|by| by.try_into().ok());
                encode(from, by, &mut to[..bytes]).map_err(refused)?;
                continue;
            }
            // The blocks at the end are filled up with zeros.
            let filled = |some: &[f32]| {
                let mut whole = [0.0; CHUNK];
                whole[..some.len()].copy_from_slice(some);
                whole
            };
            let mut encoded = [0; 8 * 34];
            encode(&filled(from), by.map(filled).as_ref(), &mut encoded[..bytes])
                .map_err(refused)?;
            let count = to.len();
            to.copy_from_slice(&encoded[..count]);
        }
        Ok(())
    }

    /// Whether these can be the importance of elements.
    fn check_importance(self, elements: &[f32], importance: &[f32]) -> Result<()> {
        if importance.len() != elements.len() {
            let (weights, found) = (elements.len(), importance.len());
            return Err(Error::ImportanceLength { block: self, weights, found });
        }
        match importance.iter().position(|one| !(one.is_finite() && *one >= 0.0)) {
            Some(at) => Err(Error::Importance { block: self, at, value: importance[at] }),
            None => Ok(()),
        }
    }

    /// Whether these elements can become these blocks.
    fn check(self, elements: &[f32], blocks: &[u8]) -> Result<()> {
        let (each, bytes) = (self.elements(), self.bytes());
        let is_whole = elements.len().is_multiple_of(each) && blocks.len().is_multiple_of(bytes);
        if !is_whole || elements.len() / each != blocks.len() / bytes {
            let (weights, bytes) = (elements.len(), blocks.len());
            return Err(Error::Length { block: self, weights, bytes });
        }
        match elements.iter().position(|element| !element.is_finite()) {
            Some(at) => Err(Error::NotFinite { block: self, at, value: elements[at] }),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_names_and_sizes_are_consistent() {
        assert!(Block::ALL.is_sorted_by_key(|block| block.id()));
        for block in Block::ALL {
            assert_eq!(Block::from_id(block.id()), Some(block));
            assert_eq!(block.name().to_lowercase(), block.lower_name());
            assert!(matches!(block.elements(), 32 | MOST_ELEMENTS));
            with_block_type!(block, B => assert_eq!(B::BLOCK, block));
        }
        assert_eq!(Block::from_id(0), None);
    }

    /// The largest error of an element, relative to the largest magnitude of its block, for evenly spread elements.
    fn step(block: Block) -> f32 {
        match block {
            Block::Q8_0 => 1.0 / 200.0,
            Block::Q6_K => 1.0 / 28.0,
            Block::Q5_0 | Block::Q5_1 | Block::Q5_K => 1.0 / 16.0,
            Block::Q2_K => 0.4,
            // The largest magnitude becomes -4, the opposite of which is at most 3.
            Block::Q3_K => 0.27,
            // E2M1 has 4, 6 and nothing above: what is just below 8 becomes 6.
            Block::MXFP4 => 0.25,
            Block::Q4_0 | Block::Q4_1 | Block::Q4_K | Block::IQ4_NL | Block::IQ4_XS => 1.0 / 7.0,
        }
    }

    #[test]
    fn blocks_come_near_to_what_was_encoded() {
        for block in Block::ALL {
            let value = |i: usize| ((i * 37 % 101) as f32 - 50.0) / 17.0;
            let values: Vec<f32> = (0..8 * block.elements()).map(value).collect();
            let mut bytes = vec![0; 8 * block.bytes()];
            block.encode_nearest(&values, &mut bytes).unwrap();
            let mut decoded = vec![0.0; values.len()];
            block.decode(&bytes, &mut decoded);
            let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
            for (value, found) in values.iter().zip(&decoded) {
                let error = (value - found).abs() / largest;
                assert!(error <= step(block), "{block}: {found} for {value}");
            }
            let mut again = vec![0; bytes.len()];
            block.encode_nearest(&decoded, &mut again).unwrap();
            let mut twice = vec![0.0; decoded.len()];
            block.decode(&again, &mut twice);
            let far =
                decoded.iter().zip(&twice).any(|(a, b)| (a - b).abs() > step(block) * largest);
            assert!(!far, "{block} changes what it has encoded");
            block.encode_nearest(&vec![0.0; 8 * block.elements()], &mut bytes).unwrap();
            block.decode(&bytes, &mut decoded);
            assert!(decoded.iter().all(|&value| value == 0.0), "{block}");
        }
    }

    #[test]
    fn what_cannot_be_encoded_is_named() {
        for block in Block::ALL {
            let (each, bytes) = (block.elements(), block.bytes());
            let mut to = vec![0; 2 * bytes];
            let mut encode = |values: &[f32]| block.encode_nearest(values, &mut to).unwrap_err();
            let error = encode(&vec![0.0; 2 * each - 1]);
            assert_eq!(error, Error::Length { block, weights: 2 * each - 1, bytes: 2 * bytes });
            assert_eq!(
                encode(&vec![0.0; 3 * each]).to_string().split(':').next(),
                Some(block.name())
            );
            let mut values = vec![1.0; 2 * each];
            values[each + 1] = f32::INFINITY;
            assert_eq!(
                encode(&values).to_string(),
                format!("{block}: weight {} is inf; weights must be finite", each + 1)
            );
            if block != Block::MXFP4 {
                values[each + 1] = 1e38;
                assert!(matches!(encode(&values), Error::Scale { first, .. } if first == each));
            }
        }
    }
}
