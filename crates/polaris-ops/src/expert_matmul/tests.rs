//! Experts that do not exist, and products against plain matmuls.

use polaris_core::f16;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;
use crate::{Block, copy, matmul, weight};

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).expect("the CPU should be there").cpu().clone()
}

fn ramp(elements: usize, seed: usize) -> Vec<f32> {
    (0..elements).map(|i| ((i * 37 + seed * 11) % 101) as f32 / 25.0 - 2.0).collect()
}

/// Experts of one, few and many tokens, each token against a plain matmul.
#[test]
fn every_pair_is_a_product() {
    let cpu = device(2);
    let (tokens, used, experts, n, k) = (40, 2, 4, 37, 256);
    let x = Array::from_slice(&cpu, &[tokens, 1, k], &ramp(tokens * k, 1)).unwrap();
    let values = ramp(experts * n * k, 2);
    let dense = Array::from_slice(&cpu, &[experts, n, k], &values).unwrap();
    let halves: Vec<f16> = values.iter().map(|&value| f16::from_f32(value)).collect();
    // One pair with expert 2, few with 3, many with 0 and 1.
    let expert = |pair: usize| match pair {
        0 => 2,
        1..5 => 3,
        _ => pair as i32 % 2,
    };
    let ids: Vec<i32> = (0..tokens * used).map(expert).collect();
    let chosen = Array::from_slice(&cpu, &[tokens, used], &ids).unwrap();
    let bias = Array::from_slice(&cpu, &[experts, n], &ramp(experts * n, 3)).unwrap();
    let mut weights = vec![dense, Array::from_slice(&cpu, &[experts, n, k], &halves).unwrap()];
    weights.extend(
        Block::ALL.map(|block| weight::encode(&cpu, &[experts, n, k], &values, block).unwrap()),
    );
    for weight in weights {
        let found =
            expert_matmul(&x, &weight, &chosen, Some(&bias)).unwrap().to_vec::<f32>().unwrap();
        let wide = copy::cast(&weight, DType::F32).unwrap();
        for (pair, &expert) in ids.iter().enumerate() {
            let expert = expert as usize;
            let row = x.slice(0, pair / used..pair / used + 1, 1).unwrap();
            let b = wide.slice(0, expert..expert + 1, 1).unwrap().permute(&[0, 2, 1]).unwrap();
            let expected = matmul::matmul(&row, &b).unwrap().to_vec::<f32>().unwrap();
            let bias = bias.slice(0, expert..expert + 1, 1).unwrap().to_vec::<f32>().unwrap();
            for line in 0..n {
                let (found, expected) = (found[pair * n + line], expected[line] + bias[line]);
                assert!((found - expected).abs() < 2e-3, "{pair} {line}: {found} and {expected}");
            }
        }
    }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    let all = [1, 2, 5].map(|threads| {
        let cpu = device(threads);
        let x = Array::from_slice(&cpu, &[3, 1, 512], &ramp(3 * 512, 1)).unwrap();
        let weight =
            weight::encode(&cpu, &[4, 600, 512], &ramp(4 * 600 * 512, 2), Block::Q4_0).unwrap();
        let ids = Array::from_slice(&cpu, &[3, 2], &[0i32, 3, 1, 0, 2, 3]).unwrap();
        let found = expert_matmul(&x, &weight, &ids, None).unwrap().to_vec::<f32>().unwrap();
        found.into_iter().map(f32::to_bits).collect::<Vec<u32>>()
    });
    assert!(all.windows(2).all(|two| two[0] == two[1]));
}

#[test]
fn what_does_not_fit_is_refused() {
    let cpu = device(1);
    let array =
        |dims: &[usize]| Array::from_slice(&cpu, dims, &ramp(dims.iter().product(), 1)).unwrap();
    let ids = |dims: &[usize], values: &[i32]| Array::from_slice(&cpu, dims, values).unwrap();
    let (x, weight, good) = (array(&[2, 1, 4]), array(&[3, 5, 4]), ids(&[2, 2], &[0, 1, 2, 0]));
    assert!(expert_matmul(&x, &weight, &good, None).is_ok());
    for wrong in [-1, 3, i32::MAX] {
        let refused =
            expert_matmul(&x, &weight, &ids(&[2, 2], &[0, 1, wrong, 0]), None).unwrap_err();
        assert!(
            matches!(refused, Error::IndexOutOfRange { position: 2, length: 3, .. }),
            "{refused}"
        );
    }
    for x in [array(&[2, 3, 4]), array(&[2, 1, 5]), array(&[3, 1, 4]), array(&[2, 4])] {
        assert!(expert_matmul(&x, &weight, &good, None).is_err(), "{}", x.shape());
    }
    assert!(expert_matmul(&x, &weight, &good, Some(&array(&[3, 4]))).is_err());
    assert!(expert_matmul(&x, &array(&[0, 5, 4]), &good, None).is_err());
    let wide = copy::cast(&weight, DType::F64).unwrap();
    assert!(expert_matmul(&x, &wide, &good, None).is_err());
}

#[test]
fn work_counts_the_experts_that_can_be_used() {
    let cpu = device(1);
    let x = Array::from_slice(&cpu, &[1, 1, 4], &ramp(4, 1)).unwrap();
    let weight = Array::from_slice(&cpu, &[8, 5, 4], &ramp(160, 1)).unwrap();
    let ids = Array::from_slice(&cpu, &[1, 2], &[0i32, 1]).unwrap();
    let output = expert_matmul(&x, &weight, &ids, None).unwrap();
    let types = [&x, &weight, &ids].map(|array| array.array_type());
    let work = ExpertMatMul::default().work(&types, &output.array_type());
    assert_eq!(work.flops, 2 * 2 * 5 * 4);
    assert_eq!(work.bytes, 4 * (4 + 2 * 5 * 4 + 2 + 2 * 5));
}
