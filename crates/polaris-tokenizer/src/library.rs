//! The `tokenizers` crate between guards: what contradicts itself in a file is an error, not a panic.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use crate::{Error, Result};

/// What the contents of a `tokenizer.json` describe.
///
/// # Errors
/// If they are no JSON, describe no tokenizer or one that contradicts itself.
pub fn read_json(json: &[u8]) -> Result<tokenizers::Tokenizer> {
    // The crate's own reader panics on some texts that are no JSON; this one says where.
    serde_json::from_slice::<serde_json::Value>(json)
        .map_err(|error| Error::Library { action: "read it", reason: error.to_string() })?;
    guarded("read it", || tokenizers::Tokenizer::from_bytes(json))
}

/// Encodes some texts, so that a file that contradicts itself is refused when it is read and not with every text. A
/// text that a tokenizer has no tokens for is not a contradiction.
///
/// # Errors
/// The first error of `encode` that is a contradiction.
pub fn probe<E>(
    encode: impl Fn(&str) -> std::result::Result<(), E>,
    is_contradiction: impl Fn(&E) -> bool,
) -> std::result::Result<(), E> {
    let texts = ["", "a", "The quick brown fox, 1234567890!", "\u{e9}\u{4e2d} \u{1f600}\n\t~#"];
    texts.iter().filter_map(|text| encode(text).err()).find(is_contradiction).map_or(Ok(()), Err)
}

/// Runs code of the `tokenizers` crate on what a file said. It unwraps here and there, and a strange file should be an
/// error like any other, not the end of the program.
///
/// # Errors
/// [`Error::Library`] if it fails, [`Error::Contradiction`] if it panics.
pub fn guarded<T>(action: &'static str, run: impl FnOnce() -> tokenizers::Result<T>) -> Result<T> {
    let quiet = Quiet::begin();
    let result = catch_unwind(AssertUnwindSafe(run));
    drop(quiet);
    match result {
        Ok(result) => result.map_err(|error| Error::Library { action, reason: error.to_string() }),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let reason = text.unwrap_or("no reason given").to_owned();
            Err(Error::Contradiction { action, reason })
        }
    }
}

thread_local! {
    /// Whether panics of this thread are caught and told in other words.
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, panics of this thread print nothing; those of others do as ever.
struct Quiet {
    before: bool,
}

impl Quiet {
    fn begin() -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let others = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| {
                if !QUIET.get() {
                    others(panic);
                }
            }));
        });
        Self { before: QUIET.replace(true) }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        QUIET.set(self.before);
    }
}
