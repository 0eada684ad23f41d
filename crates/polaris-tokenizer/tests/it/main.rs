//! Tests of the tokenizers: against vectors, regular expressions and the `tokenizers` crate, and with damaged files.

mod bpe;
mod folder;
mod hostile;
mod made;
mod sentencepiece;
mod special;
mod splits;
mod vectors;
mod wordpiece;
