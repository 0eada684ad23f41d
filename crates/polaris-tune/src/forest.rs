//! A regression forest of randomised trees: quick to fit, indifferent to the scale of its inputs,
//! and the disagreement of its trees says how little it knows about a row.

use serde::{Deserialize, Serialize};

use crate::Random;

/// How a forest is grown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ForestOptions {
    /// How many trees.
    pub trees: usize,
    /// The fewest rows a leaf may stand for.
    pub min_leaf: usize,
    /// How many features each split chooses among; a third of them unless given.
    pub features_per_split: Option<usize>,
    /// How many random thresholds each of them is tried with.
    pub thresholds_per_feature: usize,
}

impl Default for ForestOptions {
    fn default() -> Self {
        Self { trees: 40, min_leaf: 2, features_per_split: None, thresholds_per_feature: 1 }
    }
}

/// What a forest says about a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The mean of the trees.
    pub mean: f64,
    /// The standard deviation between the trees.
    pub deviation: f64,
}

/// Trees whose thresholds are random and whose splits are the best of a few. Each tree sees all
/// rows (there is no resampling): the thresholds alone make them different.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forest {
    /// The first node of each tree.
    roots: Vec<u32>,
    nodes: Vec<Node>,
    importance: Vec<f64>,
}

/// A question or a leaf: the feature asked about or [`LEAF`]; the threshold, below which rows go to
/// the next node, or the mean of the leaf's targets; the node for the other rows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Node(u16, f32, u32);

const LEAF: u16 = u16::MAX;

impl Forest {
    /// Learns from rows of equal length and a target for each. Of more than 65,535 features only
    /// the first are used; without rows the forest always says 0.
    pub fn fit(
        rows: &[Vec<f32>],
        targets: &[f32],
        options: &ForestOptions,
        random: &mut Random,
    ) -> Self {
        let count = rows.len().min(targets.len());
        let width = rows.first().map_or(0, Vec::len).min(usize::from(LEAF));
        // Splits look at one feature of many rows: columns keep those together.
        let value = |row: &Vec<f32>, feature: usize| row.get(feature).copied().unwrap_or(f32::NAN);
        let columns = (0..width)
            .map(|feature| rows[..count].iter().map(|row| value(row, feature)).collect())
            .collect();
        let mut growth = Growth {
            columns,
            targets: &targets[..count],
            min_leaf: options.min_leaf.max(1),
            tries: options.features_per_split.unwrap_or(width.div_ceil(3)).clamp(1, width.max(1)),
            thresholds: options.thresholds_per_feature.max(1),
            order: (0..width).collect(),
            column: Vec::with_capacity(count),
            here: Vec::with_capacity(count),
            forest: Self { roots: Vec::new(), nodes: Vec::new(), importance: vec![0.0; width] },
        };
        let mut members: Vec<u32> = (0..count as u32).collect();
        for _ in 0..options.trees.max(1) {
            growth.tree(&mut members, random);
        }
        let mut forest = growth.forest;
        let total: f64 = forest.importance.iter().sum();
        if total > 0.0 {
            forest.importance.iter_mut().for_each(|share| *share /= total);
        }
        forest
    }

    /// The estimate for a row with the same features.
    pub fn predict(&self, row: &[f32]) -> Estimate {
        let (mut sum, mut squares) = (0.0, 0.0);
        for &root in &self.roots {
            let mut place = root as usize;
            let says = loop {
                let Node(feature, threshold, other) = self.nodes[place];
                if feature == LEAF {
                    break f64::from(threshold);
                }
                let value = row.get(usize::from(feature)).copied().unwrap_or(f32::NAN);
                place = if value < threshold { place + 1 } else { other as usize };
            };
            sum += says;
            squares += says * says;
        }
        let trees = self.roots.len() as f64;
        let mean = sum / trees;
        Estimate { mean, deviation: (squares / trees - mean * mean).max(0.0).sqrt() }
    }

    /// The share of each feature in the reduction of variance, over all splits; all 0 where
    /// nothing could be split.
    pub fn importance(&self) -> Vec<f64> {
        self.importance.clone()
    }

    /// Whether every way from a root ends at a leaf.
    pub(crate) fn is_sound(&self) -> bool {
        let count = self.nodes.len();
        let leads_on = |(place, &Node(feature, _, other)): (usize, &Node)| {
            feature == LEAF || place + 1 < count && (place + 1..count).contains(&(other as usize))
        };
        !self.roots.is_empty()
            && self.roots.iter().all(|&root| (root as usize) < count)
            && self.nodes.iter().enumerate().all(leads_on)
    }

    /// How many nodes all trees have together.
    pub fn nodes(&self) -> usize {
        self.nodes.len()
    }
}

/// A forest while it grows, with room for the numbers of one node.
struct Growth<'a> {
    columns: Vec<Vec<f32>>,
    targets: &'a [f32],
    min_leaf: usize,
    /// Features tried for each split.
    tries: usize,
    thresholds: usize,
    /// The features, in an order that splits shuffle as far as they need.
    order: Vec<usize>,
    /// One feature of the node's rows, side by side.
    column: Vec<f32>,
    /// The targets of the node's rows.
    here: Vec<f32>,
    forest: Forest,
}

struct Split {
    feature: usize,
    threshold: f32,
    /// By how much it reduces the sum of squared differences from the mean.
    gain: f64,
}

impl Growth<'_> {
    fn tree(&mut self, members: &mut [u32], random: &mut Random) {
        self.forest.roots.push(self.forest.nodes.len() as u32);
        // Ranges of members that still want a node, and the node to which each is the other way.
        let mut waiting = vec![(0, members.len(), None)];
        while let Some((start, end, parent)) = waiting.pop() {
            let node = self.forest.nodes.len();
            if let Some(parent) = parent {
                let parent: &mut Node = &mut self.forest.nodes[parent];
                parent.2 = node as u32;
            }
            let members = &mut members[start..end];
            self.here.clear();
            self.here.extend(members.iter().map(|&row| self.targets[row as usize]));
            let sum: f64 = self.here.iter().copied().map(f64::from).sum();
            let Some(split) = self.split(members, sum, random) else {
                let mean = sum / members.len().max(1) as f64;
                self.forest.nodes.push(Node(LEAF, mean as f32, 0));
                continue;
            };
            self.forest.importance[split.feature] += split.gain;
            self.forest.nodes.push(Node(split.feature as u16, split.threshold, 0));
            let middle = start + partition(members, &self.columns[split.feature], split.threshold);
            // The lower side is taken next, so that it lies right behind its parent.
            waiting.push((middle, end, Some(node)));
            waiting.push((start, middle, None));
        }
    }

    /// The best of some random splits that leave enough rows on both sides.
    fn split(&mut self, members: &[u32], sum: f64, random: &mut Random) -> Option<Split> {
        let count = members.len();
        let flat = self.here.windows(2).all(|pair| pair[0] == pair[1]);
        if count < 2 * self.min_leaf || flat {
            return None;
        }
        let whole = sum * sum / count as f64;
        let mut best: Option<Split> = None;
        let mut tried = 0;
        for place in 0..self.order.len() {
            if tried == self.tries {
                break;
            }
            let other = place + random.below(self.order.len() - place);
            self.order.swap(place, other);
            let feature = self.order[place];
            let column = &self.columns[feature];
            self.column.clear();
            let (mut low, mut high) = (f32::INFINITY, f32::NEG_INFINITY);
            for &row in members {
                let value = column[row as usize];
                // Unlike `min` and `max`, these are single instructions.
                low = if value < low { value } else { low };
                high = if value > high { value } else { high };
                self.column.push(value);
            }
            // A feature that is the same everywhere is no choice, and does not count as one.
            if low >= high || !(high - low).is_finite() {
                continue;
            }
            tried += 1;
            for _ in 0..self.thresholds {
                let threshold = low + (high - low) * random.unit() as f32;
                let threshold = if threshold > low { threshold } else { high };
                let (below, below_sum) = count_below(&self.column, &self.here, threshold);
                if below < self.min_leaf || count - below < self.min_leaf {
                    continue;
                }
                let rest = sum - below_sum;
                let gain = below_sum * below_sum / below as f64
                    + rest * rest / (count - below) as f64
                    - whole;
                if best.as_ref().is_none_or(|best| gain > best.gain) {
                    best = Some(Split { feature, threshold, gain });
                }
            }
        }
        best.filter(|split| split.gain > 0.0)
    }
}

/// How many values are below a threshold, and the sum of their targets.
fn count_below(values: &[f32], targets: &[f32], threshold: f32) -> (usize, f64) {
    // Four sums at a time: one alone would wait for each addition before the next.
    let (mut counts, mut sums) = ([0u32; 4], [0.0f64; 4]);
    let mut add = |lane: usize, value: f32, target: f32| {
        let is_below = value < threshold;
        counts[lane] += u32::from(is_below);
        sums[lane] += if is_below { f64::from(target) } else { 0.0 };
    };
    let (value_fours, target_fours) = (values.chunks_exact(4), targets.chunks_exact(4));
    let rest = value_fours.remainder().iter().zip(target_fours.remainder());
    for (values, targets) in value_fours.zip(target_fours) {
        for lane in 0..4 {
            add(lane, values[lane], targets[lane]);
        }
    }
    for (lane, (&value, &target)) in rest.enumerate() {
        add(lane, value, target);
    }
    (counts.iter().sum::<u32>() as usize, sums.iter().sum())
}

/// Brings the rows below a threshold to the front; gives their number.
fn partition(members: &mut [u32], column: &[f32], threshold: f32) -> usize {
    let mut below = 0;
    for place in 0..members.len() {
        if column[members[place] as usize] < threshold {
            members.swap(place, below);
            below += 1;
        }
    }
    below
}

#[cfg(test)]
mod tests;
