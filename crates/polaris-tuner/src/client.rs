//! The tuner's side of a worker: requests with a time limit, and replacement of dead workers; or the same work in
//! this process.

use std::io::Write;
use std::process::{Child, ChildStdin};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use polaris_core::CancellationToken;
use polaris_runtime::{DeviceRef, Error as RuntimeError};
use polaris_testkit::supervise::{WorkerProcess, listen, was_stopped};
use polaris_tune::{Failure, ProblemKey};

use crate::protocol::{Reply, Request};
use crate::worker::Bench;
use crate::{Error, Result, Workers};

/// Operands and the reference of a large product take their time.
const PREPARES_IN: Duration = Duration::from_secs(120);

/// Where a client's candidates run.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    pub host: &'a DeviceRef,
    pub device: &'a DeviceRef,
    pub workers: &'a Workers,
    pub cancellation: &'a CancellationToken,
}

/// A worker for one device and problem.
pub struct Client<'a> {
    place: Place<'a>,
    problem: ProblemKey,
    link: Link<'a>,
}

enum Link<'a> {
    /// A process; none after it was lost, until it is asked again.
    Process { command: Box<WorkerProcess>, process: Option<Process> },
    /// This process, and what it answered last.
    Here { bench: Box<Bench<'a>>, is_prepared: bool, reply: Option<Reply> },
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
    pub fn new(place: Place<'a>, problem: ProblemKey) -> Self {
        let link = match place.workers {
            Workers::Here => {
                let bench = Box::new(Bench::new(place.host, place.device, place.cancellation));
                Link::Here { bench, is_prepared: false, reply: None }
            }
            Workers::Processes(start) => {
                let mut command = start(place.device.id());
                // What was decided before must not be taken for the default.
                command.env("POLARIS_TUNING", "off");
                Link::Process { command: Box::new(WorkerProcess::new(command)), process: None }
            }
        };
        Self { place, problem, link }
    }

    /// Hands over a request. What comes of it, [`Client::wait`] tells.
    pub fn send(&mut self, request: &Request) -> Result<()> {
        if !self.is_prepared() {
            self.begin()?;
            match self.wait(PREPARES_IN)? {
                Reply::Prepared => {}
                Reply::Failed { why, .. } => return Err(self.not_prepared(why)),
                _ => return Err(self.not_prepared("the worker does not prepare".to_owned())),
            }
        }
        match &mut self.link {
            Link::Process { process: Some(process), .. } => say(process, request),
            Link::Process { .. } => {}
            Link::Here { bench, reply, .. } => *reply = Some(bench.answer(request.clone())),
        }
        Ok(())
    }

    fn is_prepared(&self) -> bool {
        match &self.link {
            Link::Process { process, .. } => process.is_some(),
            Link::Here { is_prepared, .. } => *is_prepared,
        }
    }

    /// Asks for the operands and the reference.
    fn begin(&mut self) -> Result<()> {
        let request = Request::Prepare(self.problem.clone());
        match &mut self.link {
            Link::Process { command, process } => {
                let mut begun = spawn(command)?;
                say(&mut begun, &request);
                *process = Some(begun);
            }
            Link::Here { bench, is_prepared, reply } => {
                *reply = Some(bench.answer(request));
                *is_prepared = true;
            }
        }
        Ok(())
    }

    fn not_prepared(&self, why: String) -> Error {
        Error::NotPrepared { device: self.place.device.id(), why }
    }

    /// Waits for the answer to the last request. A worker that does not answer in time, or dies,
    /// is a failure of what it was asked for.
    pub fn wait(&mut self, limit: Duration) -> Result<Reply> {
        let cancellation = self.place.cancellation;
        let link = match &mut self.link {
            Link::Process { process, .. } => process,
            Link::Here { reply, .. } => {
                if cancellation.is_cancelled() {
                    return Err(RuntimeError::Interrupted.into());
                }
                return reply.take().ok_or_else(nobody);
            }
        };
        let begin = Instant::now();
        loop {
            let process = link.as_mut().ok_or_else(nobody)?;
            match process.replies.recv_timeout(Duration::from_millis(20)) {
                Ok(reply) => return Ok(reply),
                _ if cancellation.is_cancelled() => {
                    *link = None;
                    return Err(RuntimeError::Interrupted.into());
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = process.child.wait()?;
                    *link = None;
                    if was_stopped(status, cancellation) {
                        return Err(RuntimeError::Interrupted.into());
                    }
                    let why = format!("the driver crashed its process ({status})");
                    return Ok(Reply::Failed { kind: Failure::Crash, why });
                }
                Err(RecvTimeoutError::Timeout) if begin.elapsed() > limit => {
                    *link = None;
                    let why = format!("no answer within {:.0} s", limit.as_secs_f64());
                    return Ok(Reply::Failed { kind: Failure::Timeout, why });
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Asks and waits.
    pub fn ask(&mut self, request: &Request, limit: Duration) -> Result<Reply> {
        self.send(request)?;
        self.wait(limit)
    }
}

fn nobody() -> Error {
    Error::Unexpected("nothing, since nobody was asked".to_owned())
}

fn spawn(command: &mut WorkerProcess) -> Result<Process> {
    let mut child = command.spawn().map_err(Error::Start)?;
    let stdin = child.stdin.take();
    let stdin = stdin.ok_or_else(|| Error::Start(std::io::Error::other("it has no stdin")))?;
    let replies = listen(&mut child).map_err(Error::Start)?;
    Ok(Process { child, stdin, replies })
}

/// A worker that died before it read this is found out when it is waited for.
fn say(process: &mut Process, request: &Request) {
    if let Ok(text) = serde_json::to_string(request) {
        let _ = writeln!(process.stdin, "{text}").and_then(|()| process.stdin.flush());
    }
}
