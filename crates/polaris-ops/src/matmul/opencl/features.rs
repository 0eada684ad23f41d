//! The features of a tile and a shape from which a model predicts the time of a matmul.

use polaris_runtime::Capabilities;

use super::Tile;

/// The names of [`tile_features`].
pub const TILE_FEATURES: &[&str] = &[
    "log_m",
    "log_n",
    "log_k",
    "log_operations",
    "log_padded_operations",
    "waste",
    "aligned",
    "log_tile_m",
    "log_tile_n",
    "log_tile_k",
    "log_threads_m",
    "log_threads_n",
    "log_lanes_m",
    "log_vector",
    "buffers",
    "fragments",
    "log_unroll",
    "copy",
    "log_rows",
    "log_columns",
    "log_sums",
    "log_threads",
    "log_local_bytes",
    "groups_by_local_memory",
    "intensity",
    "log_tiles",
    "log_rounds",
    "round_waste",
    "loads_by_products",
    "log_steps",
    "waste_m",
    "waste_n",
    "waste_k",
    "log_column_vectors",
    "log_sum_vectors",
    "log_tile_bytes_a",
    "log_tile_bytes_b",
    "log_fetches",
];

/// Numbers that describe a product by a tile on a device: the shape, the parameters, and what
/// follows from both, such as how much of the last round of work-groups is idle.
pub fn tile_features(capabilities: &Capabilities, tile: &Tile, shape: [usize; 3]) -> Vec<f32> {
    let log = |value: f64| value.max(1e-9).log2() as f32;
    let [m, n, k] = shape.map(|size| size.max(1) as f64);
    let [tile_m, tile_n, tile_k] = [tile.m, tile.n, tile.k].map(f64::from);
    let (rows, columns) = (tile_m / f64::from(tile.threads_m), tile_n / f64::from(tile.threads_n));
    let threads = tile.threads() as f64;
    let padded = |size: f64, step: f64| (size / step).ceil() * step;
    let all = m * n * k;
    let with_padding = padded(m, tile_m) * padded(n, tile_n) * padded(k, tile_k);
    let tiles = (m / tile_m).ceil() * (n / tile_n).ceil();
    let rounds = tiles / capabilities.compute_units.max(1) as f64;
    let local = tile.local_bytes() as f64;
    let aligned = shape[1].is_multiple_of(4) && shape[2].is_multiple_of(4);
    vec![
        log(m),
        log(n),
        log(k),
        log(all),
        log(with_padding),
        (with_padding / all) as f32,
        f32::from(u8::from(aligned)),
        log(tile_m),
        log(tile_n),
        log(tile_k),
        log(f64::from(tile.threads_m)),
        log(f64::from(tile.threads_n)),
        log(f64::from(tile.lanes_m)),
        log(f64::from(tile.vector)),
        f32::from(tile.buffers),
        f32::from(tile.fragments),
        log(f64::from(tile.unroll)),
        tile.copy as u8 as f32,
        log(rows),
        log(columns),
        log(rows * columns),
        log(threads),
        log(local),
        (capabilities.local_memory_bytes as f64 / local).min(16.0) as f32,
        log(tile_m * tile_n / (tile_m + tile_n)),
        log(tiles),
        log(rounds),
        (rounds.ceil() / rounds) as f32,
        ((rows + columns) / (rows * columns)) as f32,
        log((k / tile_k).ceil()),
        (padded(m, tile_m) / m) as f32,
        (padded(n, tile_n) / n) as f32,
        (padded(k, tile_k) / k) as f32,
        log(columns / f64::from(tile.vector)),
        log(rows * columns / f64::from(tile.vector)),
        log(4.0 * tile_m * tile_k),
        log(4.0 * tile_n * tile_k),
        log((tile_m + tile_n) * tile_k / threads),
    ]
}
