//! Local search from the smallest total to the earliest finish: tasks and branches change sides as long as that
//! helps.

use super::{Problem, schedule};
use crate::side::Side;

/// Placements that are looked at, by the number of tasks: some tenths of a second.
const WORK: usize = 2_000_000;

/// Moves tasks to the other side, alone, with a neighbour or as a whole branch, as long as all is done
/// sooner. Begins with the sides given, and with everything on one side.
pub fn improve(problem: &Problem, sides: Vec<Side>) -> Vec<Side> {
    let moves = moves(problem);
    let mut left = (WORK / problem.tasks.len().max(1)).clamp(400, 20_000);
    let starts = [sides, problem.all_on(Side::Gpu), problem.all_on(Side::Cpu)];
    let mut best: Option<(f64, Vec<Side>)> = None;
    for sides in starts {
        let found = descend(problem, sides, &moves, &mut left);
        if best.as_ref().is_none_or(|(seconds, _)| found.0 < *seconds) {
            best = Some(found);
        }
    }
    best.map_or_else(Vec::new, |(_, sides)| sides)
}

fn descend(
    problem: &Problem,
    mut sides: Vec<Side>,
    moves: &[Vec<usize>],
    left: &mut usize,
) -> (f64, Vec<Side>) {
    let mut seconds = schedule::makespan(problem, &sides);
    // Moves that did not help since the last one that did.
    let mut without = 0;
    for moved in moves.iter().cycle() {
        if without >= moves.len() || *left == 0 {
            break;
        }
        without += 1;
        for to in Side::ALL {
            let possible = |&task: &usize| problem.tasks[task].seconds[to.index()].is_some();
            let changes = moved.iter().any(|&task| sides[task] != to);
            if !changes || !moved.iter().all(possible) {
                continue;
            }
            *left = left.saturating_sub(1);
            let before: Vec<Side> = moved.iter().map(|&task| sides[task]).collect();
            moved.iter().for_each(|&task| sides[task] = to);
            let found = schedule::makespan(problem, &sides);
            if found < seconds * (1.0 - 1e-9) {
                (seconds, without) = (found, 0);
            } else {
                moved.iter().zip(before).for_each(|(&task, side)| sides[task] = side);
            }
        }
    }
    (seconds, sides)
}

/// Sets of tasks that change sides together: branches, pairs of neighbours, single tasks.
fn moves(problem: &Problem) -> Vec<Vec<usize>> {
    let tasks = problem.tasks.len();
    let (mut before, mut after) = (vec![Vec::new(); tasks], vec![Vec::new(); tasks]);
    for value in &problem.values {
        let Some(producer) = value.producer else { continue };
        for &consumer in &value.consumers {
            if !after[producer].contains(&consumer) {
                after[producer].push(consumer);
                before[consumer].push(producer);
            }
        }
    }
    let continues = |task: usize| match after[task][..] {
        [next] if before[next].len() == 1 => Some(next),
        _ => None,
    };
    let mut moves: Vec<Vec<usize>> = Vec::new();
    for (first, producers) in before.iter().enumerate() {
        let inside = matches!(producers[..], [only] if continues(only) == Some(first));
        if !inside {
            let branch: Vec<usize> =
                std::iter::successors(Some(first), |&at| continues(at)).collect();
            // Ends of a long branch may stay where they are.
            for part in [&branch[..], &branch[branch.len() / 2..], &branch[..branch.len() / 2]] {
                if part.len() > 2 {
                    moves.push(part.to_vec());
                }
            }
        }
    }
    let pairs = (0..tasks).flat_map(|task| after[task].iter().map(move |&next| vec![task, next]));
    moves.extend(pairs);
    // Two that read the same, or are read by the same.
    for list in before.iter().chain(&after).filter(|list| list.len() > 1) {
        moves.extend(list.windows(2).map(<[usize]>::to_vec));
    }
    moves.extend((0..tasks).map(|task| vec![task]));
    moves
}

#[cfg(test)]
mod tests {
    use super::super::tests::Dice;
    use super::super::{Link, Task, Value, brute, place};
    use super::*;

    #[test]
    fn small_graphs_end_about_as_soon_as_by_trying_everything() {
        let mut dice = Dice(4);
        let (mut sum, mut worst, rounds) = (0.0, 0.0f64, 120);
        for round in 0..rounds {
            let problem = dice.graph(3 + round % 8, true);
            let found = place(&problem).seconds;
            let (_, best) = brute::least(&problem, |sides| problem.seconds(sides));
            assert!(found >= best - 1e-12);
            sum += found / best;
            worst = worst.max(found / best);
        }
        let mean = sum / rounds as f64;
        assert!(mean <= 1.05, "{mean} on average, {worst} at worst");
    }

    #[test]
    fn branches_run_side_by_side() {
        let task = Task { seconds: [Some(1.0), Some(1.0)] };
        let value = |producer: Option<usize>, consumers: &[usize], wanted| Value {
            producer,
            consumers: consumers.to_vec(),
            bytes: 0,
            wanted,
        };
        // Two branches of three tasks from one input, joined in the end.
        let problem = Problem {
            tasks: vec![task; 7],
            values: vec![
                value(None, &[0, 3], false),
                value(Some(0), &[1], false),
                value(Some(1), &[2], false),
                value(Some(2), &[6], false),
                value(Some(3), &[4], false),
                value(Some(4), &[5], false),
                value(Some(5), &[6], false),
                value(Some(6), &[], true),
            ],
            links: [Link { latency: 0.1, bytes_per_second: 1e9 }; 2],
            launch: 0.0,
            overlap: true,
        };
        let placed = place(&problem);
        assert!((placed.seconds - 4.2).abs() < 1e-9, "{placed:?}");
        let alone = place(&Problem { overlap: false, ..problem });
        assert_eq!((alone.seconds, alone.sides), (7.0, vec![Side::Cpu; 7]));
    }
}
