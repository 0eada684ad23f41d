//! Resizing of images. Along each axis a new element is a weighted sum of old ones; the weights depend on positions
//! alone and form a matrix, which is a constant of the plan.

use polaris_core::Shape;
use polaris_onnx::operators::NoScope;
use polaris_onnx::{Attribute, Node, Tensor, Value, ValueId, interpret_node};
use polaris_ops::{Lookup, LookupRule, MatMul};

use super::{Lowering, array, input, result};
use crate::Result;
use crate::build::Builder;
use crate::plan::{Action, Operand};

pub const LOWERINGS: &[(&str, Lowering)] = &[("Resize", resize)];

/// Longer axes would make large matrices; each must not be larger than the image itself by far.
const LONGEST: usize = 4096;

fn resize(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((id, dtype, shape)), Some((made, _, made_shape))) =
        (array(b, node, 0), result(b, node))
    else {
        return Ok(false);
    };
    let crops =
        node.attributes.string("coordinate_transformation_mode")? == Some("tf_crop_and_resize");
    let policy = node.attributes.string_or("keep_aspect_ratio_policy", "stretch")?;
    let fits =
        dtype.is_float() && !crops && policy == "stretch" && shape.rank() == made_shape.rank();
    if !fits || node.version < 11 || shape.elements() == 0 || made_shape.elements() == 0 {
        return Ok(false);
    }
    let mut matrices = Vec::new();
    for at in 0..shape.rank() {
        let Some(scale) = scale(b, node, at)? else { return Ok(false) };
        // An axis may keep its length and still be scaled.
        if shape[at] == made_shape[at] && scale.is_none_or(|scale| scale == 1.0) {
            continue;
        }
        if shape[at].max(made_shape[at]) > LONGEST {
            return Ok(false);
        }
        let Some(matrix) = weights(node, scale, shape[at], made_shape[at])? else {
            return Ok(false);
        };
        matrices.push((at, matrix));
    }
    let mut operand = b.operand(id)?;
    let nearest = node.attributes.string_or("mode", "nearest")? == "nearest";
    for (at, matrix) in matrices {
        operand = match nearest {
            true => pick(b, operand, at, &matrix)?,
            false => {
                let element = crate::plan::element_of(dtype);
                let matrix = Tensor::from_f64(element, matrix.shape(), &matrix.to_f64()?)?;
                let matrix = b.new_constant(&matrix)?;
                along(b, operand, at, matrix, made_shape[at])?
            }
        };
    }
    b.set(Some(made), operand);
    Ok(true)
}

/// The scale of an axis, if sizes are not given instead. `None` if it is not known or makes no sense.
fn scale(b: &Builder<'_>, node: &Node, at: usize) -> Result<Option<Option<f32>>> {
    let scales = match input(node, 2) {
        None => return Ok(Some(None)),
        Some(id) => match b.constant(id) {
            Some(scales) => scales.to_f64()?,
            None => return Ok(None),
        },
    };
    if scales.is_empty() {
        return Ok(Some(None));
    }
    let place = match node.attributes.ints("axes")? {
        Some(axes) => axes.iter().position(|&axis| axis == at as i64),
        None => Some(at),
    };
    Ok(match place {
        Some(place) => scales.get(place).map(|&scale| Some(scale as f32)),
        // An axis that is not named stays as it is; negative numbers of axes are left to the host.
        None => node
            .attributes
            .ints("axes")?
            .filter(|axes| axes.iter().all(|&axis| axis >= 0))
            .map(|_| Some(1.0)),
    })
}

/// What the operator itself makes of each single element of an axis: the columns of its matrix.
fn weights(node: &Node, scale: Option<f32>, from: usize, to: usize) -> Result<Option<Tensor>> {
    let mut identity = vec![0f32; from * from];
    identity.iter_mut().step_by(from + 1).for_each(|one| *one = 1.0);
    let image = Value::Tensor(Tensor::new(&[from, from], identity)?);
    let operands = match scale {
        Some(scale) => {
            vec![Some(image), None, Some(Value::Tensor(Tensor::new(&[2], vec![1.0f32, scale])?))]
        }
        None => {
            let sizes = Tensor::new(&[2], vec![from as i64, to as i64])?;
            vec![Some(image), None, None, Some(Value::Tensor(sizes))]
        }
    };
    let mut single = Node { inputs: Vec::new(), outputs: vec![Some(ValueId(0))], ..node.clone() };
    single.attributes.set("axes", Attribute::Ints(vec![0, 1]));
    if node.version < 18 {
        single.version = 18;
    }
    let made = interpret_node(&single, &operands, &NoScope)?;
    let Some(matrix) = made.first().and_then(|value| value.tensor().ok()) else { return Ok(None) };
    Ok(Some(matrix.clone()).filter(|matrix| matrix.shape() == [from, to]))
}

/// The elements that a matrix of zeros and ones picks: by look-up, since zeros times infinity are none.
fn pick(b: &mut Builder<'_>, x: Operand, at: usize, matrix: &Tensor) -> Result<Operand> {
    let (weights, to) = (matrix.to_f64()?, matrix.shape()[1]);
    let rows =
        |column: usize| weights[column..].iter().step_by(to).position(|&weight| weight != 0.0);
    let places: Vec<i64> = (0..to).map(|column| rows(column).unwrap_or(0) as i64).collect();
    let indices = b.new_constant(&Tensor::new(&[to], places)?)?;
    let mut dims = x.layout.shape().to_vec();
    dims[at] = to;
    let action = Action::new(Lookup { rule: LookupRule::Take, axis: at });
    Ok(b.compute(action, &[indices, x], x.dtype, Shape::new(&dims)?))
}

/// The product with a matrix `[from, to]` along one axis.
fn along(
    b: &mut Builder<'_>,
    x: Operand,
    at: usize,
    matrix: Operand,
    to: usize,
) -> Result<Operand> {
    let dims = x.layout.shape().to_vec();
    let (before, after): (usize, usize) =
        (dims[..at].iter().product(), dims[at + 1..].iter().product());
    let mut made = dims.clone();
    made[at] = to;
    let product = Action::new(MatMul::default());
    let operand = if after == 1 {
        let x = b.reshaped(x, Shape::new(&[before, dims[at]])?)?;
        b.compute(product, &[x, matrix], x.dtype, Shape::new(&[before, to])?)
    } else {
        let x = b.reshaped(x, Shape::new(&[before, dims[at], after])?)?;
        let turned = Operand { layout: matrix.layout.permute(&[1, 0])?, ..matrix };
        let layout = turned.layout.broadcast_to("resize", &Shape::new(&[before, to, dims[at]])?)?;
        let turned = Operand { layout, ..turned };
        b.compute(product, &[turned, x], x.dtype, Shape::new(&[before, to, after])?)
    };
    b.reshaped(operand, Shape::new(&made)?)
}
