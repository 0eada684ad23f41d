//! Einstein's summation.

use std::collections::BTreeMap;

use super::wrapped;
use crate::limits::checked_elements;
use crate::operators::{Call, one, walk};
use crate::room::Collected;
use crate::{ElementType, Error, Result, Tensor, Value};

/// An axis of an operand: a letter, or one of those that an ellipsis stands for, counted from the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    Ellipsis(std::cmp::Reverse<usize>),
    Letter(char),
}

/// Numbers with a name for each axis, no name twice.
struct Named<T> {
    labels: Vec<Label>,
    values: Vec<T>,
}

pub(super) fn einsum(call: &Call<'_>) -> Result<Vec<Value>> {
    let missing = || Error::operands("the attribute `equation` is missing");
    let equation = call.attributes().string("equation")?.ok_or_else(missing)?;
    let operands = call.tensors()?;
    let first = operands.first().ok_or_else(|| Error::operands("there is no operand"))?;
    let element = first.element();
    if operands.iter().any(|operand| operand.element() != element) {
        return Err(Error::operands("the operands have different types"));
    }
    let (terms, output) = parse(equation, &operands)?;
    let lengths = lengths(&terms, &operands)?;
    let shape: Vec<usize> = output.iter().map(|label| lengths[label]).collect();
    if element.is_integer() {
        let values = sum(&operands, &terms, &output, &lengths, wrapped, |sum, a, b| {
            i64::wrapping_add(sum, a.wrapping_mul(b))
        })?;
        let values: Vec<i128> = values.into_iter().map(i128::from).collect();
        return Ok(one(Tensor::from_integers(element, &shape, &values)?));
    }
    let values =
        sum(&operands, &terms, &output, &lengths, Tensor::to_f64, |sum, a, b| sum + a * b)?;
    Ok(one(Tensor::from_f64(element, &shape, &values)?))
}

/// The labels of each operand's axes and those of the result.
fn parse(equation: &str, operands: &[&Tensor]) -> Result<(Vec<Vec<Label>>, Vec<Label>)> {
    let wrong = || Error::operands(format!("the equation `{equation}` does not fit its operands"));
    let plain: String = equation.chars().filter(|&letter| letter != ' ').collect();
    let (left, right) = match plain.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (plain.as_str(), None),
    };
    let texts: Vec<&str> = left.split(',').collect();
    if texts.len() != operands.len() {
        return Err(wrong());
    }
    let mut terms = Vec::new();
    let mut widest = 0;
    for (text, operand) in texts.iter().zip(operands) {
        let letters = text.replace("...", "").chars().count();
        let hidden = operand.rank().checked_sub(letters).ok_or_else(wrong)?;
        let term = labels(text, hidden).filter(|term| term.len() == operand.rank());
        terms.push(term.ok_or_else(wrong)?);
        widest = widest.max(hidden);
    }
    let output = match right {
        Some(text) => labels(text, widest).ok_or_else(wrong)?,
        None => {
            // What is there once, in the order of the alphabet, after the axes of ellipses.
            let mut counts: BTreeMap<Label, usize> = BTreeMap::new();
            for &label in terms.iter().flatten() {
                *counts.entry(label).or_default() += 1;
            }
            let once = |&(label, count): &(Label, usize)| {
                count == 1 || matches!(label, Label::Ellipsis(_))
            };
            counts.into_iter().filter(once).map(|(label, _)| label).collect()
        }
    };
    let unknown = |label: &Label| !terms.iter().any(|term| term.contains(label));
    let twice = |(index, label): (usize, &Label)| output[..index].contains(label);
    if output.iter().any(unknown) || output.iter().enumerate().any(twice) {
        return Err(wrong());
    }
    Ok((terms, output))
}

/// The labels of a term whose ellipsis stands for a number of axes; `None` if it is not a term.
fn labels(text: &str, hidden: usize) -> Option<Vec<Label>> {
    let ellipsis = (0..hidden).rev().map(|index| Label::Ellipsis(std::cmp::Reverse(index)));
    let letters = |text: &str| {
        let letter = |letter: char| letter.is_ascii_alphabetic().then_some(Label::Letter(letter));
        text.chars().map(letter).collect::<Option<Vec<Label>>>()
    };
    match text.split_once("...") {
        None => letters(text),
        Some((before, after)) => {
            let mut list = letters(before)?;
            list.extend(ellipsis);
            list.extend(letters(after)?);
            Some(list)
        }
    }
}

/// The length of each label. Axes of length 1 are repeated, as NumPy does.
fn lengths(terms: &[Vec<Label>], operands: &[&Tensor]) -> Result<BTreeMap<Label, usize>> {
    let mut lengths = BTreeMap::new();
    for (term, operand) in terms.iter().zip(operands) {
        for (&label, &length) in term.iter().zip(operand.shape()) {
            let known = lengths.entry(label).or_insert(length);
            if *known == 1 {
                *known = length;
            } else if length != 1 && length != *known {
                let why = format!("an axis has the lengths {known} and {length}");
                return Err(Error::operands(why));
            }
        }
    }
    Ok(lengths)
}

/// The operands multiplied one after another. What no later one needs is summed up at once.
fn sum<T: Copy + Default + From<u8>>(
    operands: &[&Tensor],
    terms: &[Vec<Label>],
    output: &[Label],
    lengths: &BTreeMap<Label, usize>,
    read: impl Fn(&Tensor) -> Result<Vec<T>>,
    add_product: impl Fn(T, T, T) -> T + Copy,
) -> Result<Vec<T>> {
    let unit = || Named { labels: Vec::new(), values: vec![T::from(1)] };
    let mut result = unit();
    for (index, (operand, term)) in operands.iter().zip(terms).enumerate() {
        let named = diagonal(read(operand)?, operand.shape(), term, lengths)?;
        let later = &terms[index + 1..];
        // Alone, before it is multiplied, the operand loses what only it has.
        let elsewhere = |label: &Label| {
            output.contains(label)
                || result.labels.contains(label)
                || later.iter().any(|term| term.contains(label))
        };
        let kept: Vec<Label> = named.labels.iter().copied().filter(elsewhere).collect();
        let named = contract(&named, &unit(), &kept, lengths, add_product)?;
        let needed =
            |label: &Label| output.contains(label) || later.iter().any(|term| term.contains(label));
        let mut kept: Vec<Label> = result.labels.iter().copied().filter(needed).collect();
        let new = |label: &Label| needed(label) && !result.labels.contains(label);
        kept.extend(named.labels.iter().copied().filter(new));
        result = contract(&result, &named, &kept, lengths, add_product)?;
    }
    // The axes may still be in another order.
    Ok(contract(&result, &unit(), output, lengths, add_product)?.values)
}

/// An operand with one axis for each of its labels, of full length: repeated labels are its diagonal.
fn diagonal<T: Copy>(
    values: Vec<T>,
    shape: &[usize],
    term: &[Label],
    lengths: &BTreeMap<Label, usize>,
) -> Result<Named<T>> {
    let own = walk::strides(shape);
    let mut labels: Vec<Label> = Vec::new();
    let mut steps: Vec<usize> = Vec::new();
    for (axis, &label) in term.iter().enumerate() {
        let step = if shape[axis] == 1 { 0 } else { own[axis] };
        match labels.iter().position(|&other| other == label) {
            Some(at) => steps[at] += step,
            None => {
                labels.push(label);
                steps.push(step);
            }
        }
    }
    let target: Vec<usize> = labels.iter().map(|label| lengths[label]).collect();
    checked_elements(ElementType::F64, &target)?;
    let places = walk::strided_places(&target, &steps, 0)?;
    Ok(Named { labels, values: places.into_iter().map(|place| values[place]).collect() })
}

/// The product of two operands, summed over all labels that are not kept.
fn contract<T: Copy + Default>(
    left: &Named<T>,
    right: &Named<T>,
    kept: &[Label],
    lengths: &BTreeMap<Label, usize>,
    add_product: impl Fn(T, T, T) -> T,
) -> Result<Named<T>> {
    let mut summed: Vec<Label> = Vec::new();
    for &label in left.labels.iter().chain(&right.labels) {
        if !kept.contains(&label) && !summed.contains(&label) {
            summed.push(label);
        }
    }
    let shape =
        |labels: &[Label]| labels.iter().map(|label| lengths[label]).collect::<Vec<usize>>();
    // The places of an operand while the labels of a list run through their lengths.
    let places = |operand: &Named<T>, labels: &[Label]| {
        let own = walk::strides(&shape(&operand.labels));
        let step = |label: &Label| {
            operand.labels.iter().position(|other| other == label).map_or(0, |at| own[at])
        };
        let steps: Vec<usize> = labels.iter().map(step).collect();
        walk::strided_places(&shape(labels), &steps, 0)
    };
    // Two places for each element.
    checked_elements(ElementType::C128, &shape(kept))?;
    checked_elements(ElementType::C128, &shape(&summed))?;
    let inner = places(left, &summed)?.into_iter().zip(places(right, &summed)?).collected()?;
    let outer = places(left, kept)?.into_iter().zip(places(right, kept)?);
    let values = outer
        .map(|(a, b)| {
            let step = |sum, &(c, d): &(usize, usize)| {
                add_product(sum, left.values[a + c], right.values[b + d])
            };
            inner.iter().fold(T::default(), step)
        })
        .collected()?;
    Ok(Named { labels: kept.to_vec(), values })
}
