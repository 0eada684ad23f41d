//! The backward pass: from a result to everything it was made of.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::mode;
use crate::node::{Node, lock};
use crate::{Error, Result, Tensor};

impl Tensor {
    /// Adds the gradient of this single value to every leaf that it was computed from, and gives up
    /// its history.
    ///
    /// # Errors
    /// `NotAScalar`, `NoHistory`, `HistorySpent`, or what goes wrong on the way.
    pub fn backward(&self) -> Result<()> {
        self.backward_with(&self.one()?)
    }

    /// As [`backward`](Self::backward), but the history stays for another pass.
    ///
    /// # Errors
    /// As for [`backward`](Self::backward).
    pub fn backward_retaining(&self) -> Result<()> {
        run(self, &self.one()?, true)
    }

    /// As [`backward`](Self::backward) of a tensor of any shape, beginning with the gradient of
    /// whatever comes after it.
    ///
    /// # Errors
    /// As for [`backward`](Self::backward), and if the gradient has another shape or type.
    pub fn backward_with(&self, gradient: &Self) -> Result<()> {
        run(self, gradient, false)
    }

    fn one(&self) -> Result<Self> {
        match self.elements() {
            1 => Self::ones(self.device(), self.dims(), self.dtype()),
            _ => Err(Error::NotAScalar { shape: *self.shape() }),
        }
    }
}

/// The gradients of a single value with respect to some tensors, without adding them to anything;
/// `None` for a tensor that the value does not depend on.
///
/// # Errors
/// As for [`Tensor::backward`], and `NoHistory` for a tensor that requires no gradient.
pub fn gradients(value: &Tensor, tensors: &[&Tensor]) -> Result<Vec<Option<Tensor>>> {
    let wanted: Vec<&Arc<Node>> = tensors
        .iter()
        .map(|tensor| tensor.node.as_ref().ok_or(Error::NoHistory))
        .collect::<Result<_>>()?;
    let mut found = vec![None; wanted.len()];
    pass(value, &value.one()?, false, &mut |node, gradient| {
        for (wanted, found) in wanted.iter().zip(&mut found) {
            if wanted.sequence == node.sequence {
                *found = Some(gradient.clone());
            }
        }
        Ok(())
    })?;
    Ok(found)
}

fn run(root: &Tensor, gradient: &Tensor, retain_history: bool) -> Result<()> {
    pass(root, gradient, retain_history, &mut |node, gradient| {
        if node.is_leaf() || node.retains.load(Ordering::Relaxed) {
            let mut sum = lock(&node.gradient);
            *sum = Some(match sum.take() {
                Some(before) => before.add(gradient)?,
                None => gradient.clone(),
            });
        }
        Ok(())
    })
}

/// Walks from the newest node to the oldest: when a node's turn comes, everything that was made of
/// it has had its own, and its gradient is complete. `visit` sees each node with its gradient.
fn pass(
    root: &Tensor,
    gradient: &Tensor,
    retain_history: bool,
    visit: &mut dyn FnMut(&Node, &Tensor) -> Result<()>,
) -> Result<()> {
    let node = root.node.as_ref().ok_or(Error::NoHistory)?;
    check(node, "backward", gradient)?;
    let mut waiting: BTreeMap<u64, (Arc<Node>, Tensor)> = BTreeMap::new();
    waiting.insert(node.sequence, (Arc::clone(node), gradient.detach()));
    mode::with(false, || {
        while let Some((_, (node, mut gradient))) = waiting.pop_last() {
            // A hook may add hooks: the list is not locked while they run.
            let hooks = lock(&node.hooks).clone();
            for hook in hooks {
                if let Some(replaced) = hook(&gradient)? {
                    check(&node, "a hook", &replaced)?;
                    gradient = replaced.detach();
                }
            }
            visit(&node, &gradient)?;
            if node.is_leaf() {
                continue;
            }
            let backward = match retain_history {
                true => lock(&node.backward).clone(),
                false => lock(&node.backward).take(),
            };
            let backward = backward.ok_or(Error::HistorySpent { op: node.name })?;
            let needed: Vec<bool> = node.edges.iter().map(Option::is_some).collect();
            let gradients = backward(&gradient, &needed)?;
            if gradients.len() != needed.len() {
                let (inputs, gradients) = (needed.len(), gradients.len());
                return Err(Error::WrongGradientCount { op: node.name, inputs, gradients });
            }
            for (edge, gradient) in node.edges.iter().zip(gradients) {
                let (Some(edge), Some(gradient)) = (edge, gradient) else { continue };
                check(edge, node.name, &gradient)?;
                let sum = match waiting.remove(&edge.sequence) {
                    Some((_, before)) => before.add(&gradient)?,
                    None => gradient,
                };
                waiting.insert(edge.sequence, (Arc::clone(edge), sum.detach()));
            }
        }
        Ok(())
    })
}

/// Whether a gradient fits what it is the gradient of.
fn check(node: &Node, op: &'static str, gradient: &Tensor) -> Result<()> {
    let (found, found_dtype) = (*gradient.shape(), gradient.dtype());
    if (found, found_dtype) == (node.shape, node.dtype) {
        return Ok(());
    }
    let (expected, expected_dtype) = (node.shape, node.dtype);
    Err(Error::WrongGradient { op, expected, expected_dtype, found, found_dtype })
}
