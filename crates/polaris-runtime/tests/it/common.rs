//! What the runtime's integration tests share: a runtime with folders of its own, the rule for
//! absent devices, and this test binary as a child process.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};

use polaris_core::{DType, Element};
use polaris_runtime::machine::Paths;
use polaris_runtime::opencl::{Defines, Kernel, Launch, OpenClDevice, ProgramSource};
use polaris_runtime::{
    Buffer, DeviceRef, Event, MemoryLimit, Queue, QueueOptions, Runtime, RuntimeOptions,
};
use tempfile::TempDir;

/// A runtime whose cache and data lie in a folder that goes with it.
pub struct TestRuntime {
    runtime: Runtime,
    _folder: TempDir,
}

impl Deref for TestRuntime {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        &self.runtime
    }
}

/// All devices of the machine. Says so if OpenCL's part is left out, or fails where it must not.
pub fn runtime() -> TestRuntime {
    let runtime = any_runtime();
    opencl_devices(&runtime);
    runtime
}

/// A runtime for tests of the CPU, to which it is all the same what else there is.
pub fn any_runtime() -> TestRuntime {
    let folder = TempDir::new().unwrap();
    TestRuntime { runtime: discover_in(folder.path(), Vec::new()), _folder: folder }
}

/// Discovery with cache and data below this folder.
pub fn discover_in(folder: &Path, memory_limits: Vec<MemoryLimit>) -> Runtime {
    Runtime::discover(&options_in(folder, memory_limits)).unwrap()
}

pub fn options_in(folder: &Path, memory_limits: Vec<MemoryLimit>) -> RuntimeOptions {
    let paths = Paths { cache: Some(folder.join("cache")), data: Some(folder.join("data")) };
    RuntimeOptions { threads: Some(2), memory_limits, paths, ..RuntimeOptions::default() }
}

/// The OpenCL devices; without any, the test is skipped with a message, or fails if they are required.
pub fn opencl_devices(runtime: &Runtime) -> &[DeviceRef] {
    let found = &runtime.devices()[1..];
    if found.is_empty() {
        skip(&format!("no OpenCL device: {}", runtime.opencl().problems.join("; ")));
    }
    found
}

static SAID: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

/// Says that (a part of) a test is left out for want of OpenCL, unless that is forbidden.
pub fn skip(why: &str) {
    let required = std::env::var("POLARIS_REQUIRE").unwrap_or_default();
    assert!(
        !required.split(',').any(|name| name.trim() == "opencl"),
        "POLARIS_REQUIRE={required} and yet {why}"
    );
    // The harness names each thread after its test; once per test is enough.
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    if SAID.lock().unwrap().insert(test.to_owned()) {
        eprintln!("SKIPPED: {test}: {why}");
    }
}

/// Values whose bytes differ from neighbour to neighbour and run through all patterns, NaNs too.
pub fn pattern<T: Element>(len: usize, seed: usize) -> Vec<T> {
    let byte = |i: usize| (i.wrapping_mul(37) ^ (i >> 8).wrapping_mul(11) ^ seed) as u8;
    let mut values = vec![T::zeroed(); len];
    let bytes = bytemuck::cast_slice_mut::<T, u8>(&mut values);
    bytes.iter_mut().enumerate().for_each(|(i, target)| *target = byte(i));
    values
}

/// Equality of bytes: NaN equals itself, and a bool must keep its byte.
#[track_caller]
pub fn assert_same<T: Element>(found: &[T], expected: &[T], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let (found, expected) = (bytemuck::cast_slice::<T, u8>(found), bytemuck::cast_slice(expected));
    let differs = found.iter().zip(expected).position(|(a, b): (&u8, &u8)| a != b);
    assert_eq!(differs, None, "{what}: the first byte that differs");
}

/// Calls `$check::<T>($arguments)` for the Rust type of every data type.
macro_rules! for_every_dtype {
    ($check:ident($($argument:expr),*)) => {
        $check::<f32>($($argument),*);
        $check::<f64>($($argument),*);
        $check::<polaris_core::f16>($($argument),*);
        $check::<polaris_core::bf16>($($argument),*);
        $check::<i8>($($argument),*);
        $check::<u8>($($argument),*);
        $check::<i32>($($argument),*);
        $check::<i64>($($argument),*);
        $check::<polaris_core::Bool>($($argument),*);
    };
}

/// Every OpenCL device with its backend.
pub fn on_every_opencl_device(check: impl Fn(&DeviceRef, &OpenClDevice)) {
    let runtime = runtime();
    for device in opencl_devices(&runtime) {
        check(device, device.as_opencl().unwrap());
    }
}

/// A program without defines and options.
pub fn source(name: &str, parts: &'static [&'static str]) -> ProgramSource {
    ProgramSource { name: name.to_owned(), parts, defines: Defines::new(), options: "" }
}

/// `y[i] = x[i] + by`: the kernel of tests that need any kernel.
pub const ADD: &str = "
__kernel void add(__global const int *x, ulong x_first, __global int *y, ulong y_first, int by) {
    size_t i = get_global_id(0);
    y[y_first + i] = x[x_first + i] + by;
}";

pub fn add_kernel(device: &OpenClDevice) -> Arc<Kernel> {
    device.kernel(("test add", 0), "add", || source("add", &[ADD])).unwrap()
}

pub type QueueRef = Arc<dyn Queue>;

pub fn new_queue(device: &DeviceRef) -> QueueRef {
    device.new_queue(QueueOptions::default()).unwrap()
}

pub fn ints(device: &DeviceRef, queue: &QueueRef, len: usize) -> Buffer {
    Buffer::allocate(device, queue, DType::I32, len).unwrap()
}

/// Enqueues `y = x + by` on a queue of the buffers' OpenCL device.
pub fn enqueue_add(queue: &QueueRef, x: &Buffer, y: &Buffer, by: i32) -> Event {
    let device = x.device().as_opencl().unwrap();
    let kernel = add_kernel(device);
    let launch = device.launch_on(queue.as_ref(), &kernel).unwrap();
    let launch = launch.buffer(x, 0).buffer(y, 0).value(by);
    // SAFETY: the kernel uses one element of each buffer for each item.
    unsafe { launch.run_with_event(&[x.len()], &[1]) }.unwrap()
}

/// Runs kernels of tests.
pub trait Enqueue {
    fn enqueue(self, global: &[usize], local: &[usize]) -> polaris_runtime::Result<()>;
}

impl Enqueue for Launch<'_> {
    fn enqueue(self, global: &[usize], local: &[usize]) -> polaris_runtime::Result<()> {
        // SAFETY: kernels of tests are a few lines long and stay inside what they are given.
        unsafe { self.run(global, local) }
    }
}

/// Starts one test of this binary (`module::function`) as a process of its own, without the variables that steer
/// OpenCL and these tests. Its standard input is a pipe.
pub fn child(test: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    for name in ["POLARIS_OPENCL", "POLARIS_REQUIRE", "RUSTICL_ENABLE"] {
        command.env_remove(name);
    }
    command.env(CHILD, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

const CHILD: &str = "POLARIS_TEST_CHILD";

/// Whether this process was started by `child`. Tests that serve as children return at once
/// elsewhere.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Prints a line that `answer` finds among what the test harness prints.
pub fn tell(answer: &serde_json::Value) {
    // The harness has printed the test's name without a line break before.
    println!("\nANSWER {answer}");
}

/// What the child told.
#[track_caller]
pub fn answer(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("ANSWER "));
    let line = line.unwrap_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        panic!("no answer ({}):\n{text}\n{errors}", output.status)
    });
    serde_json::from_str(line).unwrap()
}
