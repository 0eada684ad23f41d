//! What a trainer is made of: parts of one's own, or a configuration.

use std::collections::BTreeSet;
use std::sync::Arc;

use polaris_core::CancellationToken;
use polaris_runtime::DeviceRef;

use super::about::{About, ModelFile};
use super::batches::BatchSource;
use super::checkpoint::Progress;
use super::config::Config;
use super::data::{Task, load_data};
use super::loss::{Loss, TaskLoss};
use super::settings::{Precision, Settings};
use super::trainer::Trainer;
use crate::optim::Optimizer;
use crate::quantize::{Quantizers, with_output};
use crate::{Error, Init, LossScale, Module, Result, parameters, state};

/// The parts of a training before it begins.
pub struct TrainerBuilder {
    model: Box<dyn Module>,
    loss: Box<dyn Loss>,
    train: Arc<dyn BatchSource>,
    validation: Option<Box<dyn BatchSource>>,
    settings: Settings,
    optimizer: Option<Box<dyn Optimizer>>,
    about: Option<About>,
}

impl Trainer {
    /// A training of any module, with any loss and any data. It computes where the module's parameters lie. Pass a
    /// clone of an `Arc` to keep the module.
    pub fn builder(
        model: impl Module + 'static,
        loss: impl Loss + 'static,
        data: impl BatchSource + 'static,
    ) -> TrainerBuilder {
        TrainerBuilder::new(Box::new(model), Box::new(loss), Arc::new(data))
    }

    /// The training of a configuration, at its beginning.
    ///
    /// # Errors
    /// If the configuration makes no sense, data cannot be read, or there is no room.
    pub fn from_config(config: &Config, device: &DeviceRef) -> Result<Self> {
        config.check()?;
        let data = load_data(config, None)?;
        match (config.model.reads_tokens(), data.task) {
            (true, Task::Tokens) => {}
            (true, _) => return Err(Error::invalid("a gpt or llama learns from text only")),
            (false, Task::Tokens) => {
                let what =
                    "a text needs a model that reads tokens: model.kind = \"gpt\" or \"llama\"";
                return Err(Error::invalid(what));
            }
            _ => {}
        }
        let model = config.model.build(&data.ends, &mut Init::new(device, config.train.seed))?;
        let loss = TaskLoss { task: data.task, smoothing: config.train.smoothing };
        let about = ModelFile {
            config: config.clone(),
            task: data.task,
            input: data.ends.input,
            outputs: data.ends.outputs,
            classes: data.classes,
            tokenizer: data.tokenizer,
        };
        if let Some(start) = &config.train.start {
            about.start_from(start, &*model)?;
        }
        let validation = data.validation.map(|loader| Box::new(loader) as Box<dyn BatchSource>);
        let builder = TrainerBuilder::new(model, Box::new(loss), Arc::new(data.train));
        let about = Some(About::from(about));
        TrainerBuilder { validation, about, ..builder }.settings(Settings::from(config)).build()
    }
}

impl TrainerBuilder {
    fn new(model: Box<dyn Module>, loss: Box<dyn Loss>, train: Arc<dyn BatchSource>) -> Self {
        let settings = Settings::default();
        Self { model, loss, train, validation: None, settings, optimizer: None, about: None }
    }

    /// Data that it does not learn from, by which the best model is chosen. Without them, it is the last one.
    pub fn validation(mut self, data: impl BatchSource + 'static) -> Self {
        self.validation = Some(Box::new(data));
        self
    }

    /// Optimiser, schedule and loop, otherwise [`Settings::default`].
    pub fn settings(mut self, settings: Settings) -> Self {
        self.settings = settings;
        self
    }

    /// An optimiser of one's own, such as one with a rate for each group of parameters. Of `optim` in the settings
    /// only `clip` counts then.
    pub fn optimizer(mut self, optimizer: impl Optimizer + 'static) -> Self {
        self.optimizer = Some(Box::new(optimizer));
        self
    }

    /// The training, at its beginning.
    ///
    /// # Errors
    /// If settings make no sense, the module has no parameters or two of one name, there are no batches, or there
    /// is no room.
    pub fn build(self) -> Result<Trainer> {
        let Self { model, loss, train, validation, settings, optimizer, about } = self;
        settings.check()?;
        let quantize = &settings.quantize;
        let model = with_output(model, quantize);
        let quantizers = match quantize.is_off() {
            true => None,
            false => Some(Quantizers::attach(&*model, quantize)?),
        };
        if quantize.raise_patience > 0 && validation.is_none() {
            let what = "quantize.raise_patience counts evaluations: keep data for them \
                        (data.validation), or use quantize.raise_every";
            return Err(Error::invalid(what));
        }
        let learned = parameters(&*model);
        let Some((_, first)) = learned.first() else {
            return Err(Error::invalid("the model has no parameters: there is nothing to train"));
        };
        let device = first.tensor().device().clone();
        // Files find parameters by their names; better now than at the first checkpoint.
        let mut names = BTreeSet::new();
        if let Some((name, _)) = state(&*model).into_iter().find(|(n, _)| !names.insert(n.clone()))
        {
            return Err(Error::invalid(format!("two tensors of the model have the name `{name}`")));
        }
        let validation_batches = validation.as_ref().map_or(1, |data| data.batches());
        if train.batches() == 0 || validation_batches == 0 {
            return Err(Error::invalid(
                "the data have no batches; validation data can be left out",
            ));
        }
        let mut progress = Progress::default();
        if settings.train.precision == Precision::F16 {
            progress.loss_scale = Some(LossScale::default());
        }
        let optimizer = match optimizer {
            Some(optimizer) => optimizer,
            None => settings.optim.build(learned)?,
        };
        Ok(Trainer {
            about: about.unwrap_or_else(|| About::Own(Box::new(settings.clone()))),
            settings,
            device,
            model,
            quantizers,
            loss,
            train,
            validation,
            optimizer,
            progress,
            resumed: false,
            cancellation: CancellationToken::new(),
        })
    }
}
