//! From expressions to a network of nodes over bytes.
//!
//! Each rule is a graph that ends in the one node [`RETURN`]; a call enters the graph of another rule. Characters become
//! arcs over the bytes of their UTF-8, so that a text can stop within a character.

use super::charset::{CharSet, Sequences};
use super::expr::{Expr, Rules};
use super::gbnf::MOST_REPETITIONS;
use crate::{Error, Result};

/// The most nodes of a grammar.
const MOST_NODES: usize = 1 << 20;

/// The end of every rule.
pub(super) const RETURN: u32 = 0;

/// A place in a rule.
#[derive(Debug, Clone, Copy)]
pub(super) enum Node {
    Return,
    /// Arcs over a byte.
    Arcs {
        start: u32,
        end: u32,
    },
    /// Any of some nodes, without a byte.
    Choice {
        start: u32,
        end: u32,
    },
    /// Another rule, then a node.
    Call {
        rule: u32,
        next: u32,
    },
}

/// One byte of a range, then a node.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arc {
    pub low: u8,
    pub high: u8,
    pub next: u32,
}

/// The nodes of all rules.
#[derive(Debug, Clone)]
pub(super) struct Network {
    pub nodes: Vec<Node>,
    pub arcs: Vec<Arc>,
    pub targets: Vec<u32>,
    /// The first node of each rule.
    pub starts: Vec<u32>,
    /// The named rule that each rule belongs to.
    pub owners: Vec<u32>,
}

pub(super) fn compile(rules: &Rules) -> Result<Network> {
    let count = rules.bodies.len();
    let mut network = Network {
        nodes: vec![Node::Return],
        arcs: Vec::new(),
        targets: Vec::new(),
        starts: vec![RETURN; count],
        owners: (0..count as u32).collect(),
    };
    for (rule, body) in rules.bodies.iter().enumerate() {
        network.starts[rule] = network.build(rule as u32, body, RETURN)?;
    }
    Ok(network)
}

impl Network {
    fn add(&mut self, node: Node) -> Result<u32> {
        if self.nodes.len() == MOST_NODES {
            return Err(Error::limit("nodes of a grammar", MOST_NODES));
        }
        self.nodes.push(node);
        Ok(self.nodes.len() as u32 - 1)
    }

    fn choice(&mut self, targets: &[u32]) -> Result<u32> {
        let node = self.choice_of(targets);
        self.add(node)
    }

    fn choice_of(&mut self, targets: &[u32]) -> Node {
        let start = self.targets.len() as u32;
        self.targets.extend_from_slice(targets);
        Node::Choice { start, end: self.targets.len() as u32 }
    }

    fn arcs(&mut self, arcs: &[Arc]) -> Result<u32> {
        let start = self.arcs.len() as u32;
        self.arcs.extend_from_slice(arcs);
        self.add(Node::Arcs { start, end: self.arcs.len() as u32 })
    }

    /// The node at which an expression begins that goes on at `next`.
    fn build(&mut self, owner: u32, expr: &Expr, next: u32) -> Result<u32> {
        match expr {
            Expr::Text(text) => text
                .bytes()
                .rev()
                .try_fold(next, |next, byte| self.arcs(&[Arc { low: byte, high: byte, next }])),
            Expr::Set(set) => self.set(set, next),
            Expr::Sequence(items) => {
                items.iter().rev().try_fold(next, |next, item| self.build(owner, item, next))
            }
            Expr::Choice(choices) => {
                let mut targets = Vec::with_capacity(choices.len());
                for choice in choices {
                    targets.push(self.build(owner, choice, next)?);
                }
                self.choice(&targets)
            }
            Expr::Rule(rule) => self.add(Node::Call { rule: *rule as u32, next }),
            Expr::Repeat { item, least, most } => self.repeat(owner, item, *least, *most, next),
        }
    }

    fn repeat(
        &mut self,
        owner: u32,
        item: &Expr,
        least: u32,
        most: Option<u32>,
        next: u32,
    ) -> Result<u32> {
        let copies = most.unwrap_or(least);
        if copies > MOST_REPETITIONS {
            return Err(Error::limit("repetitions", MOST_REPETITIONS as usize));
        }
        // Many copies of a large item are calls of one rule.
        let called;
        let small = match item {
            Expr::Rule(_) => true,
            Expr::Set(set) => set.ranges().last().is_some_and(|&(_, high)| high < 0x80),
            Expr::Text(text) => text.len() == 1,
            _ => false,
        };
        let item = if copies > 2 && !small {
            let start = self.build(owner, item, RETURN)?;
            self.starts.push(start);
            self.owners.push(owner);
            called = Expr::Rule(self.starts.len() - 1);
            &called
        } else {
            item
        };
        let mut start = next;
        let mut needed = least;
        match most {
            Some(most) => {
                for _ in least..most {
                    let body = self.build(owner, item, start)?;
                    start = self.choice(&[body, next])?;
                }
            }
            None => {
                let again = self.add(Node::Return)?;
                let body = self.build(owner, item, again)?;
                self.nodes[again as usize] = self.choice_of(&[body, next]);
                start = again;
                if needed > 0 {
                    (start, needed) = (body, needed - 1);
                }
            }
        }
        for _ in 0..needed {
            start = self.build(owner, item, start)?;
        }
        Ok(start)
    }

    fn set(&mut self, set: &CharSet, next: u32) -> Result<u32> {
        self.sequences(&set.utf8(), next)
    }

    /// A node for sequences of byte ranges; those with the same first range share the rest.
    fn sequences(&mut self, sequences: &[Vec<(u8, u8)>], next: u32) -> Result<u32> {
        let mut arcs: Vec<Arc> = Vec::new();
        // The last node that was made for a rest, since equal rests follow one another.
        let mut known: Option<(Sequences, u32)> = None;
        for group in sequences.chunk_by(|a, b| a[0] == b[0]) {
            let rest: Sequences = group.iter().map(|s| s[1..].to_vec()).collect();
            let (low, high) = group[0][0];
            let next = match &known {
                _ if rest[0].is_empty() => next,
                Some((same, node)) if *same == rest => *node,
                _ => {
                    let node = self.sequences(&rest, next)?;
                    known = Some((rest, node));
                    node
                }
            };
            arcs.push(Arc { low, high, next });
        }
        self.arcs(&arcs)
    }
}
