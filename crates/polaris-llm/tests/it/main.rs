//! Tests of language models.

mod chat;
mod common;
mod engine;
mod hostile;
mod hostile_folders;
mod huggingface;
mod latent;
mod peers;
mod reference;
mod tiny;
