//! What a caller can do about an error, whichever crate it comes from.

use std::fmt;
use std::io;

/// The kind of an error: what a program decides by, where the message is for people.
///
/// Every error of every crate has a method `kind`. The same mistake has the same kind wherever it is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes, ranks or axes that do not go together.
    Shape,
    /// Data types that do not go together, or one that the operation does not have.
    DType,
    /// Any other argument, option or input outside its domain.
    InvalidArgument,
    /// A file, folder, device, mode or name that is not there.
    NotFound,
    /// A file whose contents are not what its format says.
    InvalidData,
    /// A file or folder that the system refuses to read or write: permissions, a full disk, a lock.
    Io,
    /// Something that is valid and that Polaris does not have.
    Unsupported,
    /// Memory of a device or of the system that does not suffice.
    OutOfMemory,
    /// A device, its driver or its compiler failed.
    Device,
    /// Training that cannot go on because its numbers are no longer finite.
    NotFinite,
    /// The caller cancelled the work.
    Cancelled,
}

impl ErrorKind {
    /// The kind of an error of the system.
    pub fn of_io(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::OutOfMemory => Self::OutOfMemory,
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => Self::InvalidData,
            _ => Self::Io,
        }
    }

    /// Its name, in words.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shape => "shape",
            Self::DType => "data type",
            Self::InvalidArgument => "invalid argument",
            Self::NotFound => "not found",
            Self::InvalidData => "invalid data",
            Self::Io => "I/O",
            Self::Unsupported => "unsupported",
            Self::OutOfMemory => "out of memory",
            Self::Device => "device failure",
            Self::NotFinite => "not finite",
            Self::Cancelled => "cancelled",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
