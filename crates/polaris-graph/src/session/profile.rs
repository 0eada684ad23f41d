//! Where the time of a run goes, instruction by instruction.

use std::collections::BTreeMap;
use std::time::Instant;

use polaris_onnx::Value;

use super::observe::{Moment, StopWatch, Watched};
use super::{Runner, Session, SessionValue};
use crate::Result;
use crate::cost::{Class, CostModel, Entry, class_of, signature, unix_time, work_of};
use crate::plan::{Side, Step};

/// Runs without watching, for comparison.
const PLAIN_RUNS: usize = 3;

/// Where the time of a run goes.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Profile {
    /// Runs that were watched, after one that warms up.
    pub runs: usize,
    /// The medians of all instructions, added up.
    pub seconds: f64,
    /// The median of a few runs that were not watched: devices are not waited for in between.
    pub run_seconds: f64,
    /// What the cost model expected of all instructions, before it learned from this.
    pub predicted_seconds: f64,
    /// Every instruction, in order.
    pub rows: Vec<ProfileRow>,
}

/// An instruction and its time.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ProfileRow {
    /// The node that it is part of.
    pub node: String,
    /// The node's operator.
    pub operator: String,
    /// What happens.
    pub instruction: String,
    /// Instructions that reach about the same share of a device's speed.
    pub class: Class,
    /// Where.
    pub side: Side,
    /// When it began in the run that was in the middle, from that run's beginning.
    pub start_seconds: f64,
    /// How long it took in that run.
    pub run_seconds: f64,
    /// The median over all runs, with the wait for the device.
    pub seconds: f64,
    /// Additions and multiplications; 0 where they are not known.
    pub flops: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// 10^9 operations a second.
    pub gflops: f64,
    /// 10^9 bytes a second.
    pub gbs: f64,
    /// The least time by the device's measured speed, as a share of what was taken.
    pub roofline_share: Option<f64>,
    /// What the cost model expected.
    pub predicted_seconds: Option<f64>,
}

impl Session {
    /// Runs the model with a time for each instruction: once to warm up, then `runs` times.
    ///
    /// The device is waited for after each of its instructions. Instructions then do not overlap, and
    /// short ones on a device take longer than in an ordinary run. Graphs inside nodes count for the
    /// node. The times go into the cost database. A device that was never measured is measured first.
    ///
    /// # Errors
    /// As for [`Session::run`], but a device that fails is not replaced.
    pub fn profile(&self, inputs: &[(&str, Value)], runs: usize) -> Result<Profile> {
        let inputs: Vec<(&str, SessionValue)> =
            inputs.iter().map(|(name, value)| (*name, value.clone().into())).collect();
        let given = self.check_inputs(&inputs)?;
        let _limits = self.limits(None);
        let runner = self.runner();
        let wanted = &self.graph.outputs;
        runner.run(given.clone(), wanted, false, &mut ())?;
        let mut plain = Vec::new();
        let mut watch = StopWatch::new();
        for round in 0..runs.max(1) {
            if round < PLAIN_RUNS {
                let start = Instant::now();
                runner.run(given.clone(), wanted, false, &mut ())?;
                plain.push(start.elapsed().as_secs_f64());
            }
            runner.run(given.clone(), wanted, false, &mut watch)?;
        }
        self.costs.with(|model| {
            let mut rows = Vec::new();
            let mut measured = Vec::new();
            for watched in &watch.plans {
                add_rows(&runner, watched, model, &mut rows, &mut measured);
            }
            if let Err(error) = model.remember(averaged(measured)) {
                log::warn!("{error}; the times are forgotten with this process");
            }
            Ok(Profile {
                runs: runs.max(1),
                seconds: rows.iter().map(|row| row.seconds).sum(),
                run_seconds: median(plain),
                predicted_seconds: rows.iter().filter_map(|row| row.predicted_seconds).sum(),
                rows,
            })
        })
    }
}

fn add_rows(
    runner: &Runner,
    watched: &Watched,
    model: &CostModel,
    rows: &mut Vec<ProfileRow>,
    measured: &mut Vec<(Side, String, Entry)>,
) {
    let Watched { plan, runs } = watched;
    let graph = &runner.graph;
    // Times in a trace are of one run that really was, the one in the middle.
    let total =
        |run: &Vec<Moment>| run.iter().map(|moment| moment.taken).sum::<std::time::Duration>();
    let mut order: Vec<usize> = (0..runs.len()).collect();
    order.sort_by_key(|&run| total(&runs[run]));
    let Some(middle) = order.get(order.len() / 2).map(|&run| &runs[run]) else { return };
    let begin = middle.first().map_or_else(Default::default, |moment| moment.start);
    let before = rows.last().map_or(0.0, |row: &ProfileRow| row.start_seconds + row.run_seconds);
    for (at, instruction) in plan.instructions.iter().enumerate() {
        let seconds = median(runs.iter().map(|run| run[at].taken.as_secs_f64()).collect());
        let (work, class) = (work_of(instruction), class_of(&instruction.step));
        let owner = CostModel::owner(&instruction.step, instruction.side);
        let costs = model.side(owner);
        let known = matches!(instruction.step, Step::Device { .. });
        let rate = |amount: u64| if seconds > 0.0 { amount as f64 / seconds / 1e9 } else { 0.0 };
        let row = plan.row(graph, at);
        rows.push(ProfileRow {
            node: row.node,
            operator: graph.nodes[instruction.node].operator_name(),
            instruction: row.name,
            class,
            side: instruction.side,
            start_seconds: before + (middle[at].start - begin).as_secs_f64(),
            run_seconds: middle[at].taken.as_secs_f64(),
            seconds,
            flops: work.flops,
            bytes: work.bytes,
            gflops: rate(work.flops),
            gbs: rate(work.bytes),
            roofline_share: costs
                .filter(|_| known && seconds > 0.0)
                .map(|costs| costs.rates.roofline(&work) / seconds),
            predicted_seconds: model.predict(&plan.slots, graph, instruction),
        });
        let wait = costs.filter(|_| known).map_or(0.0, |costs| costs.rates.wait);
        let launch = costs.map_or(0.0, |costs| costs.rates.launch);
        // In an ordinary run nobody waits after each instruction.
        let seconds = (seconds - wait).max(launch.min(seconds));
        let entry = Entry { class, work, seconds, unix_time: unix_time() };
        measured.push((owner, signature(&plan.slots, graph, instruction), entry));
    }
}

/// Instructions of the same signature as one, with their mean time: added up, they are what they were.
fn averaged(measured: Vec<(Side, String, Entry)>) -> Vec<(Side, String, Entry)> {
    let mut groups: BTreeMap<(Side, String), (usize, Entry)> = BTreeMap::new();
    for (side, name, entry) in measured {
        let seconds = entry.seconds;
        let group = groups.entry((side, name)).or_insert((0, Entry { seconds: 0.0, ..entry }));
        group.0 += 1;
        group.1.seconds += seconds;
    }
    let mean = |((side, name), (count, entry)): ((Side, String), (usize, Entry))| {
        let seconds = entry.seconds / count as f64;
        (side, name, Entry { seconds, ..entry })
    };
    groups.into_iter().map(mean).collect()
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or_default()
}
