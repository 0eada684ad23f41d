//! The tape: a node for each result that a gradient flows through. Nodes hold no data of their
//! own; each backward function holds what it needs and nothing else.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use polaris_core::{DType, Shape};

use crate::{Result, Tensor};

/// From the gradient of a result to those of the inputs: one for each of them, or none where
/// nothing flows. It is told which are wanted.
pub(crate) type Backward = dyn Fn(&Tensor, &[bool]) -> Result<Vec<Option<Tensor>>> + Send + Sync;

/// Sees a gradient as it passes, and may replace it.
pub(crate) type Hook = dyn Fn(&Tensor) -> Result<Option<Tensor>> + Send + Sync;

/// A result, or a leaf, that has a gradient.
pub(crate) struct Node {
    /// Nodes are numbered as they are made: whatever a node was made of has a smaller number.
    pub sequence: u64,
    /// The operation.
    pub name: &'static str,
    pub shape: Shape,
    pub dtype: DType,
    /// The inputs' nodes, as far as they have any.
    pub edges: Vec<Option<Arc<Node>>>,
    /// None for a leaf, and when it was used up.
    pub backward: Mutex<Option<Arc<Backward>>>,
    /// The sum of the gradients that arrived, of leaves and of nodes that retain theirs.
    pub gradient: Mutex<Option<Tensor>>,
    pub retains: AtomicBool,
    pub hooks: Mutex<Vec<Arc<Hook>>>,
}

impl Node {
    /// A tensor whose gradient is wanted.
    pub fn leaf(shape: Shape, dtype: DType) -> Arc<Self> {
        Arc::new(Self::new("leaf", shape, dtype, Vec::new(), None))
    }

    /// The result of an operation.
    pub fn result(
        name: &'static str,
        shape: Shape,
        dtype: DType,
        edges: Vec<Option<Arc<Self>>>,
        backward: Arc<Backward>,
    ) -> Arc<Self> {
        Arc::new(Self::new(name, shape, dtype, edges, Some(backward)))
    }

    fn new(
        name: &'static str,
        shape: Shape,
        dtype: DType,
        edges: Vec<Option<Arc<Self>>>,
        backward: Option<Arc<Backward>>,
    ) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            sequence: NEXT.fetch_add(1, Ordering::Relaxed),
            name,
            shape,
            dtype,
            edges,
            backward: Mutex::new(backward),
            gradient: Mutex::new(None),
            retains: AtomicBool::new(false),
            hooks: Mutex::new(Vec::new()),
        }
    }

    pub fn is_leaf(&self) -> bool {
        self.edges.is_empty()
    }
}

/// A long chain of nodes is taken apart one by one: each dropping the next would use up the stack.
impl Drop for Node {
    fn drop(&mut self) {
        let mut left: Vec<Arc<Self>> = self.edges.drain(..).flatten().collect();
        while let Some(node) = left.pop() {
            if let Some(mut node) = Arc::into_inner(node) {
                // What it saved may hold tensors with histories of their own.
                left.extend(node.edges.drain(..).flatten());
            }
        }
    }
}

/// What a mutex guards; a panic elsewhere does not make it wrong.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
