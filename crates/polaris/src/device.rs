//! Devices by what they are, without a runtime to carry around.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use polaris_runtime::{DeviceName, DeviceRef, Runtime, RuntimeOptions};

use crate::Result;
use crate::error::Cause;

/// The devices that [`Device`] and `Session` find. Everything of one process has to meet on the same devices, so
/// there is one; it is made when it is first asked for, and never changes after that.
static RUNTIME: Mutex<Option<Arc<Runtime>>> = Mutex::new(None);

/// Makes a runtime with options of your own the one that [`Device`] and `Session` use: fewer threads, a limit of
/// memory, other folders. Call it before anything else.
///
/// # Errors
/// If there is one already.
pub fn set_runtime(runtime: Runtime) -> Result<()> {
    let mut current = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if current.is_some() {
        return Err(Cause::RuntimeInUse.into());
    }
    *current = Some(Arc::new(runtime));
    Ok(())
}

/// The runtime that [`Device`] and `Session` use; it looks for devices when it is first called.
///
/// # Errors
/// If the CPU's threads cannot be started.
pub fn runtime() -> Result<Arc<Runtime>> {
    let mut current = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(runtime) = &*current {
        return Ok(Arc::clone(runtime));
    }
    let runtime = Arc::new(Runtime::discover(&RuntimeOptions::default())?);
    *current = Some(Arc::clone(&runtime));
    Ok(runtime)
}

/// A device to compute on: the CPU, or one that OpenCL shows.
///
/// It is a [`DeviceRef`] and can be used wherever one is asked for.
#[derive(Clone)]
pub struct Device(DeviceRef);

impl Device {
    /// The GPU, or the CPU if there is none. An OpenCL driver that runs on the CPU is never chosen, nor is a GPU
    /// that failed its check.
    ///
    /// # Errors
    /// If the CPU's threads cannot be started.
    pub fn best() -> Result<Self> {
        Ok(Self(runtime()?.best().clone()))
    }

    /// The CPU.
    ///
    /// # Errors
    /// As for [`Device::best`].
    pub fn cpu() -> Result<Self> {
        Ok(Self(runtime()?.cpu().clone()))
    }

    /// The device of a name: `cpu`, `gpu`, `opencl:1`, or a part of its name or maker such as `nvidia`.
    ///
    /// # Errors
    /// If there is none; the error says which there are.
    pub fn named(name: &str) -> Result<Self> {
        Ok(Self(runtime()?.select(&DeviceName::from_str(name)?)?.clone()))
    }

    /// All devices, the CPU first and GPUs before drivers that run on the CPU.
    ///
    /// # Errors
    /// As for [`Device::best`].
    pub fn all() -> Result<Vec<Self>> {
        Ok(runtime()?.devices().iter().cloned().map(Self).collect())
    }
}

impl Deref for Device {
    type Target = DeviceRef;

    fn deref(&self) -> &DeviceRef {
        &self.0
    }
}

impl From<DeviceRef> for Device {
    fn from(device: DeviceRef) -> Self {
        Self(device)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({self})")
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.0.id(), self.0.info().name)
    }
}
