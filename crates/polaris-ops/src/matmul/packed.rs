//! A constant operand made ready once and used many times: the weights of a model.

use polaris_core::{DType, Layout, Shape};
use polaris_runtime::{DeviceExt, DeviceRef};

use super::cpu::{PackedB, pack_b, run_packed, unpacked_b};
use super::opencl::CHANNEL_BYTES;
use super::problem::{MatMul, allows};
use crate::copy::Copy;
use crate::operation::run;
use crate::{Array, Error, Result};

/// Rows on a GPU begin at multiples of this many elements, so that they can be read in vectors of
/// every type.
const ROW_MULTIPLE: usize = 16;

/// A matrix B in the form that products on its device like best.
#[derive(Debug)]
pub struct PackedMatrix {
    /// B itself on OpenCL devices; on the CPU only its shape.
    b: Array,
    panels: Option<PackedB>,
}

impl PackedMatrix {
    /// Packs a matrix for products with an A of type `left`.
    ///
    /// # Errors
    /// If B is no matrix, cannot be multiplied with that type, or there is no room.
    pub fn new(left: DType, b: &Array) -> Result<Self> {
        let mistake = |what: String| Error::InvalidParameter { op: "matmul", what };
        if b.shape().rank() != 2 {
            let what = format!("{} is no matrix, and only matrices can be packed", b.shape());
            return Err(mistake(what));
        }
        if ![DType::F32, DType::F64, DType::I32].iter().any(|&out| allows(left, b.dtype(), out)) {
            return Err(mistake(format!("{left} times {} is not defined", b.dtype())));
        }
        if let Some(cpu) = b.device().as_cpu() {
            let panels = pack_b(cpu, left, b)?;
            let one = Array::empty(b.device(), b.dtype(), Shape::new(&[1, 1])?)?;
            return Ok(Self { b: one.broadcast_to(b.shape())?, panels: Some(panels) });
        }
        let [k, n] = [b.shape()[0], b.shape()[1]];
        let mut stride = n.next_multiple_of(ROW_MULTIPLE);
        if (stride * b.dtype().size()).is_multiple_of(CHANNEL_BYTES) {
            stride += 4 * ROW_MULTIPLE;
        }
        let buffer = b.device().allocate(b.dtype(), k * stride)?;
        let packed = Array::new(buffer, Layout::new(*b.shape(), &[stride, 1], 0)?)?;
        run(&Copy, &[b], &packed)?;
        Ok(Self { b: packed, panels: None })
    }

    /// The panels as they lie in memory, to be kept for processors with the same instructions; `None`
    /// where B is kept as it is.
    ///
    /// # Errors
    /// If the memory is in use.
    pub fn to_bytes(&self) -> Result<Option<Vec<u8>>> {
        let Some(panels) = &self.panels else { return Ok(None) };
        let mut bytes = vec![0; panels.bytes()];
        panels.read_bytes(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// A matrix of this type and shape on the CPU, from the bytes of its panels.
    ///
    /// # Errors
    /// If there are more or fewer bytes than such a matrix has, or there is no room.
    pub fn from_bytes(
        device: &DeviceRef,
        dtype: DType,
        shape: &Shape,
        bytes: &[u8],
    ) -> Result<Self> {
        let mistake = |what: &str| Error::InvalidParameter { op: "matmul", what: what.to_owned() };
        let cpu = device.as_cpu().ok_or_else(|| mistake("only the CPU has packed panels"))?;
        if shape.rank() != 2 {
            return Err(mistake("only matrices can be packed"));
        }
        let one = Array::empty(device, dtype, Shape::new(&[1, 1])?)?;
        let panels = unpacked_b(cpu, device, dtype, [shape[0], shape[1]])?;
        if panels.bytes() != bytes.len() {
            return Err(mistake("the packed matrix has another size"));
        }
        panels.write_bytes(bytes)?;
        Ok(Self { b: one.broadcast_to(shape)?, panels: Some(panels) })
    }

    /// The shape of B.
    pub fn shape(&self) -> &Shape {
        self.b.shape()
    }
}

impl MatMul {
    /// Computes with a packed B. `inputs` are those of [`MatMul::run`] without B.
    ///
    /// # Errors
    /// As for [`MatMul::run`], and if B was packed for another type of A.
    pub fn run_packed(
        &self,
        inputs: &[&Array],
        packed: &PackedMatrix,
        output: &Array,
    ) -> Result<()> {
        let mut all = inputs.to_vec();
        all.insert(1.min(inputs.len()), &packed.b);
        match (&packed.panels, output.device().as_cpu()) {
            (Some(panels), Some(cpu)) => run_packed(self, cpu, &all, panels, output),
            _ => run(self, &all, output),
        }
    }
}
