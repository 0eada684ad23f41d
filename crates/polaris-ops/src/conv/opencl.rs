//! Convolutions on OpenCL devices: the kernels and their selection.

use polaris_core::DType;
use polaris_runtime::Device;
use polaris_runtime::opencl::OpenClDevice;

use super::geometry::{Form, Geometry, Roles};
use super::opencl_launch::{launch_gathers, launch_weight};
use super::opencl_program::WORK_GROUP;
use super::product::Product;
use crate::{Array, Result, run as run_operation};

/// The kernels of convolutions and their gradients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// The kernels of matmuls, for taps of a single element.
    Product,
    /// A product of matrices in tiles, whose one factor is gathered from the images.
    Tiled,
    /// A work-item for each element of the result, or a work-group for each of the weight: where a
    /// group has few channels.
    Direct,
    /// A work-item for each element: slow, and little that a compiler could get wrong.
    Simple,
}

/// In the order in which they are tried.
pub(super) const KERNELS: &[Kernel] =
    &[Kernel::Product, Kernel::Tiled, Kernel::Direct, Kernel::Simple];

/// With so few channels of the result in a group, most of a tile would be empty.
const FEW_ROWS: usize = 8;

impl Kernel {
    /// Its part of the kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Product => "product",
            Self::Tiled => "tiled",
            Self::Direct => "direct",
            Self::Simple => "simple",
        }
    }
}

pub(super) fn supports(
    form: Form,
    geometry: &Geometry,
    kernel: Kernel,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> bool {
    let capabilities = device.capabilities();
    if !capabilities.supports(output.dtype()) || !fits_signed(geometry) {
        return false;
    }
    match kernel {
        Kernel::Product => {
            output.dtype() != DType::F64
                && Roles::new(form, inputs, output)
                    .and_then(|roles| Product::of(form, geometry, &roles))
                    .is_ok_and(|product| product.is_some())
        }
        Kernel::Tiled | Kernel::Direct | Kernel::Simple => {
            capabilities.max_work_group >= WORK_GROUP
        }
    }
}

/// Kernels compute places in images as `int`, up to a kernel's reach beyond their ends, and count
/// positions and the numbers of a sum as `uint`.
pub(super) fn fits_signed(geometry: &Geometry) -> bool {
    const MOST: usize = 1 << 30;
    let places = geometry.lengths.iter().all(|lengths| {
        let reach = lengths.dilation * (lengths.kernel - 1) + lengths.padding + lengths.stride;
        lengths.input.max(lengths.output * lengths.stride).saturating_add(reach) < MOST
    });
    let product = |first: usize, lengths: [usize; 2]| {
        lengths.iter().fold(first, |product, &length| product.saturating_mul(length))
    };
    let [input, output, kernel]: [[usize; 2]; 3] = [
        geometry.lengths.map(|lengths| lengths.input),
        geometry.lengths.map(|lengths| lengths.output),
        geometry.lengths.map(|lengths| lengths.kernel),
    ];
    let channels = geometry.inputs.max(geometry.outputs);
    places
        && product(geometry.images, input) < MOST
        && product(geometry.images, output) < MOST
        && product(channels, kernel) < MOST
}

pub(super) fn preferred(
    form: Form,
    geometry: &Geometry,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> Option<Kernel> {
    let rows = if form == Form::InputGradient { geometry.inputs } else { geometry.outputs };
    let supported = || supports(form, geometry, Kernel::Direct, device, inputs, output);
    (rows <= FEW_ROWS && supported()).then_some(Kernel::Direct)
}

pub(super) fn run(
    form: Form,
    geometry: &Geometry,
    device: &OpenClDevice,
    kernel: Kernel,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    let roles = Roles::new(form, inputs, output)?;
    if kernel == Kernel::Product
        && let Some(product) = Product::of(form, geometry, &roles)?
    {
        let inputs: Vec<&Array> = product.inputs.iter().collect();
        return run_operation(&product.op, &inputs, &product.output);
    }
    match form {
        Form::WeightGradient => launch_weight(geometry, device, kernel, &roles),
        _ => launch_gathers(form, geometry, device, kernel, &roles, None),
    }
}
