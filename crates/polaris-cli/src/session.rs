//! What commands have in common: the machine, the chosen devices, and the check of new ones.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use polaris::runtime::machine::{CheckRecord, CheckStatus, Paths};
use polaris::{Device, DeviceRef, Runtime, RuntimeOptions};

use crate::arguments::Global;
use crate::interrupt;

/// Set for the child process that checks a new device, which must not start another one.
const CHILD: &str = "POLARIS_FIRST_CHECK";

/// A quick check that takes longer than this hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// The machine, and what the user asked for.
pub struct Session {
    pub runtime: Runtime,
    pub global: Global,
}

impl Session {
    /// Looks for devices.
    pub fn new(global: Global) -> anyhow::Result<Self> {
        let options = RuntimeOptions {
            threads: global.threads.map(usize::from),
            memory_limits: global.memory_limit.clone(),
            paths: Paths::from_environment(),
        };
        Ok(Self { runtime: Runtime::discover(&options)?, global })
    }

    /// The devices the user named, or all of them.
    pub fn devices(&self) -> anyhow::Result<Vec<DeviceRef>> {
        if self.global.device.is_empty() {
            return Ok(self.runtime.devices().to_vec());
        }
        let named = self.global.device.iter().map(|&id| Ok(self.runtime.device(id)?.clone()));
        named.collect()
    }

    /// Checks the devices that this machine has not seen before, or not with this driver: quickly,
    /// with a word, and in a process of their own, since a new driver may hang or crash.
    pub fn check_new_devices(&mut self) -> anyhow::Result<()> {
        if self.global.no_first_check || std::env::var_os(CHILD).is_some() {
            return Ok(());
        }
        for device in self.devices()? {
            let known =
                self.runtime.profile(device.as_ref()).and_then(|profile| profile.check.as_ref());
            if device.as_opencl().is_none() || known.is_some() {
                continue;
            }
            eprintln!(
                "note: {} ({}) has not been seen with this driver before: a quick check runs, under 5 s; Ctrl-C skips it",
                device.id(),
                device.info().name
            );
            match self.first_check(device.as_ref())? {
                FirstCheck::Done => {}
                FirstCheck::Ended(status, words) => {
                    eprintln!("note: {}: {words}", device.id());
                    self.record(device.as_ref(), status);
                }
            }
            self.runtime.reload_profile();
        }
        Ok(())
    }

    fn first_check(&self, device: &dyn Device) -> anyhow::Result<FirstCheck> {
        let program = std::env::current_exe().context("the polaris program cannot be found")?;
        let mut child = Command::new(program)
            .args(["check", "--quick", "--json", "--device", &device.id().to_string()])
            .env(CHILD, "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("the quick check cannot be started")?;
        let start = Instant::now();
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(match status.code() {
                    Some(code) if code == i32::from(crate::exit::INTERRUPTED) => {
                        interrupt::forget();
                        FirstCheck::Ended(CheckStatus::Cancelled, SKIPPED.into())
                    }
                    Some(_) => FirstCheck::Done,
                    None => FirstCheck::Ended(
                        CheckStatus::Crashed,
                        format!(
                            "its driver crashed in the check ({status}); the device is not recommended"
                        ),
                    ),
                });
            }
            if interrupt::requested() {
                end(&mut child);
                interrupt::forget();
                return Ok(FirstCheck::Ended(CheckStatus::Cancelled, SKIPPED.into()));
            }
            if start.elapsed() > PATIENCE {
                end(&mut child);
                let words = "its driver hung in the check; the device is not recommended";
                return Ok(FirstCheck::Ended(CheckStatus::Crashed, words.into()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Remembers how a check ended that could not say so itself.
    fn record(&mut self, device: &dyn Device, status: CheckStatus) {
        let record = check_record(status, true, 0, 0);
        self.remember(device, |profile| profile.check = Some(record.clone()));
    }

    /// Changes the machine's profile; where it cannot be written, says so and goes on.
    pub fn remember(
        &mut self,
        device: &dyn Device,
        change: impl Fn(&mut polaris::runtime::machine::DeviceProfile),
    ) {
        if let Err(error) = self.runtime.remember(device, change) {
            eprintln!("note: {error}; what was found is forgotten when this command ends");
        }
    }
}

const SKIPPED: &str = "the check was skipped; `polaris check` makes up for it";

enum FirstCheck {
    /// It ran to its end, and has written what it found into the profile.
    Done,
    /// It did not, for this reason.
    Ended(CheckStatus, String),
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A record of a check that ends now.
pub fn check_record(status: CheckStatus, quick: bool, passed: usize, failed: usize) -> CheckRecord {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    CheckRecord {
        status,
        quick,
        passed,
        failed,
        polaris: env!("CARGO_PKG_VERSION").to_owned(),
        unix_time: now.map_or(0, |time| time.as_secs()),
    }
}
