//! Matmul.

use polaris_core::{DType, Shape};
use polaris_onnx::{Node, ValueId};
use polaris_ops::MatMul;

use super::{Lowering, array, input, result, wants_more};
use crate::Result;
use crate::build::Builder;
use crate::plan::{Action, Operand};

pub const LOWERINGS: &[(&str, Lowering)] =
    &[("Gemm", gemm), ("MatMul", matmul), ("MatMulInteger", matmul_integer)];

/// Vectors count as matrices of one row or column.
fn matmul(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((left, dtype, a)), Some((right, other, c))) = (array(b, node, 0), array(b, node, 1))
    else {
        return Ok(false);
    };
    let Some((made, made_dtype, shape)) = result(b, node) else { return Ok(false) };
    if !dtype.is_float() || dtype != other || made_dtype != dtype || a.rank() == 0 || c.rank() == 0
    {
        return Ok(false);
    }
    let mut x = b.operand(left)?;
    // A constant of more axes is a batch, also where its last ones have one element.
    if a.rank() >= 2 && c.rank() == 2 && product_with_weight(b, x, right, made, shape)? {
        return Ok(true);
    }
    let mut y = b.operand(right)?;
    if a.rank() == 1 {
        x = b.reshaped(x, Shape::new(&[1, a[0]])?)?;
    }
    if c.rank() == 1 {
        y = b.reshaped(y, Shape::new(&[c[0], 1])?)?;
    }
    product(b, x, y, made, dtype, shape)?;
    Ok(true)
}

/// A product whose second factor is a constant, on the CPU: packed, and all rows of the first factor
/// together.
fn product_with_weight(
    b: &mut Builder<'_>,
    x: Operand,
    right: ValueId,
    made: ValueId,
    shape: Shape,
) -> Result<bool> {
    let dims = x.layout.shape().to_vec();
    let Some((&k, rows)) = dims.split_last() else { return Ok(false) };
    if x.dtype != DType::F32 || rows.is_empty() || k == 0 {
        return Ok(false);
    }
    let Some(matrix) = b.prepared_matrix(right, false)? else { return Ok(false) };
    let n = matrix.layout.shape()[1];
    let x = b.reshaped(x, Shape::new(&[rows.iter().product(), k])?)?;
    let flat = Shape::new(&[x.layout.shape()[0], n])?;
    let operand = b.compute(Action::new(MatMul::default()), &[x, matrix], DType::F32, flat);
    let operand = b.reshaped(operand, shape)?;
    b.set(Some(made), operand);
    Ok(true)
}

/// A product with a batch of matrices on the left and one on the right is one tall product.
fn product(
    b: &mut Builder<'_>,
    mut x: Operand,
    y: Operand,
    made: ValueId,
    dtype: DType,
    shape: Shape,
) -> Result<()> {
    let rank = x.layout.shape().rank();
    let dims = x.layout.shape().to_vec();
    if rank > 2 && y.layout.shape().rank() == 2 {
        let rows: usize = dims[..rank - 1].iter().product();
        if let Some(layout) = x.layout.reshape(&Shape::new(&[rows, dims[rank - 1]])?) {
            x = Operand { layout, ..x };
        }
    }
    let (a, c) = (x.layout.shape(), y.layout.shape());
    let batch = Shape::broadcast(
        "matmul",
        &Shape::new(&a[..a.rank() - 2])?,
        &Shape::new(&c[..c.rank() - 2])?,
    )?;
    let full: Vec<usize> =
        batch.iter().copied().chain([a[a.rank() - 2], c[c.rank() - 1]]).collect();
    let operand = b.compute(Action::new(b.matmul()), &[x, y], dtype, Shape::new(&full)?);
    let operand = b.reshaped(operand, shape)?;
    b.set(Some(made), operand);
    Ok(())
}

/// `alpha * A B + beta * C`, either factor possibly transposed.
fn gemm(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((left, dtype, a)), Some((right, other, c))) = (array(b, node, 0), array(b, node, 1))
    else {
        return Ok(false);
    };
    let Some((made, _, shape)) = result(b, node) else { return Ok(false) };
    if !dtype.is_float() || dtype != other || a.rank() != 2 || c.rank() != 2 || wants_more(node) {
        return Ok(false);
    }
    let beta = f64::from(node.attributes.float_or("beta", 1.0)?);
    let added = input(node, 2).filter(|_| beta != 0.0);
    if let Some(id) = added
        && b.array_type(id).is_none_or(|(found, _)| found != dtype)
    {
        return Ok(false);
    }
    let side = |b: &mut Builder<'_>, id, name: &str| -> Result<Operand> {
        let operand = b.operand(id)?;
        let turned = node.attributes.flag(name, false)?;
        let layout = if turned { operand.layout.permute(&[1, 0])? } else { operand.layout };
        Ok(Operand { layout, ..operand })
    };
    let mut operands = vec![side(b, left, "transA")?];
    let matrix = match dtype {
        DType::F32 => b.prepared_matrix(right, node.attributes.flag("transB", false)?)?,
        _ => None,
    };
    operands.push(match matrix {
        Some(matrix) => matrix,
        None => side(b, right, "transB")?,
    });
    let mut problem =
        MatMul { alpha: f64::from(node.attributes.float_or("alpha", 1.0)?), ..b.matmul() };
    if let Some(id) = added {
        let operand = b.operand(id)?;
        let row = Shape::new(&[shape[1]])?;
        let is_bias = beta == 1.0 && shape[0] != 1 && matches!(dtype, DType::F32 | DType::F64);
        match operand.layout.reshape(&row).filter(|_| is_bias) {
            // The bias of a linear layer, which has the type of the accumulators.
            Some(layout) if operand.layout.shape().elements() == shape[1] && is_row(&operand) => {
                problem.epilogue.bias = Some(polaris_ops::matmul::Bias::PerColumn);
                operands.push(Operand { layout, ..operand });
            }
            _ => {
                problem.beta = beta;
                let layout = operand.layout.broadcast_to("gemm", &shape)?;
                operands.push(Operand { layout, ..operand });
            }
        }
    }
    let operand = b.compute(Action::new(problem), &operands, dtype, shape);
    b.set(Some(made), operand);
    Ok(true)
}

/// Whether an array has its values along its last axis only.
fn is_row(operand: &Operand) -> bool {
    let shape = operand.layout.shape();
    shape.rank() >= 1 && shape[shape.rank() - 1] == shape.elements()
}

/// Without zero points it is the product of devices.
fn matmul_integer(b: &mut Builder<'_>, node: &Node) -> Result<bool> {
    let (Some((left, dtype, a)), Some((right, other, c))) = (array(b, node, 0), array(b, node, 1))
    else {
        return Ok(false);
    };
    let Some((made, made_dtype, shape)) = result(b, node) else { return Ok(false) };
    let plain = input(node, 2).is_none() && input(node, 3).is_none();
    let fits = plain && dtype == DType::I8 && other == DType::I8 && made_dtype == DType::I32;
    if !fits || a.rank() < 2 || c.rank() < 2 {
        return Ok(false);
    }
    let (x, y) = (b.operand(left)?, b.operand(right)?);
    product(b, x, y, made, made_dtype, shape)?;
    Ok(true)
}
