//! The comparison as a table on the terminal, and the words that table and page share.

use polaris::graph::plan::Choice;

use super::results::{Entry, Measured, Results, Row};
use crate::output::{Table, print_line};

/// Marks the fastest mode of a workload.
const MARK: &str = "*";

/// Prints the table and what must be known to read it.
pub fn print(results: &Results) -> anyhow::Result<()> {
    print_line(&title(results))?;
    let mut table = Table::new(&[
        "workload",
        "mode",
        "",
        ">ms a call",
        ">spread",
        ">GFLOPS",
        ">by cpu",
        ">predicted ms",
        "",
    ]);
    for row in &results.results {
        for (at, entry) in row.modes.iter().enumerate() {
            let title = if at == 0 { row.title } else { "" };
            let mut cells = vec![title.to_owned(), entry.mode.name().to_owned()];
            cells.extend(figures(row, entry));
            table.row(cells);
        }
    }
    table.print()?;
    print_line("")?;
    print_line(&format!(
        "  {MARK} fastest. Calls begin and end in the host's memory; medians of rounds in turn, spread is \
         the standard deviation."
    ))?;
    if results.quick {
        print_line(
            "  What takes long is left out of this quick form; `polaris bench modes` measures all.",
        )?;
    }
    for note in &results.notes {
        print_line(&format!("  {note}"))?;
    }
    for wrong in results.disagreements() {
        print_line(&format!("  WRONG: {wrong}; `polaris check` looks for the kernel"))?;
    }
    Ok(())
}

fn title(results: &Results) -> String {
    let cpu = format!("cpu ({}, {} threads)", results.cpu, results.threads);
    match &results.device {
        Some(device) => format!("{cpu} and {} ({})", device.id, device.name),
        None => cpu,
    }
}

/// The cells of a mode after its name.
fn figures(row: &Row, entry: &Entry) -> [String; 7] {
    let dash = || "-".to_owned();
    let Some(measured) = &entry.measured else {
        let why = entry.left_out.clone().unwrap_or_default();
        return [String::new(), dash(), dash(), dash(), dash(), dash(), why];
    };
    let mark = if row.fastest == Some(entry.mode) { MARK } else { "" };
    [
        mark.to_owned(),
        milliseconds(measured.ms),
        format!("{:.0}%", 100.0 * measured.cv),
        measured.gflops.map_or_else(dash, gigaflops),
        measured.speedup.map_or_else(dash, |speedup| format!("{speedup:.2}x")),
        measured.predicted_ms.map_or_else(dash, milliseconds),
        remark(measured),
    ]
}

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
