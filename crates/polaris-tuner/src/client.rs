//! The tuner's side of a worker: a process that is asked, waited for only so long, and replaced when
//! it is gone.

use std::io::Write;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::Context;
use polaris::DeviceId;
use polaris::runtime::Error as RuntimeError;
use polaris_tune::{Failure, ProblemKey};

use super::protocol::{Reply, Request};
use crate::arguments::Global;
use crate::interrupt;
use crate::supervisor::{listen, worker_command};

/// Operands and the reference of a large product take their time.
const PREPARES_IN: Duration = Duration::from_secs(120);

/// A worker for one device and problem.
pub struct Client<'a> {
    global: &'a Global,
    device: DeviceId,
    problem: ProblemKey,
    /// None after it was lost, until it is asked again.
    process: Option<Process>,
}

struct Process {
    child: Child,
    stdin: ChildStdin,
    replies: Receiver<Reply>,
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Client<'a> {
    pub fn new(global: &'a Global, device: DeviceId, problem: ProblemKey) -> Self {
        Self { global, device, problem, process: None }
    }

    /// Hands over a request. What comes of it, [`Client::wait`] tells.
    pub fn send(&mut self, request: &Request) -> anyhow::Result<()> {
        if self.process.is_none() {
            let mut process = self.spawn()?;
            say(&mut process, &Request::Prepare(self.problem.clone()));
            self.process = Some(process);
            match self.wait(PREPARES_IN)? {
                Reply::Prepared => {}
                Reply::Failed { why, .. } => anyhow::bail!("{}: {why}", self.device),
                _ => anyhow::bail!("{}: the worker does not prepare", self.device),
            }
        }
        if let Some(process) = &mut self.process {
            say(process, request);
        }
        Ok(())
    }

    /// Waits for the answer to the last request. A worker that does not answer in time, or dies,
    /// is a failure of what it was asked for.
    pub fn wait(&mut self, limit: Duration) -> anyhow::Result<Reply> {
        let begin = Instant::now();
        loop {
            let process = self.process.as_mut().context("nobody was asked")?;
            match process.replies.recv_timeout(Duration::from_millis(20)) {
                Ok(reply) => return Ok(reply),
                _ if interrupt::requested() => {
                    self.process = None;
                    return Err(RuntimeError::Interrupted.into());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = process.child.wait()?;
                    self.process = None;
                    if interrupt::reached(status) {
                        return Err(RuntimeError::Interrupted.into());
                    }
                    let why = format!("the driver took its process down ({status})");
                    return Ok(Reply::Failed { kind: Failure::Crash, why });
                }
                Err(RecvTimeoutError::Timeout) if begin.elapsed() > limit => {
                    self.process = None;
                    let why = format!("no answer within {:.0} s", limit.as_secs_f64());
                    return Ok(Reply::Failed { kind: Failure::Timeout, why });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Asks and waits.
    pub fn ask(&mut self, request: &Request, limit: Duration) -> anyhow::Result<Reply> {
        self.send(request)?;
        self.wait(limit)
    }

    fn spawn(&self) -> anyhow::Result<Process> {
        let mut command = worker_command(self.global, self.device, "tune")?;
        // What was decided before must not be taken for the default.
        command.env("POLARIS_TUNING", "off");
        let mut child = command.spawn().context("a process for tuning cannot be started")?;
        let stdin = child.stdin.take().context("the worker has no stdin")?;
        let replies = listen(&mut child)?;
        Ok(Process { child, stdin, replies })
    }
}

/// A worker that died before it read this is found out when it is waited for.
fn say(process: &mut Process, request: &Request) {
    if let Ok(text) = serde_json::to_string(request) {
        let _ = writeln!(process.stdin, "{text}").and_then(|()| process.stdin.flush());
    }
}
