//! A training and its files: checksums, a fixed order, older formats, damage, who may write to a folder, and steps
//! that are lost.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use polaris_core::DType;
use polaris_nn::layers::Linear;
use polaris_nn::optim::{Adam, Optimizer};
use polaris_nn::train::{About, Checkpoint, Config, ModelFile, Progress, RunFolder, Task, Trainer};
use polaris_nn::{Error, Init, Module, Pass, parameters};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};
use polaris_tensor::Tensor;
use safetensors::tensor::{SafeTensors, TensorView};

fn cpu() -> DeviceRef {
    Runtime::discover(&RuntimeOptions::default()).unwrap().cpu().clone()
}

fn about() -> ModelFile {
    let config = serde_json::json!({ "model": { "kind": "mlp", "hidden": [] }, "data": { "source": "digits" } });
    let config: Config = serde_json::from_value(config).unwrap();
    let classes = vec!["a".to_owned(), "b".to_owned()];
    ModelFile { config, task: Task::Classes, input: vec![3], outputs: 2, classes, tokenizer: None }
}

struct Training {
    model: Box<dyn Module>,
    optimizer: Adam,
}

impl Training {
    fn new(device: &DeviceRef) -> Self {
        let about = about();
        let ends = polaris_nn::models::Ends { input: about.input, outputs: about.outputs };
        let model = about.config.model.build(&ends, &mut Init::new(device, 5)).unwrap();
        let optimizer = Adam::adam_w(parameters(&*model), 0.1).unwrap();
        Self { model, optimizer }
    }

    fn save(&self, path: &Path) {
        let progress = Progress { step: 3, ..Progress::default() };
        let about = About::from(about());
        Checkpoint::save(path, &*self.model, &self.optimizer, &progress, &about).unwrap();
    }
}

#[test]
fn a_changed_byte_anywhere_is_noticed() {
    let (device, folder) = (cpu(), tempfile::tempdir().unwrap());
    let training = Training::new(&device);
    let checkpoint = folder.path().join("step-00000003.safetensors");
    training.save(&checkpoint);
    let model = folder.path().join("model.safetensors");
    about().save(&model, &*training.model).unwrap();
    for path in [&checkpoint, &model] {
        assert!(ModelFile::load(path, &device).is_ok());
        let whole = std::fs::read(path).unwrap();
        for place in 0..whole.len() {
            // The first is a small fault that leaves text valid, the second a large one.
            for change in [1, 0x80] {
                let mut bytes = whole.clone();
                bytes[place] ^= change;
                let decoded = ModelFile::decode(path, &bytes, &device);
                assert!(decoded.is_err(), "{}: byte {place} of {}", path.display(), whole.len());
            }
        }
    }
}

#[test]
fn equal_models_are_equal_files_that_others_can_read() {
    let (device, folder) = (cpu(), tempfile::tempdir().unwrap());
    let training = Training::new(&device);
    let file = |index: usize| {
        let path = folder.path().join(format!("{index}.safetensors"));
        training.save(&path);
        std::fs::read(path).unwrap()
    };
    let first = file(0);
    assert!((1..16).all(|index| file(index) == first));
    let read = SafeTensors::deserialize(&first).unwrap();
    assert!(read.names().iter().any(|name| name.starts_with("optimizer.")));
}

#[test]
fn files_without_a_checksum_are_read() {
    let (device, folder) = (cpu(), tempfile::tempdir().unwrap());
    let path = folder.path().join("old.safetensors");
    let (weight, bias) = ([0u8; 24], [0u8; 8]);
    let tensor = |dims: &[usize], bytes| {
        TensorView::new(safetensors::Dtype::F32, dims.to_vec(), bytes).unwrap()
    };
    let names: Vec<String> = {
        let training = Training::new(&device);
        parameters(&*training.model).into_iter().map(|(name, _)| name).collect()
    };
    let tensors = names.iter().map(|name| match name.ends_with("weight") {
        true => (name.as_str(), tensor(&[2, 3], &weight)),
        false => (name.as_str(), tensor(&[2], &bias)),
    });
    let metadata = |format: &str| {
        HashMap::from([
            ("polaris.format".to_owned(), format.to_owned()),
            ("polaris.model".to_owned(), serde_json::to_string(&about()).unwrap()),
        ])
    };
    for (format, is_read) in [("1", true), ("2", false), ("3", false)] {
        let bytes = safetensors::serialize(tensors.clone(), Some(metadata(format))).unwrap();
        std::fs::write(&path, bytes).unwrap();
        assert_eq!(ModelFile::load(&path, &device).is_ok(), is_read, "format {format}");
    }
}

#[test]
fn the_newest_checkpoint_that_is_whole_is_found() {
    let (device, folder) = (cpu(), tempfile::tempdir().unwrap());
    let training = Training::new(&device);
    let paths: Vec<PathBuf> = (1..=3).map(|step| Checkpoint::path(folder.path(), step)).collect();
    paths.iter().for_each(|path| training.save(path));
    let newest = || Checkpoint::newest(folder.path()).map(|found| found.map(|(path, _)| path));
    assert_eq!(newest().unwrap().as_ref(), Some(&paths[2]));
    let whole = std::fs::read(&paths[2]).unwrap();
    std::fs::write(&paths[2], &whole[..whole.len() - 1]).unwrap();
    assert_eq!(newest().unwrap().as_ref(), Some(&paths[1]));
    let mut bytes = whole.clone();
    *bytes.last_mut().unwrap() ^= 1;
    std::fs::write(&paths[1], bytes).unwrap();
    assert_eq!(newest().unwrap().as_ref(), Some(&paths[0]));
    std::fs::write(&paths[0], b"").unwrap();
    let error = newest().unwrap_err().to_string();
    assert!(error.contains("step-00000003.safetensors"), "{error}");
    assert_eq!(Checkpoint::newest(&folder.path().join("none")).unwrap(), None);
}

#[test]
fn one_training_at_a_time_writes_to_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("deep").join("run");
    let held = RunFolder::open(&path).unwrap();
    let error = RunFolder::open(&path).unwrap_err();
    assert!(matches!(&error, Error::FolderInUse { .. }), "{error}");
    assert!(error.to_string().contains("run: another training"), "{error}");
    drop(held);
    RunFolder::open(&path).unwrap();
    // A folder that cannot be made is named.
    std::fs::write(folder.path().join("file"), "").unwrap();
    let error = RunFolder::open(&folder.path().join("file").join("run")).unwrap_err().to_string();
    assert!(error.contains("file/run: this folder cannot be made"), "{error}");
}

#[test]
fn what_would_be_lost_stands_against_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let obstacle = || RunFolder::obstacle(path).map(|path| path.file_name().unwrap().to_owned());
    assert_eq!(obstacle(), None);
    // A configuration that no training wrote.
    std::fs::write(path.join("config.toml"), "").unwrap();
    assert_eq!(obstacle().unwrap(), "config.toml");
    // A training that was killed before its first checkpoint.
    drop(RunFolder::open(path).unwrap());
    assert_eq!(obstacle(), None);
    std::fs::write(path.join("report.html"), "").unwrap();
    assert_eq!(obstacle().unwrap(), "report.html");
    std::fs::create_dir(path.join("checkpoints")).unwrap();
    std::fs::write(path.join("checkpoints").join("step-00000005.safetensors"), "").unwrap();
    assert_eq!(obstacle().unwrap(), "step-00000005.safetensors");
}

/// The bias correction of a parameter goes by its own steps, as in PyTorch: whatever its first gradient is, its
/// first step has the length of the rate.
#[test]
fn adam_counts_the_steps_of_each_parameter() {
    let (device, folder) = (cpu(), tempfile::tempdir().unwrap());
    let layers: Vec<Linear> = (0..2)
        .map(|seed| Linear::new(1, 1, false, &mut Init::new(&device, seed)).unwrap())
        .collect();
    let named = layers.iter().enumerate().flat_map(|(index, layer)| {
        parameters(layer).into_iter().map(move |(name, p)| (format!("{index}.{name}"), p))
    });
    let groups = || vec![polaris_nn::optim::Group::new(named.clone().collect(), 0.1, 0.0)];
    let mut adam = Adam::new(groups(), [0.9, 0.999], 1e-8, false).unwrap();
    let x = Tensor::full(&device, &[1, 1], DType::F32, 2.0).unwrap();
    let weight = |index: usize| -> f64 { parameters(&layers[index])[0].1.tensor().item().unwrap() };
    let learn = |adam: &mut Adam, used: usize| {
        let y = layers[used].forward(&x, &Pass::training(0)).unwrap();
        y.sum().unwrap().backward().unwrap();
        adam.step().unwrap();
    };
    (0..5).for_each(|_| learn(&mut adam, 0));
    let before = weight(1);
    learn(&mut adam, 1);
    assert!((before - weight(1) - 0.1).abs() < 1e-4, "{}", before - weight(1));
    assert_eq!((adam.steps(), adam.fewer_steps().len()), (6, 2));

    // A checkpoint keeps the counts; one without them has every parameter in all steps.
    let path = folder.path().join("checkpoint.safetensors");
    let about = About::from(about());
    Checkpoint::save(&path, &layers[0], &adam, &Progress::default(), &about).unwrap();
    let mut again = Adam::new(groups(), [0.9, 0.999], 1e-8, false).unwrap();
    Checkpoint::load(&path, &device, &layers[0], &mut again, None).unwrap();
    assert_eq!((again.steps(), again.fewer_steps()), (6, adam.fewer_steps()));
    again.set_steps(4, &BTreeMap::new());
    assert_eq!((again.steps(), again.fewer_steps().len()), (4, 0));
}

/// Targets of a million make gradients that half precision does not have, however small the loss is scaled.
#[test]
fn gradients_that_overflow_for_ever_end_a_training() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..64).map(|row| format!("{row},1000000\n")).collect();
    std::fs::write(folder.path().join("a.csv"), format!("x,y\n{rows}")).unwrap();
    let config = serde_json::json!({
        "model": { "kind": "mlp", "hidden": [4] },
        "data": { "source": "csv", "path": folder.path().join("a.csv"), "target_is": "number", "validation": 0.0 },
        "train": { "precision": "f16", "batch": 1 },
    });
    let config: Config = serde_json::from_value(config).unwrap();
    let mut trainer = Trainer::from_config(&config, &cpu()).unwrap();
    let batches: Vec<_> = trainer.training_data().epoch(0, 0).map(|batch| batch.unwrap()).collect();
    let error = batches.iter().find_map(|batch| trainer.step(batch).err());
    let error = error.expect("no step of these should be taken");
    assert!(matches!(error, Error::Overflow { .. }), "{error}");
    assert!(error.to_string().contains("train.precision"), "{error}");
}
