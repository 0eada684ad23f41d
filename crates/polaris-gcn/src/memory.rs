//! The L2 cache and memory traffic of a matmul.

use crate::card::Card;
use crate::product::TiledProduct;
use crate::units::LINE_BYTES;

/// Bytes a cycle of one channel of the L2 cache.
const CHANNEL_BYTES: f64 = 64.0;
/// Neighbouring lines of a factor that are a multiple of this many bytes apart begin in one channel.
const CHANNEL_PERIOD: u32 = 4096;
/// Channels that are busy if all lines begin in one: work-groups are not at the same place of k all
/// the time.
const BUSY_CHANNELS: f64 = 1.25;
/// Bytes of the L1 cache.
const L1_BYTES: f64 = 16.0 * 1024.0;
/// The share of its speed that memory reaches: rows are opened, directions change.
pub const DRAM_SHARE: f64 = 0.8;

/// Cycles that a product keeps the L2 cache and memory busy in one step along k of one work-group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Traffic {
    pub l2: f64,
    pub dram: f64,
}

impl Traffic {
    /// With `groups` work-groups on each compute unit.
    pub fn new(card: &Card, product: &TiledProduct, groups: u32) -> Self {
        let step_bytes = |lines: u32| 4.0 * f64::from(lines) * f64::from(product.tile_k);
        let (a, b) = (step_bytes(product.tile_m), step_bytes(product.tile_n));
        let a_lines = a * unused(product, groups);
        let all_channels = CHANNEL_BYTES * f64::from(card.l2_channels);
        let collides = !product.access.staggered && (4 * product.k).is_multiple_of(CHANNEL_PERIOD);
        let a_rate = if collides { CHANNEL_BYTES * BUSY_CHANNELS } else { all_channels };
        let l2 = a_lines / a_rate + b / all_channels;

        let rate = card.dram_bytes_per_second * DRAM_SHARE / card.clock_hz;
        let steps = tiles(product) * f64::from(product.steps());
        Self { l2, dram: dram_bytes(card, product, groups) / steps / rate }
    }
}

fn tiles(product: &TiledProduct) -> f64 {
    let [along_m, along_n] = product.tiles();
    f64::from(along_m) * f64::from(along_n)
}

/// How many bytes are brought for each one of A that a step uses: rows of a step may be shorter than a cache line,
/// and the rest of it is gone before the next step unless the L1 cache holds all.
fn unused(product: &TiledProduct, groups: u32) -> f64 {
    let row = 4.0 * f64::from(product.tile_k);
    let lines = f64::from(groups) * f64::from(product.tile_m + product.tile_n) * LINE_BYTES;
    if lines <= L1_BYTES { 1.0 } else { (LINE_BYTES / row).max(1.0) }
}

/// Bytes to and from memory. Work-groups that run at the same time share what they load: they are at
/// about the same place of k.
fn dram_bytes(card: &Card, product: &TiledProduct, groups: u32) -> f64 {
    let [m, n, k] = [product.m, product.n, product.k].map(f64::from);
    let (factors, result) = (4.0 * k * (m + n), 4.0 * m * n);
    if factors <= card.l2_bytes as f64 {
        return factors + result;
    }
    let [_, along_n] = product.tiles().map(f64::from);
    let at_once = f64::from(groups * card.compute_units).min(tiles(product));
    // Tiles are taken row by row.
    let columns = at_once.min(along_n);
    let rows = at_once / columns;
    let lines = rows * f64::from(product.tile_m) + columns * f64::from(product.tile_n);
    let round = 4.0 * k * lines;
    (round * tiles(product) / at_once).max(factors) + result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::RX_580;
    use crate::product::Access;

    fn product(size: u32) -> TiledProduct {
        TiledProduct {
            m: size,
            n: size,
            k: size,
            tile_m: 128,
            tile_n: 128,
            tile_k: 16,
            threads: 256,
            rows: 8,
            columns: 8,
            access: Access::default(),
        }
    }

    #[test]
    fn lines_in_one_channel_are_slow_unless_staggered() {
        let straight = Access { staggered: false, ..Access::default() };
        let l2 =
            |size, access| Traffic::new(&RX_580, &TiledProduct { access, ..product(size) }, 2).l2;
        assert!(l2(4096, straight) > 3.0 * l2(4096, Access::default()));
        assert_eq!(l2(4000, straight), l2(4000, Access::default()));
    }

    #[test]
    fn short_rows_waste_lines() {
        let short = TiledProduct { tile_k: 8, ..product(4096) };
        assert_eq!(unused(&product(4096), 2), 1.0);
        assert_eq!(unused(&short, 2), 2.0);
        let small = TiledProduct { tile_m: 16, tile_n: 16, rows: 1, columns: 1, ..short };
        assert_eq!(unused(&small, 2), 1.0, "the first cache holds the rest");
    }

    #[test]
    fn what_fits_the_second_cache_is_loaded_once() {
        let bytes = |size| dram_bytes(&RX_580, &product(size), 2);
        assert_eq!(bytes(256), 3.0 * 4.0 * 256.0 * 256.0);
        // 72 tiles at a time, 32 in a row: B is read 14.2 times, A once.
        let expected = 4.0 * 4096.0 * 4096.0 * (1024.0 / 72.0 + 1.0 + 1.0);
        assert!((bytes(4096) / expected - 1.0).abs() < 1e-9, "{}", bytes(4096));
    }
}
