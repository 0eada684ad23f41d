//! Figures and remarks as tables and pages write them.

use polaris_graph::plan::Choice;

use super::results::Measured;

/// What there is to say of a mode beside its figures.
pub fn remark(measured: &Measured) -> String {
    if measured.agrees == Some(false) {
        return "WRONG".to_owned();
    }
    let words = match (measured.chosen, measured.wholly_on_device) {
        (Some(Choice::Cpu), _) => "all on the CPU",
        (Some(Choice::Gpu), _) => "all on the device",
        (Some(Choice::Hybrid), _) => "on both",
        (None, Some(false)) => "partly on the CPU",
        _ => "",
    };
    words.to_owned()
}

/// Milliseconds with three digits, which is what a median is worth.
pub fn milliseconds(ms: f64) -> String {
    match ms {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 10.0 => format!("{ms:.1}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        _ => format!("{ms:.3}"),
    }
}

/// Speeds with three digits.
pub fn gigaflops(gflops: f64) -> String {
    if gflops >= 100.0 { format!("{gflops:.0}") } else { format!("{gflops:.1}") }
}
