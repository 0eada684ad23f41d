//! Trains a module with a forward pass, a loss and data of its own: `cargo run --release --example train`.
//!
//! The module learns the 90 % quantile of a noisy wave: nine of ten values lie below what it predicts.

use std::sync::Arc;

use polaris::data::{Batch, Random};
use polaris::nn::layers::Linear;
use polaris::nn::train::{
    BatchSource, Checkpoint, Event, Loop, Optim, RunFolder, Settings, Trainer,
};
use polaris::nn::{Init, Layer, Module, Parameter, Parts, Pass, Result};
use polaris::{Device, Tensor};

/// A hidden layer beside a straight line: `output(tanh(hidden(x))) + slope * x`.
struct Curve {
    hidden: Linear,
    output: Linear,
    slope: Parameter,
}

impl Curve {
    fn new(init: &mut Init) -> Result<Self> {
        Ok(Self {
            hidden: Linear::new(1, 32, true, init)?,
            output: Linear::new(32, 1, true, init)?,
            slope: init.constant(&[1], 0.0)?,
        })
    }
}

/// Names what is learned: checkpoints and optimisers find it by these names.
impl Layer for Curve {
    fn visit(&self, parts: &mut Parts) {
        parts.layer("hidden", &self.hidden);
        parts.layer("output", &self.output);
        parts.parameter("slope", &self.slope);
    }
}

impl Module for Curve {
    fn forward(&self, x: &Tensor, pass: &Pass<'_>) -> Result<Tensor> {
        let hidden = pass.apply("hidden", &self.hidden, x)?.tanh()?;
        let line = x.mul(&self.slope.value(pass)?)?;
        Ok(pass.apply("output", &self.output, &hidden)?.add(&line)?)
    }
}

/// The pinball loss: values above the prediction count nine times as much as those below it.
fn pinball(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    let difference = targets.sub(outputs)?;
    Ok(difference.mul_scalar(0.9)?.maximum(&difference.mul_scalar(-0.1)?)?.mean()?)
}

/// A wave with noise, made anew for each epoch. Batches depend on the seed, the epoch and their number alone, so
/// that a training that is resumed gets what would have come.
struct Wave {
    seed: u64,
}

const BATCHES: usize = 20;
const SIZE: usize = 64;

impl BatchSource for Wave {
    fn batches(&self) -> usize {
        BATCHES
    }

    fn examples(&self) -> usize {
        BATCHES * SIZE
    }

    fn epoch(&self, epoch: u64, first: usize) -> Box<dyn Iterator<Item = Result<Batch>> + '_> {
        Box::new((first..BATCHES).map(move |number| {
            let mut random = Random::new(&[self.seed, epoch, number as u64]);
            let x: Vec<f32> = (0..SIZE).map(|_| random.within(3.0) as f32).collect();
            let noisy = |x: &f32| x.sin() + 0.3 * x + 0.2 * random.normal() as f32;
            let y: Vec<f32> = x.iter().map(noisy).collect();
            Ok(Batch::new(x, &[SIZE, 1], y, &[SIZE, 1])?)
        }))
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let device = Device::best()?;
    let model = Arc::new(Curve::new(&mut Init::new(&device, 1))?);
    let settings = Settings {
        optim: Optim { lr: 0.01, clip: 1.0, ..Optim::default() },
        train: Loop { epochs: 15, ..Loop::default() },
        ..Settings::default()
    };
    let mut trainer = Trainer::builder(Arc::clone(&model), pinball, Wave { seed: 1 })
        .validation(Wave { seed: 2 })
        .settings(settings)
        .build()?;
    let before = trainer.evaluate()?.ok_or("there should be validation data")?.loss;

    let files = tempfile::tempdir()?;
    let folder = RunFolder::open(files.path())?;
    // Where an earlier run was ended, this one goes on.
    if let Some((checkpoint, _)) = Checkpoint::newest(&folder.checkpoints())? {
        trainer.resume(&checkpoint)?;
    }
    trainer.run(&folder, &mut |event: &Event| {
        if let Event::Evaluated { epoch, loss, .. } = event {
            println!("epoch {epoch}: validation loss {loss:.4}");
        }
    })?;
    let after = trainer.evaluate()?.ok_or("there should be validation data")?.loss;
    println!("validation loss: {before:.4} before, {after:.4} after");
    println!("slope: {:.3}", model.slope.tensor().item()?);
    assert!(after < 0.3 * before, "the loss should fall");
    Ok(())
}
