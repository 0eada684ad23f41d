//! Tensors for a model: from files, or random.

use std::path::Path;

use anyhow::{Context, bail};
use polaris::data::{PlainNpy, Random, npy_file};
use polaris::onnx::{ElementType, Tensor, Type, largest_tensor};

/// A tensor from an NPY file. Types that NumPy does not have are read from wider ones.
pub fn read(path: &Path, declared: Option<&Type>) -> anyhow::Result<Tensor> {
    let array = PlainNpy::read(path)?;
    let element = element(array.code)
        .with_context(|| format!("{}: numbers of type {}", path.display(), array.code))?;
    let tensor = Tensor::from_bytes(element, &array.dims, array.bytes.into())?;
    match declared {
        Some(Type::Tensor(wanted, _)) if *wanted != element && code(*wanted).is_none() => {
            Ok(Tensor::from_f64(*wanted, tensor.shape(), &tensor.to_f64()?)?)
        }
        _ => Ok(tensor),
    }
}

/// The bytes of an NPY file of a tensor. Types that NumPy does not have become `f4`.
pub fn npy(tensor: &Tensor) -> anyhow::Result<Vec<u8>> {
    let tensor = match code(tensor.element()) {
        Some(_) => tensor.clone(),
        None => Tensor::from_f64(ElementType::F32, tensor.shape(), &tensor.to_f64()?)?,
    };
    let code = code(tensor.element()).unwrap_or("f4");
    Ok(npy_file(code, tensor.shape(), tensor.bytes()?))
}

/// Random numbers of a type: normal ones, small whole numbers, coins.
pub fn random(ty: &Type, name: &str, seed: u64) -> anyhow::Result<Tensor> {
    let Some((element, shape)) = ty.known_tensor() else {
        bail!("no random numbers can be made for the input `{name}`, which is {ty}");
    };
    let words: Vec<u64> = name.bytes().map(u64::from).chain([seed]).collect();
    let mut random = Random::new(&words);
    let count = shape.iter().try_fold(1usize, |count, &length| count.checked_mul(length));
    // Numbers are drawn in 8 bytes each, whatever they become.
    let limit = largest_tensor() / (8 + element.size() as u64);
    let Some(count) = count.filter(|&count| count as u64 <= limit) else {
        bail!(
            "no random numbers are made for the input `{name}`, {ty}: at most {limit} fit into memory; \
             give it in a file, or choose a smaller shape"
        );
    };
    let mut values: Vec<f64> = Vec::new();
    values
        .try_reserve_exact(count)
        .with_context(|| format!("no memory for {count} random numbers for the input `{name}`"))?;
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

fn element(code: &str) -> Option<ElementType> {
    CODES.iter().find(|(_, other)| *other == code).map(|(element, _)| *element)
}

fn code(element: ElementType) -> Option<&'static str> {
    CODES.iter().find(|(other, _)| *other == element).map(|(_, code)| *code)
}

#[cfg(test)]
mod tests {
    use polaris::onnx::Dim;

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
