//! Tests of language models.

mod common;
mod peers;
