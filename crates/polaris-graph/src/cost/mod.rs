//! The cost model: the work of instructions, their measured times, and predictions.
//!
//! The time of an instruction is, in this order: what the same instruction took on the same device
//! ([`Database`]); or the least time that the device's measured speed allows for its work, by the share of
//! it that instructions of its class reach, and a launch.

mod database;
mod model;
mod signature;
mod work;

use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use polaris_runtime::machine::{Measurement, Paths, Profile};
use polaris_runtime::{DeviceRef, Runtime, measure};

pub use crate::plan::Trial;
pub use database::{Database, Entry};
pub use model::{CostModel, DeviceCosts, Link, Rates};
pub use polaris_ops::{Class, Work};
pub use signature::{fingerprint, signature};
pub use work::{class_of, work_of};

use crate::Result;

/// The costs of a session's devices, read from their files when somebody asks.
#[derive(Debug)]
pub(crate) struct Costs {
    devices: [Option<DeviceRef>; 2],
    measured: [Option<Measurement>; 2],
    /// The profile is of all threads; what fewer reach is not kept there.
    all_threads: bool,
    paths: Paths,
    model: Mutex<Option<CostModel>>,
}

impl Costs {
    pub fn new(runtime: &Runtime, devices: [Option<DeviceRef>; 2]) -> Self {
        let measured = devices.each_ref().map(|device| {
            let known = runtime.profile(device.as_deref()?)?;
            known.measured.clone()
        });
        let threads = runtime.cpu().capabilities().compute_units;
        Self {
            devices,
            measured,
            all_threads: threads == runtime.hardware().cpu.logical_cores,
            paths: runtime.paths().clone(),
            model: Mutex::default(),
        }
    }

    /// Looks at what is known, or adds to it. A device that was never measured is measured first, in a
    /// second or two, and its profile keeps it.
    pub fn with<T>(&self, look: impl FnOnce(&mut CostModel) -> Result<T>) -> Result<T> {
        let mut model = self.model.lock().unwrap_or_else(PoisonError::into_inner);
        if model.is_none() {
            let [cpu, gpu] = &self.devices;
            let costs = |device: &Option<DeviceRef>, known: &Option<Measurement>| {
                device.as_ref().map(|device| self.open(device, known.as_ref())).transpose()
            };
            let [of_cpu, of_gpu] = &self.measured;
            *model = Some(CostModel::new([costs(cpu, of_cpu)?, costs(gpu, of_gpu)?]));
        }
        look(model.as_mut().expect("the model should have been made"))
    }

    fn open(&self, device: &DeviceRef, known: Option<&Measurement>) -> Result<DeviceCosts> {
        let measured = match known.filter(|known| known.enqueue_us.is_some()) {
            Some(known) => known.clone(),
            None => self.measure(device)?,
        };
        let database = Database::open(self.paths.cache.as_deref(), device.as_ref());
        Ok(DeviceCosts::new(Rates::of(device.as_ref(), &measured), database))
    }

    fn measure(&self, device: &DeviceRef) -> Result<Measurement> {
        log::warn!("measuring {} ({}), once", device.id(), device.info().name);
        let measured = measure::measure(device, &|| polaris_onnx::check_cancelled().is_err())?;
        let kept = device.as_cpu().is_none() || self.all_threads;
        if let Some(path) = self.paths.profile().filter(|_| kept) {
            let key = device.info().profile_key();
            let kept =
                Profile::update(&path, &key, |known| known.measured = Some(measured.clone()));
            if let Err(error) = kept {
                log::warn!("{error}; the measurements are lost when this process ends");
            }
        }
        Ok(measured)
    }
}

/// Seconds since 1970.
pub(crate) fn unix_time() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}
