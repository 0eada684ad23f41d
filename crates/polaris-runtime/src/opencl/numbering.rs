//! Device numbers: GPUs come first, and a stored number stays with its device.
//!
//! Loaders list drivers in an order of their own, and a driver that runs on the processor is often the first. A
//! script with `opencl:0` means a device, not a position in that list.

use std::collections::BTreeSet;

use crate::device::DeviceKind;

/// A device that a loader lists.
#[derive(Debug, Clone)]
pub struct Listed {
    /// Tells it from others on this machine, whatever its driver's version.
    pub identity: String,
    /// What it is.
    pub kind: DeviceKind,
}

/// GPUs before everything else, processors last.
pub fn rank(kind: DeviceKind) -> u8 {
    match kind {
        DeviceKind::Gpu => 0,
        DeviceKind::Accelerator => 1,
        DeviceKind::Cpu => 2,
    }
}

/// The number of each device, in the order of the list. Those of `remembered` identities are kept; others get the
/// smallest that are free, GPUs first, unless `as_listed` says that numbers were once given in the loader's order.
/// Devices of one identity are told apart by their order.
pub fn number(
    devices: &[Listed],
    remembered: impl Fn(&str) -> Option<usize>,
    as_listed: bool,
) -> Vec<usize> {
    let names = names(devices);
    let mut numbers: Vec<Option<usize>> = names.iter().map(|name| remembered(name)).collect();
    let mut taken: BTreeSet<usize> = BTreeSet::new();
    for number in &mut numbers {
        // A file may be wrong: no two devices have one number.
        if number.is_some_and(|number| !taken.insert(number)) {
            *number = None;
        }
    }
    let mut order: Vec<usize> = (0..devices.len()).collect();
    if !as_listed {
        order.sort_by_key(|&at| rank(devices[at].kind));
    }
    for at in order {
        if numbers[at].is_none() {
            let free = (0..).find(|number| !taken.contains(number)).unwrap_or(devices.len());
            taken.insert(free);
            numbers[at] = Some(free);
        }
    }
    numbers.into_iter().flatten().collect()
}

/// The identities, the second and further ones of equal devices with a count.
pub fn names(devices: &[Listed]) -> Vec<String> {
    let name = |(at, device): (usize, &Listed)| {
        let before = devices[..at].iter().filter(|other| other.identity == device.identity).count();
        match before {
            0 => device.identity.clone(),
            count => format!("{} #{}", device.identity, count + 1),
        }
    };
    devices.iter().enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(devices: &[(&str, DeviceKind)]) -> Vec<Listed> {
        let one =
            |&(identity, kind): &(&str, DeviceKind)| Listed { identity: identity.into(), kind };
        devices.iter().map(one).collect()
    }

    fn remembered(numbers: &'static [(&str, usize)]) -> impl Fn(&str) -> Option<usize> {
        |name| numbers.iter().find(|(known, _)| *known == name).map(|&(_, number)| number)
    }

    #[test]
    fn gpus_come_first_and_numbers_stay() {
        let (cpu, gpu) = (DeviceKind::Cpu, DeviceKind::Gpu);
        let both = listed(&[("pocl", cpu), ("radeon", gpu)]);
        assert_eq!(number(&both, |_: &str| None, false), [1, 0]);
        assert_eq!(number(&both, |_: &str| None, true), [0, 1]);
        // The processor was there alone before the card was.
        assert_eq!(number(&both, remembered(&[("pocl", 0)]), false), [0, 1]);
        // A card that is not installed keeps its number for when it is back.
        let new = listed(&[("pocl", cpu), ("arc", gpu)]);
        assert_eq!(number(&new, remembered(&[("radeon", 0), ("pocl", 1)]), false), [1, 0]);
        let twins = listed(&[("pocl", cpu), ("radeon", gpu), ("radeon", gpu)]);
        assert_eq!(names(&twins), ["pocl", "radeon", "radeon #2"]);
        assert_eq!(number(&twins, |_: &str| None, false), [2, 0, 1]);
        assert_eq!(number(&twins, remembered(&[("radeon #2", 0)]), false), [2, 1, 0]);
        // A file that gives a number twice.
        let wrong = remembered(&[("pocl", 0), ("radeon", 0)]);
        assert_eq!(number(&both, wrong, false), [0, 1]);
    }
}
