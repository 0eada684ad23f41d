//! The time of one wavefront alone on a compute unit.
//!
//! A wavefront issues its instructions in order, one every four cycles at most. Accesses to memory
//! go on while it issues others, and come back in order; it stands still where it has to wait for
//! one. This is what latency costs if nobody else is there to use the time.

use std::collections::VecDeque;

use crate::instruction::Instruction;
use crate::loops::{Nest, Step};
use crate::product::Turns;
use crate::units::{
    BARRIER_CYCLES, BRANCH_CYCLES, ISSUE_CYCLES, LDS_LATENCY, SCALAR_LATENCY, Units,
};

/// The time of one turn of the main loop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Alone {
    /// All of it.
    pub cycles: f64,
    /// What of it is waiting for global memory and at barriers, where the other wavefronts of a
    /// work-group wait too.
    pub together: f64,
}

/// A wavefront under way.
#[derive(Debug, Default)]
struct Wave {
    now: f64,
    together: f64,
    /// When accesses to local memory that are under way will be done.
    lds: VecDeque<f64>,
    /// The same for global memory.
    memory: VecDeque<f64>,
}

/// Walks through the main loop twice; the second turn counts, which finds what the first left under
/// way.
pub fn walk(nest: &Nest, turns: &Turns, units: &Units) -> Alone {
    let mut wave = Wave::default();
    wave.turn(nest, turns.main, turns, units);
    let (now, together) = (wave.now, wave.together);
    wave.turn(nest, turns.main, turns, units);
    Alone { cycles: wave.now - now, together: wave.together - together }
}

impl Wave {
    fn turn(&mut self, nest: &Nest, at: usize, turns: &Turns, units: &Units) {
        for step in &nest.loops[at].steps {
            match *step {
                Step::One(instruction) => self.issue(instruction, units),
                Step::Inner(inner) => {
                    for _ in 0..turns.inner[inner] {
                        self.turn(nest, inner, turns, units);
                    }
                }
            }
        }
        // The way back to the loop's beginning; the jumps within are rarely taken.
        self.now += BRANCH_CYCLES - ISSUE_CYCLES;
    }

    fn issue(&mut self, instruction: Instruction, units: &Units) {
        match instruction {
            Instruction::LdsRead { .. } | Instruction::LdsWrite { .. } => {
                self.now += ISSUE_CYCLES;
                let cycles = units.lds_cycles(instruction);
                enqueue(&mut self.lds, self.now + LDS_LATENCY, cycles);
            }
            Instruction::ScalarLoad => {
                self.now += ISSUE_CYCLES;
                enqueue(&mut self.lds, self.now + SCALAR_LATENCY, 0.0);
            }
            Instruction::Load { .. } => {
                self.now += ISSUE_CYCLES;
                let cycles = units.address_cycles(instruction);
                enqueue(&mut self.memory, self.now + units.memory_latency, cycles);
            }
            Instruction::Barrier => {
                self.now += BARRIER_CYCLES;
                self.together += BARRIER_CYCLES;
            }
            Instruction::Wait { lds, memory } => {
                self.now += ISSUE_CYCLES;
                if let Some(left) = memory {
                    let before = self.now;
                    self.now = wait(&mut self.memory, left, self.now);
                    self.together += self.now - before;
                }
                if let Some(left) = lds {
                    self.now = wait(&mut self.lds, left, self.now);
                }
            }
            // Stores are waited for by nobody.
            _ => self.now += units.vector_cycles(instruction).max(ISSUE_CYCLES),
        }
    }
}

/// Puts an access behind those before it, with the cycles that its data take to come.
fn enqueue(queue: &mut VecDeque<f64>, arrives: f64, cycles: f64) {
    let free = queue.back().copied().unwrap_or(0.0);
    queue.push_back(arrives.max(free) + cycles);
}

/// The time when no more than `left` accesses are under way.
fn wait(queue: &mut VecDeque<f64>, left: u32, now: f64) -> f64 {
    let mut until = now;
    while queue.len() > left as usize {
        let Some(done) = queue.pop_front() else { break };
        until = until.max(done);
    }
    until
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::card::RX_580;
    use crate::product::{Access, TiledProduct};

    const PRODUCT: TiledProduct = TiledProduct {
        m: 64,
        n: 64,
        k: 64,
        tile_m: 64,
        tile_n: 64,
        tile_k: 16,
        threads: 256,
        rows: 4,
        columns: 4,
        access: Access { staggered: true, scattered: false, bank_conflicts: 1.0 },
    };

    /// One turn of a loop that has no inner one.
    fn alone(body: &str) -> Alone {
        let text = format!(".L0:\n{body}\ns_cbranch_scc0 .L0\ns_endpgm");
        let turns = Turns { main: 0, steps: 1.0, inner: vec![0] };
        walk(&Nest::parse(text.lines()), &turns, &Units::new(&RX_580, &PRODUCT))
    }

    #[test]
    fn arithmetic_is_issued_every_four_cycles() {
        let turn = alone(&"v_mac_f32 v0, v1, v2\n".repeat(10));
        assert_eq!(turn, Alone { cycles: 40.0 + BRANCH_CYCLES, together: 0.0 });
        let turn = alone("v_mul_lo_u32 v0, v1, v2");
        assert_eq!(turn.cycles, 16.0 + BRANCH_CYCLES);
    }

    #[test]
    fn reads_come_back_in_order_and_hide_behind_arithmetic() {
        let read = "ds_read_b128 v[0:3], v9\n";
        // The latency once, and sixteen cycles of data for each.
        let turn = alone(&format!("{read}{read}s_waitcnt lgkmcnt(0)"));
        let data = ISSUE_CYCLES + LDS_LATENCY + 32.0;
        assert_eq!(turn.cycles, data + BRANCH_CYCLES);
        // Waiting for the first of two only.
        let turn = alone(&format!("{read}{read}s_waitcnt lgkmcnt(1)"));
        assert!(turn.cycles < data + BRANCH_CYCLES, "{turn:?}");
        // As long as there is something else to do, nothing is waited for.
        let work = "v_mac_f32 v0, v1, v2\n".repeat(100);
        let turn = alone(&format!("{read}{read}{work}s_waitcnt lgkmcnt(0)"));
        assert_eq!(turn.cycles, 103.0 * ISSUE_CYCLES + BRANCH_CYCLES);
        assert_eq!(turn.together, 0.0);
    }

    #[test]
    fn waiting_for_global_memory_and_barriers_counts_apart() {
        let turn = alone("flat_load_dword v0, v[1:2]\ns_waitcnt vmcnt(0)\ns_barrier");
        assert!(turn.together > BARRIER_CYCLES + 100.0, "{turn:?}");
        assert!(turn.cycles > turn.together);
    }
}
