//! Runs trials on several threads; those that hang are repeated alone before they count.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;

use crate::families::Family;
use crate::judge::{Fault, Kind};
use crate::report::Report;
use crate::trial::{Id, Settings, Trial};

/// Models with graphs in graphs in graphs are written and dropped by recursion.
const STACK: usize = 256 << 20;

/// The trials of a run: each family gets its share, at least one trial, and they take turns so that slow
/// families do not come all at once.
pub fn schedule(families: &[&'static Family], runs: u64) -> Vec<(&'static Family, u64)> {
    let total: u64 = families.iter().map(|family| family.weight).sum();
    let mut all: Vec<(f64, &'static Family, u64)> = Vec::new();
    for &family in families {
        let share = (runs * family.weight / total).max(1);
        for index in 0..share {
            all.push(((index as f64 + 0.5) / share as f64, family, index));
        }
    }
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    all.into_iter().map(|(_, family, index)| (family, index)).collect()
}

/// Runs all of them.
pub fn run(
    settings: &Settings,
    trials: &[(&'static Family, u64)],
    jobs: usize,
    report: &Mutex<Report>,
) -> Result<()> {
    let next = AtomicUsize::new(0);
    let again = Mutex::new(Vec::new());
    std::thread::scope(|scope| -> Result<()> {
        let work = || -> Result<()> {
            while let Some(&(family, index)) = trials.get(next.fetch_add(1, Ordering::Relaxed)) {
                if settings.stop.load(Ordering::Relaxed) {
                    break;
                }
                let repeat = one(settings, family, index, report, true)?;
                if let Some(cause) = repeat {
                    again.lock().expect("no thread should panic").push((family, index, cause));
                }
            }
            Ok(())
        };
        let threads: Vec<_> = (0..jobs.max(1))
            .map(|_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work))
            .collect::<std::io::Result<_>>()?;
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().expect("a trial's own code should not panic"))
    })?;
    let mut confirmed: HashMap<String, usize> = HashMap::new();
    for (family, index, cause) in again.into_inner().expect("no thread should panic") {
        // A cause that was seen twice alone needs no third time.
        let seen = confirmed.entry(cause.clone()).or_default();
        if *seen >= 2 {
            let id = Id { family: family.name, index };
            let detail = "not repeated: others of this cause were".to_owned();
            let fault = Fault { kind: Kind::Hang, cause, detail };
            report.lock().expect("no thread should panic").add(
                settings,
                id,
                &[fault],
                &[],
                None,
            )?;
            continue;
        }
        *seen += 1;
        if settings.stop.load(Ordering::Relaxed) {
            break;
        }
        one(settings, family, index, report, false)?;
    }
    Ok(())
}

/// Runs a trial. Where it hangs and `may_repeat`, nothing is reported, and the cause is returned.
fn one(
    settings: &Settings,
    family: &Family,
    index: u64,
    report: &Mutex<Report>,
    may_repeat: bool,
) -> Result<Option<String>> {
    let id = Id { family: family.name, index };
    let mut trial = Trial::new(settings, id)?;
    let result = (family.run)(&mut trial);
    let hang = trial.faults.iter().find(|fault| fault.kind == Kind::Hang);
    let repeat = hang.filter(|_| may_repeat).map(|fault| fault.cause.clone());
    if repeat.is_none() {
        let mut report = report.lock().expect("no thread should panic");
        report.add(settings, id, &trial.faults, &trial.commands, Some(trial.folder()))?;
    }
    remove(trial.folder());
    match result {
        Ok(()) => Ok(repeat),
        Err(error) => Err(error.context(format!("the trial {} {index} cannot be made", id.family))),
    }
}

/// Removes a trial's folder, whatever the modes of what lies in it.
fn remove(folder: &std::path::Path) {
    if std::fs::remove_dir_all(folder).is_err() {
        let _ = std::process::Command::new("chmod").args(["-R", "u+rwx"]).arg(folder).status();
        let _ = std::fs::remove_dir_all(folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::ALL;

    #[test]
    fn every_family_gets_its_share() {
        let families: Vec<&Family> = ALL.iter().collect();
        let trials = schedule(&families, 400);
        for family in &families {
            let count = trials.iter().filter(|(other, _)| other.name == family.name).count();
            assert!(count >= 1, "{}", family.name);
        }
        assert!((380..=420).contains(&trials.len()), "{}", trials.len());
    }
}
