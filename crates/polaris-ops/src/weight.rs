//! Weights: constant operands in a prepared format.
//!
//! A weight is an [`Array`] in another [`Format`] than dense. Operations take it where they take the array:
//!
//! | Format | Made by | Read by |
//! |---|---|---|
//! | [`Format::Block`] | [`encode`], [`from_blocks`] | `Copy`, `Lookup`, `MatMul`, `Convolution`, `ExpertMatMul`, `CachedAttention` on every device |
//! | [`Format::Panels`] | [`prepare`] on the CPU | the operation of their [`Role`], on that CPU |
//!
//! Blocks may also be written: a cache of keys and values in Q8_0 or Q4_0 is one that `CacheWrite` fills ([`zeros`]).
//!
//! `copy::contiguous` expands blocks, [`expand`] whatever there is.

use polaris_core::{DType, Layout, Shape};
use polaris_runtime::{DeviceExt, DeviceRef};

use crate::conv::cpu::weights as conv;
use crate::copy::Copy;
use crate::format::{Block, Format, Panels, Role};
use crate::matmul::{cpu as matmul, widens};
use crate::operation::run;
use crate::{Array, Error, Result, copy};

/// Rows of matrices on GPUs begin at multiples of this many elements, so that they can be read in vectors of
/// every type.
const ROW_MULTIPLE: usize = 16;

/// A weight of blocks on a device, from its elements in row-major order. The last axis is cut into blocks. Elements are
/// rounded to the nearest that simple scales allow ([`Block::encode_nearest`]).
///
/// # Errors
/// If the last axis is not a multiple of a block, the shape holds another number of elements, one of them is not finite
/// or too large for a scale in half precision, or there is no room.
pub fn encode(device: &DeviceRef, dims: &[usize], values: &[f32], block: Block) -> Result<Array> {
    let shape = Shape::new(dims)?;
    let rows = dims.last().copied().unwrap_or(1);
    if !rows.is_multiple_of(block.elements()) || shape.elements() != values.len() {
        let what = format!(
            "{} values of shape {shape} are not whole rows of blocks of {}",
            values.len(),
            block.elements()
        );
        return Err(Error::InvalidParameter { op: block.name(), what });
    }
    let mut bytes = vec![0; values.len() / block.elements() * block.bytes()];
    block
        .encode_nearest(values, &mut bytes)
        .map_err(|error| Error::InvalidParameter { op: block.name(), what: error.to_string() })?;
    from_blocks(device, dims, &bytes, block)
}

/// A weight of blocks on a device, as a file has them.
///
/// # Errors
/// If there are more or fewer bytes than the shape has, or there is no room.
pub fn from_blocks(
    device: &DeviceRef,
    dims: &[usize],
    bytes: &[u8],
    block: Block,
) -> Result<Array> {
    let shape = Shape::new(dims)?;
    let expected = shape.elements() / block.elements() * block.bytes();
    let rows = dims.last().copied().unwrap_or(1);
    if !rows.is_multiple_of(block.elements()) || bytes.len() != expected {
        let what = format!(
            "{} bytes are not a weight of shape {shape}, which has {expected} in rows of blocks of {}",
            bytes.len(),
            block.elements()
        );
        return Err(Error::InvalidParameter { op: block.name(), what });
    }
    let buffer = device.allocate(DType::U8, bytes.len())?;
    buffer.write_bytes(bytes)?;
    Array::of_blocks(buffer, Layout::contiguous(shape), block)
}

/// An array of blocks on a device, all elements of which are zero: a cache to be written.
///
/// # Errors
/// If the last axis is not a multiple of a block, or there is no room.
pub fn zeros(device: &DeviceRef, dims: &[usize], block: Block) -> Result<Array> {
    let shape = Shape::new(dims)?;
    let rows = dims.last().copied().unwrap_or(1);
    if !rows.is_multiple_of(block.elements()) {
        let what = format!("rows of {rows} elements are not whole blocks of {}", block.elements());
        return Err(Error::InvalidParameter { op: block.name(), what });
    }
    let buffer = device.allocate(DType::U8, shape.elements() / block.elements() * block.bytes())?;
    // A scale of zero.
    buffer.fill(0u8)?;
    Array::of_blocks(buffer, Layout::contiguous(shape), block)
}

/// The format that [`prepare`] gives a weight.
pub fn format_of(role: Role, device: &DeviceRef, dtype: DType, shape: &Shape) -> Format {
    let exists = match role {
        Role::MatMul { left } => matmul::has_panels(left, dtype, shape),
        Role::Convolution { groups } => conv::has_panels(groups, dtype, shape),
    };
    match device.as_cpu() {
        Some(_) if exists => Format::Panels(Panels { role, dtype }),
        _ => Format::Dense,
    }
}

/// A weight in its preferred form for what it is used for: panels on the CPU, rows that begin at multiples of vectors
/// on GPUs. It stays as it is where there is no such form.
///
/// # Errors
/// If the weight is in use, or there is no room.
pub fn prepare(role: Role, weight: &Array) -> Result<Array> {
    let (dtype, shape) = (weight.dtype(), *weight.shape());
    match (format_of(role, weight.device(), dtype, &shape), weight.device().as_cpu()) {
        (Format::Panels(panels), Some(cpu)) => {
            let buffer = match role {
                Role::MatMul { left } => matmul::pack_b(cpu, left, weight)?,
                Role::Convolution { groups } => conv::pack(cpu, groups, weight)?,
            };
            Ok(Array::of_panels(buffer, shape, panels))
        }
        // What is widened as it is read stays as it is stored, along k as a rule.
        _ if matches!(role, Role::MatMul { left } if !widens(left, dtype))
            && weight.is_dense()
            && shape.rank() == 2 =>
        {
            with_aligned_rows(weight)
        }
        _ => Ok(weight.clone()),
    }
}

/// A matrix whose rows begin at multiples of vectors, and not all in one memory channel.
fn with_aligned_rows(matrix: &Array) -> Result<Array> {
    let [rows, columns] = [matrix.shape()[0], matrix.shape()[1]];
    let mut stride = columns.next_multiple_of(ROW_MULTIPLE);
    if (stride * matrix.dtype().size()).is_multiple_of(crate::matmul::CHANNEL_BYTES) {
        stride += 4 * ROW_MULTIPLE;
    }
    let buffer = matrix.device().allocate(matrix.dtype(), rows * stride)?;
    let aligned = Array::new(buffer, Layout::new(*matrix.shape(), &[stride, 1], 0)?)?;
    run(&Copy, &[matrix], &aligned)?;
    Ok(aligned)
}

/// The memory of a weight, to be kept for processors with the same instructions.
///
/// # Errors
/// If the memory is in use.
pub fn to_bytes(weight: &Array) -> Result<Vec<u8>> {
    let mut bytes = vec![0; weight.buffer().bytes()];
    weight.buffer().read_bytes(&mut bytes)?;
    Ok(bytes)
}

/// A weight that was prepared before, from its bytes.
///
/// # Errors
/// If there is no such form, there are more or fewer bytes than such a weight has, or there is no room.
pub fn restore(
    role: Role,
    device: &DeviceRef,
    dtype: DType,
    shape: &Shape,
    bytes: &[u8],
) -> Result<Array> {
    let mistake = |what: String| Error::InvalidParameter { op: role.op(), what };
    let format = format_of(role, device, dtype, shape);
    let (Format::Panels(panels), Some(cpu)) = (format, device.as_cpu()) else {
        return Err(mistake(format!(
            "weights of {dtype} {shape} cannot be prepacked on {}",
            device.id()
        )));
    };
    let expected = match role {
        Role::MatMul { left } => matmul::packed_bytes(cpu, left, shape)?,
        Role::Convolution { groups } => conv::packed_bytes(cpu, groups, dtype, shape),
    };
    if expected != bytes.len() {
        let found = bytes.len();
        return Err(mistake(format!(
            "a prepacked weight has {expected} bytes, but {found} were given"
        )));
    }
    let buffer = device.allocate(DType::U8, bytes.len())?;
    buffer.write_bytes(bytes)?;
    Ok(Array::of_panels(buffer, *shape, panels))
}

/// The elements of a weight as a dense array, where it is.
///
/// # Errors
/// If the memory is in use, or there is no room.
pub fn expand(weight: &Array) -> Result<Array> {
    let (Format::Panels(panels), Some(cpu)) = (weight.format(), weight.device().as_cpu()) else {
        return copy::contiguous(weight);
    };
    let (dtype, shape) = (weight.dtype(), *weight.shape());
    let bytes = to_bytes(weight)?;
    let elements = match panels.role {
        Role::MatMul { left } => matmul::unpack_b(cpu, left, &shape, &bytes)?,
        Role::Convolution { groups } => conv::unpack(cpu, groups, dtype, &shape, &bytes),
    };
    let wide = Array::from_slice(weight.device(), shape.dims(), &elements)?;
    copy::cast(&wide, dtype)
}
