//! Exhaustive search: every point, in order.

use super::terrain::Terrain;
use super::{History, Strategy};
use crate::Points;

/// Tries every point in the order of their numbers.
#[derive(Default)]
pub struct Exhaustive {
    terrain: Option<Terrain>,
    /// All points before this one were tried.
    next: usize,
}

impl Exhaustive {
    /// From the first point on.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Strategy for Exhaustive {
    fn name(&self) -> &'static str {
        "exhaustive"
    }

    fn propose(&mut self, points: &Points, history: &History) -> Option<usize> {
        let terrain = Terrain::of(&mut self.terrain, points, history);
        while self.next < terrain.len() && terrain.cost(self.next).is_some() {
            self.next += 1;
        }
        Some(self.next).filter(|&next| next < terrain.len())
    }
}
