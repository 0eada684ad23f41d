//! Tests of language models.

mod chat;
mod common;
mod definition;
mod engine;
mod hostile;
mod hybrid;
mod peers;
mod recurrent;
mod reference;
mod tiny;
