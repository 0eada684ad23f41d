//! The results as self-contained HTML: plots, tables, facts, the command.

use polaris_report::{LinePlot, Page, Series, Style, Table};
use polaris_runtime::{Bytes, Runtime};

use super::cases::Numbers;
use super::results::{DeviceFacts, Results, Row, speed_text};

/// The page, about the machine that `runtime` is of.
pub fn page(runtime: &Runtime, results: &Results) -> Page {
    let hardware = runtime.hardware();
    let mut page = Page::new("Matmul").facts(&[
        ("Measured", results.date.clone()),
        ("Polaris", results.polaris.to_owned()),
        ("Processor", hardware.cpu.name.clone()),
        ("Memory", Bytes(hardware.ram.total_bytes).to_string()),
        ("System", hardware.distribution.name.clone()),
        ("Command", results.command.clone()),
    ]);
    for facts in &results.devices {
        page = page
            .section(&format!("{} {}", facts.device, facts.device_name))
            .facts(&device_facts(facts));
        let mut rows: Vec<&Row> =
            results.results.iter().filter(|row| row.device == facts.device).collect();
        while let Some(first) = rows.first() {
            let numbers = first.dtype;
            let (same, others): (Vec<&Row>, Vec<&Row>) =
                rows.into_iter().partition(|row| row.dtype == numbers);
            rows = others;
            page = section(page, facts, numbers, &same, results);
        }
    }
    page
}

fn device_facts(facts: &DeviceFacts) -> Vec<(&str, String)> {
    let threads = facts.threads.map_or(String::new(), |threads| format!(", {threads} threads"));
    let peak = speed_text(facts.peak_gflops);
    let memory = speed_text(facts.memory_gbs);
    let mut all = vec![
        ("Driver", format!("{}, {}{threads}", facts.platform, facts.driver)),
        ("Measured roofline", format!("{peak} GFLOPS FP32, {memory} GB/s")),
    ];
    all.extend(facts.peers.iter().map(|peer| (peer.name, peer.version.clone())));
    all
}

fn section(
    page: Page,
    facts: &DeviceFacts,
    numbers: Numbers,
    rows: &[&Row],
    results: &Results,
) -> Page {
    let series = collect_series(rows);
    let lines = series.iter().map(|named| Series {
        name: named.name.clone(),
        points: named.points.iter().map(|point| (point.size, point.gflops)).collect(),
        style: Style::Marked,
    });
    let by_size = LinePlot {
        title: format!("{}: {}", facts.device_name, numbers.name()),
        x_label: "size: cube root of m n k".into(),
        y_label: "GFLOPS".into(),
        series: lines.collect(),
        from_zero: true,
        ..LinePlot::default()
    };
    let mut page = page.section(&format!("{} on {}", numbers.name(), facts.device)).lines(&by_size);
    if rows.iter().any(|row| row.roofline_share.is_some()) {
        page = page.lines(&roofline(facts, &series));
    }
    page = page.table(&table(rows));
    for summary in &results.summary {
        if (summary.device, summary.dtype) == (facts.device, numbers) {
            page = page.text(&format!(
                "{} by {}: geometric mean {:.3}, minimum {:.3} at {}.",
                summary.variant,
                summary.peer,
                summary.geometric_mean,
                summary.minimum,
                summary.minimum_at
            ));
        }
    }
    page
}

/// A measured point of a plot.
struct Point {
    size: f64,
    intensity: f64,
    gflops: f64,
}

struct NamedPoints {
    name: String,
    points: Vec<Point>,
}

/// Points by variant and by peer, in order of size.
fn collect_series(rows: &[&Row]) -> Vec<NamedPoints> {
    let several = rows.iter().any(|row| row.transpose != rows[0].transpose);
    let mut series: Vec<NamedPoints> = Vec::new();
    for row in rows {
        let size = (row.m as f64 * row.n as f64 * row.k as f64).cbrt();
        let ours = [(row.variant.clone(), row.gflops)];
        let theirs = row.peers.iter().map(|peer| (peer.name.to_owned(), peer.gflops));
        for (name, gflops) in ours.into_iter().chain(theirs) {
            let name = if several { format!("{name} {}", row.transpose.name()) } else { name };
            let point = Point { size, intensity: row.intensity, gflops };
            match series.iter_mut().find(|series| series.name == name) {
                // A peer is in the row of each variant, once measured.
                Some(named)
                    if named.points.iter().any(|p| p.size == size && p.gflops == gflops) => {}
                Some(named) => named.points.push(point),
                None => series.push(NamedPoints { name, points: vec![point] }),
            }
        }
    }
    for named in &mut series {
        named.points.sort_by(|a, b| a.size.total_cmp(&b.size));
    }
    series
}

fn roofline(facts: &DeviceFacts, series: &[NamedPoints]) -> LinePlot {
    let intensities = series.iter().flat_map(|named| named.points.iter().map(|p| p.intensity));
    let (low, high) = intensities
        .fold((f64::INFINITY, 0.0f64), |(low, high), value| (low.min(value), high.max(value)));
    let ridge = facts.peak_gflops / facts.memory_gbs;
    let (low, high) = (low.min(ridge / 2.0), high.max(ridge * 2.0));
    let limit = |intensity: f64| (intensity, facts.peak_gflops.min(intensity * facts.memory_gbs));
    let mut all = vec![Series {
        name: "measured roofline".into(),
        points: vec![limit(low), limit(ridge), limit(high)],
        style: Style::Limit,
    }];
    all.extend(series.iter().map(|named| Series {
        name: named.name.clone(),
        points: named.points.iter().map(|point| (point.intensity, point.gflops)).collect(),
        style: Style::Dots,
    }));
    LinePlot {
        title: format!("{}: roofline", facts.device_name),
        x_label: "arithmetic intensity: operations per byte of operands and result".into(),
        y_label: "GFLOPS".into(),
        series: all,
        log_x: true,
        log_y: true,
        ..LinePlot::default()
    }
}

const HEADER: [&str; 12] = [
    "m",
    "n",
    "k",
    "op",
    "variant",
    "GFLOPS",
    "us",
    "roofline",
    "error",
    "cv",
    "time by plain",
    "peers",
];

fn table(rows: &[&Row]) -> Table {
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    let cells = |row: &&Row| {
        let peers: Vec<String> = row
            .peers
            .iter()
            .map(|peer| format!("{} {} ({:.3})", peer.name, speed_text(peer.gflops), peer.ratio))
            .collect();
        vec![
            row.m.to_string(),
            row.n.to_string(),
            row.k.to_string(),
            row.transpose.name().to_owned(),
            row.variant.clone(),
            speed_text(row.gflops),
            format!("{:.1}", row.us),
            or_dash(row.roofline_share.map(|share| format!("{:.1}%", 100.0 * share))),
            row.error_text(),
            format!("{:.1}%", 100.0 * row.cv),
            or_dash(row.time_by_plain.map(|time| format!("{time:.3}"))),
            peers.join("; "),
        ]
    };
    let is_words = |heading: &str| ["op", "variant", "peers"].contains(&heading);
    Table {
        header: HEADER.map(str::to_owned).to_vec(),
        rows: rows.iter().map(cells).collect(),
        numeric: HEADER.map(|heading| !is_words(heading)).to_vec(),
        caption: String::new(),
    }
}
