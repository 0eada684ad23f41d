//! Softmax of rows of every length that is held, walked or split differently: with every kernel.

use polaris_ops::FAMILIES;
use polaris_ops::suite::{Arrangement, CaseParameters};
use polaris_testkit::devices_under_test;

/// Parameters of dense arrays of a shape, along one axis.
fn along(shape: &[usize], axis: usize) -> CaseParameters {
    CaseParameters::dense(shape, 1 << axis, 11)
}

/// Runs a case with every kernel on every device, and returns the kernels' names.
fn check(variant: usize, parameters: &CaseParameters) -> Vec<String> {
    let suite = FAMILIES.iter().find(|suite| suite.name == "softmax").unwrap();
    let case = (suite.case)(variant, parameters);
    let mut kernels = Vec::new();
    for device in devices_under_test() {
        for finding in case.run_all_kernels(device) {
            assert!(finding.outcome.is_ok(), "{}: {finding:?}", device.id());
            kernels.push(finding.kernel);
        }
    }
    kernels
}

fn variants() -> usize {
    (FAMILIES.iter().find(|suite| suite.name == "softmax").unwrap().variants)()
}

/// The borders of vectors, wavefronts, groups and what they hold.
#[test]
fn rows_of_any_length() {
    for length in [1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 256, 257, 1023, 1024, 1025] {
        (0..4).for_each(|variant| {
            check(variant, &along(&[3, length], 1));
        });
    }
    for length in [4095, 4096, 4097, 8192, 20_001] {
        (0..variants()).for_each(|variant| {
            check(variant, &along(&[2, length], 1));
        });
    }
}

/// Rows side by side, in blocks of every width, and in the middle of a shape.
#[test]
fn rows_side_by_side() {
    for shape in [&[5, 1][..], &[1, 40], &[33, 7], &[33, 8], &[100, 513], &[3000, 40], &[2, 70, 35]]
    {
        let axis = shape.len() - 2;
        (0..variants()).for_each(|variant| {
            check(variant, &along(shape, axis));
        });
    }
}

/// Arrays that lie differently, and rows whose parts are neither dense nor side by side.
#[test]
fn rows_of_any_layout() {
    let mut turned = along(&[37, 70], 1);
    turned.inputs[0].transposed = true;
    let mut scattered = along(&[6, 5, 130], 2);
    scattered.inputs[0] = Arrangement { offset: 3, gap: 2, padding: 1, ..Arrangement::default() };
    scattered.inputs[1] = Arrangement { offset: 1, transposed: true, ..Arrangement::default() };
    scattered.output = Arrangement { gap: 1, padding: 5, ..Arrangement::default() };
    for parameters in [turned, scattered] {
        for special in [false, true] {
            (0..variants()).for_each(|variant| {
                check(variant, &CaseParameters { special, ..parameters.clone() });
            });
        }
    }
}

/// Each kernel is the first choice where it is meant to be.
#[test]
fn kernels_are_chosen_by_shape() {
    for (shape, axis, chosen) in [
        (&[3, 9][..], 1, "_columns"),
        (&[50, 40], 0, "_columns"),
        (&[3, 200], 1, "_held"),
        (&[3, 1000], 1, "_held"),
        (&[2, 5000], 1, "_group"),
    ] {
        let kernels = check(0, &along(shape, axis));
        let on_opencl = kernels.iter().find(|kernel| !kernel.ends_with("_cpu"));
        if let Some(kernel) = on_opencl {
            assert!(kernel.ends_with(chosen), "{kernel} for {shape:?}");
        }
    }
}
