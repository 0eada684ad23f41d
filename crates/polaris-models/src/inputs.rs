//! Tensors for a model's inputs: shapes with symbolic dimensions, and values from files or at random.

use std::path::Path;

use polaris_data::{PlainNpy, Random, npy_file};
use polaris_graph::Session;
use polaris_onnx::{Dim, ElementType, Tensor, Type, largest_tensor};

use crate::{Error, Result};

/// Lengths by the names under which a model leaves them open.
pub type Lengths = [(String, usize)];

/// A declared type with these lengths for those it leaves open; others are 1.
pub fn closed(ty: &Type, lengths: &Lengths) -> Type {
    let Type::Tensor(element, Some(dims)) = ty else { return ty.clone() };
    let close = |dim: &Dim| match dim {
        Dim::Known(length) => *length,
        Dim::Unknown => 1,
        Dim::Named(name) => {
            lengths.iter().find(|(given, _)| given == name).map_or(1, |&(_, length)| length)
        }
    };
    Type::Tensor(*element, Some(dims.iter().map(|dim| Dim::Known(close(dim))).collect()))
}

/// Refuses names of lengths that the model does not have.
///
/// # Errors
/// `UnknownLength`, with those that it has.
pub fn check_lengths(model: &Session, lengths: &Lengths) -> Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for (_, ty) in model.inputs() {
        if let Some(Type::Tensor(_, Some(dims))) = ty {
            names.extend(dims.iter().filter_map(|dim| match dim {
                Dim::Named(name) => Some(name.as_str()),
                _ => None,
            }));
        }
    }
    names.sort_unstable();
    names.dedup();
    match lengths.iter().find(|(given, _)| !names.contains(&given.as_str())) {
        None => Ok(()),
        Some((name, _)) => {
            let known = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Err(Error::UnknownLength { name: name.clone(), known })
        }
    }
}

/// The types of all inputs, closed.
///
/// # Errors
/// If a length is not the model's, or if an input has no declared shape.
pub fn closed_inputs(model: &Session, lengths: &Lengths) -> Result<Vec<(String, Type)>> {
    check_lengths(model, lengths)?;
    let close = |(name, ty): (&str, Option<&Type>)| match ty {
        Some(ty @ Type::Tensor(_, Some(_))) => Ok((name.to_owned(), closed(ty, lengths))),
        _ => Err(Error::UndeclaredShape { input: name.to_owned() }),
    };
    model.inputs().into_iter().map(close).collect()
}

/// A tensor from an NPY file. Types that NumPy does not have are read from wider ones.
///
/// # Errors
/// If the file cannot be read or holds numbers of a type that tensors do not have.
pub fn read(path: &Path, declared: Option<&Type>) -> Result<Tensor> {
    let array = PlainNpy::read(path)?;
    let element = element(array.code)
        .ok_or_else(|| Error::file(path, format!("numbers of type {}", array.code)))?;
    let tensor = Tensor::from_bytes(element, &array.dims, array.bytes.into())?;
    match declared {
        Some(Type::Tensor(wanted, _)) if *wanted != element && code(*wanted).is_none() => {
            Ok(Tensor::from_f64(*wanted, tensor.shape(), &tensor.to_f64()?)?)
        }
        _ => Ok(tensor),
    }
}

/// The bytes of an NPY file of a tensor. Types that NumPy does not have become `f4`.
///
/// # Errors
/// If it is not of numbers.
pub fn npy(tensor: &Tensor) -> Result<Vec<u8>> {
    let tensor = match code(tensor.element()) {
        Some(_) => tensor.clone(),
        None => Tensor::from_f64(ElementType::F32, tensor.shape(), &tensor.to_f64()?)?,
    };
    let code = code(tensor.element()).unwrap_or("f4");
    Ok(npy_file(code, tensor.shape(), tensor.bytes()?))
}

/// Random numbers of a type, which the name and the seed decide: normal ones, small whole numbers, coins.
///
/// # Errors
/// If the type is open or no tensor of numbers, or if memory does not hold so many.
pub fn random(ty: &Type, name: &str, seed: u64) -> Result<Tensor> {
    let Some((element, shape)) = ty.known_tensor() else {
        let why = format!("can be generated for the input `{name}`, which is {ty}");
        return Err(Error::NoRandomInput { why });
    };
    let words: Vec<u64> = name.bytes().map(u64::from).chain([seed]).collect();
    let mut random = Random::new(&words);
    let count = shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length));
    // Numbers are drawn in 8 bytes each, whatever they become.
    let limit = largest_tensor() / (8 + element.size() as u64);
    let Some(count) = count.filter(|&count| count as u64 <= limit) else {
        let why = format!(
            "are generated for the input `{name}`, {ty}: at most {limit} fit into memory; read it from a file, or choose a smaller shape"
        );
        return Err(Error::NoRandomInput { why });
    };
    let mut values: Vec<f64> = Vec::new();
    values.try_reserve_exact(count).map_err(|error| Error::NoMemory {
        what: format!("{count} random values for the input `{name}`"),
        error,
    })?;
    values.extend((0..count).map(|_| match element {
        ElementType::Bool => random.below(2) as f64,
        // Small enough to be indices of most tables.
        _ if element.is_integer() => random.below(4) as f64,
        _ => random.normal(),
    }));
    Ok(Tensor::from_f64(element, &shape, &values)?)
}

const CODES: [(ElementType, &str); 12] = [
    (ElementType::F16, "f2"),
    (ElementType::F32, "f4"),
    (ElementType::F64, "f8"),
    (ElementType::I8, "i1"),
    (ElementType::U8, "u1"),
    (ElementType::I16, "i2"),
    (ElementType::U16, "u2"),
    (ElementType::I32, "i4"),
    (ElementType::U32, "u4"),
    (ElementType::I64, "i8"),
    (ElementType::U64, "u8"),
    (ElementType::Bool, "b1"),
];

pub(crate) fn element(code: &str) -> Option<ElementType> {
    CODES.iter().find(|(_, other)| *other == code).map(|(element, _)| *element)
}

fn code(element: ElementType) -> Option<&'static str> {
    CODES.iter().find(|(other, _)| *other == element).map(|(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_the_memory_limit_are_refused() {
        let of = |lengths: &[usize]| {
            let dims = lengths.iter().map(|&length| Dim::Known(length)).collect();
            random(&Type::Tensor(ElementType::F32, Some(dims)), "x", 1)
        };
        assert_eq!(of(&[2, 3]).unwrap().shape(), [2, 3]);
        for lengths in [&[1 << 16, 1 << 16][..], &[1 << 62], &[usize::MAX, 8]] {
            let error = of(lengths).unwrap_err().to_string();
            assert!(error.contains("the input `x`"), "{error}");
        }
    }
}
