//! The parameters of reductions by work-groups, and the space they make.
//!
//! Its problems are called `reduce`. Their shape is `[outputs, elements of each]`; their layout is
//! `rows` if the elements of an output are dense, otherwise `axes`, for which nothing is looked up;
//! their type is that of the input. They are sums, and what is decided for them serves all
//! reductions, which read memory alike.

use polaris_core::DType;
use polaris_runtime::opencl::OpenClDevice;
use polaris_runtime::{Capabilities, Device};
use polaris_tune::Space;
use polaris_tune::choices::fingerprint;

use super::opencl_program::PARTS;

/// How the elements of an output are shared between work-groups. `OnePass` and `Tree` give the same
/// bits for the same values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Grouping {
    /// Work-items in a work-group, a power of two.
    pub group: u16,
    /// Elements for each work-item that make another group worth its while. Segments are multiples
    /// of it, so that no group ends with a few elements, and of four, as reading in fours needs it.
    pub piece: u8,
    /// Work-groups wanted for each compute unit; 0 for as many as suit the elements' type.
    pub groups_per_unit: u8,
}

/// The fewest and the most work-items in a group: a wavefront, and the smallest limit of a GPU
/// driver.
const FEWEST_ITEMS: usize = 64;
const MOST_ITEMS: usize = 256;

impl Grouping {
    /// What is taken where nothing was tuned, as far as the device can do it ([`Self::on`]).
    pub const DEFAULT: Self = Self { group: 256, piece: 8, groups_per_unit: 0 };

    /// The same with as large a group as the device can have, and a number of groups for elements
    /// of this type.
    #[must_use]
    pub fn on(self, device: &Capabilities, dtype: DType) -> Self {
        let group = usize::from(self.group).min(power_of_two(device.max_work_group));
        // Each item has four loads under way, so a few groups keep a unit's memory busy; more would
        // only lengthen the end, when groups are counted one after another and the last one looks
        // at all of them. Narrow elements need more loads for as much.
        let groups_per_unit = match self.groups_per_unit {
            0 if dtype.size() < 4 => 6,
            0 => 4,
            wanted => wanted,
        };
        Self { group: group as u16, groups_per_unit, ..self }
    }

    /// Whether the parameters fit together and the device; if not, what does not.
    ///
    /// # Errors
    /// A description of the violated condition.
    pub fn check(&self, device: &Capabilities) -> Result<(), String> {
        let rule = |holds: bool, what: &str| if holds { Ok(()) } else { Err(what.to_owned()) };
        rule(self.group.is_power_of_two(), "group is a power of two")?;
        let (group, largest) = (usize::from(self.group), power_of_two(device.max_work_group));
        let fewest = FEWEST_ITEMS.min(largest);
        rule((fewest..=MOST_ITEMS).contains(&group), "the work-group has 64 to 256 items")?;
        rule(group <= largest, "the work-group fits the device")?;
        let in_fours = self.piece > 0 && self.piece.is_multiple_of(4);
        rule(in_fours, "piece is a multiple of four")?;
        rule(self.groups_per_unit > 0, "groups_per_unit is at least one")?;
        // A value and a place for each item, and a number for all of them.
        let local = group * 16 + 4;
        rule(local as u64 <= device.local_memory_bytes, "the results fit local memory")
    }

    /// What tells it from others in kernel names; nothing for the default.
    pub fn name(&self) -> String {
        let Self { group, piece, groups_per_unit } = self;
        match *self {
            Self::DEFAULT => String::new(),
            _ => format!("{group}x{piece}_{groups_per_unit}"),
        }
    }
}

/// The largest power of two up to a limit.
pub(super) fn power_of_two(limit: usize) -> usize {
    1 << limit.max(1).ilog2()
}

/// What is taken on a device for elements of a type where nothing was tuned.
pub fn default_grouping(device: &OpenClDevice, dtype: DType) -> Grouping {
    Grouping::DEFAULT.on(device.capabilities(), dtype)
}

/// What may be chosen on a device. The names are those of [`Grouping`]'s fields.
pub fn grouping_space(device: &OpenClDevice) -> Space {
    let capabilities = device.capabilities().clone();
    // A device with smaller groups has its largest.
    let largest = power_of_two(capabilities.max_work_group) as i64;
    let mut groups = [64, 128, 256].map(|group: i64| group.min(largest)).to_vec();
    groups.dedup();
    Space::new("reduce")
        .parameter("group", groups)
        .parameter("piece", [4, 8, 16, 32])
        .parameter("groups_per_unit", [1, 2, 4, 6, 8, 16])
        .constraint("the work-group fits the device", &["group"], move |v| {
            let named = Grouping { group: v[0] as u16, groups_per_unit: 1, ..Grouping::DEFAULT };
            named.check(&capabilities).is_ok()
        })
}

/// The parameters of a point; none if a value is missing or the device cannot do it.
pub fn grouping_of(
    device: &OpenClDevice,
    config: &dyn Fn(&str) -> Option<i64>,
) -> Option<Grouping> {
    let grouping = Grouping {
        group: u16::try_from(config("group")?).ok()?,
        piece: u8::try_from(config("piece")?).ok()?,
        groups_per_unit: u8::try_from(config("groups_per_unit")?).ok()?,
    };
    grouping.check(device.capabilities()).is_ok().then_some(grouping)
}

/// Parameters as a point.
pub fn grouping_config(grouping: &Grouping) -> Vec<(&'static str, i64)> {
    vec![
        ("group", grouping.group.into()),
        ("piece", grouping.piece.into()),
        ("groups_per_unit", grouping.groups_per_unit.into()),
    ]
}

/// The fingerprint of the kernels' source: what was measured with another one says little.
pub fn grouping_source() -> String {
    fingerprint(PARTS)
}
