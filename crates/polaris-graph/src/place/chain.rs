//! Optimal placement of a chain, in which each task reads the result of the one before it.

use super::{Problem, Value};
use crate::side::Side;

/// The sides with the least sum of tasks and copies; `None` if the tasks are no chain.
pub fn place(problem: &Problem) -> Option<Vec<Side>> {
    let (given, made) = links(problem)?;
    let tasks = problem.tasks.len();
    // The least sum up to each task on each side, and the side before it.
    let mut least: Vec<[(f64, Side); 2]> = Vec::with_capacity(tasks);
    for (at, task) in problem.tasks.iter().enumerate() {
        least.push(Side::ALL.map(|side| {
            let uploads: f64 = match side {
                Side::Cpu => 0.0,
                Side::Gpu => given[at].iter().map(|value| problem.copy_seconds(value, side)).sum(),
            };
            let own = task.seconds[side.index()].unwrap_or(f64::INFINITY) + uploads;
            let Some(before) = at.checked_sub(1) else { return (own, side) };
            let from = |origin: Side| {
                let crossing: f64 =
                    made[before].iter().map(|value| crossing(problem, value, origin, side)).sum();
                (least[before][origin.index()].0 + crossing + own, origin)
            };
            let (stay, cross) = (from(side), from(side.other()));
            if cross.0 < stay.0 { cross } else { stay }
        }));
    }
    let Some(last) = tasks.checked_sub(1) else { return Some(Vec::new()) };
    let end = |side: Side| {
        let downloads: f64 =
            made[last].iter().map(|value| crossing(problem, value, side, side)).sum();
        least[last][side.index()].0 + downloads
    };
    let mut side = if end(Side::Gpu) < end(Side::Cpu) { Side::Gpu } else { Side::Cpu };
    let mut sides = vec![side; tasks];
    for at in (1..tasks).rev() {
        side = least[at][side.index()].1;
        sides[at - 1] = side;
    }
    Some(sides)
}

/// What a value costs between its producer and its reader. On the device and wanted on the CPU, it is
/// copied whoever reads it, and then lies on both.
fn crossing(problem: &Problem, value: &Value, from: Side, to: Side) -> f64 {
    let kept = value.wanted && from == Side::Gpu;
    let read = from != to && !value.consumers.is_empty();
    if kept || read { problem.copy_seconds(value, from.other()) } else { 0.0 }
}

type Lists<'a> = Vec<Vec<&'a Value>>;

/// What is given to each task, and what each makes; `None` if something skips a task or is read twice.
fn links(problem: &Problem) -> Option<(Lists<'_>, Lists<'_>)> {
    let tasks = problem.tasks.len();
    let (mut given, mut made): (Lists<'_>, Lists<'_>) =
        (vec![Vec::new(); tasks], vec![Vec::new(); tasks]);
    for value in &problem.values {
        match (value.producer, &value.consumers[..]) {
            (None, []) => {}
            (None, [consumer]) => given[*consumer].push(value),
            (Some(producer), []) => made[producer].push(value),
            (Some(producer), [consumer]) if *consumer == producer + 1 => made[producer].push(value),
            _ => return None,
        }
    }
    Some((given, made))
}

#[cfg(test)]
mod tests {
    use super::super::brute;
    use super::super::tests::Dice;
    use super::*;

    #[test]
    fn chains_are_placed_as_by_trying_everything() {
        let mut dice = Dice(1);
        for round in 0..240 {
            let problem = dice.chain(1 + round % 12);
            let sides = place(&problem).expect("a chain should be a chain");
            let (_, best) = brute::least(&problem, |sides| problem.serial_seconds(sides));
            let found = problem.serial_seconds(&sides);
            assert!((found - best).abs() <= 1e-12, "{found} instead of {best}: {problem:?}");
        }
    }

    #[test]
    fn a_branch_is_no_chain() {
        let mut problem = Dice(3).chain(4);
        assert!(place(&problem).is_some());
        problem.values[1].consumers.push(3);
        assert!(place(&problem).is_none());
    }
}
