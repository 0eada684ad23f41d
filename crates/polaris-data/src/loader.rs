//! Turns a list of examples into batches, epoch after epoch, on a background thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use crate::{Augment, Batch, Dataset, Error, Random, Result, Spec, Values};

/// Streams of random numbers that must not be the same: the order of an epoch, and the choices
/// for an example.
const ORDER: u64 = 0;
const AUGMENT: u64 = 1;

/// How batches are made.
#[derive(Debug, Clone)]
pub struct LoaderOptions {
    /// Examples per batch.
    pub batch: usize,
    /// Whether each epoch has an order of its own.
    pub shuffle: bool,
    /// What order and augmentation depend on, besides the epoch.
    pub seed: u64,
    /// Whether the last batch is left out if it is not full.
    pub drop_last: bool,
    /// Random changes to each input, one after the other; for images `[C, H, W]`.
    pub augment: Vec<Augment>,
    /// How many batches are made ahead on a background thread; 0 makes each when it is requested, on the thread that
    /// asks.
    pub prefetch: usize,
}

impl Default for LoaderOptions {
    fn default() -> Self {
        LoaderOptions {
            batch: 32,
            shuffle: false,
            seed: 0,
            drop_last: false,
            augment: Vec::new(),
            prefetch: 2,
        }
    }
}

/// Makes the batches of some of a data set's examples.
#[derive(Clone)]
pub struct Loader {
    shared: Arc<Shared>,
}

struct Shared {
    dataset: Arc<dyn Dataset>,
    indices: Vec<usize>,
    options: LoaderOptions,
    input_elements: usize,
    target_elements: usize,
}

impl std::fmt::Debug for Loader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loader")
            .field("examples", &self.shared.indices.len())
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

impl Loader {
    /// A loader of the examples at `indices`. Everything that can be checked is checked here, so
    /// that a mistake shows before the first epoch and not within it.
    pub fn new(
        dataset: Arc<dyn Dataset>,
        indices: Vec<usize>,
        options: LoaderOptions,
    ) -> Result<Self> {
        let bad = |option, value: usize, reason: String| Error::BadOption {
            option,
            value: value.to_string(),
            reason,
        };
        if options.batch == 0 {
            return Err(bad("batch", 0, "a batch has at least one example".into()));
        }
        if indices.is_empty() {
            return Err(bad("indices", 0, "there are no examples to load".into()));
        }
        if options.drop_last && indices.len() < options.batch {
            let examples = indices.len();
            return Err(bad(
                "batch",
                options.batch,
                format!("{examples} examples do not fill one, and drop_last drops the rest"),
            ));
        }
        let len = dataset.len();
        if let Some(&index) = indices.iter().find(|&&index| index >= len) {
            return Err(Error::IndexOutOfRange { index, len });
        }
        let largest = options.batch.min(indices.len());
        for spec in [dataset.input(), dataset.target()] {
            let mut dims = vec![largest];
            dims.extend(&spec.dims);
            Spec::new(dims, spec.kind).elements()?;
        }
        for augment in &options.augment {
            augment.check(dataset.input())?;
        }
        let input_elements = dataset.input().elements()?;
        let target_elements = dataset.target().elements()?;
        let shared = Shared { dataset, indices, options, input_elements, target_elements };
        Ok(Loader { shared: Arc::new(shared) })
    }

    /// How many batches an epoch has.
    pub fn batches(&self) -> usize {
        self.shared.batches()
    }

    /// How many examples there are to load.
    pub fn examples(&self) -> usize {
        self.shared.indices.len()
    }

    /// The data set.
    pub fn dataset(&self) -> &Arc<dyn Dataset> {
        &self.shared.dataset
    }

    /// How batches are made.
    pub fn options(&self) -> &LoaderOptions {
        &self.shared.options
    }

    /// The batches of an epoch from the `first`-th on. Order and augmentation depend on the seed
    /// and the epoch alone: whoever resumes in the middle sees what would have come.
    pub fn epoch(&self, epoch: u64, first: usize) -> Batches {
        let shared = &self.shared;
        let left = self.batches().saturating_sub(first);
        let stop = Arc::new(AtomicBool::new(false));
        let maker = Maker { shared: shared.clone(), epoch, next: first, order: None, stop };
        // Fewer are needed than there are left; a thread is worth its start for one batch, too.
        let ahead = shared.options.prefetch.min(left);
        if ahead == 0 {
            return Batches { left, source: Source::Here(maker) };
        }
        // The thread holds one finished batch while it waits for room in the channel.
        let (sender, receiver) = sync_channel(ahead - 1);
        let stop = maker.stop.clone();
        let made = std::thread::Builder::new().name("polaris-data".into());
        let again = maker.clone();
        match made.spawn(move || maker.send_all(&sender)) {
            Ok(thread) => {
                let worker = Worker { receiver: Some(receiver), thread: Some(thread), stop };
                Batches { left, source: Source::Ahead(worker) }
            }
            // No thread to be had: slower, and right all the same.
            Err(_) => Batches { left, source: Source::Here(again) },
        }
    }
}

impl Shared {
    fn batches(&self) -> usize {
        if self.options.drop_last {
            self.indices.len() / self.options.batch
        } else {
            self.indices.len().div_ceil(self.options.batch)
        }
    }

    /// The examples of an epoch in their order.
    fn order(&self, epoch: u64) -> Vec<usize> {
        let mut order = self.indices.clone();
        if self.options.shuffle {
            Random::new(&[self.options.seed, ORDER, epoch]).shuffle(&mut order);
        }
        order
    }
}

/// Makes the batches of an epoch one after the other.
#[derive(Clone)]
struct Maker {
    shared: Arc<Shared>,
    epoch: u64,
    next: usize,
    /// Made with the first batch, so that the shuffling is the background thread's work, too.
    order: Option<Vec<usize>>,
    stop: Arc<AtomicBool>,
}

impl Maker {
    /// The next batch; `None` at the end, or when no one waits for it any more.
    fn make(&mut self) -> Option<Result<Batch>> {
        if self.next >= self.shared.batches() {
            return None;
        }
        let shared = &*self.shared;
        let order = self.order.get_or_insert_with(|| shared.order(self.epoch));
        let start = self.next * shared.options.batch;
        let end = order.len().min(start + shared.options.batch);
        let indices = order[start..end].to_vec();
        self.next += 1;
        let (input, target) = (shared.dataset.input(), shared.dataset.target());
        let (mut inputs, mut targets) = (Values::new(input.kind), Values::new(target.kind));
        let size = indices.len();
        let room = inputs.try_reserve(size * shared.input_elements);
        if let Err(reason) = room.and_then(|()| targets.try_reserve(size * shared.target_elements))
        {
            return Some(Err(Error::NoMemory {
                what: format!("a batch of {size} examples"),
                reason,
            }));
        }
        for &index in &indices {
            if self.stop.load(Ordering::Relaxed) {
                return None;
            }
            if let Err(error) = self.add(index, &mut inputs, &mut targets) {
                return Some(Err(error));
            }
        }
        let with_batch = |spec: &Spec| {
            let mut dims = vec![indices.len()];
            dims.extend(&spec.dims);
            dims
        };
        Some(Ok(Batch {
            size: indices.len(),
            input_dims: with_batch(input),
            target_dims: with_batch(target),
            inputs,
            targets,
            indices,
        }))
    }

    /// Adds one example, changed as the options ask for.
    fn add(&self, index: usize, inputs: &mut Values, targets: &mut Values) -> Result<()> {
        let shared = &*self.shared;
        let (before, targets_before) = (inputs.len(), targets.len());
        shared.dataset.append(index, inputs, targets)?;
        // Data sets are anyone's code: one number too few would shift every example after it.
        for (what, spec, values, expected, before) in [
            ("input", shared.dataset.input(), &*inputs, shared.input_elements, before),
            ("target", shared.dataset.target(), &*targets, shared.target_elements, targets_before),
        ] {
            let found = values.len().saturating_sub(before);
            if found != expected || values.kind() != spec.kind {
                return Err(Error::BrokenDataset {
                    index,
                    what,
                    expected,
                    kind: spec.kind,
                    found,
                    found_kind: values.kind(),
                });
            }
        }
        if let Values::F32(values) = inputs {
            let image = &mut values[before..];
            for (place, augment) in shared.options.augment.iter().enumerate() {
                let words = [shared.options.seed, AUGMENT, self.epoch, index as u64, place as u64];
                augment.apply(image, &shared.dataset.input().dims, &mut Random::new(&words));
            }
        }
        Ok(())
    }

    /// Sends batches until the end, an error, or until no one receives them.
    fn send_all(mut self, sender: &SyncSender<Result<Batch>>) {
        while let Some(batch) = self.make() {
            let failed = batch.is_err();
            if sender.send(batch).is_err() || failed {
                return;
            }
        }
    }
}

/// The batches of an epoch; ends after the last one or after an error.
pub struct Batches {
    left: usize,
    source: Source,
}

enum Source {
    Here(Maker),
    Ahead(Worker),
}

struct Worker {
    receiver: Option<Receiver<Result<Batch>>>,
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
}

impl Worker {
    /// The next batch. If the thread died, its last words instead.
    fn next(&mut self) -> Option<Result<Batch>> {
        if let Ok(batch) = self.receiver.as_ref()?.recv() {
            return Some(batch);
        }
        self.receiver = None;
        let payload = self.thread.take()?.join().err()?;
        let message = payload
            .downcast_ref::<&str>()
            .map(|s| s.to_string())
            .or_else(|| payload.downcast_ref::<String>().cloned())
            .unwrap_or_else(|| "without a message".into());
        Some(Err(Error::Panicked { message }))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Without a receiver the thread's next send fails; the flag ends it within a batch.
        self.stop.store(true, Ordering::Relaxed);
        self.receiver = None;
        if let Some(thread) = self.thread.take() {
            // A panic after the last batch that was requested is no one's concern.
            let _ = thread.join();
        }
    }
}

impl Iterator for Batches {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.left == 0 {
            return None;
        }
        let batch = match &mut self.source {
            Source::Here(maker) => maker.make(),
            Source::Ahead(worker) => worker.next(),
        };
        self.left = if matches!(batch, Some(Ok(_))) { self.left - 1 } else { 0 };
        batch
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error ends the epoch early.
        (self.left.min(1), Some(self.left))
    }
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("left", &self.left).finish_non_exhaustive()
    }
}
