//! A prompt in pieces is a prompt as a whole; places that are wrong.

use polaris_core::{DType, Shape};
use polaris_runtime::{DeviceRef, Runtime, RuntimeOptions};

use super::*;
use crate::operation::run;

fn cpu() -> DeviceRef {
    Runtime::discover(&RuntimeOptions::default()).expect("the CPU should be there").cpu().clone()
}

fn convolve(
    cpu: &DeviceRef,
    x: &[f32],
    tail: &Array,
    places: &[i32],
    weight: &Array,
) -> Result<Vec<f32>> {
    let tokens = places.len() / 2;
    let channels = x.len() / tokens;
    let x = Array::from_slice(cpu, &[tokens, channels], x)?;
    let places = Array::from_slice(cpu, &[tokens, 2], places)?;
    let output = Array::empty(cpu, DType::F32, Shape::new(&[tokens, channels])?)?;
    run(&CausalConv::default(), &[&x, tail, &places, weight], &output)?;
    output.to_vec()
}

#[test]
fn a_prompt_in_pieces_is_the_same() {
    let cpu = cpu();
    let (tokens, channels, taps) = (9, 3, 4);
    let x: Vec<f32> = (0..tokens * channels).map(|i| (i % 7) as f32 - 2.5).collect();
    let weights: Vec<f32> = (0..channels * taps).map(|i| (i % 5) as f32 * 0.5 - 1.0).collect();
    let weight = Array::from_slice(&cpu, &[channels, taps], &weights).unwrap();
    let nothing = vec![f32::NAN; 2 * (taps - 1) * channels];
    let tail = Array::from_slice(&cpu, &[2, taps - 1, channels], &nothing).unwrap();
    let places = |range: std::ops::Range<usize>| -> Vec<i32> {
        range.flat_map(|position| [1, position as i32]).collect()
    };
    let whole = convolve(&cpu, &x, &tail, &places(0..tokens), &weight).unwrap();
    let mut pieces = Vec::new();
    let mut kept = nothing;
    for piece in [0..1, 1..3, 3..8, 8..9] {
        let tail = Array::from_slice(&cpu, &[2, taps - 1, channels], &kept).unwrap();
        let rows = &x[piece.start * channels..piece.end * channels];
        pieces.extend(convolve(&cpu, rows, &tail, &places(piece.clone()), &weight).unwrap());
        for position in piece {
            let row = (taps - 1 + position % (taps - 1)) * channels;
            kept[row..row + channels].copy_from_slice(&x[position * channels..][..channels]);
        }
    }
    assert_eq!(whole, pieces);
}

#[test]
fn wrong_places_are_refused() {
    let cpu = cpu();
    let weight = Array::from_slice(&cpu, &[2, 3], &[1.0f32; 6]).unwrap();
    let tail = Array::from_slice(&cpu, &[2, 2, 2], &[0.0f32; 8]).unwrap();
    for wrong in [[2, 0], [-1, 0], [0, -1], [i32::MAX, 5]] {
        assert!(convolve(&cpu, &[1.0, 2.0], &tail, &wrong, &weight).is_err(), "{wrong:?}");
    }
    let short = Array::from_slice(&cpu, &[2, 1, 2], &[0.0f32; 4]).unwrap();
    assert!(convolve(&cpu, &[1.0, 2.0], &short, &[0, 0], &weight).is_err());
}
