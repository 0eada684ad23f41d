//! The machine's profile: one small JSON file, changed under a lock and replaced as a whole.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use polaris_core::printable;
use polaris_files::{FileLock, read_text, write_atomic};
use serde::{Deserialize, Serialize};

use crate::{Error, Result};

/// Changes when the meaning of the file does; another version is set aside, not guessed at.
const SCHEMA: &str = "polaris.machine/1";

/// A profile has some KiB for each device.
const MAX_BYTES: u64 = 16 << 20;

/// What is known of a machine, by device and driver.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    schema: String,
    devices: BTreeMap<String, DeviceProfile>,
    /// The numbers of OpenCL devices by their identities; older files have no such list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    numbers: Option<BTreeMap<String, usize>>,
}

/// What is known of one device under one driver.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceProfile {
    /// The last check, if there was one.
    pub check: Option<CheckRecord>,
    /// Kernels that gave wrong results and are not chosen.
    #[serde(default)]
    pub quarantine: Vec<QuarantinedKernel>,
    /// The last measurement, if there was one.
    pub measured: Option<Measurement>,
}

/// How a check went.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CheckRecord {
    /// The outcome.
    pub status: CheckStatus,
    /// Whether it was the quick one.
    pub quick: bool,
    /// Kernels that were right.
    pub passed: usize,
    /// Kernels that were wrong, or did not build or run.
    pub failed: usize,
    /// The version of Polaris that checked.
    pub polaris: String,
    /// When, in seconds since 1970.
    pub unix_time: u64,
}

/// The outcome of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// Every kernel was right.
    Passed,
    /// Some kernels were wrong and are quarantined.
    Failed,
    /// Results are wrong whatever kernels are left out, or the driver does not survive its check.
    Unusable,
    /// The user stopped it.
    Cancelled,
}

/// A kernel that is not chosen on a device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuarantinedKernel {
    /// The kernel.
    pub kernel: String,
    /// What it did wrong.
    pub reason: String,
}

/// What a device reached.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Multiply-adds in FP32, two operations each.
    pub fp32_gflops: f64,
    /// Copy within the device's memory, bytes read plus bytes written.
    pub memory_gbs: f64,
    /// From the host to the device.
    pub host_to_device: LinkMeasurement,
    /// From the device to the host.
    pub device_to_host: LinkMeasurement,
    /// From asking for an empty kernel to knowing that it is done.
    pub launch_us: f64,
    /// An empty kernel in a row of many, without waiting for each; `None` in older files.
    #[serde(default)]
    pub enqueue_us: Option<f64>,
    /// Compute units, or threads, that were measured; `None` in older files.
    #[serde(default)]
    pub compute_units: Option<usize>,
    /// When, in seconds since 1970.
    pub unix_time: u64,
}

/// One direction between host and device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LinkMeasurement {
    /// Of a large transfer.
    pub gbs: f64,
    /// Of a tiny one.
    pub latency_us: f64,
}

impl Default for Profile {
    fn default() -> Self {
        Self { schema: SCHEMA.to_owned(), devices: BTreeMap::new(), numbers: Some(BTreeMap::new()) }
    }
}

impl Profile {
    /// Reads the file. A missing one is an empty profile; a damaged one or one of another version
    /// is an empty profile and a word.
    pub fn load(path: &Path) -> Self {
        match read_text(path, MAX_BYTES) {
            Ok(text) => Self::parse(&text).unwrap_or_else(|why| {
                log::warn!("ignoring {}: {why}; a new profile is started", path.display());
                Self::default()
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Self::default(),
            Err(error) => {
                log::warn!("cannot read {} ({error}); a new profile is started", path.display());
                Self::default()
            }
        }
    }

    fn parse(text: &str) -> std::result::Result<Self, String> {
        let profile: Self = serde_json::from_str(text)
            .map_err(|error| format!("it is damaged ({})", printable(&error.to_string())))?;
        if profile.schema != SCHEMA {
            return Err(format!("its version is {:?}; expected {SCHEMA:?}", profile.schema));
        }
        Ok(profile)
    }

    /// What is known of a device, under its `DeviceInfo::profile_key`.
    pub fn device(&self, key: &str) -> Option<&DeviceProfile> {
        self.devices.get(key)
    }

    /// The number that an OpenCL device has, by its identity.
    pub(crate) fn number(&self, identity: &str) -> Option<usize> {
        self.numbers.as_ref()?.get(identity).copied()
    }

    /// Whether devices were seen before their numbers were remembered: they were numbered as the loader lists them.
    pub(crate) fn is_numbered_as_listed(&self) -> bool {
        self.numbers.is_none()
    }

    /// Changes what is known of a device, in memory only.
    pub fn change(&mut self, key: &str, change: impl FnOnce(&mut DeviceProfile)) {
        change(self.devices.entry(key.to_owned()).or_default());
    }

    /// Changes what is known of a device, in the file. Other processes' changes are kept.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn update(path: &Path, key: &str, change: impl FnOnce(&mut DeviceProfile)) -> Result<Self> {
        Self::update_numbered(path, key, &BTreeMap::new(), change)
    }

    /// The same, and remembers the numbers of devices.
    pub(crate) fn update_numbered(
        path: &Path,
        key: &str,
        numbers: &BTreeMap<String, usize>,
        change: impl FnOnce(&mut DeviceProfile),
    ) -> Result<Self> {
        let io = |action, path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { action, path, source }
        };
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder).map_err(io("make the folder", folder))?;
        let lock_path: PathBuf = path.with_extension("lock");
        let _lock = FileLock::wait(&lock_path).map_err(io("lock", &lock_path))?;
        let mut profile = Self::load_or_set_aside(path);
        profile.change(key, change);
        // What another process has remembered first is kept.
        for (identity, &number) in numbers {
            profile.numbers.get_or_insert_default().entry(identity.clone()).or_insert(number);
        }
        let text = serde_json::to_string_pretty(&profile).expect("a profile should be valid JSON");
        write_atomic(path, text.as_bytes()).map_err(io("write", path))?;
        Ok(profile)
    }

    /// Before a file that cannot be read is replaced, it is kept under another name.
    fn load_or_set_aside(path: &Path) -> Self {
        let parsed = match read_text(path, MAX_BYTES) {
            Ok(text) => Self::parse(&text),
            // What is not a file is not replaced either.
            Err(error)
                if [ErrorKind::NotFound, ErrorKind::InvalidInput].contains(&error.kind()) =>
            {
                return Self::default();
            }
            Err(error) => Err(format!("{} cannot be read ({error})", path.display())),
        };
        parsed.unwrap_or_else(|why| {
            let aside = path.with_extension("json.unreadable");
            if fs::rename(path, &aside).is_ok() {
                log::warn!("{why}; it was kept as {}", aside.display());
            }
            Self::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quarantined(kernel: &str) -> QuarantinedKernel {
        QuarantinedKernel { kernel: kernel.into(), reason: "wrong".into() }
    }

    #[test]
    fn numbers_are_kept_and_older_files_have_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.json");
        let numbers = |list: &[(&str, usize)]| -> BTreeMap<String, usize> {
            list.iter().map(|&(name, number)| (name.to_owned(), number)).collect()
        };
        Profile::update_numbered(&path, "card", &numbers(&[("a", 0)]), |_| {}).unwrap();
        Profile::update_numbered(&path, "card", &numbers(&[("a", 5), ("b", 1)]), |_| {}).unwrap();
        Profile::update(&path, "card", |_| {}).unwrap();
        let profile = Profile::load(&path);
        assert_eq!(["a", "b", "c"].map(|name| profile.number(name)), [Some(0), Some(1), None]);
        assert!(!profile.is_numbered_as_listed() && !Profile::default().is_numbered_as_listed());
        let older = Profile::parse(&format!("{{\"schema\": \"{SCHEMA}\", \"devices\": {{}}}}"));
        assert!(older.unwrap().is_numbered_as_listed());
    }

    #[test]
    fn updates_are_kept_also_from_many_threads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/machine.json");
        std::thread::scope(|scope| {
            for i in 0..8 {
                let path = &path;
                scope.spawn(move || {
                    Profile::update(path, "card", |d| {
                        d.quarantine.push(quarantined(&i.to_string()))
                    })
                    .unwrap();
                });
            }
        });
        assert_eq!(Profile::load(&path).device("card").unwrap().quarantine.len(), 8);
        assert!(Profile::load(&path).device("other").is_none());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn special_and_huge_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.json");
        let change = || Profile::update(&path, "card", |d| d.quarantine.push(quarantined("k")));
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert_eq!(Profile::load(&path), Profile::default());
        let error = change().unwrap_err().to_string();
        assert!(error.contains("it is a device"), "{error}");
        fs::remove_file(&path).unwrap();
        fs::File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(Profile::load(&path), Profile::default());
        change().unwrap();
        assert_eq!(Profile::load(&path).device("card").unwrap().quarantine.len(), 1);
        assert_eq!(path.with_extension("json.unreadable").metadata().unwrap().len(), 1 << 40);
        // Nor is a lock.
        fs::remove_file(path.with_extension("lock")).unwrap();
        std::os::unix::fs::symlink("/dev/full", path.with_extension("lock")).unwrap();
        assert!(change().unwrap_err().to_string().contains("it is a device"));
    }

    #[test]
    fn a_damaged_file_is_set_aside_and_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("machine.json");
        for damaged in
            ["{\"schema\": \"polaris.mach", "", "{\"schema\":\"polaris.machine/9\",\"devices\":{}}"]
        {
            fs::write(&path, damaged).unwrap();
            assert_eq!(Profile::load(&path), Profile::default());
            Profile::update(&path, "card", |d| d.quarantine.push(quarantined("k"))).unwrap();
            assert_eq!(Profile::load(&path).device("card").unwrap().quarantine.len(), 1);
            let aside = fs::read_to_string(path.with_extension("json.unreadable")).unwrap();
            assert_eq!(aside, damaged);
        }
    }
}
