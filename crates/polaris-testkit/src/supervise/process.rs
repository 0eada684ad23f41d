//! A process that works on a device and takes its driver's crashes, and what it prints.

use std::io::{self, BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver};
#[cfg(unix)]
use std::time::{Duration, Instant};

use polaris_core::CancellationToken;
use serde::de::DeserializeOwned;

/// How workers are started, one like the other.
#[derive(Debug)]
pub struct WorkerProcess(Command);

impl WorkerProcess {
    /// Workers that are started so. They are spoken to on stdin and answer on stdout.
    pub fn new(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Ctrl-C in a terminal goes to the whole group: compilers in drivers break off on it, and the
        // kernel under way would get the blame. The supervisor ends its worker itself.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        Self(command)
    }

    /// Starts one.
    ///
    /// # Errors
    /// If the system does not.
    pub fn spawn(&mut self) -> io::Result<Child> {
        self.0.spawn()
    }
}

/// Reads a worker's lines of JSON in a thread, so that silence can be noticed.
///
/// # Errors
/// If there is no thread for it; the worker is ended then.
pub fn listen<T: DeserializeOwned + Send + 'static>(worker: &mut Child) -> io::Result<Receiver<T>> {
    let (sender, receiver) = mpsc::channel();
    read_lines(worker, move |line| line.is_some_and(|line| sender.send(line).is_ok()))?;
    Ok(receiver)
}

/// Hands over each line, and `None` at the end, until it is refused.
pub(super) fn read_lines<T: DeserializeOwned>(
    worker: &mut Child,
    mut take: impl FnMut(Option<T>) -> bool + Send + 'static,
) -> io::Result<()> {
    if let Some(stdout) = worker.stdout.take() {
        let thread = std::thread::Builder::new().spawn(move || {
            // Drivers print on stdout too: what is not a line of ours is not for us.
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let mut lines = lines.filter_map(|line| serde_json::from_str(&line).ok());
            if lines.all(|line| take(Some(line))) {
                take(None);
            }
        });
        if let Err(error) = thread {
            // Nobody would hear of it.
            let _ = worker.kill();
            return Err(error);
        }
    }
    Ok(())
}

/// Whether a process that ended so was stopped by the user: a Ctrl-C that comes while a process is
/// being started still finds it in this one's group and ends it, maybe before this one has heard.
pub fn was_stopped(ended: ExitStatus, cancellation: &CancellationToken) -> bool {
    #[cfg(unix)]
    {
        const SIGINT: i32 = 2;
        if std::os::unix::process::ExitStatusExt::signal(&ended) == Some(SIGINT) {
            let begin = Instant::now();
            while !cancellation.is_cancelled() && begin.elapsed() < Duration::from_secs(1) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    #[cfg(not(unix))]
    let _ = ended;
    cancellation.is_cancelled()
}
