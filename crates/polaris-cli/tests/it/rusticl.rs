//! A driver that crashes: Mesa's rusticl on llvmpipe. Polaris survives it, leaves the kernels out
//! that it gets wrong, and computes right without them.

use crate::common::{Answer, Home, skip};
use serde_json::Value;

/// Runs the command with rusticl's software device shown.
fn run(home: &Home, arguments: &str) -> Answer {
    let answer = Answer::of(home.command(arguments).env("RUSTICL_ENABLE", "llvmpipe"));
    assert!(answer.code.is_some(), "a signal ended `polaris {arguments}`: {answer:#?}");
    answer
}

/// The device of rusticl among those of `devices`.
fn rusticl_device(machine: &Value) -> Option<&Value> {
    machine["devices"].as_array()?.iter().find(|device| device["platform"] == "rusticl")
}

/// Its name on the command line; without one the test is skipped with a message, or fails if rusticl is required.
fn rusticl_id(home: &Home) -> Option<String> {
    let machine = run(home, "devices --json --no-first-check").exits_with(0).json();
    let Some(device) = rusticl_device(&machine) else {
        skip("rusticl", &format!("rusticl shows no device: {}", machine["opencl"]));
        return None;
    };
    Some(device["id"].as_str().unwrap().to_owned())
}

/// The sorted texts of a field.
fn texts<'a>(items: impl IntoIterator<Item = &'a Value>, field: &str) -> Vec<&'a str> {
    let mut texts: Vec<&str> =
        items.into_iter().map(|item| item[field].as_str().unwrap()).collect();
    texts.sort_unstable();
    texts
}

#[test]
fn a_check_survives_the_driver_and_quarantines_what_it_gets_wrong() {
    let home = Home::new();
    let Some(id) = rusticl_id(&home) else {
        return;
    };
    let answer = run(&home, &format!("check --quick --limit 10 --device {id} --json"));
    let check = answer.json();
    let device = &check["devices"][0];
    assert_eq!(device["device"], id.as_str());
    let kernels = device["kernels"].as_array().unwrap();
    assert!(kernels.len() >= 10, "only {} kernels were run: {check:#}", kernels.len());
    assert_eq!(device["results_are_right"], true, "{check:#}");

    let wrong: Vec<&Value> = kernels.iter().filter(|kernel| kernel["failed"] != 0).collect();
    for kernel in &wrong {
        assert_eq!(kernel["worked_around"], true, "{kernel:#}");
        assert!(!kernel["reason"].as_str().unwrap().is_empty(), "{kernel:#}");
    }
    assert_eq!(check["ok"], wrong.is_empty());
    assert_eq!(answer.code, Some(i32::from(!wrong.is_empty())), "{answer:#?}");

    let machine = run(&home, "devices --json").exits_with(0).json();
    let profile = &rusticl_device(&machine).unwrap()["profile"];
    let quarantined = texts(profile["quarantine"].as_array().unwrap(), "kernel");
    assert_eq!(quarantined, texts(wrong.iter().copied(), "kernel"));
    let status = if wrong.is_empty() { "passed" } else { "failed" };
    assert_eq!(profile["check"]["status"], status);
    assert_eq!(profile["check"]["failed"], wrong.len());
}

#[test]
fn the_first_check_of_a_new_device_survives_the_driver() {
    let home = Home::with_shared_cache();
    let Some(id) = rusticl_id(&home) else {
        return;
    };
    let arguments = format!("bench memory --size 1MiB --device {id} --json");
    let first = run(&home, &arguments).exits_with(0);
    assert_eq!(first.notes_with("running a quick check"), 1, "{first:#?}");
    assert_eq!(first.json()["results"].as_array().unwrap().len(), 3);
    let second = run(&home, &arguments).exits_with(0);
    assert_eq!(second.notes_with("running a quick check"), 0, "{second:#?}");
}

#[test]
fn llvmpipe_is_never_recommended_as_a_gpu() {
    let home = Home::with_shared_cache();
    let Some(id) = rusticl_id(&home) else {
        return;
    };
    let machine = run(&home, "devices --json --no-first-check").exits_with(0).json();
    assert_eq!(rusticl_device(&machine).unwrap()["kind"], "cpu");
    assert_ne!(machine["advice"]["device"], id.as_str());
}
