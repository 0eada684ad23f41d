//! Starting the binary under limits, and taking what it says and how it ends.
//!
//! The limits are set by `sh` before it becomes the binary: the crate needs no unsafe code for that, and a
//! kept trial is a shell script of the same lines.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// What is kept of each stream; the rest is read and thrown away.
const MOST_OUTPUT: usize = 8 << 20;

/// How often a running process is looked at.
const LOOK: Duration = Duration::from_micros(500);

/// What a process may use.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Address space in KiB.
    pub address_kib: u64,
    /// The largest file in blocks of 512 bytes.
    pub file_blocks: u64,
    /// Open files.
    pub files: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { address_kib: 4 << 20, file_blocks: 1 << 19, files: 1024 }
    }
}

impl Limits {
    /// The line of shell that sets them. No core files: they would fill the disk.
    pub fn shell(&self) -> String {
        let Self { address_kib, file_blocks, files } = self;
        format!(
            "ulimit -c 0 && ulimit -f {file_blocks} && ulimit -v {address_kib} && ulimit -n {files} || exit 99"
        )
    }
}

/// When a signal is sent.
#[derive(Debug, Clone)]
pub enum Moment {
    After(Duration),
    /// When the file is at least so long, or the folder has so many entries.
    Grown(PathBuf, u64),
}

/// A process to start.
#[derive(Debug, Clone)]
pub struct Call {
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub limits: Limits,
    /// A signal to send, by its name.
    pub signal: Option<(&'static str, Moment)>,
    /// The file that is its stdin; otherwise that is empty.
    pub input: Option<PathBuf>,
    pub output: Output,
}

/// Where stdout goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// To the harness, which reads it.
    Read,
    /// To a device without room.
    Full,
    /// To a pipe that nobody reads.
    Closed,
}

impl Call {
    pub fn new<A: Into<OsString>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self {
            arguments: arguments.into_iter().map(Into::into).collect(),
            environment: Vec::new(),
            limits: Limits::default(),
            signal: None,
            input: None,
            output: Output::Read,
        }
    }

    pub fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.into(), value.into()));
        self
    }

    pub fn signal(mut self, name: &'static str, moment: Moment) -> Self {
        self.signal = Some((name, moment));
        self
    }
}

/// How a process ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// It did not end by itself, nor when it was asked to.
    pub hung: bool,
    /// The signal that was sent, if any.
    pub sent: Option<&'static str>,
}

impl Ended {
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    pub fn succeeded(&self) -> bool {
        self.status.success()
    }

    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    pub fn stderr_text(&self) -> String {
        String::from_utf8_lossy(&self.stderr).into_owned()
    }
}

/// How long processes may take.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// After this a process is asked to stop by SIGINT: what an input asks for may take for ever.
    pub ask: Duration,
    /// After this it is killed, and counts as hung.
    pub kill: Duration,
}

/// Runs a program in a folder, under limits, and where `uid` says so as another user.
pub fn run(
    program: &Path,
    folder: &Path,
    uid: Option<u32>,
    patience: Patience,
    call: &Call,
) -> Result<Ended> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{}; exec \"$0\" \"$@\"", call.limits.shell()));
    command.arg(program).args(&call.arguments).current_dir(folder);
    command.env_clear().envs(call.environment.iter().map(|(name, value)| (name, value)));
    let stdin = match &call.input {
        Some(path) => File::open(path).with_context(|| path.display().to_string())?.into(),
        None => Stdio::null(),
    };
    let stdout = match call.output {
        Output::Read => Stdio::piped(),
        Output::Full => File::options().write(true).open("/dev/full")?.into(),
        // The other end is dropped at once.
        Output::Closed => std::io::pipe()?.1.into(),
    };
    command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).process_group(0);
    if let Some(uid) = uid {
        command.uid(uid).gid(uid);
    }
    let mut child = command.spawn().context("cannot start /bin/sh")?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let (status, hung, sent) = wait(&mut child, patience, call.signal.as_ref())?;
    if hung || sent.is_some() {
        // Children of a process that was killed must not outlive the trial.
        send("KILL", &child);
    }
    let finish = |stream: mpsc::Receiver<Vec<u8>>| match stream.recv_timeout(Duration::from_secs(5))
    {
        Ok(bytes) => bytes,
        Err(_) => {
            send("KILL", &child);
            stream.recv_timeout(Duration::from_secs(5)).unwrap_or_default()
        }
    };
    Ok(Ended { status, stdout: finish(stdout), stderr: finish(stderr), hung, sent })
}

fn wait(
    child: &mut Child,
    patience: Patience,
    signal: Option<&(&'static str, Moment)>,
) -> Result<(ExitStatus, bool, Option<&'static str>)> {
    let start = Instant::now();
    let mut sent = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false, sent));
        }
        let taken = start.elapsed();
        if taken > patience.kill {
            send("KILL", child);
            return Ok((child.wait()?, true, sent));
        }
        if sent.is_none() {
            let due = match signal {
                Some((name, moment)) => has_come(moment, taken).then_some(*name),
                None => None,
            };
            let asked = (taken > patience.ask).then_some("INT");
            if let Some(name) = due.or(asked) {
                send(name, child);
                sent = Some(name);
            }
        }
        std::thread::sleep(LOOK);
    }
}

fn has_come(moment: &Moment, taken: Duration) -> bool {
    match moment {
        Moment::After(delay) => taken >= *delay,
        Moment::Grown(path, size) => match std::fs::metadata(path) {
            Ok(found) if found.is_dir() => {
                std::fs::read_dir(path).is_ok_and(|entries| entries.count() as u64 >= *size)
            }
            Ok(found) => found.len() >= *size,
            Err(_) => false,
        },
    }
}

/// Sends a signal to a process and those that it started.
fn send(signal: &str, child: &Child) {
    let line = format!("kill -s {signal} -- -{}", child.id());
    // It may have ended by now.
    let _ = Command::new("/bin/sh").arg("-c").arg(line).stderr(Stdio::null()).status();
}

/// Reads a stream to its end in a thread of its own.
fn drain(stream: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.by_ref().take(MOST_OUTPUT as u64).read_to_end(&mut bytes);
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        }
        let _ = sender.send(bytes);
    });
    receiver
}
