//! Matmul on OpenCL devices: the kernels and their selection.

mod blocks;
mod choose;
mod factors;
mod features;
mod launch;
mod operands;
mod program;
mod skinny;
mod tensor;
mod tile;
mod tuning;
mod variants;

use polaris_runtime::Device;
use polaris_runtime::opencl::OpenClDevice;

use super::geometry::Geometry;
use super::problem::{MatMul, Precision, widens};
use crate::{Array, Result};
use polaris_core::DType;

use blocks::BLOCKS;

pub use features::{TILE_FEATURES, tile_features};
pub(crate) use program::activation_expression;
pub use program::{skinny_source, tile_program, tile_source};
pub use skinny::{Skinny, default_skinny, skinny_config, skinny_of, skinny_space};
pub use tensor::Tensor;
pub use tile::{MultiplyAdd, Tile, TileCopy};
pub use tuning::{TileTarget, config_of, tile_of, tile_space};
pub(super) use variants::KERNELS;
pub use variants::{Technique, VARIANTS, Variant};

pub(super) use choose::preferred;
pub use choose::{default_tile, tile_splits, usual_tiles};
pub(crate) use operands::CHANNEL_BYTES;
pub(crate) use variants::shipped_programs;

/// The kernels of products.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Tensor cores by inline PTX.
    Tensor(Tensor),
    /// Tiles in local memory.
    Tiled(Tile),
    /// Up to eight vectors with a matrix.
    Skinny(Skinny),
    /// A few vectors with a matrix in blocks.
    Blocks(Skinny),
    /// One work-item an element: slow, and little that a compiler could get wrong.
    Simple,
}

/// Vectors that the skinny kernel takes at once.
const SKINNY: usize = 8;

impl Kernel {
    /// Whether a device can run it at all with factors of this type.
    pub fn fits(self, device: &OpenClDevice, dtype: DType) -> bool {
        let capabilities = device.capabilities();
        match self {
            Self::Tensor(tensor) => tensor.check(capabilities, dtype).is_ok(),
            Self::Tiled(tile) => choose::fits(&tile, capabilities, dtype),
            Self::Skinny(skinny) => skinny.on(capabilities).check(capabilities).is_ok(),
            Self::Blocks(skinny) => {
                dtype == DType::F32 && skinny.on(capabilities).check(capabilities).is_ok()
            }
            Self::Simple => true,
        }
    }

    /// Its part of the kernel's name.
    pub fn name(self) -> String {
        match self {
            Self::Tensor(tensor) => tensor.name(),
            Self::Tiled(tile) => tile.name(),
            Self::Skinny(skinny) => skinny.name("skinny", Skinny::DEFAULT),
            Self::Blocks(skinny) => skinny.name("blocks", BLOCKS),
            Self::Simple => "simple".to_owned(),
        }
    }
}

/// Whether elements of the second factor become those of the first as they are read.
fn converts(a: &Array, b: &Array) -> bool {
    !b.is_dense() || widens(a.dtype(), b.dtype())
}

/// Whether there are kernels for a product at all.
fn has_kernels(geometry: &Geometry, dtype: DType) -> bool {
    // Counters in the kernels are of 32 bits, with room for a tile beyond the end.
    let sizes = [geometry.m, geometry.n, geometry.k];
    dtype != DType::F64 && sizes.iter().all(|&size| size <= i32::MAX as usize)
}

pub(super) fn supports(
    op: &MatMul,
    kernel: Kernel,
    device: &OpenClDevice,
    inputs: &[&Array],
    output: &Array,
) -> bool {
    let Ok(geometry) = op.parts(inputs).and_then(|parts| Geometry::new(op, &parts, output)) else {
        return false;
    };
    let dtype = inputs[0].dtype();
    if !has_kernels(&geometry, dtype) {
        return false;
    }
    let converts = converts(inputs[0], inputs[1]);
    kernel.fits(device, dtype)
        && match kernel {
            // What copies memory as it is converts nothing.
            Kernel::Tensor(_) if converts => false,
            Kernel::Tiled(tile) if converts => {
                choose::converting_tiles(device.into()).any(|rated| rated.tile == tile)
            }
            Kernel::Tensor(_) => op.precision == Precision::Tf32 || dtype != DType::F32,
            // Small tiles that only have a name to be measured by are for f32.
            Kernel::Tiled(tile) => {
                let is_named = tile.m <= 32 && tile.vector <= 4;
                is_named && dtype == DType::F32
                    || choose::tiles(device.into()).iter().any(|rated| rated.tile == tile)
            }
            Kernel::Skinny(_) => geometry.m.min(geometry.n) <= SKINNY,
            Kernel::Blocks(_) => blocks::takes(&geometry, inputs[0], inputs[1]),
            Kernel::Simple => true,
        }
}

pub(super) fn run(
    op: &MatMul,
    device: &OpenClDevice,
    kernel: Kernel,
    inputs: &[&Array],
    output: &Array,
) -> Result<()> {
    launch::run(op, device, kernel, inputs, output)
}
