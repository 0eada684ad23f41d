//! The errors of the runtime. Each message says what failed, what is accepted and what to do.

use std::path::PathBuf;

use polaris_core::{ErrorKind, printable};

use crate::DeviceId;
use crate::memory::LiveBlocks;
use crate::text::Bytes;

/// The result of a fallible operation of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of the runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A shape, layout or data type is wrong.
    #[error(transparent)]
    Core(#[from] polaris_core::Error),
    /// A device that this machine does not have.
    #[error("there is no device `{asked}`; this machine has {known}")]
    UnknownDevice {
        /// What was requested.
        asked: String,
        /// A list of the devices of this machine.
        known: String,
    },
    /// An unknown mode.
    #[error("`{asked}` is not a mode; expected cpu, gpu, hybrid or auto")]
    UnknownMode {
        /// What was requested.
        asked: String,
    },
    /// An invalid memory limit.
    #[error("invalid memory limit `{text}`: {why}; write it as in gpu=512MiB")]
    InvalidMemoryLimit {
        /// What was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// An invalid number of threads.
    #[error(
        "{asked} threads were requested; from 1 to {max} are accepted, and the default is one for each \
         logical processor"
    )]
    InvalidThreads {
        /// What was requested.
        asked: usize,
        /// The most threads.
        max: usize,
    },
    /// Threads that the system refused.
    #[error(
        "the system allows {made} of the {asked} requested threads ({source}); use at most {made}, or raise \
         the limits on threads and memory (ulimit -u, ulimit -v)"
    )]
    TooFewThreads {
        /// What was requested.
        asked: usize,
        /// The number of threads that the system allows.
        made: usize,
        /// The system's reason.
        source: std::io::Error,
    },
    /// Not enough memory within the budget or on the device.
    #[error(
        "{device} has no room for {}: {} are in use and {} are left; free buffers, raise the memory limit or \
         use another device{live}",
        Bytes(*.asked), Bytes(*.used), Bytes(*.available)
    )]
    OutOfMemory {
        /// The device.
        device: DeviceId,
        /// The requested bytes.
        asked: u64,
        /// The bytes in use by live buffers.
        used: u64,
        /// The bytes left under the budget.
        available: u64,
        /// What is in use, largest first.
        live: LiveBlocks,
    },
    /// One allocation larger than the driver allows.
    #[error(
        "{device} allows at most {} in one allocation, and {} were requested; split the data",
        Bytes(*.max), Bytes(*.asked)
    )]
    AllocationTooLarge {
        /// The device.
        device: DeviceId,
        /// The requested bytes.
        asked: u64,
        /// The most bytes one allocation may have.
        max: u64,
    },
    /// Buffers of one operation lie on different devices.
    #[error("{op}: one buffer is on {lhs}, another on {rhs}; copy one of them first")]
    DeviceMismatch {
        /// The operation.
        op: &'static str,
        /// The device of the first buffer.
        lhs: DeviceId,
        /// The device of the other buffer.
        rhs: DeviceId,
    },
    /// Buffers of one operation belong to different runtimes, whose memory is separate.
    #[error(
        "{op}: the buffers are on {device} of two runtimes; use one `Runtime` for both, or copy one of \
         them to the other's device with `Buffer::copy_to`"
    )]
    RuntimeMismatch {
        /// The operation.
        op: &'static str,
        /// The device, as both call it.
        device: DeviceId,
    },
    /// A host array and a buffer of different lengths.
    #[error("{op}: {expected} elements were expected, {found} given")]
    LengthMismatch {
        /// The operation.
        op: &'static str,
        /// The expected length.
        expected: usize,
        /// The length that was given.
        found: usize,
    },
    /// Host memory that another thread is writing, or reading while a write was asked for.
    #[error("{op}: the buffer is being {by} elsewhere; wait for that or use a copy")]
    BufferBusy {
        /// What was requested.
        op: &'static str,
        /// The conflicting access: read or written.
        by: &'static str,
    },
    /// Direct host access to memory that the host cannot address.
    #[error("the host cannot address memory of {device}; download it instead")]
    NotHostMemory {
        /// The device.
        device: DeviceId,
    },
    /// A kernel source that the driver's compiler refused.
    #[error("{device} could not build `{program}`{options}:\n{log}")]
    BuildFailed {
        /// The device.
        device: DeviceId,
        /// The program.
        program: String,
        /// The compiler options, with a leading space if there are any.
        options: String,
        /// The compiler's log.
        log: String,
    },
    /// Wrong number or size of kernel arguments, or a work-group the device cannot run.
    #[error("kernel `{kernel}` cannot be launched: {why}")]
    BadLaunch {
        /// The kernel.
        kernel: String,
        /// What is wrong.
        why: String,
    },
    /// An OpenCL call that failed.
    #[error(
        "{device}: {call} failed with {name} ({code}); if it happens again, update the driver or use the CPU"
    )]
    OpenCl {
        /// The device.
        device: DeviceId,
        /// The function that was called.
        call: &'static str,
        /// The name of the error.
        name: &'static str,
        /// OpenCL's error code.
        code: i32,
    },
    /// A file that could not be read or written.
    #[error("could not {action} {}: {source}", printable(&.path.to_string_lossy()))]
    Io {
        /// The attempted action.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The work was cancelled.
    #[error("stopped by the user")]
    Interrupted,
}

impl Error {
    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Core(error) => error.kind(),
            Self::UnknownDevice { .. } | Self::UnknownMode { .. } => ErrorKind::NotFound,
            Self::InvalidMemoryLimit { .. }
            | Self::InvalidThreads { .. }
            | Self::DeviceMismatch { .. }
            | Self::RuntimeMismatch { .. }
            | Self::LengthMismatch { .. }
            | Self::BufferBusy { .. }
            | Self::NotHostMemory { .. }
            | Self::BadLaunch { .. } => ErrorKind::InvalidArgument,
            Self::TooFewThreads { .. }
            | Self::OutOfMemory { .. }
            | Self::AllocationTooLarge { .. } => ErrorKind::OutOfMemory,
            Self::BuildFailed { .. } | Self::OpenCl { .. } => ErrorKind::Device,
            Self::Io { source, .. } => ErrorKind::of_io(source),
            Self::Interrupted => ErrorKind::Cancelled,
        }
    }

    /// Buffers of one operation that are not on the same device of the same runtime.
    pub fn mismatch(op: &'static str, lhs: DeviceId, rhs: DeviceId) -> Self {
        if lhs == rhs {
            return Self::RuntimeMismatch { op, device: lhs };
        }
        Self::DeviceMismatch { op, lhs, rhs }
    }

    /// Whether the device itself is at fault (it failed, refused or has no room), so that
    /// the same work may succeed elsewhere.
    pub fn is_device_failure(&self) -> bool {
        matches!(
            self,
            Self::OpenCl { .. }
                | Self::BuildFailed { .. }
                | Self::OutOfMemory { .. }
                | Self::AllocationTooLarge { .. }
        )
    }
}
