//! Faults on purpose, so that tests can see that none of them is ever chosen.

use std::collections::BTreeMap;

/// What a driver may do to a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The kernel never returns.
    Hang,
    /// The process goes down.
    Crash,
    /// The result is wrong.
    Wrong,
}

/// Which of a worker's candidates are to fail, counted from one.
#[derive(Debug, Default)]
pub struct Injected {
    faults: BTreeMap<usize, Fault>,
    seen: usize,
}

impl Injected {
    /// From `POLARIS_TUNE_INJECT`, as in `hang=2,wrong=5`. Nobody but tests sets it.
    pub fn from_environment() -> Self {
        let text = std::env::var("POLARIS_TUNE_INJECT").unwrap_or_default();
        let fault = |part: &str| {
            let (name, number) = part.split_once('=')?;
            let fault = match name {
                "hang" => Fault::Hang,
                "crash" => Fault::Crash,
                "wrong" => Fault::Wrong,
                _ => return None,
            };
            Some((number.parse().ok()?, fault))
        };
        Self { faults: text.split(',').filter_map(fault).collect(), seen: 0 }
    }

    /// The fault of the next candidate, if it has one.
    pub fn next(&mut self) -> Option<Fault> {
        self.seen += 1;
        self.faults.get(&self.seen).copied()
    }
}
