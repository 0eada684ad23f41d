//! Prepacked B, for many matmuls.

use polaris_core::{DType, Shape};
use polaris_runtime::cpu::CpuDevice;
use polaris_runtime::{Buffer, DeviceExt, DeviceRef, HostOperands};

use super::finish::Sum;
use super::panels::{Arithmetic, Negate, PanelJob, PanelLayout, pack_panels};
use super::product::Plane;
use super::{Computation, with_arithmetic};
use crate::cpu::int8::{Instructions, WeightRows, floats};
use crate::cpu::map::SendPointer;
use crate::format::{Blocks, Format, Panels, Role};
use crate::matmul::problem::{allows, widens};
use crate::{Array, Error, Result};

/// Where everything lies in the memory of a packed B: the panels, and after them the initial accumulators.
#[derive(Debug, Clone, Copy)]
pub(super) struct PackedLayout {
    pub panels: PanelLayout,
    pub correction_offset: usize,
    bytes: usize,
    /// Stored elements along k in a packed one.
    group: usize,
}

/// Whether there are panels of a matrix of a type for products with a type on the left.
pub fn has_panels(left: DType, right: DType, shape: &Shape) -> bool {
    let results = [DType::F32, DType::F64, DType::I32];
    // Panels hold what is computed with: they would be twice as large as weights in half precision.
    shape.rank() == 2 && !widens(left, right) && results.iter().any(|&out| allows(left, right, out))
}

/// Bytes of a packed matrix.
///
/// # Errors
/// If the shape is not a matrix.
pub fn packed_bytes(cpu: &CpuDevice, left: DType, shape: &Shape) -> Result<usize> {
    Ok(layout(cpu, left, matrix(shape)?)?.bytes)
}

/// How an array in panels lies in its memory, if it was packed for products with such an A.
pub(super) fn layout_of(cpu: &CpuDevice, left: DType, b: &Array) -> Result<Option<PackedLayout>> {
    match b.format() {
        Format::Panels(panels) if panels.role == (Role::MatMul { left }) => {
            layout(cpu, left, matrix(b.shape())?).map(Some)
        }
        Format::Panels(_) => Err(Error::UnsupportedFormat { op: "matmul", format: b.format() }),
        _ => Ok(None),
    }
}

fn matrix(shape: &Shape) -> Result<[usize; 2]> {
    match shape.dims() {
        &[k, n] => Ok([k, n]),
        _ => {
            let what = format!("{shape} is not a matrix; only matrices can be prepacked");
            Err(Error::InvalidParameter { op: "matmul", what })
        }
    }
}

fn layout(cpu: &CpuDevice, left: DType, [k, n]: [usize; 2]) -> Result<PackedLayout> {
    with_arithmetic(cpu.simd(), [left; 2], Measure { k, n })
}

/// Finds the layout of a packed matrix.
struct Measure {
    k: usize,
    n: usize,
}

impl Computation for Measure {
    type Result = PackedLayout;

    fn run<P, S>(self, arithmetic: &Arithmetic<P, S>) -> Result<PackedLayout>
    where
        P: Copy + Send + Sync,
        S: Sum + Negate,
    {
        let group = arithmetic.group;
        let panels = PanelLayout::new(arithmetic.kernels, self.n, self.k.div_ceil(group));
        let correction_offset = (panels.elements() * size_of::<P>()).next_multiple_of(64);
        let corrections = if arithmetic.excess.is_some() { self.n * size_of::<S>() } else { 0 };
        let bytes = correction_offset + corrections;
        Ok(PackedLayout { panels, correction_offset, bytes, group })
    }
}

/// Packs a matrix B for products with an A of a type.
///
/// # Errors
/// If B is not a matrix, is in use, or there is no room.
pub fn pack_b(cpu: &CpuDevice, left: DType, b: &Array) -> Result<Buffer> {
    let [k, n] = matrix(b.shape())?;
    let layout = layout(cpu, left, [k, n])?;
    with_arithmetic(cpu.simd(), [left; 2], Pack { cpu, device: b.device(), b, k, layout })
}

/// What packing needs to know.
struct Pack<'a> {
    cpu: &'a CpuDevice,
    device: &'a DeviceRef,
    b: &'a Array,
    k: usize,
    layout: PackedLayout,
}

impl Computation for Pack<'_> {
    type Result = Buffer;

    fn run<P, S>(self, arithmetic: &Arithmetic<P, S>) -> Result<Buffer>
    where
        P: Copy + Send + Sync,
        S: Sum + Negate,
    {
        let buffer = self.device.allocate(DType::U8, self.layout.bytes)?;
        let inputs = [self.b.buffer()];
        let operands = HostOperands::new("matmul", &inputs, &buffer)?;
        let strides = self.b.layout().strides();
        let start = Plane {
            start: SendPointer(operands.input(0).cast_mut()),
            dtype: self.b.dtype(),
            row_stride: strides[0],
            column_stride: strides[1],
        };
        let target = operands.output();
        let job = PanelJob {
            matrix: start.moved(self.b.layout().offset()),
            depth: self.k,
            layout: self.layout.panels,
            target: SendPointer(target),
            corrections: SendPointer(target.wrapping_add(self.layout.correction_offset)),
        };
        // SAFETY: both are registered, and the new buffer is ours alone.
        unsafe { pack_panels(arithmetic, self.cpu.simd(), Some(self.cpu.pool()), &job) };
        drop(operands);
        Ok(buffer)
    }
}

/// Decodes a matrix B, whose columns are rows of whole blocks, into panels for products in `f32`.
///
/// # Errors
/// If B is not a matrix, is in use, or there is no room.
pub(super) fn pack_blocks<B: Blocks>(cpu: &CpuDevice, b: &Array) -> Result<Array> {
    let [k, n] = matrix(b.shape())?;
    let PackedLayout { panels, bytes, .. } = layout(cpu, DType::F32, [k, n])?;
    let buffer = b.device().allocate(DType::U8, bytes)?;
    let inputs = [b.buffer()];
    let operands = HostOperands::new("matmul", &inputs, &buffer)?;
    let bytes_of = |elements: usize| elements / B::ELEMENTS * B::BYTES;
    let stride = bytes_of(b.layout().strides()[1]);
    let blocks = operands.input(0).wrapping_add(bytes_of(b.layout().offset()));
    let (blocks, target) = (SendPointer(blocks.cast_mut()), SendPointer(operands.output()));
    let pack = floats::kernels::<B>(Instructions::of(cpu.simd())).pack;
    cpu.pool().run(panels.panels(), |panel| {
        let start = blocks.get().wrapping_add(panel * panels.panel * stride).cast_const();
        let rows = WeightRows { start, stride, count: panels.columns_of(panel) };
        let to = target.get().cast::<f32>().wrapping_add(panels.start_of(panel));
        // SAFETY: both are registered, the rows lie inside B, and the panel is this task's alone.
        unsafe { pack(rows, k, to, panels.width_of(panel)) };
    });
    drop(operands);
    let role = Role::MatMul { left: DType::F32 };
    Ok(Array::of_panels(buffer, *b.shape(), Panels { role, dtype: DType::F32 }))
}

/// The elements of a packed matrix in row-major order.
///
/// # Errors
/// If the shape is not a matrix.
pub fn unpack_b(cpu: &CpuDevice, left: DType, shape: &Shape, bytes: &[u8]) -> Result<Vec<f64>> {
    let [k, n] = matrix(shape)?;
    let PackedLayout { panels, group, .. } = layout(cpu, left, [k, n])?;
    let element = |row: usize, column: usize| -> f64 {
        let panel = column / panels.panel;
        let place =
            panels.start_of(panel) + row / group * panels.width_of(panel) + column % panels.panel;
        let packed = |size: usize| &bytes[place * size..(place + 1) * size];
        match (left, group) {
            (DType::F64, _) => f64::from_ne_bytes(packed(8).try_into().expect("8 bytes")),
            (_, 1) => f32::from_ne_bytes(packed(4).try_into().expect("4 bytes")).into(),
            (_, 2) => {
                let pair = u32::from_ne_bytes(packed(4).try_into().expect("4 bytes"));
                f64::from((pair >> (row % 2 * 16)) as u16 as i16)
            }
            _ => f64::from(packed(4)[row % 4] as i8),
        }
    };
    Ok((0..k * n).map(|at| element(at / n, at % n)).collect())
}
