//! GPTQ in block formats.

use polaris_blocks::Block;
use polaris_optimize::hessian::{FactorOptions, Order};
use polaris_optimize::{BlockGptq, Encoded, Error};

use crate::drawn::{change, correlated, device, hessian, normal};

fn decode(block: Block, bytes: &[u8]) -> Vec<f32> {
    let mut floats = vec![0.0; bytes.len() / block.bytes() * block.elements()];
    block.decode(bytes, &mut floats);
    floats
}

#[test]
fn every_format_gains_and_means_what_it_says() {
    let device = device();
    // Rows of one large block and of several, of small blocks that fill no chunk; rows that no eight divide.
    for (rows, columns) in [(11, 256), (3, 512), (9, 160)] {
        let weights = normal(columns as u64, rows * columns);
        let hessian = hessian(&device, &correlated(3, 2 * columns, columns), columns);
        let loss = |bytes: &[u8], block: Block| {
            hessian.loss(&change(&weights, &decode(block, bytes))).unwrap()
        };
        let outputs = hessian.loss(&weights).unwrap();
        for block in Block::ALL.into_iter().filter(|block| columns % block.elements() == 0) {
            let mut plain = vec![0; rows * columns / block.elements() * block.bytes()];
            block.encode_best(&weights, None, &mut plain).unwrap();
            let before = loss(&plain, block);
            let mut ratios = Vec::new();
            for order in [Order::Natural, Order::Activations] {
                for sweeps in [0, 20] {
                    let options = FactorOptions { order, ..FactorOptions::default() };
                    let method = BlockGptq::new(&hessian, &options, sweeps).unwrap();
                    let Encoded { bytes, costs } =
                        method.encode(&weights, block, &|| false).unwrap();
                    let loss = loss(&bytes, block);
                    // What the method believes is what the decoder gives.
                    assert!((costs.error - loss).abs() <= 1e-3 * loss, "{block}: {costs:?} {loss}");
                    assert!((costs.nearest - before).abs() <= 1e-3 * before, "{block}: {costs:?}");
                    assert!((costs.outputs - outputs).abs() <= 1e-3 * outputs);
                    ratios.push(loss / before);
                }
            }
            println!("{columns} {block}: {ratios:.3?}");
            assert!(ratios.iter().all(|&ratio| ratio < 0.75), "{block}: {ratios:?}");
            assert!(ratios[1] <= ratios[0] && ratios[3] <= ratios[2], "{block}: {ratios:?}");
        }
    }
}

#[test]
fn what_cannot_be_encoded_is_refused() {
    let device = device();
    let method = |columns: usize| {
        let hessian = hessian(&device, &correlated(3, 40, columns), columns);
        BlockGptq::new(&hessian, &FactorOptions::default(), 5).unwrap()
    };
    let refused = |weights: &[f32], block, columns| {
        method(columns).encode(weights, block, &|| false).unwrap_err()
    };
    let error = refused(&[0.0; 64], Block::Q4_K, 64);
    assert!(error.to_string().contains("rows of 64") && error.to_string().contains("Q4_K"));
    let mut weights = vec![0.5; 64];
    weights[40] = f32::INFINITY;
    assert!(matches!(refused(&weights, Block::Q4_0, 32), Error::NotFinite { at: 40, .. }));
    weights[40] = 1e38;
    assert!(matches!(refused(&weights, Block::Q4_0, 32), Error::Block(_)));
    assert!(matches!(refused(&weights[..63], Block::Q4_0, 32), Error::Elements { .. }));
    let zeros = method(32).encode(&[0.0; 96], Block::Q4_0, &|| false).unwrap();
    assert_eq!(zeros.costs.error, 0.0);
    assert!(decode(Block::Q4_0, &zeros.bytes).iter().all(|&x| x == 0.0));
}
