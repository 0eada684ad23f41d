//! The loops of a kernel, and what each is made of.

use crate::error::{Error, Result};
use crate::flow::{self, Block, Cycle};
use crate::instruction::Instruction;

/// How many instructions of each kind there are. Bytes are those of one lane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mix {
    /// Multiply-adds at the full rate.
    pub multiply_adds: u32,
    /// Multiply-adds that are rounded once: a quarter of the rate on gfx803.
    pub fused: u32,
    /// Other vector instructions at the full rate.
    pub vector: u32,
    /// Other vector instructions at a quarter of the rate.
    pub slow_vector: u32,
    /// Reads of local memory.
    pub lds_reads: u32,
    /// Bytes that they bring.
    pub lds_read_bytes: u32,
    /// Writes to local memory.
    pub lds_writes: u32,
    /// Bytes that they take.
    pub lds_write_bytes: u32,
    /// Loads from global memory.
    pub loads: u32,
    /// Bytes that they bring.
    pub load_bytes: u32,
    /// Stores to global memory.
    pub stores: u32,
    /// Bytes that they take.
    pub store_bytes: u32,
    /// Scalar instructions, with scalar loads and jumps.
    pub scalar: u32,
    /// Barriers. A work-group of one wavefront has none: the compiler leaves them out.
    pub barriers: u32,
    /// Waits for local memory.
    pub lds_waits: u32,
    /// Waits for global memory.
    pub memory_waits: u32,
}

impl Mix {
    /// Multiply-adds of both kinds.
    pub fn products(&self) -> u32 {
        self.multiply_adds + self.fused
    }

    /// Instructions of a lane, in the time of one at the full rate: a vector unit's and those that it issues to memory.
    pub fn lane_instructions(&self) -> u32 {
        let accesses = self.lds_reads + self.lds_writes + self.loads + self.stores;
        self.multiply_adds + self.vector + 4 * (self.fused + self.slow_vector) + accesses
    }

    /// Counts one more.
    fn add(&mut self, instruction: Instruction) {
        match instruction {
            Instruction::MultiplyAdd => self.multiply_adds += 1,
            Instruction::FusedMultiplyAdd => self.fused += 1,
            Instruction::Vector => self.vector += 1,
            Instruction::SlowVector => self.slow_vector += 1,
            Instruction::LdsRead { bytes } => {
                self.lds_reads += 1;
                self.lds_read_bytes += bytes;
            }
            Instruction::LdsWrite { bytes } => {
                self.lds_writes += 1;
                self.lds_write_bytes += bytes;
            }
            Instruction::Load { bytes } => {
                self.loads += 1;
                self.load_bytes += bytes;
            }
            Instruction::Store { bytes } => {
                self.stores += 1;
                self.store_bytes += bytes;
            }
            Instruction::ScalarLoad | Instruction::Scalar | Instruction::Branch => {
                self.scalar += 1;
            }
            Instruction::Barrier => self.barriers += 1,
            Instruction::Wait { lds, memory } => {
                self.lds_waits += u32::from(lds.is_some());
                self.memory_waits += u32::from(memory.is_some());
            }
        }
    }
}

impl FromIterator<Instruction> for Mix {
    fn from_iter<I: IntoIterator<Item = Instruction>>(instructions: I) -> Self {
        let mut mix = Self::default();
        instructions.into_iter().for_each(|instruction| mix.add(instruction));
        mix
    }
}

/// What a loop does next: an instruction of its own, or a whole inner loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// An instruction.
    One(Instruction),
    /// The loop with this number.
    Inner(usize),
}

/// One loop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// The label of its first block.
    pub label: String,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// The number of the loop that it is in.
    pub parent: Option<usize>,
    /// Its own instructions, without those of inner loops.
    pub mix: Mix,
    /// What it does, in order. Where ways part and meet again, both are listed: kernels of products
    /// skip instructions only at edges.
    pub steps: Vec<Step>,
}

/// All loops of a kernel, outer ones before inner ones, and what is in none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nest {
    /// The loops.
    pub loops: Vec<Loop>,
    /// What is in no loop.
    pub outside: Mix,
}

impl Nest {
    /// Finds the loops of one kernel in a program's assembly.
    ///
    /// # Errors
    /// [`Error::Assembly`] if there is no code of that name.
    pub fn of(assembly: &str, kernel: &str) -> Result<Self> {
        let lines = flow::code_of(assembly, kernel)
            .ok_or_else(|| Error::assembly(format!("it has no code of kernel {kernel}")))?;
        Ok(Self::parse(lines))
    }

    /// Finds the loops in the lines of one kernel's code.
    pub fn parse<'a>(lines: impl IntoIterator<Item = &'a str>) -> Self {
        let blocks = flow::blocks(lines);
        let order = flow::order(&blocks);
        let cycles = flow::cycles(&blocks, &order);
        let inner = |block: usize| innermost(&cycles, |cycle| cycle.blocks.contains(&block));
        let loops = (0..cycles.len()).map(|at| describe(at, &cycles, &blocks, &order)).collect();
        let outside = order
            .iter()
            .filter(|&&block| inner(block).is_none())
            .flat_map(|&block| blocks[block].instructions.iter().copied())
            .collect();
        Self { loops, outside }
    }

    /// The numbers of the loops that lie directly in a loop.
    pub fn children(&self, of: usize) -> impl Iterator<Item = usize> {
        (0..self.loops.len()).filter(move |&at| self.loops[at].parent == Some(of))
    }

    /// Multiply-adds in one turn of a loop, if inner loops have one turn each.
    pub fn products(&self, of: usize) -> u32 {
        let inner: u32 = self.children(of).map(|child| self.products(child)).sum();
        self.loops[of].mix.products() + inner
    }
}

/// The smallest loop that satisfies a condition.
fn innermost(cycles: &[Cycle], holds: impl Fn(&Cycle) -> bool) -> Option<usize> {
    let fitting = (0..cycles.len()).filter(|&at| holds(&cycles[at]));
    fitting.min_by_key(|&at| cycles[at].blocks.len())
}

fn describe(at: usize, cycles: &[Cycle], blocks: &[Block], order: &[usize]) -> Loop {
    let cycle = &cycles[at];
    let around =
        |other: &Cycle| other.header != cycle.header && other.blocks.contains(&cycle.header);
    let mut steps = Vec::new();
    let mut mix = Mix::default();
    for &block in order.iter().filter(|&block| cycle.blocks.contains(block)) {
        // The loop directly below this one that the block lies in, if it does.
        let below = (0..cycles.len()).filter(|&other| {
            other != at
                && cycles[other].blocks.contains(&block)
                && cycle.blocks.contains(&cycles[other].header)
                && cycles[other].header != cycle.header
        });
        match below.max_by_key(|&other| cycles[other].blocks.len()) {
            Some(inner) if cycles[inner].header == block => steps.push(Step::Inner(inner)),
            Some(_) => {}
            None => {
                for &instruction in &blocks[block].instructions {
                    steps.push(Step::One(instruction));
                    mix.add(instruction);
                }
            }
        }
    }
    Loop {
        label: blocks[cycle.header].label.clone(),
        depth: 1 + cycles.iter().filter(|other| around(other)).count() as u32,
        parent: innermost(cycles, around),
        mix,
        steps,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Shaped like clang's output: an outer loop with a condition, an inner one, a block moved out.
    const NEST: &str = "
        s_load_dwordx4 s[0:3], s[4:5], 0x0
        v_mov_b32_e32 v0, 0
.LBB0_1:                                ; =>This Loop Header: Depth=1
                                        ;     Child Loop BB0_3 Depth 2
        s_add_i32 s0, s0, 1
        s_cbranch_execnz .LBB0_5
.LBB0_2:                                ;   in Loop: Header=BB0_1 Depth=1
        v_mul_lo_u32 v1, v0, s1
.LBB0_3:                                ; =>  This Inner Loop Header: Depth=2
        ds_read2_b64 v[4:7], v1 offset1:8
        ds_read_b128 v[8:11], v1
        s_waitcnt lgkmcnt(0)
        v_mac_f32_e32 v2, v4, v8
        v_mad_f32 v3, v4, v9, v3
        v_fma_f32 v3, v4, v9, v3
        s_cbranch_scc1 .LBB0_3
; %bb.4:                                ;   in Loop: Header=BB0_1 Depth=1
        s_waitcnt vmcnt(0)
        ds_write_b128 v1, v[12:15]
        s_waitcnt vmcnt(0) lgkmcnt(0)
        s_barrier
        s_cbranch_scc0 .LBB0_1
        flat_store_dword v[0:1], v2
        s_endpgm
.LBB0_5:                                ;   in Loop: Header=BB0_1 Depth=1
        flat_load_dwordx4 v[12:15], v[0:1]
        s_branch .LBB0_2
";

    #[test]
    fn each_loop_has_its_own_instructions() {
        let nest = Nest::parse(NEST.lines());
        let [outer, inner] = &nest.loops[..] else { panic!("{:?}", nest.loops) };
        assert_eq!((outer.label.as_str(), outer.depth, outer.parent), (".LBB0_1", 1, None));
        assert_eq!((inner.label.as_str(), inner.depth, inner.parent), (".LBB0_3", 2, Some(0)));
        let expected = Mix {
            multiply_adds: 2,
            fused: 1,
            lds_reads: 2,
            lds_read_bytes: 32,
            scalar: 1,
            lds_waits: 1,
            ..Mix::default()
        };
        assert_eq!(inner.mix, expected);
        let expected = Mix {
            slow_vector: 1,
            lds_writes: 1,
            lds_write_bytes: 16,
            loads: 1,
            load_bytes: 16,
            scalar: 4,
            barriers: 1,
            lds_waits: 1,
            memory_waits: 2,
            ..Mix::default()
        };
        assert_eq!(outer.mix, expected);
        assert_eq!(
            nest.outside,
            Mix { vector: 1, stores: 1, store_bytes: 4, scalar: 2, ..Mix::default() }
        );
        assert_eq!((nest.products(0), nest.products(1)), (3, 3));
    }

    #[test]
    fn lanes_pay_for_rates_and_accesses() {
        let nest = Nest::parse(NEST.lines());
        assert_eq!(nest.loops[1].mix.lane_instructions(), 2 + 4 + 2);
        assert_eq!(nest.loops[0].mix.lane_instructions(), 4 + 1 + 1);
    }

    #[test]
    fn a_load_that_was_moved_out_comes_before_the_inner_loop() {
        let nest = Nest::parse(NEST.lines());
        let at = |wanted: Step| nest.loops[0].steps.iter().position(|&step| step == wanted);
        let load = at(Step::One(Instruction::Load { bytes: 16 })).unwrap();
        let inner = at(Step::Inner(1)).unwrap();
        let barrier = at(Step::One(Instruction::Barrier)).unwrap();
        assert!(load < inner && inner < barrier);
    }
}
