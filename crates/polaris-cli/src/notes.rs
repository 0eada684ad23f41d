//! Log messages of the library as notes: one line each on stderr.

use crate::output::say;
use log::{LevelFilter, Log, Metadata, Record};

struct Notes;

impl Log for Notes {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("polaris")
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            say!("note: {}", record.args());
        }
    }

    fn flush(&self) {}
}

/// Shows warnings, or what `POLARIS_LOG` selects (off, error, warn, info, debug, trace).
pub fn install() {
    let level = std::env::var("POLARIS_LOG").ok().and_then(|level| level.parse().ok());
    log::set_max_level(level.unwrap_or(LevelFilter::Warn));
    let _ = log::set_logger(&Notes);
}
