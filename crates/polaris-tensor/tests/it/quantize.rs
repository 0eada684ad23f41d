//! Rounding to integer levels, and its gradients, against their definitions in `f64`.

use polaris_core::DType;
use polaris_runtime::DeviceRef;
use polaris_tensor::{Result, Tensor, gradients};
use polaris_testkit::devices_under_test;

/// Rows and columns of a matrix, and columns that share a scale; the last group may be shorter.
#[derive(Debug, Clone, Copy)]
struct Groups {
    rows: usize,
    columns: usize,
    group: usize,
}

impl Groups {
    fn in_row(self) -> usize {
        self.columns.div_ceil(self.group)
    }

    fn of(self, at: usize) -> usize {
        at / self.columns * self.in_row() + at % self.columns / self.group
    }
}

struct Case {
    x: Vec<f64>,
    scale: Vec<f64>,
    zero: Vec<f64>,
    gradient: Vec<f64>,
    levels: (i32, i32),
    scale_gradient: f64,
}

/// Result, gradient of the elements and gradient of the scales, one element after the other.
fn defined(case: &Case, groups: Groups) -> [Vec<f64>; 3] {
    let (low, high) = (f64::from(case.levels.0), f64::from(case.levels.1));
    let (mut y, mut to_x, mut to_scale) = (vec![], vec![], vec![0.0; case.scale.len()]);
    for (at, &x) in case.x.iter().enumerate() {
        let group = groups.of(at);
        let (scale, zero) = (case.scale[group], case.zero[group]);
        let level = (x / scale).round_ties_even() + zero;
        let (clipped, slope) = match level {
            level if level < low => (low, low - zero),
            level if level > high => (high, high - zero),
            level => (level, level - zero - x / scale),
        };
        y.push(scale * (clipped - zero));
        to_x.push(if clipped == level { case.gradient[at] } else { 0.0 });
        to_scale[group] += slope * case.gradient[at] * case.scale_gradient;
    }
    [y, to_x, to_scale]
}

fn found(case: &Case, groups: Groups, device: &DeviceRef, dtype: DType) -> Result<[Vec<f64>; 3]> {
    let make = |dims: &[usize], values: &[f64]| {
        let host = &devices_under_test()[0];
        Tensor::from_slice(host, dims, values)?.to_dtype(dtype)?.to_device(device)
    };
    let Groups { rows, columns, group } = groups;
    let dims = [rows, groups.in_row()];
    let x = make(&[rows, columns], &case.x)?.requires_grad()?;
    let scale = make(&dims, &case.scale)?.requires_grad()?;
    let spread = |tensor: &Tensor| match groups.in_row() {
        1 => Ok(tensor.clone()),
        _ => tensor.repeat_interleave(group, 1)?.narrow(1, 0..columns),
    };
    let zero = spread(&make(&dims, &case.zero)?)?;
    let y = x.fake_quantize(&spread(&scale)?, &zero, case.levels, case.scale_gradient)?;
    let loss = y.mul(&make(&[rows, columns], &case.gradient)?)?.sum()?;
    let of = gradients(&loss, &[&x, &scale])?;
    let numbers = |gradient: &Option<Tensor>| gradient.as_ref().unwrap().to_f64();
    Ok([y.to_f64()?, numbers(&of[0])?, numbers(&of[1])?])
}

#[test]
fn levels_and_gradients_are_as_defined() {
    // A row is a group; groups fill the rows; the last is shorter; a group is longer than a row.
    for (rows, columns, group) in [(5, 7, 7), (3, 12, 4), (4, 11, 4), (2, 3, 1)] {
        let groups = Groups { rows, columns, group };
        for (levels, zeros) in [((-7, 7), 0..1), ((0, 255), 3..200), ((-1, 1), 0..1)] {
            let count = rows * groups.in_row();
            let wide = f64::from(levels.1);
            // Numbers that `f32` has too, so that they are rounded alike; some of them are clipped.
            let number = |at: usize| ((at * 37 + 11) % 101) as f64 / 32.0 - 1.5 + 1.0 / 4096.0;
            let case = Case {
                x: (0..rows * columns).map(number).collect(),
                scale: (0..count).map(|at| (0.75 + 0.25 * (at % 3) as f64) / wide).collect(),
                zero: (0..count)
                    .map(|at| f64::from(zeros.start + at as i32 * 7 % zeros.end))
                    .collect(),
                gradient: (0..rows * columns).map(|at| number(at * 5 + 3)).collect(),
                levels,
                scale_gradient: 0.125,
            };
            // `f32` rounds quotients, which are nowhere else so close to a half that it matters.
            let expected = defined(&case, groups);
            assert!(expected[1].contains(&0.0), "nothing is clipped");
            let exact = found(&case, groups, &devices_under_test()[0], DType::F64).unwrap();
            compare(&exact, &expected, 1e-12, &format!("{groups:?} {levels:?} in f64"));
            for device in devices_under_test() {
                let found = found(&case, groups, device, DType::F32).unwrap();
                compare(
                    &found,
                    &expected,
                    3e-5,
                    &format!("{groups:?} {levels:?} on {}", device.id()),
                );
            }
        }
    }
}

fn compare(found: &[Vec<f64>; 3], expected: &[Vec<f64>; 3], allowed: f64, what: &str) {
    for (part, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found.len(), expected.len(), "{what}");
        for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
            let error = (found - expected).abs() / (1.0 + expected.abs());
            assert!(error < allowed, "{what}: part {part}, {at}: {found} instead of {expected}");
        }
    }
}

#[test]
fn one_scale_serves_all_elements_and_half_precision_keeps_its_type() {
    for device in devices_under_test() {
        let x = Tensor::from_slice(device, &[2, 2], &[0.24f32, -9.0, 0.26, f32::NAN]).unwrap();
        let number = |value| Tensor::full(device, &[], DType::F32, value).unwrap();
        let (scale, zero) = (number(0.5).requires_grad().unwrap(), number(0.0));
        let y = x.fake_quantize(&scale, &zero, (-3, 3), 1.0).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(y[..3], [0.0, -1.5, 0.5], "{}", device.id());
        assert!(y[3].is_nan());
        let half =
            x.narrow(0, 0..1).unwrap().to_dtype(DType::F16).unwrap().requires_grad().unwrap();
        let y = half.fake_quantize(&scale, &zero, (-3, 3), 1.0).unwrap();
        assert_eq!(y.dtype(), DType::F16);
        y.sum().unwrap().backward().unwrap();
        assert_eq!(half.grad().unwrap().to_f64().unwrap(), [1.0, 0.0]);
        let slope = -0.48 - 3.0;
        assert!((scale.grad().unwrap().to_f64().unwrap()[0] - slope).abs() < 2e-3);
    }
}

#[test]
fn what_is_no_grid_is_refused() {
    let device = &devices_under_test()[0];
    let x = Tensor::zeros(device, &[2, 3], DType::F32).unwrap();
    let refused = |dims: &[usize], levels| {
        let scale = Tensor::ones(device, dims, DType::F32).unwrap();
        let zero = Tensor::zeros(device, &[], DType::F32).unwrap();
        x.fake_quantize(&scale, &zero, levels, 1.0).unwrap_err().to_string()
    };
    assert!(refused(&[], (3, 3)).contains("levels from 3 to 3"));
    assert!(refused(&[4, 2, 3], (-7, 7)).contains("do not broadcast"));
    assert!(!refused(&[5, 1], (-7, 7)).is_empty());
}
