//! The runtime as its users meet it: one binary, since each links everything.

#[macro_use]
mod common;

mod budget;
mod discovery;
mod downloads;
mod host_access;
mod launches;
mod memory;
mod program_cache;
mod programs;
mod queues;
mod recycling;
mod threads;
