//! The types that tensors can have, with their numbers in files and the sizes of their blocks.

use std::fmt;

use polaris_blocks::Block;

/// How the elements of a tensor are stored: in blocks of so many elements that take so many bytes.
/// Types without quantisation have blocks of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TensorType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of single precision.
    BF16,
    /// Quantised, in blocks of a format; there are constants of their names.
    Block(Block),
}

macro_rules! quantised {
    ($($name:ident)*) => {
        #[allow(missing_docs, reason = "each is the format of its name, which `Block` describes")]
        impl TensorType {
            $(pub const $name: Self = Self::Block(Block::$name);)*
        }
    };
}

quantised! { Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 }

impl TensorType {
    /// All types that are read and dequantised: those without quantisation, then the formats of blocks by number.
    pub const ALL: [Self; 3 + Block::ALL.len()] = {
        let mut all = [Self::F32; 3 + Block::ALL.len()];
        (all[1], all[2]) = (Self::F16, Self::BF16);
        let mut place = 0;
        while place < Block::ALL.len() {
            all[3 + place] = Self::Block(Block::ALL[place]);
            place += 1;
        }
        all
    };

    /// The type with this number in files.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.id() == id)
    }

    /// Its number in files.
    pub const fn id(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::BF16 => 30,
            Self::Block(block) => block.id(),
        }
    }

    /// Its name, as llama.cpp writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "F32",
            Self::F16 => "F16",
            Self::BF16 => "BF16",
            Self::Block(block) => block.name(),
        }
    }

    /// How many elements a block has.
    pub const fn block_elements(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::BF16 => 1,
            Self::Block(block) => block.elements(),
        }
    }

    /// How many bytes a block has.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
            Self::Block(block) => block.bytes(),
        }
    }

    /// The bytes of a tensor; `None` if rows do not end with a block or the size overflows. Dimensions are given
    /// outermost first; without any, there is one element.
    pub fn bytes_of(self, shape: &[usize]) -> Option<usize> {
        let (&row, outer) = shape.split_last().unwrap_or((&1, &[]));
        if !row.is_multiple_of(self.block_elements()) {
            return None;
        }
        let row_bytes = (row / self.block_elements()).checked_mul(self.block_bytes())?;
        outer.iter().try_fold(row_bytes, |bytes, &dim| bytes.checked_mul(dim))
    }

    /// The name of a type that llama.cpp knows and that is not among [`TensorType::ALL`].
    pub(crate) fn name_of_unsupported(id: u32) -> Option<&'static str> {
        Some(match id {
            9 => "Q8_1",
            15 => "Q8_K",
            16 => "IQ2_XXS",
            17 => "IQ2_XS",
            18 => "IQ3_XXS",
            19 => "IQ1_S",
            21 => "IQ3_S",
            22 => "IQ2_S",
            24 => "I8",
            25 => "I16",
            26 => "I32",
            27 => "I64",
            28 => "F64",
            29 => "IQ1_M",
            34 => "TQ1_0",
            35 => "TQ2_0",
            40 => "NVFP4",
            41 => "Q1_0",
            _ => return None,
        })
    }

    /// The names of all types, for messages.
    pub(crate) fn list() -> String {
        Self::ALL.map(Self::name).join(", ")
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes_are_consistent() {
        for ty in TensorType::ALL {
            assert_eq!(TensorType::from_id(ty.id()), Some(ty));
            assert_eq!(TensorType::name_of_unsupported(ty.id()), None);
            assert_eq!(ty.bytes_of(&[2, 3 * ty.block_elements()]), Some(6 * ty.block_bytes()));
        }
        assert_eq!(TensorType::from_id(4), None);
        assert_eq!(TensorType::F16.bytes_of(&[]), Some(2));
        assert_eq!(TensorType::Q4_0.bytes_of(&[32, 16]), None);
        assert_eq!(TensorType::F32.bytes_of(&[usize::MAX / 2, 2]), None);
    }
}
