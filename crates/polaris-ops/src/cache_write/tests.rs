//! Slots that are wrong, and work in place.

use polaris_core::{DType, Shape, f16};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;

fn cpu() -> DeviceRef {
    Runtime::discover(&RuntimeOptions::default()).expect("the CPU should be there").cpu().clone()
}

fn slots(cpu: &DeviceRef, slots: &[i32]) -> Array {
    Array::from_slice(cpu, &[slots.len()], slots).unwrap()
}

#[test]
fn only_the_slots_of_tokens_change() {
    let cpu = cpu();
    let cache = Array::from_slice(&cpu, &[3, 2, 1, 2], &[f16::from_f32(9.0); 12]).unwrap();
    let x = Array::from_slice(&cpu, &[3, 1, 2], &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
    cache_write(&cache, &slots(&cpu, &[5, -1, 2]), &x).unwrap();
    let found: Vec<f32> = cache.to_vec::<f16>().unwrap().into_iter().map(f32::from).collect();
    assert_eq!(found, [9.0, 9.0, 9.0, 9.0, 5.0, 6.0, 9.0, 9.0, 9.0, 9.0, 1.0, 2.0]);
}

#[test]
fn wrong_slots_are_refused_and_nothing_is_written() {
    let cpu = cpu();
    let cache = Array::from_slice(&cpu, &[3, 2, 1, 1], &[9.0f32; 6]).unwrap();
    let x = Array::from_slice(&cpu, &[2, 1, 1], &[1.0f32, 2.0]).unwrap();
    for wrong in [[0, 6], [0, i32::MAX], [3, 3]] {
        assert!(cache_write(&cache, &slots(&cpu, &wrong), &x).is_err(), "{wrong:?}");
    }
    assert_eq!(cache.to_vec::<f32>().unwrap(), [9.0; 6]);
    cache_write(&cache, &slots(&cpu, &[-1, i32::MIN]), &x).unwrap();
    assert_eq!(cache.to_vec::<f32>().unwrap(), [9.0; 6]);
}

#[test]
fn shapes_and_types_that_do_not_fit_are_refused() {
    let cpu = cpu();
    let empty = |dtype: DType, dims: &[usize]| {
        Array::empty(&cpu, dtype, Shape::new(dims).unwrap()).unwrap()
    };
    let x = empty(DType::F32, &[2, 1, 4]);
    let two = slots(&cpu, &[0, 1]);
    for cache in [
        empty(DType::F32, &[3, 2, 4]),
        empty(DType::F32, &[3, 2, 2, 4]),
        empty(DType::F32, &[0, 2, 1, 4]),
        empty(DType::F64, &[3, 2, 1, 4]),
        empty(DType::I8, &[3, 2, 1, 4]),
    ] {
        assert!(cache_write(&cache, &two, &x).is_err(), "{}", cache.shape());
    }
    let cache = empty(DType::F32, &[3, 2, 1, 4]);
    assert!(cache_write(&cache, &slots(&cpu, &[0, 1, 2]), &x).is_err());
    assert!(cache_write(&cache, &two, &empty(DType::F16, &[2, 1, 4])).is_err());
}

#[test]
fn blocks_are_those_of_the_encoder() {
    let cpu = cpu();
    let x: Vec<f32> = (0..3 * 2 * 64).map(|i| ((i * 37 % 101) as f32 - 50.0) / 17.0).collect();
    let rows = Array::from_slice(&cpu, &[3, 2, 64], &x).unwrap();
    for block in [Block::Q8_0, Block::Q4_0] {
        let cache = crate::weight::zeros(&cpu, &[2, 2, 2, 64], block).unwrap();
        cache_write(&cache, &slots(&cpu, &[3, -1, 0]), &rows).unwrap();
        let slot = 2 * 64 / block.elements() * block.bytes();
        let mut expected = vec![0; 4 * slot];
        block.encode_nearest(&x[..128], &mut expected[3 * slot..]).unwrap();
        block.encode_nearest(&x[256..], &mut expected[..slot]).unwrap();
        assert_eq!(cache.buffer().to_vec::<u8>().unwrap(), expected, "{block}");
    }
}

#[test]
fn caches_that_are_not_whole_blocks_are_refused() {
    let cpu = cpu();
    let slot = slots(&cpu, &[0]);
    let row = |depth: usize| Array::from_slice(&cpu, &[1, 1, depth], &vec![1.0f32; depth]).unwrap();
    let cache = crate::weight::zeros(&cpu, &[2, 2, 1, 96], Block::Q8_0).unwrap();
    let narrow = cache.slice(3, 0..80, 1).unwrap();
    let error = cache_write(&narrow, &slot, &row(80)).unwrap_err().to_string();
    assert!(error.contains("80 elements") && error.contains("q8_0"), "{error}");
    let shifted = cache.slice(3, 16..48, 1).unwrap();
    let error = cache_write(&shifted, &slot, &row(32)).unwrap_err().to_string();
    assert!(error.contains("do not begin at blocks"), "{error}");
    // Whole blocks of rows can be written in place, but not copied.
    let part = cache.slice(3, 32..96, 1).unwrap();
    cache_write(&part, &slot, &row(64)).unwrap();
    let after = cache.to_vec::<f32>().unwrap();
    assert_eq!(after[..32], [0.0; 32]);
    assert!(after[32..96].iter().all(|x| (x - 1.0).abs() < 1e-3) && after[96..] == [0.0; 288]);
    let whole = crate::weight::zeros(&cpu, &[2, 2, 1, 64], Block::Q8_0).unwrap();
    let error = run(&CacheWrite, &[&slot, &part, &row(64)], &whole).unwrap_err().to_string();
    assert!(error.contains("contiguous"), "{error}");
    let other = crate::weight::zeros(&cpu, &[2, 2, 1, 32], Block::Q5_0).unwrap();
    let error = cache_write(&other, &slot, &row(32)).unwrap_err();
    assert!(matches!(error, Error::UnsupportedFormat { .. }), "{error}");
    // Into another array, both must have the same format.
    let [from, to] = [Block::Q8_0, Block::Q4_0]
        .map(|block| crate::weight::zeros(&cpu, &[2, 2, 1, 32], block).unwrap());
    let error = run(&CacheWrite, &[&slot, &from, &row(32)], &to).unwrap_err();
    assert!(matches!(error, Error::UnsupportedFormat { .. }), "{error}");
    assert!(crate::weight::zeros(&cpu, &[2, 2, 1, 80], Block::Q8_0).is_err());
}
