//! Reductions of arrays that are long enough to be split: with every kernel, and again and again,
//! since the groups of one launch count themselves in memory that the next one counts in too.

use polaris_core::{DType, MAX_RANK, Shape};
use polaris_ops::FAMILIES;
use polaris_ops::reduce::{Grouping, Kernel, Reduce};
use polaris_ops::suite::{Arrangement, CaseParameters};
use polaris_ops::{Array, Distribution, Reduction, random, run_kernel, usable_kernels};
use polaris_runtime::DeviceRef;
use polaris_testkit::devices_under_test;

/// Runs every kernel, and sees to it that the one with a single pass is among them.
fn check_all_kernels(variant: usize, parameters: &CaseParameters) {
    let suite = FAMILIES.iter().find(|suite| suite.name == "reduce").unwrap();
    let case = (suite.case)(variant, parameters);
    for device in devices_under_test() {
        let findings = case.run_all_kernels(device);
        for finding in &findings {
            assert!(finding.outcome.is_ok(), "{}: {finding:?}", device.id());
        }
        let on_host = findings.iter().all(|finding| finding.kernel.ends_with("_cpu"));
        let one_pass = findings.iter().any(|finding| finding.kernel.ends_with("_onepass"));
        assert!(on_host || one_pass, "{}: {findings:?}", device.id());
    }
}

#[test]
fn every_kernel_reduces_long_arrays() {
    let suite = FAMILIES.iter().find(|suite| suite.name == "reduce").unwrap();
    let long = CaseParameters::dense(&[5003], 0b1, 1);
    // Several outputs, two axes that cannot be walked as one, and elements that are not dense.
    let mut scattered = CaseParameters { shape: vec![3, 70, 45], axes: 0b110, ..long.clone() };
    scattered.inputs[0] = Arrangement { offset: 3, gap: 1, padding: 2, ..Arrangement::default() };
    for variant in 0..(suite.variants)() {
        check_all_kernels(variant, &long);
        check_all_kernels(variant, &CaseParameters { special: true, seed: 2, ..long.clone() });
        if (suite.is_essential)(variant) {
            check_all_kernels(variant, &scattered);
        }
    }
}

/// Random numbers of this shape, whose last axis is reduced.
fn input(device: &DeviceRef, shape: &[usize]) -> Array {
    let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    random::random(device, DType::F32, Shape::new(shape).unwrap(), normal, 3).unwrap()
}

/// Enqueues the sum along the last axis.
fn start_sum(kernel: Kernel, x: &Array) -> Array {
    let last = x.shape().rank() - 1;
    let mut axes = [false; MAX_RANK];
    axes[last] = true;
    let op = Reduce { reduction: Reduction::Sum, axes };
    let shape = x.shape().reduce("sum", &[last], false).unwrap();
    let output = Array::empty(x.device(), DType::F32, shape).unwrap();
    assert!(usable_kernels(&op, &[x], &output).contains(&kernel), "{kernel:?} of {}", x.shape());
    run_kernel(&op, kernel, &[x], &output).unwrap();
    output
}

fn bits(sums: &Array) -> Vec<u32> {
    sums.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

const ONE_PASS: Kernel = Kernel::OnePass(Grouping::DEFAULT);
const TREE: Kernel = Kernel::Tree(Grouping::DEFAULT);

const SHAPES: [&[usize]; 5] = [&[1_000_003], &[3000], &[5, 100_000], &[1 << 21], &[70_001]];

/// One pass gives the same bits each time, and those of two passes: nobody sees which it was.
#[test]
fn one_pass_reduces_to_the_same_bits_again_and_again() {
    for device in devices_under_test().iter().filter(|device| device.as_opencl().is_some()) {
        let inputs = SHAPES.map(|shape| input(device, shape));
        let expected = inputs.each_ref().map(|x| bits(&start_sum(TREE, x)));
        // All are under way before the first result is looked at.
        let rounds = [(); 3].map(|()| inputs.each_ref().map(|x| start_sum(ONE_PASS, x)));
        for (round, sums) in rounds.iter().enumerate() {
            for ((sums, expected), shape) in sums.iter().zip(&expected).zip(SHAPES) {
                assert_eq!(bits(sums), *expected, "{}: {shape:?}, round {round}", device.id());
            }
        }
    }
}

#[test]
fn threads_reduce_in_one_pass_at_once() {
    for device in devices_under_test().iter().filter(|device| device.as_opencl().is_some()) {
        std::thread::scope(|scope| {
            for shape in SHAPES {
                scope.spawn(move || {
                    let x = input(device, shape);
                    let expected = bits(&start_sum(TREE, &x));
                    for _ in 0..20 {
                        assert_eq!(bits(&start_sum(ONE_PASS, &x)), expected, "{shape:?}");
                    }
                });
            }
        });
    }
}
