//! The load of each unit of a compute unit in one iteration of a loop.

use crate::card::Card;
use crate::instruction::Instruction;
use crate::kernel::WAVE;
use crate::loops::{Nest, Step};
use crate::product::{TiledProduct, Turns};

/// Cycles in which a wavefront issues one instruction, and in which 16 lanes do it for all 64.
pub const ISSUE_CYCLES: f64 = 4.0;
/// The same at a quarter of the rate.
pub const SLOW_CYCLES: f64 = 16.0;
/// Local memory has two ports of 64 bytes a cycle, each for two SIMD units: a wavefront's 64 lanes
/// get one byte each in a cycle.
const LDS_LANE_BYTES: f64 = 1.0;
/// Cycles in which the addresses of a wavefront travel to local memory, on the way that data to be
/// written take too.
const LDS_ADDRESS_CYCLES: f64 = 4.0;
/// Ports of local memory.
pub const LDS_PORTS: f64 = 2.0;
/// Bytes of a cache line.
pub const LINE_BYTES: f64 = 64.0;
/// Lanes whose addresses are looked up in a cycle, if they lie in one cache line.
const QUAD: f64 = 4.0;
/// Cycles from a read of local memory to its data, without the time that these take to come.
pub const LDS_LATENCY: f64 = 64.0;
/// Cycles from a scalar load to its data, from the scalar cache.
pub const SCALAR_LATENCY: f64 = 120.0;
/// Cycles of a barrier from the last wavefront's arrival until all go on.
pub const BARRIER_CYCLES: f64 = 40.0;
/// Cycles of a jump that is taken: instructions are fetched again.
pub const BRANCH_CYCLES: f64 = 16.0;
/// Seconds from a load to its data, under load: between a hit in the L2 cache and a way to memory.
const MEMORY_LATENCY: f64 = 400e-9;

/// What instructions cost on a card, in cycles of the unit that does them.
#[derive(Debug, Clone, Copy)]
pub struct Units {
    fma_cycles: f64,
    bank_conflicts: f64,
    /// Bytes of a tile that lie side by side in A and in B, and the share of each in all loads.
    rows: [(f64, f64); 2],
    scattered: bool,
    /// Cycles from a load to its data.
    pub memory_latency: f64,
}

impl Units {
    /// For a product on a card.
    pub fn new(card: &Card, product: &TiledProduct) -> Self {
        let both = f64::from(product.tile_m + product.tile_n);
        Self {
            fma_cycles: f64::from(card.fma_cycles),
            bank_conflicts: product.access.bank_conflicts,
            rows: [
                (4.0 * f64::from(product.tile_k), f64::from(product.tile_m) / both),
                (4.0 * f64::from(product.tile_n), f64::from(product.tile_n) / both),
            ],
            scattered: product.access.scattered,
            memory_latency: MEMORY_LATENCY * card.clock_hz,
        }
    }

    /// Cycles of a SIMD unit.
    pub fn vector_cycles(&self, instruction: Instruction) -> f64 {
        match instruction {
            Instruction::MultiplyAdd | Instruction::Vector => ISSUE_CYCLES,
            Instruction::SlowVector => SLOW_CYCLES,
            Instruction::FusedMultiplyAdd => self.fma_cycles,
            _ => 0.0,
        }
    }

    /// Cycles of a port of local memory.
    pub fn lds_cycles(&self, instruction: Instruction) -> f64 {
        match instruction {
            Instruction::LdsRead { bytes } => {
                let data = f64::from(bytes) / LDS_LANE_BYTES * self.bank_conflicts;
                data.max(LDS_ADDRESS_CYCLES)
            }
            Instruction::LdsWrite { bytes } => {
                LDS_ADDRESS_CYCLES + f64::from(bytes) / LDS_LANE_BYTES
            }
            _ => 0.0,
        }
    }

    /// Cycles of the unit that looks up addresses in the L1 cache.
    pub fn address_cycles(&self, instruction: Instruction) -> f64 {
        let (Instruction::Load { bytes } | Instruction::Store { bytes }) = instruction else {
            return 0.0;
        };
        let in_quad = QUAD * f64::from(bytes);
        let lines = |row_bytes: f64| (in_quad / row_bytes.min(LINE_BYTES)).clamp(1.0, QUAD);
        let lines = match self.scattered {
            true => QUAD,
            false => self.rows.iter().map(|&(bytes, share)| lines(bytes) * share).sum(),
        };
        f64::from(WAVE) / QUAD * lines
    }
}

/// What one wavefront asks of the units in one turn of the main loop, in cycles of each.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Demand {
    /// Of its SIMD unit, for multiply-adds.
    pub products: f64,
    /// Of its SIMD unit, for everything.
    pub vector: f64,
    /// Of its port to local memory.
    pub lds: f64,
    /// Of the unit that looks up addresses.
    pub addresses: f64,
}

impl Demand {
    /// Of the main loop with all loops in it.
    pub fn of(nest: &Nest, turns: &Turns, units: &Units) -> Self {
        let mut demand = Self::default();
        demand.add(nest, turns.main, 1.0, turns, units);
        demand
    }

    fn add(&mut self, nest: &Nest, at: usize, times: f64, turns: &Turns, units: &Units) {
        for step in &nest.loops[at].steps {
            match *step {
                Step::One(instruction) => {
                    let vector = times * units.vector_cycles(instruction);
                    self.vector += vector;
                    if instruction.multiplies() {
                        self.products += vector;
                    }
                    self.lds += times * units.lds_cycles(instruction);
                    self.addresses += times * units.address_cycles(instruction);
                }
                Step::Inner(inner) => {
                    let times = times * f64::from(turns.inner[inner]);
                    self.add(nest, inner, times, turns, units);
                }
            }
        }
    }
}
