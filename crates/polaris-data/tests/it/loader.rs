//! The loader: what it gives depends on seed and epoch, and never on threads.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use polaris_data::{
    Augment, Batch, Dataset, Error, Kind, Loader, LoaderOptions, Result, Spec, Values, digits,
    stratified_split,
};
use proptest::prelude::*;

/// Images of one number each, with a fault somewhere if asked for.
struct Numbers {
    len: usize,
    classes: Vec<String>,
    labels: Vec<usize>,
    input: Spec,
    target: Spec,
    read: AtomicUsize,
    fault: Fault,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    Error(usize),
    Panic(usize),
    Short(usize),
    Slow(Duration),
}

fn numbers(len: usize, fault: Fault) -> Arc<Numbers> {
    Arc::new(Numbers {
        len,
        classes: vec![],
        labels: vec![],
        input: Spec::new([1, 3, 2], Kind::F32),
        target: Spec::new([], Kind::I64),
        read: AtomicUsize::new(0),
        fault,
    })
}

impl Dataset for Numbers {
    fn len(&self) -> usize {
        self.len
    }
    fn input(&self) -> &Spec {
        &self.input
    }
    fn target(&self) -> &Spec {
        &self.target
    }
    fn classes(&self) -> &[String] {
        &self.classes
    }
    fn label(&self, index: usize) -> Option<usize> {
        self.labels.get(index).copied()
    }
    fn append(&self, index: usize, input: &mut Values, target: &mut Values) -> Result<()> {
        self.read.fetch_add(1, Ordering::SeqCst);
        let mut pixels: Vec<f32> = (0..6).map(|p| (index * 6 + p) as f32).collect();
        match self.fault {
            Fault::Error(at) if at == index => {
                return Err(Error::IndexOutOfRange { index, len: 0 });
            }
            Fault::Panic(at) if at == index => panic!("example {index} is cursed"),
            Fault::Short(at) if at == index => pixels.truncate(5),
            Fault::Slow(time) => std::thread::sleep(time),
            _ => {}
        }
        if let (Values::F32(input), Values::I64(target)) = (input, target) {
            input.extend(pixels);
            target.push(index as i64);
        }
        Ok(())
    }
}

fn options(batch: usize, prefetch: usize) -> LoaderOptions {
    LoaderOptions {
        batch,
        shuffle: true,
        seed: 5,
        prefetch,
        augment: vec![Augment::Shift { pixels: 1 }, Augment::Noise { std: 0.1 }],
        ..LoaderOptions::default()
    }
}

fn all(loader: &Loader, epoch: u64, first: usize) -> Vec<Batch> {
    loader.epoch(epoch, first).collect::<Result<_>>().unwrap()
}

#[test]
fn threads_change_nothing_and_resuming_sees_what_would_have_come() {
    let data = numbers(23, Fault::None);
    let loader =
        |prefetch| Loader::new(data.clone(), (0..23).collect(), options(4, prefetch)).unwrap();
    for epoch in 0..3 {
        let whole = all(&loader(0), epoch, 0);
        assert_eq!(whole.len(), 6);
        assert_eq!(whole[5].size, 3);
        assert_eq!(whole[0].input_dims, [4, 1, 3, 2]);
        assert_eq!(whole[0].target_dims, [4]);
        for prefetch in [0, 1, 2, 7, usize::MAX] {
            for first in 0..8 {
                let rest = all(&loader(prefetch), epoch, first);
                assert_eq!(rest, whole[first.min(6)..], "{prefetch} {first}");
            }
        }
    }
}

#[test]
fn every_example_comes_once_and_epochs_differ() {
    let data = numbers(50, Fault::None);
    let indices: Vec<usize> = (0..50).filter(|i| i % 3 != 0).collect();
    let loader = Loader::new(data.clone(), indices.clone(), options(8, 2)).unwrap();
    let order = |epoch| -> Vec<usize> {
        all(&loader, epoch, 0).into_iter().flat_map(|b| b.indices).collect()
    };
    let orders: BTreeSet<Vec<usize>> = (0..10).map(order).collect();
    assert_eq!(orders.len(), 10);
    for mut order in orders {
        assert_ne!(order, indices);
        order.sort_unstable();
        assert_eq!(order, indices);
    }
    let other = LoaderOptions { seed: 6, ..options(8, 2) };
    let other = Loader::new(data.clone(), indices.clone(), other).unwrap();
    assert_ne!(all(&other, 0, 0)[0].indices, all(&loader, 0, 0)[0].indices);
    let plain = LoaderOptions { shuffle: false, augment: vec![], ..options(8, 2) };
    let plain = Loader::new(data, indices.clone(), plain).unwrap();
    let batches = all(&plain, 3, 0);
    let seen: Vec<usize> = batches.iter().flat_map(|b| b.indices.clone()).collect();
    assert_eq!(seen, indices);
    for batch in &batches {
        let inputs = batch.inputs.as_f32().unwrap();
        let targets = batch.targets.as_i64().unwrap();
        for (place, &index) in batch.indices.iter().enumerate() {
            assert_eq!(targets[place], index as i64);
            assert_eq!(inputs[place * 6], (index * 6) as f32);
        }
    }
}

#[test]
fn augmentation_depends_on_the_example_and_not_on_its_batch() {
    let data = numbers(20, Fault::None);
    let examples = |batch, epoch| {
        let loader = Loader::new(data.clone(), (0..20).collect(), options(batch, 1)).unwrap();
        let mut examples: Vec<(usize, Vec<f32>)> = Vec::new();
        for batch in all(&loader, epoch, 0) {
            let inputs = batch.inputs.as_f32().unwrap().chunks(6).map(<[f32]>::to_vec);
            examples.extend(batch.indices.iter().copied().zip(inputs));
        }
        examples.sort_by_key(|e| e.0);
        examples
    };
    assert_eq!(examples(3, 1), examples(7, 1));
    let (first, second) = (examples(3, 1), examples(3, 2));
    assert!(first.iter().zip(&second).all(|(a, b)| a.1 != b.1));
}

#[test]
fn incomplete_batches_can_be_left_out() {
    let data = numbers(10, Fault::None);
    let drop = |batch| LoaderOptions { drop_last: true, ..options(batch, 1) };
    let loader = Loader::new(data.clone(), (0..10).collect(), drop(4)).unwrap();
    assert_eq!(loader.batches(), 2);
    assert!(all(&loader, 0, 0).iter().all(|b| b.size == 4));
    assert!(Loader::new(data.clone(), (0..10).collect(), drop(11)).is_err());
    let keep = Loader::new(data, (0..10).collect(), options(usize::MAX, 1)).unwrap();
    assert_eq!((keep.batches(), all(&keep, 0, 0)[0].size), (1, 10));
}

#[test]
fn mistakes_show_before_the_first_batch() {
    let data = numbers(10, Fault::None);
    let new = |indices: Vec<usize>, options| Loader::new(data.clone(), indices, options);
    assert!(matches!(new(vec![0], options(0, 1)), Err(Error::BadOption { option: "batch", .. })));
    assert!(new(vec![], options(1, 1)).is_err());
    assert!(matches!(
        new(vec![0, 10], options(1, 1)),
        Err(Error::IndexOutOfRange { index: 10, len: 10 })
    ));
    let augment = vec![Augment::Shift { pixels: 2 }];
    assert!(new(vec![0], LoaderOptions { augment, ..options(1, 1) }).is_err());
}

#[test]
fn dropping_early_stops_the_thread() {
    let data = numbers(1000, Fault::Slow(Duration::from_millis(20)));
    let loader = Loader::new(data.clone(), (0..1000).collect(), options(1000, 3)).unwrap();
    let start = Instant::now();
    let batches = loader.epoch(0, 0);
    std::thread::sleep(Duration::from_millis(20));
    drop(batches);
    // A batch takes twenty seconds: the thread stopped within it.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    let read = data.read.load(Ordering::SeqCst);
    assert!(read < 1000);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(data.read.load(Ordering::SeqCst), read);
    drop(loader);
    assert_eq!(Arc::strong_count(&data), 1);
    // Also while the thread waits for someone to take its batches.
    let data = numbers(100, Fault::None);
    let loader = Loader::new(data.clone(), (0..100).collect(), options(5, 2)).unwrap();
    let mut batches = loader.epoch(0, 0);
    assert!(batches.next().unwrap().is_ok());
    std::thread::sleep(Duration::from_millis(50));
    drop((batches, loader));
    assert_eq!(Arc::strong_count(&data), 1);
}

#[test]
fn as_many_batches_are_made_ahead_as_asked_for() {
    for prefetch in 1..4 {
        let data = numbers(100, Fault::None);
        let loader = Loader::new(data.clone(), (0..100).collect(), options(5, prefetch)).unwrap();
        let mut batches = loader.epoch(0, 0);
        for taken in 0..3 {
            let wanted = (taken + prefetch) * 5;
            let start = Instant::now();
            while data.read.load(Ordering::SeqCst) < wanted {
                assert!(start.elapsed() < Duration::from_secs(10));
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(data.read.load(Ordering::SeqCst), wanted);
            batches.next().unwrap().unwrap();
        }
    }
}

#[test]
fn errors_and_panics_reach_the_consumer_in_their_turn() {
    let plain = |prefetch| LoaderOptions { shuffle: false, ..options(3, prefetch) };
    let run = |fault, prefetch| {
        let loader = Loader::new(numbers(12, fault), (0..12).collect(), plain(prefetch)).unwrap();
        let mut batches = loader.epoch(0, 0);
        assert!(batches.next().unwrap().is_ok());
        assert!(batches.next().unwrap().is_ok());
        let error = batches.next().unwrap().unwrap_err();
        assert!(batches.next().is_none() && batches.next().is_none());
        error
    };
    for prefetch in [0, 1, 4] {
        assert!(matches!(
            run(Fault::Error(7), prefetch),
            Error::IndexOutOfRange { index: 7, len: 0 }
        ));
        let short = run(Fault::Short(8), prefetch);
        assert!(matches!(
            short,
            Error::BrokenDataset { index: 8, what: "input", expected: 6, found: 5, .. }
        ));
    }
    for prefetch in [1, 4] {
        let error = run(Fault::Panic(6), prefetch);
        assert!(error.to_string().contains("example 6 is cursed"), "{error}");
    }
}

#[test]
fn digits_are_split_by_class() {
    let digits = digits().unwrap();
    let parts = stratified_split(&digits, &[0.8, 0.1, 0.1], 1).unwrap();
    let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
    assert!((1437..=1439).contains(&sizes[0]) && sizes[1].abs_diff(sizes[2]) <= 1, "{sizes:?}");
    assert_ne!(parts, stratified_split(&digits, &[0.8, 0.1, 0.1], 2).unwrap());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn splits_are_fair_disjoint_and_whole(
        labels in prop::collection::vec(0usize..5, 0..200),
        labelled: bool,
        weights in prop::collection::vec(0u32..10, 1..5),
        seed: u64,
    ) {
        let total: u32 = weights.iter().sum();
        prop_assume!(total > 0);
        let fractions: Vec<f64> =
            weights.iter().map(|&w| f64::from(w) / f64::from(total)).collect();
        let mut data = numbers(labels.len(), Fault::None);
        let data = Arc::get_mut(&mut data).unwrap();
        if labelled {
            data.classes = (0..5).map(|c| c.to_string()).collect();
            data.labels = labels.clone();
        }
        let parts = stratified_split(data, &fractions, seed).unwrap();
        prop_assert_eq!(&parts, &stratified_split(data, &fractions, seed).unwrap());
        let mut seen: Vec<usize> = parts.concat();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..labels.len()).collect::<Vec<_>>());
        let groups = if labelled { 5 } else { 1 };
        for class in 0..groups {
            let of_class = |i: &usize| !labelled || labels[*i] == class;
            let total = (0..labels.len()).filter(of_class).count() as f64;
            for (part, fraction) in parts.iter().zip(&fractions) {
                let count = part.iter().filter(|i| of_class(i)).count() as f64;
                prop_assert!((count - fraction * total).abs() < 1.0 + 1e-6);
            }
        }
    }
}
