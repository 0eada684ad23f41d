//! Runs a program with a time limit.

use std::io::{self, ErrorKind, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How often to look whether a program that has closed its output has ended too.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A program that ended.
pub struct Ended {
    pub status: ExitStatus,
    pub output: Vec<u8>,
    pub log: Vec<u8>,
}

/// Runs a command with `input`. None if it did not end within `limit` and was killed.
///
/// All three streams have threads of their own: a program that writes before it has read all would
/// otherwise wait for us while we wait for it. The threads are not joined, since a killed program's
/// children may keep the streams open.
pub fn run(mut command: Command, input: Vec<u8>, limit: Duration) -> io::Result<Option<Ended>> {
    let deadline = Instant::now() + limit;
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut stdin = child.stdin.take().expect("stdin should be piped");
    // A program that ends early closes its input; its log says why.
    let stdout = child.stdout.take().expect("stdout should be piped");
    let stderr = child.stderr.take().expect("stderr should be piped");
    let streams = || {
        thread::Builder::new().spawn(move || stdin.write_all(&input))?;
        Ok((reader(stdout)?, reader(stderr)?))
    };
    let collected =
        streams().and_then(|(output, log)| collect(&mut child, &output, &log, deadline));
    match collected {
        Ok(Some(ended)) => Ok(Some(ended)),
        other => {
            // An error here means that it has just ended by itself.
            let _ = child.kill();
            child.wait()?;
            other
        }
    }
}

type Bytes = Receiver<io::Result<Vec<u8>>>;

fn reader(mut stream: impl Read + Send + 'static) -> io::Result<Bytes> {
    let (sender, receiver) = channel();
    thread::Builder::new().spawn(move || {
        let mut bytes = Vec::new();
        // Nobody listens any more if the program was killed.
        let _ = sender.send(stream.read_to_end(&mut bytes).map(|_| bytes));
    })?;
    Ok(receiver)
}

fn collect(
    child: &mut Child,
    output: &Bytes,
    log: &Bytes,
    deadline: Instant,
) -> io::Result<Option<Ended>> {
    let all = |stream: &Bytes| match stream
        .recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        Ok(bytes) => bytes.map(Some),
        Err(RecvTimeoutError::Timeout) => Ok(None),
        Err(RecvTimeoutError::Disconnected) => Err(ErrorKind::BrokenPipe.into()),
    };
    let (Some(output), Some(log)) = (all(output)?, all(log)?) else { return Ok(None) };
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(Ended { status, output, log }));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(LOOK_AGAIN);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn streams_are_kept_apart_and_none_blocks() {
        // More than a pipe holds, in both directions.
        let input = vec![b'x'; 1 << 20];
        let ended =
            run(shell("cat; echo said >&2; exit 3"), input.clone(), Duration::from_secs(30));
        let ended = ended.unwrap().unwrap();
        assert_eq!((ended.status.code(), ended.output.len()), (Some(3), input.len()));
        assert_eq!(ended.log, b"said\n");
    }

    #[test]
    fn a_program_that_does_not_read_is_no_error() {
        let ended = run(shell("exit 0"), vec![b'x'; 1 << 20], Duration::from_secs(30));
        assert!(ended.unwrap().unwrap().status.success());
    }

    #[test]
    fn what_does_not_end_is_killed() {
        let started = Instant::now();
        // With its output open, and with its output closed.
        for script in ["exec sleep 60", "exec >&- 2>&-; exec sleep 60"] {
            let ended = run(shell(script), Vec::new(), Duration::from_millis(100)).unwrap();
            assert!(ended.is_none(), "{script}");
        }
        assert!(started.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn an_absent_program_is_an_error() {
        let error = run(Command::new("/nowhere/clang"), Vec::new(), Duration::from_secs(1));
        assert_eq!(error.err().map(|error| error.kind()), Some(ErrorKind::NotFound));
    }
}
