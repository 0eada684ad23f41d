//! Launches on every OpenCL device: arguments are counted and sized, sizes are checked, and memory
//! that is not the device's own is refused.

use crate::common::{
    Enqueue, add_kernel, ints, new_queue, on_every_opencl_device, opencl_devices, runtime, source,
};
use polaris_runtime::opencl::{COUNTERS, Launch};
use polaris_runtime::{Buffer, DeviceExt, Error, Result};

#[track_caller]
fn assert_bad_launch<T: std::fmt::Debug>(found: Result<T>, expected: &str) {
    match found {
        Err(Error::BadLaunch { kernel, why }) => {
            assert_eq!(kernel, "add");
            assert!(why.contains(expected), "{why}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_are_counted_and_sized() {
    on_every_opencl_device(|device, opencl| {
        let kernel = add_kernel(opencl);
        let [x, y] = [(); 2].map(|()| device.upload(&[1i32; 4]).unwrap());
        let start = || opencl.launch(&kernel);
        let both = || start().buffer(&x, 0).buffer(&y, 0);
        let run = |launch: Launch<'_>| launch.enqueue(&[4], &[1]);
        assert_bad_launch(run(start()), "0 arguments");
        assert_bad_launch(run(both()), "4 arguments");
        assert_bad_launch(run(both().value(1i32).value(1i32)), "argument 5");
        assert_bad_launch(run(both().value(1i32).buffer(&x, 0)), "argument 5");
        assert_bad_launch(run(both().value(1i64)), "argument 4");
        // The first failure is the one that is told, and none of them spoils the kernel.
        assert_bad_launch(run(start().value(1u8).buffer(&x, 0)), "argument 0");
        assert_eq!(y.to_vec::<i32>().unwrap(), [1; 4], "nothing ran");
        run(both().value(1i32)).unwrap();
        assert_eq!(y.to_vec::<i32>().unwrap(), [2; 4]);
    });
}

#[test]
fn a_launch_without_work_or_with_sizes_that_do_not_fit_is_refused() {
    on_every_opencl_device(|device, opencl| {
        let kernel = add_kernel(opencl);
        let x = device.upload(&[1i32; 4]).unwrap();
        let run = |global: &[usize], local: &[usize]| {
            opencl.launch(&kernel).buffer(&x, 0).buffer(&x, 0).value(1i32).enqueue(global, local)
        };
        assert_bad_launch(run(&[0], &[1]), "global size is zero");
        assert_bad_launch(run(&[4, 0], &[1, 1]), "global size is zero");
        assert_bad_launch(run(&[4], &[0]), "[4]");
        assert_bad_launch(run(&[4, 4], &[1]), "[4, 4]");
        assert_bad_launch(run(&[1; 4], &[1; 4]), "[1, 1, 1, 1]");
        assert_eq!(x.to_vec::<i32>().unwrap(), [1; 4], "nothing ran");
    });
}

/// `Error::BadLaunch` promises this for "a work-group the device cannot run".
#[test]
fn a_work_group_beyond_the_device_is_a_bad_launch() {
    on_every_opencl_device(|device, opencl| {
        let kernel = add_kernel(opencl);
        let x = device.upload(&[1i32; 4]).unwrap();
        let run = |global: &[usize], local: &[usize]| {
            opencl.launch(&kernel).buffer(&x, 0).buffer(&x, 0).value(1i32).enqueue(global, local)
        };
        let local = device.capabilities().max_work_group + 1;
        assert_bad_launch(run(&[local], &[local]), &local.to_string());
        assert_bad_launch(run(&[], &[]), "[]");
        assert_eq!(x.to_vec::<i32>().unwrap(), [1; 4], "nothing ran");
    });
}

#[test]
fn a_global_size_beyond_the_address_space_is_a_bad_launch() {
    on_every_opencl_device(|device, opencl| {
        let kernel = add_kernel(opencl);
        let x = device.upload(&[1i32; 4]).unwrap();
        let launch = opencl.launch(&kernel).buffer(&x, 0).buffer(&x, 0).value(1i32);
        assert_bad_launch(launch.enqueue(&[usize::MAX], &[2]), &usize::MAX.to_string());
    });
}

#[test]
fn the_number_of_arguments_is_told_in_plain_words() {
    on_every_opencl_device(|_, opencl| {
        let message =
            opencl.launch(&add_kernel(opencl)).enqueue(&[4], &[1]).unwrap_err().to_string();
        assert!(message.contains('5') && !message.contains("Some("), "{message}");
    });
}

#[test]
fn memory_of_another_device_is_refused() {
    let (here, there) = (runtime(), runtime());
    let elsewhere = here.devices().iter().chain(there.devices());
    let buffers: Vec<Buffer> = elsewhere.map(|device| device.upload(&[1i32; 4]).unwrap()).collect();
    for device in opencl_devices(&here) {
        let opencl = device.as_opencl().unwrap();
        let kernel = add_kernel(opencl);
        let own = device.upload(&[1i32; 4]).unwrap();
        let foreign = |buffer: &&Buffer| !std::sync::Arc::ptr_eq(buffer.device(), device);
        for buffer in buffers.iter().filter(foreign) {
            let launch = opencl.launch(&kernel).buffer(&own, 0).buffer(buffer, 0).value(1i32);
            let found = launch.enqueue(&[4], &[1]);
            let message = found.unwrap_err().to_string();
            if buffer.device().id() == device.id() {
                assert!(message.contains("of two runtimes"), "{message}");
                // As the message says.
                buffer.copy_to(&own).unwrap();
            } else {
                assert!(message.contains(&buffer.device().id().to_string()), "{message}");
            }
        }
    }
}

#[test]
fn threads_launch_one_kernel_with_arguments_of_their_own() {
    on_every_opencl_device(|device, opencl| {
        let kernel = add_kernel(opencl);
        std::thread::scope(|scope| {
            for thread in 0..4i32 {
                let kernel = &kernel;
                scope.spawn(move || {
                    let x = device.upload(&[thread; 50]).unwrap();
                    for _ in 0..50 {
                        let launch = opencl.launch(kernel).buffer(&x, 0).buffer(&x, 0);
                        launch.value(10i32).enqueue(&[50], &[10]).unwrap();
                    }
                    assert_eq!(x.to_vec::<i32>().unwrap(), [thread + 500; 50]);
                });
            }
        });
    });
}

const COUNT: &str = "
__kernel void count(__global uint *counters, __global int *seen, ulong seen_first) {
    size_t i = get_global_id(0);
    seen[seen_first + i] = (int)atomic_inc(counters + i);
    atomic_xchg(counters + i, 0u);
}";

#[test]
fn every_queue_has_counters_that_begin_at_zero() {
    on_every_opencl_device(|device, opencl| {
        let kernel = opencl.kernel(("test count", 0), "count", || source("count", &[COUNT]));
        let kernel = kernel.unwrap();
        for queue in [device.queue(), &new_queue(device)] {
            for _ in 0..2 {
                let seen = ints(device, queue, COUNTERS);
                let launch = opencl.launch_on(queue.as_ref(), &kernel).unwrap();
                launch.counters().buffer(&seen, 0).enqueue(&[COUNTERS], &[1]).unwrap();
                assert_eq!(seen.to_vec::<i32>().unwrap(), [0; COUNTERS]);
            }
        }
    });
}
