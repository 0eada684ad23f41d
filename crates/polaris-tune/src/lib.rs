//! Tuning, for any operation: spaces of named parameters, strategies that search them, a database
//! that remembers every measurement, and models that predict what was never measured.
//!
//! Nothing here knows what a kernel is. An operation declares its space and how to measure a point
//! of it; strategies choose which point is next.

#![forbid(unsafe_code)]

mod error;
mod random;
pub mod space;
pub mod strategy;

pub use error::{Error, Result};
pub use random::Random;
pub use space::{Points, Space};
pub use strategy::{History, Strategy, Trial};
