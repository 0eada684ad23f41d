//! Bounds what is enqueued on a device, so that a cancelled run leaves little behind.

use std::collections::VecDeque;

use polaris_runtime::{DeviceRef, Event};

use crate::Result;

/// Instructions between two marks in the queue: a mark costs about as much as a launch.
const INSTRUCTIONS_PER_MARK: usize = 8;
/// Marks that may be ahead of the device: enough that it never waits for the host.
const MARKS_AHEAD: usize = 3;

/// What a run has enqueued on its device. Runs that nobody can cancel are not held up.
pub(super) struct InFlight<'a> {
    device: Option<&'a DeviceRef>,
    unmarked: usize,
    marks: VecDeque<Event>,
}

impl<'a> InFlight<'a> {
    pub fn new(device: Option<&'a DeviceRef>) -> Self {
        let device = device.filter(|_| polaris_onnx::is_cancellable());
        Self { device, unmarked: 0, marks: VecDeque::new() }
    }

    /// Counts an instruction that was enqueued; waits where too many are.
    pub fn add(&mut self) -> Result<()> {
        let Some(device) = self.device else { return Ok(()) };
        self.unmarked += 1;
        if self.unmarked == INSTRUCTIONS_PER_MARK {
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
            let mut free = InFlight::new(Some(device));
            (0..100).for_each(|_| free.add().unwrap());
            assert!(free.marks.is_empty(), "a run that nobody can cancel is not held up");

            let token = CancellationToken::new();
            let limits = Limits { cancellation: vec![token.clone()], ..Limits::default() };
            let _limits = limits.enter();
            let mut bounded = InFlight::new(Some(device));
            for _ in 0..100 {
                bounded.add().unwrap();
                assert!(bounded.marks.len() <= MARKS_AHEAD);
            }
            assert_eq!(bounded.marks.len(), MARKS_AHEAD);
            bounded.finish().unwrap();
            token.cancel();
            assert!(bounded.finish().unwrap_err().is_cancelled());
        }
    }
}
