//! A prompt in pieces is a prompt as a whole; runs that are wrong.

use polaris_core::{DType, Shape};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;
use crate::operation::run;

fn cpu() -> DeviceRef {
    Runtime::discover(&RuntimeOptions::default()).expect("the CPU should be there").cpu().clone()
}

const DELTA: LinearAttention = LinearAttention {
    decay: Decay::Head,
    delta: true,
    sharing: Sharing::Tiled,
    query_scale: 0.5,
    key_scale: 0.25,
};
const KEYS: usize = 6;
const HEADS: usize = 2;
const VALUES: usize = 5;

fn array(cpu: &DeviceRef, dims: &[usize], seed: usize) -> Array {
    let count = dims.iter().product::<usize>();
    let value = |i: usize| ((i * 29 + seed * 17) % 23) as f32 / 11.0 - 1.0;
    Array::from_slice(cpu, dims, &(0..count).map(value).collect::<Vec<_>>()).unwrap()
}

/// The result and the states, for tokens `range` of a sequence of ten.
fn attend(
    cpu: &DeviceRef,
    range: std::ops::Range<usize>,
    states: &Array,
    runs: &[i32],
) -> Result<(Vec<f32>, Vec<f32>)> {
    let tokens = range.len();
    let of = |dims: &[usize], seed| array(cpu, dims, seed).slice(0, range.clone(), 1);
    let (q, k) = (of(&[10, 1, KEYS], 1)?, of(&[10, 1, KEYS], 2)?);
    let (v, decay) = (of(&[10, HEADS, VALUES], 3)?, of(&[10, HEADS, 1], 4)?);
    let beta = of(&[10, HEADS], 5)?;
    let runs = Array::from_slice(cpu, &[runs.len() / 3, 3], runs)?;
    let rows = tokens + runs.shape()[0] * KEYS;
    let output = Array::empty(cpu, DType::F32, Shape::new(&[rows, HEADS, VALUES])?)?;
    run(&DELTA, &[&q, &k, &v, &decay, states, &runs, &beta], &output)?;
    let mut all: Vec<f32> = output.to_vec()?;
    let states = all.split_off(tokens * HEADS * VALUES);
    Ok((all, states))
}

#[test]
fn a_prompt_in_pieces_is_the_same() {
    let cpu = cpu();
    let nothing = array(&cpu, &[1, KEYS, HEADS, VALUES], 9);
    let (whole, last) = attend(&cpu, 0..10, &nothing, &[-1, 0, 10]).unwrap();
    let mut pieces = Vec::new();
    let mut states = nothing;
    for (piece, slot) in [(0..1, -1), (1..4, 0), (4..9, 0), (9..10, 0)] {
        let (result, after) =
            attend(&cpu, piece.clone(), &states, &[slot, 0, piece.len() as i32]).unwrap();
        pieces.extend(result);
        states = Array::from_slice(&cpu, &[1, KEYS, HEADS, VALUES], &after).unwrap();
    }
    assert_eq!((whole, last), (pieces, states.to_vec::<f32>().unwrap()));
}

#[test]
fn wrong_runs_are_refused() {
    let cpu = cpu();
    let states = array(&cpu, &[2, KEYS, HEADS, VALUES], 9);
    for wrong in [
        &[2, 0, 4][..],
        &[0, 0, 3],
        &[0, 0, 5],
        &[0, -1, 5],
        &[0, 0, 3, 1, 2, 2],
        &[0, 0, 2, 1, 3, 1],
        &[0, 0, -4],
        &[0, 4, i32::MAX],
    ] {
        assert!(attend(&cpu, 0..4, &states, wrong).is_err(), "{wrong:?}");
    }
    assert!(attend(&cpu, 0..4, &states, &[1, 0, 1, 0, 1, 3]).is_ok());
    let short = array(&cpu, &[2, KEYS - 1, HEADS, VALUES], 9);
    assert!(attend(&cpu, 0..4, &short, &[0, 0, 4]).is_err());
}
