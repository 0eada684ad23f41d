//! The guards of `polaris-tokenizer` around the `tokenizers` crate, with the errors of this crate.

use polaris_tokenizer::library;

use crate::{Error, Result};

fn error(error: polaris_tokenizer::Error) -> Error {
    match error {
        polaris_tokenizer::Error::Library { action, reason } => Error::Tokenizer { action, reason },
        polaris_tokenizer::Error::Contradiction { action, reason } => {
            Error::BadTokenizer { reason: format!("cannot {action} ({reason})") }
        }
        other => Error::BadTokenizer { reason: other.to_string() },
    }
}

/// What the contents of a `tokenizer.json` describe.
pub(crate) fn read_json(json: &[u8]) -> Result<tokenizers::Tokenizer> {
    library::read_json(json).map_err(error)
}

/// Encodes some texts, so that a file that contradicts itself is refused when it is read.
pub(crate) fn probe(encode: impl Fn(&str) -> Result<()>) -> Result<()> {
    library::probe(encode, |error| matches!(error, Error::BadTokenizer { .. }))
}

/// Runs code of the `tokenizers` crate on what a file said; a panic is an error.
pub(crate) fn guarded<T>(
    action: &'static str,
    run: impl FnOnce() -> tokenizers::Result<T>,
) -> Result<T> {
    library::guarded(action, run).map_err(error)
}
