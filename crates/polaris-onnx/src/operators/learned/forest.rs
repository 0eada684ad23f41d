//! Decision trees, however a node encodes them.

use crate::{Error, Result};

/// What a node of a tree asks of a feature.
pub enum Question {
    AtMost(f64),
    Below(f64),
    AtLeast(f64),
    Above(f64),
    Equals(f64),
    Differs(f64),
    /// Whether it is one of these.
    Among(Vec<f64>),
}

impl Question {
    fn answer(&self, x: f64) -> bool {
        match self {
            Self::AtMost(value) => x <= *value,
            Self::Below(value) => x < *value,
            Self::AtLeast(value) => x >= *value,
            Self::Above(value) => x > *value,
            Self::Equals(value) => x == *value,
            Self::Differs(value) => x != *value,
            Self::Among(values) => values.contains(&x),
        }
    }
}

/// Where a branch leads.
#[derive(Clone, Copy)]
pub enum Next {
    Node(usize),
    Leaf(usize),
}

/// A node that is not a leaf.
pub struct Branch {
    pub feature: usize,
    pub question: Question,
    pub if_true: Next,
    pub if_false: Next,
    /// The answer for a feature that is NaN.
    pub if_missing: bool,
}

/// A leaf's weight for a target.
#[derive(Clone, Copy)]
pub struct Vote {
    pub target: usize,
    pub weight: f64,
}

/// How the votes of all trees become one number for each target.
#[derive(Clone, Copy)]
pub enum Aggregate {
    Average,
    Sum,
    Min,
    Max,
}

/// Trees with what their leaves say.
pub struct Forest {
    pub branches: Vec<Branch>,
    pub roots: Vec<Next>,
    pub leaves: Vec<Vec<Vote>>,
}

impl Forest {
    /// The votes of the leaf that a sample comes to in one tree.
    fn votes(&self, root: Next, sample: &[f64]) -> Result<&[Vote]> {
        let mut next = root;
        // In a tree no node comes twice; a file may hold something else.
        for _ in 0..=self.branches.len() {
            let place = match next {
                Next::Leaf(leaf) => {
                    let votes = self.leaves.get(leaf).map(Vec::as_slice);
                    return votes
                        .ok_or_else(|| Error::operands(format!("there is no leaf {leaf}")));
                }
                Next::Node(place) => place,
            };
            let branch = self.branches.get(place);
            let branch =
                branch.ok_or_else(|| Error::operands(format!("there is no node {place}")))?;
            let x = *sample.get(branch.feature).ok_or_else(|| {
                Error::operands(format!("there is no feature {}", branch.feature))
            })?;
            let answer = if x.is_nan() { branch.if_missing } else { branch.question.answer(x) };
            next = if answer { branch.if_true } else { branch.if_false };
        }
        Err(Error::operands("the nodes of a tree form a cycle"))
    }

    /// One number for each target.
    pub fn evaluate(
        &self,
        sample: &[f64],
        aggregate: Aggregate,
        results: &mut [f64],
    ) -> Result<()> {
        results.fill(0.0);
        let mut seen = vec![false; results.len()];
        for &root in &self.roots {
            for vote in self.votes(root, sample)? {
                let target = vote.target;
                let (Some(result), Some(seen)) = (results.get_mut(target), seen.get_mut(target))
                else {
                    return Err(Error::operands(format!("there is no target {target}")));
                };
                *result = match aggregate {
                    _ if !*seen => vote.weight,
                    Aggregate::Average | Aggregate::Sum => *result + vote.weight,
                    Aggregate::Min => result.min(vote.weight),
                    Aggregate::Max => result.max(vote.weight),
                };
                *seen = true;
            }
        }
        if let Aggregate::Average = aggregate {
            results.iter_mut().for_each(|result| *result /= self.roots.len() as f64);
        }
        Ok(())
    }
}
