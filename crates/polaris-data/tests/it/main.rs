//! Data sets from files, and what wrong ones are answered with.

mod formats;
mod hostile;
mod images;
mod limits;
mod loader;
mod sentences;
mod tokens;
