//! Second moments of inputs: sums, files, factors.

use polaris_optimize::Error;
use polaris_optimize::hessian::{Factor, FactorOptions, Hessian};

use crate::drawn::{correlated, device, hessian, normal, output_error};

#[test]
fn sums_are_those_of_the_definition() {
    let device = device();
    for (rows, columns) in [(1, 1), (7, 1), (3, 5), (40, 33), (700, 300)] {
        let inputs = correlated(rows as u64, rows, columns);
        let found = hessian(&device, &inputs, columns).mean().unwrap().to_vec::<f32>().unwrap();
        let square = |at: usize| f64::from(found[at * (columns + 1)]);
        for i in (0..columns).step_by(1 + columns / 20) {
            for j in 0..columns {
                let products = inputs.chunks(columns).map(|x| f64::from(x[i]) * f64::from(x[j]));
                let expected = products.sum::<f64>() / rows as f64;
                let near = 1e-6 * (square(i) * square(j)).sqrt();
                let value = f64::from(found[i * columns + j]);
                assert!((value - expected).abs() <= near, "{rows}x{columns} ({i}, {j})");
            }
        }
    }
}

#[test]
fn the_loss_is_the_error_of_outputs() {
    let device = device();
    for (rows, columns) in [(1, 1), (5, 9), (19, 130)] {
        let inputs = correlated(4, 200, columns);
        let change = normal(9, rows * columns);
        let expected = output_error(&change, &inputs, columns);
        let found = hessian(&device, &inputs, columns).loss(&change).unwrap();
        assert!((found - expected).abs() <= 1e-5 * expected, "{found} instead of {expected}");
    }
}

#[test]
fn parts_of_a_calibration_add_up_and_survive_files() {
    let device = device();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("part");
    let inputs = correlated(1, 90, 37);
    let whole = hessian(&device, &inputs, 37);
    let (first, second) = inputs.split_at(37 * 50);
    hessian(&device, second, 37).save(&path).unwrap();
    let mut sum = hessian(&device, first, 37);
    sum.merge(&Hessian::load(&device, &path).unwrap()).unwrap();
    assert_eq!((sum.rows(), sum.columns()), (90, 37));
    let values = |hessian: &Hessian| hessian.mean().unwrap().to_vec::<f32>().unwrap();
    let (a, b) = (values(&whole), values(&sum));
    assert!(
        a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1e-5),
        "the order of sums alone differs"
    );
    whole.save(&path).unwrap();
    assert_eq!(values(&Hessian::load(&device, &path).unwrap()), a);
    let error = sum.merge(&hessian(&device, &[1.0; 5], 5)).unwrap_err().to_string();
    assert!(error.contains("5 columns") && error.contains("37"), "{error}");
}

#[test]
fn damaged_files_are_refused() {
    let device = device();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hessian");
    hessian(&device, &correlated(2, 30, 11), 11).save(&path).unwrap();
    let good = std::fs::read(&path).unwrap();
    let refused = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        Hessian::load(&device, &path).unwrap_err().to_string()
    };
    for length in [0, 5, 23, 24, good.len() - 1] {
        let error = refused(&good[..length]);
        assert!(error.contains("hessian"), "{length}: {error}");
    }
    for at in [0, 8, 16, 30, good.len() - 1] {
        let mut bytes = good.clone();
        bytes[at] ^= 0x40;
        refused(&bytes);
    }
    let mut huge = good.clone();
    huge[8..16].fill(0xff);
    assert!(refused(&huge).contains("columns"));
    std::fs::write(&path, &good).unwrap();
    Hessian::load(&device, &path).unwrap();
    assert!(matches!(Hessian::load(&device, &folder.path().join("none")), Err(Error::Io { .. })));
}

#[test]
fn inputs_that_are_no_numbers_are_named_and_left_out() {
    let device = device();
    let mut sum = hessian(&device, &correlated(3, 20, 6), 6);
    let before = sum.mean().unwrap().to_vec::<f32>().unwrap();
    for value in [f32::NAN, f32::INFINITY] {
        let mut inputs = vec![1.0; 12];
        inputs[7] = value;
        assert!(matches!(sum.add(&inputs), Err(Error::NotFinite { at: 7, .. })));
    }
    assert!(sum.add(&[1.0; 7]).is_err());
    assert_eq!(sum.mean().unwrap().to_vec::<f32>().unwrap(), before);
}

#[test]
fn singular_hessians_are_damped_and_nonsense_is_refused() {
    let device = device();
    // One input for 50 columns, no input at all, and a column that is always zero.
    for rows in [0, 1] {
        let hessian = hessian(&device, &correlated(3, rows, 50), 50);
        let factor = Factor::new(&hessian, &FactorOptions::default()).unwrap();
        assert!(factor.costs().iter().all(|cost| cost.is_finite() && *cost > 0.0));
    }
    let mut inputs = correlated(3, 80, 8);
    inputs.iter_mut().skip(2).step_by(8).for_each(|x| *x = 0.0);
    let options = FactorOptions { damping: 0.0, ..FactorOptions::default() };
    assert_eq!(Factor::new(&hessian(&device, &inputs, 8), &options).unwrap().dead(), 1);
    // Without damping a singular one is damped all the same.
    let single = hessian(&device, &correlated(3, 1, 20), 20);
    assert!(Factor::new(&single, &options).unwrap().damping() > 0.0);
    let huge = hessian(&device, &[1e30, 1e30], 2);
    let error = Factor::new(&huge, &options).unwrap_err();
    assert!(matches!(error, Error::NotPositive { .. }), "{error}");
    let error = Factor::new(&single, &FactorOptions { damping: f64::NAN, ..options }).unwrap_err();
    assert!(matches!(error, Error::Damping { .. }), "{error}");
}
