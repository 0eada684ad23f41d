//! Genetic search: crossover and mutation of the fastest points.

use super::terrain::{Beginning, Terrain};
use super::{History, Strategy};
use crate::{Points, Random};

/// How many of the fastest points may have children.
const POPULATION: usize = 20;
/// How many of them compete to be a parent.
const TOURNAMENT: usize = 3;

/// A genetic search: each proposal takes the values of two fast points in turn, and changes some.
pub struct Genetic {
    random: Random,
    prior: Option<Vec<f64>>,
    terrain: Option<Terrain>,
    /// Points of the first generation still to try.
    beginning: Beginning,
}

impl Genetic {
    /// A search that begins at the best predicted points, where there are predictions.
    pub fn new(seed: u64, prior: Option<Vec<f64>>) -> Self {
        Self { random: Random::new(seed), prior, terrain: None, beginning: Beginning::default() }
    }
}

/// A child of two points: each value is of one of them, and about one is changed.
fn child(terrain: &Terrain, mother: usize, father: usize, random: &mut Random) -> usize {
    let (mother, father) = (terrain.places(mother), terrain.places(father));
    let mut places = mother.to_vec();
    for (parameter, place) in places.iter_mut().enumerate() {
        if random.below(2) == 1 {
            *place = father[parameter];
        }
        if random.below(mother.len()) == 0 {
            let last = terrain.height(parameter) - 1;
            // Most changes are to the value beside, some to any.
            let to = match random.below(4) {
                0 => random.below(last + 1),
                1 => usize::from(*place).saturating_sub(1),
                _ => (usize::from(*place) + 1).min(last),
            };
            *place = to as u16;
        }
    }
    terrain.find(&places).unwrap_or_else(|| terrain.nearest(&places))
}

impl Strategy for Genetic {
    fn name(&self) -> &'static str {
        "genetic"
    }

    fn propose(&mut self, points: &Points, history: &History) -> Option<usize> {
        let terrain = Terrain::of(&mut self.terrain, points, history);
        let random = &mut self.random;
        let prior = self.prior.as_deref();
        let first = self.beginning.next(terrain, POPULATION, prior, random);
        if first.is_some() {
            return first;
        }
        let timed = history.trials.iter().filter_map(|t| t.seconds.map(|s| (s, t.point)));
        let mut fastest: Vec<(f64, usize)> = timed.collect();
        fastest.sort_by(|a, b| a.0.total_cmp(&b.0));
        fastest.truncate(POPULATION);
        if fastest.is_empty() {
            return terrain.any_untried(random);
        }
        // They are sorted, so the winner of a tournament is the one with the lowest number.
        let parent = |random: &mut Random| {
            let winner = (0..TOURNAMENT).map(|_| random.below(fastest.len())).min();
            fastest[winner.unwrap_or(0)].1
        };
        for _ in 0..10 {
            let (mother, father) = (parent(random), parent(random));
            let child = child(terrain, mother, father, random);
            if terrain.cost(child).is_none() {
                return Some(child);
            }
            // A child that is known already gives way to one of its neighbours.
            let steps = terrain.steps(child).into_iter().map(|(point, _)| point);
            let free: Vec<usize> = steps.filter(|&point| terrain.cost(point).is_none()).collect();
            if !free.is_empty() {
                return Some(free[random.below(free.len())]);
            }
        }
        terrain.any_untried(random)
    }
}
