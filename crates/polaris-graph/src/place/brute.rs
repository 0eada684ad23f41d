//! Brute force over all placements, to test the other algorithms.

use super::Problem;
use crate::side::Side;

/// The sides with the least value.
pub fn least(problem: &Problem, value: impl Fn(&[Side]) -> f64) -> (Vec<Side>, f64) {
    let tasks = problem.tasks.len();
    assert!(tasks <= 16, "trying everything should be bearable");
    let mut best = (Vec::new(), f64::INFINITY);
    for bits in 0..1u32 << tasks {
        let sides: Vec<Side> =
            (0..tasks).map(|task| Side::ALL[(bits >> task & 1) as usize]).collect();
        let found = value(&sides);
        if found < best.1 {
            best = (sides, found);
        }
    }
    best
}
