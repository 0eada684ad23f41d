//! The one way in which Polaris touches the file system: regular files only, writes that are complete or absent,
//! locks that end with their process.
//!
//! Every path may come from a user or from inside a file, so every reader goes through [`open`]: a FIFO would
//! block it for ever, `/dev/zero` would fill the memory.
#![forbid(unsafe_code)]

mod atomic;
mod lock;
mod regular;

pub use atomic::{AtomicFile, abandon_unfinished, remove_unfinished, write_advice, write_atomic};
pub use lock::FileLock;
pub use regular::{kind_of, open, open_append, read, read_all, read_text};
