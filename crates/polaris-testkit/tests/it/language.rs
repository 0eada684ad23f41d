//! Operations of language models on every device: a cache that is written and read, wrong indices, kernels that are
//! quarantined, gated activations.

use polaris_core::{DType, Shape};
use polaris_ops::cache_write::cache_write;
use polaris_ops::cached_attention::{CachedAttention, PagedCache, cached_attention};
use polaris_ops::expert_matmul::expert_matmul;
use polaris_ops::fused::{Builder, evaluate};
use polaris_ops::route::{Gating, Route, route};
use polaris_ops::{
    Array, Binary, CacheWrite, Distribution, ExpertMatMul, Expression, Ternary, Unary, random,
    run_kernel, usable_kernels,
};
use polaris_runtime::DeviceRef;
use polaris_testkit::{devices_under_test, own_runtime};

fn normal(device: &DeviceRef, dims: &[usize], seed: u64) -> Array {
    let distribution = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    random::random(device, DType::F32, Shape::new(dims).unwrap(), distribution, seed).unwrap()
}

fn values(array: &Array) -> Vec<f32> {
    polaris_ops::copy::cast(array, DType::F32).unwrap().to_vec().unwrap()
}

fn integers(device: &DeviceRef, dims: &[usize], values: &[i32]) -> Array {
    Array::from_slice(device, dims, values).unwrap()
}

fn near(found: &[f32], expected: &[f32], tolerance: f32) -> bool {
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(a, b)| (a - b).abs() <= tolerance)
}

/// Two sequences of 40 and 9 positions in half precision: what is written is attended to, by wide values too.
fn write_and_attend(device: &DeviceRef, width: usize) -> Vec<f32> {
    let (blocks, block_size, heads, depth) = (8, 16, 2, 40);
    let empty = |width: usize| {
        let nothing = Array::from_slice(device, &[1], &[f32::NAN]).unwrap();
        let shape = Shape::new(&[blocks, block_size, heads, width]).unwrap();
        let spread = nothing.broadcast_to(&shape).unwrap();
        polaris_ops::copy::cast(&spread, DType::F16).unwrap()
    };
    let (keys, cached) = (empty(depth), empty(width));
    let tables = [[3, 0, 5], [6, -1, -1]];
    let placed: Vec<(i32, i32)> =
        (0..40).map(|at| (0, at)).chain((0..9).map(|at| (1, at))).collect();
    let slot = |&(sequence, position): &(i32, i32)| {
        tables[sequence as usize][(position / 16) as usize] * 16 + position % 16
    };
    let slots = integers(device, &[49], &placed.iter().map(slot).collect::<Vec<_>>());
    cache_write(&keys, &slots, &normal(device, &[49, heads, depth], 1)).unwrap();
    cache_write(&cached, &slots, &normal(device, &[49, heads, width], 2)).unwrap();
    let table = integers(device, &[2, 3], tables.as_flattened());
    let cache = PagedCache { keys: &keys, values: &cached, table: &table };
    let flat: Vec<i32> = placed.iter().flat_map(|&(s, p)| [s, p]).collect();
    let tokens = integers(device, &[49, 2], &flat);
    let q = normal(device, &[49, 2 * heads, depth], 3);
    let (sinks, slopes) = (normal(device, &[2 * heads], 4), normal(device, &[2 * heads], 5));
    let op = CachedAttention {
        window: Some(20),
        softcap: Some(3.0),
        longest: 40,
        ..CachedAttention::default()
    };
    values(&cached_attention(&op, &q, &cache, &tokens, Some(&sinks), Some(&slopes)).unwrap())
}

/// Tokens that see 700 positions, in a cache of half or single precision, with heads that share keys.
fn attend_to_many(device: &DeviceRef, dtype: DType, tokens: usize, heads: usize) -> Vec<f32> {
    let (block_size, key_heads, depth, longest) = (32, 2, 64, 700);
    let blocks = longest / block_size + 1;
    let cached = |seed| {
        let dims = [blocks, block_size, key_heads, depth];
        polaris_ops::copy::cast(&normal(device, &dims, seed), dtype).unwrap()
    };
    let (keys, cached) = (cached(1), cached(2));
    let table: Vec<i32> = (0..blocks as i32).rev().collect();
    let table = integers(device, &[1, blocks], &table);
    let placed: Vec<i32> = (0..tokens).flat_map(|at| [0, (longest - 1 - 3 * at) as i32]).collect();
    let placed = integers(device, &[tokens, 2], &placed);
    let q = normal(device, &[tokens, heads, depth], 3);
    let cache = PagedCache { keys: &keys, values: &cached, table: &table };
    let op = CachedAttention { longest, ..CachedAttention::default() };
    values(&cached_attention(&op, &q, &cache, &placed, None, None).unwrap())
}

/// Positions are split into parts; the last one is not full.
#[test]
fn few_tokens_see_many_positions() {
    for (dtype, tokens, heads) in [(DType::F32, 1, 8), (DType::F16, 3, 2), (DType::F16, 1, 6)] {
        let expected = attend_to_many(&devices_under_test()[0], dtype, tokens, heads);
        assert!(expected.iter().all(|value| value.is_finite()));
        for device in &devices_under_test()[1..] {
            let found = attend_to_many(device, dtype, tokens, heads);
            assert!(near(&found, &expected, 1e-4), "{} {dtype} {tokens}", device.id());
        }
    }
}

#[test]
fn a_cache_is_written_and_read() {
    for width in [24, 300] {
        let expected = write_and_attend(&devices_under_test()[0], width);
        assert!(expected.iter().all(|value| value.is_finite()));
        for device in &devices_under_test()[1..] {
            assert!(
                near(&write_and_attend(device, width), &expected, 1e-4),
                "{} {width}",
                device.id()
            );
        }
    }
}

/// Without kernels the arrays travel to the host: what is not written must come back as it was.
#[test]
fn quarantined_kernels_are_replaced_by_the_host() {
    let runtime = own_runtime();
    let expected = write_and_attend(runtime.cpu(), 24);
    for device in runtime.devices() {
        let Some(opencl) = device.as_opencl() else { continue };
        for name in [
            "cache_write_f16_rows",
            "cache_write_f16_strided",
            "cached_attention_f16_grouped",
            "cached_attention_f16_serial",
        ] {
            opencl.quarantine(name);
        }
        let cache = Array::from_slice(device, &[2, 1, 1, 4], &[7.0f32; 8]).unwrap();
        let half = polaris_ops::copy::cast(&cache, DType::F16).unwrap();
        let row = Array::from_slice(device, &[1, 1, 4], &[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let slots = integers(device, &[1], &[1]);
        assert!(!polaris_ops::has_trusted_kernel(&CacheWrite, &[&slots, &half, &row], &half));
        cache_write(&half, &slots, &row).unwrap();
        assert_eq!(values(&half), [7.0, 7.0, 7.0, 7.0, 1.0, 2.0, 3.0, 4.0]);
        assert!(near(&write_and_attend(device, 24), &expected, 1e-5), "{}", device.id());
    }
}

/// On devices that do not check, an index that leads nowhere reads something inside its array.
#[test]
fn wrong_indices_stay_inside() {
    for device in devices_under_test().iter().filter(|device| device.as_opencl().is_some()) {
        let ones = |dims: &[usize]| {
            let one = Array::from_slice(device, &[1], &[1.0f32]).unwrap();
            polaris_ops::copy::contiguous(&one.broadcast_to(&Shape::new(dims).unwrap()).unwrap())
                .unwrap()
        };
        let (q, keys) = (ones(&[3, 2, 4]), ones(&[2, 4, 1, 4]));
        let table = integers(device, &[1, 2], &[i32::MAX, -5]);
        let tokens = integers(device, &[3, 2], &[i32::MIN, 7, 9, i32::MAX, 0, -1]);
        let op = CachedAttention { longest: 8, ..CachedAttention::default() };
        let inputs = [&q, &keys, &keys, &table, &tokens];
        let output = Array::empty(device, DType::F32, Shape::new(&[3, 2, 4]).unwrap()).unwrap();
        for kernel in usable_kernels(&op, &inputs, &output) {
            run_kernel(&op, kernel, &inputs, &output).unwrap();
            assert!(near(&values(&output), &[1.0; 24], 1e-6), "{} {kernel:?}", device.id());
        }
        // A wrong slot is not written.
        let cache = ones(&[2, 4, 1, 4]);
        let row = normal(device, &[3, 1, 4], 1);
        cache_write(&cache, &integers(device, &[3], &[8, i32::MAX, -1]), &row).unwrap();
        assert_eq!(values(&cache), [1.0; 32]);
        let (x, weight) = (ones(&[1, 1, 8]), ones(&[2, 3, 8]));
        let ids = integers(device, &[1, 2], &[-3, 2]);
        let output = Array::empty(device, DType::F32, Shape::new(&[1, 2, 3]).unwrap()).unwrap();
        let op = ExpertMatMul::default();
        for kernel in usable_kernels(&op, &[&x, &weight, &ids], &output) {
            run_kernel(&op, kernel, &[&x, &weight, &ids], &output).unwrap();
            assert_eq!(values(&output), [8.0; 6], "{} {kernel:?}", device.id());
        }
    }
}

/// An expression of gate and up, and its definition.
type Gate = (Expression, fn(f64, f64) -> f64);

/// `silu(gate) * up`, `gelu(gate) * up`, and the clamped form of gpt-oss.
fn gates() -> [Gate; 3] {
    let of = |function: Unary| {
        let build = Builder::new(2);
        let [gate, up] = build.inputs();
        build.finish(gate.unary(function) * up).unwrap()
    };
    let clamped = || {
        let build = Builder::new(2);
        let [gate, up] = build.inputs();
        let gate = gate.binary(Binary::Minimum, 7.0);
        let up = up.ternary(Ternary::Clamp, -7.0, 7.0);
        build.finish(gate * (gate * 1.702).unary(Unary::Sigmoid) * (up + 1.0)).unwrap()
    };
    [
        (of(Unary::Silu), |gate, up| gate / (1.0 + (-gate).exp()) * up),
        (of(Unary::GeluTanh), |gate, up| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (gate + 0.044_715 * gate.powi(3));
            0.5 * gate * (1.0 + inner.tanh()) * up
        }),
        (clamped(), |gate, up| {
            let (gate, up) = (gate.min(7.0), up.clamp(-7.0, 7.0));
            gate / (1.0 + (-1.702 * gate).exp()) * (up + 1.0)
        }),
    ]
}

/// A gate and a factor in the halves of one array, as a fused projection leaves them, or in alternating elements.
#[test]
fn gated_activations_are_fused_expressions() {
    let numbers: Vec<f32> = (0..4 * 66).map(|i| ((i * 37) % 101) as f32 / 5.0 - 10.0).collect();
    for device in devices_under_test() {
        let both = Array::from_slice(device, &[4, 66], &numbers).unwrap();
        let halves = [both.slice(1, 0..33, 1).unwrap(), both.slice(1, 33..66, 1).unwrap()];
        let alternating = [both.slice(1, 0..65, 2).unwrap(), both.slice(1, 1..66, 2).unwrap()];
        for (expression, definition) in gates() {
            for [gate, up] in [&halves, &alternating] {
                let found = values(&evaluate(&expression, &[gate, up]).unwrap());
                let expected: Vec<f32> = (values(gate).into_iter().zip(values(up)))
                    .map(|(gate, up)| definition(gate.into(), up.into()) as f32)
                    .collect();
                assert!(near(&found, &expected, 2e-5), "{} {expression}", device.id());
            }
        }
    }
}

/// A mixture from logits to the sum of its experts, the same on every device.
#[test]
fn a_mixture_of_experts() {
    let compute = |device: &DeviceRef| {
        let (tokens, experts, used, k, n) = (5, 8, 2, 64, 48);
        let x = normal(device, &[tokens, 1, k], 1);
        let op = Route { gating: Gating::Softmax, used, groups: None, normalise: true, scale: 1.0 };
        let (ids, weights) = route(&op, &normal(device, &[tokens, experts], 2), None).unwrap();
        let [gate, up, down] = [([n, k], 3), ([n, k], 4), ([k, n], 5)]
            .map(|([rows, columns], seed)| normal(device, &[experts, rows, columns], seed));
        let project = |x: &Array, weight: &Array| expert_matmul(x, weight, &ids, None).unwrap();
        let [(silu, _), ..] = gates();
        let hidden = evaluate(&silu, &[&project(&x, &gate), &project(&x, &up)]).unwrap();
        let each = project(&hidden, &down);
        // The weighted sum of experts is a product of [1, used] and [used, k] for each token.
        let shape = Shape::new(&[tokens, 1, used]).unwrap();
        let weights = weights.with_layout(polaris_core::Layout::contiguous(shape)).unwrap();
        values(&polaris_ops::matmul::matmul(&weights, &each).unwrap())
    };
    let expected = compute(&devices_under_test()[0]);
    for device in &devices_under_test()[1..] {
        assert!(near(&compute(device), &expected, 2e-3), "{}", device.id());
    }
}
