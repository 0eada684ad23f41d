//! Tests of language models.

mod cache_types;
mod chat;
mod common;
mod definition;
mod engine;
mod hostile;
mod hostile_folders;
mod huggingface;
mod hybrid;
mod kimi;
mod latent;
mod observe;
mod peers;
mod recurrent;
mod reference;
mod speculation;
mod tiny;
