//! Predicts the time of a matmul on a card, from its kernel's machine code.
//!
//! A compute unit holds several work-groups at a time. In one turn of the loop along k each of its
//! units is busy for a known number of cycles: four SIMD units with vector instructions, two ports
//! of local memory with its data, one unit with addresses, and, together with the other compute
//! units, the L2 cache and memory. Each is a lower bound of the turn's time, and so is the time
//! that one wavefront takes that waits for its own data. Units work at the same time, but not
//! perfectly so; the turn takes as long as the norm of these times with the exponent `OVERLAP`.
//! What a work-group waits for together comes on top, as far as other work-groups do not fill it.
//!
//! `docs/gcn-model.md` has the formulae, the reasons of all constants, and how far off the model is
//! where the truth is known.

use crate::card::Card;
use crate::error::{Error, Result};
use crate::kernel::{SIMDS, waves_of};
use crate::memory::{DRAM_SHARE, Traffic};
use crate::prediction::{Parts, Prediction};
use crate::product::{TiledProduct, Turns};
use crate::units::{Demand, LDS_PORTS, Units};
use crate::walk::{self, Alone};
use crate::{Code, units};

/// Seconds from the host's command to the first work-group, and from the last one to the host.
pub const LAUNCH: f64 = 10e-6;

/// A product with a kernel on a card.
struct Case<'a> {
    card: &'a Card,
    product: &'a TiledProduct,
    demand: Demand,
    alone: Alone,
    /// Turns of the main loop.
    turns: f64,
    /// Cycles of a wavefront before and after the main loop.
    around: f64,
    /// Work-groups that a compute unit holds at a time.
    fitting: u32,
    memory_latency: f64,
}

/// Predicts the time of a product.
///
/// # Errors
/// [`Error::Model`] if the kernel is none of tiled products, if product and kernel do not fit
/// together, or if the kernel does not fit the card.
pub fn predict(card: &Card, code: &Code, product: &TiledProduct) -> Result<Prediction> {
    let kernel = &code.kernel;
    let turns = Turns::of(&code.nest, product, &kernel.name)?;
    let fail = |why: &str| Error::Model { kernel: kernel.name.clone(), why: why.to_owned() };
    let fitting = kernel.groups_at_once(product.threads);
    if fitting == 0 {
        return Err(fail("a work-group needs more registers or local memory than there are"));
    }
    if kernel.uses_scratch() {
        return Err(fail("it uses scratch memory, whose traffic the model does not know"));
    }
    if kernel.dynamic_lds {
        return Err(fail("it takes local memory as an argument, whose size is not in its code"));
    }
    let units = Units::new(card, product);
    let outside = &code.nest.outside;
    let case = Case {
        card,
        product,
        demand: Demand::of(&code.nest, &turns, &units),
        alone: walk::walk(&code.nest, &turns, &units),
        turns: f64::from(product.steps()) / turns.steps,
        around: units::ISSUE_CYCLES * f64::from(outside.vector + outside.scalar)
            + units::SLOW_CYCLES * f64::from(outside.slow_vector),
        fitting,
        memory_latency: units.memory_latency,
    };
    Ok(case.predict())
}

/// Predicts the time of a product that is split-K: as many times more work-groups with a part of k each, and a second
/// kernel, bound by memory, that adds the parts.
///
/// # Errors
/// As of [`predict`].
pub fn predict_split(
    card: &Card,
    code: &Code,
    product: &TiledProduct,
    splits: u32,
) -> Result<Prediction> {
    if splits <= 1 {
        return predict(card, code, product);
    }
    let rows = product.m.next_multiple_of(product.tile_m) * splits;
    let part = TiledProduct { m: rows, k: product.k.div_ceil(splits), ..*product };
    let mut prediction = predict(card, code, &part)?;
    let results = 4.0 * f64::from(product.m) * f64::from(product.n);
    let memory = DRAM_SHARE * card.dram_bytes_per_second;
    prediction.seconds += LAUNCH + results * f64::from(splits + 1) / memory;
    let speed = product.operations() / prediction.seconds;
    (prediction.gflops, prediction.share_of_peak) = (speed / 1e9, speed / card.peak());
    Ok(prediction)
}

impl Case<'_> {
    fn predict(&self) -> Prediction {
        let [along_m, along_n] = self.product.tiles();
        let tiles = u64::from(along_m) * u64::from(along_n);
        let units = u64::from(self.card.compute_units);
        // Never more at a time than there are.
        let at_once = u64::from(self.fitting).min(tiles.div_ceil(units));
        let full = self.round(at_once as u32, units as u32);
        let (rounds, rest) = (tiles / (at_once * units), tiles % (at_once * units));
        let mut cycles = rounds as f64 * full.norm();
        if rest > 0 {
            cycles += self.round(rest.div_ceil(units) as u32, rest.min(units) as u32).norm();
        }
        let ideal = tiles as f64 / (at_once * units) as f64;
        let second = self.card.clock_hz.recip();
        let mut parts = Parts::default();
        parts.add(&full, ideal * second);
        parts.tail = (cycles - ideal * full.norm()).max(0.0) * second;
        parts.launch = LAUNCH;
        let seconds = cycles * second + LAUNCH;
        let speed = self.product.operations() / seconds;
        let waves = at_once as u32 * waves_of(self.product.threads);
        Prediction {
            seconds,
            gflops: speed / 1e9,
            share_of_peak: speed / self.card.peak(),
            groups_at_once: at_once as u32,
            waves_per_simd: f64::from(waves) / f64::from(SIMDS),
            parts,
            bound: parts.bound(),
        }
    }

    /// Cycles in which `groups` work-groups on each of `units` compute units run from beginning to
    /// end.
    fn round(&self, groups: u32, units: u32) -> Parts {
        let waves = f64::from(groups * waves_of(self.product.threads));
        // Fewer wavefronts than SIMD units leave some of these idle.
        let on_simd = (waves / f64::from(SIMDS)).max(1.0);
        let all_groups = f64::from(groups) * f64::from(units);
        let traffic = Traffic::new(self.card, self.product, groups);
        let steps = f64::from(self.product.steps());
        let beginning_and_end = self.memory_latency + on_simd * self.around;
        Parts {
            products: self.turns * on_simd * self.demand.products,
            vector: self.turns * on_simd * self.demand.vector,
            lds: self.turns * waves * self.demand.lds / LDS_PORTS,
            addresses: self.turns * waves * self.demand.addresses,
            l2: steps * all_groups * traffic.l2,
            dram: steps * all_groups * traffic.dram,
            latency: self.turns * (self.alone.cycles - self.alone.together),
            together: (self.turns * self.alone.together + beginning_and_end) / f64::from(groups),
            ..Parts::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::{RX_580, S9150};
    use crate::prediction::Bound;
    use crate::product::Access;
    use crate::{Kernel, Nest};

    /// 64x64 by steps of 16, 8x8 sums, one wavefront, with `multiply` as its multiply-adds.
    fn code(multiply: &str) -> Code {
        let read = "ds_read_b128 v[0:3], v4\n".repeat(4);
        let work = format!("{multiply} v0, v1, v2\n").repeat(64);
        let load = "flat_load_dwordx4 v[0:3], v[4:5]\n".repeat(8);
        let write = "ds_write_b128 v0, v[1:4]\n".repeat(8);
        let text = format!(
            ".L0:\n{load}.L1:\n{read}s_waitcnt lgkmcnt(0)\n{work}s_cbranch_scc0 .L1\n\
             s_waitcnt vmcnt(0)\n{write}s_barrier\ns_cbranch_scc0 .L0\ns_endpgm"
        );
        let kernel = Kernel {
            name: "test".to_owned(),
            vgprs: 128,
            sgprs: 16,
            vgpr_spills: 0,
            sgpr_spills: 0,
            lds_bytes: 8192,
            dynamic_lds: false,
            scratch_bytes: 0,
            dynamic_stack: false,
            max_workgroup: 64,
            required_workgroup: None,
            code_bytes: 100,
            clang_occupancy: 2,
        };
        Code { kernel, nest: Nest::parse(text.lines()) }
    }

    fn product(m: u32, n: u32, k: u32) -> TiledProduct {
        let access = Access::default();
        let (tile_m, tile_n, tile_k) = (64, 64, 16);
        TiledProduct { m, n, k, tile_m, tile_n, tile_k, threads: 64, rows: 8, columns: 8, access }
    }

    #[test]
    fn plenty_of_work_is_bound_by_arithmetic() {
        let square = product(4032, 4032, 4032);
        let it = predict(&RX_580, &code("v_mac_f32"), &square).unwrap();
        assert_eq!((it.groups_at_once, it.waves_per_simd, it.bound), (8, 2.0, Bound::Vector));
        assert!(it.share_of_peak > 0.6 && it.share_of_peak < 1.0, "{it:?}");
        // The multiply-adds alone are what the peak counts.
        let ideal = square.operations() / RX_580.peak();
        assert!((it.parts.products / ideal - 1.0).abs() < 0.01, "{it:?}");
        assert!(it.seconds > it.parts.vector + it.parts.tail + it.parts.launch);
    }

    #[test]
    fn fused_multiply_adds_are_slow_where_double_precision_is() {
        let seconds = |card, multiply| {
            predict(card, &code(multiply), &product(4032, 4032, 4032)).unwrap().seconds
        };
        assert!(seconds(&RX_580, "v_fma_f32") > 3.0 * seconds(&RX_580, "v_mac_f32"));
        assert_eq!(seconds(&S9150, "v_fma_f32"), seconds(&S9150, "v_mac_f32"));
    }

    #[test]
    fn few_tiles_leave_compute_units_idle() {
        let share = |m, n, k| {
            predict(&RX_580, &code("v_mac_f32"), &product(m, n, k)).unwrap().share_of_peak
        };
        assert!(share(64, 64, 4096) < 0.02, "one tile of 36 compute units, on one of four SIMDs");
        // The last round has work for one compute unit only.
        let full = 64 * 36 * 8;
        assert!(share(64, full + 64, 4096) < 0.7 * share(64, full, 4096));
        let short = predict(&RX_580, &code("v_mac_f32"), &product(64, 64, 16)).unwrap();
        assert_eq!(short.bound, Bound::Tail);
    }

    #[test]
    fn parts_of_k_fill_idle_compute_units() {
        let (code, few) = (code("v_mac_f32"), product(64, 64, 4096));
        let whole = predict(&RX_580, &code, &few).unwrap();
        assert_eq!(predict_split(&RX_580, &code, &few, 1).unwrap(), whole);
        let split = predict_split(&RX_580, &code, &few, 8).unwrap();
        assert!(split.seconds < 0.5 * whole.seconds, "{split:?}");
        assert!((split.gflops * split.seconds * 1e9 / few.operations() - 1.0).abs() < 1e-9);
        // Where all units are busy a second kernel only costs.
        let many = product(4032, 4032, 4032);
        let whole = predict(&RX_580, &code, &many).unwrap();
        assert!(predict_split(&RX_580, &code, &many, 4).unwrap().seconds > whole.seconds);
    }

    #[test]
    fn what_cannot_be_modelled_is_refused() {
        let code = code("v_mac_f32");
        let message = |kernel: Kernel| {
            let code = Code { kernel, nest: code.nest.clone() };
            predict(&RX_580, &code, &product(64, 64, 64)).unwrap_err().to_string()
        };
        let kernel = code.kernel.clone();
        let scratch = Kernel { scratch_bytes: 4, ..kernel.clone() };
        assert!(message(scratch).contains("scratch"));
        let dynamic = Kernel { dynamic_lds: true, ..kernel.clone() };
        assert!(message(dynamic).contains("as an argument"));
        assert!(message(Kernel { lds_bytes: 1 << 17, ..kernel }).contains("more registers"));
    }
}
