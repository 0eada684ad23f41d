//! An expression as plain data: what is computed for each element, in the order of computing.

use std::fmt;

use polaris_core::DType;

use super::schedule::Schedule;
use crate::{Array, Function};

/// The most input arrays an expression may have.
pub const MAX_INPUTS: usize = 8;

/// The most numbers an expression may be given when it runs: each is an argument of the kernel.
pub const MAX_SCALARS: usize = 16;

/// The most nodes an expression may have.
pub const MAX_NODES: usize = 128;

/// One value of an expression. Values have one type, `f32` or `f64`; a bool is 1 or 0 of it, and whatever is not 0
/// counts as true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Node {
    /// The element of an input array.
    Input(usize),
    /// One of the numbers that are given when the expression runs.
    Scalar(usize),
    /// A number that is part of the expression, as the bits of an `f64`.
    Constant(u64),
    /// A function of earlier nodes. Arguments beyond those that it takes repeat the first one.
    Apply(Function, [usize; 3]),
}

impl Node {
    /// The nodes that it is computed from.
    pub fn arguments(&self) -> &[usize] {
        match self {
            Self::Apply(function, arguments) => &arguments[..function.arity()],
            _ => &[],
        }
    }
}

/// A function of up to [`MAX_INPUTS`] arrays, element by element, that one kernel computes. Made by
/// a [`Builder`](super::Builder).
///
/// Two expressions of the same structure share their programs on a device, whatever their scalars
/// are; constants are part of the structure.
#[derive(Clone, PartialEq)]
pub struct Expression {
    inputs: usize,
    scalars: Vec<f64>,
    /// Each after its arguments, the result last, none without use.
    nodes: Vec<Node>,
    schedule: Schedule,
    fingerprint: Fingerprint,
}

impl Expression {
    /// `nodes` are in order, and the last one depends on all others.
    pub(super) fn new(inputs: usize, scalars: Vec<f64>, nodes: Vec<Node>) -> Self {
        let schedule = Schedule::new(&nodes);
        let fingerprint = Fingerprint::of(inputs, scalars.len(), &nodes);
        Self { inputs, scalars, nodes, schedule, fingerprint }
    }

    /// How many input arrays it takes.
    pub fn inputs(&self) -> usize {
        self.inputs
    }

    /// Whether the result depends on an input array. One that it does not depend on still takes
    /// part in broadcasting.
    pub fn uses(&self, input: usize) -> bool {
        self.nodes.contains(&Node::Input(input))
    }

    /// Its nodes, each after its arguments. The last one is the result.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The numbers that are given when it runs, in the order in which they were made.
    pub fn scalars(&self) -> &[f64] {
        &self.scalars
    }

    /// The same, to be changed between runs, which costs nothing.
    pub fn scalars_mut(&mut self) -> &mut [f64] {
        &mut self.scalars
    }

    /// The type of the result by itself: `bool` for a comparison, otherwise that of the first input
    /// that is not `bool`, and `f32` if all are.
    pub fn output_dtype(&self, inputs: &[&Array]) -> DType {
        if matches!(self.result(), Node::Apply(function, _) if function.is_predicate()) {
            return DType::Bool;
        }
        let number = inputs.iter().map(|input| input.dtype()).find(|&dtype| dtype != DType::Bool);
        number.unwrap_or(DType::F32)
    }

    pub(super) fn result(&self) -> Node {
        *self.nodes.last().expect("an expression should have a node")
    }

    pub(super) fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    pub(super) fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |at: usize| match self.nodes[at] {
            Node::Input(index) => format!("x{index}"),
            Node::Scalar(index) => format!("{}", self.scalars[index]),
            Node::Constant(bits) => format!("{}", f64::from_bits(bits)),
            Node::Apply(..) => format!("v{at}"),
        };
        let last = self.nodes.len() - 1;
        for (at, node) in self.nodes.iter().enumerate() {
            match node {
                Node::Apply(function, _) => {
                    let arguments: Vec<String> =
                        node.arguments().iter().map(|&n| name(n)).collect();
                    let end = if at == last { "" } else { "; " };
                    write!(f, "v{at} = {}({}){end}", function.name(), arguments.join(", "))?;
                }
                _ if at == last => f.write_str(&name(at))?,
                _ => {}
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Stands for a structure in kernel keys and names: 64 bits by FNV-1a, the same on every machine.
/// That two of a million structures meet has a chance of one in thirty million.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(pub u64);

impl Fingerprint {
    fn of(inputs: usize, scalars: usize, nodes: &[Node]) -> Self {
        let start = Self(0xcbf2_9ce4_8422_2325).with(inputs as u64).with(scalars as u64);
        nodes.iter().fold(start, |sum, node| match *node {
            Node::Input(index) => sum.with(0).with(index as u64),
            Node::Scalar(index) => sum.with(1).with(index as u64),
            Node::Constant(bits) => sum.with(2).with(bits),
            // By name: numbers of functions may change when one is added.
            Node::Apply(function, arguments) => {
                let named = function.name().bytes().fold(sum.with(3), Self::with_byte);
                arguments[..function.arity()].iter().fold(named, |sum, &at| sum.with(at as u64))
            }
        })
    }

    /// With one more number.
    pub fn with(self, number: u64) -> Self {
        number.to_le_bytes().into_iter().fold(self, Self::with_byte)
    }

    fn with_byte(self, byte: u8) -> Self {
        Self((self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
    }
}
