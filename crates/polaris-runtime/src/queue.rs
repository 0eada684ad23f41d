//! In-order queues of work, events that mark points in them, and the time work took.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::Result;
use crate::memory::DeviceMemory;

/// Looking again and again for this long catches short commands with hardly any delay.
const LOOKING: Duration = Duration::from_micros(30);
/// For this long other threads get the core between two looks.
const YIELDING: Duration = Duration::from_micros(200);
/// Beyond that, each sleep is this part of the time waited so far, so that the delay at the end is
/// too.
const SLEEP_SHARE: u32 = 64;
const LONGEST_SLEEP: Duration = Duration::from_millis(1);

/// How a queue is made.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueueOptions {
    /// Keep the device's own time stamps of each command.
    pub profiling: bool,
    /// Add up how long each kernel takes, by its name; needs `profiling`.
    pub kernel_times: bool,
}

/// An identity for each queue of the process: memory remembers the queue it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueId(u32);

impl QueueId {
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A range of bytes of a device's memory.
#[derive(Clone, Copy)]
pub struct MemoryRange<'a> {
    /// The memory.
    pub memory: &'a dyn DeviceMemory,
    /// The first byte.
    pub offset: usize,
    /// How many bytes.
    pub bytes: usize,
}

/// Work runs in the order it was put in. Between queues there is no order except through events:
/// `b.wait_for(&a.record()?)`.
///
/// The ranges handed in lie inside their memory, belong to the queue's device, and (for the CPU)
/// the caller holds the access guards; `Buffer` is the caller that sees to it.
pub trait Queue: Send + Sync + fmt::Debug {
    /// Which queue this is.
    fn id(&self) -> QueueId;

    /// Copies host bytes to the device. The source may be reused when this returns, the copy
    /// itself may still be under way.
    fn upload(&self, source: &[u8], target: MemoryRange<'_>) -> Result<Event>;

    /// Copies device bytes to the host and waits for them.
    fn download(&self, source: MemoryRange<'_>, target: &mut [u8]) -> Result<()>;

    /// Starts a copy to the host that is waited for later.
    fn start_download(&self, source: MemoryRange<'_>) -> Result<PendingDownload>;

    /// Copies within the device.
    fn copy(&self, source: MemoryRange<'_>, target: MemoryRange<'_>) -> Result<Event>;

    /// Fills with a repeated pattern of 1, 2, 4 or 8 bytes.
    fn fill(&self, pattern: &[u8], target: MemoryRange<'_>) -> Result<Event>;

    /// An event that completes when everything enqueued so far has.
    fn record(&self) -> Result<Event>;

    /// Holds everything enqueued from now on until the event has completed.
    fn wait_for(&self, event: &Event) -> Result<()>;

    /// The backend's own type.
    fn as_any(&self) -> &dyn std::any::Any;

    /// Hands enqueued work to the device without waiting.
    fn flush(&self) -> Result<()>;

    /// Waits until everything enqueued has completed. Does not spin.
    fn finish(&self) -> Result<()> {
        self.record()?.wait()
    }
}

/// The backend's half of an event.
pub(crate) trait Completion: Send + Sync + fmt::Debug {
    fn is_complete(&self) -> Result<bool>;
    fn timestamps(&self) -> Option<Timestamps>;
    fn as_any(&self) -> &dyn std::any::Any;
}

/// The device's own clock around a command, in nanoseconds since an arbitrary start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timestamps {
    /// When the command was put into the queue.
    pub queued: u64,
    /// When it began to run.
    pub started: u64,
    /// When it ended.
    pub ended: u64,
}

impl Timestamps {
    /// How long it ran.
    pub fn duration(&self) -> Duration {
        Duration::from_nanos(self.ended.saturating_sub(self.started))
    }
}

/// A point in a queue. On the CPU, where work is done when the call returns, it is always past.
#[derive(Debug, Clone)]
pub struct Event(Option<Arc<dyn Completion>>);

impl Event {
    /// A point that is past.
    pub const COMPLETE: Self = Self(None);

    pub(crate) fn pending(completion: impl Completion + 'static) -> Self {
        Self(Some(Arc::new(completion)))
    }

    pub(crate) fn completion(&self) -> Option<&dyn Completion> {
        self.0.as_deref()
    }

    /// Waits without spinning until the point is reached: drivers' own waits may burn a core. Nor by callback:
    /// on NVIDIA's driver that made a batch of launches that takes a millisecond last about twenty.
    ///
    /// # Errors
    /// If the device failed.
    pub fn wait(&self) -> Result<()> {
        self.wait_unless(&|| false)
    }

    /// Waits without spinning until the point is reached, or until `stop` says so.
    ///
    /// # Errors
    /// If the device failed.
    pub fn wait_unless(&self, stop: &dyn Fn() -> bool) -> Result<()> {
        let start = Instant::now();
        while !self.is_complete()? && !stop() {
            match start.elapsed() {
                waited if waited < LOOKING => std::hint::spin_loop(),
                waited if waited < YIELDING => std::thread::yield_now(),
                waited => std::thread::sleep((waited / SLEEP_SHARE).min(LONGEST_SLEEP)),
            }
        }
        Ok(())
    }

    /// Whether the point is reached.
    ///
    /// # Errors
    /// If the device failed.
    pub fn is_complete(&self) -> Result<bool> {
        self.0.as_ref().map_or(Ok(true), |completion| completion.is_complete())
    }

    /// The device's time stamps, if the queue keeps them and the command has ended.
    pub fn timestamps(&self) -> Option<Timestamps> {
        self.0.as_ref().and_then(|completion| completion.timestamps())
    }
}

/// Copies the bytes that have arrived to where they are wanted.
pub(crate) type Collect = Box<dyn FnOnce(&mut [u8]) + Send>;

/// A download under way.
#[must_use = "the bytes arrive when the download is waited for"]
pub struct PendingDownload {
    pub(crate) event: Event,
    pub(crate) collect: Collect,
    pub(crate) bytes: usize,
}

impl PendingDownload {
    /// Whether the bytes have arrived.
    ///
    /// # Errors
    /// If the device failed.
    pub fn is_complete(&self) -> Result<bool> {
        self.event.is_complete()
    }

    /// Waits for the bytes.
    ///
    /// # Errors
    /// If the device failed.
    pub fn wait(self) -> Result<Vec<u8>> {
        let mut target = vec![0; self.bytes];
        self.event.wait()?;
        (self.collect)(&mut target);
        Ok(target)
    }
}
