//! `cargo xtask benchmarks`: docs/benchmarks.md from the results in bench/results.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use polaris_files::write_atomic;
use serde::Deserialize;

/// The version that `polaris bench gemm --save` writes.
const SCHEMA: &str = "polaris.gemm-results/1";

const INTRODUCTION: &str = "\
# Benchmarks

<!-- Made by `cargo xtask benchmarks` from bench/results; changes are made there. -->

Matrix products as `polaris bench gemm` measured them. Every line is the median of samples that were
taken in turn with the peers beside it, in the same run. A ratio is Polaris by the peer: above 1,
Polaris is faster. The [command](cli.md#polaris-bench-gemm) of each run is given; yours may be added
with `--save bench/results`.
";

/// What `cargo xtask benchmarks` is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Write the page.
    Write,
    /// Only look whether it is up to date.
    Check,
}

impl Mode {
    /// Reads the arguments after `benchmarks`; an error is a message for the user.
    pub fn parse(arguments: &[String]) -> Result<Self, String> {
        match arguments {
            [] => Ok(Self::Write),
            [flag] if flag == "--check" => Ok(Self::Check),
            [other, ..] => Err(format!("benchmarks takes only --check, not {other}")),
        }
    }
}

/// Writes the page, or checks it; false when it is out of date.
pub fn run(mode: Mode) -> Result<bool> {
    let root = crate::repository();
    let file = root.join("docs/benchmarks.md");
    let page = page(&root)?;
    if mode == Mode::Write {
        write_atomic(&file, page.as_bytes())
            .with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(true);
    }
    let is_current = crate::read_text(&file).is_ok_and(|text| text == page);
    if !is_current {
        eprintln!("docs/benchmarks.md is out of date: run `cargo xtask benchmarks`");
    }
    Ok(is_current)
}

/// A file of results. Fields that the page does not show are not read.
#[derive(Debug, Deserialize)]
struct DeviceResults {
    schema: String,
    device_name: String,
    platform: String,
    driver: String,
    runs: Vec<Run>,
}

#[derive(Debug, Deserialize)]
struct Run {
    date: String,
    polaris: String,
    command: String,
    peak_gflops: f64,
    memory_gbs: f64,
    peers: Vec<PeerVersion>,
    results: Vec<Row>,
}

#[derive(Debug, Deserialize)]
struct PeerVersion {
    name: String,
    version: String,
}

#[derive(Debug, Deserialize)]
struct Row {
    dtype: String,
    transpose: String,
    m: usize,
    n: usize,
    k: usize,
    threads: Option<usize>,
    variant: String,
    gflops: f64,
    roofline_share: Option<f64>,
    error: Option<f64>,
    cv: f64,
    time_by_plain: Option<f64>,
    peers: Vec<PeerRow>,
}

#[derive(Debug, Deserialize)]
struct PeerRow {
    name: String,
    gflops: f64,
    ratio: f64,
}

/// The page for the results in a repository.
fn page(root: &Path) -> Result<String> {
    let folder = root.join("bench/results");
    let mut files = match fs::read_dir(&folder) {
        Ok(entries) => entries
            .map(|entry| Ok(entry?.path()))
            .collect::<io::Result<Vec<_>>>()
            .with_context(|| format!("cannot read {}", folder.display()))?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => {
            return Err(error).with_context(|| format!("cannot read {}", folder.display()));
        }
    };
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut page = INTRODUCTION.to_owned();
    if files.is_empty() {
        page.push_str("\nThere are no results yet.\n");
    }
    for file in files {
        let text = crate::read_text(&file)?;
        let device: DeviceResults = serde_json::from_str(&text)
            .with_context(|| format!("{} is damaged", file.display()))?;
        ensure!(device.schema == SCHEMA, "{} is not of version {SCHEMA}", file.display());
        write_device(&mut page, &device);
    }
    Ok(page)
}

fn write_device(page: &mut String, device: &DeviceResults) {
    let _ = write!(
        page,
        "\n## {}\n\n{}, driver {}.\n",
        device.device_name, device.platform, device.driver
    );
    for run in &device.runs {
        let day = run.date.split('T').next().unwrap_or_default();
        let _ = write!(
            page,
            "\n### {day}, Polaris {}\n\n`{}`\n\nMeasured roofline: {} GFLOPS FP32, {} GB/s.",
            run.polaris,
            run.command,
            number(run.peak_gflops),
            number(run.memory_gbs)
        );
        for peer in &run.peers {
            let _ = write!(page, " {}: {}.", peer.name, peer.version);
        }
        page.push('\n');
        write_table(page, &run.results);
        write_summary(page, &run.results);
    }
}

fn write_table(page: &mut String, rows: &[Row]) {
    let mut peers: Vec<&str> = Vec::new();
    for peer in rows.iter().flat_map(|row| &row.peers) {
        if !peers.contains(&peer.name.as_str()) {
            peers.push(&peer.name);
        }
    }
    let with_threads = rows.iter().any(|row| row.threads.is_some());
    let with_plain = rows.iter().any(|row| row.time_by_plain.is_some());
    let mut headings = vec!["type", "m x n x k", "op", "variant"];
    headings.extend(with_threads.then_some("threads"));
    headings.extend(["GFLOPS", "roofline", "error", "cv"]);
    headings.extend(with_plain.then_some("time by plain"));
    headings.extend(peers.iter().flat_map(|peer| [*peer, "ratio"]));
    let _ = write!(page, "\n| {} |\n|{}\n", headings.join(" | "), "---|".repeat(headings.len()));
    let or_dash = |cell: Option<String>| cell.unwrap_or_else(|| "-".to_owned());
    for row in rows {
        let mut cells = vec![
            row.dtype.clone(),
            format!("{} x {} x {}", row.m, row.n, row.k),
            row.transpose.clone(),
            row.variant.clone(),
        ];
        if with_threads {
            cells.push(or_dash(row.threads.map(|threads| threads.to_string())));
        }
        cells.extend([
            number(row.gflops),
            or_dash(row.roofline_share.map(percent)),
            or_dash(row.error.map(|error| match row.dtype.as_str() {
                "i8" => format!("{error:.0} wrong"),
                _ => format!("{error:.1e}"),
            })),
            percent(row.cv),
        ]);
        if with_plain {
            cells.push(or_dash(row.time_by_plain.map(|time| format!("{time:.3}"))));
        }
        for name in &peers {
            let peer = row.peers.iter().find(|peer| peer.name == *name);
            cells.push(or_dash(peer.map(|peer| number(peer.gflops))));
            cells.push(or_dash(peer.map(|peer| format!("{:.3}", peer.ratio))));
        }
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    }
}

/// The ratios of each variant to each peer: geometric mean and minimum.
fn write_summary(page: &mut String, rows: &[Row]) {
    let mut ratios: BTreeMap<(&str, &str, &str), Vec<f64>> = BTreeMap::new();
    for row in rows {
        for peer in &row.peers {
            ratios.entry((&row.dtype, &row.variant, &peer.name)).or_default().push(peer.ratio);
        }
    }
    for (index, ((dtype, variant, peer), ratios)) in ratios.iter().enumerate() {
        let mean = (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp();
        let minimum = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let gap = if index == 0 { "\n" } else { "" };
        let _ = writeln!(
            page,
            "{gap}- {dtype}, {variant} by {peer}: geometric mean {mean:.3}, minimum {minimum:.3}, \
             of {} products",
            ratios.len()
        );
    }
}

fn number(value: f64) -> String {
    if value >= 100.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn percent(share: f64) -> String {
    format!("{:.1}%", 100.0 * share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_up_to_date_with_the_results() {
        assert!(run(Mode::Check).unwrap(), "run `cargo xtask benchmarks`");
    }

    #[test]
    fn arguments_are_read() {
        let parse = |words: &[&str]| {
            Mode::parse(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(parse(&[]), Ok(Mode::Write));
        assert_eq!(parse(&["--check"]), Ok(Mode::Check));
        assert!(parse(&["--fast"]).unwrap_err().contains("--fast"));
    }

    #[test]
    fn devices_have_tables_with_their_peers() {
        let row = |m: usize, ratio: f64| Row {
            dtype: "f32".into(),
            transpose: "nn".into(),
            m,
            n: 2,
            k: 3,
            threads: Some(4),
            variant: "default".into(),
            gflops: 123.4,
            roofline_share: None,
            error: Some(2e-7),
            cv: 0.015,
            time_by_plain: None,
            peers: vec![PeerRow { name: "Peer".into(), gflops: 50.0, ratio }],
        };
        let run = Run {
            date: "2026-01-31T12:00:00Z".into(),
            polaris: "0.1.0".into(),
            command: "polaris bench gemm".into(),
            peak_gflops: 200.0,
            memory_gbs: 20.0,
            peers: vec![PeerVersion { name: "Peer".into(), version: "1.2".into() }],
            results: vec![row(1, 2.0), row(5, 0.5)],
        };
        let device = DeviceResults {
            schema: SCHEMA.into(),
            device_name: "Card".into(),
            platform: "Platform".into(),
            driver: "7".into(),
            runs: vec![run],
        };
        let mut page = String::new();
        write_device(&mut page, &device);
        for part in [
            "## Card",
            "### 2026-01-31, Polaris 0.1.0",
            "| type | m x n x k | op | variant | threads | GFLOPS | roofline | error | cv | Peer | ratio |",
            "| f32 | 1 x 2 x 3 | nn | default | 4 | 123 | - | 2.0e-7 | 1.5% | 50.0 | 2.000 |",
            "- f32, default by Peer: geometric mean 1.000, minimum 0.500, of 2 products",
        ] {
            assert!(page.contains(part), "{part:?} is missing in\n{page}");
        }
    }
}
