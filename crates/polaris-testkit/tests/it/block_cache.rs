//! A cache in block formats on every device: rows that are hard to encode, slots that are left out, attention to what
//! was written.

use polaris_core::{DType, Shape};
use polaris_ops::cache_write::cache_write;
use polaris_ops::cached_attention::{CachedAttention, PagedCache, cached_attention};
use polaris_ops::{
    Array, Block, CacheWrite, Distribution, copy, random, run_kernel, usable_kernels, weight,
};
use polaris_runtime::DeviceRef;
use polaris_testkit::{devices_under_test, own_runtime};

const FORMATS: [Block; 2] = [Block::Q8_0, Block::Q4_0];

fn normal(device: &DeviceRef, dims: &[usize], seed: u64) -> Array {
    let distribution = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    random::random(device, DType::F32, Shape::new(dims).unwrap(), distribution, seed).unwrap()
}

fn integers(device: &DeviceRef, dims: &[usize], values: &[i32]) -> Array {
    Array::from_slice(device, dims, values).unwrap()
}

/// What all slots hold before: the scale of both formats is one of half precision, so that it comes back as it is.
const BEFORE: f32 = 127.0;

/// What the slots of a cache of four hold after rows of 64 were written to it with each kernel.
fn written(device: &DeviceRef, block: Block, slots: &[i32], rows: &[f32]) -> Vec<Vec<f32>> {
    let x = Array::from_slice(device, &[slots.len(), 1, 64], rows).unwrap();
    let slots = integers(device, &[slots.len()], slots);
    let cache = || {
        let cache = weight::zeros(device, &[2, 2, 1, 64], block).unwrap();
        let ones = Array::from_slice(device, &[4, 1, 64], &[BEFORE; 256]).unwrap();
        cache_write(&cache, &integers(device, &[4], &[0, 1, 2, 3]), &ones).unwrap();
        cache
    };
    let first = cache();
    cache_write(&first, &slots, &x).unwrap();
    let mut results = vec![first.to_vec().unwrap()];
    for kernel in usable_kernels(&CacheWrite, &[&slots, &first, &x], &first) {
        let cache = cache();
        run_kernel(&CacheWrite, kernel, &[&slots, &cache, &x], &cache).unwrap();
        results.push(cache.to_vec().unwrap());
    }
    results
}

#[test]
fn rows_of_zeros_and_tiny_numbers_are_zero() {
    for (device, block) in devices_under_test().iter().flat_map(|d| FORMATS.map(|b| (d, b))) {
        // In half precision the scales are zero; the last one's is a denormal number in single precision too.
        for value in [0.0, -0.0, 1e-7, -1e-7, 1e-37] {
            for found in written(device, block, &[2], &[value; 64]) {
                assert_eq!(found[128..192], [0.0; 64], "{} {block} {value}", device.id());
                assert_eq!(found[..128], [BEFORE; 128], "{} {block} {value}", device.id());
                assert_eq!(found[192..], [BEFORE; 64], "{} {block} {value}", device.id());
            }
        }
    }
}

#[test]
fn a_block_with_what_is_no_number_is_nan_as_a_whole() {
    for (device, block) in devices_under_test().iter().flat_map(|d| FORMATS.map(|b| (d, b))) {
        // The last one is a number whose scale is none in half precision.
        for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 9e6, -9e6] {
            for place in [32, 47, 63] {
                let mut row = [BEFORE; 64];
                row[place] = value;
                for found in written(device, block, &[1], &row) {
                    let (row, name) = (&found[64..128], device.id());
                    // The other block of the row stays.
                    assert_eq!(row[..32], [BEFORE; 32], "{name} {block} {value}");
                    assert!(row[32..].iter().all(|x| x.is_nan()), "{name} {block} {value}");
                }
            }
        }
        // The largest magnitudes whose scales are numbers.
        let most = if block == Block::Q8_0 { 8.3e6 } else { 5.2e5 };
        for found in written(device, block, &[1], &[most; 64]) {
            assert!(found[64..128].iter().all(|x| (x / most - 1.0).abs() < 1e-2), "{block}");
        }
    }
}

#[test]
fn negative_slots_are_left_out_of_any_number_of_tokens() {
    for (device, block) in devices_under_test().iter().flat_map(|d| FORMATS.map(|b| (d, b))) {
        for slots in [&[-1, 3, i32::MIN][..], &[-1], &[0, -7, 2, -1, 1]] {
            let rows: Vec<f32> =
                (0..slots.len()).flat_map(|token| [2.0f32.powi(token as i32 + 1); 64]).collect();
            for found in written(device, block, slots, &rows) {
                for slot in 0..4 {
                    let token = slots.iter().position(|&of| of == slot as i32);
                    let expected = token.map_or(BEFORE, |token| rows[64 * token]);
                    let row = &found[64 * slot..][..64];
                    let near = |x: &f32| (x / expected - 1.0).abs() < 1e-3;
                    assert!(row.iter().all(near), "{} {block} {slots:?} {slot}", device.id());
                }
            }
        }
    }
}

/// What seven tokens of two sequences see in a cache: of blocks, or of the same rows in single precision.
fn attend(device: &DeviceRef, block: Option<Block>) -> Vec<f32> {
    let dims = [6, 16, 2, 64];
    let cache = || match block {
        Some(block) => weight::zeros(device, &dims, block).unwrap(),
        None => Array::from_slice(device, &dims, &vec![0.0f32; dims.iter().product()]).unwrap(),
    };
    let (keys, values) = (cache(), cache());
    let tables = [[4, 1], [2, -1]];
    let placed: Vec<[i32; 2]> = (0..20).map(|at| [0, at]).chain((0..5).map(|at| [1, at])).collect();
    let slot = |&[s, p]: &[i32; 2]| tables[s as usize][p as usize / 16] * 16 + p % 16;
    let slots = integers(device, &[25], &placed.iter().map(slot).collect::<Vec<_>>());
    cache_write(&keys, &slots, &normal(device, &[25, 2, 64], 1)).unwrap();
    cache_write(&values, &slots, &normal(device, &[25, 2, 64], 2)).unwrap();
    let table = integers(device, &[2, 2], tables.as_flattened());
    let cache = PagedCache { keys: &keys, values: &values, table: &table };
    let last: Vec<i32> = placed[18..].as_flattened().to_vec();
    let q = normal(device, &[7, 6, 64], 3);
    let op = CachedAttention { longest: 20, ..CachedAttention::default() };
    let tokens = integers(device, &[7, 2], &last);
    cached_attention(&op, &q, &cache, &tokens, None, None).unwrap().to_vec().unwrap()
}

/// Largest errors, relative to values of deviation 1, of which each result is an average.
#[test]
fn attention_to_blocks_is_near_to_that_to_floats() {
    for (block, limit) in [(Block::Q8_0, 0.03), (Block::Q4_0, 0.5)] {
        for device in devices_under_test() {
            let [found, expected] = [Some(block), None].map(|block| attend(device, block));
            let errors = found.iter().zip(&expected).map(|(a, b)| (a - b).abs());
            let error = errors.fold(0.0, f32::max);
            assert!(error < limit, "{} {block}: {error}", device.id());
        }
    }
}

/// Without kernels the arrays travel to the host and back as blocks.
#[test]
fn quarantined_kernels_of_blocks_are_replaced_by_the_host() {
    let runtime = own_runtime();
    for device in runtime.devices().iter().filter(|device| device.as_opencl().is_some()) {
        for block in FORMATS {
            let name = block.lower_name();
            for variant in ["rows", "strided"] {
                let opencl = device.as_opencl().expect("others were left out");
                opencl.quarantine(&format!("cache_write_{name}_{variant}"));
            }
            let cache = weight::zeros(device, &[2, 2, 1, 32], block).unwrap();
            let row = Array::from_slice(device, &[1, 1, 32], &[2.0f32; 32]).unwrap();
            cache_write(&cache, &integers(device, &[1], &[3]), &row).unwrap();
            let found: Vec<f32> = copy::contiguous(&cache).unwrap().to_vec().unwrap();
            assert_eq!(found[..96], [0.0; 96]);
            assert!(found[96..].iter().all(|x| (x / 2.0 - 1.0).abs() < 1e-3), "{found:?}");
        }
    }
}
