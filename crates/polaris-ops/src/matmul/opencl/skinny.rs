//! The parameters of the kernel for a few vectors and a matrix, and the space they make.
//!
//! Its problems are called `gemv`. Their shape is `[vectors, lines, k]`, where the matrix has
//! `lines` lines of length k; their layout is `dots` if the matrix lies along k, otherwise
//! `columns`; their type is that of the first factor.

use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Capabilities, Device};
use polaris_tune::Space;

use super::SKINNY;

/// The skinny kernel's parameters; `skinny.cl` says what the first two do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Skinny {
    /// Work-items in a work-group.
    pub group: u16,
    /// Work-items that share a line of the matrix.
    pub lanes: u16,
    /// Work-groups wanted for each compute unit; where there are fewer, k is split.
    pub groups_per_unit: u16,
}

/// The most work-items in a group: the smallest limit of a GPU driver.
const MOST_ITEMS: u16 = 256;

impl Skinny {
    /// What is taken where nothing was tuned, as far as the device can do it ([`Self::on`]): lanes
    /// for every wavefront, and many groups, since the memory's speed is the limit.
    pub const DEFAULT: Self = Self { group: 256, lanes: 64, groups_per_unit: 16 };

    /// The same with as large a group as the device can have.
    #[must_use]
    pub fn on(self, device: &Capabilities) -> Self {
        let limit = device.max_work_group.min(usize::from(self.group)) as u16;
        Self { group: limit - limit.checked_rem(self.lanes).unwrap_or(0), ..self }
    }

    /// Whether the parameters fit together and the device; if not, what does not.
    ///
    /// # Errors
    /// A description of the violated condition.
    pub fn check(&self, device: &Capabilities) -> Result<(), String> {
        let rule = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        rule(matches!(self.lanes, 8 | 16 | 32 | 64), "lanes is 8, 16, 32 or 64")?;
        let divides = self.group > 0 && self.group.is_multiple_of(self.lanes);
        rule(divides, "lanes divides group")?;
        let group = usize::from(self.group);
        let is_small = self.group <= MOST_ITEMS && group <= device.max_work_group;
        rule(is_small, "the work-group fits the device")?;
        rule((1..=256).contains(&self.groups_per_unit), "groups_per_unit is 1 to 256")?;
        // A sum of each vector for each work-item.
        let local = group * SKINNY * size_of::<f32>();
        rule(local as u64 <= device.local_memory_bytes, "the sums fit local memory")
    }

    /// A kernel's name with these parameters: what tells it from others.
    pub(super) fn name(&self, kernel: &str, default: Self) -> String {
        let Self { group, lanes, groups_per_unit } = self;
        if *self == default {
            return kernel.to_owned();
        }
        format!("{kernel}{group}x{lanes}_{groups_per_unit}")
    }
}

/// The default on a device without tuning decisions.
pub fn default_skinny(device: &OpenClDevice) -> Skinny {
    Skinny::DEFAULT.on(device.capabilities())
}

/// What may be chosen on a device. The names are those of [`Skinny`]'s fields.
pub fn skinny_space(device: &OpenClDevice) -> Space {
    let capabilities = device.capabilities().clone();
    Space::new("gemv")
        .parameter("group", [64, 128, 256])
        .parameter("lanes", [8, 16, 32, 64])
        .parameter("groups_per_unit", [4, 8, 16, 32, 64])
        .constraint("the work-group fits the device", &["group", "lanes"], move |v| {
            let named = Skinny { group: v[0] as u16, lanes: v[1] as u16, ..Skinny::DEFAULT };
            named.check(&capabilities).is_ok()
        })
}

/// The parameters of a point; none if a value is missing or the device cannot do it.
pub fn skinny_of(device: &OpenClDevice, config: &dyn Fn(&str) -> Option<i64>) -> Option<Skinny> {
    let value = |name: &str| u16::try_from(config(name)?).ok();
    let skinny = Skinny {
        group: value("group")?,
        lanes: value("lanes")?,
        groups_per_unit: value("groups_per_unit")?,
    };
    skinny.check(device.capabilities()).is_ok().then_some(skinny)
}

/// Parameters as a point.
pub fn skinny_config(skinny: &Skinny) -> Vec<(&'static str, i64)> {
    vec![
        ("group", skinny.group.into()),
        ("lanes", skinny.lanes.into()),
        ("groups_per_unit", skinny.groups_per_unit.into()),
    ]
}
