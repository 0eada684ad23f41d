//! Tests of language models.

mod chat;
mod common;
mod engine;
mod hostile;
mod peers;
mod reference;
mod tiny;
