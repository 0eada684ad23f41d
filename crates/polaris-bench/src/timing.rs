//! Times several contenders in turns, so that a disturbance affects all of them.

use std::time::{Duration, Instant};

use polaris_core::CancellationToken;
use polaris_runtime::Error as RuntimeError;

use crate::{Error, Result};

/// One way to compute something, which fails with errors of its owner's kind.
pub trait Contender<E = Error> {
    /// Starts it once.
    ///
    /// # Errors
    /// If it cannot be started.
    fn run(&mut self) -> Result<(), E>;

    /// Waits for all that was started.
    ///
    /// # Errors
    /// If what was started failed.
    fn finish(&mut self) -> Result<(), E>;

    /// How long threads may stay busy after the work is done.
    fn settles_in(&self) -> Duration;
}

/// How long to measure.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A sample lasts at least this long: many calls between two waits if need be.
    pub sample: Duration,
    /// All samples together last about this long.
    pub budget: Duration,
    /// Samples of each contender, whatever the budget.
    pub rounds: usize,
    /// A pause after each sample: a device that may not draw as much power as its work asks for
    /// lowers its clock, now more and now less, unless it rests.
    pub rest: Duration,
}

/// How long one call takes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// The median over the samples.
    pub seconds: f64,
    /// The fastest of them: what remains when nothing disturbs.
    pub fastest: f64,
    /// The samples' standard deviation by their mean.
    pub cv: f64,
    /// How many there were.
    pub samples: usize,
}

/// Calls of one sample, at most: a queue has a length.
const LONGEST_BATCH: usize = 1000;

/// Calls shorter than this are led by one that is not timed, which wakes threads and fills caches.
const SHORT: Duration = Duration::from_millis(1);

/// Runs a contender once and tells how long that took, the wait included.
///
/// # Errors
/// If it fails.
pub fn time_one<E>(contender: &mut dyn Contender<E>) -> Result<Duration, E> {
    time(contender, 1)
}

/// Times all contenders. Each has been run at least once.
///
/// # Errors
/// If one fails, or if it is cancelled.
pub fn take_turns<E: From<RuntimeError>>(
    contenders: &mut [&mut dyn Contender<E>],
    limits: &Limits,
    cancellation: &CancellationToken,
) -> Result<Vec<Timing>, E> {
    let mut batches = Vec::with_capacity(contenders.len());
    for contender in contenders.iter_mut() {
        batches.push(batch_size(*contender, limits.sample)?);
    }
    let mut times = vec![Vec::new(); contenders.len()];
    let begin = Instant::now();
    let mut round = 0;
    while round < limits.rounds || begin.elapsed() < limits.budget {
        for turn in 0..contenders.len() {
            if cancellation.is_cancelled() {
                return Err(RuntimeError::Interrupted.into());
            }
            // Each round begins with another one: nobody always comes after the same.
            let which = (round + turn) % contenders.len();
            let (contender, (batch, call)) = (&mut *contenders[which], batches[which]);
            if call < SHORT {
                time(contender, 1)?;
            }
            let taken = time(contender, batch)?;
            times[which].push(taken.as_secs_f64() / batch as f64);
            std::thread::sleep(contender.settles_in().max(limits.rest));
        }
        round += 1;
    }
    Ok(times.into_iter().map(|times| summarise(&times)).collect())
}

/// How many calls make a sample that is long enough, and about how long one of them takes.
fn batch_size<E>(
    contender: &mut dyn Contender<E>,
    sample: Duration,
) -> Result<(usize, Duration), E> {
    let mut batch = 1;
    loop {
        let taken = time(contender, batch)?;
        if taken >= sample || batch == LONGEST_BATCH {
            return Ok((batch, taken / batch as u32));
        }
        // A little more than the last one asks for, since it carries the cost of one wait.
        let missing = 1.2 * sample.as_secs_f64() / taken.as_secs_f64().max(1e-9);
        batch = ((batch as f64 * missing.clamp(1.5, 10.0)).ceil() as usize).min(LONGEST_BATCH);
    }
}

fn time<E>(contender: &mut dyn Contender<E>, calls: usize) -> Result<Duration, E> {
    let start = Instant::now();
    for _ in 0..calls {
        contender.run()?;
    }
    contender.finish()?;
    Ok(start.elapsed())
}

fn summarise(times: &[f64]) -> Timing {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = times.len() as f64;
    let mean = times.iter().sum::<f64>() / count;
    let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
    Timing {
        seconds: sorted[sorted.len() / 2],
        fastest: sorted[0],
        cv: variance.sqrt() / mean,
        samples: times.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Sleeper {
        calls: usize,
        nap: Duration,
    }

    impl Contender for Sleeper {
        fn run(&mut self) -> Result<()> {
            self.calls += 1;
            std::thread::sleep(self.nap);
            Ok(())
        }

        fn finish(&mut self) -> Result<()> {
            Ok(())
        }

        fn settles_in(&self) -> Duration {
            Duration::ZERO
        }
    }

    #[test]
    fn everybody_gets_as_many_samples() {
        let mut short = Sleeper { calls: 0, nap: Duration::ZERO };
        let mut long = Sleeper { calls: 0, nap: Duration::from_millis(2) };
        let limits = Limits {
            sample: Duration::ZERO,
            budget: Duration::ZERO,
            rounds: 5,
            rest: Duration::ZERO,
        };
        let token = CancellationToken::new();
        let timings = take_turns::<Error>(&mut [&mut short, &mut long], &limits, &token).unwrap();
        assert_eq!(timings.iter().map(|timing| timing.samples).collect::<Vec<_>>(), [5, 5]);
        assert!(timings[1].fastest >= 0.002);
        // One to see how long it takes, then one of each round.
        assert_eq!(long.calls, 6);
    }

    #[test]
    fn samples_have_as_many_calls_as_they_need() {
        // Limits that no machine, however busy, comes near: how long a nap really takes is nobody's to say.
        let mut contender = Sleeper { calls: 0, nap: Duration::ZERO };
        let hour = Duration::from_secs(3600);
        assert_eq!(batch_size::<Error>(&mut contender, hour).unwrap().0, LONGEST_BATCH);
        assert_eq!(contender.calls, 1 + 10 + 100 + LONGEST_BATCH);
        assert_eq!(batch_size::<Error>(&mut contender, Duration::ZERO).unwrap().0, 1);
    }

    #[test]
    fn a_median_and_a_spread() {
        let timing = summarise(&[1.0, 1.0, 4.0]);
        assert_eq!((timing.seconds, timing.fastest, timing.samples), (1.0, 1.0, 3));
        assert!((timing.cv - 0.5f64.sqrt()).abs() < 1e-12);
    }
}
