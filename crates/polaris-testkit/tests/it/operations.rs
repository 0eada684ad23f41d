//! Every operation, on every device, with every kernel, against its `f64` reference.

use polaris_testkit::{CaseParameters, SUITES, devices_under_test};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::in_full;

/// Arbitrary cases of one suite: all on the CPU, and on OpenCL devices all or one of sixteen.
fn property(suite_name: &str, cases: u32) {
    let suite =
        SUITES.iter().find(|suite| suite.name == suite_name).expect("the suite should exist");
    let strategy = (0..(suite.variants)(), CaseParameters::arbitrary());
    let mut runner =
        TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&strategy, |(variant, parameters)| {
        let case = (suite.case)(variant, &parameters);
        let everywhere = in_full() || parameters.seed.is_multiple_of(16);
        let devices = devices_under_test();
        for device in if everywhere { devices } else { &devices[..1] } {
            for finding in case.run_all_kernels(device) {
                if let Err(reason) = finding.outcome {
                    return Err(TestCaseError::fail(format!(
                        "{}: {}: {reason}",
                        device.id(),
                        finding.kernel
                    )));
                }
            }
        }
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn elementwise() {
    property("elementwise", 160);
}

#[test]
fn copy() {
    property("copy", 160);
}

#[test]
fn fill() {
    property("fill", 60);
}

#[test]
fn random() {
    property("random", 60);
}

#[test]
fn reduce() {
    property("reduce", 120);
}

#[test]
fn norm() {
    property("norm", 160);
}

#[test]
fn fused() {
    property("fused", 120);
}

#[test]
fn indexing() {
    property("indexing", 160);
}

#[test]
fn pad() {
    property("pad", 120);
}

#[test]
fn scan() {
    property("scan", 80);
}

#[test]
fn conv() {
    property("conv", 120);
}

#[test]
fn softmax() {
    property("softmax", 120);
}

#[test]
fn batch_norm() {
    property("batch_norm", 160);
}

#[test]
fn pool() {
    property("pool", 200);
}

#[test]
fn cross_entropy() {
    property("cross_entropy", 120);
}

#[test]
fn sort() {
    property("sort", 80);
}

#[test]
fn attention() {
    property("attention", 120);
}

/// The random numbers of every device are the same to the last bit.
#[test]
fn random_numbers_are_identical_everywhere() {
    use polaris_core::{DType, Shape};
    use polaris_ops::{Distribution, random::random};
    let shape = Shape::new(&[100_003]).unwrap();
    let devices = devices_under_test();
    for distribution in [
        Distribution::Uniform { low: -1.0, high: 3.0 },
        Distribution::Normal { mean: 0.5, deviation: 2.0 },
    ] {
        let bits = |device| -> Vec<u32> {
            let array = random(device, DType::F32, shape, distribution, 42).unwrap();
            array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
        };
        let expected = bits(&devices[0]);
        for device in &devices[1..] {
            assert!(bits(device) == expected, "{} differs for {distribution:?}", device.id());
        }
    }
}

/// A reduction gives the same bits run after run, and with any number of threads.
#[test]
fn reductions_are_repeatable() {
    use polaris_core::{DType, Shape};
    use polaris_ops::{Distribution, Reduction, random::random, reduce::reduce_all};
    use polaris_runtime::{Runtime, RuntimeOptions};
    let shape = Shape::new(&[1_000_003]).unwrap();
    let normal = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    let sum = |device: &polaris_runtime::DeviceRef| {
        let array = random(device, DType::F32, shape, normal, 1).unwrap();
        reduce_all(Reduction::Sum, &array).unwrap().to_vec::<f32>().unwrap()[0].to_bits()
    };
    for device in devices_under_test() {
        let first = sum(device);
        assert!((0..5).all(|_| sum(device) == first), "{}", device.id());
    }
    let with_threads = |threads| {
        let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
        sum(Runtime::discover(&options).unwrap().cpu())
    };
    assert_eq!(with_threads(1), with_threads(3));
}
