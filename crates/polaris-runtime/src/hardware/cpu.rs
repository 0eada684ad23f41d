//! The processor: name, cores, caches and SIMD levels.
//!
//! Linux's own files are asked first, then CPUID, then `sysinfo`. Each source
//! answers `None` where it does not exist, so the same code serves every system.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use serde::Serialize;
use sysinfo::{CpuRefreshKind, System};

use super::instruction_set;
use super::system_files::{printable, read_number, read_text};

/// What is known of the processor this program runs on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Cpu {
    /// The name the processor gives itself, or "unknown CPU".
    pub name: String,
    /// Cores of the whole machine; in a container this can exceed `logical_cores`.
    pub physical_cores: usize,
    /// Hardware threads this process may use: affinity and cgroup quotas are respected.
    pub logical_cores: usize,
    /// Highest known frequency; the nominal or current one where no maximum is published.
    pub frequency_mhz: Option<u32>,
    /// Caches as the first core sees them, nearest first; empty if unknown.
    pub caches: Vec<Cache>,
    /// SIMD extensions found at run time, named as Rust's `target_feature` names them.
    pub simd: Vec<&'static str>,
}

/// One cache level of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u8,
    /// What the cache holds.
    pub kind: CacheKind,
    /// Size of one instance in bytes.
    pub bytes: u64,
    /// How many logical CPUs share one instance; at least 1.
    pub shared_by: usize,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// Describes the processor. Takes a few milliseconds at most.
pub fn detect_cpu() -> Cpu {
    let cpu0 = Path::new("/sys/devices/system/cpu/cpu0");
    let cpuinfo = parse_cpuinfo(&read_text(Path::new("/proc/cpuinfo")).unwrap_or_default());
    let logical_cores = std::thread::available_parallelism().map_or(1, |count| count.get());

    let name = cpuinfo.name.or_else(instruction_set::name).or_else(sysinfo_name);
    let frequency_mhz = max_frequency(cpu0)
        .or_else(|| frequency_in_name(name.as_deref().unwrap_or_default()))
        .or(cpuinfo.frequency_mhz)
        .or_else(instruction_set::frequency_mhz)
        .or_else(sysinfo_frequency);
    let mut caches = sysfs_caches(&cpu0.join("cache"));
    if caches.is_empty() {
        caches = instruction_set::caches();
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind));
    let physical_cores = cpuinfo
        .physical_cores
        .or_else(|| System::physical_core_count().ok().filter(|count| *count > 0))
        .unwrap_or(logical_cores);

    Cpu {
        name: name.unwrap_or_else(|| "unknown CPU".to_owned()),
        physical_cores,
        logical_cores,
        frequency_mhz,
        caches,
        simd: instruction_set::simd_levels(),
    }
}

#[derive(Debug, Default, PartialEq)]
struct CpuInfo {
    name: Option<String>,
    frequency_mhz: Option<u32>,
    physical_cores: Option<usize>,
}

fn parse_cpuinfo(text: &str) -> CpuInfo {
    let mut info = CpuInfo::default();
    let mut cores = HashSet::new();
    let mut package = "";
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match key.trim() {
            "model name" if info.name.is_none() => {
                info.name = Some(printable(value)).filter(|name| !name.is_empty());
            }
            "cpu MHz" if info.frequency_mhz.is_none() => {
                info.frequency_mhz = value.parse().ok().and_then(plausible_mhz);
            }
            // Core ids repeat in every package, so only the pair names a core.
            "physical id" => package = value,
            "core id" => {
                cores.insert((package, value));
            }
            _ => {}
        }
    }
    info.physical_cores = Some(cores.len()).filter(|count| *count > 0);
    info
}

fn max_frequency(cpu0: &Path) -> Option<u32> {
    let khz = read_number(&cpu0.join("cpufreq/cpuinfo_max_freq"))?;
    plausible_mhz(khz as f64 / 1000.0)
}

/// The nominal frequency that Intel writes into the name: "... @ 2.80GHz".
fn frequency_in_name(name: &str) -> Option<u32> {
    let (_, after) = name.rsplit_once('@')?;
    let after = after.trim().to_ascii_lowercase();
    let (number, scale) = match (after.strip_suffix("ghz"), after.strip_suffix("mhz")) {
        (Some(number), _) => (number, 1000.0),
        (_, Some(number)) => (number, 1.0),
        _ => return None,
    };
    plausible_mhz(number.trim().parse::<f64>().ok()? * scale)
}

/// Hypervisors report 0 and broken firmware absurd values; no frequency is better than those.
pub(super) fn plausible_mhz(mhz: f64) -> Option<u32> {
    (1.0..20_000.0).contains(&mhz).then(|| mhz.round() as u32)
}

fn sysfs_caches(cache_folder: &Path) -> Vec<Cache> {
    let Ok(entries) = fs::read_dir(cache_folder) else { return Vec::new() };
    entries.flatten().filter_map(|entry| sysfs_cache(&entry.path())).collect()
}

fn sysfs_cache(index: &Path) -> Option<Cache> {
    let kind = match read_text(&index.join("type"))?.trim() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        "Unified" => CacheKind::Unified,
        _ => return None,
    };
    Some(Cache {
        level: u8::try_from(read_number(&index.join("level"))?).ok()?,
        kind,
        bytes: parse_size(read_text(&index.join("size"))?.trim())?,
        shared_by: read_text(&index.join("shared_cpu_list"))
            .and_then(|list| count_cpus(list.trim()))
            .unwrap_or(1),
    })
}

/// "48K", "32M" or plain bytes.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, unit) = match text.as_bytes().last()? {
        b'K' => (text.strip_suffix('K')?, 1 << 10),
        b'M' => (text.strip_suffix('M')?, 1 << 20),
        b'G' => (text.strip_suffix('G')?, 1 << 30),
        _ => (text, 1),
    };
    digits.parse::<u64>().ok()?.checked_mul(unit).filter(|bytes| *bytes > 0)
}

/// How many CPUs a list such as "0-3,8" names.
fn count_cpus(list: &str) -> Option<usize> {
    let mut count = 0usize;
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let first: usize = first.trim().parse().ok()?;
        let last: usize = last.trim().parse().ok()?;
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

fn sysinfo_cpus(what: CpuRefreshKind) -> Option<System> {
    let mut system = System::new().ok()?;
    system.refresh_cpu_list(what);
    Some(system)
}

fn sysinfo_name() -> Option<String> {
    let system = sysinfo_cpus(CpuRefreshKind::nothing())?;
    Some(printable(system.cpus().first()?.brand())).filter(|name| !name.is_empty())
}

fn sysinfo_frequency() -> Option<u32> {
    let system = sysinfo_cpus(CpuRefreshKind::nothing().with_frequency())?;
    plausible_mhz(system.cpus().first()?.frequency() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_usable_description() {
        let cpu = detect_cpu();
        assert!(!cpu.name.is_empty() && cpu.physical_cores >= 1 && cpu.logical_cores >= 1);
        assert!(cpu.caches.iter().all(|cache| cache.bytes > 0 && cache.shared_by >= 1));
        assert!(serde_json::to_string(&cpu).unwrap().contains("logical_cores"));
    }

    #[test]
    fn cpuid_and_sysinfo_answer_sanely_too() {
        assert!(
            instruction_set::caches().iter().all(|cache| cache.bytes > 0 && cache.shared_by >= 1)
        );
        assert!(
            [instruction_set::name(), sysinfo_name()].iter().flatten().all(|name| !name.is_empty())
        );
        assert_ne!(sysinfo_frequency(), Some(0));
    }

    #[test]
    fn cpuinfo_counts_cores_per_package() {
        let block = |package, core| {
            format!(
                "model name : X  Y\ncpu MHz : 2793.4\nphysical id : {package}\ncore id : {core}\n\n"
            )
        };
        let text: String =
            [(0, 0), (0, 0), (0, 1), (1, 0), (1, 1)].map(|(p, c)| block(p, c)).concat();
        let info = parse_cpuinfo(&text);
        assert_eq!(info.name.as_deref(), Some("X Y"));
        assert_eq!((info.frequency_mhz, info.physical_cores), (Some(2793), Some(4)));
    }

    #[test]
    fn hostile_cpuinfo_yields_nothing() {
        for text in ["", "\0\u{fffd}::::", "model name :\ncpu MHz : 1e300\n", "cpu MHz : NaN"] {
            assert_eq!(parse_cpuinfo(text), CpuInfo::default(), "{text:?}");
        }
    }

    #[test]
    fn frequencies_come_from_cpufreq_or_the_name() {
        assert_eq!(frequency_in_name("Xeon(R) Processor @ 2.80GHz"), Some(2800));
        assert_eq!(frequency_in_name("Old CPU @ 900 MHz"), Some(900));
        for name in ["", "@", "@ GHz", "@ 1e99GHz", "@ -3GHz", "Ryzen 5 2600", "@ infGHz"] {
            assert_eq!(frequency_in_name(name), None, "{name}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(max_frequency(dir.path()), None);
        fs::create_dir(dir.path().join("cpufreq")).unwrap();
        fs::write(dir.path().join("cpufreq/cpuinfo_max_freq"), "3600000\n").unwrap();
        assert_eq!(max_frequency(dir.path()), Some(3600));
    }

    #[test]
    fn caches_are_read_and_broken_ones_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let write = |index: &str, files: [&str; 4]| {
            fs::create_dir(dir.path().join(index)).unwrap();
            for (file, text) in ["level", "type", "size", "shared_cpu_list"].iter().zip(files) {
                fs::write(dir.path().join(index).join(file), text).unwrap();
            }
        };
        write("index0", ["1\n", "Data\n", "48K\n", "0,8\n"]);
        write("index1", ["3", "Unified", "99999999999999999999K", "0"]);
        write("index2", ["999", "Unified", "1M", "0"]);
        write("index3", ["2", "\0", "1M", "0"]);
        let expected = Cache { level: 1, kind: CacheKind::Data, bytes: 48 << 10, shared_by: 2 };
        assert_eq!(sysfs_caches(dir.path()), [expected]);
        assert!(sysfs_caches(&dir.path().join("missing")).is_empty());
    }

    #[test]
    fn sizes_and_cpu_lists() {
        assert_eq!(parse_size("32M"), Some(32 << 20));
        assert_eq!(parse_size("512"), Some(512));
        for text in ["", "K", "-1K", "18446744073709551615G", "0K", "é"] {
            assert_eq!(parse_size(text), None, "{text}");
        }
        assert_eq!(count_cpus("0-3,8"), Some(5));
        for list in ["", "3-0", "a-b", "0-18446744073709551615", "0-99999999999999999999"] {
            assert_eq!(count_cpus(list), None, "{list}");
        }
    }
}
