//! Tuning, for any operation: spaces of named parameters, strategies that search them, a database
//! that remembers every measurement, and models that predict what was never measured.
//!
//! Nothing here knows what a kernel is. An operation declares its space and how to measure a point
//! of it; strategies choose which point is next.

#![forbid(unsafe_code)]

pub mod choices;
pub mod database;
mod error;
mod files;
mod forest;
pub mod network;
pub mod predictor;
mod random;
pub mod record;
mod replay;
pub mod scores;
pub mod space;
pub mod strategy;
mod surface;

pub use database::Database;
pub use error::{Error, Result};
pub use forest::{Estimate, Forest, ForestOptions};
pub use network::{Network, NetworkOptions};
pub use predictor::{Predictor, Sample};
pub use random::Random;
pub use record::{DeviceKey, Failure, Outcome, ProblemKey, Record, SCHEMA};
pub use replay::{Recording, evaluations_to_within, replay};
pub use space::{Points, Space};
pub use strategy::{History, Strategy, Trial};
