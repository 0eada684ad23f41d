//! Types and layouts of arrays, as plans have them.

use polaris_core::{DType, Layout, Shape};
use polaris_onnx::{ElementType, Type};

/// Whether the channels of dense images are adjacent in memory, and nothing else is. Images are
/// `[N, C, ...]`.
pub(crate) fn has_adjacent_channels(layout: &Layout) -> bool {
    let shape = layout.shape();
    let expected = || with_adjacent_channels(shape);
    (3..=4).contains(&shape.rank())
        && layout.offset() == 0
        && !layout.is_contiguous()
        && layout.strides() == expected().strides()
}

/// Dense NHWC images.
pub(crate) fn with_adjacent_channels(shape: &Shape) -> Layout {
    let rank = shape.rank();
    let mut order: Vec<usize> = shape.to_vec();
    let channels = order.remove(1);
    order.push(channels);
    let in_memory = Shape::new(&order).expect("a shape in another order should be one");
    let back: Vec<usize> = [0, rank - 1].into_iter().chain(1..rank - 1).collect();
    Layout::contiguous(in_memory).permute(&back).expect("all axes should be there once")
}

/// The type of an array's elements, if devices have it.
pub(crate) fn dtype_of(element: ElementType) -> Option<DType> {
    Some(match element {
        ElementType::F32 => DType::F32,
        ElementType::F64 => DType::F64,
        ElementType::F16 => DType::F16,
        ElementType::BF16 => DType::BF16,
        ElementType::I8 => DType::I8,
        ElementType::U8 => DType::U8,
        ElementType::I32 => DType::I32,
        ElementType::I64 => DType::I64,
        ElementType::Bool => DType::Bool,
        _ => return None,
    })
}

/// The type of a tensor's elements.
pub(crate) fn element_of(dtype: DType) -> ElementType {
    match dtype {
        DType::F32 => ElementType::F32,
        DType::F64 => ElementType::F64,
        DType::F16 => ElementType::F16,
        DType::BF16 => ElementType::BF16,
        DType::I8 => ElementType::I8,
        DType::U8 => ElementType::U8,
        DType::I32 => ElementType::I32,
        DType::I64 => ElementType::I64,
        DType::Bool => ElementType::Bool,
    }
}

/// The type and shape of an array for a tensor, if devices have them.
pub(crate) fn array_type(ty: &Type) -> Option<(DType, Shape)> {
    let (element, dims) = ty.known_tensor()?;
    let elements = dims.iter().try_fold(1usize, |product, &length| product.checked_mul(length))?;
    let bytes = elements.checked_mul(element.size())? as u64;
    let fits = bytes <= polaris_onnx::largest_tensor();
    Some((dtype_of(element)?, Shape::new(&dims).ok().filter(|_| fits)?))
}
