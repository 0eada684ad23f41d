//! The finishing time if the CPU and the device work at the same time, and an order of the tasks.
//!
//! What is simulated is what the executor does. One thread walks a list: it computes the CPU's jobs itself,
//! hands the device's to a queue, copies what goes to the device into memory from which the queue fetches
//! it, and waits for what comes back. The queue runs in order, copies included, so that what comes back
//! waits for all that was put in before.

use super::Problem;
use crate::side::Side;

/// What a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Computed on this side.
    Compute(Side),
    /// Copied to this side.
    Copy(Side),
}

/// A task or a copy.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// What it is.
    pub kind: Kind,
    /// How long it takes.
    pub seconds: f64,
    /// What it costs the CPU to hand it to the device.
    pub launch: f64,
    /// Jobs that must be there before.
    pub after: Vec<usize>,
}

/// How far the CPU's thread and the device's queue are.
#[derive(Debug, Clone, Copy, Default)]
struct Clocks {
    host: f64,
    device: f64,
}

impl Clocks {
    /// Does a job; what it waits for is in order before it.
    fn run(&mut self, job: &Job) {
        match job.kind {
            Kind::Compute(Side::Cpu) => self.host += job.seconds,
            Kind::Compute(Side::Gpu) => {
                self.host += job.launch;
                self.device = self.device.max(self.host) + job.seconds;
            }
            // The thread fills pinned memory while the queue may still be busy.
            Kind::Copy(Side::Gpu) => {
                self.host += job.seconds;
                self.device = self.host.max(self.device + job.seconds);
            }
            Kind::Copy(Side::Cpu) => {
                self.host = self.host.max(self.device) + job.seconds;
                self.device = self.host;
            }
        }
    }

    fn end(&self) -> f64 {
        self.host.max(self.device)
    }
}

/// When all jobs are done, in this order.
pub fn simulate(jobs: &[Job], order: &[usize], overlap: bool) -> f64 {
    if !overlap {
        return order.iter().map(|&job| jobs[job].seconds).sum();
    }
    let mut clocks = Clocks::default();
    order.iter().for_each(|&job| clocks.run(&jobs[job]));
    clocks.end()
}

/// Which of the jobs that are ready comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    /// Whatever keeps the device busy, then the CPU, and what comes back last: it makes the CPU wait.
    DeviceFirst,
    /// What comes back first, before the device gets more to do, then as above.
    BackFirst,
    /// The longest way to the end.
    LongestWay,
}

/// An order in which the CPU and the device overlap: the best of several lists.
pub fn order(jobs: &[Job]) -> Vec<usize> {
    let ways = longest_ways(jobs);
    let lists = [Policy::DeviceFirst, Policy::BackFirst, Policy::LongestWay]
        .map(|policy| list(jobs, &ways, policy));
    let given: Vec<usize> = (0..jobs.len()).collect();
    let mut best = (simulate(jobs, &given, true), given);
    for order in lists {
        let seconds = simulate(jobs, &order, true);
        // The order of the graph stands where nothing is gained: memory is used again soon.
        if seconds < best.0 * (1.0 - 1e-9) {
            best = (seconds, order);
        }
    }
    best.1
}

/// From the beginning of each job to the end of all that waits for it.
fn longest_ways(jobs: &[Job]) -> Vec<f64> {
    let mut ways: Vec<f64> = jobs.iter().map(|job| job.seconds).collect();
    for at in (0..jobs.len()).rev() {
        for &before in &jobs[at].after {
            ways[before] = ways[before].max(jobs[before].seconds + ways[at]);
        }
    }
    ways
}

fn list(jobs: &[Job], ways: &[f64], policy: Policy) -> Vec<usize> {
    let mut waiting: Vec<usize> = jobs.iter().map(|job| job.after.len()).collect();
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); jobs.len()];
    for (at, job) in jobs.iter().enumerate() {
        job.after.iter().for_each(|&before| followers[before].push(at));
    }
    let mut ready: Vec<usize> = (0..jobs.len()).filter(|&job| waiting[job] == 0).collect();
    let mut clocks = Clocks::default();
    let mut order = Vec::with_capacity(jobs.len());
    while !ready.is_empty() {
        // Lower is sooner. What comes back makes nobody wait once the device is through.
        let rank = |job: usize| match (policy, jobs[job].kind) {
            (Policy::LongestWay, _) => 0,
            (Policy::BackFirst, Kind::Copy(Side::Cpu)) => 0,
            (_, Kind::Compute(Side::Gpu) | Kind::Copy(Side::Gpu)) => 1,
            (_, Kind::Copy(Side::Cpu)) if clocks.device <= clocks.host => 2,
            (_, Kind::Compute(Side::Cpu)) => 2,
            (_, Kind::Copy(Side::Cpu)) => 3,
        };
        let sooner = |a: usize, b: usize| {
            let ranks = rank(a).cmp(&rank(b));
            ranks.then(ways[b].total_cmp(&ways[a])).then(a.cmp(&b))
        };
        let (at, &job) = (ready.iter().enumerate())
            .min_by(|(_, a), (_, b)| sooner(**a, **b))
            .expect("something should be ready");
        ready.swap_remove(at);
        clocks.run(&jobs[job]);
        order.push(job);
        for &follower in &followers[job] {
            waiting[follower] -= 1;
            if waiting[follower] == 0 {
                ready.push(follower);
            }
        }
    }
    order
}

/// When all tasks of a placement are done, in the best order that is found; infinite where one cannot run.
pub fn makespan(problem: &Problem, sides: &[Side]) -> f64 {
    match jobs_of(problem, sides) {
        Some(jobs) => simulate(&jobs, &order(&jobs), true),
        None => f64::INFINITY,
    }
}

/// Tasks and copies of a placement.
pub fn jobs_of(problem: &Problem, sides: &[Side]) -> Option<Vec<Job>> {
    // A copy stands before the first task that may read it, so that jobs are in order.
    let mut jobs: Vec<Job> = Vec::with_capacity(2 * problem.tasks.len());
    let mut made_by: Vec<Vec<usize>> = vec![Vec::new(); problem.tasks.len()];
    let mut given: Vec<usize> = Vec::new();
    let mut needs: Vec<Vec<usize>> = vec![Vec::new(); problem.tasks.len()];
    for (index, value) in problem.values.iter().enumerate() {
        match value.producer {
            Some(producer) => made_by[producer].push(index),
            None => given.push(index),
        }
    }
    let copy =
        |index: usize, producer: Option<usize>, jobs: &mut Vec<Job>| -> Vec<(usize, usize)> {
            let value = &problem.values[index];
            let home = value.producer.map_or(Side::Cpu, |task| sides[task]);
            let copied = problem.copied_to(value, sides).map(|to| {
                let seconds = problem.copy_seconds(value, to);
                let after = producer.into_iter().collect();
                jobs.push(Job { kind: Kind::Copy(to), seconds, launch: 0.0, after });
                jobs.len() - 1
            });
            let source = |task: usize| if sides[task] == home { producer } else { copied };
            value.consumers.iter().filter_map(|&task| Some((task, source(task)?))).collect()
        };
    for index in given {
        for (task, job) in copy(index, None, &mut jobs) {
            needs[task].push(job);
        }
    }
    for (at, task) in problem.tasks.iter().enumerate() {
        let side = sides[at];
        let seconds = task.seconds[side.index()]?;
        let launch = if side == Side::Gpu { problem.launch.min(seconds) } else { 0.0 };
        let mut after = std::mem::take(&mut needs[at]);
        after.sort_unstable();
        after.dedup();
        jobs.push(Job { kind: Kind::Compute(side), seconds, launch, after });
        let own = jobs.len() - 1;
        for &index in &made_by[at] {
            for (task, job) in copy(index, Some(own), &mut jobs) {
                needs[task].push(job);
            }
        }
    }
    Some(jobs)
}

#[cfg(test)]
mod tests {
    use super::super::tests::Dice;
    use super::*;

    fn job(kind: Kind, seconds: f64, after: &[usize]) -> Job {
        Job { kind, seconds, launch: 0.0, after: after.to_vec() }
    }

    #[test]
    fn independent_work_overlaps_and_what_comes_back_waits() {
        use Kind::{Compute, Copy};
        let jobs = [
            job(Compute(Side::Gpu), 5.0, &[]),
            job(Copy(Side::Cpu), 1.0, &[0]),
            job(Compute(Side::Cpu), 4.0, &[]),
            job(Compute(Side::Cpu), 1.0, &[1, 2]),
        ];
        // As they stand, the CPU waits for the device before it begins: 5 + 1 + 4 + 1.
        assert_eq!(simulate(&jobs, &[0, 1, 2, 3], true), 11.0);
        assert_eq!(simulate(&jobs, &[0, 2, 1, 3], true), 7.0);
        assert_eq!(order(&jobs), [0, 2, 1, 3]);
        assert_eq!(simulate(&jobs, &[0, 2, 1, 3], false), 11.0, "one side at a time");
    }

    #[test]
    fn what_comes_back_is_fetched_before_the_queue_is_filled() {
        use Kind::{Compute, Copy};
        let jobs = [
            job(Compute(Side::Gpu), 1.0, &[]),
            job(Compute(Side::Gpu), 6.0, &[0]),
            job(Copy(Side::Cpu), 1.0, &[0]),
            job(Compute(Side::Cpu), 5.0, &[2]),
        ];
        assert_eq!(simulate(&jobs, &order(&jobs), true), 8.0);
    }

    #[test]
    fn orders_hold_every_job_once_and_after_what_it_needs() {
        let mut dice = Dice(8);
        for _ in 0..100 {
            let problem = dice.graph(15, true);
            let sides = super::super::cut::place(&problem);
            let jobs = jobs_of(&problem, &sides).unwrap();
            let order = order(&jobs);
            let mut place = vec![usize::MAX; jobs.len()];
            order.iter().enumerate().for_each(|(at, &job)| place[job] = at);
            assert!(place.iter().all(|&at| at != usize::MAX) && order.len() == jobs.len());
            for (at, job) in jobs.iter().enumerate() {
                assert!(job.after.iter().all(|&before| place[before] < place[at]));
            }
            // Overlapping can only be shorter than one after another, and not than either side's work.
            let together = simulate(&jobs, &order, true);
            assert!(together <= problem.serial_seconds(&sides) + problem.launch * 15.0);
            for side in Side::ALL {
                let own = jobs.iter().filter(|job| job.kind == Kind::Compute(side));
                assert!(together >= own.map(|job| job.seconds).sum::<f64>() - 1e-12);
            }
        }
    }
}
