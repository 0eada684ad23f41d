//! The cards that are modelled.

/// A GCN card, as far as the model goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Card {
    /// What it is sold as.
    pub name: &'static str,
    /// What compilers call its chip.
    pub target: &'static str,
    /// Compute units, each with four SIMD units of 16 lanes.
    pub compute_units: u32,
    /// Cycles a second under load.
    pub clock_hz: f64,
    /// Bytes a second that its memory is made for.
    pub dram_bytes_per_second: f64,
    /// Size of the L2 cache.
    pub l2_bytes: u64,
    /// Channels of the L2 cache; each gives 64 bytes a cycle.
    pub l2_channels: u32,
    /// Cycles of a `v_fma_f32` of a wavefront: as a `v_mad_f32` where double precision is fast.
    pub fma_cycles: u32,
}

/// The card that Polaris is made for.
pub const RX_580: Card = Card {
    name: "RX 580",
    target: "gfx803",
    compute_units: 36,
    clock_hz: 1.340e9,
    dram_bytes_per_second: 256e9,
    l2_bytes: 2 << 20,
    l2_channels: 8,
    fma_cycles: 16,
};

/// The same chip with a higher clock.
pub const RX_590: Card = Card { name: "RX 590", clock_hz: 1.545e9, ..RX_580 };

/// The same chip with fewer compute units, and slower memory.
pub const RX_470: Card = Card {
    name: "RX 470",
    compute_units: 32,
    clock_hz: 1.206e9,
    dram_bytes_per_second: 211e9,
    ..RX_580
};

/// A large chip of the same architecture with stacked memory.
pub const R9_NANO: Card = Card {
    name: "R9 Nano",
    compute_units: 64,
    clock_hz: 1.0e9,
    dram_bytes_per_second: 512e9,
    l2_channels: 16,
    ..RX_580
};

/// A card for servers, one generation earlier.
pub const S9150: Card = Card {
    name: "FirePro S9150",
    target: "gfx701",
    compute_units: 44,
    clock_hz: 0.9e9,
    dram_bytes_per_second: 320e9,
    l2_bytes: 1 << 20,
    l2_channels: 16,
    fma_cycles: 4,
};

/// The same for workstations.
pub const W9100: Card = Card { name: "FirePro W9100", clock_hz: 0.93e9, ..S9150 };

/// All of them.
pub const CARDS: &[Card] = &[RX_580, RX_590, RX_470, R9_NANO, S9150, W9100];

impl Card {
    /// The card of this name, however it is spelt: `RX 580`, `rx-580` and `rx580` are one.
    pub fn find(name: &str) -> Option<&'static Self> {
        let plain = |name: &str| -> String {
            let letters = name.chars().filter(char::is_ascii_alphanumeric);
            letters.map(|letter| letter.to_ascii_lowercase()).collect()
        };
        CARDS.iter().find(|card| plain(card.name).ends_with(&plain(name)) && !name.is_empty())
    }

    /// Floating-point operations a second at most: 64 lanes a compute unit, two operations each.
    pub fn peak(&self) -> f64 {
        f64::from(self.compute_units) * 64.0 * 2.0 * self.clock_hz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_those_of_the_data_sheets() {
        let gigaflops = |card: Card| (card.peak() / 1e9).round();
        assert_eq!(gigaflops(RX_580), 6175.0);
        assert_eq!(gigaflops(RX_590), 7119.0);
        assert_eq!(gigaflops(R9_NANO), 8192.0);
        assert_eq!(gigaflops(S9150), 5069.0);
    }

    #[test]
    fn names_are_found_however_they_are_spelt() {
        for name in ["RX 580", "rx580", "rx-580", "580"] {
            assert_eq!(Card::find(name), Some(&RX_580), "{name}");
        }
        assert_eq!(Card::find("s9150"), Some(&S9150));
        assert_eq!(Card::find("RTX 3090"), None);
        assert_eq!(Card::find(""), None);
    }
}
