//! ONNX Runtime in a Python process that lives as long as the run: starting one for each graph would take
//! a second.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

const SCRIPT: &str = include_str!("../../../bench/trials/reference.py");

/// Importing takes seconds on a busy machine, a model milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The process; trials ask one after another.
pub struct Reference {
    python: PathBuf,
    process: Mutex<Process>,
}

struct Process {
    child: Child,
    requests: ChildStdin,
    answers: mpsc::Receiver<String>,
}

impl Reference {
    /// It runs as the harness' own user, whose Python it may be: it reads valid models only.
    pub fn start(python: &Path) -> Result<Self> {
        let process = Mutex::new(Process::start(python)?);
        let reference = Self { python: python.to_owned(), process };
        let ready = reference.ask(&serde_json::json!({ "ready": true }))?;
        ready.context("--python needs one with onnxruntime, onnx and numpy")?;
        Ok(reference)
    }

    /// Its answer to a request, as the script describes them; `None` if ONNX Runtime crashes or hangs on the
    /// model, which is not our fault.
    pub fn ask(&self, request: &Value) -> Result<Option<Value>> {
        let mut process = self.process.lock().expect("no thread should panic");
        let answer = process.ask(request);
        if answer.is_none() {
            *process = Process::start(&self.python)?;
        }
        Ok(answer)
    }
}

impl Process {
    fn start(python: &Path) -> Result<Self> {
        let mut command = Command::new(python);
        command.arg("-c").arg(SCRIPT).stdin(Stdio::piped()).stdout(Stdio::piped());
        let context = || format!("cannot start --python {}", python.display());
        let mut child = command.spawn().with_context(context)?;
        let requests = child.stdin.take().context("Python has no stdin")?;
        let stdout = child.stdout.take().context("Python has no stdout")?;
        let (sender, answers) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(std::io::Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, requests, answers })
    }

    fn ask(&mut self, request: &Value) -> Option<Value> {
        writeln!(self.requests, "{request}").ok()?;
        let line = self.answers.recv_timeout(PATIENCE).ok()?;
        serde_json::from_str(&line).ok()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
