//! Programs on every OpenCL device: arguments and defines arrive as they were given, and what the
//! compiler refuses is told in its words.

use crate::common::{ADD, Enqueue, add_kernel, on_every_opencl_device, source};
use polaris_core::DType;
use polaris_runtime::opencl::{Defines, ProgramSource};
use polaris_runtime::{DeviceExt, Error};

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
            .enqueue(&[10], &[5])
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
        launch.enqueue(&[1], &[1]).unwrap();
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
        opencl.launch(&kernel).buffer(&x, 0).local(16 * 4).enqueue(&[64], &[16]).unwrap();
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
        opencl.launch(&kernel).buffer(&x, 0).enqueue(&[5, 5, 3], &[4, 2, 1]).unwrap();
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
        opencl.launch(&kernel).buffer(&longs, 0).enqueue(&[1], &[1]).unwrap();
        assert_eq!(longs.to_vec::<i64>().unwrap(), [-(1 << 40), 6, 1, 65]);
        // Another variant of the same source is another program.
        let floats = device.allocate(DType::F32, 4).unwrap();
        let kernel = run(1, 7, "float", false);
        opencl.launch(&kernel).buffer(&floats, 0).enqueue(&[1], &[1]).unwrap();
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

const TWO: &str = "__kernel void one(__global int *x, ulong first) { x[first] = 1; }
__kernel void two(__global int *x, ulong first) { x[first] = 2; }";

#[test]
fn a_key_stands_for_one_kernel() {
    on_every_opencl_device(|device, opencl| {
        let kernel = |entry| opencl.kernel(("two", 0), entry, || source("two", &[TWO]));
        let x = device.upload(&[0i32]).unwrap();
        let one = kernel("one").unwrap();
        opencl.launch(&one).buffer(&x, 0).enqueue(&[1], &[1]).unwrap();
        assert_eq!(x.to_vec::<i32>().unwrap(), [1]);
        let error = kernel("two").unwrap_err().to_string();
        assert!(error.contains("`two`") && error.contains("`one`"), "{error}");
        // Another program with a kernel of the same name, where builds look for it.
        let other = opencl.kernel(("two", 0), "one", || source("two", &[ADD, TWO]));
        assert_eq!(other.is_err(), cfg!(debug_assertions));
        assert!(kernel("one").is_ok());
    });
}
