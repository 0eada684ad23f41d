//! Mistakes, threads, and what the suites of all devices do not show.

use polaris_core::DType;
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;
use crate::attention::{Attention, attention};

fn device(threads: usize) -> DeviceRef {
    let options = RuntimeOptions { threads: Some(threads), ..RuntimeOptions::default() };
    Runtime::discover(&options).expect("the CPU should be there").cpu().clone()
}

fn ramp(device: &DeviceRef, dims: &[usize], seed: usize) -> Array {
    let elements: usize = dims.iter().product();
    let value = |i: usize| ((i * 37 + seed * 11) % 101) as f32 / 25.0 - 2.0;
    Array::from_slice(device, dims, &(0..elements).map(value).collect::<Vec<f32>>()).unwrap()
}

/// The tokens of one sequence from a position on.
fn tokens(device: &DeviceRef, first: usize, count: usize) -> Array {
    let values: Vec<i32> = (first..first + count).flat_map(|at| [0, at as i32]).collect();
    Array::from_slice(device, &[count, 2], &values).unwrap()
}

/// A sequence whose blocks lie in the opposite order.
struct Sequence {
    k: Array,
    v: Array,
    table: Array,
}

impl Sequence {
    fn new(
        device: &DeviceRef,
        blocks: usize,
        block_size: usize,
        heads: usize,
        depth: usize,
    ) -> Self {
        let dims = [blocks, block_size, heads, depth];
        let entries: Vec<i32> = (0..blocks as i32).rev().collect();
        Self {
            k: ramp(device, &dims, 2),
            v: ramp(device, &dims, 3),
            table: Array::from_slice(device, &[1, blocks], &entries).unwrap(),
        }
    }

    fn attend(&self, op: &CachedAttention, q: &Array, tokens: &Array) -> Result<Array> {
        let cache = PagedCache { keys: &self.k, values: &self.v, table: &self.table };
        cached_attention(op, q, &cache, tokens, None, None)
    }
}

fn bits(array: &Array) -> Vec<u32> {
    array.to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect()
}

fn near(found: &Array, expected: &[f32]) {
    let found = found.to_vec::<f32>().unwrap();
    assert_eq!(found.len(), expected.len());
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < 1e-5, "{at}: {found} instead of {expected}");
    }
}

fn op(longest: usize) -> CachedAttention {
    CachedAttention { longest, ..CachedAttention::default() }
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    // A single token of a long sequence, of which keys are cut into parts; few and many queries.
    for (first, count, heads) in [(2999, 1, 2), (2990, 7, 6), (0, 300, 4)] {
        let all: Vec<Vec<u32>> = [1, 2, 3, 7]
            .map(|threads| {
                let cpu = device(threads);
                let sequence = Sequence::new(&cpu, 94, 32, 2, 40);
                let q = ramp(&cpu, &[count, heads, 40], 1);
                bits(&sequence.attend(&op(3000), &q, &tokens(&cpu, first, count)).unwrap())
            })
            .into();
        assert!(all.windows(2).all(|two| two[0] == two[1]), "{first} {count} {heads}");
    }
}

/// The same as attention of one sequence without a cache, all at once and token by token.
#[test]
fn it_is_attention_of_a_sequence() {
    let cpu = device(2);
    let (length, heads, key_heads, depth, block_size) = (70, 6, 2, 24, 16);
    let sequence = Sequence::new(&cpu, 5, block_size, key_heads, depth);
    let q = ramp(&cpu, &[length, heads, depth], 1);
    // The cache in the order of positions, as [batch, heads, positions, elements].
    let in_order = |cache: &Array| {
        let dims = [1, 5 * block_size, key_heads, depth];
        let values = cache.to_vec::<f32>().unwrap();
        let mut blocks: Vec<&[f32]> = values.chunks(block_size * key_heads * depth).collect();
        blocks.reverse();
        let all = Array::from_slice(&cpu, &dims, &blocks.concat()).unwrap();
        all.slice(1, 0..length, 1).unwrap().permute(&[0, 2, 1, 3]).unwrap()
    };
    let dense = Attention { causal: true, ..Attention::default() };
    let one =
        Array::from_slice(&cpu, &[1, length, heads, depth], &q.to_vec::<f32>().unwrap()).unwrap();
    let one = one.permute(&[0, 2, 1, 3]).unwrap();
    let attended =
        attention(&dense, &one, &in_order(&sequence.k), &in_order(&sequence.v), None).unwrap();
    let expected = attended.output.permute(&[0, 2, 1, 3]).unwrap().to_vec::<f32>().unwrap();
    near(&sequence.attend(&op(length), &q, &tokens(&cpu, 0, length)).unwrap(), &expected);
    for at in [0, 1, 15, 16, 69] {
        let q = q.slice(0, at..at + 1, 1).unwrap();
        let row = heads * depth;
        let found = sequence.attend(&op(at + 1), &q, &tokens(&cpu, at, 1)).unwrap();
        near(&found, &expected[at * row..(at + 1) * row]);
    }
}

#[test]
fn indices_that_lead_nowhere_are_refused() {
    let cpu = device(1);
    let sequence = Sequence::new(&cpu, 4, 8, 1, 4);
    let q = ramp(&cpu, &[1, 2, 4], 1);
    let attend = |op: &CachedAttention, token: [i32; 2], table: [i32; 4]| {
        let tokens = Array::from_slice(&cpu, &[1, 2], &token).unwrap();
        let table = Array::from_slice(&cpu, &[1, 4], &table).unwrap();
        Sequence { table, ..Sequence::new(&cpu, 4, 8, 1, 4) }.attend(op, &q, &tokens)
    };
    let good = [3, 1, 0, 2];
    assert!(attend(&op(20), [0, 19], good).is_ok());
    for token in [[1, 0], [-1, 0], [i32::MIN, 0], [0, 20], [0, -1], [0, i32::MAX]] {
        assert!(attend(&op(20), token, good).is_err(), "{token:?}");
    }
    for entry in [-1, 4, i32::MAX] {
        let table = [3, entry, 0, 2];
        let refused = attend(&op(20), [0, 19], table).unwrap_err();
        assert!(
            matches!(refused, Error::IndexOutOfRange { position: 1, length: 4, .. }),
            "{refused}"
        );
        // Behind the window, or after the token, nobody looks.
        let window = CachedAttention { window: Some(4), ..op(20) };
        assert!(attend(&window, [0, 19], table).is_ok());
        assert!(attend(&op(20), [0, 7], table).is_ok());
    }
    let none = Array::from_slice::<f32>(&cpu, &[0, 2, 4], &[]).unwrap();
    let output = sequence.attend(&op(0), &none, &tokens(&cpu, 0, 0)).unwrap();
    assert_eq!(output.shape().dims(), [0, 2, 4]);
}

#[test]
fn parameters_and_shapes_that_do_not_fit_are_refused() {
    let cpu = device(1);
    let sequence = Sequence::new(&cpu, 4, 8, 2, 4);
    let (q, one) = (ramp(&cpu, &[1, 2, 4], 1), tokens(&cpu, 0, 1));
    let good = op(20);
    assert!(sequence.attend(&good, &q, &one).is_ok());
    for bad in [
        CachedAttention { window: Some(0), ..good },
        CachedAttention { chunk: Some(0), ..good },
        CachedAttention { bidirectional: true, window: Some(4), ..good },
        CachedAttention { bidirectional: true, chunk: Some(4), ..good },
        CachedAttention { softcap: Some(0.0), ..good },
        CachedAttention { softcap: Some(f64::NAN), ..good },
        CachedAttention { scale: Some(f64::INFINITY), ..good },
        op(0),
        op(33),
        op(usize::MAX),
    ] {
        let refused = sequence.attend(&bad, &q, &one).unwrap_err();
        assert!(matches!(refused, Error::InvalidParameter { .. }), "{refused}");
    }
    for other in [&[1, 3, 4][..], &[1, 2, 5], &[2, 2, 4], &[2, 4]] {
        assert!(sequence.attend(&good, &ramp(&cpu, other, 1), &one).is_err(), "{other:?}");
    }
    let integers = Array::from_slice(&cpu, &[1, 2, 4], &[1i32; 8]).unwrap();
    assert!(sequence.attend(&good, &integers, &one).is_err());
    let sinks = CachedAttention { sinks: true, ..good };
    let inputs = [&q, &sequence.k, &sequence.v, &sequence.table, &one];
    let output = Array::empty(&cpu, DType::F32, Shape::new(&[1, 2, 4]).unwrap()).unwrap();
    let arity = run(&sinks, &inputs, &output).unwrap_err();
    assert!(matches!(arity, Error::WrongArity { expected: 6, found: 5, .. }), "{arity}");
    let aliased = run(&good, &inputs, &q).unwrap_err();
    assert!(matches!(aliased, Error::AliasedOutput { .. }), "{aliased}");
}

#[test]
fn work_counts_what_is_seen() {
    let cpu = device(1);
    let sequence = Sequence::new(&cpu, 4, 8, 2, 4);
    let q = ramp(&cpu, &[3, 4, 4], 1);
    let three = tokens(&cpu, 0, 3);
    let types =
        [&q, &sequence.k, &sequence.v, &sequence.table, &three].map(|array| array.array_type());
    let work = |op: CachedAttention| op.work(&types, &q.array_type());
    assert_eq!(work(op(20)).flops, 2 * 3 * 4 * (4 + 4) * 20);
    // One sequence, with two heads of four elements each for keys and values.
    let arrays = 2 * 3 * 4 * 4 * 4;
    assert_eq!(work(op(20)).bytes, 20 * 2 * (2 * 4 * 4) + arrays);
    let window = CachedAttention { window: Some(5), ..op(20) };
    assert_eq!(work(window).bytes, 5 * 2 * (2 * 4 * 4) + arrays);
}

#[test]
fn bidirectional_tokens_see_all_positions() {
    let cpu = device(2);
    let sequence = Sequence::new(&cpu, 3, 8, 2, 16);
    let q = ramp(&cpu, &[5, 4, 16], 1);
    let whole = CachedAttention { bidirectional: true, ..op(20) };
    let found = sequence.attend(&whole, &q, &tokens(&cpu, 3, 5)).unwrap();
    // Queries at the last position see as much.
    let last = Array::from_slice(&cpu, &[5, 2], &[0, 19, 0, 19, 0, 19, 0, 19, 0, 19]).unwrap();
    let expected = sequence.attend(&op(20), &q, &last).unwrap();
    near(&found, &expected.to_vec::<f32>().unwrap());
}

#[test]
fn values_may_be_a_part_of_the_keys() {
    let cpu = device(2);
    let sequence = Sequence::new(&cpu, 3, 8, 1, 48);
    let q = ramp(&cpu, &[5, 4, 48], 1);
    let values = sequence.k.slice(3, 0..32, 1).unwrap();
    let cache = PagedCache { keys: &sequence.k, values: &values, table: &sequence.table };
    let tokens = tokens(&cpu, 3, 5);
    let found = cached_attention(&op(20), &q, &cache, &tokens, None, None).unwrap();
    let apart = crate::copy::contiguous(&values).unwrap();
    let cache = PagedCache { values: &apart, ..cache };
    let expected = cached_attention(&op(20), &q, &cache, &tokens, None, None).unwrap();
    assert_eq!(bits(&found), bits(&expected));
}
