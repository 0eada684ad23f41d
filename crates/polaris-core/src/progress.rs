//! Progress reports of long work.

/// Takes what long work says while it runs. Each method does nothing unless it is written, and `()` listens to
/// nothing. Whether the work should stop is asked of a [`CancellationToken`](crate::CancellationToken).
pub trait Progress {
    /// Work begins that has so many steps.
    fn begin(&mut self, _title: &str, _steps: usize) {}

    /// So many steps are done; `detail` says what is under way or was found.
    fn advance(&mut self, _done: usize, _detail: &str) {}

    /// The work that was begun last has ended.
    fn end(&mut self) {}

    /// Something that a reader of the results should know.
    fn note(&mut self, _text: &str) {}
}

impl Progress for () {}
