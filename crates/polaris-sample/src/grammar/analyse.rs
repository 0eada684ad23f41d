//! What a network's nodes can reach: which match the empty text, which match any text, and left recursion.

use super::compile::{Network, Node, RETURN};

impl Network {
    /// For each node, whether the end of its rule can be reached: at all, or without a byte.
    pub(super) fn reaches_end(&self, with_bytes: bool) -> Vec<bool> {
        let before = self.predecessors(with_bytes);
        let mut reaches = vec![false; self.nodes.len()];
        reaches[RETURN as usize] = true;
        let mut todo = vec![RETURN];
        while let Some(node) = todo.pop() {
            for &earlier in before.of(node) {
                if reaches[earlier as usize] {
                    continue;
                }
                // Both the rule and what follows it must reach an end; whichever is later comes here.
                let reached = match self.nodes[earlier as usize] {
                    Node::Call { rule, next } => {
                        reaches[next as usize] && reaches[self.starts[rule as usize] as usize]
                    }
                    _ => true,
                };
                if reached {
                    reaches[earlier as usize] = true;
                    todo.push(earlier);
                }
            }
        }
        reaches
    }

    /// A rule that can begin with itself.
    pub(super) fn left_recursive(&self, matches_empty: &[bool]) -> Option<usize> {
        let calls = self.left_calls(matches_empty);
        // A depth-first search: a call of a rule that is still open closes a cycle.
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            New,
            Open,
            Done,
        }
        let mut marks = vec![Mark::New; calls.len()];
        for rule in 0..calls.len() {
            if marks[rule] != Mark::New {
                continue;
            }
            marks[rule] = Mark::Open;
            let mut open = vec![(rule, 0)];
            while let Some((rule, position)) = open.last_mut() {
                let Some(&called) = calls[*rule].get(*position) else {
                    marks[*rule] = Mark::Done;
                    open.pop();
                    continue;
                };
                *position += 1;
                match marks[called] {
                    Mark::Open => return Some(called),
                    Mark::New => {
                        marks[called] = Mark::Open;
                        open.push((called, 0));
                    }
                    Mark::Done => {}
                }
            }
        }
        None
    }

    /// For each rule, those that it can call before any byte.
    fn left_calls(&self, matches_empty: &[bool]) -> Vec<Vec<usize>> {
        let mut seen = vec![false; self.nodes.len()];
        let mut calls = vec![Vec::new(); self.starts.len()];
        for (rule, &start) in self.starts.iter().enumerate() {
            let mut todo = vec![start];
            while let Some(node) = todo.pop() {
                // Every rule may end here, so this node is not marked.
                if node == RETURN || std::mem::replace(&mut seen[node as usize], true) {
                    continue;
                }
                match self.nodes[node as usize] {
                    Node::Choice { start, end } => {
                        todo.extend(&self.targets[start as usize..end as usize]);
                    }
                    Node::Call { rule: called, next } => {
                        calls[rule].push(called as usize);
                        if matches_empty[self.starts[called as usize] as usize] {
                            todo.push(next);
                        }
                    }
                    Node::Return | Node::Arcs { .. } => {}
                }
            }
        }
        calls
    }

    fn predecessors(&self, with_bytes: bool) -> Lists {
        let mut edges = Vec::new();
        for (from, node) in self.nodes.iter().enumerate() {
            let from = from as u32;
            match *node {
                Node::Return => {}
                Node::Arcs { start, end } => {
                    if with_bytes {
                        let arcs = &self.arcs[start as usize..end as usize];
                        edges.extend(arcs.iter().map(|arc| (arc.next, from)));
                    }
                }
                Node::Choice { start, end } => {
                    let targets = &self.targets[start as usize..end as usize];
                    edges.extend(targets.iter().map(|&to| (to, from)));
                }
                Node::Call { rule, next } => {
                    edges.push((next, from));
                    edges.push((self.starts[rule as usize], from));
                }
            }
        }
        Lists::new(self.nodes.len(), &edges)
    }
}

/// A list for each node, in one piece of memory.
struct Lists {
    ends: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    fn new(count: usize, edges: &[(u32, u32)]) -> Self {
        let mut ends = vec![0; count + 1];
        for &(to, _) in edges {
            ends[to as usize + 1] += 1;
        }
        for node in 0..count {
            ends[node + 1] += ends[node];
        }
        let mut filled = ends.clone();
        let mut items = vec![0; edges.len()];
        for &(to, from) in edges {
            let place = &mut filled[to as usize];
            items[*place as usize] = from;
            *place += 1;
        }
        Self { ends, items }
    }

    fn of(&self, node: u32) -> &[u32] {
        &self.items[self.ends[node as usize] as usize..self.ends[node as usize + 1] as usize]
    }
}
