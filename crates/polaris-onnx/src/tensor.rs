//! Tensors on the host, of every type that ONNX has.

use std::borrow::Cow;
use std::sync::Arc;

use bytemuck::Pod;
use bytes::Bytes;
use half::{bf16, f16};

use crate::limits::checked_elements;
use crate::room::{Collected, filled};
use crate::{ElementType, Error, Result, narrow};

/// Elements in row-major order with a shape. Cloning shares them.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    element: ElementType,
    shape: Vec<usize>,
    data: Data,
}

#[derive(Debug, Clone, PartialEq)]
enum Data {
    /// Little-endian, not necessarily aligned: they may lie in a file.
    Plain(Bytes),
    Strings(Arc<Vec<String>>),
}

/// A Rust type that stands for a type of elements.
pub trait Plain: Pod + Send + Sync {
    /// The type it stands for. Narrow types are bytes and have no Rust type.
    const ELEMENT: ElementType;
}

macro_rules! plain {
    ($($rust:ty => $element:ident),*) => {
        $(impl Plain for $rust { const ELEMENT: ElementType = ElementType::$element; })*
    };
}
plain!(
    f32 => F32, f64 => F64, f16 => F16, bf16 => BF16, u8 => U8, i8 => I8, u16 => U16, i16 => I16,
    u32 => U32, i32 => I32, u64 => U64, i64 => I64, [f32; 2] => C64, [f64; 2] => C128
);

/// A vector whose bytes can be shared.
struct Owned<T>(Vec<T>);

impl<T: Pod> AsRef<[u8]> for Owned<T> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// The vector's memory as shared bytes, without a copy.
fn shared<T: Pod + Send + Sync>(values: Vec<T>) -> Bytes {
    Bytes::from_owner(Owned(values))
}

impl Tensor {
    /// A tensor of these values.
    ///
    /// # Errors
    /// If the shape holds another number of them.
    pub fn new<T: Plain>(shape: &[usize], values: Vec<T>) -> Result<Self> {
        Self::from_bytes(T::ELEMENT, shape, shared(values))
    }

    /// A tensor without axes.
    pub fn scalar<T: Plain>(value: T) -> Self {
        Self { element: T::ELEMENT, shape: Vec::new(), data: Data::Plain(shared(vec![value])) }
    }

    /// A tensor of bools.
    ///
    /// # Errors
    /// If the shape holds another number of them.
    pub fn bools(shape: &[usize], values: &[bool]) -> Result<Self> {
        let bytes: Vec<u8> = values.iter().map(|&value| u8::from(value)).collect();
        Self::from_bytes(ElementType::Bool, shape, bytes.into())
    }

    /// A tensor of strings.
    ///
    /// # Errors
    /// If the shape holds another number of them.
    pub fn strings(shape: &[usize], values: Vec<String>) -> Result<Self> {
        if checked_elements(ElementType::String, shape)? != values.len() {
            return Err(wrong_count(shape, values.len()));
        }
        let data = Data::Strings(Arc::new(values));
        Ok(Self { element: ElementType::String, shape: shape.to_vec(), data })
    }

    /// A tensor of bytes: elements in row-major order, little-endian, narrow ones in a byte each.
    ///
    /// # Errors
    /// If the shape needs another number of bytes, or for strings.
    pub fn from_bytes(element: ElementType, shape: &[usize], bytes: Bytes) -> Result<Self> {
        if element == ElementType::String {
            return Err(Error::operands("strings have no plain bytes"));
        }
        let elements = checked_elements(element, shape)?;
        if elements * element.size() != bytes.len() {
            return Err(wrong_count(shape, bytes.len() / element.size()));
        }
        Ok(Self { element, shape: shape.to_vec(), data: Data::Plain(bytes) })
    }

    /// A tensor of zeros, or of empty strings.
    ///
    /// # Errors
    /// If it is too large.
    pub fn zeros(element: ElementType, shape: &[usize]) -> Result<Self> {
        let elements = checked_elements(element, shape)?;
        if element == ElementType::String {
            return Self::strings(shape, filled(String::new(), elements)?);
        }
        Self::from_bytes(element, shape, filled(0u8, elements * element.size())?.into())
    }

    /// Values in `f64`, rounded to a type. Integers are cut off at the point and wrap, as C's
    /// conversions do on common machines; what does not fit a narrow type saturates.
    ///
    /// # Errors
    /// For strings, and if the shape holds another number of values.
    pub fn from_f64(element: ElementType, shape: &[usize], values: &[f64]) -> Result<Self> {
        use ElementType as E;
        fn map<T: Plain>(values: &[f64], convert: impl Fn(f64) -> T) -> Result<Bytes> {
            Ok(shared(values.iter().map(|&value| convert(value)).collected()?))
        }
        // Integers too large for `i64` are those of `u64`.
        let integer = |value: f64| if value >= 9.2e18 { value as u64 as i64 } else { value as i64 };
        checked_elements(element, shape)?;
        let bytes = match element {
            E::F32 => map(values, |x| x as f32),
            E::F64 => map(values, |x| x),
            // By way of f32, as engines that compute in f32 do.
            E::F16 => map(values, |x| f16::from_f32(x as f32)),
            E::BF16 => map(values, |x| bf16::from_f32(x as f32)),
            E::Bool => map(values, |x| u8::from(x != 0.0)),
            E::C64 => map(values, |x| [x as f32, 0.0]),
            E::C128 => map(values, |x| [x, 0.0]),
            E::U64 => map(values, |x| if x < 0.0 { x as i64 as u64 } else { x as u64 }),
            E::String => return Err(Error::operands("numbers are not strings")),
            other if other.is_float() => map(values, |x| narrow::encode(other, x, true)),
            other => {
                let integers =
                    values.iter().map(|&value| i128::from(integer(value))).collected()?;
                return Self::from_integers(other, shape, &integers);
            }
        }?;
        Self::from_bytes(element, shape, bytes)
    }

    /// Integers, wrapped to a type, or rounded if it is a floating-point one.
    ///
    /// # Errors
    /// For strings, and if the shape holds another number of values.
    pub fn from_integers(element: ElementType, shape: &[usize], values: &[i128]) -> Result<Self> {
        use ElementType as E;
        fn map<T: Plain>(values: &[i128], convert: impl Fn(i128) -> T) -> Result<Bytes> {
            Ok(shared(values.iter().map(|&value| convert(value)).collected()?))
        }
        checked_elements(element, shape)?;
        let bytes = match element {
            E::U8 => map(values, |x| x as u8),
            E::I8 => map(values, |x| x as i8),
            E::U16 => map(values, |x| x as u16),
            E::I16 => map(values, |x| x as i16),
            E::U32 => map(values, |x| x as u32),
            E::I32 => map(values, |x| x as i32),
            E::U64 => map(values, |x| x as u64),
            E::I64 => map(values, |x| x as i64),
            E::U4 => map(values, |x| x as u8 & 15),
            E::U2 => map(values, |x| x as u8 & 3),
            E::I4 => map(values, |x| ((x as i8) << 4) >> 4),
            E::I2 => map(values, |x| ((x as i8) << 6) >> 6),
            E::Bool => map(values, |x| u8::from(x != 0)),
            _ => {
                let floats = values.iter().map(|&value| value as f64).collected()?;
                return Self::from_f64(element, shape, &floats);
            }
        }?;
        Self::from_bytes(element, shape, bytes)
    }

    /// The type of its elements.
    pub fn element(&self) -> ElementType {
        self.element
    }

    /// The length of each axis.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of axes.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }

    /// The number of elements.
    pub fn elements(&self) -> usize {
        self.shape.iter().product()
    }

    /// The elements as bytes: shared, little-endian, narrow ones in a byte each, not necessarily aligned.
    ///
    /// # Errors
    /// For strings.
    pub fn bytes(&self) -> Result<&Bytes> {
        match &self.data {
            Data::Plain(bytes) => Ok(bytes),
            Data::Strings(_) => Err(Error::operands("strings have no plain bytes")),
        }
    }

    /// The elements; copied only where they lie unaligned.
    ///
    /// # Errors
    /// If they are of another type.
    pub fn values<T: Plain>(&self) -> Result<Cow<'_, [T]>> {
        if self.element != T::ELEMENT {
            let (expected, found) = (T::ELEMENT, self.element);
            return Err(Error::operands(format!(
                "elements of {expected} were expected, not {found}"
            )));
        }
        let bytes = self.bytes()?;
        Ok(match bytemuck::try_cast_slice(bytes) {
            Ok(values) => Cow::Borrowed(values),
            Err(_) => Cow::Owned(bytemuck::pod_collect_to_vec(bytes)),
        })
    }

    /// The strings.
    ///
    /// # Errors
    /// If it holds something else.
    pub fn as_strings(&self) -> Result<&[String]> {
        match &self.data {
            Data::Strings(values) => Ok(values),
            Data::Plain(_) => {
                Err(Error::operands(format!("strings were expected, not {}", self.element)))
            }
        }
    }

    /// The elements in `f64`, from any real type; `true` is 1. Integers beyond 2^53 are rounded.
    ///
    /// # Errors
    /// For strings and complex numbers.
    pub fn to_f64(&self) -> Result<Vec<f64>> {
        use ElementType as E;
        checked_elements(ElementType::F64, &self.shape)?;
        Ok(match self.element {
            E::F32 => self.values::<f32>()?.iter().map(|&x| f64::from(x)).collected()?,
            E::F64 => self.values::<f64>()?.iter().copied().collected()?,
            E::F16 => self.values::<f16>()?.iter().map(|x| x.to_f64()).collected()?,
            E::BF16 => self.values::<bf16>()?.iter().map(|x| x.to_f64()).collected()?,
            narrow if narrow.is_float() => {
                self.bytes()?.iter().map(|&bits| narrow::decode(narrow, bits)).collected()?
            }
            _ => self.to_integers()?.into_iter().map(|x| x as f64).collected()?,
        })
    }

    /// The elements as integers, from integers and bools.
    ///
    /// # Errors
    /// For other types.
    pub fn to_integers(&self) -> Result<Vec<i128>> {
        use ElementType as E;
        // The widest type there is stands for 128 bits.
        checked_elements(ElementType::C128, &self.shape)?;
        fn widen<T: Plain + Into<i128>>(tensor: &Tensor) -> Result<Vec<i128>> {
            tensor.values::<T>()?.iter().map(|&x| x.into()).collected()
        }
        Ok(match self.element {
            E::U8 => widen::<u8>(self)?,
            E::I8 => widen::<i8>(self)?,
            E::U16 => widen::<u16>(self)?,
            E::I16 => widen::<i16>(self)?,
            E::U32 => widen::<u32>(self)?,
            E::I32 => widen::<i32>(self)?,
            E::U64 => widen::<u64>(self)?,
            E::I64 => widen::<i64>(self)?,
            E::U4 | E::U2 => self.bytes()?.iter().map(|&x| i128::from(x)).collected()?,
            E::I4 | E::I2 => self.bytes()?.iter().map(|&x| i128::from(x as i8)).collected()?,
            E::Bool => self.bytes()?.iter().map(|&x| i128::from(x != 0)).collected()?,
            other => return Err(Error::operands(format!("integers were expected, not {other}"))),
        })
    }

    /// The elements as `i64`, from integers and bools: shapes, axes, indices.
    ///
    /// # Errors
    /// For other types, and for numbers that do not fit.
    pub fn to_i64(&self) -> Result<Vec<i64>> {
        let narrow =
            |x: i128| i64::try_from(x).map_err(|_| Error::operands(format!("{x} is too large")));
        self.to_integers()?.into_iter().map(narrow).collect()
    }

    /// The elements as bools, from `bool` and integers.
    ///
    /// # Errors
    /// For other types.
    pub fn to_bools(&self) -> Result<Vec<bool>> {
        self.to_integers()?.into_iter().map(|x| x != 0).collected()
    }

    /// The elements as pairs of real and imaginary part, from any type of numbers.
    ///
    /// # Errors
    /// For strings.
    pub fn to_complex(&self) -> Result<Vec<[f64; 2]>> {
        Ok(match self.element {
            ElementType::C64 => self
                .values::<[f32; 2]>()?
                .iter()
                .map(|&[re, im]| [f64::from(re), f64::from(im)])
                .collected()?,
            ElementType::C128 => self.values::<[f64; 2]>()?.iter().copied().collected()?,
            _ => self.to_f64()?.into_iter().map(|re| [re, 0.0]).collected()?,
        })
    }

    /// The same elements in another shape.
    ///
    /// # Errors
    /// If it holds another number of them.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Self> {
        if checked_elements(self.element, shape)? != self.elements() {
            return Err(wrong_count(shape, self.elements()));
        }
        Ok(Self { element: self.element, shape: shape.to_vec(), data: self.data.clone() })
    }
}

fn wrong_count(shape: &[usize], found: usize) -> Error {
    Error::operands(format!("the shape {shape:?} does not hold {found} elements"))
}
