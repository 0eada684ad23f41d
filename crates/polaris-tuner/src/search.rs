//! The search for one problem on one device.

use std::time::{Duration, Instant};

use polaris_core::Progress;
use polaris_tune::{
    Database, DeviceKey, Failure, History, Outcome, Points, ProblemKey, Record, SCHEMA, Strategy,
    Trial,
};

use crate::client::{self, Client};
use crate::protocol::{Config, Reply, Request, Sampled};
use crate::results::failures_text;
use crate::subject::Work;
use crate::{Error, Result};

/// Seconds of samples for a configuration.
const MEASURE: f64 = 0.05;
/// Configurations that are this much slower than the best are sampled once.
const ABORT_BEYOND: f64 = 2.0;
/// After so many evaluations the best is measured again, to see whether the machine has changed.
const DRIFT_EVERY: usize = 20;
/// Configurations that meet the default at the end, and for how many seconds: those that were
/// measured in a bad moment get another chance.
const FINALISTS: usize = 6;
const COMPARE: f64 = 1.0;
/// A configuration must be this much faster than the default to take its place.
const WORTH: f64 = 0.98;

/// How long and how hard to search for one problem.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    pub evaluations: Option<usize>,
    pub time: Option<Duration>,
    /// How long a build and a first run may take.
    pub patience: Duration,
    /// Processes that build at the same time.
    pub workers: usize,
    /// How often each configuration is timed.
    pub passes: usize,
}

/// Where measurements go, and under which names.
pub struct Place<'a> {
    pub client: client::Place<'a>,
    pub key: DeviceKey,
    pub source: String,
    pub database: Option<&'a Database>,
}

/// What a search found.
#[derive(Debug, Clone)]
pub struct Found {
    /// All trials, those of earlier runs first.
    pub history: History,
    /// Evaluations of this search.
    pub evaluations: usize,
    /// Those that were known before.
    pub resumed: usize,
    /// Failures by kind, of this search.
    pub failed: Vec<(Failure, usize)>,
    /// The best configuration; none if the default is as good.
    pub config: Option<Config>,
    /// The default's time, measured in turns with the best.
    pub default: Sampled,
    /// The best's.
    pub best: Sampled,
    /// The slowest re-measurement of the best by its first one.
    pub drift: f64,
    /// Whether the user stopped it.
    pub interrupted: bool,
}

/// Searches for one problem.
pub struct Search<'a> {
    pub place: &'a Place<'a>,
    pub problem: ProblemKey,
    pub points: &'a Points,
    /// Where to begin.
    pub usual: &'a [usize],
    /// What one run has to do.
    pub work: Work,
}

impl Search<'_> {
    pub fn run(
        &self,
        strategy: &mut dyn Strategy,
        known: History,
        budget: Effort,
        progress: &mut dyn Progress,
    ) -> Result<Found> {
        let begin = Instant::now();
        let mut clients: Vec<Client> = (0..budget.workers.max(1))
            .map(|_| Client::new(self.place.client, self.problem.clone()))
            .collect();
        let mut found = Found {
            resumed: known.trials.len(),
            history: known,
            evaluations: 0,
            failed: Vec::new(),
            config: None,
            default: Sampled { seconds: f64::INFINITY, spread: 0.0, samples: 0 },
            best: Sampled { seconds: f64::INFINITY, spread: 0.0, samples: 0 },
            drift: 1.0,
            interrupted: false,
        };
        let is_over = |found: &Found| {
            budget.evaluations.is_some_and(|most| found.evaluations >= most)
                || budget.time.is_some_and(|most| begin.elapsed() >= most)
        };
        while !is_over(&found) {
            let left = budget.evaluations.map_or(usize::MAX, |most| most - found.evaluations);
            let batch = self.propose(strategy, &found.history, clients.len().min(left));
            if batch.is_empty() {
                break;
            }
            let evaluated = self.evaluate(&mut clients, &batch, &mut found, budget.patience);
            if self.stopped(evaluated, &mut found)? {
                return Ok(found);
            }
            self.show(&found, begin, &budget, progress);
        }
        for _ in 1..budget.passes {
            for trial in found.history.trials.clone() {
                if trial.seconds.is_none() {
                    continue;
                }
                let one = &mut clients[..1];
                let again = self.evaluate(one, &[trial.point], &mut found, budget.patience);
                if self.stopped(again, &mut found)? {
                    return Ok(found);
                }
                self.show(&found, begin, &budget, progress);
            }
        }
        self.decide(&mut clients[0], &mut found, budget.patience)?;
        Ok(found)
    }

    /// Some points at once: each is proposed as if those before it were as good as the best.
    fn propose(&self, strategy: &mut dyn Strategy, history: &History, count: usize) -> Vec<usize> {
        let mut assumed = history.clone();
        let seconds = history.best().map(|(_, seconds)| seconds);
        let mut batch = Vec::new();
        while batch.len() < count {
            let usual = self.usual.iter().copied().find(|&point| !assumed.has(point));
            let proposed = usual.or_else(|| strategy.propose(self.points, &assumed));
            let Some(point) = proposed else { break };
            assumed.trials.push(Trial { point, seconds });
            batch.push(point);
        }
        batch
    }

    /// Builds and checks a batch at the same time, then times its points one by one.
    fn evaluate(
        &self,
        clients: &mut [Client],
        batch: &[usize],
        found: &mut Found,
        patience: Duration,
    ) -> Result<()> {
        for (client, &point) in clients.iter_mut().zip(batch) {
            client.send(&Request::Try(self.config(point)))?;
        }
        let mut tried = Vec::new();
        for client in clients.iter_mut().take(batch.len()) {
            tried.push(client.wait(patience)?);
        }
        for ((client, &point), reply) in clients.iter_mut().zip(batch).zip(tried) {
            let outcome = match reply {
                Reply::Tried { error } => self.time(client, point, error, found, patience)?,
                Reply::Failed { kind, why } => Outcome::Failed { kind, why },
                other => return Err(Error::Unexpected(format!("{other:?}"))),
            };
            self.keep(point, &outcome, found)?;
        }
        Ok(())
    }

    fn time(
        &self,
        client: &mut Client,
        point: usize,
        error: f64,
        found: &mut Found,
        patience: Duration,
    ) -> Result<Outcome> {
        let is_time = (found.evaluations + 1).is_multiple_of(DRIFT_EVERY);
        if let Some((best, seconds)) = found.history.best().filter(|_| is_time) {
            let again = self.measure(client, best, None, patience)?;
            if let Ok(again) = again {
                found.drift = found.drift.max(again.seconds / seconds);
            }
        }
        let limit = found.history.best().map(|(_, seconds)| ABORT_BEYOND * seconds);
        Ok(match self.measure(client, point, limit, patience)? {
            Ok(Sampled { seconds, spread, samples }) => {
                Outcome::Measured { seconds, spread, samples, error }
            }
            Err(outcome) => outcome,
        })
    }

    fn measure(
        &self,
        client: &mut Client,
        point: usize,
        limit: Option<f64>,
        patience: Duration,
    ) -> Result<std::result::Result<Sampled, Outcome>> {
        let request = Request::Measure { config: self.config(point), seconds: MEASURE, limit };
        Ok(match client.ask(&request, patience)? {
            Reply::Measured(sampled) => Ok(sampled),
            Reply::Failed { kind, why } => Err(Outcome::Failed { kind, why }),
            other => return Err(Error::Unexpected(format!("{other:?}"))),
        })
    }

    /// Remembers an outcome, in the database first.
    fn keep(&self, point: usize, outcome: &Outcome, found: &mut Found) -> Result<()> {
        self.remember(self.config(point), outcome)?;
        let seconds = match outcome {
            Outcome::Measured { seconds, .. } => Some(*seconds),
            _ => None,
        };
        if let Outcome::Failed { kind, .. } = outcome {
            match found.failed.iter_mut().find(|(known, _)| known == kind) {
                Some((_, count)) => *count += 1,
                None => found.failed.push((*kind, 1)),
            }
        }
        found.history.add(Trial { point, seconds });
        found.evaluations += 1;
        Ok(())
    }

    fn remember(&self, config: Config, outcome: &Outcome) -> Result<()> {
        let Some(database) = self.place.database else { return Ok(()) };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        database.append(&Record {
            schema: SCHEMA,
            device: self.place.key.clone(),
            problem: self.problem.clone(),
            source: self.place.source.clone(),
            config,
            outcome: outcome.clone(),
            at: now.map_or(0, |now| now.as_secs()),
            polaris: env!("CARGO_PKG_VERSION").to_owned(),
        })?;
        Ok(())
    }

    /// The fastest few meet the default in turns, so that no lucky sample wins.
    fn decide(&self, client: &mut Client, found: &mut Found, patience: Duration) -> Result<()> {
        let mut timed: Vec<(usize, f64)> = found
            .history
            .trials
            .iter()
            .filter_map(|trial| trial.seconds.map(|seconds| (trial.point, seconds)))
            .collect();
        timed.sort_by(|a, b| a.1.total_cmp(&b.1));
        timed.truncate(FINALISTS);
        let mut configs = vec![None];
        configs.extend(timed.iter().map(|&(point, _)| Some(self.config(point))));
        // Programs of an earlier run may have to be built again.
        let patience = patience * configs.len() as u32;
        let request = Request::Compare { configs: configs.clone(), seconds: COMPARE };
        let times = match client.ask(&request, patience)? {
            Reply::Compared(times) => times,
            Reply::Failed { why, .. } => return Err(Error::NotCompared(why)),
            other => return Err(Error::Unexpected(format!("{other:?}"))),
        };
        found.default = times[0];
        let places = 0..times.len();
        let best =
            places.min_by(|&a, &b| times[a].seconds.total_cmp(&times[b].seconds)).unwrap_or(0);
        let wins = times[best].seconds < WORTH * times[0].seconds;
        let best = if wins { best } else { 0 };
        found.best = times[best];
        found.config = configs.swap_remove(best);
        Ok(())
    }

    fn config(&self, point: usize) -> Config {
        self.points.named(point).map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn show(&self, found: &Found, begin: Instant, budget: &Effort, progress: &mut dyn Progress) {
        let best = found.history.best().map_or(0.0, |(_, seconds)| self.work.rate(seconds));
        // The bar counts what the budget counts: seconds, or evaluations.
        let position = match budget.time {
            Some(time) => begin.elapsed().min(time).as_secs() as usize,
            None => found.evaluations,
        };
        let detail = format!(
            "{} tried, best {best:.1} {}, {}",
            found.evaluations,
            self.work.unit(),
            failures_text(&found.failed)
        );
        progress.advance(position, &detail);
    }

    /// Whether the user stopped it. Other errors remain errors.
    fn stopped(&self, outcome: Result<()>, found: &mut Found) -> Result<bool> {
        match outcome {
            Ok(()) => Ok(false),
            Err(error) if self.place.client.cancellation.is_cancelled() => {
                log::debug!("stopped: {error}");
                found.interrupted = true;
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }
}
