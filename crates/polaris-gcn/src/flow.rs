//! The flow of control of one kernel: blocks, who comes after whom, and which blocks are loops.
//!
//! Clang says in comments where loops are, but moves blocks out of them and leaves other compilers'
//! text without any, so loops are found as in any compiler: a jump to a block that every way to the
//! jump has passed is a way back, and what leads to it is the loop's body.

use std::collections::{BTreeSet, HashMap};

use crate::instruction::Instruction;

/// Instructions without a jump into their middle.
#[derive(Debug, Default)]
pub struct Block {
    pub label: String,
    pub instructions: Vec<Instruction>,
    /// Blocks that may come next.
    pub next: Vec<usize>,
}

/// A loop: its first block, and all of its blocks with those of inner loops.
#[derive(Debug)]
pub struct Cycle {
    pub header: usize,
    pub blocks: BTreeSet<usize>,
}

/// Where a block ends, as the text says it.
enum End {
    Falls,
    Jumps { target: String, always: bool },
    Stops,
}

/// The lines of a kernel's code, without those of other functions.
pub fn code_of<'a>(assembly: &'a str, kernel: &str) -> Option<Vec<&'a str>> {
    let label = format!("{kernel}:");
    let mut lines = assembly.lines().skip_while(|line| !line.starts_with(&label));
    lines.next()?;
    Some(lines.take_while(|line| !line.starts_with(".Lfunc_end")).collect())
}

/// Cuts a kernel's code into blocks; the first one is where it begins.
pub fn blocks<'a>(lines: impl IntoIterator<Item = &'a str>) -> Vec<Block> {
    let mut blocks = vec![Block::default()];
    let mut ends = vec![End::Falls];
    let begin = |blocks: &mut Vec<Block>, ends: &mut Vec<End>, label: &str| {
        blocks.push(Block { label: label.to_owned(), ..Block::default() });
        ends.push(End::Falls);
    };
    for line in lines {
        let text = line.split(';').next().unwrap_or_default().trim();
        if let Some(label) = text.strip_suffix(':') {
            begin(&mut blocks, &mut ends, label);
            continue;
        }
        // Directives begin with a point.
        if text.is_empty() || text.starts_with('.') {
            continue;
        }
        let (mnemonic, operands) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        let last = blocks.len() - 1;
        blocks[last].instructions.push(Instruction::parse(mnemonic, operands));
        let end = match mnemonic {
            "s_endpgm" | "s_setpc_b64" => End::Stops,
            "s_branch" => End::Jumps { target: operands.trim().to_owned(), always: true },
            _ if mnemonic.starts_with("s_cbranch") => {
                End::Jumps { target: operands.trim().to_owned(), always: false }
            }
            _ => continue,
        };
        ends[last] = end;
        begin(&mut blocks, &mut ends, "");
    }
    connect(&mut blocks, &ends);
    blocks
}

fn connect(blocks: &mut [Block], ends: &[End]) {
    let labels: HashMap<String, usize> =
        blocks.iter().enumerate().map(|(at, block)| (block.label.clone(), at)).collect();
    let count = blocks.len();
    for (at, (block, end)) in blocks.iter_mut().zip(ends).enumerate() {
        let falls = match end {
            End::Falls => true,
            End::Jumps { target, always } => {
                block.next.extend(labels.get(target));
                !always
            }
            End::Stops => false,
        };
        if falls && at + 1 < count {
            block.next.push(at + 1);
        }
    }
}

/// The blocks that can be reached, each after all that lead to it but for ways back.
pub fn order(blocks: &[Block]) -> Vec<usize> {
    let mut finished = Vec::new();
    let mut seen = vec![false; blocks.len()];
    // A block and how many of those after it were visited: no recursion, for code may be long.
    let mut path = vec![(0, 0)];
    seen[0] = true;
    while let Some((block, visited)) = path.last_mut() {
        if let Some(&next) = blocks[*block].next.get(*visited) {
            *visited += 1;
            if !std::mem::replace(&mut seen[next], true) {
                path.push((next, 0));
            }
        } else {
            finished.push(*block);
            path.pop();
        }
    }
    finished.reverse();
    finished
}

/// The loops, by their first block.
pub fn cycles(blocks: &[Block], order: &[usize]) -> Vec<Cycle> {
    let before = predecessors(blocks, order);
    let dominators = dominators(blocks.len(), order, &before);
    let dominates = |over: usize, mut block: usize| loop {
        if block == over {
            return true;
        }
        match dominators[block] {
            Some(up) if up != block => block = up,
            _ => return false,
        }
    };
    let mut cycles = Vec::new();
    for &header in order {
        let tails: Vec<usize> =
            before[header].iter().copied().filter(|&tail| dominates(header, tail)).collect();
        if tails.is_empty() {
            continue;
        }
        let mut body = BTreeSet::from([header]);
        let mut open = tails;
        while let Some(block) = open.pop() {
            if body.insert(block) {
                open.extend(&before[block]);
            }
        }
        cycles.push(Cycle { header, blocks: body });
    }
    cycles
}

fn predecessors(blocks: &[Block], order: &[usize]) -> Vec<Vec<usize>> {
    let mut before = vec![Vec::new(); blocks.len()];
    for &block in order {
        for &next in &blocks[block].next {
            before[next].push(block);
        }
    }
    before
}

/// The block that every way to a block passes last, for each; the first block's is itself.
fn dominators(count: usize, order: &[usize], before: &[Vec<usize>]) -> Vec<Option<usize>> {
    let mut place = vec![usize::MAX; count];
    for (at, &block) in order.iter().enumerate() {
        place[block] = at;
    }
    let mut dominators: Vec<Option<usize>> = vec![None; count];
    dominators[order[0]] = Some(order[0]);
    let mut changed = true;
    while changed {
        changed = false;
        for &block in &order[1..] {
            let known = before[block].iter().copied().filter(|&from| dominators[from].is_some());
            let common = known.reduce(|mut one, mut other| {
                // Both walk up until they meet.
                while one != other {
                    if place[one] > place[other] {
                        one = dominators[one].unwrap_or(order[0]);
                    } else {
                        other = dominators[other].unwrap_or(order[0]);
                    }
                }
                one
            });
            if common.is_some() && dominators[block] != common {
                dominators[block] = common;
                changed = true;
            }
        }
    }
    dominators
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cycles_of(text: &str) -> Vec<(String, Vec<String>)> {
        let blocks = blocks(text.lines());
        let order = order(&blocks);
        let name = |&at: &usize| blocks[at].label.clone();
        cycles(&blocks, &order)
            .iter()
            .map(|cycle| (name(&cycle.header), cycle.blocks.iter().map(name).collect()))
            .collect()
    }

    fn of(header: &str, blocks: &[&str]) -> (String, Vec<String>) {
        (header.to_owned(), blocks.iter().map(|&block| block.to_owned()).collect())
    }

    #[test]
    fn straight_code_has_no_loop() {
        assert_eq!(cycles_of("\ts_nop 0\n\ts_cbranch_scc0 .L1\n\ts_nop 0\n.L1:\n\ts_endpgm"), []);
    }

    #[test]
    fn nested_loops_are_found() {
        let text = "
.L0:
    s_nop 0
.L1:
    s_nop 0
    s_cbranch_scc1 .L1
    s_cbranch_scc0 .L0
    s_endpgm";
        assert_eq!(cycles_of(text), [of(".L0", &[".L0", ".L1", ""]), of(".L1", &[".L1"])]);
    }

    #[test]
    fn a_block_that_was_moved_out_belongs_to_its_loop() {
        let text = "
.L0:
    s_cbranch_execnz .L2
.L1:
    s_cbranch_scc0 .L0
    s_endpgm
.L2:
    s_nop 0
    s_branch .L1";
        assert_eq!(cycles_of(text), [of(".L0", &[".L0", "", ".L1", ".L2"])]);
    }

    #[test]
    fn only_the_named_kernel_is_read() {
        let text = "other:\n\ts_nop 1\n.Lfunc_end0:\none:  ; @one\n\ts_nop 2\n.Lfunc_end1:\n";
        assert_eq!(code_of(text, "one"), Some(vec!["\ts_nop 2"]));
        assert_eq!(code_of(text, "two"), None);
    }
}
