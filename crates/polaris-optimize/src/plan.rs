//! What becomes of each tensor of a file.

use std::collections::BTreeMap;

use polaris_gguf::{Gguf, Tensor, TensorType};
use polaris_ops::Block;

use crate::recipe::Part;
use crate::{Error, Importance, Recipe, Result};

/// Parts of names whose tensors stay as they are, though they are matrices: they are small, and what they choose or place
/// would change by steps.
const KEPT: [&str; 8] = [
    "_norm",
    "ffn_gate_inp",
    "position_embd",
    "token_types",
    "ssm_conv1d",
    "shortconv.conv",
    "attn_rel_b",
    "altup",
];

/// How a file is to be quantised.
#[derive(Debug, Clone, Default)]
pub struct PlanOptions {
    /// The mixture of formats.
    pub recipe: Recipe,
    /// Types of matrices by a part of their names; the last that fits counts.
    pub overrides: Vec<Override>,
    /// Whether tensors that are quantised already may be quantised again.
    pub requantize: bool,
    /// What squared errors of columns count by; tensors that are not in it are encoded without.
    pub importance: Option<Importance>,
}

/// A type for matrices that have something in their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Override {
    /// The part of the name.
    pub pattern: String,
    /// The type.
    pub ty: TensorType,
}

/// What becomes of a tensor.
#[derive(Debug, Clone)]
pub struct PlannedTensor {
    /// Its name.
    pub name: String,
    /// Its dimensions, outermost first.
    pub dims: Vec<usize>,
    /// The type that it has.
    pub from: TensorType,
    /// The type that it will have.
    pub to: TensorType,
    /// Why it is not the type that the recipe has for it.
    pub reason: Option<String>,
}

impl PlannedTensor {
    /// Its bytes as a type.
    fn bytes_as(&self, ty: TensorType) -> usize {
        ty.bytes_of(&self.dims).unwrap_or(usize::MAX)
    }

    /// The bytes that it has.
    pub fn bytes_before(&self) -> usize {
        self.bytes_as(self.from)
    }

    /// The bytes that it will have.
    pub fn bytes(&self) -> usize {
        self.bytes_as(self.to)
    }
}

/// What becomes of a file.
#[derive(Debug)]
pub struct Plan<'g> {
    pub(crate) gguf: &'g Gguf,
    pub(crate) recipe: Recipe,
    tensors: Vec<PlannedTensor>,
    /// How much the columns of each tensor count, matrix after matrix, if that is known and of use.
    importance: Vec<Option<Vec<f32>>>,
}

impl<'g> Plan<'g> {
    /// Chooses a type for each tensor; nothing is read but the header.
    ///
    /// # Errors
    /// If a tensor is quantised already and may not be again, an override fits no tensor or cannot be, or the importance is that
    /// of another model.
    pub fn new(gguf: &'g Gguf, options: &PlanOptions) -> Result<Self> {
        let tied = gguf.find("output.weight").is_none();
        let layers = gguf.tensors().filter_map(|tensor| layer(tensor.name())).max();
        let layers = layers.map_or(0, |last| last + 1);
        for Override { pattern, .. } in &options.overrides {
            let matrices = || gguf.tensors().filter(is_matrix);
            if !matrices().any(|tensor| tensor.name().contains(pattern)) {
                let some: Vec<_> = matrices().take(4).map(|tensor| tensor.name()).collect();
                let (pattern, some) = (pattern.clone(), some.join(", "));
                return Err(Error::NoSuchTensor { pattern, some });
            }
        }
        let plan = |tensor: Tensor<'_>| {
            let (to, reason) = choose(&tensor, tied, layers, options)?;
            let from = tensor.ty();
            let is_quantised = matches!(from, TensorType::Block(_));
            if is_quantised && to != from && !options.requantize {
                return Err(Error::Quantised { tensor: tensor.name().to_owned(), ty: from });
            }
            let (name, dims) = (tensor.name().to_owned(), tensor.shape().dims().to_vec());
            Ok(PlannedTensor { name, dims, from, to, reason })
        };
        let tensors: Vec<_> = gguf.tensors().map(plan).collect::<Result<_>>()?;
        let importance = match &options.importance {
            Some(importance) => of_tensors(importance, &tensors)?,
            None => vec![None; tensors.len()],
        };
        Ok(Self { gguf, recipe: options.recipe, tensors, importance })
    }

    /// How much the columns of a tensor count, matrix after matrix.
    pub(crate) fn importance(&self, tensor: usize) -> Option<&[f32]> {
        self.importance[tensor].as_deref().filter(|_| is_searched(&self.tensors[tensor]))
    }

    /// How many of the tensors whose scales are searched for are encoded by importance, and how many are not.
    pub fn by_importance(&self) -> [usize; 2] {
        let searched = self.tensors.iter().filter(|tensor| is_searched(tensor)).count();
        let with = (0..self.tensors.len()).filter(|&at| self.importance(at).is_some()).count();
        [with, searched - with]
    }

    /// Gives some tensors, by their names, another type than the recipe's. The file is named after the recipe whose type most
    /// bytes have then.
    ///
    /// # Errors
    /// If a type does not fit the rows of its tensor.
    pub fn set_types(&mut self, types: &BTreeMap<String, TensorType>) -> Result<()> {
        let mut bytes = BTreeMap::<u32, usize>::new();
        for planned in &mut self.tensors {
            if let Some(&ty) = types.get(&planned.name) {
                let row = planned.dims.last().copied().unwrap_or(1);
                if !row.is_multiple_of(ty.block_elements()) {
                    return Err(Error::Override { tensor: planned.name.clone(), ty, row });
                }
                (planned.to, planned.reason) = (ty, None);
            }
            let recipe = Recipe::ALL.into_iter().rev().find(|recipe| recipe.base() == planned.to);
            if let Some(recipe) = recipe {
                *bytes.entry(recipe.file_type()).or_default() += planned.bytes();
            }
        }
        let most = bytes.into_iter().max_by_key(|&(_, bytes)| bytes);
        let named = |recipe: &Recipe| Some(recipe.file_type()) == most.map(|(number, _)| number);
        self.recipe = Recipe::ALL.into_iter().find(named).unwrap_or(self.recipe);
        Ok(())
    }

    /// The tensors, in the order of the file.
    pub fn tensors(&self) -> &[PlannedTensor] {
        &self.tensors
    }

    /// Bytes of all tensors now.
    pub fn bytes_before(&self) -> usize {
        self.tensors.iter().map(PlannedTensor::bytes_before).sum()
    }

    /// Bytes of all tensors afterwards.
    pub fn bytes(&self) -> usize {
        self.tensors.iter().map(PlannedTensor::bytes).sum()
    }
}

/// Whether importance is of use: scales are searched for.
fn is_searched(tensor: &PlannedTensor) -> bool {
    let PlannedTensor { from, to, .. } = tensor;
    from != to && matches!(to, TensorType::Block(block) if block.is_searched())
}

/// How much the columns of each tensor count.
fn of_tensors(importance: &Importance, tensors: &[PlannedTensor]) -> Result<Vec<Option<Vec<f32>>>> {
    let known = |tensor: &PlannedTensor| importance.tensors().any(|(name, _)| name == tensor.name);
    if !tensors.iter().any(known) {
        let some: Vec<_> = importance.tensors().take(4).map(|(name, _)| name).collect();
        return Err(Error::OtherModel { some: some.join(", ") });
    }
    let of = |tensor: &PlannedTensor| {
        let Some((&columns, before)) = tensor.dims.split_last() else { return Ok(None) };
        let matrices = before[..before.len().saturating_sub(1)].iter().product();
        let found = importance.of(&tensor.name, matrices, columns)?;
        Ok(found)
    };
    tensors.iter().map(of).collect()
}

/// The layer that a tensor belongs to.
fn layer(name: &str) -> Option<usize> {
    name.strip_prefix("blk.")?.split('.').next()?.parse().ok()
}

/// Whether recipes and overrides are for it: vectors are read in `f32`.
fn is_matrix(tensor: &Tensor<'_>) -> bool {
    tensor.shape().dims().len() >= 2 && tensor.name().ends_with(".weight")
}

/// The type of a tensor, and why it is another than the recipe's.
fn choose(
    tensor: &Tensor<'_>,
    tied: bool,
    layers: usize,
    options: &PlanOptions,
) -> Result<(TensorType, Option<String>)> {
    let name = tensor.name();
    let row = tensor.shape().dims().last().copied().unwrap_or(1);
    if !is_matrix(tensor) {
        return Ok((tensor.ty(), None));
    }
    let wanted = options.overrides.iter().rev().find(|wanted| name.contains(&wanted.pattern));
    match wanted.map(|wanted| wanted.ty) {
        Some(TensorType::Block(block)) if !row.is_multiple_of(block.elements()) => {
            let ty = TensorType::Block(block);
            return Err(Error::Override { tensor: name.to_owned(), ty, row });
        }
        Some(ty) => return Ok((ty, None)),
        None => {}
    }
    if KEPT.iter().any(|kept| name.contains(kept)) {
        return Ok((
            tensor.ty(),
            Some("stays: small, and what it chooses changes by steps".to_owned()),
        ));
    }
    let wanted = options.recipe.choose(
        Part::of(name, tied),
        (layer(name).unwrap_or(0), layers),
        options.importance.is_some(),
    );
    let to = fitting(wanted, row);
    let reason = (to != wanted).then(|| format!("rows of {row} do not fill blocks of {wanted}"));
    Ok((to, reason))
}

/// The type, or one of about as many bits or more whose blocks fill rows.
fn fitting(ty: TensorType, row: usize) -> TensorType {
    let TensorType::Block(block) = ty else { return ty };
    if row.is_multiple_of(block.elements()) {
        return ty;
    }
    if !row.is_multiple_of(32) {
        return TensorType::F16;
    }
    TensorType::Block(match block {
        Block::Q2_K | Block::Q3_K | Block::IQ4_XS => Block::IQ4_NL,
        Block::Q4_K => Block::Q5_0,
        Block::Q5_K => Block::Q5_1,
        _ => Block::Q8_0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_fill_no_block_get_another_type() {
        for block in Block::ALL {
            let ty = TensorType::Block(block);
            assert_eq!(fitting(ty, 512), ty);
            assert_eq!(fitting(ty, 100), TensorType::F16);
            let TensorType::Block(other) = fitting(ty, 96) else { panic!("{block} at 96") };
            assert_eq!(other.elements(), 32);
            let bits = |block: Block| block.bytes() as f64 / block.elements() as f64;
            assert!(bits(other) >= bits(block), "{block} becomes {other}");
        }
    }

    #[test]
    fn layers_are_in_names() {
        assert_eq!(layer("blk.17.ffn_down.weight"), Some(17));
        assert_eq!(layer("output.weight"), None);
        assert_eq!(layer("blk.x.weight"), None);
    }
}
