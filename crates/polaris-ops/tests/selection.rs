//! Choosing the kernel of a product allocates nothing once the decisions are read. A test of its
//! own, since it counts what the whole process allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use polaris_core::{DType, Shape};
use polaris_ops::{Array, MatMul, Operation};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

struct Counting;

thread_local! {
    /// Of this thread alone: drivers have threads of their own.
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: everything is handed to the system's allocator as it is; counting touches no memory but
// a number of the thread.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller promises what the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above; the memory came from the system's allocator.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn choosing_allocates_nothing() {
    let runtime = Runtime::discover(&RuntimeOptions::default()).unwrap();
    let Some(device) = runtime.devices().get(1) else {
        let required = std::env::var("POLARIS_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|what| what.trim() == "opencl"), "OpenCL is required");
        eprintln!("SKIPPED: there is no OpenCL device");
        return;
    };
    let opencl = device.as_opencl().unwrap();
    let matrix = |device: &DeviceRef, rows: usize, columns: usize| {
        Array::empty(device, DType::F32, Shape::new(&[rows, columns]).unwrap()).unwrap()
    };
    let op = MatMul::default();
    for [m, n, k] in [[128, 64, 96], [100, 70, 33], [1, 512, 64]] {
        let (a, b, c) = (matrix(device, m, k), matrix(device, k, n), matrix(device, m, n));
        let first = op.preferred(opencl, &[&a, &b], &c);
        assert!(first.is_some());
        let before = ALLOCATIONS.with(Cell::get);
        let second = op.preferred(opencl, &[&a, &b], &c);
        let allocated = ALLOCATIONS.with(Cell::get) - before;
        assert_eq!((second, allocated), (first, 0), "{m}x{n}x{k}");
    }
}
