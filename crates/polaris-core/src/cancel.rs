//! Cancellation tokens for long work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tells work on any thread that its caller no longer wants it. Clones are the same token.
#[derive(Debug, Clone, Default)]
pub struct CancellationToken(Source);

#[derive(Debug, Clone)]
enum Source {
    Flag(Arc<AtomicBool>),
    Question(fn() -> bool),
}

impl Default for Source {
    fn default() -> Self {
        Self::Flag(Arc::default())
    }
}

impl CancellationToken {
    /// A token that nobody has cancelled yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// A token that is cancelled while `question` says so, for signals and deadlines.
    pub fn when(question: fn() -> bool) -> Self {
        Self(Source::Question(question))
    }

    /// Asks everyone who holds this token to stop. A token made by [`CancellationToken::when`] is left as it is.
    pub fn cancel(&self) {
        if let Source::Flag(flag) = &self.0 {
            flag.store(true, Ordering::Release);
        }
    }

    /// Whether the work should stop.
    pub fn is_cancelled(&self) -> bool {
        match &self.0 {
            Source::Flag(flag) => flag.load(Ordering::Acquire),
            Source::Question(question) => question(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_are_one_token() {
        let token = CancellationToken::new();
        let clone = token.clone();
        assert!(!clone.is_cancelled() && !CancellationToken::when(|| false).is_cancelled());
        token.cancel();
        assert!(clone.is_cancelled() && CancellationToken::when(|| true).is_cancelled());
        assert!(!CancellationToken::new().is_cancelled());
    }
}
