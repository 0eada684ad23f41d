//! Attention and rotary embeddings.

use polaris_core::{DType, Layout, Shape};
use polaris_onnx::{ElementType, Node, Tensor, ValueId};
use polaris_ops::copy::Copy;
use polaris_ops::elementwise::Elementwise;
use polaris_ops::{Attention, Pairing, Rope, Ternary};

use super::{Lowering, array, input, result, wants_more};
use crate::Result;
use crate::build::Builder;
use crate::plan::{Action, Operand, element_of};

pub const LOWERINGS: &[(&str, Lowering)] =
    &[("Attention", attention), ("RotaryEmbedding", rotary_embedding)];

/// Operands after the mask: past keys and values, and how many of the keys count.
const BEYOND_THE_MASK: std::ops::Range<usize> = 4..7;

fn attention(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some(q), Some(k), Some(v)) = (
        heads(b, node, 0, "q_num_heads")?,
        heads(b, node, 1, "kv_num_heads")?,
        heads(b, node, 2, "kv_num_heads")?,
    ) else {
        return Ok(false);
    };
    let Some((made, made_dtype, made_shape)) = result(b, node) else { return Ok(false) };
    let dtype = q.dtype;
    let one_type = [k.dtype, v.dtype, made_dtype].iter().all(|other| *other == dtype);
    let beyond = BEYOND_THE_MASK.into_iter().any(|index| input(node, index).is_some());
    if !dtype.is_float() || !one_type || beyond || wants_more(node) || !is_plain(node, dtype)? {
        return Ok(false);
    }
    let ([batch, heads, queries, depth], [_, _, keys, _]) = (q.dims, k.dims);
    // Without keys, or elements of them, there is nothing to weigh.
    if !go_together(&q, &k, &v) || keys == 0 || depth == 0 {
        return Ok(false);
    }
    let scores = Shape::new(&[batch, heads, queries, keys])?;
    let mask = match input(node, 3) {
        None => None,
        Some(id) => match b.array_type(id) {
            Some((found, shape)) if fits(found, dtype, &shape, &scores) => Some(id),
            _ => return Ok(false),
        },
    };
    let mut operands = Vec::with_capacity(4);
    for part in [&q, &k, &v] {
        operands.push(part.operand(b)?);
    }
    if let Some(id) = mask {
        operands.push(added(b, id, dtype)?);
    }
    let problem = Attention {
        scale: node.attributes.float("scale")?.map(f64::from),
        causal: node.attributes.flag("is_causal", false)?,
        causal_offset: 0,
    };
    // The operation writes its result and, behind it, what a gradient would need.
    let (rows, values) = (batch * heads * queries, v.dims[3]);
    let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
    let flat = Shape::new(&[rows * values + rows])?;
    let whole = b.compute(Action::new(problem), &operands, wide, flat);
    let dense = Layout::contiguous(Shape::new(&[batch, heads, queries, values])?);
    let mut operand = Operand { layout: dense, ..whole };
    if wide != dtype {
        operand = b.compute(Action::new(Copy), &[operand], dtype, *dense.shape());
    }
    if q.packed {
        operand = Operand { layout: operand.layout.permute(&[0, 2, 1, 3])?, ..operand };
    }
    let operand = b.reshaped(operand, made_shape)?;
    b.set(Some(made), operand);
    Ok(true)
}

/// Whether the parameters ask for what devices compute.
fn is_plain(node: &Node, dtype: DType) -> Result<bool> {
    let softmax = node.attributes.int("softmax_precision")?;
    // Scores of all types but the widest are `f32` on devices.
    let precise = dtype != DType::F64 && softmax == Some(i64::from(ElementType::F32.code()));
    let finite = node.attributes.float("scale")?.is_none_or(f32::is_finite);
    let capped = node.attributes.float_or("softcap", 0.0)? != 0.0;
    Ok((softmax.is_none() || precise) && finite && !capped)
}

/// Vectors of heads.
struct Heads {
    id: ValueId,
    dtype: DType,
    /// Batch, heads, places, elements.
    dims: [usize; 4],
    /// Whether the heads' vectors lie one after another in a third and last axis.
    packed: bool,
}

/// An operand with four axes, or with three and an attribute that says how many heads there are.
fn heads(b: &Builder<'_>, node: &Node, index: usize, attribute: &str) -> Result<Option<Heads>> {
    let Some((id, dtype, shape)) = array(b, node, index) else { return Ok(None) };
    Ok(match *shape.dims() {
        [batch, heads, length, size] => {
            Some(Heads { id, dtype, dims: [batch, heads, length, size], packed: false })
        }
        [batch, length, hidden] => {
            let heads = node.attributes.int(attribute)?.and_then(|n| usize::try_from(n).ok());
            heads.filter(|&heads| heads > 0 && hidden % heads == 0).map(|heads| Heads {
                id,
                dtype,
                dims: [batch, heads, length, hidden / heads],
                packed: true,
            })
        }
        _ => None,
    })
}

impl Heads {
    /// The array with four axes.
    fn operand(&self, b: &mut Builder<'_>) -> Result<Operand> {
        let operand = b.operand(self.id)?;
        if !self.packed {
            return Ok(operand);
        }
        let [batch, heads, length, size] = self.dims;
        let split = b.reshaped(operand, Shape::new(&[batch, length, heads, size])?)?;
        Ok(Operand { layout: split.layout.permute(&[0, 2, 1, 3])?, ..split })
    }
}

/// Whether all have one batch, keys and values one length, and heads share keys evenly: neighbouring
/// heads share them, in ONNX and on devices.
fn go_together(q: &Heads, k: &Heads, v: &Heads) -> bool {
    q.packed == k.packed
        && k.packed == v.packed
        && q.dims[0] == k.dims[0]
        && k.dims[..3] == v.dims[..3]
        && q.dims[3] == k.dims[3]
        && k.dims[1] > 0
        && q.dims[1].is_multiple_of(k.dims[1])
}

/// Whether a mask is of a type that can be added, and of a shape that repeats to that of the scores. Keys
/// beyond its end would be hidden, which devices do not do.
fn fits(found: DType, dtype: DType, shape: &Shape, scores: &Shape) -> bool {
    let whole = shape.dims().last() == scores.dims().last();
    (found == dtype || found == DType::Bool)
        && shape.rank() <= 4
        && whole
        && super::repeat_to([shape], scores)
}

/// A mask as numbers that are added to scores.
fn added(b: &mut Builder<'_>, id: ValueId, dtype: DType) -> Result<Operand> {
    let mask = b.operand(id)?;
    if mask.dtype != DType::Bool {
        return Ok(mask);
    }
    let shape = *mask.layout.shape();
    let mut operands = vec![mask];
    for value in [0.0, f64::NEG_INFINITY] {
        let number = b.new_constant(&Tensor::from_f64(element_of(dtype), &[], &[value])?)?;
        operands
            .push(Operand { layout: number.layout.broadcast_to("attention", &shape)?, ..number });
    }
    let action = Action::new(Elementwise { function: Ternary::Where.into() });
    Ok(b.compute(action, &operands, dtype, shape))
}

/// Tables by positions are left to the host.
fn rotary_embedding(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some(x), Some((made, made_dtype, made_shape))) =
        (heads(b, node, 0, "num_heads")?, result(b, node))
    else {
        return Ok(false);
    };
    let [batch, heads, length, size] = x.dims;
    let rotated = match node.attributes.int_or("rotary_embedding_dim", 0)? {
        0 => size,
        count => usize::try_from(count).unwrap_or(usize::MAX),
    };
    if rotated > size || rotated == 0 || !rotated.is_multiple_of(2) || input(node, 3).is_some() {
        return Ok(false);
    }
    let half = rotated / 2;
    let table = |index: usize| {
        let found = array(b, node, index)?;
        (found.1 == x.dtype && *found.2.dims() == [batch, length, half]).then_some(found.0)
    };
    let (Some(cos), Some(sin)) = (table(1), table(2)) else { return Ok(false) };
    if !x.dtype.is_float() || made_dtype != x.dtype {
        return Ok(false);
    }
    let source = x.operand(b)?;
    let mut inputs = vec![source];
    for id in [cos, sin] {
        let operand = b.operand(id)?;
        inputs.push(b.reshaped(operand, Shape::new(&[batch, 1, length, half])?)?);
    }
    let pairing = match node.attributes.flag("interleaved", false)? {
        true => Pairing::Adjacent,
        false => Pairing::Halves,
    };
    let shape = Shape::new(&[batch, heads, length, size])?;
    let whole = b.compute(Action::new(Rope { pairing }), &inputs, x.dtype, shape);
    let mut operand = whole;
    if x.packed {
        operand = Operand { layout: operand.layout.permute(&[0, 2, 1, 3])?, ..operand };
    }
    let operand = b.reshaped(operand, made_shape)?;
    b.set(Some(made), operand);
    Ok(true)
}
