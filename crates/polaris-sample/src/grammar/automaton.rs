//! The automaton of a grammar, made as far as texts need it.
//!
//! A state is a set of parser stacks, each at a node with arcs. A stack is its top node and its parent, a frame: where
//! to go on after the current rule, and the frame below. Frames and states are stored once and have numbers, so most
//! bytes cost one look-up in a table. When the tables are full, all but the states in use is forgotten.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use polaris_core::random::mix;

use super::Grammar;
use super::compile::{Node, RETURN};
use crate::{Error, Result};

/// The most parser stacks that are looked at for one byte.
const MOST_STACKS: usize = 1 << 14;
/// The most stacks that are looked at for one mask or text.
const MOST_WORK: usize = 1 << 26;
/// The most words of the tables, about 64 MiB.
const MOST_WORDS: usize = 1 << 23;

/// The state from which no text goes on.
pub(super) const DEAD: u32 = 0;
/// A transition that is not known yet.
const UNKNOWN: u32 = u32::MAX;
/// The frame below all others.
const BOTTOM: u32 = 0;
/// The stack of a complete text: the end of the first rule, with nothing below.
const COMPLETE: u64 = stack(RETURN, BOTTOM);

const fn stack(node: u32, parent: u32) -> u64 {
    (node as u64) << 32 | parent as u64
}

/// Stirs numbers of nodes and frames.
#[derive(Debug, Clone, Default)]
pub(super) struct Stir(u64);

impl Hasher for Stir {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = mix(self.0.wrapping_add(word).wrapping_add(0x9e37_79b9_7f4a_7c15));
    }
}

type Build = BuildHasherDefault<Stir>;

#[derive(Debug, Clone, Default)]
struct Tables {
    /// The node at which each frame goes on, and its parent, which has a smaller number.
    frames: Vec<(u32, u32)>,
    frame_ids: HashMap<(u32, u32), u32, Build>,
    /// The stacks of each state, ascending.
    states: Vec<Arc<[u64]>>,
    state_ids: HashMap<Arc<[u64]>, u32, Build>,
    /// The next state for each state and class of bytes.
    transitions: Vec<u32>,
    /// How many stacks all states have.
    stacks: usize,
}

#[derive(Debug, Clone)]
pub(super) struct Automaton {
    grammar: Grammar,
    tables: Tables,
    start: u32,
    /// How many stacks may still be looked at.
    work: usize,
    seen: HashSet<u64, Build>,
    todo: Vec<u64>,
    found: Vec<u64>,
}

impl Automaton {
    pub fn new(grammar: &Grammar) -> Result<Self> {
        let mut automaton = Self {
            grammar: grammar.clone(),
            tables: Tables::new(grammar.0.class_count),
            start: DEAD,
            work: MOST_WORK,
            seen: HashSet::default(),
            todo: vec![stack(grammar.0.network.starts[0], BOTTOM)],
            found: Vec::new(),
        };
        automaton.start = automaton.settle()?;
        Ok(automaton)
    }

    pub fn start(&self) -> u32 {
        self.start
    }

    /// Allows as much work as one call of a user may take.
    pub fn begin(&mut self) {
        self.work = MOST_WORK;
    }

    /// Whether the text may end in this state.
    pub fn is_complete(&self, state: u32) -> bool {
        self.tables.states[state as usize].first() == Some(&COMPLETE)
    }

    /// Whether the text may go on from this state.
    pub fn goes_on(&self, state: u32) -> bool {
        self.tables.states[state as usize].iter().any(|&stack| stack != COMPLETE)
    }

    /// Whether the tables should be cleaned before the next steps.
    pub fn is_full(&self) -> bool {
        self.tables.words(self.grammar.0.class_count) > MOST_WORDS
    }

    /// The state after a byte.
    #[inline]
    pub fn step(&mut self, state: u32, byte: u8) -> Result<u32> {
        let compiled = &self.grammar.0;
        let class = usize::from(compiled.classes[usize::from(byte)]);
        let place = state as usize * compiled.class_count + class;
        match self.tables.transitions[place] {
            UNKNOWN => self.explore(state, byte, place),
            next => Ok(next),
        }
    }

    #[cold]
    fn explore(&mut self, state: u32, byte: u8, place: usize) -> Result<u32> {
        let network = &self.grammar.0.network;
        let stacks = &self.tables.states[state as usize];
        self.work = self.work.saturating_sub(stacks.len());
        self.todo.clear();
        for &top in stacks.iter() {
            let (node, parent) = ((top >> 32) as u32, top as u32);
            let Node::Arcs { start, end } = network.nodes[node as usize] else { continue };
            let arcs = &network.arcs[start as usize..end as usize];
            let fitting = arcs.iter().filter(|arc| (arc.low..=arc.high).contains(&byte));
            self.todo.extend(fitting.map(|arc| stack(arc.next, parent)));
        }
        let next = self.settle()?;
        self.tables.transitions[place] = next;
        Ok(next)
    }

    /// Follows calls, choices and ends from the stacks in `todo` up to arcs; the state of what is found.
    fn settle(&mut self) -> Result<u32> {
        let compiled = &self.grammar.0;
        let network = &compiled.network;
        self.seen.clear();
        self.found.clear();
        while let Some(top) = self.todo.pop() {
            let (node, parent) = ((top >> 32) as u32, top as u32);
            if !compiled.live[node as usize] || !self.seen.insert(top) {
                continue;
            }
            if self.seen.len() > MOST_STACKS {
                return Err(Error::limit("parser stacks for one byte", MOST_STACKS));
            }
            match network.nodes[node as usize] {
                Node::Arcs { .. } => self.found.push(top),
                Node::Return if parent == BOTTOM => self.found.push(COMPLETE),
                Node::Return => {
                    let (node, parent) = self.tables.frames[parent as usize];
                    self.todo.push(stack(node, parent));
                }
                Node::Choice { start, end } => {
                    let targets = &network.targets[start as usize..end as usize];
                    self.todo.extend(targets.iter().map(|&node| stack(node, parent)));
                }
                Node::Call { rule, next } => {
                    // A call at the end of a rule needs no frame: recursion at the end then has no depth.
                    let below =
                        if next == RETURN { parent } else { self.tables.frame(next, parent) };
                    self.todo.push(stack(network.starts[rule as usize], below));
                }
            }
        }
        self.work = self.work.saturating_sub(self.seen.len());
        if self.work == 0 {
            return Err(Error::limit("parser steps for one mask", MOST_WORK));
        }
        self.found.sort_unstable();
        Ok(self.tables.state(&self.found, compiled.class_count))
    }

    /// Forgets all but the start and these states, whose numbers change.
    pub fn clean(&mut self, kept: &mut [u32]) -> Result<()> {
        let old = std::mem::replace(&mut self.tables, Tables::new(self.grammar.0.class_count));
        let mut needed = vec![false; old.frames.len()];
        let mut all: Vec<&mut u32> = kept.iter_mut().collect();
        all.push(&mut self.start);
        for state in &all {
            for &stack in old.states[**state as usize].iter() {
                needed[stack as u32 as usize] = true;
            }
        }
        // Parents have smaller numbers: downwards to find what is needed, upwards to number it.
        for frame in (1..old.frames.len()).rev() {
            if needed[frame] {
                needed[old.frames[frame].1 as usize] = true;
            }
        }
        let mut numbers = vec![BOTTOM; old.frames.len()];
        for frame in 1..old.frames.len() {
            if needed[frame] {
                let (node, parent) = old.frames[frame];
                numbers[frame] = self.tables.frame(node, numbers[parent as usize]);
            }
        }
        for state in all {
            self.found.clear();
            for &top in old.states[*state as usize].iter() {
                self.found.push(stack((top >> 32) as u32, numbers[top as u32 as usize]));
            }
            self.found.sort_unstable();
            *state = self.tables.state(&self.found, self.grammar.0.class_count);
        }
        // Less than half would soon be full again.
        if self.tables.words(self.grammar.0.class_count) > MOST_WORDS / 2 {
            return Err(Error::limit("words of parser stacks", MOST_WORDS / 2));
        }
        Ok(())
    }
}

impl Tables {
    fn new(class_count: usize) -> Self {
        let mut tables = Self { frames: vec![(RETURN, BOTTOM)], ..Self::default() };
        tables.state(&[], class_count);
        tables.transitions.fill(DEAD);
        tables
    }

    fn words(&self, class_count: usize) -> usize {
        // Each frame and stack is stored about twice, and each state has some overhead.
        self.frames.len() * 6 + self.stacks * 2 + self.states.len() * (class_count + 16)
    }

    fn frame(&mut self, node: u32, parent: u32) -> u32 {
        *self.frame_ids.entry((node, parent)).or_insert_with(|| {
            self.frames.push((node, parent));
            self.frames.len() as u32 - 1
        })
    }

    fn state(&mut self, stacks: &[u64], class_count: usize) -> u32 {
        if let Some(&id) = self.state_ids.get(stacks) {
            return id;
        }
        let id = self.states.len() as u32;
        let stacks: Arc<[u64]> = stacks.into();
        self.stacks += stacks.len();
        self.state_ids.insert(stacks.clone(), id);
        self.states.push(stacks);
        self.transitions.resize(self.states.len() * class_count, UNKNOWN);
        id
    }
}
