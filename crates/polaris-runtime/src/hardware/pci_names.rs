//! Names for PCI ids: our own table for the cards this engine cares about, then the
//! `pci.ids` file that most distributions install, then the bare ids.

use std::path::PathBuf;

use super::pci::Vendor;
use super::system_files::{printable, read_text};

/// Polaris completely, since these are the cards the engine is for, and the usual
/// neighbours. One id often serves a whole series; the name then lists it.
#[rustfmt::skip]
const AMD_NAMES: &[(u16, &str)] = &[
    (0x67c0, "Radeon Pro WX 7100 Mobile (Polaris 10)"),
    (0x67c2, "Radeon Pro V7300X / V7350x2 (Polaris 10)"),
    (0x67c4, "Radeon Pro WX 7100 (Polaris 10)"),
    (0x67c7, "Radeon Pro WX 5100 (Polaris 10)"),
    (0x67ca, "Radeon (Polaris 10)"),
    (0x67cc, "Radeon (Polaris 10)"),
    (0x67cf, "Radeon (Polaris 10)"),
    (0x67d0, "Radeon Pro V7300X / V7350x2 (Polaris 10)"),
    (0x67d4, "Radeon Pro WX 7100 (Polaris 10)"),
    (0x67d7, "Radeon Pro WX 5100 (Polaris 10)"),
    (0x67df, "Radeon RX 470/480/570/580/590 (Polaris 10)"),
    (0x6fdf, "Radeon RX 580 2048SP (Polaris 20)"),
    (0x67e0, "Radeon Pro WX 4170 (Polaris 11)"),
    (0x67e1, "Radeon (Polaris 11)"),
    (0x67e3, "Radeon Pro WX 4100 (Polaris 11)"),
    (0x67e8, "Radeon Pro WX 4130/4150 (Polaris 11)"),
    (0x67e9, "Radeon (Polaris 11)"),
    (0x67eb, "Radeon Pro V5300X (Polaris 11)"),
    (0x67ef, "Radeon RX 460/560D / Pro 450-560X (Polaris 11)"),
    (0x67ff, "Radeon RX 550 640SP/560/560X (Polaris 11)"),
    (0x6980, "Radeon (Polaris 12)"),
    (0x6981, "Radeon Pro WX 3200 (Polaris 12)"),
    (0x6985, "Radeon Pro WX 3100 (Polaris 12)"),
    (0x6986, "Radeon (Polaris 12)"),
    (0x6987, "Radeon 540X/550X/630 / RX 640 (Polaris 12)"),
    (0x698f, "Radeon Pro WX 3100 (Polaris 12)"),
    (0x6995, "Radeon Pro WX 2100 (Polaris 12)"),
    (0x699f, "Radeon 540/550 / RX 540X/550/550X (Polaris 12)"),
    (0x694c, "Radeon RX Vega M GH (Polaris 22)"),
    (0x694e, "Radeon RX Vega M GL (Polaris 22)"),
    (0x67b0, "Radeon R9 290X/390X (Hawaii)"),
    (0x67b1, "Radeon R9 290/390 (Hawaii)"),
    (0x6938, "Radeon R9 380X (Tonga)"),
    (0x6939, "Radeon R9 285/380 (Tonga)"),
    (0x7300, "Radeon R9 Fury/Nano (Fiji)"),
    (0x687f, "Radeon RX Vega 56/64 (Vega 10)"),
    (0x6863, "Radeon Vega Frontier Edition (Vega 10)"),
    (0x66af, "Radeon VII (Vega 20)"),
    (0x66a1, "Radeon Pro VII / Instinct MI50 (Vega 20)"),
    (0x731f, "Radeon RX 5600/5700 series (Navi 10)"),
    (0x7340, "Radeon RX 5500 series (Navi 14)"),
    (0x73bf, "Radeon RX 6800/6900 series (Navi 21)"),
    (0x73df, "Radeon RX 6700 series (Navi 22)"),
    (0x73ff, "Radeon RX 6600 series (Navi 23)"),
    (0x743f, "Radeon RX 6400/6500 series (Navi 24)"),
    (0x744c, "Radeon RX 7900 series (Navi 31)"),
];

/// Looks names up. The file is read once, and only when our own table does not help.
pub(super) struct PciNames {
    files: Vec<PathBuf>,
    text: Option<String>,
}

impl PciNames {
    pub(super) fn of_this_system() -> Self {
        Self::from_files(&["/usr/share/hwdata/pci.ids", "/usr/share/misc/pci.ids"])
    }

    /// The first of `files` that can be read is used.
    pub(super) fn from_files(files: &[&str]) -> Self {
        Self { files: files.iter().map(PathBuf::from).collect(), text: None }
    }

    pub(super) fn name_of(&mut self, vendor_id: u16, device_id: u16) -> String {
        let vendor = Vendor::from_pci_id(vendor_id);
        let known = AMD_NAMES.iter().find(|(id, _)| vendor_id == 0x1002 && *id == device_id);
        if let Some((_, name)) = known {
            return format!("AMD {name}");
        }
        let ids = self.text.get_or_insert_with(|| {
            self.files.iter().find_map(|file| read_text(file)).unwrap_or_default()
        });
        match (find_in_ids(ids, vendor_id, device_id), vendor) {
            (Some(name), Vendor::Other) => name,
            (Some(name), _) => format!("{vendor} {name}"),
            (None, Vendor::Other) => format!("GPU {vendor_id:04x}:{device_id:04x}"),
            (None, _) => format!("{vendor} GPU {vendor_id:04x}:{device_id:04x}"),
        }
    }
}

/// `pci.ids` lists vendors at the line's start and their devices after one tab.
fn find_in_ids(ids: &str, vendor_id: u16, device_id: u16) -> Option<String> {
    let vendor = format!("{vendor_id:04x}  ");
    let device = format!("\t{device_id:04x}  ");
    let name = ids
        .lines()
        .skip_while(|line| !line.starts_with(&vendor))
        .skip(1)
        .take_while(|line| line.starts_with('\t') || line.starts_with('#') || line.is_empty())
        .find_map(|line| line.strip_prefix(&device))?;
    Some(printable(name)).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const IDS: &str = "# comment\n1002  Advanced Micro Devices, Inc.\n\t15dd  Raven Ridge\n\
        \t\t1002 15dd  Board\n\n# gap\n\t9999  \n10de  NVIDIA Corporation\n\t1c03  GP106 [GTX 1060]\n";

    fn names_from(bytes: &[u8]) -> (tempfile::NamedTempFile, PciNames) {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let names = PciNames::from_files(&["/nonexistent", file.path().to_str().unwrap()]);
        (file, names)
    }

    #[test]
    fn own_table_then_file_then_bare_ids() {
        let (_file, mut names) = names_from(IDS.as_bytes());
        assert_eq!(names.name_of(0x1002, 0x6fdf), "AMD Radeon RX 580 2048SP (Polaris 20)");
        assert_eq!(names.name_of(0x1002, 0x15dd), "AMD Raven Ridge");
        assert_eq!(names.name_of(0x10de, 0x1c03), "NVIDIA GP106 [GTX 1060]");
        assert_eq!(names.name_of(0x1002, 0x1c03), "AMD GPU 1002:1c03");
        assert_eq!(names.name_of(0x1002, 0x9999), "AMD GPU 1002:9999");
        assert_eq!(names.name_of(0x10de, 0x67df), "NVIDIA GPU 10de:67df");
        assert_eq!(names.name_of(0xabcd, 0x0001), "GPU abcd:0001");
    }

    #[test]
    fn hostile_files_do_not_matter() {
        for bytes in [&b""[..], b"\xff\xfe\0\0", b"1002  ", b"1002  A\n\t0001  \x1b\xff"] {
            let (_file, mut names) = names_from(bytes);
            assert_eq!(names.name_of(0x1002, 0x0001), "AMD GPU 1002:0001", "{bytes:?}");
        }
    }

    #[test]
    fn the_table_names_each_id_once() {
        let mut ids: Vec<u16> = AMD_NAMES.iter().map(|(id, _)| *id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), AMD_NAMES.len());
    }
}
