//! The types that tensors can have, with their numbers in files and the sizes of their blocks.

use std::fmt;

/// How the elements of a tensor are stored: in blocks of so many elements that take so many bytes.
/// Types without quantisation have blocks of one element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(non_camel_case_types, reason = "the names that files, tools and papers use")]
pub enum TensorType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
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
    /// The upper half of single precision.
    BF16,
    /// The OCP microscaling format: E2M1 elements, one power of two for 32.
    MXFP4,
}

/// Number, name, elements per block, bytes per block.
struct Row(u32, &'static str, usize, usize);

impl TensorType {
    /// All types that are read and dequantised, by number.
    pub const ALL: [Self; 16] = [
        Self::F32,
        Self::F16,
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
        Self::BF16,
        Self::MXFP4,
    ];

    const fn row(self) -> Row {
        match self {
            Self::F32 => Row(0, "F32", 1, 4),
            Self::F16 => Row(1, "F16", 1, 2),
            Self::Q4_0 => Row(2, "Q4_0", 32, 2 + 16),
            Self::Q4_1 => Row(3, "Q4_1", 32, 2 + 2 + 16),
            Self::Q5_0 => Row(6, "Q5_0", 32, 2 + 4 + 16),
            Self::Q5_1 => Row(7, "Q5_1", 32, 2 + 2 + 4 + 16),
            Self::Q8_0 => Row(8, "Q8_0", 32, 2 + 32),
            Self::Q2_K => Row(10, "Q2_K", 256, 16 + 64 + 2 + 2),
            Self::Q3_K => Row(11, "Q3_K", 256, 32 + 64 + 12 + 2),
            Self::Q4_K => Row(12, "Q4_K", 256, 2 + 2 + 12 + 128),
            Self::Q5_K => Row(13, "Q5_K", 256, 2 + 2 + 12 + 32 + 128),
            Self::Q6_K => Row(14, "Q6_K", 256, 128 + 64 + 16 + 2),
            Self::IQ4_NL => Row(20, "IQ4_NL", 32, 2 + 16),
            Self::IQ4_XS => Row(23, "IQ4_XS", 256, 2 + 2 + 4 + 128),
            Self::BF16 => Row(30, "BF16", 1, 2),
            Self::MXFP4 => Row(39, "MXFP4", 32, 1 + 16),
        }
    }

    /// The type with this number in files.
    pub fn from_id(id: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|ty| ty.id() == id)
    }

    /// Its number in files.
    pub const fn id(self) -> u32 {
        self.row().0
    }

    /// Its name, as llama.cpp writes it.
    pub const fn name(self) -> &'static str {
        self.row().1
    }

    /// How many elements a block has.
    pub const fn block_elements(self) -> usize {
        self.row().2
    }

    /// How many bytes a block has.
    pub const fn block_bytes(self) -> usize {
        self.row().3
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
        assert!(TensorType::ALL.is_sorted_by_key(|ty| ty.id()));
        assert_eq!(TensorType::from_id(4), None);
        assert_eq!(TensorType::F16.bytes_of(&[]), Some(2));
        assert_eq!(TensorType::Q4_0.bytes_of(&[32, 16]), None);
        assert_eq!(TensorType::F32.bytes_of(&[usize::MAX / 2, 2]), None);
    }
}
