//! The recommended mode and device, with the reason.

use serde::Serialize;

use super::system_files::printable;
use crate::Mode;

/// A device that OpenCL offers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuCandidate {
    /// What `--device` calls it, such as "opencl:0".
    pub id: String,
    /// The name for people.
    pub name: String,
    /// Its global memory.
    pub memory_bytes: u64,
    /// Whether it is the processor itself (PoCL, llvmpipe).
    pub runs_on_cpu: bool,
    /// Why it must not be used, if so: a clause such as "it failed its check".
    pub unusable: Option<String>,
}

/// A recommendation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// How to place the work.
    pub mode: Mode,
    /// The GPU to use; none in `Mode::Cpu`.
    pub device: Option<String>,
    /// Why, and how to decide otherwise, in plain English.
    pub reason: String,
}

const GIB: u64 = 1 << 30;

/// A GPU of this size holds a useful model and its working memory at once.
const GPU_MODE_GIB: u64 = 4;

/// Below this, the layers that fit gain less than moving data to the card costs.
const HYBRID_MODE_GIB: u64 = 2;

/// Firmware and display keep a part of a card's memory, and the driver reports the rest:
/// a "4 GiB" card shows some 4,072 MiB. It has to count as what its box says.
const SLACK_PERCENT: u64 = 5;

/// Chooses the usable GPU with most memory (the first of equals) and the mode its
/// memory allows.
pub fn advise(candidates: &[GpuCandidate]) -> Advice {
    let (usable, set_aside): (Vec<_>, Vec<_>) =
        candidates.iter().partition(|gpu| !gpu.runs_on_cpu && gpu.unusable.is_none());
    // `max_by_key` takes the last of equals, hence from the back.
    let Some(best) = usable.into_iter().rev().max_by_key(|gpu| gpu.memory_bytes) else {
        return without_gpu(&set_aside);
    };
    let card = format!("{} has {}", display_name(best), memory_text(best.memory_bytes));
    let left_out = left_out_clause(&set_aside);
    let id = &best.id;
    let (mode, why, how) = if reaches(best.memory_bytes, GPU_MODE_GIB) {
        let why = format!(
            "room for a model with its working data (from about {GPU_MODE_GIB} GiB), so it does \
             the work"
        );
        (Mode::Gpu, why, "`--device cpu`".to_owned())
    } else if reaches(best.memory_bytes, HYBRID_MODE_GIB) {
        let why = format!(
            "room for a part of a model (a whole one takes about {GPU_MODE_GIB} GiB), so GPU and \
             CPU share the work"
        );
        (Mode::Hybrid, why, format!("`--device cpu` or `--device {id}`"))
    } else {
        let why = format!(
            "too little to be worth moving data to (from about {HYBRID_MODE_GIB} GiB it is), so \
             the CPU does the work"
        );
        (Mode::Cpu, why, format!("`--device {id}`"))
    };
    let reason = format!("{card} of memory, {why}{left_out}. Override with {how}.");
    Advice { mode, device: (mode != Mode::Cpu).then(|| id.clone()), reason }
}

fn without_gpu(set_aside: &[&GpuCandidate]) -> Advice {
    let override_id = set_aside.first().map_or("opencl:0", |device| &device.id);
    let found = if set_aside.is_empty() { "No GPU was found" } else { "No usable GPU was found" };
    let left_out = left_out_clause(set_aside);
    let when = if set_aside.is_empty() { " once there is one" } else { "" };
    let reason = format!(
        "{found}, so the CPU does the work{left_out}. Override with `--device {override_id}`{when}."
    );
    Advice { mode: Mode::Cpu, device: None, reason }
}

/// "" or " (X is left out: why; Y is left out: why)".
fn left_out_clause(set_aside: &[&GpuCandidate]) -> String {
    if set_aside.is_empty() {
        return String::new();
    }
    let reasons = set_aside.iter().map(|device| {
        let why = match &device.unusable {
            Some(why) => printable(why).trim_end_matches('.').to_owned(),
            None => "it runs on the CPU, which is faster without OpenCL".to_owned(),
        };
        format!("{} is not used: {why}", display_name(device))
    });
    format!(" ({})", reasons.collect::<Vec<_>>().join("; "))
}

fn display_name(gpu: &GpuCandidate) -> String {
    let name = printable(&gpu.name);
    if name.is_empty() { gpu.id.clone() } else { name }
}

fn reaches(memory_bytes: u64, gib: u64) -> bool {
    memory_bytes >= gib * GIB / 100 * (100 - SLACK_PERCENT)
}

fn memory_text(bytes: u64) -> String {
    format!("{:.1} GiB", bytes as f64 / GIB as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn gpu(index: usize, memory_bytes: u64) -> GpuCandidate {
        GpuCandidate {
            id: format!("opencl:{index}"),
            name: format!("Card {index}"),
            memory_bytes,
            runs_on_cpu: false,
            unusable: None,
        }
    }

    fn check(candidates: &[GpuCandidate], mode: Mode, device: Option<&str>) -> String {
        let advice = advise(candidates);
        assert_eq!((advice.mode, advice.device.as_deref()), (mode, device), "{}", advice.reason);
        assert!(advice.reason.contains("--device ") && advice.reason.ends_with('.'));
        advice.reason
    }

    #[test]
    fn memory_decides_the_mode() {
        let cases = [
            (0, Mode::Cpu),
            (512 * MIB, Mode::Cpu),
            (1900 * MIB, Mode::Cpu),
            (2 * GIB, Mode::Hybrid),
            (3 * GIB, Mode::Hybrid),
            (3800 * MIB, Mode::Hybrid),
            (4 * GIB, Mode::Gpu),
            (8 * GIB, Mode::Gpu),
            (u64::MAX, Mode::Gpu),
        ];
        for (memory, mode) in cases {
            let reason = check(&[gpu(0, memory)], mode, (mode != Mode::Cpu).then_some("opencl:0"));
            assert!(
                reason.contains("Card 0 has ") && reason.contains(" GiB of memory"),
                "{reason}"
            );
        }
    }

    #[test]
    fn cards_report_a_little_less_than_their_box_says() {
        check(&[gpu(0, 4072 * MIB)], Mode::Gpu, Some("opencl:0"));
        check(&[gpu(0, 2000 * MIB)], Mode::Hybrid, Some("opencl:0"));
    }

    #[test]
    fn the_largest_memory_wins_and_the_first_of_equals() {
        check(&[gpu(0, 2 * GIB), gpu(1, 8 * GIB), gpu(2, 8 * GIB)], Mode::Gpu, Some("opencl:1"));
    }

    #[test]
    fn without_a_gpu_the_cpu_works() {
        let reason = check(&[], Mode::Cpu, None);
        assert!(reason.contains("No GPU was found") && reason.contains("`--device opencl:0`"));
    }

    #[test]
    fn the_cpu_behind_opencl_is_never_recommended() {
        let pocl = GpuCandidate { runs_on_cpu: true, name: "PoCL".into(), ..gpu(0, 64 * GIB) };
        let reason = check(std::slice::from_ref(&pocl), Mode::Cpu, None);
        assert!(reason.contains("PoCL is not used: it runs on the CPU"), "{reason}");
        let reason = check(&[pocl, gpu(1, 8 * GIB)], Mode::Gpu, Some("opencl:1"));
        assert!(reason.contains("PoCL is not used"), "{reason}");
    }

    #[test]
    fn an_unusable_gpu_is_left_out_and_the_reason_says_so() {
        let broken =
            GpuCandidate { unusable: Some("it failed its check.".into()), ..gpu(0, 8 * GIB) };
        let reason = check(std::slice::from_ref(&broken), Mode::Cpu, None);
        assert!(reason.contains("(Card 0 is not used: it failed its check)"), "{reason}");
        assert!(reason.contains("`--device opencl:0`"), "{reason}");
        let reason = check(&[broken, gpu(1, 2 * GIB)], Mode::Hybrid, Some("opencl:1"));
        assert!(reason.contains("Card 0 is not used: it failed its check"), "{reason}");
    }

    #[test]
    fn hostile_names_do_not_reach_the_terminal() {
        let named = |name: &str| GpuCandidate { name: name.into(), ..gpu(0, 8 * GIB) };
        assert!(!advise(&[named("\u{1b}[2J")]).reason.contains('\u{1b}'));
        assert!(advise(&[named("")]).reason.starts_with("opencl:0 has 8.0 GiB"));
    }

    #[test]
    fn modes_read_the_same_everywhere() {
        for (mode, text) in [(Mode::Cpu, "cpu"), (Mode::Gpu, "gpu"), (Mode::Hybrid, "hybrid")] {
            assert_eq!(mode.to_string(), text);
            assert_eq!(serde_json::to_string(&mode).unwrap(), format!("\"{text}\""));
        }
    }
}
