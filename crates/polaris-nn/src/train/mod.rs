//! The training loop: from a configuration to a model, safe against whatever ends it early.
//!
//! Everything random depends on the seed and the step alone, and a checkpoint holds the rest: a run that
//! is resumed ends with the same bits as one that was never interrupted.

mod checkpoint;
mod config;
mod data;
mod evaluate;
mod folder;
mod log;
mod origin;
mod run;
mod sources;
mod trainer;

pub use checkpoint::{Checkpoint, ModelFile, Progress};
pub use config::{Config, Data, Optim, OptimKind, Precision, Source, Target, Train};
pub use data::{Splits, Task, Words, load_data};
pub use evaluate::{Evaluation, evaluate};
pub use folder::RunFolder;
pub use log::{Log, read_log};
pub use run::{Ending, Event, Listener, run};
pub use trainer::Trainer;
