//! The results as tables, one for each device and type.

use super::results::{DeviceFacts, Results, Row};
use crate::output::{Table, print_line};

/// Prints all.
pub fn print(results: &Results) -> anyhow::Result<()> {
    for facts in &results.devices {
        let mut rows: Vec<&Row> =
            results.results.iter().filter(|row| row.device == facts.device).collect();
        print_line(&heading(facts))?;
        while let Some(first) = rows.first() {
            let numbers = first.dtype;
            let (same, others) = rows.into_iter().partition(|row| row.dtype == numbers);
            rows = others;
            print_line(&format!("\n{}", numbers.name()))?;
            print_rows(&same)?;
            for row in &same {
                print_overlap(row)?;
            }
            for summary in &results.summary {
                if (summary.device, summary.dtype) == (facts.device, numbers) {
                    print_line(&format!(
                        "  {} by {}: geometric mean {:.3}, minimum {:.3} at {}",
                        summary.variant,
                        summary.peer,
                        summary.geometric_mean,
                        summary.minimum,
                        summary.minimum_at
                    ))?;
                }
            }
        }
        print_line("")?;
    }
    Ok(())
}

fn heading(facts: &DeviceFacts) -> String {
    let threads =
        facts.threads.map_or(String::new(), |threads| format!(", {}", in_threads(threads)));
    let peers: Vec<String> =
        facts.peers.iter().map(|peer| format!("{} {}", peer.name, peer.version)).collect();
    let peers =
        if peers.is_empty() { String::new() } else { format!("\n  beside {}", peers.join("; ")) };
    format!(
        "{} {} ({}, driver {}{threads})\n  roofline: {:.0} GFLOPS FP32, {:.1} GB/s{peers}",
        facts.device,
        facts.device_name,
        facts.platform,
        facts.driver,
        facts.peak_gflops,
        facts.memory_gbs
    )
}

fn in_threads(threads: usize) -> String {
    if threads == 1 { "1 thread".to_owned() } else { format!("{threads} threads") }
}

fn print_rows(rows: &[&Row]) -> anyhow::Result<()> {
    let mut peers: Vec<&str> = Vec::new();
    for peer in rows.iter().flat_map(|row| &row.peers) {
        if !peers.contains(&peer.name) {
            peers.push(peer.name);
        }
    }
    let with_plain = rows.iter().any(|row| row.time_by_plain.is_some());
    let mut headings: Vec<String> =
        [">m", ">n", ">k", "op", "variant", ">GFLOPS", ">roofline", ">error", ">cv"]
            .map(str::to_owned)
            .to_vec();
    if with_plain {
        headings.push(">time by plain".into());
    }
    headings.extend(peers.iter().flat_map(|peer| [format!(">{peer}"), ">ratio".to_owned()]));
    let headings: Vec<&str> = headings.iter().map(String::as_str).collect();
    let mut table = Table::new(&headings);
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    for row in rows {
        let mut cells = vec![
            row.m.to_string(),
            row.n.to_string(),
            row.k.to_string(),
            row.transpose.name().to_owned(),
            row.variant.clone(),
            number(row.gflops),
            or_dash(row.roofline_share.map(|share| format!("{:.1}%", 100.0 * share))),
            row.error.map_or("NaN".to_owned(), |error| error_text(row, error)),
            format!("{:.1}%", 100.0 * row.cv),
        ];
        if with_plain {
            cells.push(or_dash(row.time_by_plain.map(|time| format!("{time:.3}"))));
        }
        for name in &peers {
            let peer = row.peers.iter().find(|peer| peer.name == *name);
            cells.push(or_dash(peer.map(|peer| number(peer.gflops))));
            cells.push(or_dash(peer.map(|peer| format!("{:.3}", peer.ratio))));
        }
        table.row(cells);
    }
    table.print()
}

/// Whether the copies of a streamed product were hidden behind its arithmetic.
fn print_overlap(row: &Row) -> anyhow::Result<()> {
    let Some(overlap) = row.overlap else { return Ok(()) };
    print_line(&format!(
        "  {} {}: copies {:.2} ms, products {:.2} ms, both at once {:.2} ms (the device's clock)",
        row.dims(),
        row.variant,
        overlap.copying_ms,
        overlap.computing_ms,
        overlap.both_ms
    ))
}

/// Three or four digits that mean something.
pub fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

/// An error, or how many integers are wrong.
pub fn error_text(row: &Row, error: f64) -> String {
    if row.dtype.dtype().is_float() { format!("{error:.1e}") } else { format!("{error:.0} wrong") }
}
