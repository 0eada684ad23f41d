//! Files as users meet them: made by other programs, damaged, or written here.

mod files;
mod golden;
mod hostile;
mod parts;
mod writing;
