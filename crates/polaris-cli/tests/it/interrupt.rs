//! Ctrl-C: the exit code is 130, files are whole, and nothing is blamed for what was stopped.

#![cfg(unix)]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use crate::common::{Answer, Home};
use serde_json::Value;

/// Starts the command in a process group of its own, as a shell does.
fn start(home: &Home, arguments: &str) -> Child {
    home.command(arguments).process_group(0).spawn().unwrap()
}

/// Ctrl-C in a terminal: the whole group gets the signal.
fn press_ctrl_c(child: Child) -> Answer {
    let group = format!("-{}", child.id());
    let sent = Command::new("kill").args(["-INT", "--", &group]).status();
    assert!(sent.unwrap().success());
    Answer::from(child.wait_with_output().unwrap())
}

fn wait_for(path: &Path) {
    let start = Instant::now();
    while !path.exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "{} never came", path.display());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The profile, if there is one: it can be read, and beside it is nothing but its lock.
fn profile(home: &Home) -> Option<Value> {
    for entry in fs::read_dir(home.data()).into_iter().flatten() {
        let name = entry.unwrap().file_name();
        assert!(name == "machine.json" || name == "machine.lock", "{name:?} was left behind");
    }
    let text = fs::read_to_string(home.profile()).ok()?;
    let profile: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(profile["schema"], "polaris.machine/1");
    Some(profile)
}

#[test]
fn ctrl_c_while_measuring_keeps_nothing_of_the_device_under_way() {
    let home = Home::new();
    let measuring = start(&home, "devices --measure --no-first-check");
    // It listens to Ctrl-C before it makes this folder.
    wait_for(&home.cache().join("programs"));
    press_ctrl_c(measuring).exits_with(130).says(&["stopped by the user"]);
    assert_eq!(profile(&home), None);
}

#[test]
fn ctrl_c_while_measuring_keeps_the_devices_before() {
    if !Home::with_shared_cache().has_opencl() {
        return;
    }
    // The driver may be compiling just then, or not: both must hold.
    for delay in [0, 20, 60] {
        let home = Home::new();
        let measuring = start(&home, "devices --measure --no-first-check --json");
        wait_for(&home.profile());
        std::thread::sleep(Duration::from_millis(delay));
        let failure = press_ctrl_c(measuring).exits_with(130).json();
        assert_eq!(failure["schema"], "polaris.error/1");
        assert_eq!(failure["exit_code"], 130);
        let profile = profile(&home).unwrap();
        assert_eq!(profile["devices"].as_object().unwrap().len(), 1, "{profile:#}");
        home.run("devices --no-first-check").exits_with(0).says(&["measured: "]);
    }
}

/// PoCL's compiler has a handler of its own for the signal: it removes its temporary files, so
/// that the build under way fails. That is not the kernel's fault.
#[test]
fn ctrl_c_during_a_check_quarantines_no_kernel() {
    if !Home::with_shared_cache().has_opencl() {
        return;
    }
    for delay in [150, 230, 310, 390, 470, 550] {
        let home = Home::new();
        let checking = start(&home, "check --device opencl:0 --json");
        wait_for(&home.cache().join("programs"));
        std::thread::sleep(Duration::from_millis(delay));
        let check = press_ctrl_c(checking).exits_with(130).json();
        assert_eq!(check["devices"][0]["cancelled"], true);
        let profile = profile(&home).unwrap();
        for device in profile["devices"].as_object().unwrap().values() {
            assert_eq!(device["quarantine"], Value::Array(Vec::new()), "{profile:#}");
        }
    }
}

#[test]
fn ctrl_c_during_the_check_of_quickstart_exits_with_130() {
    let home = Home::new();
    if !home.has_opencl() {
        return;
    }
    let starting = start(&home, "quickstart --device opencl:0 --json");
    // The figures of the one device are written, then it is checked.
    wait_for(&home.profile());
    press_ctrl_c(starting).exits_with(130);
    profile(&home).unwrap();
}

#[test]
fn ctrl_c_during_a_first_check_skips_it_and_the_command_goes_on() {
    let home = Home::new();
    if !home.has_opencl() {
        return;
    }
    let mut command = home.command("devices --device opencl:0");
    let stderr = home.path("stderr");
    let child = command.stderr(fs::File::create(&stderr).unwrap()).process_group(0).spawn();
    let begin = Instant::now();
    while !fs::read_to_string(&stderr).unwrap().contains("Ctrl-C skips it") {
        assert!(begin.elapsed() < Duration::from_secs(60), "no check was announced");
        std::thread::sleep(Duration::from_millis(1));
    }
    press_ctrl_c(child.unwrap()).exits_with(0).says(&["skipped", "Recommended mode"]);
    assert!(fs::read_to_string(&stderr).unwrap().contains("the check was skipped"));
}
