//! Einstein's summation, lowered to permutations, reshapes, sums and matrix products.

use std::collections::BTreeMap;

use crate::{Error, Result, Tensor};

impl Tensor {
    /// Sums products of tensors over named axes, as in `"bij,bjk->bik"`: axes of one name are walked
    /// together, and names that the result does not have are summed over. Without `->` the result
    /// has the names that occur once, in the order of the alphabet. Several tensors are multiplied
    /// from left to right.
    ///
    /// # Errors
    /// If the text does not fit the tensors, a name stands twice in one of them, or as for
    /// [`matmul`](Self::matmul).
    pub fn einsum(equation: &str, tensors: &[&Self]) -> Result<Self> {
        let (terms, output) = parse(equation, tensors)?;
        let mut rest = terms.iter().zip(tensors);
        let (first, tensor) = rest.next().ok_or_else(|| invalid(equation, "there is no tensor"))?;
        let mut product = Named { names: first.clone(), tensor: (*tensor).clone() };
        for (place, (names, tensor)) in rest.enumerate() {
            // What neither a later tensor nor the result has is summed now.
            let later = &terms[place + 2..];
            let is_kept = |name: char| {
                output.contains(&name) || later.iter().any(|names| names.contains(&name))
            };
            let next = Named { names: names.clone(), tensor: (*tensor).clone() };
            product = product.times(next, &is_kept)?;
        }
        product.sum_others(&|name| output.contains(&name))?.ordered(&output)
    }
}

/// A tensor whose axes have names.
struct Named {
    names: Vec<char>,
    tensor: Tensor,
}

impl Named {
    /// Summed over the axes whose names are not kept.
    fn sum_others(self, is_kept: &dyn Fn(char) -> bool) -> Result<Self> {
        let axes: Vec<usize> =
            (0..self.names.len()).filter(|&axis| !is_kept(self.names[axis])).collect();
        if axes.is_empty() {
            return Ok(self);
        }
        let names = self.names.iter().copied().filter(|&name| is_kept(name)).collect();
        Ok(Self { names, tensor: self.tensor.sum_axes(&axes, false)? })
    }

    /// The axes in this order.
    fn ordered(&self, names: &[char]) -> Result<Tensor> {
        let place = |name: &char| self.names.iter().position(|other| other == name);
        let axes: Vec<usize> = names.iter().filter_map(place).collect();
        self.tensor.permute(&axes)
    }

    fn length(&self, name: char) -> usize {
        let axis = self.names.iter().position(|&other| other == name);
        axis.map_or(1, |axis| self.tensor.dims()[axis])
    }

    /// The product with another, summed over what both have and nobody needs any more.
    fn times(self, other: Self, is_kept: &dyn Fn(char) -> bool) -> Result<Self> {
        let (left, right) = (self.names.clone(), other.names.clone());
        let a = self.sum_others(&|name| is_kept(name) || right.contains(&name))?;
        let b = other.sum_others(&|name| is_kept(name) || left.contains(&name))?;
        let select = |from: &[char], condition: &dyn Fn(char) -> bool| -> Vec<char> {
            from.iter().copied().filter(|&name| condition(name)).collect()
        };
        let in_both = |name: char| a.names.contains(&name) && b.names.contains(&name);
        let batch = select(&a.names, &|name| in_both(name) && is_kept(name));
        let summed = select(&a.names, &|name| in_both(name) && !is_kept(name));
        let rows = select(&a.names, &|name| !in_both(name));
        let columns = select(&b.names, &|name| !in_both(name));
        let size = |of: &Self, names: &[char]| names.iter().map(|&n| of.length(n)).product();
        let batches: usize = size(&a, &batch);
        let (m, k, n): (usize, usize, usize) =
            (size(&a, &rows), size(&a, &summed), size(&b, &columns));
        let left = a.ordered(&[&batch[..], &rows, &summed].concat())?.reshape(&[batches, m, k])?;
        let right =
            b.ordered(&[&batch[..], &summed, &columns].concat())?.reshape(&[batches, k, n])?;
        let mut dims: Vec<usize> = batch.iter().chain(&rows).map(|&name| a.length(name)).collect();
        dims.extend(columns.iter().map(|&name| b.length(name)));
        let tensor = left.matmul(&right)?.reshape(&dims)?;
        Ok(Self { names: [batch, rows, columns].concat(), tensor })
    }
}

fn invalid(equation: &str, why: &str) -> Error {
    let what = format!("`{equation}`: {why}; write it as in \"bij,bjk->bik\"");
    Error::InvalidParameter { op: "einsum", what }
}

/// The names of each tensor's axes, and of the result's.
fn parse(equation: &str, tensors: &[&Tensor]) -> Result<(Vec<Vec<char>>, Vec<char>)> {
    let invalid = |why: &str| invalid(equation, why);
    let compact: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    let (inputs, output) = match compact.split_once("->") {
        Some((inputs, output)) => (inputs.to_owned(), Some(output.to_owned())),
        None => (compact, None),
    };
    let terms: Vec<Vec<char>> = inputs.split(',').map(|term| term.chars().collect()).collect();
    if terms.len() != tensors.len() {
        return Err(invalid(&format!("there are {} tensors", tensors.len())));
    }
    let mut lengths: BTreeMap<char, usize> = BTreeMap::new();
    for (names, tensor) in terms.iter().zip(tensors) {
        if names.len() != tensor.rank() {
            return Err(invalid(&format!(
                "a tensor of shape {} is named otherwise",
                tensor.shape()
            )));
        }
        for (place, (&name, &length)) in names.iter().zip(tensor.dims()).enumerate() {
            if !name.is_ascii_alphabetic() {
                return Err(invalid(&format!("`{name}` is no letter")));
            }
            if names[..place].contains(&name) {
                return Err(invalid(&format!("`{name}` stands twice in one tensor")));
            }
            if *lengths.entry(name).or_insert(length) != length {
                return Err(invalid(&format!("axes named `{name}` have different lengths")));
            }
        }
    }
    let output = match output {
        Some(output) => output.chars().collect(),
        None => {
            let count = |name: char| terms.iter().flatten().filter(|&&other| other == name).count();
            lengths.keys().copied().filter(|&name| count(name) == 1).collect::<Vec<char>>()
        }
    };
    for (place, name) in output.iter().enumerate() {
        if !lengths.contains_key(name) || output[..place].contains(name) {
            return Err(invalid(&format!("`{name}` of the result must be an axis, once")));
        }
    }
    Ok((terms, output))
}
