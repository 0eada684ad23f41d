//! Main memory, as much of it as this process may use.

use std::path::{Component, Path};

use serde::Serialize;
use sysinfo::{MemoryRefreshKind, System};

use super::system_files::{read_number, read_text};

/// Main memory in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Ram {
    /// Physical memory, or the cgroup's limit where that is lower; 0 where unknown.
    pub total_bytes: u64,
    /// What can be allocated now without swapping or being killed.
    pub available_bytes: u64,
}

/// Reads the memory sizes; on Linux a lower limit of this process's cgroup wins.
pub fn detect_ram() -> Ram {
    let membership = read_text(Path::new("/proc/self/cgroup")).unwrap_or_default();
    limit_by_cgroup(physical_ram(), &membership, Path::new("/sys/fs/cgroup"))
}

/// Zero where the system does not tell.
fn physical_ram() -> Ram {
    let Ok(mut system) = System::new() else {
        return Ram { total_bytes: 0, available_bytes: 0 };
    };
    system.refresh_memory_specifics(MemoryRefreshKind::nothing().with_ram());
    Ram { total_bytes: system.total_memory(), available_bytes: system.available_memory() }
}

/// The files of one cgroup version.
struct Controller {
    limit: &'static str,
    usage: &'static str,
    /// Row of `memory.stat` with the page cache that the kernel drops under pressure.
    reclaimable: &'static str,
}

const VERSION_2: Controller =
    Controller { limit: "memory.max", usage: "memory.current", reclaimable: "inactive_file" };
const VERSION_1: Controller = Controller {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};

/// `membership` is the text of `/proc/self/cgroup`: lines `hierarchy:controllers:path`.
fn limit_by_cgroup(physical: Ram, membership: &str, mount: &Path) -> Ram {
    let mut ram = physical;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        if controllers.is_empty() {
            ram = limit_along(ram, mount, path, &VERSION_2);
        } else if controllers.split(',').any(|name| name == "memory") {
            ram = limit_along(ram, &mount.join("memory"), path, &VERSION_1);
        }
    }
    ram
}

/// Every ancestor's limit binds as well. Inside a container the path may be the host's
/// and not exist; the mount's own root then is the container's group.
fn limit_along(mut ram: Ram, mount: &Path, path: &str, files: &Controller) -> Ram {
    let mut group = mount.to_path_buf();
    ram = limit_at(ram, &group, files);
    for part in Path::new(path).components() {
        // A group outside this process's cgroup namespace is shown as "/../..".
        if let Component::Normal(name) = part {
            group.push(name);
            ram = limit_at(ram, &group, files);
        }
    }
    ram
}

fn limit_at(ram: Ram, group: &Path, files: &Controller) -> Ram {
    // "max" (version 2) is not a number; version 1 writes a huge one. A limit of 0 is not a limit a running process
    // can have.
    let Some(limit) = read_number(&group.join(files.limit)).filter(|limit| *limit > 0) else {
        return ram;
    };
    let usage = read_number(&group.join(files.usage)).unwrap_or(0);
    let reclaimable = reclaimable_bytes(&group.join("memory.stat"), files.reclaimable);
    let free = limit.saturating_sub(usage.saturating_sub(reclaimable));
    Ram { total_bytes: ram.total_bytes.min(limit), available_bytes: ram.available_bytes.min(free) }
}

fn reclaimable_bytes(stat: &Path, row: &str) -> u64 {
    let text = read_text(stat).unwrap_or_default();
    let mut rows = text.lines().filter_map(|line| line.split_once(' '));
    rows.find(|(name, _)| *name == row)
        .and_then(|(_, value)| value.trim().parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PHYSICAL: Ram = Ram { total_bytes: 1000, available_bytes: 800 };

    fn write(folder: &Path, files: &[(&str, &str)]) {
        fs::create_dir_all(folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    #[test]
    fn this_machine_has_memory() {
        let ram = detect_ram();
        assert!(ram.total_bytes > 0 && ram.available_bytes <= ram.total_bytes);
    }

    #[test]
    fn version_2_limits_of_all_ancestors_bind() {
        let mount = tempfile::tempdir().unwrap();
        let usage = ("memory.current", "250\n");
        let stat = ("memory.stat", "anon 1\ninactive_file 50\n");
        write(&mount.path().join("a"), &[("memory.max", "500\n"), usage, stat]);
        write(&mount.path().join("a/b"), &[("memory.max", "max\n"), usage]);
        let ram = limit_by_cgroup(PHYSICAL, "0::/a/b\n", mount.path());
        assert_eq!(ram, Ram { total_bytes: 500, available_bytes: 300 });
    }

    #[test]
    fn version_1_is_found_at_the_root_of_a_container() {
        let mount = tempfile::tempdir().unwrap();
        let files = [("memory.limit_in_bytes", "600"), ("memory.usage_in_bytes", "900")];
        write(&mount.path().join("memory"), &files);
        let ram = limit_by_cgroup(PHYSICAL, "4:cpu,memory:/docker/abc\n0::/\n", mount.path());
        assert_eq!(ram, Ram { total_bytes: 600, available_bytes: 0 });
    }

    #[test]
    fn unlimited_missing_and_hostile_limits_change_nothing() {
        let mount = tempfile::tempdir().unwrap();
        for limit in
            ["9223372036854771712", "max", "", "0", "-5", "\0\u{1}", "99999999999999999999"]
        {
            write(mount.path(), &[("memory.max", limit), ("memory.current", "garbage")]);
            assert_eq!(limit_by_cgroup(PHYSICAL, "0::/", mount.path()), PHYSICAL, "{limit:?}");
        }
        for membership in ["", ":::", "\0", "0::/../../etc", "memory", "1:memory"] {
            assert_eq!(limit_by_cgroup(PHYSICAL, membership, mount.path()), PHYSICAL);
        }
    }
}
