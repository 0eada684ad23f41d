//! The training loop, safe against whatever ends it early.
//!
//! A [`Trainer`] is made of a configuration, or of a module, a [`Loss`] and a [`BatchSource`] of the caller's own.
//! Everything random depends on the seed and the step alone, and a checkpoint holds the rest: a run that
//! is resumed ends with the same bits as one that was never interrupted.

mod about;
mod batches;
mod builder;
mod checkpoint;
mod config;
mod config_file;
mod data;
mod evaluate;
mod folder;
mod log;
mod loss;
mod origin;
mod run;
mod settings;
mod sources;
mod trainer;
mod words;

pub use about::{About, ModelFile, load_weights};
pub use batches::BatchSource;
pub use builder::TrainerBuilder;
pub use checkpoint::{Checkpoint, Progress};
pub use config::{Config, Data, Source, Target, Train};
pub use config_file::ConfigTable;
pub use data::{Splits, Task, load_data};
pub use evaluate::{Evaluation, evaluate};
pub use folder::RunFolder;
pub use log::{Log, read_log};
pub use loss::{Loss, TaskLoss};
pub use run::{Ending, Event, Listener};
pub use settings::{Loop, Optim, OptimKind, Precision, Settings};
pub use trainer::Trainer;
pub use words::Words;
