//! One name per chip, whatever the driver calls it.
//!
//! The tuning database is keyed by chip, and drivers disagree: ROCm says "gfx803",
//! AMDGPU-PRO "Ellesmere", Mesa "AMD Radeon RX 580 Series (radeonsi, polaris10, ...)".

use serde::Serialize;

use super::chip_table::{AMD_CHIPS, AmdChip};
use super::pci::Vendor;

/// A chip under its one name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Chip {
    /// The name, of `[a-z0-9-]` only and never empty: it serves as a file name too.
    pub key: String,
    /// The compiler's target ("gfx803"), else the vendor ("nvidia", "intel", "amd"),
    /// "cpu" for a processor seen through OpenCL, or "unknown".
    pub architecture: String,
    /// Who made it.
    pub vendor: Vendor,
}

/// A key becomes part of file names; names from a driver can have any length.
const MAX_KEY_CHARS: usize = 80;

/// Renderers that run on the processor under a name of their own.
const SOFTWARE_RENDERERS: [&str; 4] = ["llvmpipe", "lavapipe", "softpipe", "swiftshader"];

/// What PoCL puts in front of the processor's name, by version and driver.
const POCL_PREFIXES: [&str; 4] = ["pthread-", "cpu-minimal-", "cpu-", "basic-"];

/// Words that give a vendor away, in any of the names.
const VENDOR_WORDS: [(Vendor, &[&str]); 3] = [
    (Vendor::Nvidia, &["nvidia", "geforce", "quadro", "tesla", "nouveau"]),
    (Vendor::Amd, &["amd", "ati", "advanced", "authenticamd", "radeon", "firepro", "instinct"]),
    (Vendor::Intel, &["intel", "genuineintel"]),
];

/// Finds the chip behind the names that OpenCL gives: the device's name, its vendor's
/// and, where the driver has one (`CL_DEVICE_BOARD_NAME_AMD`), the board's.
pub fn normalise_chip(device_name: &str, vendor_name: &str, board_name: Option<&str>) -> Chip {
    let board_name = board_name.unwrap_or_default();
    let device = words(device_name);
    let board = words(board_name);
    if let Some(chip) = software_chip(device_name, &device, &words(vendor_name)) {
        return chip;
    }
    let vendor = [&words(vendor_name), &device, &board]
        .into_iter()
        .find_map(|words| vendor_in(words))
        .unwrap_or(Vendor::Other);
    match vendor {
        Vendor::Nvidia => {
            named_chip("nvidia", Vendor::Nvidia, &[device_name, board_name, vendor_name])
        }
        Vendor::Intel => {
            named_chip("intel", Vendor::Intel, &[device_name, board_name, vendor_name])
        }
        // A code name or compiler target identifies an AMD chip under any vendor's name.
        Vendor::Amd | Vendor::Other => match amd_chip(&device, &board) {
            Some(chip) => chip,
            None if vendor == Vendor::Amd => {
                named_chip("amd", vendor, &[device_name, board_name, vendor_name])
            }
            None => unknown_chip(&[device_name, board_name, vendor_name]),
        },
    }
}

fn software_chip(device_name: &str, device: &[String], vendor: &[String]) -> Option<Chip> {
    let cpu = |key, vendor| Chip { key, architecture: "cpu".to_owned(), vendor };
    let renderer = SOFTWARE_RENDERERS.iter().find(|name| device.iter().any(|word| word == *name));
    if let Some(name) = renderer {
        return Some(cpu((*name).to_owned(), Vendor::Other));
    }
    let lower = device_name.trim().to_lowercase();
    let from_pocl = POCL_PREFIXES.iter().find_map(|prefix| lower.strip_prefix(prefix));
    // Intel's and AMD's own CPU runtimes give the processor's plain name. A GPU inside a
    // processor calls itself graphics.
    let has = |name: &str| device.iter().any(|word| word == name);
    let is_processor = ["cpu", "processor", "xeon", "epyc"].into_iter().any(has)
        && !["graphics", "radeon", "gpu"].into_iter().any(has);
    let name = match from_pocl {
        Some(name) => name,
        None if is_processor => &lower,
        None => return None,
    };
    let maker = vendor_in(device).or_else(|| vendor_in(vendor)).unwrap_or(Vendor::Other);
    Some(cpu(prefixed_slug("cpu", name), maker))
}

/// The key comes from the most telling name, the architecture from an explicit target:
/// with an overridden target the chip stays what it is but code is compiled for another.
fn amd_chip(device: &[String], board: &[String]) -> Option<Chip> {
    let target = [device, board].into_iter().flatten().find(|word| is_amd_target(word));
    let found = find_amd(device, |chip| chip.code_names)
        .or_else(|| find_amd(board, |chip| chip.code_names))
        .or_else(|| find_amd(board, |chip| chip.cards))
        .or_else(|| find_amd(device, |chip| chip.cards));
    let (key, architecture) = match (found, target) {
        (Some(chip), Some(target)) => (chip.key, target.as_str()),
        (Some(chip), None) => (chip.key, chip.architecture),
        (None, Some(target)) => (only_chip_for(target).unwrap_or(target), target.as_str()),
        (None, None) => return None,
    };
    Some(Chip { key: key.to_owned(), architecture: architecture.to_owned(), vendor: Vendor::Amd })
}

/// The chip with the longest matching name, so that "rx vega m" wins over "rx vega".
fn find_amd(
    words: &[String],
    names: fn(&AmdChip) -> &'static [&'static str],
) -> Option<&'static AmdChip> {
    AMD_CHIPS
        .iter()
        .flat_map(|chip| names(chip).iter().map(move |name| (name.len(), *name, chip)))
        .filter(|(_, name, _)| contains_name(words, name))
        .max_by_key(|(length, _, _)| *length)
        .map(|(_, _, chip)| chip)
}

fn contains_name(words: &[String], name: &str) -> bool {
    let parts: Vec<&str> = name.split(' ').collect();
    words
        .windows(parts.len())
        .any(|window| window.iter().zip(&parts).all(|(word, part)| word == part))
        || words
            .iter()
            .any(|word| word.len() + parts.len() == name.len() + 1 && *word == parts.concat())
}

/// "gfx" and three to five hexadecimal digits, as in "gfx803", "gfx90a", "gfx1030".
fn is_amd_target(word: &str) -> bool {
    word.strip_prefix("gfx").is_some_and(|digits| {
        (3..=5).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

/// A bare target names the chip only where a single chip has it (gfx803 has several).
fn only_chip_for(target: &str) -> Option<&'static str> {
    let mut chips = AMD_CHIPS.iter().filter(|chip| chip.architecture == target);
    chips.next().filter(|_| chips.next().is_none()).map(|chip| chip.key)
}

/// A chip without a table: its key is the driver's own name behind the vendor's, which
/// some driver versions leave out.
fn named_chip(vendor_key: &str, vendor: Vendor, names: &[&str]) -> Chip {
    let name = names.iter().find(|name| !slug(&bare_name(name)).is_empty());
    Chip {
        key: prefixed_slug(vendor_key, &bare_name(name.copied().unwrap_or_default())),
        architecture: vendor_key.to_owned(),
        vendor,
    }
}

fn unknown_chip(names: &[&str]) -> Chip {
    let key = names.iter().map(|name| slug(&bare_name(name))).find(|key| !key.is_empty());
    let unknown = || "unknown".to_owned();
    Chip { key: key.unwrap_or_else(unknown), architecture: unknown(), vendor: Vendor::Other }
}

fn vendor_in(words: &[String]) -> Option<Vendor> {
    let matches = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    VENDOR_WORDS.iter().find(|(_, known)| matches(known)).map(|(vendor, _)| *vendor)
}

/// Lower-case words of letters and digits, without trade marks.
fn words(text: &str) -> Vec<String> {
    let lower = without_trade_marks(text);
    lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_owned)
        .collect()
}

fn without_trade_marks(text: &str) -> String {
    text.to_lowercase().replace("(r)", " ").replace("(tm)", " ").replace("(c)", " ")
}

/// The name without what Mesa and Intel append to it: driver, compiler, kernel, PCI id.
fn bare_name(name: &str) -> String {
    let lower = without_trade_marks(name);
    let end = lower.find(['(', '[']).unwrap_or(lower.len());
    let bare = lower[..end].trim();
    bare.strip_prefix("mesa ").unwrap_or(bare).to_owned()
}

fn prefixed_slug(prefix: &str, name: &str) -> String {
    let name = slug(name);
    if name.is_empty() || name == prefix {
        return prefix.to_owned();
    }
    let already = name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('-'));
    if already { name } else { shortened(format!("{prefix}-{name}")) }
}

fn slug(text: &str) -> String {
    shortened(words(text).join("-"))
}

fn shortened(mut key: String) -> String {
    // Keys are ASCII by now, so any index is a character's boundary.
    key.truncate(MAX_KEY_CHARS);
    key.truncate(key.trim_end_matches('-').len());
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Device, vendor and board as a driver names them, then the expected chip.
    type Case =
        (&'static str, &'static str, Option<&'static str>, &'static str, &'static str, Vendor);

    #[rustfmt::skip]
    const CASES: &[Case] = &[
        // Polaris under all its names.
        ("Ellesmere", "Advanced Micro Devices, Inc.", None, "polaris10", "gfx803", Vendor::Amd),
        ("gfx803", "Advanced Micro Devices, Inc.", Some("Radeon RX 590 Series"), "polaris10", "gfx803", Vendor::Amd),
        ("gfx803", "", Some("Ellesmere [Radeon RX 470/480/570/570X/580/580X/590]"), "polaris10", "gfx803", Vendor::Amd),
        ("AMD Radeon RX 580 Series (radeonsi, polaris10, ACO, DRM 3.54, 6.8.0)", "AMD", None, "polaris10", "gfx803", Vendor::Amd),
        ("Radeon RX 580 Series (POLARIS10, DRM 3.42.0, 5.15, LLVM 12)", "AMD", None, "polaris10", "gfx803", Vendor::Amd),
        ("AMD POLARIS10 (DRM 3.9.0, LLVM 3.9)", "X.Org", None, "polaris10", "gfx803", Vendor::Amd),
        ("Polaris 20 XL", "AMD", None, "polaris10", "gfx803", Vendor::Amd),
        ("Radeon RX580", "AMD", None, "polaris10", "gfx803", Vendor::Amd),
        ("Radeon (TM) Pro WX 7100 Graphics", "AMD", None, "polaris10", "gfx803", Vendor::Amd),
        ("Baffin", "Advanced Micro Devices, Inc.", None, "polaris11", "gfx803", Vendor::Amd),
        ("AMD Radeon RX 560 Series (radeonsi, polaris11, LLVM 15)", "AMD", None, "polaris11", "gfx803", Vendor::Amd),
        ("gfx803", "AMD", Some("Radeon RX 460 Graphics"), "polaris11", "gfx803", Vendor::Amd),
        ("Lexa", "", None, "polaris12", "gfx803", Vendor::Amd),
        ("gfx803", "AMD", Some("Radeon RX 550 Series"), "polaris12", "gfx803", Vendor::Amd),
        ("gfx803", "Advanced Micro Devices, Inc.", None, "gfx803", "gfx803", Vendor::Amd),
        ("gfx803", "", Some("AMD Radeon Graphics"), "gfx803", "gfx803", Vendor::Amd),
        // The code name in the device's name beats the card's: RX 550 exists as Polaris 11 too.
        ("Radeon RX 550 (radeonsi, polaris11, ACO)", "AMD", None, "polaris11", "gfx803", Vendor::Amd),
        // Other AMD generations.
        ("Fiji", "AMD", None, "fiji", "gfx803", Vendor::Amd),
        ("gfx803", "AMD", Some("AMD Radeon (TM) R9 Fury Series"), "fiji", "gfx803", Vendor::Amd),
        ("AMD Radeon RX Vega M GH", "AMD", None, "vegam", "gfx803", Vendor::Amd),
        ("Hawaii", "AMD", None, "hawaii", "gfx701", Vendor::Amd),
        ("Tonga", "AMD", None, "tonga", "gfx802", Vendor::Amd),
        ("gfx802", "AMD", None, "gfx802", "gfx802", Vendor::Amd),
        ("gfx900:xnack-", "AMD", None, "vega10", "gfx900", Vendor::Amd),
        ("AMD Radeon Vega 10 Graphics (radeonsi, raven, ACO)", "AMD", None, "raven", "gfx902", Vendor::Amd),
        ("gfx906:sramecc+:xnack-", "AMD", Some("AMD Radeon VII"), "vega20", "gfx906", Vendor::Amd),
        ("gfx1010", "AMD", None, "navi10", "gfx1010", Vendor::Amd),
        ("AMD Radeon RX 6800 XT (radeonsi, navi21, ACO)", "AMD", None, "navi21", "gfx1030", Vendor::Amd),
        ("AMD SIENNA_CICHLID (DRM 3.40, LLVM 11)", "AMD", None, "navi21", "gfx1030", Vendor::Amd),
        ("gfx1100", "AMD", Some("Radeon RX 7900 XTX"), "navi31", "gfx1100", Vendor::Amd),
        // An overridden target: still a Navi 22, but compiled for as gfx1030.
        ("gfx1030", "AMD", Some("AMD Radeon RX 6700 XT"), "navi22", "gfx1030", Vendor::Amd),
        ("gfx1299", "AMD", None, "gfx1299", "gfx1299", Vendor::Amd),
        ("Cayman", "AMD", None, "amd-cayman", "amd", Vendor::Amd),
        ("AMD Radeon Graphics (who knows)", "AMD", None, "amd-radeon-graphics", "amd", Vendor::Amd),
        // NVIDIA, with and without its name in front.
        ("NVIDIA H200", "NVIDIA Corporation", None, "nvidia-h200", "nvidia", Vendor::Nvidia),
        ("NVIDIA GeForce GTX 1060 6GB", "NVIDIA Corporation", None, "nvidia-geforce-gtx-1060-6gb", "nvidia", Vendor::Nvidia),
        ("GeForce GTX 1060 6GB", "NVIDIA Corporation", None, "nvidia-geforce-gtx-1060-6gb", "nvidia", Vendor::Nvidia),
        ("Quadro RX 580", "", None, "nvidia-quadro-rx-580", "nvidia", Vendor::Nvidia),
        ("", "NVIDIA Corporation", None, "nvidia-corporation", "nvidia", Vendor::Nvidia),
        // Intel.
        ("Intel(R) UHD Graphics 630 [0x3e9b]", "Intel(R) Corporation", None, "intel-uhd-graphics-630", "intel", Vendor::Intel),
        ("Mesa Intel(R) UHD Graphics 630 (CFL GT2)", "Intel", None, "intel-uhd-graphics-630", "intel", Vendor::Intel),
        ("Intel(R) Iris(R) Plus Graphics [0x8a52]", "", None, "intel-iris-plus-graphics", "intel", Vendor::Intel),
        // The processor seen through OpenCL.
        ("pthread-skylake-avx512-Intel(R) Xeon(R) Processor @ 2.80GHz", "GenuineIntel", None, "cpu-skylake-avx512-intel-xeon-processor-2-80ghz", "cpu", Vendor::Intel),
        ("cpu-skylake-avx512-Intel(R) Xeon(R) Processor @ 2.80GHz", "GenuineIntel", None, "cpu-skylake-avx512-intel-xeon-processor-2-80ghz", "cpu", Vendor::Intel),
        ("cpu-znver3-AMD Ryzen 7 5700G with Radeon Graphics", "AuthenticAMD", None, "cpu-znver3-amd-ryzen-7-5700g-with-radeon-graphics", "cpu", Vendor::Amd),
        ("Intel(R) Core(TM) i7-8700 CPU @ 3.20GHz", "Intel(R) Corporation", None, "cpu-intel-core-i7-8700-cpu-3-20ghz", "cpu", Vendor::Intel),
        ("cpu-cortex-a72", "ARM", None, "cpu-cortex-a72", "cpu", Vendor::Other),
        ("llvmpipe (LLVM 15.0.6, 256 bits)", "Mesa", None, "llvmpipe", "cpu", Vendor::Other),
        // Nobody we know.
        ("Mali-G610 r0p0", "ARM", None, "mali-g610-r0p0", "unknown", Vendor::Other),
        ("", "", None, "unknown", "unknown", Vendor::Other),
        ("", "", Some(""), "unknown", "unknown", Vendor::Other),
        ("\0\u{1b}[31m(((", "\u{fffd}", Some("®™"), "unknown", "unknown", Vendor::Other),
        ("gfx", "", None, "gfx", "unknown", Vendor::Other),
        ("gfx99999999999999999999", "AMD", None, "amd-gfx99999999999999999999", "amd", Vendor::Amd),
        ("cpu-", "", None, "cpu", "cpu", Vendor::Other),
    ];

    #[test]
    fn every_driver_s_name_leads_to_the_same_chip() {
        for (device, vendor_name, board, key, architecture, vendor) in CASES {
            let chip = normalise_chip(device, vendor_name, *board);
            let found = (chip.key.as_str(), chip.architecture.as_str(), chip.vendor);
            assert_eq!(found, (*key, *architecture, *vendor), "{device:?} {board:?}");
        }
    }

    #[test]
    fn keys_are_safe_file_names_whatever_the_driver_says() {
        let long = "GeForce ../".repeat(1000);
        let cases =
            [long.as_str(), "NVIDIA ../../etc/passwd", "é AMD ü 日本", "AMD \0\n\r", "cpu-İ(R)"];
        for name in cases {
            for vendor in ["", "NVIDIA", "AMD", "Intel", name] {
                let key = normalise_chip(name, vendor, Some(name)).key;
                let allowed = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
                assert!(!key.is_empty() && key.len() <= MAX_KEY_CHARS, "{key}");
                assert!(key.bytes().all(allowed) && !key.ends_with('-'), "{key}");
            }
        }
    }

    #[test]
    fn the_table_contradicts_nothing() {
        let names = |chip: &AmdChip| [chip.code_names, chip.cards].concat();
        let mut all: Vec<&str> = AMD_CHIPS.iter().flat_map(names).collect();
        assert!(AMD_CHIPS.iter().all(|chip| is_amd_target(chip.architecture)));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count, "a name leads to two chips");
    }
}
