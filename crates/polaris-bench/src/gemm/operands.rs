//! The arrays of a case: random numbers on the host, and the same on the device.

use polaris_core::{DType, Element, Shape, bf16, f16};
use polaris_ops::{Array, Distribution, fill, random};
use polaris_runtime::HostRef;
use polaris_runtime::{DeviceExt, DeviceRef};

use super::cases::{Case, Dims};
use crate::Result;

/// The operands as they are stored, on the host, and everything on the device.
pub struct Operands {
    host: [Array; 2],
    /// A as the product sees it, maybe a transposed view.
    pub a: Array,
    /// B, likewise.
    pub b: Array,
    /// The result.
    pub out: Array,
    /// What only some variants need.
    pub extra: Option<Extra>,
    /// One value for each column: in the type that a fused bias has, and in the result's own.
    pub bias: Option<[Array; 2]>,
}

/// Operands of variants that are more than a kernel.
pub struct Extra {
    /// A and B in half precision on the device.
    pub halves: [Array; 2],
    /// A and B on the host, as the product sees them.
    pub host: [Array; 2],
    /// A result on the host.
    pub host_out: Array,
}

impl Extra {
    /// A and B on the host.
    pub fn host_inputs(&self) -> [&Array; 2] {
        [&self.host[0], &self.host[1]]
    }
}

impl Operands {
    /// Makes random operands and brings them to the device.
    ///
    /// # Errors
    /// If there is no room for them, or if a device fails.
    pub fn new(case: &Case, device: &DeviceRef, host: &DeviceRef, with_bias: bool) -> Result<Self> {
        let Dims { m, n, k } = case.dims;
        let stored = |rows: usize, columns: usize, transposed: bool| {
            if transposed { [columns, rows] } else { [rows, columns] }
        };
        let on_host = [
            random_values(host, case.numbers.dtype(), &stored(m, k, case.transpose.a()), 1)?,
            random_values(host, case.numbers.dtype(), &stored(k, n, case.transpose.b()), 2)?,
        ];
        let view = |array: &Array, transposed: bool| -> Result<Array> {
            let array = on_device(array, device)?;
            Ok(if transposed { array.permute(&[1, 0])? } else { array })
        };
        let bias = with_bias
            .then(|| -> Result<[Array; 2]> {
                let sums = if case.numbers.dtype() == DType::F64 { DType::F64 } else { DType::F32 };
                let fused = on_device(&random_values(host, sums, &[n], 3)?, device)?;
                let own = polaris_ops::copy::cast(&fused, case.numbers.output())?;
                Ok([fused, own])
            })
            .transpose()?;
        Ok(Self {
            a: view(&on_host[0], case.transpose.a())?,
            b: view(&on_host[1], case.transpose.b())?,
            out: Array::empty(device, case.numbers.output(), Shape::new(&[m, n])?)?,
            bias,
            extra: None,
            host: on_host,
        })
    }

    /// With what variants need that are more than a kernel.
    ///
    /// # Errors
    /// If there is no room for it, or if a device fails.
    pub fn with_extra(mut self, case: &Case, host: &DeviceRef) -> Result<Self> {
        let half = |array: &Array| polaris_ops::copy::cast(array, DType::F16);
        let view = |array: &Array, transposed: bool| -> Result<Array> {
            Ok(if transposed { array.permute(&[1, 0])? } else { array.clone() })
        };
        self.extra = Some(Extra {
            halves: [half(&self.a)?, half(&self.b)?],
            host: [
                view(&self.host[0], case.transpose.a())?,
                view(&self.host[1], case.transpose.b())?,
            ],
            host_out: Array::empty(host, self.out.dtype(), *self.out.shape())?,
        });
        Ok(self)
    }

    /// The operands on the host, to be read.
    ///
    /// # Errors
    /// If someone writes to them.
    pub fn host(&self) -> Result<[HostView<'_>; 2]> {
        Ok([HostView::new(&self.host[0])?, HostView::new(&self.host[1])?])
    }
}

/// Random values of a type: numbers from -1 up to 1, or all integers.
fn random_values(host: &DeviceRef, dtype: DType, dims: &[usize], seed: u64) -> Result<Array> {
    let distribution = match dtype.is_float() {
        true => Distribution::Uniform { low: -1.0, high: 1.0 },
        false => Distribution::Bits,
    };
    Ok(random::random(host, dtype, Shape::new(dims)?, distribution, seed)?)
}

fn on_device(array: &Array, device: &DeviceRef) -> Result<Array> {
    if array.device().id() == device.id() {
        return Ok(array.clone());
    }
    let buffer = device.allocate(array.dtype(), array.elements())?;
    array.buffer().copy_to(&buffer)?;
    Ok(Array::new(buffer, *array.layout())?)
}

/// Elements of an array on the host.
pub enum HostView<'a> {
    /// Of `f32`.
    F32(HostRef<'a, f32>),
    /// Of `f64`.
    F64(HostRef<'a, f64>),
    /// Of `f16`.
    F16(HostRef<'a, f16>),
    /// Of `bf16`.
    Bf16(HostRef<'a, bf16>),
    /// Of `i8`.
    I8(HostRef<'a, i8>),
}

impl<'a> HostView<'a> {
    fn new(array: &'a Array) -> Result<Self> {
        let buffer = array.buffer();
        Ok(match array.dtype() {
            DType::F64 => Self::F64(buffer.host_slice()?),
            DType::F16 => Self::F16(buffer.host_slice()?),
            DType::BF16 => Self::Bf16(buffer.host_slice()?),
            DType::I8 => Self::I8(buffer.host_slice()?),
            _ => Self::F32(buffer.host_slice()?),
        })
    }

    /// Their bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::F32(values) => bytemuck::cast_slice(values),
            Self::F64(values) => bytemuck::cast_slice(values),
            Self::F16(values) => bytemuck::cast_slice(values),
            Self::Bf16(values) => bytemuck::cast_slice(values),
            Self::I8(values) => bytemuck::cast_slice(values),
        }
    }
}

/// The bytes of a dense array, copied from its device.
///
/// # Errors
/// If the device fails.
pub fn bytes_of(array: &Array) -> Result<Vec<u8>> {
    fn bytes<T: Element>(array: &Array) -> Result<Vec<u8>> {
        // Copied once more, since memory of numbers cannot become memory of bytes.
        Ok(bytemuck::cast_slice(&array.to_vec::<T>()?).to_vec())
    }
    match array.dtype() {
        DType::F64 => bytes::<f64>(array),
        DType::F16 => bytes::<f16>(array),
        DType::BF16 => bytes::<bf16>(array),
        DType::I32 => bytes::<i32>(array),
        _ => bytes::<f32>(array),
    }
}

/// Fills the result with what no product gives, so that a kernel that does nothing is seen.
///
/// # Errors
/// If the device fails.
pub fn spoil(out: &Array) -> Result<()> {
    Ok(fill::into(out, if out.dtype().is_float() { f64::NAN } else { 1e9 })?)
}

/// One element of bytes that hold numbers of a type.
pub fn element(dtype: DType, bytes: &[u8], index: usize) -> f64 {
    let at = &bytes[index * dtype.size()..][..dtype.size()];
    match dtype {
        DType::F64 => bytemuck::pod_read_unaligned(at),
        DType::F16 => bytemuck::pod_read_unaligned::<f16>(at).to_f64(),
        DType::BF16 => bytemuck::pod_read_unaligned::<bf16>(at).to_f64(),
        DType::I8 => bytemuck::pod_read_unaligned::<i8>(at).to_f64(),
        DType::I32 => bytemuck::pod_read_unaligned::<i32>(at).to_f64(),
        _ => bytemuck::pod_read_unaligned::<f32>(at).to_f64(),
    }
}
