//! B packed once for many products.

use polaris_core::DType;
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::{Buffer, DeviceExt, DeviceRef, HostOperands};

use super::finish::Sum;
use super::panels::{Arithmetic, Negate, PanelJob, PanelLayout, pack_panels};
use super::product::Plane;
use super::{Computation, compute, with_arithmetic};
use crate::cpu::map::SendPointer;
use crate::matmul::problem::MatMul;
use crate::{Array, Error, Result};

/// The panels of a whole B, in the form that one type of A takes on this processor.
#[derive(Debug)]
pub struct PackedB {
    /// The panels, and after them what sums begin with.
    pub(super) buffer: Buffer,
    pub(super) layout: PanelLayout,
    pub(super) correction_offset: usize,
    left: DType,
    right: DType,
    k: usize,
}

impl PackedB {
    /// The size of the panels.
    pub fn bytes(&self) -> usize {
        self.buffer.bytes()
    }

    /// The panels as they lie in memory.
    ///
    /// # Errors
    /// If they are in use.
    pub fn read_bytes(&self, target: &mut [u8]) -> Result<()> {
        Ok(self.buffer.read_bytes(target)?)
    }

    /// Takes panels that lay in memory before.
    ///
    /// # Errors
    /// If they are in use.
    pub fn write_bytes(&self, bytes: &[u8]) -> Result<()> {
        Ok(self.buffer.write_bytes(bytes)?)
    }
}

/// Room for a matrix B of a type, with whatever is in it.
///
/// # Errors
/// If there is no room.
pub fn unpacked_b(
    cpu: &CpuDevice,
    device: &DeviceRef,
    dtype: DType,
    [k, n]: [usize; 2],
) -> Result<PackedB> {
    with_arithmetic(cpu.simd(), dtype, Room { device, dtype, k, n })
}

/// What room is needed for.
struct Room<'a> {
    device: &'a DeviceRef,
    dtype: DType,
    k: usize,
    n: usize,
}

impl Computation for Room<'_> {
    type Result = PackedB;

    fn run<P, S>(self, arithmetic: &Arithmetic<P, S>) -> Result<PackedB>
    where
        P: Copy + Send + Sync,
        S: Sum + Negate,
    {
        let steps = self.k.div_ceil(arithmetic.group);
        let layout = PanelLayout::new(arithmetic.kernels, self.n, steps);
        let correction_offset = (layout.elements() * size_of::<P>()).next_multiple_of(64);
        let corrections = if arithmetic.excess.is_some() { self.n * size_of::<S>() } else { 0 };
        let buffer = self.device.allocate(DType::U8, correction_offset + corrections)?;
        let (left, right, k) = (self.dtype, self.dtype, self.k);
        Ok(PackedB { buffer, layout, correction_offset, left, right, k })
    }
}

/// Packs a matrix B for products with an A of a type.
///
/// # Errors
/// If B is not a matrix, is in use, or there is no room.
pub fn pack_b(cpu: &CpuDevice, left: DType, b: &Array) -> Result<PackedB> {
    let (&[k, n], &[row_stride, column_stride]) = (b.shape().dims(), b.layout().strides()) else {
        let what = format!("{} is no matrix, and only matrices can be packed", b.shape());
        return Err(Error::InvalidParameter { op: "matmul", what });
    };
    with_arithmetic(cpu.simd(), left, Pack { cpu, b, left, k, n, row_stride, column_stride })
}

/// What packing needs to know.
struct Pack<'a> {
    cpu: &'a CpuDevice,
    b: &'a Array,
    left: DType,
    k: usize,
    n: usize,
    row_stride: usize,
    column_stride: usize,
}

impl Computation for Pack<'_> {
    type Result = PackedB;

    fn run<P, S>(self, arithmetic: &Arithmetic<P, S>) -> Result<PackedB>
    where
        P: Copy + Send + Sync,
        S: Sum + Negate,
    {
        let room = Room { device: self.b.device(), dtype: self.left, k: self.k, n: self.n };
        let PackedB { buffer, layout, correction_offset, .. } = room.run(arithmetic)?;
        let inputs = [self.b.buffer()];
        let operands = HostOperands::new("matmul", &inputs, &buffer)?;
        let start = Plane {
            start: SendPointer(operands.input(0).cast_mut()),
            dtype: self.b.dtype(),
            row_stride: self.row_stride,
            column_stride: self.column_stride,
        };
        let target = operands.output();
        let job = PanelJob {
            matrix: start.moved(self.b.layout().offset()),
            depth: self.k,
            layout,
            target: SendPointer(target),
            corrections: SendPointer(target.wrapping_add(correction_offset)),
        };
        // SAFETY: both are registered, and the new buffer is ours alone.
        unsafe { pack_panels(arithmetic, self.cpu.simd(), Some(self.cpu.pool()), &job) };
        drop(operands);
        let (left, right, k) = (self.left, self.b.dtype(), self.k);
        Ok(PackedB { buffer, layout, correction_offset, left, right, k })
    }
}

/// As `run`, with a B that was packed. `inputs` are the same; of B only the shape is looked at.
///
/// # Errors
/// As for `run`, and if another B was packed.
pub fn run_packed(
    op: &MatMul,
    cpu: &CpuDevice,
    inputs: &[&Array],
    packed: &PackedB,
    output: &Array,
) -> Result<()> {
    let parts = op.parts(inputs)?;
    let fits = parts.b.shape().dims() == [packed.k, packed.layout.columns]
        && (parts.a.dtype(), parts.b.dtype()) == (packed.left, packed.right);
    if !fits {
        let what = "the packed matrix has another shape or type than B".to_owned();
        return Err(Error::InvalidParameter { op: "matmul", what });
    }
    compute(cpu.simd(), op, cpu, inputs, output, Some(packed))
}
