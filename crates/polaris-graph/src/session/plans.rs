//! Plans that were made, and their arrays in the memories that they ran in.

use std::sync::{Arc, Mutex};

use super::context::Context;
use crate::build::lock;
use crate::plan::{Given, Plan};

/// Plans that are kept for a graph. Loops may come by with ever new shapes.
pub(super) const MOST_PLANS: usize = 16;
/// Plans that are kept for each later stage of each plan.
pub(super) const MOST_LATER_PLANS: usize = 2;

/// What is given and what becomes of outputs, by which plans are found again.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Key {
    pub given: Vec<Given>,
    pub keeps_outputs: bool,
}

/// Plans by what is given, the last used one at the end.
#[derive(Debug, Default)]
pub(crate) struct Plans(Mutex<Vec<(Key, Arc<Entry>)>>);

/// A plan with its arrays in the memories that it ran in.
#[derive(Debug)]
pub(crate) struct Entry {
    pub plan: Arc<Plan>,
    /// Plans of what comes after it, where shapes depend on what it computes.
    pub later: Plans,
    idle: Mutex<Vec<Context>>,
}

impl Entry {
    pub fn new(plan: Plan) -> Self {
        Self { plan: Arc::new(plan), later: Plans::default(), idle: Mutex::default() }
    }

    /// The arrays in a memory, if the plan ran there before.
    pub fn take(&self, memory: u64) -> Option<Context> {
        let mut idle = lock(&self.idle);
        let at = idle.iter().position(|context| context.memory == memory)?;
        Some(idle.swap_remove(at))
    }

    /// Keeps the arrays of a run that is over.
    pub fn put(&self, mut context: Context) {
        context.unbind();
        lock(&self.idle).push(context);
    }
}

impl Plans {
    pub fn find(&self, key: &Key) -> Option<Arc<Entry>> {
        let mut list = lock(&self.0);
        let at = list.iter().position(|(other, _)| other == key)?;
        let found = list.remove(at);
        let entry = Arc::clone(&found.1);
        list.push(found);
        Some(entry)
    }

    pub fn keep(&self, key: Key, entry: &Arc<Entry>, most: usize) {
        let mut list = lock(&self.0);
        if list.len() >= most {
            list.remove(0);
        }
        list.push((key, Arc::clone(entry)));
    }

    /// Lets go of arrays that are not in use: those in one memory, or all.
    pub fn forget(&self, memory: Option<u64>) {
        for (_, entry) in lock(&self.0).iter() {
            lock(&entry.idle).retain(|context| memory.is_some_and(|one| context.memory != one));
            entry.later.forget(memory);
        }
    }
}
