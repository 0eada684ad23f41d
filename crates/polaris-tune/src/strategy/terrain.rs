//! What strategies know of a space: neighbours, measured points, and remaining points.

use std::collections::HashMap;

use crate::{History, Points, Random};

/// A space and its history, arranged so that a proposal takes microseconds.
pub(super) struct Terrain {
    width: usize,
    /// How many values each parameter has.
    heights: Vec<u16>,
    /// For each point, the places of its values among those of each parameter.
    places: Vec<u16>,
    numbers: HashMap<Box<[u16]>, u32>,
    /// The natural logarithm of each point's seconds; infinite if it failed.
    costs: Vec<Option<f64>>,
    untried: Vec<u32>,
    /// Where each point is in `untried`.
    slots: Vec<u32>,
    /// How many trials of the history were read.
    read: usize,
    best: Option<usize>,
    /// The sum and the number of costs that were found, of all points and with each value of each
    /// parameter.
    all: (f64, f64),
    with_value: Vec<Vec<(f64, f64)>>,
}

impl Terrain {
    pub fn new(points: &Points) -> Self {
        let width = points.names().len();
        let index = |parameter: usize| -> HashMap<i64, u16> {
            let levels = points.levels(parameter).iter();
            levels.enumerate().map(|(place, &value)| (value, place as u16)).collect()
        };
        let indices: Vec<_> = (0..width).map(index).collect();
        let mut places = Vec::with_capacity(points.len() * width);
        let mut numbers = HashMap::with_capacity(points.len());
        for point in 0..points.len() {
            let values = points.values(point).iter().zip(&indices);
            places.extend(values.map(|(value, index)| index[value]));
            numbers.insert(places[point * width..].into(), point as u32);
        }
        Self {
            width,
            heights: (0..width).map(|parameter| points.levels(parameter).len() as u16).collect(),
            places,
            numbers,
            costs: vec![None; points.len()],
            untried: (0..points.len() as u32).collect(),
            slots: (0..points.len() as u32).collect(),
            read: 0,
            best: None,
            all: (0.0, 0.0),
            with_value: (0..width)
                .map(|parameter| vec![(0.0, 0.0); points.levels(parameter).len()])
                .collect(),
        }
    }

    /// The terrain of a strategy, made at its first proposal, with all trials up to now. A
    /// strategy searches one space with one growing history.
    pub fn of<'a>(slot: &'a mut Option<Self>, points: &Points, history: &History) -> &'a mut Self {
        let terrain = slot.get_or_insert_with(|| Self::new(points));
        for trial in history.trials.iter().skip(terrain.read) {
            terrain.read += 1;
            if trial.point >= terrain.costs.len() {
                continue;
            }
            let cost = trial.seconds.map_or(f64::INFINITY, f64::ln);
            let cost = if cost.is_finite() { cost } else { f64::INFINITY };
            if terrain.costs[trial.point].replace(cost).is_none() {
                let slot = terrain.slots[trial.point] as usize;
                terrain.untried.swap_remove(slot);
                if let Some(&moved) = terrain.untried.get(slot) {
                    terrain.slots[moved as usize] = slot as u32;
                }
                terrain.learn(trial.point, cost);
            }
            let before = terrain.best.and_then(|best| terrain.costs[best]);
            if cost < before.unwrap_or(f64::INFINITY) {
                terrain.best = Some(trial.point);
            }
        }
        terrain
    }

    fn learn(&mut self, point: usize, cost: f64) {
        if cost.is_infinite() {
            return;
        }
        self.all = (self.all.0 + cost, self.all.1 + 1.0);
        for parameter in 0..self.width {
            let place = usize::from(self.places[point * self.width + parameter]);
            let (sum, count) = &mut self.with_value[parameter][place];
            (*sum, *count) = (*sum + cost, *count + 1.0);
        }
    }

    /// What to expect of a point if each of its values adds what it cost elsewhere on average,
    /// by the average of all: an estimate that is rough and takes nanoseconds.
    pub fn promise(&self, point: usize) -> f64 {
        let mean = self.all.0 / self.all.1.max(1.0);
        let values = self.places(point).iter().zip(&self.with_value);
        let of_value = |(&place, costs): (&u16, &Vec<(f64, f64)>)| {
            let (sum, count) = costs[usize::from(place)];
            (sum - count * mean) / (count + 1.0)
        };
        values.map(of_value).sum()
    }

    /// The logarithm of a point's seconds, infinite if it failed; none if it was not tried.
    pub fn cost(&self, point: usize) -> Option<f64> {
        self.costs[point]
    }

    /// The fastest point.
    pub fn best(&self) -> Option<usize> {
        self.best
    }

    /// How many points there are.
    pub fn len(&self) -> usize {
        self.costs.len()
    }

    /// How many points were tried.
    pub fn tried(&self) -> usize {
        self.costs.len() - self.untried.len()
    }

    /// All points that were not tried, in no order.
    pub fn untried(&self) -> &[u32] {
        &self.untried
    }

    /// The places of a point's values.
    pub fn places(&self, point: usize) -> &[u16] {
        &self.places[point * self.width..][..self.width]
    }

    /// How many values a parameter has.
    pub fn height(&self, parameter: usize) -> usize {
        usize::from(self.heights[parameter])
    }

    /// The valid point with these places.
    pub fn find(&self, places: &[u16]) -> Option<usize> {
        self.numbers.get(places).map(|&number| number as usize)
    }

    /// One of the untried points.
    pub fn any_untried(&self, random: &mut Random) -> Option<usize> {
        match self.untried.len() {
            0 => None,
            count => Some(self.untried[random.below(count)] as usize),
        }
    }

    /// The points that differ from one in a single parameter, and over how many of its values.
    pub fn steps(&self, point: usize) -> Vec<(usize, u16)> {
        let mut found = Vec::new();
        let mut places = self.places(point).to_vec();
        for parameter in 0..self.width {
            let from = places[parameter];
            for to in (0..self.heights[parameter]).filter(|&to| to != from) {
                places[parameter] = to;
                found.extend(self.find(&places).map(|point| (point, to.abs_diff(from))));
            }
            places[parameter] = from;
        }
        found
    }

    /// The points that differ from one in two parameters, in each by one value. Constraints such
    /// as "the tile is a multiple of the threads" often let two parameters change only together.
    pub fn double_steps(&self, point: usize) -> Vec<usize> {
        let mut found = Vec::new();
        let mut places = self.places(point).to_vec();
        let beside = |parameter: usize, from: u16| {
            let low = from.checked_sub(1);
            let high = Some(from + 1).filter(|&to| to < self.heights[parameter]);
            low.into_iter().chain(high)
        };
        for first in 0..self.width {
            let from_first = places[first];
            for to_first in beside(first, from_first) {
                places[first] = to_first;
                for second in first + 1..self.width {
                    let from_second = places[second];
                    for to_second in beside(second, from_second) {
                        places[second] = to_second;
                        found.extend(self.find(&places));
                    }
                    places[second] = from_second;
                }
            }
            places[first] = from_first;
        }
        found
    }

    /// The valid point nearest to places that need not be valid together.
    pub fn nearest(&self, wanted: &[u16]) -> usize {
        let distance = |point: &usize| -> u32 {
            let pairs = self.places(*point).iter().zip(wanted);
            pairs.map(|(&a, &b)| u32::from(a.abs_diff(b))).sum()
        };
        (0..self.len()).min_by_key(distance).unwrap_or(0)
    }

    /// Untried points in which each value of each parameter comes about equally often: what to
    /// begin with when nothing is known.
    pub fn spread(&self, count: usize, random: &mut Random) -> Vec<usize> {
        let mut used: Vec<Vec<u32>> = self.heights.iter().map(|&h| vec![0; h.into()]).collect();
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < count.min(self.untried.len()) {
            // A hundred candidates balance almost as well as all of them.
            let candidates = (0..100).filter_map(|_| self.any_untried(random));
            let candidates = candidates.filter(|point| !chosen.contains(point));
            let crowd = |point: &usize| -> u32 {
                let places = self.places(*point).iter().zip(&used);
                places.map(|(&place, used)| used[usize::from(place)]).sum()
            };
            let Some(point) = candidates.min_by_key(crowd) else { break };
            for (&place, used) in self.places(point).iter().zip(&mut used) {
                used[usize::from(place)] += 1;
            }
            chosen.push(point);
        }
        chosen
    }

    /// The points to begin with: some spread over the space, or, where times were predicted, the
    /// best predicted ones and a few others in case the predictions are wrong. The first to be
    /// tried is last.
    fn beginning(&self, count: usize, prior: Option<&[f64]>, random: &mut Random) -> Vec<usize> {
        let mut chosen = match prior {
            None => self.spread(count, random),
            Some(_) => self.spread(count / 4, random),
        };
        if let Some(prior) = prior {
            let ranked = ranked(prior, self.len());
            let promising = ranked.into_iter().filter(|&point| self.costs[point].is_none());
            let promising: Vec<usize> = promising.take(count - chosen.len()).collect();
            chosen.extend(promising.into_iter().rev());
        }
        chosen
    }
}

/// Points that a search begins with, made when it is first asked for one.
#[derive(Debug, Default)]
pub(super) struct Beginning(Option<Vec<usize>>);

impl Beginning {
    /// The next of about `count` points that was not tried; nothing once all were.
    pub fn next(
        &mut self,
        terrain: &Terrain,
        count: usize,
        prior: Option<&[f64]>,
        random: &mut Random,
    ) -> Option<usize> {
        let left = self.0.get_or_insert_with(|| {
            terrain.beginning(count.saturating_sub(terrain.tried()), prior, random)
        });
        while let Some(point) = left.pop() {
            if terrain.cost(point).is_none() {
                return Some(point);
            }
        }
        None
    }
}

/// All points, the best predicted first and those without a prediction last.
pub(super) fn ranked(prior: &[f64], count: usize) -> Vec<usize> {
    let seconds = |point: usize| match prior.get(point) {
        Some(seconds) if !seconds.is_nan() => *seconds,
        _ => f64::INFINITY,
    };
    let mut order: Vec<usize> = (0..count).collect();
    order.sort_by(|&a, &b| seconds(a).total_cmp(&seconds(b)));
    order
}
