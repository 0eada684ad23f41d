//! What was measured, as plain data: printed as JSON, shown as a table and as a page.

use polaris_graph::plan::Choice;
use polaris_runtime::DeviceId;
use serde::Serialize;

/// Outputs of two modes may differ by this share of the largest output. Sums of `f32` in another order differ
/// by a few millionths; a kernel that is wrong differs by much more.
pub const TOLERANCE: f64 = 1e-4;

/// Everything of one run.
#[derive(Debug, Serialize)]
pub struct Results {
    /// The version that was measured.
    pub polaris: &'static str,
    /// When it was measured.
    pub date: String,
    /// Whether it is the short form.
    pub quick: bool,
    /// Whether all modes agree.
    pub ok: bool,
    /// The CPU.
    pub cpu: String,
    /// Its threads.
    pub threads: usize,
    /// The OpenCL device of the modes `gpu` and `hybrid`.
    pub device: Option<OpenCl>,
    /// What a reader should know of all figures.
    pub notes: Vec<String>,
    /// See [`TOLERANCE`].
    pub tolerance: f64,
    /// A row for each workload.
    pub results: Vec<Row>,
}

/// The device beside the CPU.
#[derive(Debug, Clone, Serialize)]
pub struct OpenCl {
    /// Its number among the devices.
    pub id: DeviceId,
    /// What its driver calls it.
    pub name: String,
    /// The platform and the driver.
    pub driver: String,
    /// It is the CPU under another name.
    pub is_the_cpu: bool,
}

/// A workload in every mode.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Its name, as it is chosen by.
    pub workload: &'static str,
    /// Its name, as people read it.
    pub title: &'static str,
    /// What is computed from what.
    pub about: &'static str,
    /// Additions and multiplications of a call, where they say something.
    pub flops: Option<u64>,
    /// Where modes were compared.
    pub fastest: Option<ModeOf>,
    /// Each mode.
    pub modes: Vec<Entry>,
}

/// A mode that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeOf {
    /// The CPU alone.
    Cpu,
    /// The OpenCL device, as far as it has the operations.
    Gpu,
    /// Both.
    Hybrid,
}

impl ModeOf {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Gpu, Self::Hybrid];

    /// As `--mode` writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Hybrid => "hybrid",
        }
    }
}

/// A workload in a mode: figures, or why there are none.
#[derive(Debug, Clone, Serialize)]
pub struct Entry {
    /// The mode.
    pub mode: ModeOf,
    /// The figures.
    pub measured: Option<Measured>,
    /// Why there are none.
    pub left_out: Option<String>,
}

/// The figures of a workload in a mode.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Measured {
    /// The first call: planning, building programs, and in the mode `hybrid` deciding.
    pub first_ms: f64,
    /// The median of a call, with inputs from the host's memory and outputs to it.
    pub ms: f64,
    /// The fastest sample.
    pub fastest_ms: f64,
    /// The samples' standard deviation by their mean.
    pub cv: f64,
    /// How many there were.
    pub samples: usize,
    /// The instructions alone, without the copies of inputs and outputs.
    pub compute_ms: Option<f64>,
    /// Where operations are counted.
    pub gflops: Option<f64>,
    /// The CPU's time by this one's.
    pub speedup: Option<f64>,
    /// The largest difference to the CPU's outputs, by the largest output.
    pub difference: Option<f64>,
    /// Whether that is allowed.
    pub agrees: Option<bool>,
    /// Whether every instruction ran on the device; not for the CPU.
    pub wholly_on_device: Option<bool>,
    /// What the cost model expected of the plan that the mode `hybrid` chose.
    pub predicted_ms: Option<f64>,
    /// Where that plan runs.
    pub chosen: Option<Choice>,
}

impl Entry {
    pub(super) fn measured(mode: ModeOf, measured: Measured) -> Self {
        Self { mode, measured: Some(measured), left_out: None }
    }

    pub(super) fn left_out(mode: ModeOf, why: impl Into<String>) -> Self {
        Self { mode, measured: None, left_out: Some(why.into()) }
    }
}

impl Row {
    /// The figures of a mode.
    pub fn of(&self, mode: ModeOf) -> Option<&Measured> {
        let entry = self.modes.iter().find(|entry| entry.mode == mode)?;
        entry.measured.as_ref()
    }

    /// Whether no mode gives other results than the CPU.
    pub fn agrees(&self) -> bool {
        let measured = self.modes.iter().filter_map(|entry| entry.measured.as_ref());
        measured.into_iter().all(|measured| measured.agrees != Some(false))
    }

    /// Fills in what follows from the times: speed, speed-up, the fastest mode.
    pub(super) fn compare(&mut self) {
        let cpu = self.of(ModeOf::Cpu).map(|measured| measured.ms);
        let flops = self.flops;
        for measured in self.modes.iter_mut().filter_map(|entry| entry.measured.as_mut()) {
            measured.gflops = flops.map(|flops| flops as f64 / measured.ms / 1e6);
            measured.speedup = cpu.map(|cpu| cpu / measured.ms);
        }
        // A plan that is all on one side is that side's, and which of the two was faster is chance.
        let is_same_plan = |measured: &Measured| match measured.chosen {
            Some(Choice::Cpu) => self.of(ModeOf::Cpu).is_some(),
            Some(Choice::Gpu) => self.of(ModeOf::Gpu).is_some(),
            _ => false,
        };
        // Where only one could be measured nothing was compared.
        let mut times: Vec<(ModeOf, f64)> = (self.modes.iter())
            .filter_map(|entry| Some((entry.mode, entry.measured.as_ref()?)))
            .filter(|(_, measured)| !is_same_plan(measured))
            .map(|(mode, measured)| (mode, measured.ms))
            .collect();
        times.sort_by(|a, b| a.1.total_cmp(&b.1));
        self.fastest = times.first().filter(|_| times.len() > 1).map(|(mode, _)| *mode);
    }
}

impl Results {
    /// A description of each disagreement.
    pub fn disagreements(&self) -> Vec<String> {
        let mut words = Vec::new();
        for row in &self.results {
            for entry in &row.modes {
                let Some(measured) = &entry.measured else { continue };
                if measured.agrees == Some(false) {
                    let by = match measured.difference {
                        Some(by) if by.is_finite() => format!("by {by:.1e} of the largest output"),
                        _ => "beyond all numbers".to_owned(),
                    };
                    words.push(format!(
                        "{} in the mode {}: results differ from the CPU's {by}, and {:.0e} is allowed",
                        row.title,
                        entry.mode.name(),
                        self.tolerance
                    ));
                }
            }
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(title: &'static str, times: [Option<f64>; 3]) -> Row {
        let entry = |(mode, time): (ModeOf, Option<f64>)| match time {
            Some(ms) => Entry::measured(mode, Measured { ms, samples: 3, ..Measured::default() }),
            None => Entry::left_out(mode, "too slow"),
        };
        let mut row = Row {
            workload: "some",
            title,
            about: "something",
            flops: Some(2_000_000),
            fastest: None,
            modes: ModeOf::ALL.into_iter().zip(times).map(entry).collect(),
        };
        row.compare();
        row
    }

    #[test]
    fn the_fastest_is_marked_and_the_others_compared_with_the_cpu() {
        let compared = row("a", [Some(4.0), Some(2.0), Some(3.0)]);
        assert_eq!(compared.fastest, Some(ModeOf::Gpu));
        assert_eq!(compared.of(ModeOf::Gpu).unwrap().speedup, Some(2.0));
        // Two million operations in four milliseconds.
        assert_eq!(compared.of(ModeOf::Cpu).unwrap().gflops, Some(0.5));
        assert_eq!(row("b", [Some(4.0), None, None]).fastest, None);
        assert_eq!(row("c", [Some(4.0), None, Some(4.5)]).fastest, Some(ModeOf::Cpu));
        // The same plan twice.
        let mut same = row("d", [Some(4.0), Some(2.0), Some(1.9)]);
        for (chosen, fastest) in [(Choice::Gpu, ModeOf::Gpu), (Choice::Hybrid, ModeOf::Hybrid)] {
            same.modes[2].measured.as_mut().unwrap().chosen = Some(chosen);
            same.compare();
            assert_eq!(same.fastest, Some(fastest));
        }
    }

    #[test]
    fn a_mode_that_is_wrong_is_named() {
        let mut wrong = row("A product", [Some(4.0), Some(2.0), None]);
        assert!(wrong.agrees());
        let gpu = wrong.modes[1].measured.as_mut().unwrap();
        (gpu.difference, gpu.agrees) = (Some(0.03), Some(false));
        assert!(!wrong.agrees());
        let results = Results {
            polaris: "0",
            date: String::new(),
            quick: true,
            ok: false,
            cpu: "a CPU".into(),
            threads: 2,
            device: None,
            notes: Vec::new(),
            tolerance: TOLERANCE,
            results: vec![wrong],
        };
        let words = results.disagreements();
        assert_eq!(words.len(), 1);
        assert!(words[0].contains("A product in the mode gpu") && words[0].contains("3.0e-2"));
    }
}
