//! Tuning of kernels: the subjects, the search with its workers, the predictor, and the pages. The spaces,
//! strategies, database and models behind it are those of [`polaris_tune`].
//!
//! ```no_run
//! use polaris_runtime::{Runtime, RuntimeOptions};
//! use polaris_tuner::{Budget, TuneOptions, problems};
//!
//! let runtime = Runtime::discover(&RuntimeOptions::default())?;
//! let options = TuneOptions {
//!     problems: problems::squares(&[512, 1024]),
//!     budget: Budget::Evaluations(50),
//!     ..TuneOptions::default()
//! };
//! let outcome = polaris_tuner::tune(&runtime, &options, &mut ())?;
//! for tuned in &outcome.tuned {
//!     println!("{:?}: {:.2} times as fast", tuned.problem.shape, tuned.speedup());
//! }
//! # Ok::<(), polaris_tuner::Error>(())
//! ```
//!
//! By default candidates run in this process, and a driver that crashes or hangs takes it down. With
//! [`Workers::Processes`] each runs in a process that calls [`work`], as `polaris tune` does.

#![forbid(unsafe_code)]

mod client;
mod database;
mod error;
mod inject;
mod learn;
mod options;
mod page;
pub mod problems;
mod protocol;
mod results;
mod search;
mod study;
mod subject;
mod target;
mod tune;
mod worker;

pub use database::{Explained, Listed, Listing, explain, list};
pub use error::{Error, Result};
pub use inject::Fault;
pub use options::{Budget, TuneOptions, Workers};
pub use protocol::{Config, Sampled};
pub use results::{Row, Summary, TuneOutcome, Tuned, config_text, failures_text, shape_text};
pub use search::Found;
pub use study::{Learnt, Replayed, Study, StudyOptions, study};
pub use subject::{Prepared, SUBJECTS, Subject, Work, subject};
pub use target::{TargetOptions, TargetOutcome, TargetRow, predict_for_target};
pub use tune::{tune, tuning_folder};
pub use worker::work;
