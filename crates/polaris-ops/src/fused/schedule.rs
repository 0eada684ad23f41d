//! The order in which the CPU computes an expression, and the registers of intermediate results.

use super::expression::Node;
use crate::Function;

/// Where an argument of a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// An input array.
    Input(usize),
    /// A number, by its place among [`Schedule::numbers`].
    Number(usize),
    /// A register: a block of results.
    Register(usize),
}

/// One function on a block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// None for a copy.
    pub function: Option<Function>,
    /// Those that the function takes, and others that are ignored.
    pub arguments: [Place; 3],
    /// The register of the result, which is none of its arguments'.
    pub target: usize,
}

/// The steps of an expression. The last one computes the result.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    pub steps: Vec<Step>,
    /// Scalars and constants.
    pub numbers: Vec<Node>,
    /// The input arrays that are used.
    pub inputs: Vec<usize>,
    pub registers: usize,
}

impl Schedule {
    /// A register is free for another result after the last step that reads it.
    pub fn new(nodes: &[Node]) -> Self {
        let mut last_use = vec![0; nodes.len()];
        for (at, node) in nodes.iter().enumerate() {
            node.arguments().iter().for_each(|&argument| last_use[argument] = at);
        }
        let mut schedule =
            Self { steps: Vec::new(), numbers: Vec::new(), inputs: Vec::new(), registers: 0 };
        let mut places: Vec<Place> = Vec::with_capacity(nodes.len());
        let mut free = Vec::new();
        for (at, node) in nodes.iter().enumerate() {
            places.push(match *node {
                Node::Input(index) => {
                    schedule.inputs.push(index);
                    Place::Input(index)
                }
                Node::Scalar(_) | Node::Constant(_) => {
                    schedule.numbers.push(*node);
                    Place::Number(schedule.numbers.len() - 1)
                }
                Node::Apply(function, arguments) => {
                    let target = schedule.register(&mut free);
                    let arguments = arguments.map(|argument| places[argument]);
                    schedule.steps.push(Step { function: Some(function), arguments, target });
                    let mut done: Vec<usize> = node.arguments().to_vec();
                    done.sort_unstable();
                    done.dedup();
                    free.extend(done.into_iter().filter_map(|argument| match places[argument] {
                        Place::Register(register) if last_use[argument] == at => Some(register),
                        _ => None,
                    }));
                    Place::Register(target)
                }
            });
        }
        if schedule.steps.is_empty() {
            let target = schedule.register(&mut free);
            let result = *places.last().expect("an expression should have a node");
            schedule.steps.push(Step { function: None, arguments: [result; 3], target });
        }
        schedule
    }

    fn register(&mut self, free: &mut Vec<usize>) -> usize {
        free.pop().unwrap_or_else(|| {
            self.registers += 1;
            self.registers - 1
        })
    }
}
