//! Strassen's recursion: seven products of half the size instead of eight, for more additions and
//! a larger error. Opt-in: the error grows with each level.

use polaris_core::{DType, Shape};

use super::problem::MatMul;
use crate::elementwise::Elementwise;
use crate::operation::run;
use crate::{Array, Binary, Error, Result};

/// More levels lose more accuracy than they save time at any size that fits a machine.
const MOST_LEVELS: u32 = 2;

/// The product of two matrices of floating-point numbers by this many levels of Strassen's
/// recursion, one or two. Odd rows and columns are peeled off and multiplied as usual.
///
/// # Errors
/// If the arrays are not two matrices that fit, are not of `f32` or `f64`, or `levels` is more than
/// two.
pub fn strassen(a: &Array, b: &Array, levels: u32) -> Result<Array> {
    let columns = b.shape().dims().last().copied().unwrap_or(1);
    let rows = a.shape().dims().first().copied().unwrap_or(1);
    let output = Array::empty(a.device(), a.dtype(), Shape::new(&[rows, columns])?)?;
    strassen_into(a, b, &output, levels)?;
    Ok(output)
}

/// As [`strassen`], into an array that is there.
///
/// # Errors
/// As for [`strassen`].
pub fn strassen_into(a: &Array, b: &Array, output: &Array, levels: u32) -> Result<()> {
    let mistake = |what: &str| Error::InvalidParameter { op: "strassen", what: what.to_owned() };
    if a.shape().rank() != 2 || b.shape().rank() != 2 {
        return Err(mistake("it multiplies two matrices; loop over batches"));
    }
    if !matches!(a.dtype(), DType::F32 | DType::F64) || b.dtype() != a.dtype() {
        return Err(mistake("both need f32 or f64: sums of halves and bytes lose too much"));
    }
    if levels > MOST_LEVELS {
        return Err(mistake("one or two levels; more cost more than they save"));
    }
    let [m, k] = [a.shape()[0], a.shape()[1]];
    let [inner, n] = [b.shape()[0], b.shape()[1]];
    if k != inner {
        let (lhs, rhs) = (*a.shape(), *b.shape());
        return Err(polaris_core::Error::no_product("strassen", lhs, rhs).into());
    }
    if output.shape().dims() != [m, n] {
        let (lhs, rhs) = (*output.shape(), Shape::new(&[m, n])?);
        return Err(polaris_core::Error::unequal_shapes("strassen", lhs, rhs).into());
    }
    multiply(a, b, output, levels)
}

fn multiply(a: &Array, b: &Array, out: &Array, levels: u32) -> Result<()> {
    let ([m, k], n) = ([a.shape()[0], a.shape()[1]], b.shape()[1]);
    let halves = [m / 2, k / 2, n / 2];
    if levels == 0 || halves.contains(&0) {
        return MatMul::default().run(&[a, b], out);
    }
    // The even part by seven products; the odd row, column and step by ordinary ones.
    let [m2, k2, n2] = halves.map(|half| 2 * half);
    let even = part(out, 0..m2, 0..n2)?;
    seven_products(&part(a, 0..m2, 0..k2)?, &part(b, 0..k2, 0..n2)?, &even, levels)?;
    if k2 < k {
        let add = MatMul { beta: 1.0, ..MatMul::default() };
        add.run(&[&part(a, 0..m2, k2..k)?, &part(b, k2..k, 0..n2)?, &even], &even)?;
    }
    if n2 < n {
        let column = part(out, 0..m2, n2..n)?;
        MatMul::default().run(&[&part(a, 0..m2, 0..k)?, &part(b, 0..k, n2..n)?], &column)?;
    }
    if m2 < m {
        let row = part(out, m2..m, 0..n)?;
        MatMul::default().run(&[&part(a, m2..m, 0..k)?, b], &row)?;
    }
    Ok(())
}

/// Winograd's form: seven products, fifteen additions.
fn seven_products(a: &Array, b: &Array, out: &Array, levels: u32) -> Result<()> {
    let [a11, a12, a21, a22] = quarters(a)?;
    let [b11, b12, b21, b22] = quarters(b)?;
    let [c11, c12, c21, c22] = quarters(out)?;
    let like = |array: &Array| Array::empty(array.device(), array.dtype(), *array.shape());
    let (s, t) = (like(&a11)?, like(&b11)?);
    let product = |x: &Array, y: &Array| -> Result<Array> {
        let p = like(&c11)?;
        multiply(x, y, &p, levels - 1)?;
        Ok(p)
    };
    let add = |x: &Array, y: &Array, z: &Array| combine(Binary::Add, x, y, z);
    let subtract = |x: &Array, y: &Array, z: &Array| combine(Binary::Sub, x, y, z);
    // s1 = a21 + a22, t1 = b12 - b11
    add(&a21, &a22, &s)?;
    subtract(&b12, &b11, &t)?;
    let p5 = product(&s, &t)?;
    // s2 = s1 - a11, t2 = b22 - t1
    subtract(&s, &a11, &s)?;
    subtract(&b22, &t, &t)?;
    let p6 = product(&s, &t)?;
    // s4 = a12 - s2, t4 = t2 - b21
    subtract(&a12, &s, &s)?;
    let p3 = product(&s, &b22)?;
    subtract(&t, &b21, &t)?;
    let p4 = product(&a22, &t)?;
    // s3 = a11 - a21, t3 = b22 - b12
    subtract(&a11, &a21, &s)?;
    subtract(&b22, &b12, &t)?;
    let p7 = product(&s, &t)?;
    let p1 = product(&a11, &b11)?;
    let p2 = product(&a12, &b21)?;
    add(&p1, &p2, &c11)?;
    // u2 = p1 + p6, u3 = u2 + p7
    add(&p1, &p6, &p6)?;
    add(&p6, &p7, &p7)?;
    subtract(&p7, &p4, &c21)?;
    add(&p7, &p5, &c22)?;
    add(&p6, &p5, &p6)?;
    add(&p6, &p3, &c12)
}

fn combine(function: Binary, x: &Array, y: &Array, z: &Array) -> Result<()> {
    run(&Elementwise { function: function.into() }, &[x, y], z)
}

fn part(
    array: &Array,
    rows: std::ops::Range<usize>,
    columns: std::ops::Range<usize>,
) -> Result<Array> {
    array.slice(0, rows, 1)?.slice(1, columns, 1)
}

fn quarters(array: &Array) -> Result<[Array; 4]> {
    let [m, n] = [array.shape()[0] / 2, array.shape()[1] / 2];
    Ok([
        part(array, 0..m, 0..n)?,
        part(array, 0..m, n..2 * n)?,
        part(array, m..2 * m, 0..n)?,
        part(array, m..2 * m, n..2 * n)?,
    ])
}
