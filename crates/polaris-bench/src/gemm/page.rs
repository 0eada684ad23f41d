//! The results as one page that needs nothing beside it: plots, tables, facts, the command.

use std::fmt::Write;

use polaris::runtime::Bytes;

use super::cases::Numbers;
use super::plot::{Plot, SHEET, Scale, Series, Style, escape};
use super::results::{DeviceFacts, Results, Row};
use super::table::{error_text, number};
use crate::session::Session;

/// Beside what all pages with plots have.
const STYLE: &str = "\
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 2px 8px; text-align: right; border-bottom: 1px solid #8884; }
th:nth-child(4), td:nth-child(4), th:nth-child(5), td:nth-child(5) { text-align: left; }
";

/// The page.
pub fn page(session: &Session, results: &Results) -> String {
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>Polaris: matrix products</title>\n<style>\n{SHEET}{STYLE}</style>\n</head>\n<body>\n\
         <h1>Matrix products</h1>\n"
    );
    html.push_str(&machine(session, results));
    for facts in &results.devices {
        let _ = writeln!(
            html,
            "<h2>{} {}</h2>",
            escape(&facts.device.to_string()),
            escape(&facts.device_name)
        );
        html.push_str(&device_facts(facts));
        let mut rows: Vec<&Row> =
            results.results.iter().filter(|row| row.device == facts.device).collect();
        while let Some(first) = rows.first() {
            let numbers = first.dtype;
            let (same, others): (Vec<&Row>, Vec<&Row>) =
                rows.into_iter().partition(|row| row.dtype == numbers);
            rows = others;
            html.push_str(&section(facts, numbers, &same, results));
        }
    }
    html.push_str("</body>\n</html>\n");
    html
}

fn machine(session: &Session, results: &Results) -> String {
    let hardware = session.runtime.hardware();
    let facts = [
        ("Measured", results.date.clone()),
        ("Polaris", results.polaris.to_owned()),
        ("Processor", hardware.cpu.name.clone()),
        ("Memory", Bytes(hardware.ram.total_bytes).to_string()),
        ("System", hardware.distribution.name.clone()),
    ];
    let mut html = String::from("<ul>\n");
    for (name, value) in facts {
        let _ = writeln!(html, "<li>{name}: {}</li>", escape(&value));
    }
    let _ = writeln!(html, "</ul>\n<p><code>{}</code></p>", escape(&results.command));
    html
}

fn device_facts(facts: &DeviceFacts) -> String {
    let threads = facts.threads.map_or(String::new(), |threads| format!(", {threads} threads"));
    let mut html = format!(
        "<p>{}, driver {}{threads}. Measured roofline: {} GFLOPS FP32, {} GB/s.",
        escape(&facts.platform),
        escape(&facts.driver),
        number(facts.peak_gflops),
        number(facts.memory_gbs)
    );
    for peer in &facts.peers {
        let _ = write!(html, "<br>{}: {}", peer.name, escape(&peer.version));
    }
    html.push_str("</p>\n");
    html
}

fn section(facts: &DeviceFacts, numbers: Numbers, rows: &[&Row], results: &Results) -> String {
    let series = collect_series(rows);
    let mut html = format!("<h3>{}</h3>\n", numbers.name());
    let lines = series.iter().map(|named| Series {
        name: named.name.clone(),
        points: named.points.iter().map(|point| (point.size, point.gflops)).collect(),
        style: Style::Line,
    });
    let by_size = Plot {
        title: format!("{}: {}", facts.device_name, numbers.name()),
        x_label: "size: cube root of m n k",
        y_label: "GFLOPS",
        scale: Scale::Linear,
        series: lines.collect(),
    };
    html.push_str(&by_size.svg());
    if rows.iter().any(|row| row.roofline_share.is_some()) {
        html.push_str(&roofline(facts, &series).svg());
    }
    html.push_str(&table(rows));
    for summary in &results.summary {
        if (summary.device, summary.dtype) == (facts.device, numbers) {
            let _ = writeln!(
                html,
                "<p>{} by {}: geometric mean {:.3}, minimum {:.3} at {}.</p>",
                escape(&summary.variant),
                summary.peer,
                summary.geometric_mean,
                summary.minimum,
                summary.minimum_at
            );
        }
    }
    html
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

fn roofline(facts: &DeviceFacts, series: &[NamedPoints]) -> Plot {
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
    Plot {
        title: format!("{}: roofline", facts.device_name),
        x_label: "operations for each byte of the operands and the result",
        y_label: "GFLOPS",
        scale: Scale::Logarithmic,
        series: all,
    }
}

fn table(rows: &[&Row]) -> String {
    let mut html = String::from(
        "<table>\n<tr><th>m</th><th>n</th><th>k</th><th>op</th><th>variant</th><th>GFLOPS</th>\
         <th>us</th><th>roofline</th><th>error</th><th>cv</th><th>time by plain</th>\
         <th>peers</th></tr>\n",
    );
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    for row in rows {
        let peers: Vec<String> = row
            .peers
            .iter()
            .map(|peer| format!("{} {} ({:.3})", peer.name, number(peer.gflops), peer.ratio))
            .collect();
        let _ = writeln!(
            html,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{:.1}</td>\
             <td>{}</td><td>{}</td><td>{:.1}%</td><td>{}</td><td>{}</td></tr>",
            row.m,
            row.n,
            row.k,
            row.transpose.name(),
            escape(&row.variant),
            number(row.gflops),
            row.us,
            or_dash(row.roofline_share.map(|share| format!("{:.1}%", 100.0 * share))),
            row.error.map_or("NaN".to_owned(), |error| error_text(row, error)),
            100.0 * row.cv,
            or_dash(row.time_by_plain.map(|time| format!("{time:.3}"))),
            escape(&peers.join("; "))
        );
    }
    html.push_str("</table>\n");
    html
}
