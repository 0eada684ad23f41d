//! The parameters of transpositions through local memory, and the space they make.
//!
//! Its problems are called `permute`. The input is dense along the height, the output along the
//! width; all other axes together are the outer one. Their shape is `[outer, width, height]`, their
//! layout `t`, their type that of the elements.

use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Capabilities, Device};
use polaris_tune::Space;
use polaris_tune::choices::fingerprint;

use super::opencl::PARTS;

/// The tiles of a transposition; `copy.cl` says what they do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Tiling {
    /// Side of a tile, and work-items in a row of its group.
    pub tile: u8,
    /// Rows of work-items in its group.
    pub rows: u8,
}

/// Bytes of the largest elements.
const LARGEST_ELEMENT: usize = 8;

impl Tiling {
    /// What is taken where nothing was tuned, as far as the device can do it ([`Self::on`]): 256
    /// work-items, and 8.3 KiB of local memory for the largest elements.
    pub const DEFAULT: Self = Self { tile: 32, rows: 8 };

    /// The same with as many rows as the device can have.
    #[must_use]
    pub fn on(self, device: &Capabilities) -> Self {
        let most = device.max_work_group / usize::from(self.tile).max(1);
        let rows = match most.min(usize::from(self.rows)) {
            0 => 0,
            rows => 1 << rows.ilog2(),
        };
        Self { rows, ..self }
    }

    /// Whether the parameters fit together and the device, whatever the elements' type; if not,
    /// what does not.
    ///
    /// # Errors
    /// A description of the violated condition.
    pub fn check(&self, device: &Capabilities) -> Result<(), String> {
        self.check_for(device, LARGEST_ELEMENT)
    }

    /// The same for elements of a size.
    pub(super) fn check_for(
        &self,
        device: &Capabilities,
        element_bytes: usize,
    ) -> Result<(), String> {
        let rule = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        let [tile, rows] = [self.tile, self.rows].map(usize::from);
        rule(matches!(tile, 16 | 32 | 64), "tile is 16, 32 or 64")?;
        rule(rows > 0 && tile.is_multiple_of(rows), "rows divides tile")?;
        rule(tile * rows <= device.max_work_group, "the work-group fits the device")?;
        let local = tile * (tile + 1) * element_bytes;
        rule(local as u64 <= device.local_memory_bytes, "the tile fits local memory")
    }

    /// What tells it from others in kernel names; nothing for the default.
    pub fn name(&self) -> String {
        match *self {
            Self::DEFAULT => String::new(),
            Self { tile, rows } => format!("{tile}x{rows}"),
        }
    }
}

/// The default on a device without tuning decisions.
pub fn default_tiling(device: &OpenClDevice) -> Tiling {
    Tiling::DEFAULT.on(device.capabilities())
}

/// What may be chosen on a device. The names are those of [`Tiling`]'s fields.
pub fn tiling_space(device: &OpenClDevice) -> Space {
    let capabilities = device.capabilities().clone();
    Space::new("permute")
        .parameter("tile", [16, 32, 64])
        .parameter("rows", [4, 8, 16, 32])
        .constraint("the tile fits the device", &["tile", "rows"], move |v| {
            Tiling { tile: v[0] as u8, rows: v[1] as u8 }.check(&capabilities).is_ok()
        })
}

/// The parameters of a point; none if a value is missing or the device cannot do it.
pub fn tiling_of(device: &OpenClDevice, config: &dyn Fn(&str) -> Option<i64>) -> Option<Tiling> {
    let value = |name: &str| u8::try_from(config(name)?).ok();
    let tiling = Tiling { tile: value("tile")?, rows: value("rows")? };
    tiling.check(device.capabilities()).is_ok().then_some(tiling)
}

/// Parameters as a point.
pub fn tiling_config(tiling: &Tiling) -> Vec<(&'static str, i64)> {
    vec![("tile", tiling.tile.into()), ("rows", tiling.rows.into())]
}

/// The fingerprint of the kernel's source: what was measured with another one says little.
pub fn tiling_source() -> String {
    fingerprint(PARTS)
}
