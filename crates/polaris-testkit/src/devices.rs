//! Which devices tests run on, and what happens where one is missing.

use std::sync::OnceLock;

use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

/// Whether `POLARIS_REQUIRE` (a list such as `opencl,rusticl,isa`) asks for something: then its
/// absence is a failure and not a skip.
pub fn is_required(what: &str) -> bool {
    let list = std::env::var("POLARIS_REQUIRE").unwrap_or_default();
    list.split(',').any(|item| item.trim() == what)
}

/// The CPU and every OpenCL device, shared by all tests of a process.
///
/// # Panics
/// If OpenCL is required and there is none.
pub fn devices_under_test() -> &'static [DeviceRef] {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(own_runtime).devices()
}

/// The same devices for one test alone: one that changes them, such as their memory limits, must not do so under the
/// tests that run alongside it.
///
/// # Panics
/// If OpenCL is required and there is none.
pub fn own_runtime() -> Runtime {
    let runtime = Runtime::discover(&RuntimeOptions::default())
        .expect("looking for devices without limits should not fail");
    if runtime.devices().len() == 1 {
        let problems = runtime.opencl().problems.join("; ");
        assert!(!is_required("opencl"), "POLARIS_REQUIRE asks for opencl: {problems}");
        eprintln!("SKIPPED: tests on OpenCL, since there is no device ({problems})");
    }
    runtime
}
