//! Threads that share the work of one operation.
//!
//! Operations are short (microseconds to milliseconds) and follow one another closely, so what
//! counts is the time from the call to the first work on another core. The caller takes part
//! itself, helpers spin for a moment before they sleep, and the caller never waits for a helper
//! that has not begun. A general work-stealing pool wakes a sleeping thread for every call made
//! from outside and lets the caller idle meanwhile.

use std::any::Any;
use std::cell::UnsafeCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{JoinHandle, Thread};

use crate::{Error, Result};

/// The most threads of a pool: more than the processors of any machine of today, and few enough that their
/// stacks fit into the address space.
pub const MAX_THREADS: usize = 1024;

/// A helper's stack, as large as the standard library's threads have it by default.
const STACK: usize = 2 << 20;

/// The address space that a thread takes besides its stack: glibc gives it a heap of up to 128 MiB; guard
/// pages and the signal stack are small.
const BESIDES_STACK: usize = 130 << 20;

/// A helper looks this often for new work before it sleeps: about 20 microseconds, the order of
/// the gap between two operations of a model.
const SPINS: u32 = 4_000;

/// `state` holds the number of the current job, an open bit and the number of helpers inside it.
const INSIDE: u64 = 0xFFFF;
const OPEN: u64 = 1 << 16;
const NEXT_JOB: u64 = 1 << 17;

type Task = dyn Fn(usize) + Sync;

struct Shared {
    /// Only the caller (who holds `callers`) opens and closes a job; a helper enters an open job
    /// by raising the count, and only then may look at `job`.
    state: AtomicU64,
    job: UnsafeCell<Option<*const Task>>,
    tasks: AtomicUsize,
    next: AtomicUsize,
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    stopping: AtomicBool,
    sleeping: AtomicUsize,
}

// SAFETY: `job` is written by the caller only while no helper is inside (count zero, closed), and
// read by helpers only while they are counted; `state` orders the two.
unsafe impl Sync for Shared {}
// SAFETY: the pointer in `job` is to a `Sync` closure that outlives the job.
unsafe impl Send for Shared {}

/// A fixed set of threads; the calling thread counts as one.
pub struct ThreadPool {
    shared: Arc<Shared>,
    helpers: Vec<JoinHandle<()>>,
    callers: Mutex<()>,
}

impl ThreadPool {
    /// A pool in which `threads` threads work, the caller included.
    ///
    /// # Errors
    /// `InvalidThreads` if there would be none or more than [`MAX_THREADS`]; `TooFewThreads` if the system
    /// refuses some of them.
    pub fn new(threads: usize) -> Result<Self> {
        if !(1..=MAX_THREADS).contains(&threads) {
            return Err(Error::InvalidThreads { asked: threads, max: MAX_THREADS });
        }
        let (pool, refused) = Self::start(threads);
        match refused {
            None => Ok(pool),
            Some(source) => {
                Err(Error::TooFewThreads { asked: threads, made: pool.threads(), source })
            }
        }
    }

    /// A pool of as many threads as the system allows, up to `threads`.
    pub(crate) fn up_to(threads: usize) -> Self {
        let (pool, refused) = Self::start(threads.min(MAX_THREADS));
        if let Some(why) = refused {
            log::warn!("the system allows {} of {threads} threads ({why})", pool.threads());
        }
        pool
    }

    /// A pool of at most so many threads, and why there are fewer.
    fn start(threads: usize) -> (Self, Option<io::Error>) {
        let shared = Arc::new(Shared {
            state: AtomicU64::new(0),
            job: UnsafeCell::new(None),
            tasks: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            panic: Mutex::new(None),
            stopping: AtomicBool::new(false),
            sleeping: AtomicUsize::new(0),
        });
        let (started, starts) = mpsc::sync_channel(1);
        let mut pool = Self { shared, helpers: Vec::new(), callers: Mutex::new(()) };
        for index in 1..threads {
            if !has_room_for_a_thread() {
                return (pool, Some(io::ErrorKind::OutOfMemory.into()));
            }
            let (shared, started) = (Arc::clone(&pool.shared), started.clone());
            let builder = std::thread::Builder::new().name(format!("polaris-{index}"));
            let helper = builder.stack_size(STACK).spawn(move || {
                let _ = started.send(());
                shared.help();
            });
            match helper {
                Ok(helper) => pool.helpers.push(helper),
                Err(why) => return (pool, Some(why)),
            }
            // Until it has what it needs, nobody else may use up the room.
            let _ = starts.recv();
        }
        (pool, None)
    }

    /// How many threads work, the caller included.
    pub fn threads(&self) -> usize {
        self.helpers.len() + 1
    }

    /// Runs `task(0)` to `task(tasks - 1)`, each once, in any order, and returns when all are
    /// done. A call made while another one is under way (from another thread, or from within a
    /// task) runs on the calling thread alone.
    ///
    /// # Panics
    /// If a task panics, with that task's panic, once no task runs any more.
    pub fn run(&self, tasks: usize, task: impl Fn(usize) + Sync) {
        if tasks <= 1 || self.helpers.is_empty() {
            return (0..tasks).for_each(&task);
        }
        self.share(tasks, &task);
    }

    /// Several tasks on all threads. Hundreds of callers share this code: compiled for each, it was 250 KiB of the
    /// binary, and a task is long beside a call through a pointer.
    fn share(&self, tasks: usize, task: &(dyn Fn(usize) + Sync + '_)) {
        let Ok(_only_caller) = self.callers.try_lock() else {
            return (0..tasks).for_each(task);
        };
        let shared = &*self.shared;
        let pointer: *const (dyn Fn(usize) + Sync + '_) = task;
        // SAFETY: this only erases the lifetime. Helpers use the pointer only while counted
        // inside the job, and this call does not return or unwind before the count is zero.
        let pointer: *const Task = unsafe { std::mem::transmute(pointer) };
        // SAFETY: the previous job is closed and its count is zero, so no helper reads `job`.
        unsafe { *shared.job.get() = Some(pointer) };
        shared.tasks.store(tasks, Ordering::Relaxed);
        shared.next.store(0, Ordering::Relaxed);
        let job = (shared.state.load(Ordering::Relaxed) & !(OPEN | INSIDE)).wrapping_add(NEXT_JOB);
        // SeqCst pairs with the helper that announces its sleep and then looks at `state`: one of
        // the two sees the other.
        shared.state.store(job | OPEN, Ordering::SeqCst);
        if shared.sleeping.load(Ordering::SeqCst) > 0 {
            self.helpers.iter().map(JoinHandle::thread).for_each(Thread::unpark);
        }
        let mine = catch_unwind(AssertUnwindSafe(|| shared.work(task)));
        shared.state.fetch_and(!OPEN, Ordering::AcqRel);
        let mut spins = 0;
        while shared.state.load(Ordering::Acquire) & INSIDE != 0 {
            spins += 1;
            if spins < SPINS {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        let theirs = shared.panic.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(panic) = mine.err().or(theirs) {
            drop(_only_caller);
            resume_unwind(panic);
        }
    }

    /// Splits `len` items into chunks of a multiple of `grain` and runs `work(start..end)` on
    /// each: on this thread alone if there is only one grain, otherwise a few chunks a thread, so
    /// that a thread that was held up is not waited for long.
    pub fn for_chunks(
        &self,
        len: usize,
        grain: usize,
        work: impl Fn(std::ops::Range<usize>) + Sync,
    ) {
        let grains = len.div_ceil(grain.max(1));
        if grains <= 1 || self.helpers.is_empty() {
            if len > 0 {
                work(0..len);
            }
            return;
        }
        let chunk = grains.div_ceil(self.threads() * 4) * grain;
        self.run(len.div_ceil(chunk), |i| work(i * chunk..len.min((i + 1) * chunk)));
    }
}

impl Shared {
    /// Takes tasks until there are none.
    fn work(&self, task: &(dyn Fn(usize) + Sync + '_)) {
        let tasks = self.tasks.load(Ordering::Relaxed);
        loop {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            if index >= tasks {
                return;
            }
            task(index);
        }
    }

    /// A helper's life.
    fn help(&self) {
        let mut seen = 0;
        while let Some(job) = self.await_job(seen) {
            seen = job;
            if !self.enter(job) {
                continue;
            }
            // SAFETY: this helper is counted inside the open job, so `job` is set and its closure
            // is alive until the count is lowered.
            let task = unsafe { (*self.job.get()).map(|task| &*task) };
            if let Some(task) = task
                && let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.work(task)))
            {
                // The other threads stop taking tasks; the caller raises the panic again.
                self.next.store(usize::MAX / 2, Ordering::Relaxed);
                *self.panic.lock().unwrap_or_else(PoisonError::into_inner) = Some(panic);
            }
            self.state.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Waits for an open job other than `seen`; `None` when the pool stops.
    fn await_job(&self, seen: u64) -> Option<u64> {
        let new_job = || {
            let state = self.state.load(Ordering::SeqCst);
            let job = state & !(OPEN | INSIDE);
            (state & OPEN != 0 && job != seen).then_some(job)
        };
        loop {
            for _ in 0..SPINS {
                if let Some(job) = new_job() {
                    return Some(job);
                }
                std::hint::spin_loop();
            }
            self.sleeping.fetch_add(1, Ordering::SeqCst);
            let found = new_job();
            let stopping = self.stopping.load(Ordering::SeqCst);
            if found.is_none() && !stopping {
                std::thread::park();
            }
            self.sleeping.fetch_sub(1, Ordering::SeqCst);
            if stopping {
                return None;
            }
            if found.is_some() {
                return found;
            }
        }
    }

    /// Counts this helper inside the job if it is still open.
    fn enter(&self, job: u64) -> bool {
        self.state
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |state| {
                (state & !INSIDE == job | OPEN).then(|| state + 1)
            })
            .is_ok()
    }
}

/// Whether the address space has room for one more thread. One that starts without room for its signal
/// stack ends the process, so that this is asked before.
fn has_room_for_a_thread() -> bool {
    let mut space = Vec::<u8>::new();
    let fits = space.try_reserve_exact(STACK + BESIDES_STACK).is_ok();
    // Otherwise the compiler may leave the allocation out and call it a success.
    std::hint::black_box(&space);
    fits
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for helper in self.helpers.drain(..) {
            helper.thread().unpark();
            // A helper's panics were caught and raised in `run`.
            let _ = helper.join();
        }
    }
}

impl std::fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ThreadPool({} threads)", self.threads())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(counter: &AtomicUsize, value: usize) {
        counter.fetch_add(value, Ordering::Relaxed);
    }

    #[test]
    fn every_task_runs_once() {
        for threads in [1, 2, 5] {
            let pool = ThreadPool::new(threads).unwrap();
            for tasks in [0, 1, 2, 3, 100, 1000] {
                let counts: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
                pool.run(tasks, |i| add(&counts[i], 1));
                assert!(counts.iter().all(|c| c.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn many_short_jobs_and_sleeps() {
        let pool = ThreadPool::new(3).unwrap();
        let sum = AtomicUsize::new(0);
        for round in 0..20_000 {
            pool.run(3, |i| add(&sum, i));
            if round % 5_000 == 0 {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
        }
        assert_eq!(sum.into_inner(), 3 * 20_000);
    }

    #[test]
    fn chunks_cover_the_range() {
        let pool = ThreadPool::new(2).unwrap();
        for (len, grain) in [(0, 4), (3, 4), (4, 4), (5, 4), (1000, 7)] {
            let seen: Vec<AtomicUsize> = (0..len).map(|_| AtomicUsize::new(0)).collect();
            pool.for_chunks(len, grain, |range| {
                assert_eq!(range.start % grain, 0);
                range.for_each(|i| add(&seen[i], 1));
            });
            assert!(seen.iter().all(|c| c.load(Ordering::Relaxed) == 1), "{len} {grain}");
        }
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = ThreadPool::new(2).unwrap();
        for _ in 0..50 {
            let result = catch_unwind(AssertUnwindSafe(|| {
                pool.run(64, |i| assert!(i != 40, "task forty"));
            }));
            assert!(result.is_err());
            let done = AtomicUsize::new(0);
            pool.run(8, |_| add(&done, 1));
            assert_eq!(done.into_inner(), 8);
        }
    }

    #[test]
    fn nested_and_concurrent_calls_are_served() {
        let pool = ThreadPool::new(2).unwrap();
        let total = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        pool.run(4, |_| pool.run(2, |_| add(&total, 1)));
                    }
                });
            }
        });
        assert_eq!(total.into_inner(), 4 * 200 * 4 * 2);
    }

    #[test]
    fn no_threads_or_too_many_are_an_error() {
        for asked in [0, MAX_THREADS + 1, 100_000, usize::MAX] {
            let message = ThreadPool::new(asked).unwrap_err().to_string();
            assert!(message.contains(&format!("{asked} threads")), "{message}");
            assert!(message.contains("from 1 to 1024"), "{message}");
        }
    }
}
