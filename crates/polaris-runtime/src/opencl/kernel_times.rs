//! Times of the kernels of a queue, by the device's clock.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde::Serialize;

use crate::Result;
use crate::queue::Event;

/// What a kernel took, over all its launches.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct KernelTime {
    /// The program and the kernel.
    pub name: String,
    /// Its launches.
    pub launches: u64,
    /// The time between start and end, of all of them.
    pub time: Duration,
}

/// Events are kept until they are asked for, but no more than this: then their times are taken.
const MOST_PENDING: usize = 4096;

#[derive(Default)]
pub(super) struct KernelTimes {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    pending: Vec<(String, Event)>,
    totals: BTreeMap<String, (u64, Duration)>,
}

impl KernelTimes {
    pub fn add(&self, name: String, event: Event) -> Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.pending.push((name, event));
        if state.pending.len() >= MOST_PENDING { state.settle() } else { Ok(()) }
    }

    /// What was taken since the last time, the longest first.
    pub fn take(&self) -> Result<Vec<KernelTime>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.settle()?;
        let totals = std::mem::take(&mut state.totals).into_iter();
        let mut times: Vec<KernelTime> =
            totals.map(|(name, (launches, time))| KernelTime { name, launches, time }).collect();
        times.sort_by_key(|kernel| std::cmp::Reverse(kernel.time));
        Ok(times)
    }
}

impl State {
    fn settle(&mut self) -> Result<()> {
        for (name, event) in self.pending.drain(..) {
            event.wait()?;
            let total = self.totals.entry(name).or_default();
            total.0 += 1;
            if let Some(stamps) = event.timestamps() {
                total.1 += Duration::from_nanos(stamps.ended.saturating_sub(stamps.started));
            }
        }
        Ok(())
    }
}
