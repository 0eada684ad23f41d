//! Bounds what is enqueued on a device, so that a cancelled run leaves little behind.

use std::collections::VecDeque;
use std::time::Duration;

use polaris_runtime::{DeviceRef, Event};

use crate::Result;

/// Instructions between two marks in the queue in a first run, of which nobody knows how long it takes.
const FIRST_SPACING: usize = 8;
/// Work between two marks, by the time of the last run: a mark costs some 20 microseconds.
const WORK_PER_MARK: Duration = Duration::from_millis(2);
/// Marks that may be ahead of the device: enough that it never waits for the host.
const MARKS_AHEAD: usize = 3;
/// A run as short as this is over before anybody could cancel it.
const SHORT_RUN: Duration = Duration::from_millis(10);

/// What a run has enqueued on its device. Runs that nobody can cancel, and short ones, are not held up.
pub(super) struct InFlight<'a> {
    device: Option<&'a DeviceRef>,
    /// Instructions between two marks.
    spacing: usize,
    unmarked: usize,
    marks: VecDeque<Event>,
}

impl<'a> InFlight<'a> {
    /// For a run of so many instructions, of which the last one took so long.
    pub fn new(
        device: Option<&'a DeviceRef>,
        instructions: usize,
        last_run: Option<Duration>,
    ) -> Self {
        let is_short = last_run.is_some_and(|taken| taken < SHORT_RUN);
        let device = device.filter(|_| polaris_onnx::is_cancellable() && !is_short);
        let spacing = last_run.map_or(FIRST_SPACING, |taken| {
            let share = WORK_PER_MARK.as_secs_f64() / taken.as_secs_f64();
            ((instructions as f64 * share) as usize).max(1)
        });
        Self { device, spacing, unmarked: 0, marks: VecDeque::new() }
    }

    /// Counts an instruction that was enqueued; waits where too many are.
    pub fn add(&mut self) -> Result<()> {
        let Some(device) = self.device else { return Ok(()) };
        self.unmarked += 1;
        if self.unmarked >= self.spacing {
            self.unmarked = 0;
            self.marks.push_back(device.queue().record()?);
        }
        if self.marks.len() > MARKS_AHEAD
            && let Some(mark) = self.marks.pop_front()
        {
            wait(&mark)?;
        }
        Ok(())
    }

    /// Waits for everything, so that what follows does not wait beyond the caller's reach.
    pub fn finish(&mut self) -> Result<()> {
        let Some(device) = self.device else { return Ok(()) };
        self.marks.clear();
        wait(&device.queue().record()?)
    }
}

/// Waits for a mark, or until the run is cancelled.
fn wait(mark: &Event) -> Result<()> {
    mark.wait_unless(&|| polaris_onnx::check_cancelled().is_err())?;
    Ok(polaris_onnx::check_cancelled()?)
}

#[cfg(test)]
mod tests {
    use polaris_core::CancellationToken;
    use polaris_onnx::Limits;
    use polaris_runtime::{Runtime, RuntimeOptions};

    use super::*;

    #[test]
    fn few_instructions_are_ahead_of_the_device() {
        let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
        for device in runtime.devices() {
            let mut free = InFlight::new(Some(device), 100, None);
            (0..100).for_each(|_| free.add().unwrap());
            assert!(free.marks.is_empty(), "a run that nobody can cancel is not held up");

            let token = CancellationToken::new();
            let limits = Limits { cancellation: vec![token.clone()], ..Limits::default() };
            let _limits = limits.enter();
            let mut short = InFlight::new(Some(device), 100, Some(SHORT_RUN / 2));
            (0..100).for_each(|_| short.add().unwrap());
            assert!(short.marks.is_empty(), "a short run is not held up");
            // A second for 100 instructions: each of them is marked.
            for (last_run, spacing) in [(None, FIRST_SPACING), (Some(Duration::from_secs(1)), 1)] {
                let mut bounded = InFlight::new(Some(device), 100, last_run);
                assert_eq!(bounded.spacing, spacing);
                for _ in 0..100 {
                    bounded.add().unwrap();
                    assert!(bounded.marks.len() <= MARKS_AHEAD);
                }
                assert_eq!(bounded.marks.len(), MARKS_AHEAD);
                bounded.finish().unwrap();
            }
            let mut cancelled = InFlight::new(Some(device), 100, None);
            token.cancel();
            assert!(cancelled.finish().unwrap_err().is_cancelled());
        }
    }
}
