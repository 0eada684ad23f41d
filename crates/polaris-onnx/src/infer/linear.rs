//! Matmul and Einsum.

use std::collections::BTreeMap;
use std::slice::from_ref;

use super::elementwise::shared_element;
use super::{Fact, Known, Rule, dims};
use crate::{Dim, ElementType, Error, Result};

pub(super) const RULES: &[(&str, Rule)] = &[
    ("Det", det),
    ("Einsum", einsum),
    ("Gemm", gemm),
    ("MatMul", mat_mul),
    ("MatMulInteger", mat_mul_integer),
    ("QLinearMatMul", q_linear_mat_mul),
];

/// The shape of the product of matrices, or stacks of them.
fn product(a: Option<Vec<Dim>>, b: Option<Vec<Dim>>) -> Result<Option<Vec<Dim>>> {
    let (Some(a), Some(b)) = (a, b) else { return Ok(None) };
    let (Some(across), Some(_)) = (a.last(), b.last()) else {
        return Err(Error::operands("a scalar is not a matrix"));
    };
    let down = if b.len() == 1 { &b[0] } else { &b[b.len() - 2] };
    if let (Dim::Known(x), Dim::Known(y)) = (across, down)
        && x != y
    {
        let (a, b) = (dims::show(&a), dims::show(&b));
        return Err(Error::operands(format!("{a} and {b} cannot be multiplied")));
    }
    let stack = |shape: &[Dim]| shape[..shape.len().saturating_sub(2)].to_vec();
    let mut shape = dims::broadcast(&[&stack(&a), &stack(&b)])?;
    if a.len() > 1 {
        shape.push(a[a.len() - 2].clone());
    }
    if b.len() > 1 {
        shape.push(b[b.len() - 1].clone());
    }
    Ok(Some(shape))
}

fn mat_mul(known: &Known<'_>) -> Result<Vec<Fact>> {
    let shape = product(known.shape(0), known.shape(1))?;
    Ok(vec![Fact::tensor(shared_element(known, &[0, 1]), shape)])
}

fn mat_mul_integer(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(Some(ElementType::I32), product(known.shape(0), known.shape(1))?)])
}

fn q_linear_mat_mul(known: &Known<'_>) -> Result<Vec<Fact>> {
    Ok(vec![Fact::tensor(known.element(7), product(known.shape(0), known.shape(3))?)])
}

fn gemm(known: &Known<'_>) -> Result<Vec<Fact>> {
    let matrix = |index: usize, flag: &str| -> Result<Option<Vec<Dim>>> {
        let mut shape = known.shape(index).filter(|shape| shape.len() == 2);
        if let Some(shape) = &mut shape
            && known.attributes().flag(flag, false)?
        {
            shape.reverse();
        }
        Ok(shape)
    };
    let shape = product(matrix(0, "transA")?, matrix(1, "transB")?)?;
    Ok(vec![Fact::tensor(shared_element(known, &[0, 1]), shape)])
}

fn det(known: &Known<'_>) -> Result<Vec<Fact>> {
    let stack = |shape: Vec<Dim>| Some(shape[..shape.len().checked_sub(2)?].to_vec());
    Ok(vec![Fact::tensor(known.element(0), known.shape(0).and_then(stack))])
}

fn einsum(known: &Known<'_>) -> Result<Vec<Fact>> {
    let operands: Vec<usize> = (0..known.inputs.len()).collect();
    let element = shared_element(known, &operands);
    let shapes: Option<Vec<Vec<Dim>>> = operands.iter().map(|&index| known.shape(index)).collect();
    let shape = match (known.attributes().string("equation")?, shapes) {
        (Some(equation), Some(shapes)) => contracted(equation, &shapes)?,
        _ => None,
    };
    Ok(vec![Fact::tensor(element, shape)])
}

/// The shape that an equation makes; `None` where the operands do not have the axes that it names.
fn contracted(equation: &str, shapes: &[Vec<Dim>]) -> Result<Option<Vec<Dim>>> {
    let equation: String = equation.chars().filter(|letter| !letter.is_whitespace()).collect();
    let (terms, wanted) = match equation.split_once("->") {
        Some((terms, wanted)) => (terms, Some(wanted)),
        None => (equation.as_str(), None),
    };
    let terms: Vec<&str> = terms.split(',').collect();
    if terms.len() != shapes.len() {
        return Ok(None);
    }
    // How often each letter is named, and its length.
    let mut letters: BTreeMap<char, (usize, Dim)> = BTreeMap::new();
    let mut rest: Vec<Dim> = Vec::new();
    for (term, shape) in terms.iter().zip(shapes) {
        let named: Vec<char> = term.replace("...", "").chars().collect();
        let Some(open) = shape.len().checked_sub(named.len()) else { return Ok(None) };
        let before = match term.split_once("...") {
            Some((before, _)) => before.chars().count(),
            None if open == 0 => named.len(),
            None => return Ok(None),
        };
        rest = dims::broadcast(&[&rest, &shape[before..before + open]])?;
        let lengths = shape[..before].iter().chain(&shape[before + open..]);
        for (&letter, length) in named.iter().zip(lengths) {
            let entry = letters.entry(letter).or_insert((0, Dim::Known(1)));
            let met = dims::broadcast(&[from_ref(&entry.1), from_ref(length)])?;
            *entry = (entry.0 + 1, met.into_iter().next().unwrap_or(Dim::Unknown));
        }
    }
    let Some(wanted) = wanted else {
        let once = letters.values().filter(|(count, _)| *count == 1);
        rest.extend(once.map(|(_, length)| length.clone()));
        return Ok(Some(rest));
    };
    let (before, behind) = match wanted.split_once("...") {
        Some((before, behind)) => (before, Some(behind)),
        None => (wanted, None),
    };
    let length = |letter: char| letters.get(&letter).map(|(_, length)| length.clone());
    let mut shape: Vec<Option<Dim>> = before.chars().map(length).collect();
    if let Some(behind) = behind {
        shape.extend(rest.into_iter().map(Some));
        shape.extend(behind.chars().map(length));
    }
    Ok(shape.into_iter().collect())
}
