//! ONNX Runtime in a Python process that lives as long as the run: starting one for each graph would take
//! a second.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use anyhow::{Context, Result};
use serde_json::Value;

const SCRIPT: &str = include_str!("../../../bench/trials/reference.py");

/// The process; trials ask one after another.
pub struct Reference {
    process: Mutex<Process>,
}

struct Process {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Reference {
    pub fn start(python: &Path, folder: &Path, uid: Option<u32>) -> Result<Self> {
        let mut command = Command::new(python);
        command.arg("-c").arg(SCRIPT).current_dir(folder).env("HOME", folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        if let Some(uid) = uid {
            command.uid(uid).gid(uid);
        }
        let context = || format!("cannot start --python {}", python.display());
        let mut child = command.spawn().with_context(context)?;
        let requests = child.stdin.take().context("Python has no stdin")?;
        let answers = BufReader::new(child.stdout.take().context("Python has no stdout")?);
        Ok(Self { process: Mutex::new(Process { child, requests, answers }) })
    }

    /// Its answer to a request; see the script.
    pub fn ask(&self, request: &Value) -> Result<Value> {
        let mut process = self.process.lock().expect("no thread should panic");
        writeln!(process.requests, "{request}").context("Python has ended; see its words above")?;
        let mut line = String::new();
        process.answers.read_line(&mut line)?;
        serde_json::from_str(&line).context("Python has ended; see its words above")
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        if let Ok(process) = self.process.get_mut() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}
