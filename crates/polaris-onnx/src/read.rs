//! Constants and test data in files.

use bytes::Bytes;

use crate::limits::checked_elements;
use crate::messages;
use crate::{ElementType, Error, ExternalData, Result, Tensor, Value};

/// The tensor that a message describes. Plain elements stay in place.
///
/// # Errors
/// If the message holds another number of elements than its shape, or none of that type.
pub fn read_tensor(message: &messages::Tensor, external: &dyn ExternalData) -> Result<Tensor> {
    let name = message.name.as_str();
    let wrong = |why: String| Error::tensor(name, why);
    let element = ElementType::from_code(message.data_type)?;
    let shape = message
        .dims
        .iter()
        .map(|&length| {
            usize::try_from(length).map_err(|_| wrong(format!("has the length {length}")))
        })
        .collect::<Result<Vec<usize>>>()?;
    let elements = checked_elements(element, &shape)?;
    if element == ElementType::String {
        if message.string_data.len() != elements {
            return Err(wrong(count(&shape, message.string_data.len())));
        }
        let strings = message
            .string_data
            .iter()
            .map(|bytes| {
                String::from_utf8(bytes.to_vec()).map_err(|_| wrong("is not UTF-8".into()))
            })
            .collect::<Result<Vec<String>>>()?;
        return Tensor::strings(&shape, strings);
    }
    let bits = element.bits_in_files().expect("only strings should have no bits");
    let bytes_in_file = (elements * bits).div_ceil(8);
    let external_location = message.external_data.iter().any(|entry| entry.key == "location");
    let plain = if message.data_location == 1 || external_location {
        let bytes = read_external(message, external)?;
        if bytes.len() < bytes_in_file {
            return Err(wrong(format!(
                "needs {bytes_in_file} bytes, its file has {}",
                bytes.len()
            )));
        }
        Some(bytes.slice(..bytes_in_file))
    } else if !message.raw_data.is_empty() {
        if message.raw_data.len() != bytes_in_file {
            let found = message.raw_data.len();
            return Err(wrong(format!("needs {bytes_in_file} bytes for {shape:?}, found {found}")));
        }
        Some(message.raw_data.clone())
    } else {
        None
    };
    let tensor = match plain {
        Some(bytes) => Tensor::from_bytes(element, &shape, unpack(element, elements, bytes)),
        None => read_fields(message, element, &shape, elements),
    };
    tensor.map_err(|error| match error {
        Error::Operands { why } => wrong(why),
        other => other,
    })
}

fn count(shape: &[usize], found: usize) -> String {
    format!("has the shape {shape:?}, but {found} elements")
}

/// Where a tensor's elements lie in another file.
fn read_external(message: &messages::Tensor, external: &dyn ExternalData) -> Result<Bytes> {
    let entry = |key: &str| message.external_data.iter().find(|entry| entry.key == key);
    let number = |key: &str| -> Result<Option<u64>> {
        entry(key)
            .map(|entry| {
                let why = || format!("its {key} `{}` is not a number", entry.value);
                entry.value.parse().map_err(|_| Error::tensor(&message.name, why()))
            })
            .transpose()
    };
    let location = entry("location").ok_or_else(|| {
        Error::tensor(&message.name, "is said to be in another file, but not in which")
    })?;
    external.read(&location.value, number("offset")?.unwrap_or(0), number("length")?)
}

/// A byte for each element of types of 2 and 4 bits; the first one is in the lowest bits.
fn unpack(element: ElementType, elements: usize, bytes: Bytes) -> Bytes {
    let bits = match element.bits_in_files() {
        Some(bits @ (2 | 4)) => bits,
        _ => return bytes,
    };
    let per_byte = 8 / bits;
    let mask = (1u8 << bits) - 1;
    let signed = element.is_signed_integer();
    let one = |index: usize| {
        let raw = (bytes[index / per_byte] >> (index % per_byte * bits)) & mask;
        if signed { (((raw << (8 - bits)) as i8) >> (8 - bits)) as u8 } else { raw }
    };
    (0..elements).map(one).collect::<Vec<u8>>().into()
}

/// Elements that are in fields of their own kind.
fn read_fields(
    message: &messages::Tensor,
    element: ElementType,
    shape: &[usize],
    elements: usize,
) -> Result<Tensor> {
    use ElementType as E;
    let exactly = |found: usize, expected: usize| {
        if found == expected {
            return Ok(());
        }
        Err(Error::tensor(&message.name, count(shape, found)))
    };
    match element {
        E::F32 => {
            exactly(message.float_data.len(), elements)?;
            Tensor::new(shape, message.float_data.clone())
        }
        E::F64 => {
            exactly(message.double_data.len(), elements)?;
            Tensor::new(shape, message.double_data.clone())
        }
        E::C64 => {
            exactly(message.float_data.len(), 2 * elements)?;
            let pairs = message.float_data.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
            Tensor::new::<[f32; 2]>(shape, pairs)
        }
        E::C128 => {
            exactly(message.double_data.len(), 2 * elements)?;
            let pairs =
                message.double_data.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
            Tensor::new::<[f64; 2]>(shape, pairs)
        }
        E::I64 => {
            exactly(message.int64_data.len(), elements)?;
            Tensor::new(shape, message.int64_data.clone())
        }
        E::U32 | E::U64 => {
            exactly(message.uint64_data.len(), elements)?;
            let values: Vec<i128> = message.uint64_data.iter().map(|&x| i128::from(x)).collect();
            Tensor::from_integers(element, shape, &values)
        }
        E::U4 | E::I4 | E::F4E2M1 | E::U2 | E::I2 => {
            // Each number holds the bits of one byte of the packed elements.
            let bits = element.bits_in_files().unwrap_or(8);
            exactly(message.int32_data.len(), (elements * bits).div_ceil(8))?;
            let packed: Vec<u8> = message.int32_data.iter().map(|&x| x as u8).collect();
            Tensor::from_bytes(element, shape, unpack(element, elements, packed.into()))
        }
        E::F16 | E::BF16 => {
            exactly(message.int32_data.len(), elements)?;
            let bytes: Vec<u8> =
                message.int32_data.iter().flat_map(|&x| (x as u16).to_le_bytes()).collect();
            Tensor::from_bytes(element, shape, bytes.into())
        }
        narrow if narrow.is_float() => {
            exactly(message.int32_data.len(), elements)?;
            let bytes: Vec<u8> = message.int32_data.iter().map(|&x| x as u8).collect();
            Tensor::from_bytes(element, shape, bytes.into())
        }
        _ => {
            exactly(message.int32_data.len(), elements)?;
            let values: Vec<i128> = message.int32_data.iter().map(|&x| i128::from(x)).collect();
            Tensor::from_integers(element, shape, &values)
        }
    }
}

/// The largest tensor that a few elements may stand for.
const MOST_SPARSE: usize = 1 << 28;

/// The dense tensor of one that is given by its elements that are not zero.
pub(crate) fn read_sparse(
    message: &messages::SparseTensor,
    external: &dyn ExternalData,
) -> Result<Tensor> {
    let part = |part: &Option<messages::Tensor>| {
        let message =
            part.as_ref().ok_or_else(|| Error::format("a sparse tensor without elements"))?;
        read_tensor(message, external)
    };
    let (values, indices) = (part(&message.values)?, part(&message.indices)?);
    let name = message.values.as_ref().map_or("", |values| values.name.as_str());
    let outside = || Error::tensor(name, "has elements outside its shape");
    let shape = message
        .dims
        .iter()
        .map(|&length| usize::try_from(length).map_err(|_| outside()))
        .collect::<Result<Vec<usize>>>()?;
    let size = values.element().size();
    let elements = checked_elements(values.element(), &shape)?;
    if elements * size > MOST_SPARSE {
        let why = format!("would take more than {MOST_SPARSE} bytes when it is written out");
        return Err(Error::tensor(name, why));
    }
    let mut bytes = crate::room::filled(0u8, elements * size)?;
    let indices_list = indices.to_i64()?;
    let width = if indices.rank() == 2 { shape.len() } else { 1 };
    if indices_list.len() != values.elements() * width {
        return Err(Error::tensor(name, "has another number of places than of elements"));
    }
    let source = values.bytes()?;
    for (position, place) in indices_list.chunks_exact(width.max(1)).enumerate() {
        let mut flat = 0usize;
        if width == 1 && indices.rank() != 2 {
            flat = usize::try_from(place[0]).map_err(|_| outside())?;
        } else {
            for (&index, &length) in place.iter().zip(&shape) {
                let index =
                    usize::try_from(index).ok().filter(|&i| i < length).ok_or_else(outside)?;
                flat = flat * length + index;
            }
        }
        if flat >= elements {
            return Err(outside());
        }
        let target = &mut bytes[flat * size..(flat + 1) * size];
        target.copy_from_slice(&source[position * size..(position + 1) * size]);
    }
    Tensor::from_bytes(values.element(), &shape, bytes.into())
}

/// The value of a file of test data, given the type that the model declares for it.
///
/// # Errors
/// If the file holds something else.
pub fn read_value(bytes: Bytes, ty: Option<&crate::Type>) -> Result<Value> {
    use crate::Type;
    use prost::Message;
    let broken = |error: prost::DecodeError| Error::format(error.to_string());
    match ty {
        Some(Type::Sequence(_)) => {
            read_sequence(&messages::Sequence::decode(bytes).map_err(broken)?)
        }
        Some(Type::Optional(_)) => {
            read_optional(&messages::Optional::decode(bytes).map_err(broken)?)
        }
        _ => {
            let message = messages::Tensor::decode(bytes).map_err(broken)?;
            Ok(Value::Tensor(read_tensor(&message, &crate::NoExternalData)?))
        }
    }
}

fn read_sequence(message: &messages::Sequence) -> Result<Value> {
    let mut values = Vec::new();
    for tensor in &message.tensor_values {
        values.push(Value::Tensor(read_tensor(tensor, &crate::NoExternalData)?));
    }
    for sequence in &message.sequence_values {
        values.push(read_sequence(sequence)?);
    }
    for optional in &message.optional_values {
        values.push(read_optional(optional)?);
    }
    Ok(Value::sequence(values))
}

fn read_optional(message: &messages::Optional) -> Result<Value> {
    let value = if let Some(tensor) = &message.tensor_value {
        Some(Value::Tensor(read_tensor(tensor, &crate::NoExternalData)?))
    } else if let Some(sequence) = &message.sequence_value {
        Some(read_sequence(sequence)?)
    } else if let Some(optional) = &message.optional_value {
        Some(read_optional(optional)?)
    } else {
        None
    };
    Ok(Value::Optional(value.map(std::sync::Arc::new)))
}
