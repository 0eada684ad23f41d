//! Attention at the borders of tiles, in any layout, and within little memory: with every kernel.

use polaris_core::{DType, Shape};
use polaris_ops::attention::{Attended, Attention, attention, attention_gradient};
use polaris_ops::{
    Array, AttentionGradient, Distribution, Operation, random, run_kernel, usable_kernels,
};
use polaris_runtime::DeviceRef;
use polaris_testkit::{devices_under_test, own_runtime};

fn normal(device: &DeviceRef, dims: &[usize], seed: u64) -> Array {
    let distribution = Distribution::Normal { mean: 0.0, deviation: 1.0 };
    random::random(device, DType::F32, Shape::new(dims).unwrap(), distribution, seed).unwrap()
}

fn wide(array: &Array) -> Vec<f64> {
    array.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect()
}

/// Compares what every kernel writes, or the CPU, with the reference.
fn check<O: Operation>(op: &O, inputs: &[&Array], elements: usize, tolerance: f64) {
    let device = inputs[0].device();
    let shape = Shape::new(&[elements]).unwrap();
    let output = Array::empty(device, DType::F32, shape).unwrap();
    let values: Vec<Vec<f64>> = inputs.iter().map(|input| wide(input)).collect();
    let expected = op.reference(&values, inputs, &output);
    let judge = |kernel: &str| {
        for (at, (found, expected)) in wide(&output).into_iter().zip(&expected).enumerate() {
            let same = found == *expected || (found - expected).abs() <= tolerance;
            assert!(same, "{} {kernel} {op:?}: {at} is {found}, not {expected}", device.id());
        }
    };
    for kernel in usable_kernels(op, inputs, &output) {
        run_kernel(op, kernel, inputs, &output).unwrap();
        judge(&format!("{kernel:?}"));
    }
    polaris_ops::run(op, inputs, &output).unwrap();
    judge("chosen");
}

/// Tiles are 64 queries by 64 or 128 keys.
#[test]
fn tiles_end_anywhere() {
    for (queries, keys, offset) in
        [(1, 200, 199), (64, 64, 0), (65, 129, 0), (63, 191, 128), (130, 40, -30), (128, 128, 1)]
    {
        for device in devices_under_test() {
            let (heads, depth) = (2, 64);
            let q = normal(device, &[1, heads, queries, depth], 1);
            let k = normal(device, &[1, 1, keys, depth], 2);
            let v = normal(device, &[1, 1, keys, depth], 3);
            let g = normal(device, &[1, heads, queries, depth], 4);
            let op = Attention { causal: true, causal_offset: offset, scale: None };
            let rows = heads * queries;
            check(&op, &[&q, &k, &v], rows * (depth + 1), 1e-5);
            let Attended { output, log_sum_exp } = attention(&op, &q, &k, &v, None).unwrap();
            let inputs = [&q, &k, &v, &output, &log_sum_exp, &g];
            let elements = (rows + 2 * keys) * depth;
            check(&AttentionGradient { forward: op }, &inputs, elements, 1e-4);
        }
    }
}

/// Heads beside their elements, as projections leave them, and a head that is repeated.
#[test]
fn layouts_do_not_matter() {
    for device in devices_under_test() {
        let (heads, length, depth) = (4, 70, 64);
        let beside = |seed: u64| normal(device, &[2, length, heads, depth], seed);
        let turned = |array: &Array| array.permute(&[0, 2, 1, 3]).unwrap();
        let dense = |array: &Array| polaris_ops::copy::contiguous(array).unwrap();
        let [q, k, v, g] = [1, 2, 3, 4].map(|seed| turned(&beside(seed)));
        let mask = normal(device, &[length, length], 5).permute(&[1, 0]).unwrap();
        let op = Attention { causal: true, ..Attention::default() };
        let all = |[q, k, v, g, mask]: [&Array; 5]| {
            let attended = attention(&op, q, k, v, Some(mask)).unwrap();
            let of = attention_gradient(&op, q, k, v, Some(mask), &attended, g).unwrap();
            [attended.output, attended.log_sum_exp, of.q, of.k, of.v].map(|array| wide(&array))
        };
        let found = all([&q, &k, &v, &g, &mask]);
        let expected = all([&dense(&q), &dense(&k), &dense(&v), &dense(&g), &dense(&mask)]);
        assert!(found == expected, "{}", device.id());

        let one = k.slice(1, 1..2, 1).unwrap();
        let repeated = one.broadcast_to(k.shape()).unwrap();
        let shared = attention(&op, &q, &one, &one, None).unwrap().output;
        let same = attention(&op, &q, &repeated, &repeated, None).unwrap().output;
        assert!(wide(&shared) == wide(&same), "{}", device.id());
    }
}

/// The scores of all pairs would take 32 MiB, of which there is an eighth beside the arrays.
#[test]
fn scores_take_no_memory() {
    let runtime = own_runtime();
    for device in runtime.devices() {
        let (heads, length, depth) = (2, 2048, 8);
        let draw = |seed: u64| normal(device, &[1, heads, length, depth], seed);
        let (q, k, v, g) = (draw(1), draw(2), draw(3), draw(4));
        let allocator = device.allocator();
        let scores = (heads * length * length * 4) as u64;
        allocator.set_limit(allocator.memory_use().used + scores / 8);
        let op = Attention { causal: true, ..Attention::default() };
        let attended = attention(&op, &q, &k, &v, None).unwrap();
        let gradients = attention_gradient(&op, &q, &k, &v, None, &attended, &g).unwrap();
        assert!(wide(&gradients.k).iter().all(|value| value.is_finite()), "{}", device.id());
    }
}
