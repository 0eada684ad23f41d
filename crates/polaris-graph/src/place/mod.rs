//! Placement: assigns tasks to two sides, from plain numbers. Nothing here knows a device.
//!
//! A [`Problem`] is a list of tasks with a time on either side, and of values that travel between them. A
//! value that is needed on the other side is copied there once, however many tasks read it.
//!
//! - If only one side works at a time, the total is the sum of all tasks and copies. For a chain the least
//!   sum is found by dynamic programming ([`chain`]), for any other graph by a minimum cut ([`cut`]): both
//!   exactly.
//! - If both sides work at once, what counts is when the last one is done ([`schedule`]). From the least
//!   sum, tasks and branches are moved as long as that becomes shorter ([`search`]).

#[cfg(test)]
mod brute;
pub mod chain;
pub mod cut;
mod flow;
pub mod schedule;
pub mod search;

pub use crate::cost::Link;
use crate::side::Side;

/// Something to compute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Task {
    /// How long it takes on the CPU and on the device; `None` where it cannot run there.
    pub seconds: [Option<f64>; 2],
}

/// What a task makes for others.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    /// Who makes it; `None` for what is given, which lies on the CPU.
    pub producer: Option<usize>,
    /// Who reads it.
    pub consumers: Vec<usize>,
    /// How large it is.
    pub bytes: u64,
    /// Whether it must be on the CPU in the end.
    pub wanted: bool,
}

/// What is to be placed.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// In an order in which they can be computed.
    pub tasks: Vec<Task>,
    /// What lies between them.
    pub values: Vec<Value>,
    /// Copies to the CPU and to the device.
    pub links: [Link; 2],
    /// What it costs the CPU to hand a task to the device.
    pub launch: f64,
    /// Whether both sides can work at the same time. A device that is the CPU under another name cannot.
    pub overlap: bool,
}

/// Where everything is computed.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// One for each task.
    pub sides: Vec<Side>,
    /// When all is done.
    pub seconds: f64,
}

impl Problem {
    /// How long a value takes to a side.
    pub fn copy_seconds(&self, value: &Value, to: Side) -> f64 {
        self.links[to.index()].seconds(value.bytes)
    }

    /// Whether a value must be copied, and where to: it is made on one side and needed on the other.
    pub fn copied_to(&self, value: &Value, sides: &[Side]) -> Option<Side> {
        let made = value.producer.map_or(Side::Cpu, |task| sides[task]);
        let read = value.consumers.iter().any(|&task| sides[task] != made);
        let kept = value.wanted && made == Side::Gpu;
        (read || kept).then(|| made.other())
    }

    /// All tasks and copies, one after another; infinite where a task cannot run.
    pub fn serial_seconds(&self, sides: &[Side]) -> f64 {
        let tasks = self.tasks.iter().zip(sides);
        let computed =
            tasks.map(|(task, side)| task.seconds[side.index()].unwrap_or(f64::INFINITY));
        let copied = self
            .values
            .iter()
            .filter_map(|value| Some(self.copy_seconds(value, self.copied_to(value, sides)?)));
        computed.chain(copied).sum()
    }

    /// When all is done, with what can overlap.
    pub fn seconds(&self, sides: &[Side]) -> f64 {
        match self.overlap {
            true => schedule::makespan(self, sides),
            false => self.serial_seconds(sides),
        }
    }

    /// Everything on one side, as far as it can run there.
    pub fn all_on(&self, side: Side) -> Vec<Side> {
        let possible = |task: &Task| match task.seconds[side.index()] {
            Some(_) => side,
            None => side.other(),
        };
        self.tasks.iter().map(possible).collect()
    }
}

/// The best placement that is found: never worse than all on one side.
pub fn place(problem: &Problem) -> Placement {
    let mut sides = match chain::place(problem) {
        Some(sides) => sides,
        None => cut::place(problem),
    };
    if problem.overlap {
        sides = search::improve(problem, sides);
    }
    let single = Side::ALL.map(|side| problem.all_on(side));
    let mut best = Placement { seconds: problem.seconds(&sides), sides };
    for sides in single {
        let seconds = problem.seconds(&sides);
        if seconds <= best.seconds {
            best = Placement { sides, seconds };
        }
    }
    best
}

#[cfg(test)]
pub(crate) mod tests {
    use polaris_core::random::SplitMix64;

    use super::*;

    /// Random numbers; each is the seed of the next.
    pub struct Dice(pub u64);

    impl Dice {
        pub fn below(&mut self, limit: u64) -> u64 {
            self.0 = SplitMix64::new(self.0).bits();
            self.0 % limit.max(1)
        }

        fn time(&mut self) -> f64 {
            (1 + self.below(100)) as f64 * 1e-5
        }

        pub fn task(&mut self) -> Task {
            let seconds = match self.below(10) {
                0 => [Some(self.time()), None],
                1 => [None, Some(self.time())],
                _ => [Some(self.time()), Some(self.time())],
            };
            Task { seconds }
        }

        pub fn links(&mut self) -> [Link; 2] {
            [(); 2].map(|()| Link {
                latency: self.below(20) as f64 * 1e-5,
                bytes_per_second: 1e9 * (1 + self.below(10)) as f64,
            })
        }

        pub fn chain(&mut self, tasks: usize) -> Problem {
            let mut values: Vec<Value> = (0..tasks)
                .map(|task| Value {
                    producer: task.checked_sub(1),
                    consumers: vec![task],
                    bytes: self.below(1_000_000),
                    wanted: self.below(8) == 0,
                })
                .collect();
            let (producer, bytes) = (tasks.checked_sub(1), self.below(1_000_000));
            values.push(Value { producer, consumers: vec![], bytes, wanted: true });
            let tasks = (0..tasks).map(|_| self.task()).collect();
            Problem { tasks, values, links: self.links(), launch: 1e-6, overlap: false }
        }

        pub fn graph(&mut self, tasks: usize, overlap: bool) -> Problem {
            let mut values = vec![Value {
                producer: None,
                consumers: (0..tasks).filter(|_| self.below(3) == 0).collect(),
                bytes: self.below(1_000_000),
                wanted: false,
            }];
            for producer in 0..tasks {
                let later: Vec<usize> =
                    (producer + 1..tasks).filter(|_| self.below(3) == 0).take(3).collect();
                let wanted = later.is_empty() || self.below(8) == 0;
                let bytes = self.below(1_000_000);
                values.push(Value { producer: Some(producer), consumers: later, bytes, wanted });
            }
            let tasks = (0..tasks).map(|_| self.task()).collect();
            Problem { tasks, values, links: self.links(), launch: 1e-6, overlap }
        }
    }

    #[test]
    fn a_value_that_several_tasks_read_is_copied_once() {
        let task = |cpu: f64, gpu: f64| Task { seconds: [Some(cpu), Some(gpu)] };
        let link = Link { latency: 1.0, bytes_per_second: 1.0 };
        let value = Value { producer: Some(0), consumers: vec![1, 2], bytes: 2, wanted: true };
        let problem = Problem {
            tasks: vec![task(9.0, 1.0), task(1.0, 9.0), task(1.0, 9.0)],
            values: vec![value],
            links: [link; 2],
            launch: 0.0,
            overlap: false,
        };
        let sides = [Side::Gpu, Side::Cpu, Side::Cpu];
        // Three tasks of one second, and one copy of three.
        assert_eq!(problem.serial_seconds(&sides), 6.0);
        assert_eq!(place(&problem), Placement { sides: sides.to_vec(), seconds: 6.0 });
    }

    #[test]
    fn placements_are_never_worse_than_one_side_alone() {
        let mut dice = Dice(11);
        for round in 0..300 {
            let problem = dice.graph(2 + round % 30, round % 2 == 0);
            let placed = place(&problem);
            assert_eq!(placed.seconds, problem.seconds(&placed.sides));
            for side in Side::ALL {
                assert!(placed.seconds <= problem.seconds(&problem.all_on(side)) + 1e-12);
            }
        }
    }

    #[test]
    fn nothing_is_placed_where_it_cannot_run() {
        let mut dice = Dice(5);
        for round in 0..200 {
            let problem = dice.graph(12, round % 2 == 0);
            assert!(place(&problem).seconds.is_finite());
        }
        let none = Problem { tasks: vec![], values: vec![], ..dice.graph(1, true) };
        assert_eq!(place(&none).seconds, 0.0);
    }
}
