//! Kernels of every format and instruction set against the same products in `f64`.

use polaris_blocks::{Block, Blocks, with_block_type};
use polaris_core::random::SplitMix64;
use polaris_runtime::cpu::SimdLevel;

use super::activations::{Rows, Tiles};
use super::floats::Tokens;
use super::panels::{Ahead, Panel, ROWS};
use super::{Instructions, WeightRows, dots, floats, panels};

/// What rows of A are rounded to, by the definition.
fn rounded(row: &[f32]) -> Vec<f64> {
    let group = |group: &[f32]| -> Vec<f64> {
        let most = group.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let inverse = if most > 0.0 { 127.0 / most } else { 0.0 };
        let scale = most * (1.0 / 127.0);
        group
            .iter()
            .map(|x| f64::from(scale) * f64::from((x * inverse).round_ties_even()))
            .collect()
    };
    row.chunks(32).flat_map(group).collect()
}

/// Random factors, and their products with what they are multiplied by in `f64`.
struct Case {
    k: usize,
    weights: Vec<u8>,
    x: Vec<f32>,
    /// By rows of x, then by rows of the weight: the product and the sum of magnitudes.
    expected: Vec<Vec<(f64, f64)>>,
}

impl Case {
    fn new(block: Block, [m, n, k]: [usize; 3], seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let mut number = || (random.unit() * 4.0 - 2.0) as f32;
        let elements: Vec<f32> = (0..n * k).map(|_| number()).collect();
        // Some groups are zero.
        let x: Vec<f32> =
            (0..m * k).map(|i| if i / 32 % 7 == 3 { 0.0 } else { number() }).collect();
        let mut weights = vec![0; n * k / block.elements() * block.bytes()];
        block.encode_nearest(&elements, &mut weights).unwrap();
        let mut decoded = vec![0.0; n * k];
        block.decode(&weights, &mut decoded);
        let of_row = |x: &[f32]| {
            let x = rounded(x);
            let rows = decoded.chunks(k).map(|row| {
                let products = row.iter().zip(&x).map(|(&w, x)| f64::from(w) * x);
                products.fold((0.0, 0.0), |(sum, most), p| (sum + p, most + p.abs()))
            });
            rows.collect()
        };
        let expected = x.chunks(k).map(of_row).collect();
        Self { k, weights, x, expected }
    }

    fn check(&self, what: &str, row: usize, column: usize, found: f32) {
        let (expected, magnitude) = self.expected[row][column];
        let error = (f64::from(found) - expected).abs();
        assert!(error <= 2e-5 * magnitude + 1e-30, "{what} {row} {column}: {found} {expected}");
    }

    fn rows(&self) -> Rows {
        let start = self.x.as_ptr();
        Rows { start, stride: self.k, count: self.expected.len(), length: self.k }
    }
}

/// All that this processor has.
fn all_instructions() -> impl Iterator<Item = Instructions> {
    let level = SimdLevel::detect();
    let all = [
        (SimdLevel::Portable, Instructions::Plain),
        #[cfg(target_arch = "x86_64")]
        (SimdLevel::Avx2, Instructions::Avx2),
        #[cfg(target_arch = "x86_64")]
        (SimdLevel::Avx512, Instructions::Avx512),
        (level, Instructions::of(level)),
    ];
    all.into_iter().filter(move |&(needed, _)| needed <= level).map(|(_, each)| each)
}

fn dots_of<B: Blocks>(level: Instructions, [m, n, k]: [usize; 3]) {
    let case = Case::new(B::BLOCK, [m, n, k], 11);
    let tiles = Tiles::new(m, k, 1, B::GROUP);
    let mut memory = vec![0u32; tiles.bytes().div_ceil(4)];
    for number in 0..tiles.count {
        // SAFETY: the rows lie inside x, and the memory has the room.
        unsafe { tiles.write(level, case.rows(), number, memory.as_mut_ptr().cast()) };
    }
    let tokens: Vec<_> = (0..m).map(|i| tiles.tile(memory.as_ptr().cast(), i)).collect();
    let kernel = dots::kernels::<B>(level)[m - 1];
    let rows =
        WeightRows { start: case.weights.as_ptr(), stride: case.weights.len() / n, count: n };
    let mut found = vec![0.0; m * n];
    // SAFETY: the rows of the weight have k elements, and so have the tokens; there is room for all results.
    unsafe { kernel(rows, k, &tokens, found.as_mut_ptr(), n) };
    for (row, found) in found.chunks(n).enumerate() {
        for (column, &found) in found.iter().enumerate() {
            case.check(&format!("{} {level:?} dots", B::BLOCK), row, column, found);
        }
    }
}

fn panels_of<B: Blocks>(level: Instructions, [m, n, k]: [usize; 3]) {
    let case = Case::new(B::BLOCK, [m, n, k], 12);
    let kernels = panels::kernels::<B>(level);
    let tiles = Tiles::new(m, k, 2 * kernels.multiply.len(), B::GROUP);
    let mut memory = vec![0u32; tiles.bytes().div_ceil(4)];
    let mut panel = vec![0u32; Panel::bytes(k).div_ceil(4)];
    let panel = Panel::new(panel.as_mut_ptr().cast(), k);
    let stride = case.weights.len() / n;
    for column in (0..n).step_by(ROWS) {
        let start = case.weights[column * stride..].as_ptr();
        let rows = WeightRows { start, stride, count: ROWS.min(n - column) };
        // SAFETY: the rows lie inside the weight, and the panel has the room.
        unsafe { (kernels.pack)(rows, k, panel) };
        for number in 0..tiles.count {
            let mut found = vec![0.0; tiles.tokens * ROWS];
            let place = memory.as_mut_ptr().cast();
            let multiply = kernels.multiply[tiles.tokens / 2 - 1];
            let ahead = Ahead { start, bytes: stride }.part(number, tiles.count);
            // SAFETY: as above; the target has room for sixteen results of each token.
            unsafe {
                tiles.write(level, case.rows(), number, place);
                multiply(panel, tiles.tile(place, number), found.as_mut_ptr(), ROWS, ahead);
            }
            let first = number * tiles.tokens;
            for row in first..m.min(first + tiles.tokens) {
                for i in 0..rows.count {
                    let found = found[(row - first) * ROWS + i];
                    case.check(&format!("{} {level:?} panels", B::BLOCK), row, column + i, found);
                }
            }
        }
    }
}

#[test]
fn every_format_gives_the_product_of_rounded_rows() {
    for level in all_instructions() {
        for block in Block::ALL {
            // Rows of whole chunks, and where blocks are smaller, rows that end within one.
            let lengths = [512, if block.elements() == 32 { 352 } else { 256 }];
            for k in lengths {
                with_block_type!(block, B => {
                    (1..=dots::TOKENS).for_each(|m| dots_of::<B>(level, [m, 19, k]));
                    for m in [1, 5, 12, 13, 27] {
                        panels_of::<B>(level, [m, 19, k]);
                    }
                });
            }
        }
    }
}

/// Rows as a panel of floats, filled up with zeros.
fn floats_of<B: Blocks>(level: Instructions, [n, k]: [usize; 2]) {
    let case = Case::new(B::BLOCK, [1, n, k], 13);
    let mut decoded = vec![0.0; n * k];
    B::BLOCK.decode(&case.weights, &mut decoded);
    let stride = case.weights.len() / n;
    let rows = WeightRows { start: case.weights.as_ptr(), stride, count: n };
    // Levels count from the lowest: without fused instructions products are rounded before they are moved to zero.
    let most = if level == Instructions::Plain { 1e-5 } else { 0.0 };
    for width in [n.next_multiple_of(4), n.next_multiple_of(16)] {
        let mut panel = vec![7.0; k * width + 1];
        // SAFETY: the rows of the weight have k elements, and there is room for the panel.
        unsafe { (floats::kernels::<B>(level).pack)(rows, k, panel.as_mut_ptr(), width) };
        assert_eq!(panel.pop(), Some(7.0));
        for (at, &found) in panel.iter().enumerate() {
            let (element, row) = (at / width, at % width);
            let expected = if row < n { decoded[row * k + element] } else { 0.0 };
            let is_near = (found - expected).abs() <= most;
            assert!(is_near, "{} {level:?} {row} {element}: {found} {expected}", B::BLOCK);
        }
    }
    for m in 1..=floats::TOKENS {
        let mut random = SplitMix64::new(m as u64);
        let x: Vec<f32> = (0..m * k).map(|_| (random.unit() * 4.0 - 2.0) as f32).collect();
        let mut tokens = vec![f32::NAN; m * Tokens::stride(k)];
        for (x, to) in x.chunks(k).zip(tokens.chunks_mut(Tokens::stride(k))) {
            Tokens::write(x, to);
        }
        let mut found = vec![0.0; m * n];
        let kernel = floats::kernels::<B>(level).dots[m - 1];
        // SAFETY: as above; there is room for all results.
        unsafe { kernel(rows, k, Tokens(tokens.as_ptr()), found.as_mut_ptr(), n) };
        for (at, &found) in found.iter().enumerate() {
            let (x, row) = (&x[at / n * k..][..k], &decoded[at % n * k..][..k]);
            let products = row.iter().zip(x).map(|(&w, &x)| f64::from(w) * f64::from(x));
            let (sum, magnitude) =
                products.fold((0.0, 0.0), |(sum, most), p| (sum + p, most + p.abs()));
            let error = (f64::from(found) - sum).abs();
            assert!(error <= 1e-5 * magnitude, "{} {level:?} {m} {at}: {found} {sum}", B::BLOCK);
        }
    }
}

#[test]
fn every_format_is_decoded_by_every_instruction_set() {
    for level in all_instructions() {
        for block in Block::ALL {
            let lengths = match block.elements() {
                32 => [32, 96, 352, 512],
                _ => [256, 512, 768, 1024],
            };
            for (k, n) in lengths.into_iter().zip([1, 19, 32, 21]) {
                with_block_type!(block, B => floats_of::<B>(level, [n, k]));
            }
        }
    }
}

#[test]
fn rows_of_nothing_are_zero() {
    for level in all_instructions() {
        for block in Block::ALL {
            with_block_type!(block, B => {
                let tiles = Tiles::new(1, 0, 1, B::GROUP);
                assert_eq!(tiles.bytes(), 0);
                let nothing = WeightRows { start: std::ptr::null(), stride: 0, count: 3 };
                let mut found = [7.0; 3];
                // SAFETY: nothing is read, and there is room for three results.
                unsafe {
                    let tokens = [tiles.tile(std::ptr::null(), 0)];
                    dots::kernels::<B>(level)[0](nothing, 0, &tokens, found.as_mut_ptr(), 3);
                }
                assert_eq!(found, [0.0; 3], "{block} {level:?}");
            });
        }
    }
}

#[test]
fn what_is_no_number_is_not_lost() {
    for level in all_instructions() {
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut case = Case::new(Block::Q4_K, [1, 1, 256], 5);
            case.x[77] = bad;
            let tiles = Tiles::new(1, 256, 1, 32);
            let mut memory = vec![0u32; tiles.bytes().div_ceil(4)];
            let mut found = [0.0];
            // SAFETY: as above.
            unsafe {
                tiles.write(level, case.rows(), 0, memory.as_mut_ptr().cast());
                let tokens = [tiles.tile(memory.as_ptr().cast(), 0)];
                let kernel = dots::kernels::<polaris_blocks::Q4_K>(level)[0];
                let start = case.weights.as_ptr();
                let rows = WeightRows { start, stride: case.weights.len(), count: 1 };
                kernel(rows, 256, &tokens, found.as_mut_ptr(), 1);
            }
            assert!(!found[0].is_finite(), "{level:?} {bad}: {}", found[0]);
        }
    }
}

#[test]
fn tiles_share_what_is_fetched_ahead() {
    let memory = [0u8; 1000];
    for (bytes, count) in [(0, 1), (1, 3), (64, 1), (1000, 1), (1000, 3), (1000, 43)] {
        let ahead = Ahead { start: memory.as_ptr(), bytes };
        let mut next = 0;
        for number in 0..count {
            let part = ahead.part(number, count);
            assert_eq!(part.start, memory.as_ptr().wrapping_add(next), "{bytes} {count} {number}");
            next += part.bytes;
        }
        assert_eq!(next, bytes, "{count}");
    }
}
