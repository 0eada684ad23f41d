//! The comparison as a page: what is fastest, times, speeds and speed-ups as bars, and every figure.

use polaris_report::{BarPlot, Page, Table};
use polaris_runtime::{Bytes, Runtime};

use super::results::{Entry, Measured, ModeOf, Results, Row};
use super::words::{gigaflops, milliseconds, remark};

/// The page, about the machine that `runtime` is of.
pub fn page(runtime: &Runtime, results: &Results) -> Page {
    let mut page = Page::new("CPU, GPU and hybrid").lead(&summary(results));
    for wrong in results.disagreements() {
        page = page.lead(&format!("WRONG: {wrong}."));
    }
    for note in &results.notes {
        page = page.lead(note);
    }
    page = plots(page.facts(&facts(runtime, results)), results);
    let about = |row: &Row| (row.title, row.about.to_owned());
    let about: Vec<(&str, String)> = results.results.iter().map(about).collect();
    page.section("All figures")
        .table(&figures(results))
        .table(&behind(results))
        .text(READING)
        .section("Workloads")
        .facts(&about)
}

const READING: &str = "Times of a call are medians of samples, and the modes take turns. Spread is the standard \
    deviation of the samples divided by their mean. Predicted is the prediction of the cost model for the chosen \
    plan. The first call plans, builds programs and, in mode hybrid, measures instructions and decides; the results \
    are cached. Computing is the sum of all instructions, each waited for, without the copies of inputs and outputs. \
    The difference is the largest one to the CPU's outputs, relative to the largest output.";

/// How often each mode is the fastest, in a sentence.
fn summary(results: &Results) -> String {
    let compared: Vec<ModeOf> = results.results.iter().filter_map(|row| row.fastest).collect();
    let Some(device) = results.device.as_ref().filter(|_| !compared.is_empty()) else {
        return format!("{} workloads on the CPU alone.", results.results.len());
    };
    let count = |mode: ModeOf| compared.iter().filter(|&&fastest| fastest == mode).count();
    format!(
        "Fastest: the CPU in {} of {} compared workloads, {} in {}, hybrid in {}.",
        count(ModeOf::Cpu),
        compared.len(),
        device.id,
        count(ModeOf::Gpu),
        count(ModeOf::Hybrid)
    )
}

fn facts(runtime: &Runtime, results: &Results) -> Vec<(&'static str, String)> {
    let hardware = runtime.hardware();
    let effort = if results.quick { "quick: few rounds, slow workloads skipped" } else { "full" };
    let device = results.device.as_ref().map_or("none".to_owned(), |device| {
        format!("{}: {} ({})", device.id, device.name, device.driver)
    });
    vec![
        ("Measured", results.date.clone()),
        ("Polaris", results.polaris.to_owned()),
        ("CPU", format!("{}, {} threads", results.cpu, results.threads)),
        ("Memory", Bytes(hardware.ram.total_bytes).to_string()),
        ("OpenCL device", device),
        ("System", hardware.distribution.name.clone()),
        ("Measurement", effort.to_owned()),
    ]
}

fn plots(page: Page, results: &Results) -> Page {
    let rows = |wanted: &dyn Fn(&Row) -> bool| -> Vec<&Row> {
        results.results.iter().filter(|row| wanted(row)).collect()
    };
    let draw = |page: Page, rows: &[&Row], words: [&str; 2], figure: Figure| match rows.is_empty() {
        true => page,
        false => page.bars(&bars(results, rows, words, figure)),
    };
    let is_product = |row: &Row| row.workload.starts_with("matmul");
    let time: Figure = |measured| Some(measured.ms);
    let mut page = page.section("Time per call").text(
        "Every call starts and ends in host memory, so copies to the device and back count. Lower is \
         better. Hover over a bar for its exact value.",
    );
    page = draw(page, &rows(&is_product), ["Matmul", "ms per call"], time);
    page = draw(page, &rows(&|row| !is_product(row)), ["Networks and text", "ms per call"], time);
    let counted = rows(&|row| row.flops.is_some());
    if !counted.is_empty() {
        page = page
            .section("Throughput")
            .text("Additions and multiplications divided by the time of a call. Higher is better.");
        let words = ["Throughput", "GFLOPS"];
        page = draw(page, &counted, words, |measured| measured.gflops);
    }
    let compared = rows(&|row| row.fastest.is_some());
    if !compared.is_empty() {
        page = page.section("Speed-up").text(
            "The time of the CPU divided by the time of the mode: above 1 the mode is faster.",
        );
        let words = ["Speed-up over the CPU", "times as fast"];
        page = draw(page, &compared, words, |measured| measured.speedup.map(two_digits));
    }
    page
}

/// A ratio as finely as it can be written between two bars, and as the measurement is worth.
fn two_digits(ratio: f64) -> f64 {
    if ratio < 0.1 { ratio } else { (100.0 * ratio).round() / 100.0 }
}

/// What a bar shows of a mode.
type Figure = fn(&Measured) -> Option<f64>;

/// A group of bars for each workload, a bar for each mode; modes have the same colours in every plot.
fn bars(results: &Results, rows: &[&Row], [title, unit]: [&str; 2], figure: Figure) -> BarPlot {
    let modes = match results.device {
        Some(_) => &ModeOf::ALL[..],
        None => &ModeOf::ALL[..1],
    };
    let series = |mode: &ModeOf| {
        let values = rows.iter().map(|row| row.of(*mode).and_then(figure)).collect();
        (mode.name().to_owned(), values)
    };
    let times = unit.starts_with("ms");
    BarPlot {
        title: title.to_owned(),
        y_label: unit.to_owned(),
        groups: rows.iter().map(|row| short_title(row.title)).collect(),
        series: modes.iter().map(series).collect(),
        // From microseconds to seconds: on a linear scale the short ones would not be seen.
        log_y: times,
    }
}

/// As long as fits below a group of bars.
fn short_title(title: &str) -> String {
    title.split(',').next().unwrap_or(title).replace("Matrix product", "Matmul")
}

/// A line of cells for each workload and mode; the last ones are words, if it is said so.
fn table(
    results: &Results,
    caption: &str,
    header: &[&str],
    words: bool,
    cells: impl Fn(&Row, &Entry) -> Vec<String>,
) -> Table {
    let mut rows = Vec::new();
    for row in &results.results {
        for (at, entry) in row.modes.iter().enumerate() {
            let title = if at == 0 { row.title } else { "" };
            let names = [title.to_owned(), entry.mode.name().to_owned()];
            rows.push(names.into_iter().chain(cells(row, entry)).collect());
        }
    }
    let names = ["workload", "mode"].into_iter().chain(header.iter().copied());
    let numbers = header.len() - usize::from(words);
    Table {
        header: names.map(str::to_owned).collect(),
        rows,
        numeric: (0..2 + numbers).map(|column| column >= 2).collect(),
        caption: caption.to_owned(),
    }
}

const NOTHING: &str = "–";

fn or_dash(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.to_owned())
}

/// A difference; most are none.
fn in_short(difference: f64) -> String {
    if difference == 0.0 { "0".to_owned() } else { format!("{difference:.1e}") }
}

/// What users feel.
fn figures(results: &Results) -> Table {
    let header = ["call, ms", "spread", "GFLOPS", "speed-up", "predicted, ms", ""];
    table(results, "Calls", &header, true, |row, entry| {
        let Some(measured) = &entry.measured else {
            let mut cells = vec![NOTHING.to_owned(); header.len() - 1];
            cells.extend(entry.left_out.clone());
            return cells;
        };
        let fastest = (row.fastest == Some(entry.mode)).then(|| "fastest".to_owned());
        let remarks = [fastest.unwrap_or_default(), remark(measured)];
        let remarks: Vec<String> = remarks.into_iter().filter(|words| !words.is_empty()).collect();
        vec![
            milliseconds(measured.ms),
            format!("{:.0}%", 100.0 * measured.cv),
            or_dash(measured.gflops.map(gigaflops)),
            or_dash(measured.speedup.map(|speedup| format!("{speedup:.2}x"))),
            or_dash(measured.predicted_ms.map(milliseconds)),
            remarks.join(", "),
        ]
    })
}

/// What is behind it.
fn behind(results: &Results) -> Table {
    let header = ["first call, ms", "fastest call, ms", "computing, ms", "samples", "difference"];
    table(results, "Behind them", &header, false, |_, entry| {
        let Some(measured) = &entry.measured else {
            return vec![NOTHING.to_owned(); header.len()];
        };
        vec![
            milliseconds(measured.first_ms),
            milliseconds(measured.fastest_ms),
            or_dash(measured.compute_ms.map(milliseconds)),
            measured.samples.to_string(),
            or_dash(measured.difference.map(in_short)),
        ]
    })
}
