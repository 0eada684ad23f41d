//! Every operation, on every device, with every kernel, against its `f64` reference.

use polaris_ops::FAMILIES;
use polaris_ops::suite::CaseParameters;
use polaris_testkit::devices_under_test;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use crate::in_full;

/// Arbitrary cases of one suite: all on the CPU, and on OpenCL devices all or one of sixteen.
fn property(suite_name: &str, cases: u32) {
    let suite =
        FAMILIES.iter().find(|suite| suite.name == suite_name).expect("the suite should exist");
    let strategy = (0..(suite.variants)(), any::<u64>().prop_map(CaseParameters::drawn));
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

/// A test for each of these families, with so many cases.
macro_rules! families {
    ($($family:ident: $cases:literal,)*) => {
        $(
            #[test]
            fn $family() {
                property(stringify!($family), $cases);
            }
        )*

        const NAMED: &[&str] = &[$(stringify!($family)),*];
    };
}

families! {
    elementwise: 160,
    copy: 160,
    fill: 60,
    random: 60,
    reduce: 120,
    norm: 160,
    fused: 120,
    indexing: 160,
    pad: 120,
    scan: 80,
    conv: 120,
    softmax: 120,
    batch_norm: 160,
    pool: 200,
    cross_entropy: 120,
    sort: 80,
    attention: 120,
    cached_attention: 120,
    cache_write: 100,
    causal_conv: 100,
    linear_attention: 120,
    expert_matmul: 120,
    linears: 120,
    route: 100,
}

/// Families that nobody gave a number of cases. Products have tests of their own.
#[test]
fn all_other_families() {
    let others = FAMILIES.iter().map(|family| family.name);
    for name in others.filter(|name| !NAMED.contains(name) && *name != "matmul") {
        property(name, 100);
    }
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
