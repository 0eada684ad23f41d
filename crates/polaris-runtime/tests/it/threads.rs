//! Threads that the system refuses are a clear error, not the end of the process.

use crate::common::{answer, any_runtime, child, is_child, options_in, tell};
use polaris_runtime::cpu::MAX_THREADS;
use polaris_runtime::{Error, Runtime, RuntimeOptions};
use serde_json::json;
use tempfile::TempDir;

fn discover(threads: Option<usize>) -> Result<Runtime, Error> {
    let folder = TempDir::new().unwrap();
    let options = options_in(folder.path(), Vec::new());
    Runtime::discover(&RuntimeOptions { threads, opencl: false, ..options })
}

#[test]
fn a_number_of_threads_that_makes_no_sense_is_an_error() {
    for threads in [0, MAX_THREADS + 1, 100_000] {
        let message = discover(Some(threads)).unwrap_err().to_string();
        assert!(message.contains(&format!("{threads} threads")), "{message}");
        assert!(message.contains("from 1 to 1024"), "{message}");
    }
    assert!(any_runtime().cpu().as_cpu().unwrap().pool().threads() >= 1);
}

#[test]
fn child_asks_for_many_threads() {
    if !is_child() {
        return;
    }
    let refused = match discover(Some(MAX_THREADS)).unwrap_err() {
        Error::TooFewThreads { asked, made, .. } => (asked, made),
        other => panic!("{other}"),
    };
    tell(&json!({ "refused": refused, "default": discover(None).is_ok() }));
}

#[cfg(target_os = "linux")]
#[test]
fn threads_without_room_in_the_address_space_are_an_error() {
    let child = child("threads::child_asks_for_many_threads");
    // 1 GiB: room for some of 1024 threads of 2 MiB.
    let script = "ulimit -v 1048576 && exec \"$0\" \"$@\"";
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", script]).arg(child.get_program()).args(child.get_args());
    for (name, value) in child.get_envs() {
        match value {
            Some(value) => limited.env(name, value),
            None => limited.env_remove(name),
        };
    }
    let output = limited.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let found = answer(&output);
    let made = found["refused"][1].as_u64().unwrap();
    assert!((1..1024).contains(&made), "{found}");
    assert_eq!(found["default"], true, "{found}");
}
