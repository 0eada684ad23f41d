//! Graph passes: rewrite a graph once, when it is loaded, into a cheaper one with the same results.
//!
//! A pass writes only operators of the ONNX standard, so that whatever it makes can be interpreted,
//! inferred and lowered like a file's own nodes, and every pass can be tested by interpreting a graph
//! before and after it. A pass cannot fail: what it does not understand it leaves alone.
//!
//! What always holds: results of the graph keep their names, inputs stay replaceable, and the type that a
//! file declares of a value stays true, since a value's meaning never changes. Where a shape changes, there
//! is a new value.

mod activations;
mod attention;
mod blocks;
mod causal;
mod common;
mod constants;
mod conv_norm;
mod dead;
mod dequantized;
mod edits;
mod gelu;
mod layer_norm;
mod matching;
mod products;
mod quantized;
mod rotary;
mod softmax;
#[cfg(test)]
mod testing;
mod transposes;
mod weights;

use std::sync::Arc;

use polaris_onnx::Graph;

pub(crate) use blocks::{Integers, summed_axis};
pub(crate) use constants::{FOLDED_ELEMENTS, is_determined};
pub use quantized::MOVING;

use crate::side::Side;
use crate::{Error, Result};

/// Where a graph is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It is the model's: what is given to it is checked against the types it declares.
    Model,
    /// It is inside a node: nothing is known of what it is given.
    Node,
}

/// A rewriting of graphs.
#[derive(Debug, Clone, Copy)]
pub struct Pass {
    /// Its name, by which it is switched off.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// The side that it is for, if it is for one: what is fast on one may be slow on the other.
    pub only: Option<Side>,
    /// Rewrites a graph, and says how often it did something.
    pub run: fn(&mut Graph, Place) -> usize,
}

/// Every pass, in the order in which they run.
pub const ALL: &[Pass] = &[
    Pass {
        name: "constants",
        about: "folds what depends only on constants and declared shapes",
        only: None,
        run: constants::run,
    },
    Pass { name: "dead", about: "removes dead nodes and identities", only: None, run: dead::run },
    Pass {
        name: "common",
        about: "eliminates common subexpressions",
        only: None,
        run: common::run,
    },
    Pass {
        name: "conv_norm",
        about: "folds batch normalisation, and per-channel factors and summands, into weights",
        only: None,
        run: conv_norm::run,
    },
    Pass {
        name: "layer_norm",
        about: "fuses layer and RMS normalisation",
        only: None,
        run: layer_norm::run,
    },
    Pass {
        name: "gelu",
        about: "fuses GELU, exact or with the tanh approximation",
        only: None,
        run: gelu::run,
    },
    Pass { name: "softmax", about: "fuses softmax", only: None, run: softmax::run },
    Pass {
        name: "activations",
        about: "fuses Swish, HardSwish and Mish",
        only: None,
        run: activations::run,
    },
    Pass {
        name: "transposes",
        about: "merges transpositions, and cancels inverse pairs around elementwise functions",
        only: None,
        run: transposes::run,
    },
    Pass {
        name: "attention",
        about: "fuses scaled dot-product attention with its mask",
        only: None,
        run: attention::run,
    },
    Pass { name: "rotary", about: "fuses rotary embeddings", only: None, run: rotary::run },
    Pass {
        name: "quantized",
        about: "turns convolutions and matmuls between (de)quantisations into quantised ones",
        // Other devices have no such operators; the interpreter would take longer than they do with floats.
        only: Some(Side::Cpu),
        run: quantized::run,
    },
    Pass {
        name: "dequantized",
        about: "turns quantised convolutions and matmuls into float ones between (de)quantisations",
        only: Some(Side::Gpu),
        run: dequantized::run,
    },
    Pass {
        name: "weights",
        about: "dequantises constants that no quantised operator reads",
        only: None,
        run: weights::run,
    },
];

/// Rounds of all passes, at most: each gives others new chances, but few are needed.
const MOST_ROUNDS: usize = 8;

/// Graphs inside graphs that are looked at, at most.
const DEEPEST: usize = 8;

/// Which passes run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Passes {
    /// One for each of [`ALL`].
    on: Vec<bool>,
}

impl Default for Passes {
    /// Every pass.
    fn default() -> Self {
        Self::all()
    }
}

impl Passes {
    /// Every pass.
    pub fn all() -> Self {
        Self { on: vec![true; ALL.len()] }
    }

    /// No pass.
    pub fn none() -> Self {
        Self { on: vec![false; ALL.len()] }
    }

    /// These without one of them.
    ///
    /// # Errors
    /// If there is no pass of this name.
    pub fn without(self, name: &str) -> Result<Self> {
        self.switched(name, false)
    }

    /// These and another one.
    ///
    /// # Errors
    /// If there is no pass of this name.
    pub fn with(self, name: &str) -> Result<Self> {
        self.switched(name, true)
    }

    fn switched(mut self, name: &str, on: bool) -> Result<Self> {
        let at = ALL.iter().position(|pass| pass.name == name).ok_or_else(|| {
            let known: Vec<&str> = ALL.iter().map(|pass| pass.name).collect();
            Error::UnknownPass { name: name.to_owned(), known: known.join(", ") }
        })?;
        self.on[at] = on;
        Ok(self)
    }

    /// Whether none runs.
    pub fn is_none(&self) -> bool {
        !self.on.contains(&true)
    }

    /// Those that run, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &'static Pass> + '_ {
        ALL.iter().zip(&self.on).filter(|(_, on)| **on).map(|(pass, _)| pass)
    }

    /// These without those that are for the other side.
    #[must_use]
    pub fn on(mut self, side: Side) -> Self {
        for (pass, on) in ALL.iter().zip(&mut self.on) {
            *on &= pass.only.is_none_or(|only| only == side);
        }
        self
    }
}

/// What a pass did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Change {
    /// The pass.
    pub pass: &'static str,
    /// How often it did something.
    pub count: usize,
}

/// Rewrites a graph, and those inside it, until nothing changes. Says what each pass did that did
/// something.
pub fn optimise(graph: &mut Graph, passes: &Passes) -> Vec<Change> {
    let mut changes: Vec<Change> =
        passes.iter().map(|pass| Change { pass: pass.name, count: 0 }).collect();
    for _ in 0..MOST_ROUNDS {
        let mut changed = false;
        for (pass, change) in passes.iter().zip(&mut changes) {
            let count = run_in_all(pass, graph, Place::Model, 0);
            change.count += count;
            changed |= count > 0;
        }
        if !changed {
            break;
        }
    }
    changes.retain(|change| change.count > 0);
    changes
}

/// A pass over a graph and those inside it.
fn run_in_all(pass: &Pass, graph: &mut Graph, place: Place, depth: usize) -> usize {
    let mut count = 0;
    if depth < DEEPEST {
        for node in &mut graph.nodes {
            for inner in node.attributes.graphs_mut() {
                count += run_in_all(pass, Arc::make_mut(inner), Place::Node, depth + 1);
            }
        }
    }
    count + (pass.run)(graph, place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_unknown_ones_are_refused() {
        for (at, pass) in ALL.iter().enumerate() {
            assert!(ALL[..at].iter().all(|other| other.name != pass.name), "{}", pass.name);
            assert!(Passes::all().without(pass.name).is_ok());
        }
        let error = Passes::all().without("fusion").unwrap_err().to_string();
        assert!(error.contains("fusion") && error.contains("constants"), "{error}");
        assert!(Passes::none().is_none() && !Passes::default().is_none());
        assert_eq!(Passes::none().with("dead").unwrap().iter().count(), 1);
    }

    #[test]
    fn passes_for_one_side_do_not_run_for_the_other() {
        let names = |side| -> Vec<&str> {
            Passes::default().on(side).iter().map(|pass| pass.name).collect()
        };
        let (cpu, gpu) = (names(Side::Cpu), names(Side::Gpu));
        assert!(cpu.contains(&"quantized") && !cpu.contains(&"dequantized"));
        assert!(gpu.contains(&"dequantized") && !gpu.contains(&"quantized"));
        assert!(cpu.contains(&"weights") && gpu.contains(&"weights"));
    }
}
