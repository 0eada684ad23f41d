//! Graphics cards on the PCI bus, found through Linux's sysfs.
//!
//! This is the view below OpenCL: a card listed here but not by OpenCL is a card
//! whose driver is missing, which is what `cure` explains.

use std::fs;
use std::path::Path;

use serde::Serialize;

use super::pci_names::PciNames;
use super::system_files::{read_number, read_text};

/// Who made a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Vendor {
    /// AMD, ATI included.
    Amd,
    /// NVIDIA.
    Nvidia,
    /// Intel.
    Intel,
    /// Anyone else, or unknown.
    Other,
}

impl Vendor {
    /// The vendor behind a PCI vendor id.
    pub fn from_pci_id(vendor_id: u16) -> Self {
        match vendor_id {
            0x1002 | 0x1022 => Self::Amd,
            0x10de => Self::Nvidia,
            0x8086 => Self::Intel,
            _ => Self::Other,
        }
    }
}

impl std::fmt::Display for Vendor {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self {
            Self::Amd => "AMD",
            Self::Nvidia => "NVIDIA",
            Self::Intel => "Intel",
            Self::Other => "unknown vendor",
        })
    }
}

/// One display controller that can compute.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PciGpu {
    /// Where it sits, such as "0000:01:00.0".
    pub address: String,
    /// PCI vendor id.
    pub vendor_id: u16,
    /// PCI device id.
    pub device_id: u16,
    /// The vendor behind the id.
    pub vendor: Vendor,
    /// A name for people; several cards may share one device id.
    pub name: String,
    /// The kernel driver bound to it, such as "amdgpu", "nouveau" or "vfio-pci".
    pub kernel_driver: Option<String>,
    /// Video memory, where the kernel driver tells (amdgpu does).
    pub vram_bytes: Option<u64>,
    /// Video memory in use, where the kernel driver tells.
    pub vram_used_bytes: Option<u64>,
}

/// Adapters of virtual machines and of servers' management chips. They show a screen
/// and cannot compute: listed, they would earn the user advice to install a driver that
/// does not exist, so they are left out. A GPU passed through to a virtual machine keeps
/// its real vendor id and is found. None of these vendors makes a GPU that can compute.
const DISPLAY_ONLY_VENDORS: [u16; 10] = [
    0x1013, // Cirrus Logic, emulated by QEMU
    0x102b, // Matrox G200 of server boards
    0x1234, // Bochs/QEMU standard VGA
    0x1414, // Microsoft Hyper-V
    0x15ad, // VMware SVGA
    0x19e5, // Huawei iBMC
    0x1a03, // ASPEED BMC
    0x1af4, // virtio-gpu
    0x1b36, // QXL
    0x80ee, // VirtualBox
];

/// Lists the GPUs in the order of their addresses; empty where there is no sysfs.
pub fn detect_pci_gpus() -> Vec<PciGpu> {
    gpus_under(Path::new("/sys/bus/pci/devices"), &mut PciNames::of_this_system())
}

fn gpus_under(devices: &Path, names: &mut PciNames) -> Vec<PciGpu> {
    let Ok(entries) = fs::read_dir(devices) else { return Vec::new() };
    let mut gpus: Vec<PciGpu> =
        entries.flatten().filter_map(|entry| read_gpu(&entry.path(), names)).collect();
    gpus.sort_by(|a, b| a.address.cmp(&b.address));
    gpus
}

fn read_gpu(device: &Path, names: &mut PciNames) -> Option<PciGpu> {
    // The class is 0xCCSSPP; base class 3 holds VGA, 3D and other display controllers,
    // and leaves out the sound and USB functions of the same card.
    if read_hex(&device.join("class"))? >> 16 != 0x03 {
        return None;
    }
    let vendor_id = u16::try_from(read_hex(&device.join("vendor"))?).ok()?;
    let device_id = u16::try_from(read_hex(&device.join("device"))?).ok()?;
    if DISPLAY_ONLY_VENDORS.contains(&vendor_id) {
        return None;
    }
    let driver = fs::read_link(device.join("driver")).ok();
    Some(PciGpu {
        address: device.file_name()?.to_string_lossy().into_owned(),
        vendor_id,
        device_id,
        vendor: Vendor::from_pci_id(vendor_id),
        name: names.name_of(vendor_id, device_id),
        kernel_driver: driver
            .and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned())),
        vram_bytes: read_number(&device.join("mem_info_vram_total")),
        vram_used_bytes: read_number(&device.join("mem_info_vram_used")),
    })
}

fn read_hex(path: &Path) -> Option<u32> {
    let text = read_text(path)?;
    let digits = text.trim().strip_prefix("0x")?;
    // `from_str_radix` alone would take a sign too.
    let all_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    all_hex.then(|| u32::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_device(root: &Path, address: &str, files: &[(&str, &str)]) {
        fs::create_dir_all(root.join(address)).unwrap();
        for (name, text) in files {
            fs::write(root.join(address).join(name), text).unwrap();
        }
    }

    fn scan(root: &Path) -> Vec<PciGpu> {
        gpus_under(root, &mut PciNames::from_files(&[]))
    }

    #[test]
    fn this_machine_is_scanned_without_trouble() {
        assert!(detect_pci_gpus().iter().all(|gpu| !gpu.name.is_empty()));
    }

    #[cfg(unix)]
    #[test]
    fn a_polaris_card_is_read_completely() {
        let root = tempfile::tempdir().unwrap();
        let card = [
            ("class", "0x030000\n"),
            ("vendor", "0x1002\n"),
            ("device", "0x67df\n"),
            ("mem_info_vram_total", "8589934592\n"),
            ("mem_info_vram_used", "268435456\n"),
        ];
        add_device(root.path(), "0000:01:00.0", &card);
        let driver = root.path().join("0000:01:00.0/driver");
        std::os::unix::fs::symlink("../../../bus/pci/drivers/amdgpu", driver).unwrap();
        // The card's sound function, and a second card in front of it without a driver.
        let sound = [("class", "0x040300"), ("vendor", "0x1002"), ("device", "0xaaf0")];
        add_device(root.path(), "0000:01:00.1", &sound);
        let second = [("class", "0x030200"), ("vendor", "0x10de"), ("device", "0xffff")];
        add_device(root.path(), "0000:00:02.0", &second);

        let gpus = scan(root.path());
        assert_eq!(gpus.len(), 2);
        let (nvidia, amd) = (&gpus[0], &gpus[1]);
        assert_eq!((nvidia.vendor, nvidia.name.as_str()), (Vendor::Nvidia, "NVIDIA GPU 10de:ffff"));
        assert_eq!((&nvidia.kernel_driver, nvidia.vram_bytes), (&None, None));
        assert_eq!((amd.address.as_str(), amd.vendor), ("0000:01:00.0", Vendor::Amd));
        assert!(amd.name.contains("RX 470/480"), "{}", amd.name);
        assert_eq!(amd.kernel_driver.as_deref(), Some("amdgpu"));
        assert_eq!((amd.vram_bytes, amd.vram_used_bytes), (Some(8 << 30), Some(256 << 20)));
    }

    #[test]
    fn adapters_that_cannot_compute_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        for (index, vendor) in DISPLAY_ONLY_VENDORS.iter().enumerate() {
            let vendor = format!("{vendor:#06x}");
            let files = [("class", "0x030000"), ("vendor", vendor.as_str()), ("device", "0x0001")];
            add_device(root.path(), &format!("0000:00:{index:02x}.0"), &files);
        }
        assert_eq!(scan(root.path()), []);
    }

    #[test]
    fn hostile_trees_yield_nothing() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(scan(&root.path().join("missing")), []);
        let hostile = ["", "0x", "030000", "0xffffffffffffffff", "\0\u{1b}[2J", "-0x3", "0x+3"];
        for (index, text) in hostile.iter().enumerate() {
            let files = [("class", *text), ("vendor", "0x1002"), ("device", "0x67df")];
            add_device(root.path(), &format!("class{index}"), &files);
            let files = [("class", "0x030000"), ("vendor", *text), ("device", "0x67df")];
            add_device(root.path(), &format!("vendor{index}"), &files);
        }
        add_device(root.path(), "only-class", &[("class", "0x030000")]);
        assert_eq!(scan(root.path()), []);
    }

    #[test]
    fn broken_memory_numbers_do_not_hide_the_card() {
        let root = tempfile::tempdir().unwrap();
        let card = [
            ("class", "0x038000"),
            ("vendor", "0x8086"),
            ("device", "0x56a0"),
            ("mem_info_vram_total", "99999999999999999999999"),
        ];
        add_device(root.path(), "0000:03:00.0", &card);
        let gpus = scan(root.path());
        assert_eq!((gpus[0].vendor, gpus[0].vram_bytes), (Vendor::Intel, None));
    }
}
