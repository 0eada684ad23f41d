//! The report: faults by cause, with the command that reproduces each.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;

use crate::judge::{Fault, Kind};
use crate::trial::{Id, Settings};

/// Trials of one cause that are kept.
const KEPT: usize = 3;
/// The largest file that is kept; larger ones are made again by the command.
const LARGEST_KEPT: u64 = 16 << 20;

pub struct Report {
    start: Instant,
    binary: String,
    seed: u64,
    keep: Option<PathBuf>,
    trials: BTreeMap<&'static str, u64>,
    causes: BTreeMap<(Kind, String), Cause>,
}

struct Cause {
    count: u64,
    first: Id,
    detail: String,
}

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    binary: &'a str,
    seed: u64,
    seconds: f64,
    trials: &'a BTreeMap<&'static str, u64>,
    faults: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    kind: Kind,
    cause: &'a str,
    count: u64,
    family: &'static str,
    index: u64,
    detail: &'a str,
    reproduce: String,
}

impl Report {
    pub fn new(binary: &Path, seed: u64, keep: Option<PathBuf>) -> Self {
        Self {
            start: Instant::now(),
            binary: binary.display().to_string(),
            seed,
            keep,
            trials: BTreeMap::new(),
            causes: BTreeMap::new(),
        }
    }

    /// Counts a trial, and keeps it if it shows a fault that was not seen often enough.
    pub fn add(
        &mut self,
        settings: &Settings,
        id: Id,
        faults: &[Fault],
        commands: &[String],
        folder: Option<&Path>,
    ) -> Result<()> {
        *self.trials.entry(id.family).or_default() += 1;
        for fault in faults {
            let key = (fault.kind, fault.cause.clone());
            let cause = self.causes.entry(key).or_insert_with(|| Cause {
                count: 0,
                first: id,
                detail: fault.detail.clone(),
            });
            cause.count += 1;
            let count = cause.count;
            if count == 1 {
                let place = self.reproduce(id);
                eprintln!("FAULT {:?}: {}\n  {place}", fault.kind, fault.cause);
            }
            if count <= KEPT as u64
                && let (Some(keep), Some(folder)) = (&self.keep, folder)
            {
                let to = keep.join(format!("{}-{}-{}", id.family, settings.seed, id.index));
                keep_trial(&to, folder, fault, commands, &self.reproduce(id))?;
            }
        }
        Ok(())
    }

    pub fn is_clean(&self) -> bool {
        self.causes.is_empty()
    }

    fn reproduce(&self, id: Id) -> String {
        let Self { binary, seed, .. } = self;
        format!(
            "polaris-trials --binary {binary} --seed {seed} --family {} --index {} --keep kept",
            id.family, id.index
        )
    }

    pub fn json(&self) -> Result<String> {
        let faults = (self.causes.iter())
            .map(|((kind, cause), found)| Entry {
                kind: *kind,
                cause,
                count: found.count,
                family: found.first.family,
                index: found.first.index,
                detail: &found.detail,
                reproduce: self.reproduce(found.first),
            })
            .collect();
        let document = Document {
            schema: "polaris.trials/1",
            binary: &self.binary,
            seed: self.seed,
            seconds: self.start.elapsed().as_secs_f64(),
            trials: &self.trials,
            faults,
        };
        Ok(serde_json::to_string_pretty(&document)?)
    }

    pub fn text(&self) -> String {
        let mut text = String::new();
        for ((kind, cause), found) in &self.causes {
            let _ = writeln!(text, "{kind:?}, {} times: {cause}", found.count);
            for line in found.detail.lines().take(12) {
                let _ = writeln!(text, "    {line}");
            }
            let _ = writeln!(text, "    $ {}\n", self.reproduce(found.first));
        }
        let counts: Vec<String> =
            self.trials.iter().map(|(family, count)| format!("{family} {count}")).collect();
        let _ = write!(
            text,
            "{} trials in {:.0} s ({}): {} faults of {} causes",
            self.trials.values().sum::<u64>(),
            self.start.elapsed().as_secs_f64(),
            counts.join(", "),
            self.causes.values().map(|cause| cause.count).sum::<u64>(),
            self.causes.len()
        );
        text
    }
}

/// Copies what a trial put into its folder, with a script that runs its processes again.
fn keep_trial(
    to: &Path,
    folder: &Path,
    fault: &Fault,
    commands: &[String],
    reproduce: &str,
) -> Result<()> {
    let (from, place) = (folder.display().to_string(), "$(dirname \"$0\")");
    std::fs::create_dir_all(to)?;
    copy(&folder.join("in"), &to.join("in"))?;
    let mut script = format!("#!/bin/sh\n# {:?}: {}\n", fault.kind, fault.cause.replace('\n', " "));
    for line in fault.detail.lines() {
        let _ = writeln!(script, "#   {line}");
    }
    let _ = write!(
        script,
        "# Special files are not kept; the whole trial again:\n#   {reproduce}\n\
         # Run this as a user that may be harmed, with POLARIS set to the binary.\n\
         here=$(cd \"{place}\" && pwd)\ncd \"$here/in\" || exit 1\n"
    );
    for command in commands {
        let _ = writeln!(script, "{}", command.replace(&from, "\"$here\""));
    }
    std::fs::write(to.join("commands.sh"), script)?;
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)?.flatten() {
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_file() && entry.metadata()?.len() <= LARGEST_KEPT {
            // Files without permissions cannot be read by everyone; the command makes them again.
            let _ = std::fs::copy(entry.path(), target);
        }
    }
    Ok(())
}
