//! What tests share.

use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

/// All devices of this machine, with files of tests only.
pub fn devices() -> Vec<DeviceRef> {
    let runtime = Runtime::discover(&RuntimeOptions::default()).expect("there should be a CPU");
    runtime.devices().to_vec()
}
