//! Predictions for our own kernels, as clang compiles them.
//!
//! Skipped where there is no clang, unless `POLARIS_REQUIRE` contains `isa`.

use polaris_gcn::card::{RX_580, RX_590};
use polaris_gcn::{Access, Bound, Card, Prediction, TiledProduct, Toolchain, predict, read};
use polaris_ops::matmul::{Tile, tile_program};

const HYBRID_16: Tile = Tile::new(16, 16, 16, 8, 8);
const TILE_20: Tile = Tile::new(20, 20, 20, 10, 10);
const TILE_24: Tile = Tile::new(24, 24, 16, 8, 8);
const GCN_MEDIUM: Tile = Tile::new(64, 64, 16, 16, 16).lanes(8, 8).unroll(4);
const GCN_LARGE: Tile = Tile::new(128, 128, 8, 16, 16).lanes(8, 8).unroll(2);

fn toolchain() -> Option<Toolchain> {
    let required = std::env::var("POLARIS_REQUIRE").unwrap_or_default();
    match Toolchain::find(None, RX_580.target) {
        Ok(toolchain) => Some(toolchain),
        Err(error) if required.split(',').any(|what| what.trim() == "isa") => panic!("{error}"),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

fn predicted(
    toolchain: &Toolchain,
    card: &Card,
    tile: &Tile,
    size: u32,
    access: Access,
) -> Prediction {
    let program = tile_program(tile, true);
    let options: Vec<String> =
        program.options.split_ascii_whitespace().map(str::to_owned).collect();
    let compiled = toolchain.compile(&program.name, &program.text(), &options).unwrap();
    let code = read(&compiled.assembly).unwrap();
    let product = TiledProduct {
        m: size,
        n: size,
        k: size,
        tile_m: tile.m.into(),
        tile_n: tile.n.into(),
        tile_k: tile.k.into(),
        threads: tile.threads() as u32,
        rows: (tile.m / tile.threads_m).into(),
        columns: (tile.n / tile.threads_n).into(),
        access,
    };
    let prediction = predict(card, &code, &product).unwrap();
    println!(
        "{:28} {} {size:5}: {:5.0} GFLOPS, {:4.1} % of the peak, {:.2} wavefronts, {}",
        tile.name(),
        card.name,
        prediction.gflops,
        100.0 * prediction.share_of_peak,
        prediction.waves_per_simd,
        prediction.bound.name(),
    );
    prediction
}

#[test]
fn small_tiles_beat_those_of_an_earlier_project_by_the_stated_factors() {
    let Some(toolchain) = toolchain() else { return };
    // Tiles of the same sizes in another project's kernels, on such a card. Its kernels are others,
    // for reasons that `known.rs` models: loads of scattered elements, one buffer.
    let cases = [
        (HYBRID_16, 1024, 542.0, 3.0..4.5),
        (TILE_20, 1024, 601.0, 2.5..4.0),
        (TILE_24, 1280, 745.6, 2.0..3.5),
    ];
    for (tile, size, measured, factors) in cases {
        let it = predicted(&toolchain, &RX_590, &tile, size, Access::default());
        let factor = it.gflops / measured;
        assert!(factors.contains(&factor), "{}: {factor:.2} times {measured}", tile.name());
    }
}

#[test]
fn more_sums_a_work_item_are_faster() {
    let Some(toolchain) = toolchain() else { return };
    let speed = |tile: &Tile| predicted(&toolchain, &RX_580, tile, 4096, Access::default());
    let (two, three) = (speed(&HYBRID_16), speed(&TILE_24));
    let (four, eight) = (speed(&GCN_MEDIUM), speed(&GCN_LARGE));
    assert!(four.gflops > 1.2 * two.gflops && four.gflops > 1.2 * three.gflops);
    assert!(eight.gflops > 1.1 * four.gflops);
    // Reads of local memory are what 2x2 sums cost; 8x8 have enough to multiply.
    assert_eq!((two.bound, eight.bound), (Bound::Lds, Bound::Vector));
    assert!((0.72..0.84).contains(&eight.share_of_peak), "{eight:?}");
}

#[test]
fn stagger_keeps_powers_of_two_fast() {
    let Some(toolchain) = toolchain() else { return };
    let straight = Access { staggered: false, ..Access::default() };
    let share =
        |size, access| predicted(&toolchain, &RX_580, &GCN_LARGE, size, access).share_of_peak;
    assert!(share(4096, straight) < 0.9 * share(4096, Access::default()));
    assert_eq!(share(4000, straight), share(4000, Access::default()));
}

/// Without the option, a quotient is a product with a reciprocal that is off in the last place, and a
/// square root one instruction that is.
#[test]
fn elementwise_division_and_square_roots_are_rounded_correctly() {
    let Some(toolchain) = toolchain() else { return };
    let programs = polaris_ops::shipped_programs();
    for (name, correction) in [("div_f32", "v_div_fmas_f32"), ("sqrt_f32", "v_fma_f32")] {
        let name = format!("elementwise.cl {name}");
        let program = programs.iter().find(|program| program.name.starts_with(&name));
        let program = program.expect("quotients and square roots of floats should be shipped");
        let options: Vec<String> =
            program.options.split_ascii_whitespace().map(str::to_owned).collect();
        let compiled = toolchain.compile(&program.name, &program.text(), &options).unwrap();
        assert!(compiled.assembly.contains(correction), "{}", compiled.assembly);
        let plain = toolchain.compile(&program.name, &program.text(), &[]).unwrap();
        assert!(!plain.assembly.contains(correction), "{}", plain.assembly);
    }
}
