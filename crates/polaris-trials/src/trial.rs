//! One trial: its folder, its files, and its processes.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};

use crate::fixtures::Fixtures;
use crate::judge::{self, Fault, Kind};
use crate::process::{self, Call, Ended, Output, Patience};
use crate::random::Random;
use crate::reference::Reference;

/// What all trials of a run share.
pub struct Settings {
    /// The binary under trial: a copy that every user may execute, and that no build replaces.
    pub binary: PathBuf,
    pub seed: u64,
    /// The user that the binary runs as, where the harness is root.
    pub uid: Option<u32>,
    pub patience: Patience,
    /// Whether OpenCL devices may be used.
    pub gpu: bool,
    /// The folder that everything of this run lies in.
    pub work: PathBuf,
    /// ONNX Runtime, where a Python was given that has it.
    pub reference: Option<Reference>,
    pub fixtures: Fixtures,
    /// Ctrl-C: no trial is begun any more, and what was found is reported.
    pub stop: Arc<AtomicBool>,
}

/// Which trial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    pub family: &'static str,
    pub index: u64,
}

pub struct Trial<'a> {
    pub settings: &'a Settings,
    pub index: u64,
    pub random: Random,
    pub faults: Vec<Fault>,
    /// What the trial is about, if a few words tell: it joins the cause of faults that have no message.
    pub about: String,
    /// Whether inputs may ask for work without an end: then a process that stops when it is asked to is not a fault.
    pub may_be_long: bool,
    /// The processes so far, as lines of shell.
    pub commands: Vec<String>,
    /// Folders with programs that drivers built, shared since building them takes long.
    shared: Option<PathBuf>,
    /// Whether a signal ended one of the processes.
    killed: bool,
    folder: PathBuf,
}

/// The folder inside a trial's folder that processes run in.
const INSIDE: &str = "in";

impl<'a> Trial<'a> {
    pub fn new(settings: &'a Settings, id: Id) -> Result<Self> {
        let folder = settings.work.join(format!("{}-{}", id.family, id.index));
        let trial = Self {
            settings,
            index: id.index,
            random: Random::of_trial(settings.seed, id.family, id.index),
            faults: Vec::new(),
            about: String::new(),
            may_be_long: false,
            commands: Vec::new(),
            shared: None,
            killed: false,
            folder,
        };
        for part in ["", INSIDE, "home", "data", "cache", "tmp"] {
            settings.make_folder(&trial.folder.join(part))?;
        }
        Ok(trial)
    }

    /// A file's place in the folder that processes run in.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.folder.join(INSIDE).join(name)
    }

    /// The trial's folder, with those of the cache and the data.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Writes a file, with the folders it lies in; names may lead to `../data` and `../cache`.
    pub fn write(&self, name: impl AsRef<Path>, bytes: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.path(name);
        self.settings.write(&path, bytes.as_ref())?;
        Ok(path)
    }

    pub fn make_folder(&self, name: impl AsRef<Path>) -> Result<PathBuf> {
        let path = self.path(name);
        self.settings.make_folder(&path)?;
        Ok(path)
    }

    /// Lets the following processes use OpenCL devices.
    pub fn use_devices(&mut self) -> Result<()> {
        let shared = self.settings.work.join("devices");
        for part in ["", "home", "data", "cache", "tmp"] {
            self.settings.make_folder(&shared.join(part))?;
        }
        self.shared = Some(shared);
        Ok(())
    }

    /// Runs the binary with arguments that are split at spaces, and judges it.
    pub fn polaris(&mut self, arguments: &str) -> Result<Ended> {
        self.run(Call::new(arguments.split_whitespace()))
    }

    /// Runs the binary and judges it.
    pub fn run(&mut self, mut call: Call) -> Result<Ended> {
        let mut environment = self.environment();
        environment.append(&mut call.environment);
        call.environment = environment;
        if self.shared.is_some() {
            // Drivers map far more than they use.
            call.limits.address_kib = call.limits.address_kib.max(32 << 20);
        }
        self.commands.push(shell_line(&call));
        let settings = self.settings;
        let mut patience = settings.patience;
        if !self.may_be_long {
            patience.ask = patience.kill;
        }
        let folder = self.folder.join(INSIDE);
        let ended = process::run(&settings.binary, &folder, settings.uid, patience, &call)?;
        if ended.code() == Some(99) {
            anyhow::bail!("the limits cannot be set: {}", ended.stderr_text());
        }
        let mut faults = judge::judge(&call, &ended, &folder);
        // Only a process that ends by itself can remove what it began.
        self.killed |= ended.signal().is_some();
        if !self.killed {
            faults.extend(judge::leftovers(&call, &self.folder));
        }
        for fault in &mut faults {
            if matches!(fault.kind, Kind::Hang | Kind::Signal | Kind::Leftover | Kind::Silence)
                && !self.about.is_empty()
            {
                fault.cause = format!("{} [{}]", fault.cause, self.about);
            }
        }
        self.faults.append(&mut faults);
        Ok(ended)
    }

    /// Notes a fault that the process itself does not show.
    pub fn fault(&mut self, kind: Kind, cause: impl Into<String>, detail: impl Into<String>) {
        self.faults.push(Fault { kind, cause: cause.into(), detail: detail.into() });
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let base = self.shared.as_ref().unwrap_or(&self.folder);
        let mut environment: Vec<(OsString, OsString)> = vec![
            ("PATH".into(), "/usr/local/bin:/usr/bin:/bin".into()),
            ("HOME".into(), base.join("home").into()),
            ("TMPDIR".into(), base.join("tmp").into()),
            ("POLARIS_DATA_DIR".into(), base.join("data").into()),
            ("POLARIS_CACHE_DIR".into(), base.join("cache").into()),
            ("POCL_CACHE_DIR".into(), base.join("home/pocl").into()),
        ];
        if self.shared.is_none() {
            environment.push(("POLARIS_OPENCL".into(), "off".into()));
        }
        environment
    }
}

impl Settings {
    /// Makes a folder that the binary's user owns, and those that it lies in.
    pub fn make_folder(&self, path: &Path) -> Result<()> {
        if path.is_dir() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            self.make_folder(parent)?;
        }
        match std::fs::create_dir(path) {
            // Another trial made a folder that they share.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.with_context(|| path.display().to_string())?,
        }
        self.hand_over(path)
    }

    /// Writes a file that the binary's user owns.
    pub fn write(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        if let Some(parent) = path.parent() {
            self.make_folder(parent)?;
        }
        std::fs::write(path, bytes).with_context(|| path.display().to_string())?;
        self.hand_over(path)
    }

    pub fn hand_over(&self, path: &Path) -> Result<()> {
        if self.uid.is_some() {
            std::os::unix::fs::lchown(path, self.uid, self.uid)
                .with_context(|| path.display().to_string())?;
        }
        Ok(())
    }
}

/// A process as a line of shell, to be run in the trial's folder.
fn shell_line(call: &Call) -> String {
    let mut line = format!("({};", call.limits.shell());
    for (name, value) in &call.environment {
        if name.as_bytes() != b"PATH" {
            line.push_str(&format!(" {}={}", name.to_string_lossy(), quoted(value)));
        }
    }
    line.push_str(" \"$POLARIS\"");
    for argument in &call.arguments {
        line.push(' ');
        line.push_str(&quoted(argument));
    }
    if let Some(path) = &call.input {
        line.push_str(&format!(" < {}", quoted(path.as_os_str())));
    }
    match call.output {
        Output::Read => {}
        Output::Full => line.push_str(" > /dev/full"),
        Output::Closed => line.push_str(" | :"),
    }
    line.push(')');
    if let Some((name, moment)) = &call.signal {
        line.push_str(&format!(" # SIG{name} {moment:?}"));
    }
    line
}

fn quoted(text: &std::ffi::OsStr) -> String {
    let text = text.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,".contains(c);
    match !text.is_empty() && text.chars().all(plain) {
        true => text.into_owned(),
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}
