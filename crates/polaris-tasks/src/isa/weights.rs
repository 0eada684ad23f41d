//! What unpacking a weight costs in the kernels for one vector and a matrix in blocks, beside what the memory allows.
//!
//! A compute unit has 64 lanes. All of an RX 580 do 12 instructions in the time in which its memory gives one byte
//! (36 * 64 * 1.34 GHz / 256 GB/s), so a kernel that reads each weight once is bound by memory if it has no more than
//! that for each byte.

use std::fmt::Write;

use anyhow::{Context, Result};
use polaris_gcn::{Compiled, Nest};
use polaris_ops::Block;

use crate::programs::Program;

/// Instructions of a lane for each byte.
const PER_BYTE: f64 = 12.0;

/// Formats of few bits whose levels and scales take more to unpack than their bytes take to arrive, and what is
/// accepted of them.
const EXCEPTIONS: [(Block, f64); 2] = [(Block::Q2_K, 4.8), (Block::Q3_K, 6.7)];

/// The instructions of one format.
#[derive(Debug, PartialEq)]
pub struct Count {
    block: Block,
    /// Instructions of a lane for each weight.
    found: f64,
}

impl Count {
    /// What the memory gives time for.
    fn budget(&self) -> f64 {
        PER_BYTE * self.block.bytes() as f64 / self.block.elements() as f64
    }

    /// What is accepted.
    fn bound(&self) -> f64 {
        let exception = EXCEPTIONS.iter().find(|(block, _)| *block == self.block);
        exception.map_or(self.budget(), |&(_, bound)| bound)
    }
}

/// Whether all formats stay within what is accepted.
pub fn within_budget(counts: &[Count]) -> bool {
    counts.iter().all(|count| count.found <= count.bound())
}

/// A line for each format.
pub fn table(counts: &[Count]) -> String {
    let mut text = String::new();
    for count in counts {
        let name = count.block.lower_name();
        let over = if count.found > count.bound() { "  OVER" } else { "" };
        writeln!(
            text,
            "{name:8} {:5.2} lane-instructions a weight, memory allows {:5.2}{over}",
            count.found,
            count.budget()
        )
        .expect("a String should take any text");
    }
    text
}

/// Counts in the kernels for one vector among these programs.
pub fn counts(
    programs: &[Program],
    compiled: &[polaris_gcn::Result<Compiled>],
) -> Result<Vec<Count>> {
    let mut counts = Vec::new();
    for (program, compiled) in programs.iter().zip(compiled) {
        let of = |block: &Block| {
            program.name.starts_with(&format!("blocks.cl f32_{}_f32_blocks1 ", block.lower_name()))
        };
        // What does not compile is reported elsewhere.
        if let (Some(block), Ok(compiled)) = (Block::ALL.into_iter().find(of), compiled) {
            let found = per_weight(program, &compiled.assembly, block)
                .with_context(|| format!("cannot count the instructions of {}", program.name))?;
            counts.push(Count { block, found });
        }
    }
    Ok(counts)
}

/// Instructions of a lane for each weight: one turn of the loop along k, in which a lane unpacks a unit of each of its
/// rows.
fn per_weight(program: &Program, assembly: &str, block: Block) -> Result<f64> {
    let value = |name: &str| {
        let after = program.source.split(&format!("#define {name} ")).nth(1);
        let number = after.and_then(|text| text.split_whitespace().next()?.parse::<u32>().ok());
        number.with_context(|| format!("the source does not define {name}"))
    };
    let unit = value(&format!("elements_{}", block.lower_name()))?;
    let weights = unit * value("ROWS")?;
    let nest = Nest::of(assembly, "matmul_blocks")?;
    let most = nest.loops.iter().map(|it| it.mix.lane_instructions()).max();
    let most = most.context("there is no loop")?;
    Ok(f64::from(most) / f64::from(weights))
}

#[cfg(test)]
mod tests {
    use polaris_gcn::Toolchain;

    use super::*;

    /// Skipped where there is no clang, unless `POLARIS_REQUIRE` contains `isa`.
    #[test]
    fn every_format_is_unpacked_within_its_budget() {
        let required = std::env::var("POLARIS_REQUIRE").unwrap_or_default();
        let toolchain = match Toolchain::find(None, super::super::TARGET) {
            Ok(toolchain) => toolchain,
            Err(error) if required.split(',').any(|what| what.trim() == "isa") => panic!("{error}"),
            Err(error) => return eprintln!("SKIPPED: {error}"),
        };
        let mut programs = crate::programs::programs();
        programs.retain(|program| program.name.starts_with("blocks.cl "));
        programs.retain(|program| program.name.contains("_blocks1 "));
        let compiled = super::super::compile_all(&toolchain, &programs);
        let counts = counts(&programs, &compiled).unwrap();
        assert_eq!(counts.len(), Block::ALL.len());
        assert!(within_budget(&counts), "\n{}", table(&counts));
        // Nothing is unpacked with less than a conversion and two multiplications.
        assert!(counts.iter().all(|count| count.found > 3.0), "\n{}", table(&counts));
    }

    #[test]
    fn what_is_over_its_bound_is_marked() {
        let count = |block, found| Count { block, found };
        assert_eq!(count(Block::Q4_0, 0.0).bound(), 6.75);
        let fine = [count(Block::Q4_0, 6.7), count(Block::Q2_K, 4.7)];
        assert!(within_budget(&fine) && !table(&fine).contains("OVER"));
        let over = [count(Block::Q4_0, 6.8)];
        assert!(!within_budget(&over) && table(&over).contains("OVER"), "{}", table(&over));
    }
}
