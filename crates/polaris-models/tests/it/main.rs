//! Text to vectors, with models that are made here.

mod embed;

#[path = "../tiny/mod.rs"]
mod tiny;
