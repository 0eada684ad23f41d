//! Checks of devices: this program is its own worker, shows a progress bar and stores the findings.

use std::time::Duration;

use anyhow::Context;
use polaris::runtime::opencl::ProgramCounts;
use polaris::{DeviceId, DeviceRef};
use polaris_testkit::supervise::{self, CheckedDevice};
use polaris_testkit::{Level, Scope, Tally};
use serde::Serialize;

use crate::arguments::Global;
use crate::output::say;
use crate::session::{Session, say_if_forgotten};
use crate::{exit, interrupt, output};

/// The quick check starts no case after this time, so that the whole command stays under five seconds.
pub const QUICK_LIMIT: Duration = Duration::from_secs(2);

/// The findings of a check.
#[derive(Serialize)]
pub struct Checked {
    /// Whether every kernel was correct.
    pub ok: bool,
    /// Each device.
    pub devices: Vec<CheckedDevice>,
    /// Built and cached programs, over all devices.
    pub programs: ProgramCounts,
}

impl Session {
    /// Runs a quick check, announced by a note, on devices that were never checked with their present driver.
    pub fn check_new_devices(&mut self) -> anyhow::Result<()> {
        if self.global.no_first_check {
            return Ok(());
        }
        for device in self.devices()? {
            let known =
                self.runtime.profile(device.as_ref()).and_then(|profile| profile.check.as_ref());
            if device.as_opencl().is_none() || known.is_some() {
                continue;
            }
            say!(
                "note: {} ({}) is new with this driver: running a quick check, under 5 s; Ctrl-C skips it",
                device.id(),
                device.info().name
            );
            let checked = check_one(self, &device, &Level::Quick.into(), Some(QUICK_LIMIT))?;
            if checked.report.cancelled || interrupt::requested() {
                // Ctrl-C skips the check, not the command, even if the check has just ended.
                interrupt::forget();
                say!("note: {}: the check was skipped; run `polaris check` later", device.id());
            } else if checked.report.failures().next().is_some() {
                say!(
                    "note: {}: some kernels are wrong with this driver and were quarantined; `polaris devices` lists them",
                    device.id()
                );
            }
            self.runtime.reload_profile();
        }
        Ok(())
    }
}

/// Checks the chosen devices and stores the findings.
pub fn check(
    session: &mut Session,
    scope: &Scope,
    limit: Option<Duration>,
) -> anyhow::Result<Checked> {
    let mut devices = Vec::new();
    let mut programs = ProgramCounts::default();
    for device in session.devices()? {
        let checked = check_one(session, &device, scope, limit)?;
        let cancelled = checked.report.cancelled;
        programs.built += checked.programs.built;
        programs.from_disk += checked.programs.from_disk;
        devices.push(checked);
        if cancelled {
            break;
        }
    }
    let ok = devices.iter().all(|device| device.report.failures().next().is_none());
    Ok(Checked { ok, devices, programs })
}

fn check_one(
    session: &mut Session,
    device: &DeviceRef,
    scope: &Scope,
    limit: Option<Duration>,
) -> anyhow::Result<CheckedDevice> {
    let bar = output::progress(0, &format!("checking {}", device.id()));
    let mut progress = |tally: &Tally| {
        let (done, total, suite) = tally.progress();
        bar.set_length(total as u64);
        bar.set_position(done as u64);
        bar.set_message(suite);
    };
    let worker = worker_command(&session.global, "check")?(device.id());
    let token = interrupt::token();
    let checked = supervise::check(device, scope, limit, worker, &token, &mut progress)?;
    bar.finish_and_clear();
    let remembered = supervise::remember(&mut session.runtime, device, scope, &checked.report);
    say_if_forgotten(remembered);
    Ok(checked)
}

/// The worker's side of a check: reads a job from stdin, runs it, reports on stdout.
pub fn work(global: Global) -> anyhow::Result<u8> {
    let job = supervise::read_job(std::io::stdin().lock())?;
    let session = Session::new(global)?;
    for device in session.devices()? {
        supervise::work(&device, &job, &mut std::io::stdout(), &interrupt::token());
    }
    Ok(exit::OK)
}

/// The command line that starts this program as a worker for a device.
pub fn worker_command(
    global: &Global,
    name: &'static str,
) -> anyhow::Result<impl Fn(DeviceId) -> std::process::Command + Send + Sync + 'static> {
    let program = std::env::current_exe().context("cannot find the polaris program")?;
    let limits = global.memory_limit.clone();
    Ok(move |device: DeviceId| {
        let mut command = std::process::Command::new(&program);
        command.args([name, "--worker", "--device", &device.to_string()]);
        for limit in &limits {
            command.args(["--memory-limit", &format!("{}={}", limit.device, limit.bytes)]);
        }
        command
    })
}
