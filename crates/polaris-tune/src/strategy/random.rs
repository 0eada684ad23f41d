//! Random search.

use super::terrain::Terrain;
use super::{History, Strategy};
use crate::{Points, Random};

/// Tries points in random order: what every other strategy has to beat.
pub struct RandomSearch {
    random: Random,
    terrain: Option<Terrain>,
}

impl RandomSearch {
    /// An order that depends on the seed alone.
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), terrain: None }
    }
}

impl Strategy for RandomSearch {
    fn name(&self) -> &'static str {
        "random"
    }

    fn propose(&mut self, points: &Points, history: &History) -> Option<usize> {
        Terrain::of(&mut self.terrain, points, history).any_untried(&mut self.random)
    }
}
