//! Looking on while a plan runs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::Result;
use crate::build::Engine;
use crate::plan::{Instruction, Plan, Side, Step};

/// Looks on while a plan runs. `()` sees nothing, and its calls are compiled away.
pub(crate) trait Observer {
    /// A plan begins.
    fn begin(&mut self, _plan: &Arc<Plan>) {}

    /// An instruction was run, or handed to its device.
    fn after(&mut self, _engine: &Engine, _instruction: &Instruction) -> Result<()> {
        Ok(())
    }
}

impl Observer for () {}

/// When an instruction began, and how long it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    pub start: Duration,
    pub taken: Duration,
}

/// The times of a plan's instructions, run by run.
pub(crate) struct Watched {
    pub plan: Arc<Plan>,
    pub runs: Vec<Vec<Moment>>,
}

/// Takes the time of each instruction, and waits for the device after each.
pub(crate) struct StopWatch {
    pub plans: Vec<Watched>,
    current: usize,
    origin: Instant,
    last: Instant,
}

impl StopWatch {
    pub fn new() -> Self {
        let now = Instant::now();
        Self { plans: Vec::new(), current: 0, origin: now, last: now }
    }
}

impl Observer for StopWatch {
    fn begin(&mut self, plan: &Arc<Plan>) {
        let known = self.plans.iter().position(|watched| Arc::ptr_eq(&watched.plan, plan));
        self.current = known.unwrap_or_else(|| {
            self.plans.push(Watched { plan: Arc::clone(plan), runs: Vec::new() });
            self.plans.len() - 1
        });
        self.plans[self.current].runs.push(Vec::with_capacity(plan.instructions.len()));
        self.last = Instant::now();
    }

    fn after(&mut self, engine: &Engine, instruction: &Instruction) -> Result<()> {
        let transfer = matches!(instruction.step, Step::Transfer { .. });
        if transfer || instruction.side == Side::Gpu {
            engine.device(Side::Gpu).queue().finish()?;
        }
        let now = Instant::now();
        let moment = Moment { start: self.last - self.origin, taken: now - self.last };
        if let Some(run) = self.plans[self.current].runs.last_mut() {
            run.push(moment);
        }
        self.last = now;
        Ok(())
    }
}
