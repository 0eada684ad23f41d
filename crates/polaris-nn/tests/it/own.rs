//! Trainings of modules, losses and data of the caller.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use polaris_core::CancellationToken;
use polaris_data::{Batch, Random};
use polaris_nn::layers::{Dropout, Linear};
use polaris_nn::optim::{Group, Schedule, Sgd};
use polaris_nn::train::{
    BatchSource, Checkpoint, Config, Ending, Event, Loop, ModelFile, Optim, Precision, RunFolder,
    Settings, Task, TaskLoss, Trainer, TrainerBuilder, load_weights, read_log,
};
use polaris_nn::{Error, Init, Layer, Module, Parameter, Parts, Pass, Result, parameters, state};
use polaris_runtime::DeviceRef;
use polaris_tensor::Tensor;
use polaris_testkit::devices_under_test;

/// Two branches that share their input, with dropout in one of them.
struct Branches {
    left: Linear,
    right: Linear,
    dropout: Dropout,
    mix: Parameter,
}

impl Branches {
    fn new(device: &DeviceRef, seed: u64) -> Self {
        let init = &mut Init::new(device, seed);
        Self {
            left: Linear::new(4, 3, true, init).unwrap(),
            right: Linear::new(4, 3, false, init).unwrap(),
            dropout: Dropout::new(0.25).unwrap(),
            mix: init.constant(&[3], 0.5).unwrap(),
        }
    }
}

impl Layer for Branches {
    fn visit(&self, parts: &mut Parts) {
        parts.layer("left", &self.left);
        parts.layer("right", &self.right);
        parts.parameter("mix", &self.mix);
    }
}

impl Module for Branches {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let left = pass.apply("left", &self.left, x)?.tanh()?;
        let left = pass.apply("dropout", &self.dropout, &left)?;
        let right = pass.apply("right", &self.right, x)?.sigmoid()?;
        Ok(left.mul(&self.mix.value(pass)?)?.add(&right)?)
    }
}

/// The mean of the fourth power of differences.
fn fourth_power(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    Ok(outputs.sub(targets)?.square()?.square()?.mean()?)
}

/// Batches of random numbers, others in each epoch, and fewer than it promises, if so many are missing.
struct Made {
    batches: usize,
    missing: usize,
}

const SIZE: usize = 6;

impl BatchSource for Made {
    fn batches(&self) -> usize {
        self.batches
    }

    fn examples(&self) -> usize {
        self.batches * SIZE
    }

    fn epoch(&self, epoch: u64, first: usize) -> Box<dyn Iterator<Item = Result<Batch>> + '_> {
        let make = move |number| {
            let mut random = Random::new(&[epoch, number as u64]);
            let x: Vec<f32> = (0..4 * SIZE).map(|_| random.within(1.0) as f32).collect();
            let y: Vec<f32> = (0..3 * SIZE).map(|at| (x[at] - x[at + SIZE]).sin()).collect();
            Ok(Batch::new(x, &[SIZE, 4], y, &[SIZE, 3])?)
        };
        Box::new((first..self.batches - self.missing).map(make))
    }
}

const WHOLE: Made = Made { batches: 5, missing: 0 };

fn settings() -> Settings {
    Settings {
        optim: Optim { lr: 0.02, clip: 0.5, ..Optim::default() },
        schedule: Schedule { warmup: 4, ..Schedule::default() },
        train: Loop { epochs: 4, seed: 9, checkpoint_every: 3, ..Loop::default() },
        ..Settings::default()
    }
}

fn builder(device: &DeviceRef) -> TrainerBuilder {
    Trainer::builder(Branches::new(device, 1), fourth_power, WHOLE)
        .validation(Made { batches: 2, missing: 0 })
        .settings(settings())
}

fn trainer(device: &DeviceRef) -> Trainer {
    builder(device).build().unwrap()
}

/// The newest checkpoint's tensors, bit by bit.
fn newest(folder: &Path, device: &DeviceRef) -> BTreeMap<String, Vec<u64>> {
    let (path, _) = Checkpoint::newest(&folder.join("checkpoints")).unwrap().unwrap();
    let (tensors, _) = polaris_nn::tensors_file::read(&path, device).unwrap();
    let bits = |tensor: Tensor| tensor.to_f64().unwrap().into_iter().map(f64::to_bits).collect();
    tensors.into_iter().map(|(name, tensor)| (name, bits(tensor))).collect()
}

/// Steps with their losses, as the log has them.
fn steps(folder: &Path) -> Vec<(u64, f64)> {
    let events = read_log(&folder.join("log.jsonl")).unwrap();
    let steps = events.iter().filter(|event| event["event"] == "step");
    steps.map(|e| (e["step"].as_u64().unwrap(), e["loss"].as_f64().unwrap())).collect()
}

#[test]
fn a_training_of_ones_own_that_is_resumed_ends_with_the_same_bits() {
    for device in devices_under_test() {
        let files = tempfile::tempdir().unwrap();
        let (whole, cut) = (files.path().join("whole"), files.path().join("cut"));
        let mut uninterrupted = trainer(device);
        let before = uninterrupted.evaluate().unwrap().unwrap().loss;
        let folder = RunFolder::open(&whole).unwrap();
        let ending = uninterrupted.run(&folder, &mut |_: &Event| {}).unwrap();
        assert_eq!(ending, Ending::Finished);
        let after = uninterrupted.evaluate().unwrap().unwrap().loss;
        assert!(after < 0.8 * before, "{before} {after}");

        // Stopped in the middle of epochs, each time gone on with by other objects.
        let folder = RunFolder::open(&cut).unwrap();
        let mut endings = 0;
        for until in [7, 8, 14, u64::MAX] {
            let mut part = trainer(device);
            if let Some((checkpoint, _)) = Checkpoint::newest(&folder.checkpoints()).unwrap() {
                part.resume(&checkpoint).unwrap();
            }
            let token = CancellationToken::new();
            part.set_cancellation(token.clone());
            let mut listener = |event: &Event| {
                if matches!(event, Event::Step { step, .. } if *step == until) {
                    token.cancel();
                }
            };
            endings += usize::from(part.run(&folder, &mut listener).unwrap() != Ending::Finished);
        }
        assert_eq!(endings, 3);
        let expected = newest(&whole, device);
        assert!(expected.contains_key("model.mix") && expected.contains_key("model.left.bias"));
        assert!(newest(&cut, device) == expected, "{}: other bits", device.id());
        assert_eq!(steps(&cut), steps(&whole));
        assert_eq!(steps(&whole).len(), 20);
        let model = |folder: &Path| std::fs::read(folder.join("model.safetensors")).unwrap();
        assert!(model(&cut) == model(&whole));
    }
}

#[test]
fn weights_are_read_into_the_callers_module() {
    for device in devices_under_test() {
        let files = tempfile::tempdir().unwrap();
        let folder = RunFolder::open(files.path()).unwrap();
        let model = Arc::new(Branches::new(device, 1));
        let trained = Trainer::builder(Arc::clone(&model), fourth_power, WHOLE);
        trained.settings(settings()).build().unwrap().run(&folder, &mut |_: &Event| {}).unwrap();
        let values = |module: &dyn Layer| -> Vec<Vec<f64>> {
            state(module).iter().map(|(_, tensor)| tensor.to_f64().unwrap()).collect()
        };
        let file = files.path().join("model.safetensors");
        let checkpoint = Checkpoint::list(&folder.checkpoints()).pop().unwrap();
        for path in [&file, &checkpoint] {
            let again = Branches::new(device, 2);
            assert_ne!(values(&again), values(&*model));
            load_weights(path, device, &again).unwrap();
            assert_eq!(values(&again), values(&*model));
        }
        let other = Linear::new(4, 3, true, &mut Init::new(device, 1)).unwrap();
        let error = load_weights(&file, device, &other).unwrap_err().to_string();
        assert!(error.contains("`weight` is missing"), "{error}");
        let error = ModelFile::load(&file, device).err().unwrap().to_string();
        assert!(error.contains("load_weights"), "{error}");
    }
}

#[test]
fn another_training_is_not_gone_on_with() {
    let device = &devices_under_test()[0];
    let files = tempfile::tempdir().unwrap();
    let folder = RunFolder::open(files.path()).unwrap();
    trainer(device).run(&folder, &mut |_: &Event| {}).unwrap();
    let checkpoint = Checkpoint::list(&folder.checkpoints()).pop().unwrap();

    // Nothing is overwritten by a training that was not resumed.
    let error = trainer(device).run(&folder, &mut |_: &Event| {}).unwrap_err();
    assert!(matches!(error, Error::FolderHasTraining { .. }), "{error}");

    let resume = |change: &dyn Fn(&mut Settings)| {
        let mut settings = settings();
        change(&mut settings);
        builder(device).settings(settings).build().unwrap().resume(&checkpoint)
    };
    resume(&|settings| settings.train.epochs = 9).unwrap();
    let error = resume(&|settings| settings.optim.lr = 1.0).unwrap_err();
    assert!(matches!(&error, Error::OtherTraining { differ, .. } if differ == &["optim.lr"]));
    let mut configured = Trainer::from_config(&Config::default(), device).unwrap();
    let error = configured.resume(&checkpoint).unwrap_err();
    assert!(matches!(&error, Error::OtherTraining { differ, .. } if differ == &["model"]));
}

#[test]
fn wrong_parts_are_errors_and_not_panics() {
    let device = &devices_under_test()[0];
    let model = || Branches::new(device, 1);
    let refused = |builder: TrainerBuilder| builder.build().err().unwrap().to_string();
    let none = Trainer::builder(Dropout::new(0.5).unwrap(), fourth_power, WHOLE);
    assert!(refused(none).contains("no parameters"));
    let empty = Trainer::builder(model(), fourth_power, Vec::<Batch>::new());
    assert!(refused(empty).contains("no batches"));
    let mut wrong = settings();
    wrong.train.keep = 0;
    assert!(refused(builder(device).settings(wrong)).contains("train.keep"));

    // Data that end before they said, and batches that are not what they say.
    let files = tempfile::tempdir().unwrap();
    let folder = RunFolder::open(files.path()).unwrap();
    let short = Made { batches: 5, missing: 2 };
    let mut short = Trainer::builder(model(), fourth_power, short).build().unwrap();
    let error = short.run(&folder, &mut |_: &Event| {}).unwrap_err();
    let Error::MissingBatch { promised: 5, missing: 3, epoch: 0 } = error else {
        panic!("{error}");
    };
    let batch = WHOLE.epoch(0, 0).next().unwrap().unwrap();
    let broken = Batch { indices: Vec::new(), ..batch.clone() };
    assert!(matches!(trainer(device).step(&broken), Err(Error::Data(_))));

    // A loss that is no number, has no gradient, or fails in the caller's own way.
    let with = |loss: fn(&Tensor, &Tensor) -> Result<Tensor>| {
        Trainer::builder(model(), loss, WHOLE).build().unwrap().step(&batch)
    };
    let error = with(|outputs, _| Ok(outputs.clone())).unwrap_err().to_string();
    assert!(error.contains("must be one number"), "{error}");
    assert!(with(|_, targets| Ok(targets.mean()?)).is_err());
    let error = with(|_, _| Err(Error::other("mine"))).unwrap_err();
    assert!(matches!(&error, Error::Other(_)) && error.to_string() == "mine", "{error}");
    assert!(matches!(
        with(|outputs, _| Ok(outputs.mean()?.mul_scalar(f64::NAN)?)),
        Err(Error::NotFinite { step: 1, .. })
    ));
}

/// Steps without files, with an optimiser of one's own and batches in memory.
#[test]
fn steps_are_counted_without_files() {
    for device in devices_under_test() {
        let batches: Vec<Batch> = WHOLE.epoch(0, 0).map(|batch| batch.unwrap()).collect();
        let model = Arc::new(Branches::new(device, 3));
        let groups = vec![Group::new(parameters(&*model), 0.1, 0.0)];
        let mut settings = settings();
        settings.train.precision = Precision::F16;
        let mut trainer = Trainer::builder(model, fourth_power, batches.clone())
            .optimizer(Sgd::new(groups, 0.9, false).unwrap())
            .settings(settings)
            .build()
            .unwrap();
        for batch in batches.iter().chain(&batches[..2]) {
            assert!(trainer.step(batch).unwrap().is_finite());
        }
        let progress = trainer.progress();
        assert_eq!((progress.step, progress.epoch, progress.batch), (7, 1, 2));
        assert_eq!((trainer.training_data().examples(), trainer.total_steps()), (30, 20));
    }
}

/// Accuracy is counted for a module of one's own as for any other, even one with more outputs than classes.
#[test]
fn classes_are_counted_for_any_module() {
    for device in devices_under_test() {
        let x: Vec<f32> = (0..32).map(|at| (at % 4) as f32 - 1.5).collect();
        let y: Vec<i64> = (0..8).map(|row| row % 2).collect();
        let batch = Batch::new(x, &[8, 4], y, &[8]).unwrap();
        let loss = TaskLoss::new(Task::Classes);
        let trainer = Trainer::builder(Branches::new(device, 1), loss, vec![batch.clone()])
            .validation(vec![batch])
            .build()
            .unwrap();
        let found = trainer.evaluate().unwrap().unwrap();
        assert!(found.accuracy.is_some_and(|part| (0.0..=1.0).contains(&part)), "{found:?}");
        assert_eq!((found.examples, found.confusion.len()), (8, 0));
    }
}
