//! The profile of a run: a table, and a trace file.

use std::collections::BTreeMap;
use std::path::Path;

use polaris::graph::plan::Side;
use polaris::graph::{Profile, ProfileRow, Session as Model};
use polaris_bench::model::trace;

use crate::output::{Table, print_line, replace_file, say};

/// Instructions that are shown; `--json` has all.
const MOST_SHOWN: usize = 20;

/// Prints the longest instructions, and the totals by kind.
pub fn print(profile: &Profile) -> anyhow::Result<()> {
    let mut order: Vec<&ProfileRow> = profile.rows.iter().collect();
    order.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    let share = |seconds: f64| format!("{:.1}%", 100.0 * seconds / profile.seconds.max(1e-12));
    let microseconds = |seconds: f64| format!("{:.1}", seconds * 1e6);
    let mut table = Table::new(&[
        "instruction",
        "side",
        ">us",
        ">share",
        ">GFLOPS",
        ">GB/s",
        ">roofline",
        ">predicted us",
        "node",
    ]);
    for row in order.iter().take(MOST_SHOWN) {
        table.row(vec![
            row.instruction.clone(),
            row.side.name().to_owned(),
            microseconds(row.seconds),
            share(row.seconds),
            format!("{:.1}", row.gflops),
            format!("{:.1}", row.gbs),
            row.roofline_share.map_or(String::new(), |share| format!("{:.0}%", 100.0 * share)),
            row.predicted_seconds.map_or(String::new(), microseconds),
            row.node.clone(),
        ]);
    }
    table.print()?;
    if order.len() > MOST_SHOWN {
        print_line(&format!("  and {} more; --json lists all", order.len() - MOST_SHOWN))?;
    }
    let mut table = Table::new(&[
        "kind",
        "side",
        ">count",
        ">us",
        ">share",
        ">GFLOPS",
        ">GB/s",
        ">predicted us",
    ]);
    for ((instruction, side), kind) in kinds(profile) {
        table.row(vec![
            instruction.to_owned(),
            side.name().to_owned(),
            kind.count.to_string(),
            microseconds(kind.seconds),
            share(kind.seconds),
            format!("{:.1}", kind.flops as f64 / kind.seconds.max(1e-12) / 1e9),
            format!("{:.1}", kind.bytes as f64 / kind.seconds.max(1e-12) / 1e9),
            microseconds(kind.predicted),
        ]);
    }
    table.print()?;
    let milliseconds = |seconds: f64| format!("{:.2} ms", seconds * 1e3);
    print_line(&format!(
        "{} runs: all instructions {}, predicted {}; a run without profiling {}",
        profile.runs,
        milliseconds(profile.seconds),
        milliseconds(profile.predicted_seconds),
        milliseconds(profile.run_seconds)
    ))
}

#[derive(Default)]
struct Kind {
    count: usize,
    seconds: f64,
    predicted: f64,
    flops: u64,
    bytes: u64,
}

/// Instructions grouped by name and side, the longest first.
fn kinds(profile: &Profile) -> Vec<((&str, Side), Kind)> {
    let mut kinds: BTreeMap<(&str, Side), Kind> = BTreeMap::new();
    for row in &profile.rows {
        let kind = kinds.entry((&row.instruction, row.side)).or_default();
        kind.count += 1;
        kind.seconds += row.seconds;
        kind.predicted += row.predicted_seconds.unwrap_or(0.0);
        kind.flops += row.flops;
        kind.bytes += row.bytes;
    }
    let mut kinds: Vec<((&str, Side), Kind)> = kinds.into_iter().collect();
    kinds.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    kinds
}

/// Writes one run as a trace.
pub fn write_trace(
    path: &Path,
    title: &str,
    model: &Model,
    profile: &Profile,
) -> anyhow::Result<()> {
    replace_file(path, &serde_json::to_string(&trace(title, model, profile))?)?;
    say!(
        "note: wrote the trace to {}; open it in chrome://tracing or ui.perfetto.dev",
        path.display()
    );
    Ok(())
}
