//! Programs and launches on every OpenCL device: arguments arrive as they were given, and what is
//! wrong is a structured error that says so.

mod common;

use common::{ADD, add_kernel, opencl_devices, runtime, source};
use polaris_core::DType;
use polaris_runtime::opencl::{Defines, Launch, OpenClDevice, ProgramSource};
use polaris_runtime::{Buffer, DeviceExt, DeviceRef, Error, Result};

/// Every OpenCL device with its backend.
fn on_every_opencl_device(check: impl Fn(&DeviceRef, &OpenClDevice)) {
    let runtime = runtime();
    for device in opencl_devices(&runtime) {
        check(device, device.as_opencl().unwrap());
    }
}

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
fn a_kernel_reads_and_writes_from_the_given_element_on() {
    on_every_opencl_device(|device, opencl| {
        let x = device.upload(&(0..100).collect::<Vec<i32>>()).unwrap();
        let y = device.upload(&[-1i32; 20]).unwrap();
        let kernel = add_kernel(opencl);
        assert_eq!(kernel.name(), "add");
        // Through a view, and from an element further on.
        let (x, part) = (x.view(10..90).unwrap(), y.view(3..17).unwrap());
        opencl
            .launch(&kernel)
            .buffer(&x, 5)
            .buffer(&part, 2)
            .value(1000i32)
            .run(&[10], &[5])
            .unwrap();
        let expected: Vec<i32> = [-1; 5].into_iter().chain(1015..1025).chain([-1; 5]).collect();
        assert_eq!(y.to_vec::<i32>().unwrap(), expected);
    });
}

const TYPED: &str = "
__kernel void typed(__global double *out, ulong first, char i8, uchar u8, int i32, uint u32, long i64, ulong u64,
                    float f32, uint4 a, uint8 b, ulong8 c, float4 d) {
    double found[] = { i8, u8, i32, u32, i64, u64, f32, a.s0, a.s3, b.s0, b.s7, c.s0, c.s7, d.s0, d.s3 };
    for (int i = 0; i < 15; ++i) out[first + i] = found[i];
}";

#[test]
fn values_of_every_kind_arrive() {
    on_every_opencl_device(|device, opencl| {
        if !device.capabilities().fp64 {
            return;
        }
        let kernel = opencl.kernel(("typed", 0), "typed", || source("typed", &[TYPED]));
        let kernel = kernel.unwrap();
        let out = device.allocate(DType::F64, 15).unwrap();
        let launch = opencl.launch(&kernel).buffer(&out, 0);
        let launch = launch.value(-8i8).value(200u8).value(-70_000i32).value(4_000_000_000u32);
        let launch = launch.value(-(1i64 << 40)).value(1u64 << 50).value(0.5f32);
        let launch = launch.value([1u32, 2, 3, 4]).value([5u32, 0, 0, 0, 0, 0, 0, 6]);
        let launch = launch.value([7u64, 0, 0, 0, 0, 0, 0, 8]).value([9.5f32, 0.0, 0.0, -1.5]);
        launch.run(&[1], &[1]).unwrap();
        let expected = [
            -8.0,
            200.0,
            -70_000.0,
            4e9,
            -1_099_511_627_776.0,
            1_125_899_906_842_624.0,
            0.5,
            1.0,
            4.0,
            5.0,
            6.0,
            7.0,
            8.0,
            9.5,
            -1.5,
        ];
        assert_eq!(out.to_vec::<f64>().unwrap(), expected);
    });
}

const REVERSE: &str = "
__kernel void reverse(__global int *x, ulong first, __local int *scratch) {
    size_t i = get_local_id(0), n = get_local_size(0), start = first + get_group_id(0) * n;
    scratch[i] = x[start + i];
    barrier(CLK_LOCAL_MEM_FENCE);
    x[start + i] = scratch[n - 1 - i];
}";

#[test]
fn local_memory_is_shared_by_a_work_group() {
    on_every_opencl_device(|device, opencl| {
        let x = device.upload(&(0..64).collect::<Vec<i32>>()).unwrap();
        let kernel = opencl.kernel(("reverse", 0), "reverse", || source("reverse", &[REVERSE]));
        let kernel = kernel.unwrap();
        opencl.launch(&kernel).buffer(&x, 0).local(16 * 4).run(&[64], &[16]).unwrap();
        let expected: Vec<i32> =
            (0..4).flat_map(|group| (0..16).rev().map(move |i| group * 16 + i)).collect();
        assert_eq!(x.to_vec::<i32>().unwrap(), expected);
    });
}

const COUNT: &str = "
__kernel void count(__global int *x, ulong first) {
    size_t at = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0)
        + get_global_id(0);
    x[first + at] = (int)(get_global_size(0) * 10000 + get_global_size(1) * 100 + get_global_size(2));
}";

#[test]
fn global_sizes_are_rounded_up_in_each_dimension() {
    on_every_opencl_device(|device, opencl| {
        let kernel = opencl.kernel(("count", 0), "count", || source("count", &[COUNT])).unwrap();
        let x = device.upload(&[0i32; 8 * 6 * 3 + 1]).unwrap();
        opencl.launch(&kernel).buffer(&x, 0).run(&[5, 5, 3], &[4, 2, 1]).unwrap();
        let found = x.to_vec::<i32>().unwrap();
        assert_eq!(found[..144], [80_603; 144]);
        assert_eq!(found[144], 0);
    });
}

const DEFINED: &str = "
__kernel void defined(__global TYPE *x, ulong first) {
    x[first] = NUMBER;
    x[first + 1] = EXPRESSION * 2;
    x[first + 2] = FLAG ? 1 : 0;
    x[first + 3] = QUOTED[0];
}";

#[test]
fn defines_are_numbers_or_code() {
    on_every_opencl_device(|device, opencl| {
        let run = |variant: u64, number: i64, dtype: &str, flag: bool| {
            let program = || ProgramSource {
                name: format!("defined for {dtype}"),
                parts: &[DEFINED],
                defines: Defines::new()
                    .number("NUMBER", number)
                    .number("FLAG", flag)
                    .code("TYPE", dtype)
                    .code("EXPRESSION", "(1 + 2)")
                    .code("QUOTED", "\"A, 'b' \\\\ $HOME\""),
                options: "-cl-mad-enable",
            };
            opencl.kernel(("defined", variant), "defined", program).unwrap()
        };
        let longs = device.allocate(DType::I64, 4).unwrap();
        let kernel = run(0, -(1 << 40), "long", true);
        opencl.launch(&kernel).buffer(&longs, 0).run(&[1], &[1]).unwrap();
        assert_eq!(longs.to_vec::<i64>().unwrap(), [-(1 << 40), 6, 1, 65]);
        // Another variant of the same source is another program.
        let floats = device.allocate(DType::F32, 4).unwrap();
        let kernel = run(1, 7, "float", false);
        opencl.launch(&kernel).buffer(&floats, 0).run(&[1], &[1]).unwrap();
        assert_eq!(floats.to_vec::<f32>().unwrap(), [7.0, 6.0, 0.0, 65.0]);
    });
}

#[test]
fn a_failed_build_says_what_the_compiler_said() {
    on_every_opencl_device(|device, opencl| {
        let before = opencl.program_counts();
        let program = || ProgramSource {
            name: "broken for test".into(),
            parts: &["__kernel void add(__global int *x) { x[0] = no_such_thing; }"],
            defines: Defines::new(),
            options: "-cl-mad-enable",
        };
        for _ in 0..2 {
            let error = opencl.kernel(("broken", 0), "add", program).unwrap_err();
            assert!(error.is_device_failure());
            let message = error.to_string();
            match error {
                Error::BuildFailed { device: id, program, options, log } => {
                    assert_eq!((id, program.as_str()), (device.id(), "broken for test"));
                    assert!(options.contains("-cl-std=CL1.2 -cl-mad-enable"), "{options}");
                    assert!(log.contains("no_such_thing"), "{log}");
                    for part in ["broken for test", &options, &log] {
                        assert!(message.contains(part), "{message}");
                    }
                }
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(opencl.program_counts(), before, "nothing was built");
        let repaired = opencl.kernel(("broken", 0), "add", || source("repaired", &[ADD]));
        assert_eq!(repaired.unwrap().name(), "add", "a failure does not occupy the key");
    });
}

#[test]
fn a_kernel_that_is_not_in_the_program_is_an_error() {
    on_every_opencl_device(|_, opencl| {
        for name in ["subtract", "", "add\0"] {
            let found = opencl.kernel(("no such kernel", 0), name, || source("add", &[ADD]));
            assert!(
                matches!(found, Err(Error::OpenCl { .. } | Error::BadLaunch { .. })),
                "{found:?}"
            );
        }
    });
}

#[test]
fn arguments_are_counted_and_sized() {
    on_every_opencl_device(|device, opencl| {
        let kernel = add_kernel(opencl);
        let [x, y] = [(); 2].map(|()| device.upload(&[1i32; 4]).unwrap());
        let start = || opencl.launch(&kernel);
        let both = || start().buffer(&x, 0).buffer(&y, 0);
        let run = |launch: Launch<'_>| launch.run(&[4], &[1]);
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
            opencl.launch(&kernel).buffer(&x, 0).buffer(&x, 0).value(1i32).run(global, local)
        };
        assert_bad_launch(run(&[0], &[1]), "nothing to do");
        assert_bad_launch(run(&[4, 0], &[1, 1]), "nothing to do");
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
            opencl.launch(&kernel).buffer(&x, 0).buffer(&x, 0).value(1i32).run(global, local)
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
        assert_bad_launch(launch.run(&[usize::MAX], &[2]), &usize::MAX.to_string());
    });
}

#[test]
fn the_number_of_arguments_is_told_in_plain_words() {
    on_every_opencl_device(|_, opencl| {
        let message = opencl.launch(&add_kernel(opencl)).run(&[4], &[1]).unwrap_err().to_string();
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
            let found = launch.run(&[4], &[1]);
            assert!(matches!(found, Err(Error::DeviceMismatch { .. })), "{found:?}");
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
                        launch.value(10i32).run(&[50], &[10]).unwrap();
                    }
                    assert_eq!(x.to_vec::<i32>().unwrap(), [thread + 500; 50]);
                });
            }
        });
    });
}
