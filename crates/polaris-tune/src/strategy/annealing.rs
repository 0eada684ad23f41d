//! Simulated annealing: a walk between points that accepts slower ones ever more rarely.

use super::terrain::{Beginning, Terrain};
use super::{History, Strategy};
use crate::{Points, Random};

/// Of two points whose times differ by this share the slower is still accepted often, at first.
const HOT: f64 = 0.06;
/// Below this the walk only follows the noise of the measurements.
const COLD: f64 = 0.02;

/// Neighbours that are looked at for each step; the most promising is taken. More of them would
/// turn the walk into a climb.
const PICKS: usize = 3;

/// Simulated annealing. Steps between known points cost nothing; only new ones are proposed.
pub struct Annealing {
    random: Random,
    prior: Option<Vec<f64>>,
    terrain: Option<Terrain>,
    /// Points still to try before the walk begins.
    beginning: Beginning,
    /// Where the walk is.
    at: Option<usize>,
    /// What was proposed last.
    proposed: Option<usize>,
    heat: f64,
    /// The best the walk found since it last started, and how many evaluations ago.
    best: f64,
    idle: usize,
    restarts: usize,
}

impl Annealing {
    /// A walk that begins at the best predicted points, where there are predictions.
    pub fn new(seed: u64, prior: Option<Vec<f64>>) -> Self {
        Self {
            random: Random::new(seed),
            prior,
            terrain: None,
            beginning: Beginning::default(),
            at: None,
            proposed: None,
            heat: HOT,
            best: f64::INFINITY,
            idle: 0,
            restarts: 0,
        }
    }
}

/// Whether to step from one cost to another. Costs are logarithms: their difference is a share.
fn accepts(from: f64, to: f64, heat: f64, random: &mut Random) -> bool {
    to <= from || random.unit() < ((from - to) / heat).exp()
}

/// One of the neighbours, the near ones more often.
fn pick(steps: &[(usize, u16)], random: &mut Random) -> Option<usize> {
    let weight = |distance: u16| 1.0 / f64::from(distance);
    let total: f64 = steps.iter().map(|&(_, distance)| weight(distance)).sum();
    let mut left = random.unit() * total;
    let chosen = steps.iter().find(|&&(_, distance)| {
        left -= weight(distance);
        left < 0.0
    });
    chosen.or(steps.last()).map(|&(point, _)| point)
}

impl Strategy for Annealing {
    fn name(&self) -> &'static str {
        "annealing"
    }

    fn propose(&mut self, points: &Points, history: &History) -> Option<usize> {
        let terrain = Terrain::of(&mut self.terrain, points, history);
        let random = &mut self.random;
        let prior = self.prior.as_deref();
        let count = (terrain.len() / 100).clamp(3, 20);
        let first = self.beginning.next(terrain, count, prior, random);
        if first.is_some() {
            return first;
        }

        let mut at = match self.at.or(terrain.best()) {
            Some(at) => at,
            // Everything failed so far.
            None => return terrain.any_untried(random),
        };
        let mut cost = terrain.cost(at).unwrap_or(f64::INFINITY);
        if let Some(proposed) = self.proposed.take()
            && let Some(found) = terrain.cost(proposed)
        {
            self.idle += 1;
            if found < self.best {
                (self.best, self.idle) = (found, 0);
            }
            if accepts(cost, found, self.heat, random) {
                (at, cost) = (proposed, found);
            }
            // A walk may take about a twentieth of the space to cool down.
            let steps = (terrain.len() as f64 / 20.0).clamp(15.0, 100.0);
            self.heat = (self.heat * (COLD / HOT).powf(1.0 / steps)).max(COLD);
        }

        // Long without progress: the next walk starts at the best of all or anywhere, in turn.
        if self.idle > (terrain.len() / 25).clamp(20, 80) {
            self.restarts += 1;
            (self.idle, self.best, self.heat) = (0, f64::INFINITY, HOT / 2.0);
            if self.restarts % 2 == 1 {
                at = terrain.best().unwrap_or(at);
                cost = terrain.cost(at).unwrap_or(f64::INFINITY);
            } else {
                self.at = terrain.any_untried(random);
                self.proposed = self.at;
                return self.at;
            }
        }

        let mut next = None;
        for _ in 0..50 {
            // Constraints often let two parameters change only together.
            let mut steps = terrain.steps(at);
            steps.extend(terrain.double_steps(at).into_iter().map(|point| (point, 2)));
            let picks = (0..PICKS).filter_map(|_| pick(&steps, random));
            let picks = picks.map(|to| (terrain.promise(to), to));
            let Some((_, to)) = picks.min_by(|a, b| a.0.total_cmp(&b.0)) else { break };
            match terrain.cost(to) {
                None => {
                    next = Some(to);
                    break;
                }
                Some(found) if accepts(cost, found, self.heat, random) => (at, cost) = (to, found),
                Some(_) => {}
            }
        }
        // Everything around is known: look a little further before giving up on this place.
        let next = next.or_else(|| {
            let around = terrain.double_steps(at);
            let around: Vec<_> =
                around.into_iter().filter(|&p| terrain.cost(p).is_none()).collect();
            match around.len() {
                0 => terrain.any_untried(random),
                count => Some(around[random.below(count)]),
            }
        });
        self.at = Some(at);
        self.proposed = next;
        next
    }
}
