//! `polaris bench gemm`: measures matmul, in turns with other libraries where they are installed.

use polaris_bench::gemm::{self, DeviceFacts, GemmOptions, Results, Row, speed_text};

use crate::arguments::{Gemm, Global};
use crate::output::{self, Shown, Table, print_line, replace_file, say};
use crate::session::Session;
use crate::{exit, interrupt};

pub fn run(global: Global, options: &Gemm) -> anyhow::Result<u8> {
    let json = global.json;
    if options.peers {
        gemm::calm_peers();
    }
    let mut session = Session::new(global)?;
    session.check_new_devices()?;
    let chosen = GemmOptions {
        devices: session.chosen.clone(),
        sizes: options.dims(),
        numbers: options.dtypes.clone(),
        transposes: options.transpose.clone(),
        variants: options.variants.clone(),
        peers: options.peers,
        epilogue: options.epilogue,
        seconds: options.seconds,
        rest: options.rest,
        own_threads: session.global.threads.is_some(),
        command: command_line(std::env::args().skip(1)),
        cancellation: interrupt::token(),
    };
    let results = gemm::run(&mut session.runtime, &chosen, &mut Shown::new())?;
    if json {
        output::print_json("polaris.bench.gemm/1", &results)?;
    } else {
        print(&results)?;
    }
    if let Some(file) = &options.report {
        replace_file(file, &gemm::page(&session.runtime, &results).render())?;
        say!("note: wrote the report to {}", file.display());
    }
    if let Some(folder) = &options.save {
        for file in gemm::save(folder, &results)? {
            say!("note: wrote the results to {}", file.display());
        }
    }
    Ok(exit::OK)
}

/// Prints a table for each device and type.
fn print(results: &Results) -> anyhow::Result<()> {
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
        if peers.is_empty() { String::new() } else { format!("\n  peers: {}", peers.join("; ")) };
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
            speed_text(row.gflops),
            or_dash(row.roofline_share.map(|share| format!("{:.1}%", 100.0 * share))),
            row.error_text(),
            format!("{:.1}%", 100.0 * row.cv),
        ];
        if with_plain {
            cells.push(or_dash(row.time_by_plain.map(|time| format!("{time:.3}"))));
        }
        for name in &peers {
            let peer = row.peers.iter().find(|peer| peer.name == *name);
            cells.push(or_dash(peer.map(|peer| speed_text(peer.gflops))));
            cells.push(or_dash(peer.map(|peer| format!("{:.3}", peer.ratio))));
        }
        table.row(cells);
    }
    table.print()
}

/// How far the copies of a streamed matmul overlapped its arithmetic.
fn print_overlap(row: &Row) -> anyhow::Result<()> {
    let Some(overlap) = row.overlap else { return Ok(()) };
    print_line(&format!(
        "  {} {}: copies {:.2} ms, matmul {:.2} ms, overlap {:.2} ms (by the device's clock)",
        row.dims(),
        row.variant,
        overlap.copying_ms,
        overlap.computing_ms,
        overlap.both_ms
    ))
}

/// The command that reproduces these results, without the options that write files.
fn command_line(arguments: impl Iterator<Item = String>) -> String {
    let mut words = vec!["polaris".to_owned()];
    let mut is_file = false;
    for argument in arguments {
        let option = argument.split('=').next().unwrap_or_default();
        let writes = matches!(option, "--report" | "--save");
        if !writes && !is_file {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_=:,./".contains(c);
            let is_plain = argument.chars().all(plain);
            words.push(if is_plain { argument.clone() } else { format!("'{argument}'") });
        }
        is_file = writes && !argument.contains('=');
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::command_line;

    #[test]
    fn the_command_is_kept_without_its_files() {
        let line = "bench gemm --report out.html --sizes 64,128 --save=there --peers";
        let words = line.split(' ').map(str::to_owned);
        assert_eq!(command_line(words), "polaris bench gemm --sizes 64,128 --peers");
    }
}
