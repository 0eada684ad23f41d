//! Maximum flow and minimum cut by Dinic's algorithm. Capacities are integers, so that it terminates.

use std::collections::VecDeque;

/// A capacity that is never cut.
pub const UNBOUNDED: u64 = u64::MAX / 4;

/// An edge with its way back at the next even or odd place.
#[derive(Debug, Clone, Copy)]
struct Edge {
    to: usize,
    left: u64,
}

/// A network of nodes by number.
#[derive(Debug)]
pub struct Network {
    edges: Vec<Edge>,
    from: Vec<Vec<usize>>,
}

impl Network {
    /// Without edges.
    pub fn new(nodes: usize) -> Self {
        Self { edges: Vec::new(), from: vec![Vec::new(); nodes] }
    }

    /// An edge in one direction.
    pub fn add(&mut self, from: usize, to: usize, capacity: u64) {
        self.from[from].push(self.edges.len());
        self.edges.push(Edge { to, left: capacity });
        self.from[to].push(self.edges.len());
        self.edges.push(Edge { to: from, left: 0 });
    }

    /// The side of each node in the smallest cut: whether it is with the source.
    pub fn cut(mut self, source: usize, sink: usize) -> Vec<bool> {
        loop {
            let level = self.levels(source);
            if level[sink].is_none() {
                return level.into_iter().map(|level| level.is_some()).collect();
            }
            let mut next = vec![0; self.from.len()];
            while self.push(source, sink, &level, &mut next) > 0 {}
        }
    }

    /// Edges from the source that have something left, at least.
    fn levels(&self, source: usize) -> Vec<Option<usize>> {
        let mut level = vec![None; self.from.len()];
        level[source] = Some(0);
        let mut open = VecDeque::from([source]);
        while let Some(node) = open.pop_front() {
            for &edge in &self.from[node] {
                let Edge { to, left } = self.edges[edge];
                if left > 0 && level[to].is_none() {
                    level[to] = level[node].map(|level: usize| level + 1);
                    open.push_back(to);
                }
            }
        }
        level
    }

    /// Pushes along one path; without recursion, since a model may be thousands of nodes deep.
    fn push(
        &mut self,
        source: usize,
        sink: usize,
        level: &[Option<usize>],
        next: &mut [usize],
    ) -> u64 {
        let mut path: Vec<usize> = Vec::new();
        let mut node = source;
        loop {
            if node == sink {
                let least = path.iter().map(|&edge| self.edges[edge].left).min().unwrap_or(0);
                for &edge in &path {
                    self.edges[edge].left -= least;
                    self.edges[edge ^ 1].left += least;
                }
                return least;
            }
            let onward = self.from[node].get(next[node]).copied();
            match onward {
                Some(edge) => {
                    let Edge { to, left } = self.edges[edge];
                    if left > 0 && level[to] == level[node].map(|level| level + 1) {
                        path.push(edge);
                        node = to;
                    } else {
                        next[node] += 1;
                    }
                }
                // A dead end: one step back, and never again into it.
                None => {
                    let Some(edge) = path.pop() else { return 0 };
                    node = self.edges[edge ^ 1].to;
                    next[node] += 1;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_cut_is_found() {
        // Two ways from 0 to 3 with a narrow edge each, and a bridge between them.
        let mut network = Network::new(4);
        for (from, to, capacity) in [(0, 1, 10), (0, 2, 1), (1, 2, 5), (1, 3, 3), (2, 3, 10)] {
            network.add(from, to, capacity);
        }
        // 0 and 1 are cut off by 1 + 5 + 3 = 9, less than any other way.
        assert_eq!(network.cut(0, 3), [true, true, false, false]);
    }
}
