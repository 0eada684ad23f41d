//! Mixtures of formats: which tensor gets how many bits.
//!
//! The names and the rules are llama.cpp's, so that a file is what its name says everywhere: more bits for the output, for the
//! values of attention and for the way down from the feed-forward layer, whose errors are not averaged out, and of these for the
//! first and last layers and every third between them.

use polaris_gguf::TensorType;
use polaris_ops::Block;

/// A mixture of formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(non_camel_case_types, reason = "the names that files and tools use")]
pub enum Recipe {
    /// Half precision.
    F16,
    /// The upper half of `f32`.
    BF16,
    /// 8 bits.
    Q8_0,
    /// 6 bits.
    Q6_K,
    /// 5 bits, some tensors with 6.
    Q5_K_M,
    /// 5 bits.
    Q5_K_S,
    /// 4 bits, some tensors with 6: what most models are used in.
    #[default]
    Q4_K_M,
    /// 4 bits, a few tensors with 5.
    Q4_K_S,
    /// 4 bits from a table, a few tensors with 5.
    IQ4_XS,
    /// 4 bits from a table; rows of any multiple of 32.
    IQ4_NL,
    /// 3 bits, some tensors with 4 and 5.
    Q3_K_M,
    /// 2 bits, some tensors with 3.
    Q2_K,
    /// 5 bits and a minimum, the older format.
    Q5_1,
    /// 5 bits, the older format.
    Q5_0,
    /// 4 bits and a minimum, the older format.
    Q4_1,
    /// 4 bits, the older format.
    Q4_0,
}

/// What a matrix does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// The output, or an embedding that is the output too.
    Output,
    /// The values of attention.
    Value,
    /// Queries, keys and values in one.
    QueryKeyValue,
    /// The output of attention.
    AttentionOutput,
    /// The way down from the feed-forward layer.
    Down,
    Other,
}

impl Part {
    /// By its name; `tied` says that the embedding is the output too.
    pub fn of(name: &str, tied: bool) -> Self {
        let is = |part: &str| name.contains(part);
        match name {
            "output.weight" => Self::Output,
            "token_embd.weight" if tied => Self::Output,
            _ if is("attn_v.") || is("attn_v_b.") => Self::Value,
            _ if is("attn_qkv.") => Self::QueryKeyValue,
            _ if is("attn_output.") => Self::AttentionOutput,
            _ if is("ffn_down") => Self::Down,
            _ => Self::Other,
        }
    }
}

impl Recipe {
    /// All of them, by falling size.
    pub const ALL: [Self; 16] = [
        Self::BF16,
        Self::F16,
        Self::Q8_0,
        Self::Q6_K,
        Self::Q5_1,
        Self::Q5_K_M,
        Self::Q5_0,
        Self::Q5_K_S,
        Self::Q4_1,
        Self::Q4_K_M,
        Self::Q4_K_S,
        Self::Q4_0,
        Self::IQ4_NL,
        Self::IQ4_XS,
        Self::Q3_K_M,
        Self::Q2_K,
    ];

    /// Name, number in `general.file_type`, and the type of most matrices.
    const fn row(self) -> (&'static str, u32, TensorType) {
        match self {
            Self::F16 => ("F16", 1, TensorType::F16),
            Self::Q4_0 => ("Q4_0", 2, TensorType::Block(Block::Q4_0)),
            Self::Q4_1 => ("Q4_1", 3, TensorType::Block(Block::Q4_1)),
            Self::Q8_0 => ("Q8_0", 7, TensorType::Block(Block::Q8_0)),
            Self::Q5_0 => ("Q5_0", 8, TensorType::Block(Block::Q5_0)),
            Self::Q5_1 => ("Q5_1", 9, TensorType::Block(Block::Q5_1)),
            Self::Q2_K => ("Q2_K", 10, TensorType::Block(Block::Q2_K)),
            Self::Q3_K_M => ("Q3_K_M", 12, TensorType::Block(Block::Q3_K)),
            Self::Q4_K_S => ("Q4_K_S", 14, TensorType::Block(Block::Q4_K)),
            Self::Q4_K_M => ("Q4_K_M", 15, TensorType::Block(Block::Q4_K)),
            Self::Q5_K_S => ("Q5_K_S", 16, TensorType::Block(Block::Q5_K)),
            Self::Q5_K_M => ("Q5_K_M", 17, TensorType::Block(Block::Q5_K)),
            Self::Q6_K => ("Q6_K", 18, TensorType::Block(Block::Q6_K)),
            Self::IQ4_NL => ("IQ4_NL", 25, TensorType::Block(Block::IQ4_NL)),
            Self::IQ4_XS => ("IQ4_XS", 30, TensorType::Block(Block::IQ4_XS)),
            Self::BF16 => ("BF16", 32, TensorType::BF16),
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        self.row().0
    }

    /// Its number in `general.file_type`.
    pub(crate) const fn file_type(self) -> u32 {
        self.row().1
    }

    /// The type of most matrices.
    pub const fn base(self) -> TensorType {
        self.row().2
    }

    /// The type of a matrix in layer `layer` of `layers`, as far as the recipe goes. With importance the first ways down have
    /// no more bits in formats with a table, and a minimum in those of 32 elements without one.
    pub(crate) fn choose(
        self,
        part: Part,
        (layer, layers): (usize, usize),
        has_importance: bool,
    ) -> TensorType {
        use Block::{Q3_K, Q4_1, Q4_K, Q5_1, Q5_K, Q6_K};
        let is_dense = matches!(self, Self::F16 | Self::BF16);
        let eighth = layers / 8;
        let is_first = layer < eighth;
        let is_chosen = is_first || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
        let block = match (self, part) {
            (Self::Q8_0, _) => return self.base(),
            (_, Part::Output) if !is_dense => Q6_K,
            (Self::Q5_K_M, Part::QueryKeyValue) => Q6_K,
            (Self::Q4_K_M, Part::QueryKeyValue) => Q5_K,
            (Self::Q4_K_M | Self::Q5_K_M, Part::Value | Part::Down) if is_chosen => Q6_K,
            (Self::Q4_K_S, Part::Value) if layer < 4 => Q5_K,
            (Self::Q4_K_S, Part::Down) if is_first => Q5_K,
            (Self::IQ4_XS | Self::IQ4_NL, Part::Down) if is_first && !has_importance => Q5_K,
            (Self::Q4_0, Part::Down) if is_first && has_importance => Q4_1,
            (Self::Q5_0, Part::Down) if is_first && has_importance => Q5_1,
            (Self::IQ4_XS | Self::IQ4_NL, Part::Value) if is_first => Q5_K,
            (Self::Q3_K_M, Part::Value) => {
                if layer < 2 {
                    Q5_K
                } else {
                    Q4_K
                }
            }
            (Self::Q3_K_M, Part::Down) if layer < layers / 16 => Q5_K,
            (Self::Q3_K_M, Part::Down | Part::AttentionOutput | Part::QueryKeyValue) => Q4_K,
            (Self::Q2_K, Part::Value | Part::Down | Part::AttentionOutput) => Q3_K,
            (Self::Q2_K, Part::QueryKeyValue) => Q3_K,
            _ => return self.base(),
        };
        TensorType::Block(block)
    }
}

impl std::fmt::Display for Recipe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_of_thirty_two_layers_have_more_bits() {
        let more = |part| {
            let is_more = |&layer: &usize| {
                Recipe::Q4_K_M.choose(part, (layer, 32), false) != Recipe::Q4_K_M.base()
            };
            (0..32).filter(is_more).collect::<Vec<_>>()
        };
        let expected = [0, 1, 2, 3, 6, 9, 12, 15, 18, 21, 24, 27, 28, 29, 30, 31];
        assert_eq!(more(Part::Value), expected);
        assert_eq!(more(Part::Down), expected);
        assert!(more(Part::Other).is_empty());
    }

    #[test]
    fn importance_changes_the_first_ways_down() {
        let first = |recipe: Recipe, has_importance| {
            let TensorType::Block(block) = recipe.choose(Part::Down, (3, 32), has_importance)
            else {
                panic!("{recipe} has no blocks")
            };
            block
        };
        for recipe in Recipe::ALL.into_iter().filter(|recipe| recipe.base().block_elements() > 1) {
            let [with, without] = [true, false].map(|has| first(recipe, has));
            match recipe {
                Recipe::Q4_0 => assert_eq!((with, without), (Block::Q4_1, Block::Q4_0)),
                Recipe::Q5_0 => assert_eq!((with, without), (Block::Q5_1, Block::Q5_0)),
                Recipe::IQ4_NL => assert_eq!((with, without), (Block::IQ4_NL, Block::Q5_K)),
                Recipe::IQ4_XS => assert_eq!((with, without), (Block::IQ4_XS, Block::Q5_K)),
                _ => assert_eq!(with, without, "{recipe}"),
            }
            let later = |has| recipe.choose(Part::Down, (4, 32), has);
            assert_eq!(later(true), later(false), "{recipe}");
        }
    }

    #[test]
    fn an_embedding_is_the_output_if_there_is_no_other() {
        assert_eq!(Part::of("token_embd.weight", true), Part::Output);
        assert_eq!(Part::of("token_embd.weight", false), Part::Other);
        assert_eq!(Part::of("blk.3.ffn_down_exps.weight", false), Part::Down);
        for recipe in Recipe::ALL {
            let wide = recipe.choose(Part::Output, (0, 32), false);
            match recipe {
                Recipe::F16 | Recipe::BF16 | Recipe::Q8_0 => assert_eq!(wide, recipe.base()),
                _ => assert_eq!(wide, TensorType::Block(Block::Q6_K)),
            }
        }
    }
}
