//! Products of few vectors with weights in blocks: every format, numbers of vectors around those that kernels take at
//! once, views, and scales of zero and NaN.

use polaris_core::{DType, Layout, Shape};
use polaris_ops::matmul::{Kernel, MatMul, Skinny};
use polaris_ops::{Array, Block, run_kernel, usable_kernels};
use polaris_runtime::{DeviceExt, DeviceRef};
use polaris_testkit::devices_under_test;

/// A weight of `n` rows of `k` elements, and what its elements are. Row 1 has scales of zero and row 2 one that is NaN.
struct Weight {
    block: Block,
    bytes: Vec<u8>,
    elements: Vec<f32>,
    n: usize,
    k: usize,
}

/// Where a block has a scale in half precision.
fn scale_at(block: Block) -> Option<usize> {
    match block {
        Block::Q2_K => Some(80),
        Block::Q3_K => Some(108),
        Block::Q6_K => Some(208),
        Block::MXFP4 => None,
        _ => Some(0),
    }
}

impl Weight {
    fn new(block: Block, n: usize, k: usize) -> Self {
        let value = |at: usize| if at / k == 1 { 0.0 } else { (at as f32 * 0.7).sin() * 0.3 };
        let mut elements: Vec<f32> = (0..n * k).map(value).collect();
        let mut bytes = vec![0; n * k / block.elements() * block.bytes()];
        block.encode_nearest(&elements, &mut bytes).unwrap();
        if let (Some(at), true) = (scale_at(block), n > 2) {
            let first = 2 * k / block.elements() * block.bytes();
            bytes[first + at..][..2].copy_from_slice(&0x7e00u16.to_le_bytes());
        }
        block.decode(&bytes, &mut elements);
        Self { block, bytes, elements, n, k }
    }

    /// Rows from `row` on as columns of a second factor, from element `from` on.
    fn on(&self, device: &DeviceRef, row: usize, from: usize) -> Array {
        let layout = Layout::contiguous(Shape::new(&[self.n, self.k]).unwrap());
        let layout = layout.slice(0, row..self.n, 1).unwrap().slice(1, from..self.k, 1).unwrap();
        let layout = layout.permute(&[1, 0]).unwrap();
        Array::of_blocks(device.upload(&self.bytes).unwrap(), layout, self.block).unwrap()
    }
}

/// Multiplies `m` vectors with rows of a weight by one kernel, and compares with sums in `f64`.
fn compare(device: &DeviceRef, weight: &Weight, m: usize, [row, from]: [usize; 2], kernel: Kernel) {
    let (n, k) = (weight.n - row, weight.k - from);
    // Vectors that are four elements longer, and begin behind those.
    let wide: Vec<f32> = (0..m * (k + 4)).map(|at| (at as f32 * 1.3).cos()).collect();
    let x = Array::from_slice(device, &[m, k + 4], &wide).unwrap();
    let x = x.slice(1, 4..k + 4, 1).unwrap();
    let w = weight.on(device, row, from);
    let out = Array::empty(device, DType::F32, Shape::new(&[m, n]).unwrap()).unwrap();
    let op = MatMul::default();
    let place = format!("{} {} {m} x {n} x {k} {kernel:?}", device.id(), weight.block);
    assert!(usable_kernels(&op, &[&x, &w], &out).iter().any(is_blocks), "{place}");
    run_kernel(&op, kernel, &[&x, &w], &out).unwrap();
    let found: Vec<f32> = out.to_vec().unwrap();
    for (i, column) in (0..m).flat_map(|i| (0..n).map(move |column| (i, column))) {
        let line = &weight.elements[(row + column) * weight.k + from..][..k];
        let terms = wide[i * (k + 4) + 4..][..k].iter().zip(line);
        let terms: Vec<f64> = terms.map(|(&x, &w)| f64::from(x) * f64::from(w)).collect();
        let expected: f64 = terms.iter().sum();
        let size: f64 = terms.iter().map(|term| term.abs()).sum();
        let value = f64::from(found[i * n + column]);
        let is_right = (value - expected).abs() <= 1e-6 * size + 1e-30;
        let is_nan = value.is_nan() && expected.is_nan();
        assert!(is_right || is_nan, "{place}: {value} instead of {expected} at {i}, {column}");
    }
}

fn is_blocks(kernel: &Kernel) -> bool {
    matches!(kernel, Kernel::Blocks(_))
}

const DEFAULT: Kernel = Kernel::Blocks(Skinny { group: 256, lanes: 32, groups_per_unit: 1 });

/// One vector, and some. Lengths are less than what lanes take at once, and odd numbers of blocks. Unless all of it is
/// asked for, every third format has several vectors: each is a program more.
#[test]
fn every_format_with_few_vectors() {
    for device in devices_under_test().iter().filter(|device| device.as_opencl().is_some()) {
        for (at, block) in Block::ALL.into_iter().enumerate() {
            let weight = Weight::new(block, 37, 7 * block.elements());
            compare(device, &weight, 1, [0, 0], DEFAULT);
            compare(device, &weight, 1, [3, block.elements()], DEFAULT);
            if crate::in_full() || at % 3 == 0 {
                compare(device, &weight, [2, 3, 4, 5, 8, 9][at % 6], [0, 0], DEFAULT);
            }
        }
    }
}

/// Vectors that do not fit into local memory at once.
#[test]
fn long_rows() {
    for device in devices_under_test().iter().filter(|device| device.as_opencl().is_some()) {
        for (block, blocks, vectors) in
            [(Block::Q4_K, 19, 1), (Block::Q8_0, 71, 1), (Block::Q4_K, 7, 4)]
        {
            let weight = Weight::new(block, 5, block.elements() * blocks);
            compare(device, &weight, vectors, [0, 0], DEFAULT);
        }
    }
}

/// Numbers of vectors up to more than are preferred, with a row, an odd number and many blocks along k.
#[test]
fn every_number_of_vectors() {
    for device in devices_under_test().iter().filter(|device| device.as_opencl().is_some()) {
        for (n, blocks) in [(1, 1), (19, 33)] {
            let weight = Weight::new(Block::Q8_0, n, 32 * blocks);
            for m in (1..=17).chain([32, 33]) {
                compare(device, &weight, m, [0, 0], DEFAULT);
            }
        }
    }
}

/// Groups and lanes that tuning may choose, and products that are split along k.
#[test]
fn every_shape_of_groups() {
    for device in devices_under_test().iter().filter(|device| device.as_opencl().is_some()) {
        let weight = Weight::new(Block::Q4_K, 9, 256 * 13);
        for (group, lanes) in [(64, 8), (64, 64), (256, 32)] {
            for groups_per_unit in [1, 256] {
                let kernel = Kernel::Blocks(Skinny { group, lanes, groups_per_unit });
                compare(device, &weight, 1, [0, 0], kernel);
            }
        }
        compare(
            device,
            &weight,
            6,
            [0, 256],
            Kernel::Blocks(Skinny { group: 64, lanes: 8, groups_per_unit: 64 }),
        );
    }
}

/// A sum of nothing is zero.
#[test]
fn nothing_along_k() {
    for device in devices_under_test().iter().filter(|device| device.as_opencl().is_some()) {
        let weight = Weight::new(Block::Q4_0, 5, 64);
        compare(device, &weight, 3, [0, 64], DEFAULT);
    }
}
