//! `polaris bench modes`: compares CPU, GPU and hybrid on workloads of models.

use polaris_bench::modes::{
    self, Entry, ModesOptions, Results, Row, gigaflops, milliseconds, remark,
};

use crate::arguments::{BenchModes, Global};
use crate::output::{self, Shown, Table, print_line, replace_file, say};
use crate::session::Session;
use crate::{exit, interrupt};

pub fn run(global: Global, options: &BenchModes) -> anyhow::Result<u8> {
    let json = global.json;
    let mut session = Session::new(global)?;
    session.check_new_devices()?;
    let results = measure(&session, options.only.clone(), options.quick)?;
    if json {
        output::print_json("polaris.bench.modes/1", &results)?;
    } else {
        print(&results)?;
    }
    if let Some(file) = &options.html {
        replace_file(file, &modes::page(&session.runtime, &results).render())?;
        say!("note: wrote the page to {}", file.display());
    }
    Ok(if results.ok { exit::OK } else { exit::FOUND_WRONG })
}

/// The quick form, for `polaris quickstart`.
pub fn quick(session: &Session) -> anyhow::Result<Results> {
    measure(session, Vec::new(), true)
}

fn measure(session: &Session, only: Vec<String>, quick: bool) -> anyhow::Result<Results> {
    let (devices, cancellation) = (session.chosen.clone(), interrupt::token());
    let options = ModesOptions { devices, only, quick, cancellation };
    let _quiet = Quiet::new();
    Ok(modes::run(&session.runtime, &options, &mut Shown::new())?)
}

/// Marks the fastest mode of a workload.
const MARK: &str = "*";

/// Prints the table and its legend.
pub fn print(results: &Results) -> anyhow::Result<()> {
    print_line(&title(results))?;
    let mut table = Table::new(&[
        "workload",
        "mode",
        "",
        ">ms per call",
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
        "  {MARK} fastest. Calls start and end in host memory; medians of rounds in turns; spread is the \
         relative standard deviation."
    ))?;
    if results.quick {
        print_line("  This quick run skips slow workloads; `polaris bench modes` measures all.")?;
    }
    for note in &results.notes {
        print_line(&format!("  {note}"))?;
    }
    for wrong in results.disagreements() {
        print_line(&format!("  WRONG: {wrong}; `polaris check` finds the kernel"))?;
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

/// Silences the library's notes that it measures instructions, which would appear for every workload, unless
/// `POLARIS_LOG` is set.
struct Quiet(log::LevelFilter);

impl Quiet {
    fn new() -> Self {
        let before = log::max_level();
        if std::env::var_os("POLARIS_LOG").is_none() {
            log::set_max_level(log::LevelFilter::Error);
        }
        Self(before)
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        log::set_max_level(self.0);
    }
}
