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
