//! Optimal placement of any graph if one side works at a time: a cost for each task on each side, and a cost for each
//! value that crosses. That is a minimum cut between the CPU and the device.

use super::Problem;
use super::flow::{Network, UNBOUNDED};
use crate::side::Side;

/// The sides with the least sum of tasks and copies.
///
/// A task on the CPU is with the source. Each value has two nodes beside its tasks: one that is with the
/// source if the value is needed on the CPU, and one that is with the sink if it is needed on the device.
/// The edge between that node and the producer is the copy, and it is cut once, however many read it.
pub fn place(problem: &Problem) -> Vec<Side> {
    let tasks = problem.tasks.len();
    let (source, sink) = (tasks, tasks + 1);
    let mut network = Network::new(tasks + 2 + 2 * problem.values.len());
    for (node, task) in problem.tasks.iter().enumerate() {
        let [cpu, gpu] = task.seconds.map(capacity);
        network.add(source, node, gpu);
        network.add(node, sink, cpu);
    }
    for (index, value) in problem.values.iter().enumerate() {
        let (on_cpu, on_gpu) = (tasks + 2 + 2 * index, tasks + 3 + 2 * index);
        let producer = value.producer.unwrap_or(source);
        let price = |side: Side| capacity(Some(problem.copy_seconds(value, side)));
        if value.producer.is_some() {
            network.add(on_cpu, producer, price(Side::Cpu));
        }
        network.add(producer, on_gpu, price(Side::Gpu));
        for &consumer in &value.consumers {
            network.add(consumer, on_cpu, UNBOUNDED);
            network.add(on_gpu, consumer, UNBOUNDED);
        }
        if value.wanted {
            network.add(source, on_cpu, UNBOUNDED);
        }
    }
    let with_source = network.cut(source, sink);
    let side = |node: usize| if with_source[node] { Side::Cpu } else { Side::Gpu };
    (0..tasks).map(side).collect()
}

/// Whole picoseconds: a day of them fits, and sums do not depend on their order.
fn capacity(seconds: Option<f64>) -> u64 {
    match seconds {
        Some(seconds) => ((seconds.max(0.0) * 1e12) as u64).min(UNBOUNDED / 1024),
        None => UNBOUNDED,
    }
}

#[cfg(test)]
mod tests {
    use super::super::brute;
    use super::super::tests::Dice;
    use super::*;

    #[test]
    fn graphs_are_placed_as_by_trying_everything() {
        let mut dice = Dice(2);
        for round in 0..200 {
            let problem = dice.graph(1 + round % 10, false);
            let (_, best) = brute::least(&problem, |sides| problem.serial_seconds(sides));
            let found = problem.serial_seconds(&place(&problem));
            assert!((found - best).abs() <= 1e-9, "{found} instead of {best}: {problem:?}");
        }
    }
}
