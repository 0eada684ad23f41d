//! What a file says about its tensors, and where their bytes are.

use std::fmt;
use std::ops::Range;

use bytes::Bytes;
use polaris_core::Shape;

use crate::cursor::Cursor;
use crate::error::Shown;
use crate::{Error, Result, TensorType};

/// The least bytes of a tensor info: the length of its name, one character, number of dimensions, type,
/// offset.
pub(crate) const LEAST_INFO: u64 = 8 + 1 + 4 + 4 + 8;
/// llama.cpp keeps names in 64 bytes, of which the last ends them.
const LONGEST_NAME: usize = 63;
/// The most dimensions that a tensor has.
pub(crate) const MOST_DIMS: usize = 4;

/// A tensor of a file.
#[derive(Clone)]
pub struct Tensor<'a> {
    pub(crate) info: Info<'a>,
    pub(crate) part: usize,
    pub(crate) file: &'a Bytes,
    pub(crate) range: Range<usize>,
}

impl<'a> Tensor<'a> {
    /// Its name.
    pub fn name(&self) -> &'a str {
        self.info.name
    }

    /// Its dimensions, outermost first, as in PyTorch. Files have them in reverse. A tensor of one element may have
    /// none.
    pub fn shape(&self) -> &Shape {
        &self.info.shape
    }

    /// How its elements are stored.
    pub fn ty(&self) -> TensorType {
        self.info.ty
    }

    /// Which file of a split model it is in, from 0.
    pub fn part(&self) -> usize {
        self.part
    }

    /// Where its bytes are in that file.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Its bytes. They are aligned in the file as `general.alignment` says, which may be less than their type needs.
    pub fn data(&self) -> &'a [u8] {
        &self.file[self.range()]
    }

    /// Its bytes, shared with the file.
    pub fn bytes(&self) -> Bytes {
        self.file.slice(self.range())
    }

    /// Its elements; see [`dequantize`](crate::dequantize).
    ///
    /// # Errors
    /// If there is no memory for them.
    pub fn to_f32(&self) -> Result<Vec<f32>> {
        crate::dequantize(self.ty(), self.data())
    }
}

impl fmt::Debug for Tensor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { info, part, range, file: _ } = self;
        f.debug_struct("Tensor")
            .field("info", info)
            .field("part", part)
            .field("range", range)
            .finish()
    }
}

/// A tensor info, as it is in the file.
#[derive(Debug, Clone)]
pub(crate) struct Info<'a> {
    pub name: &'a str,
    pub shape: Shape,
    pub ty: TensorType,
    /// From the beginning of the data.
    pub offset: u64,
    /// The bytes of its elements.
    pub size: usize,
}

impl<'a> Info<'a> {
    pub fn read(cursor: &mut Cursor<'a>, number: usize) -> Result<Self> {
        let start = cursor.at();
        let name = cursor.text(format_args!("the name of tensor {number}"))?;
        if let Err(why) = check_name(name) {
            return Err(Error::format(start, format!("the name of tensor {number} {why}")));
        }
        let whose = Shown(name);
        let start = cursor.at();
        let rank = cursor.u32(format_args!("the number of dimensions of `{whose}`"))? as usize;
        if rank > MOST_DIMS {
            let why = format!(
                "the tensor `{whose}` has {rank} dimensions; at most {MOST_DIMS} are accepted"
            );
            return Err(Error::format(start, why));
        }
        let start = cursor.at();
        let mut dims = [1; MOST_DIMS];
        // The innermost dimension comes first.
        for dim in dims[..rank].iter_mut().rev() {
            *dim = cursor.u64(format_args!("a dimension of `{whose}`"))?;
        }
        let found = &dims[..rank];
        let shape = shape_of(found).map_err(|why| {
            Error::format(start, format!("the tensor `{whose}` has the shape {found:?}; {why}"))
        })?;
        let start = cursor.at();
        let id = cursor.u32(format_args!("the type of `{whose}`"))?;
        let ty = TensorType::from_id(id).ok_or_else(|| Error::UnknownType {
            at: start as u64,
            tensor: whose.to_string(),
            id,
        })?;
        let size = ty.bytes_of(&shape).ok_or_else(|| {
            Error::format(start, format!("the tensor `{whose}` {}", misfit(ty, &shape)))
        })?;
        let offset = cursor.u64(format_args!("the offset of `{whose}`"))?;
        Ok(Self { name, shape, ty, offset, size })
    }

    /// The bytes of a tensor in a file whose data begins at `data`; an error if they are not there.
    pub fn range(
        &self,
        at: usize,
        data: usize,
        alignment: u32,
        file: usize,
    ) -> Result<Range<usize>> {
        let whose = Shown(self.name);
        let Self { offset, size, .. } = *self;
        if !offset.is_multiple_of(u64::from(alignment)) {
            let why = format!(
                "the tensor `{whose}` has the offset {offset}, no multiple of the alignment {alignment}"
            );
            return Err(Error::format(at, why));
        }
        let start = usize::try_from(offset).ok().and_then(|offset| data.checked_add(offset));
        match start.and_then(|start| Some(start..start.checked_add(size)?)) {
            Some(range) if range.end <= file => Ok(range),
            _ => Err(Error::format(
                at,
                format!(
                    "the tensor `{whose}` has {size} bytes at offset {offset} of the data, which begins at byte \
                     {data}; the file has {file} bytes and may be cut off"
                ),
            )),
        }
    }
}

/// The name in a tensor info that was read before; sorting needs no more of it.
pub(crate) fn name_at(bytes: &[u8], at: u64) -> &[u8] {
    Cursor::new(bytes, at as usize).string(format_args!("a name")).unwrap_or_default()
}

/// The offset in a tensor info that was read before.
pub(crate) fn offset_at(bytes: &[u8], at: u64) -> u64 {
    let offset = || {
        let mut cursor = Cursor::new(bytes, at as usize);
        cursor.string(format_args!("a name"))?;
        let rank = cursor.u32(format_args!("a rank"))?;
        cursor.take(8 * u64::from(rank) + 4, format_args!("a shape and a type"))?;
        cursor.u64(format_args!("an offset"))
    };
    offset().unwrap_or_default()
}

/// What is wrong with a tensor's name, if anything.
pub(crate) fn check_name(name: &str) -> std::result::Result<(), String> {
    match name.len() {
        0 => Err("is empty".into()),
        1..=LONGEST_NAME => Ok(()),
        length => Err(format!("has {length} bytes; at most {LONGEST_NAME} are accepted")),
    }
}

/// The shape of these dimensions, outermost first, or what is wrong with them.
fn shape_of(dims: &[u64]) -> std::result::Result<Shape, &'static str> {
    if dims.contains(&0) {
        return Err("every dimension must be at least 1");
    }
    let too_large = "it has more elements than memory can hold";
    let mut converted = [1; MOST_DIMS];
    for (to, &from) in converted.iter_mut().zip(dims) {
        *to = usize::try_from(from).map_err(|_| too_large)?;
    }
    Shape::new(&converted[..dims.len()]).map_err(|_| too_large)
}

/// Why a type cannot have tensors of a shape.
pub(crate) fn misfit(ty: TensorType, shape: &[usize]) -> String {
    let row = shape.last().copied().unwrap_or(1);
    match row.is_multiple_of(ty.block_elements()) {
        true => format!("of type {ty} has the shape {shape:?}; its size in bytes overflows"),
        false => format!(
            "of type {ty} has rows of {row} elements; they must be a multiple of {}",
            ty.block_elements()
        ),
    }
}
