//! `polaris check` and what it leaves behind: built programs and verdicts.

use std::fs;
use std::path::PathBuf;

use crate::common::{Answer, Home};
use serde_json::{Value, json};

/// A few programs, with time enough for a machine that is busy with other things.
const QUICK: &str = "check reduce softmax --quick --limit 600 --device opencl:0 --json";

/// How many programs a check has built and found on disk.
fn programs(check: &Value) -> (u64, u64) {
    let count = |name: &str| check["programs"][name].as_u64().expect("a count of programs");
    (count("built"), count("from_disk"))
}

/// A quick check that must succeed.
fn quick_check(home: &Home) -> Value {
    let check = home.run(QUICK).exits_with(0).json();
    assert_eq!(check["ok"], true, "{check:#}");
    check
}

/// Whether the time limit left nothing out.
fn is_whole(check: &Value) -> bool {
    check["devices"][0]["left_out"] == 0
}

/// A driver that compiles slowly gets through a quick check bit by bit: each one comes further,
/// since it finds the programs of those before.
const ROUNDS: usize = 20;

/// Checks until every program that a quick check needs is in the cache.
fn fill_cache(home: &Home) -> Value {
    let mut checks = (0..ROUNDS).map(|_| quick_check(home));
    checks.find(is_whole).expect("a quick check should come to its end with a filled cache")
}

/// The programs in the cache, the largest first.
fn program_files(home: &Home) -> Vec<PathBuf> {
    let entries = fs::read_dir(home.cache().join("programs")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "program"));
    files.sort_by_key(|file| std::cmp::Reverse(file.metadata().unwrap().len()));
    files
}

#[test]
fn the_cpu_passes_its_check() {
    let check = Home::new().run("check --quick --device cpu --json").exits_with(0).json();
    assert_eq!(check["schema"], "polaris.check/1");
    assert_eq!(check["ok"], true);
    assert_eq!(check["devices"][0]["device"], "cpu");
    assert!(!check["devices"][0]["kernels"].as_array().unwrap().is_empty());
    assert_eq!(programs(&check), (0, 0));
}

/// How many kernels were run and exist, over all suites.
fn kernels(check: &Value) -> (u64, u64) {
    let device = &check["devices"][0];
    let count = |of: &Value, name: &str| of[name].as_u64().expect("a count of kernels");
    let sum = |name: &str| -> u64 {
        device["suites"].as_array().unwrap().iter().map(|suite| count(suite, name)).sum()
    };
    let counts = (count(device, "kernels_run"), count(device, "kernels_exist"));
    assert_eq!(counts, (sum("kernels_run"), sum("kernels_exist")), "{check:#}");
    counts
}

#[test]
fn a_check_says_how_many_kernels_it_ran() {
    let home = Home::new();
    let (some, exist) =
        kernels(&home.run("check --quick --device cpu --json").exits_with(0).json());
    assert!(0 < some && some < exist, "{some} of {exist}");
    let whole = home.run("check --device cpu --json").exits_with(0).json();
    assert_eq!(kernels(&whole), (exist, exist));
    home.run("check --quick --device cpu").exits_with(0).says(&[&format!("{some} of {exist}")]);
    home.run("check --quick --full").exits_with(2);
}

#[test]
fn a_check_of_some_operations_is_none_of_the_device() {
    let home = Home::new();
    let check = home.run("check softmax norm --device cpu --json").exits_with(0).json();
    let device = &check["devices"][0];
    let suites = device["suites"].as_array().unwrap().iter();
    assert_eq!(suites.map(|suite| &suite["suite"]).collect::<Vec<_>>(), ["softmax", "norm"]);
    let (run, exist) = kernels(&check);
    assert!(run == exist && run > 0, "{run} of {exist}");
    let listed = home.run("devices --no-first-check --json").exits_with(0).json();
    assert_eq!(listed["devices"][0]["check"], Value::Null, "{listed:#}");
    home.run("check softmix").exits_with(2);
}

#[test]
fn a_filled_cache_builds_nothing_and_damaged_programs_are_built_anew() {
    let home = Home::new();
    if !home.has_opencl() {
        return;
    }
    let first = quick_check(&home);
    assert!(programs(&first).0 > 0, "{first:#}");
    if !is_whole(&first) {
        fill_cache(&home);
    }
    fs::remove_dir_all(home.data()).unwrap();
    let (built, from_disk) = programs(&quick_check(&home));
    assert!(built == 0 && from_disk > 0, "{built} built, {from_disk} from disk");

    let files = program_files(&home);
    let bytes = fs::read(&files[0]).unwrap();
    fs::write(&files[0], &bytes[..bytes.len() / 2]).unwrap();
    let mut bytes = fs::read(&files[1]).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&files[1], &bytes).unwrap();
    assert_eq!(programs(&quick_check(&home)), (2, from_disk - 2));
    assert_eq!(programs(&quick_check(&home)), (0, from_disk));
}

#[test]
fn processes_at_once_build_each_program_once() {
    let home = Home::new();
    if !home.has_opencl() {
        return;
    }
    fs::remove_dir_all(home.cache()).unwrap();
    let mut built = 0;
    for round in 0.. {
        assert!(round < ROUNDS, "quick checks should come to their end with a filled cache");
        let at_once = [(); 2].map(|()| home.command(QUICK).spawn().unwrap());
        let checks = at_once.map(|check| {
            let answer = Answer::from(check.wait_with_output().unwrap());
            answer.exits_with(0).json()
        });
        built += checks.iter().map(|check| programs(check).0).sum::<u64>();
        if checks.iter().all(is_whole) {
            break;
        }
    }
    let there_are = program_files(&home).len() as u64;
    assert!(built <= there_are, "{there_are} programs were built {built} times");
    let (built, from_disk) = programs(&quick_check(&home));
    assert!(built == 0 && from_disk > 0, "{built} built, {from_disk} from disk");
}

#[test]
fn without_a_cache_folder_all_works_and_one_note_says_so() {
    let place = Home::new();
    fs::write(place.path("file"), "no folder").unwrap();
    let home = Home::with_cache(&place.path("file").join("cache"));
    let note = "cannot store programs in";
    let answer = home.run("devices --no-first-check").exits_with(0);
    assert_eq!(answer.notes_with(note), 1, "{answer:#?}");
    if home.has_opencl() {
        let answer = home.run(QUICK).exits_with(0);
        assert_eq!(answer.json()["ok"], true);
        assert_eq!(answer.notes_with(note), 1, "{answer:#?}");
    }
}

#[test]
fn a_new_device_is_checked_once_and_announced() {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let note = "is new with this driver";
    let first = home.run("devices").exits_with(0);
    let devices = first.stdout.lines().filter(|line| line.starts_with("opencl:")).count();
    assert_eq!(first.notes_with(note), devices, "{first:#?}");
    assert!(first.stdout.contains("quick check: passed"), "{first:#?}");
    let second = home.run("devices").exits_with(0);
    assert_eq!(second.notes_with(note), 0, "{second:#?}");
    assert!(second.stdout.contains("quick check: passed"), "{second:#?}");
}

#[test]
fn a_quarantined_kernel_is_listed_left_out_and_released_by_a_check() {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let check = fill_cache(&home);
    let innocent = check["devices"][0]["kernels"][0]["kernel"].as_str().unwrap();
    let mut profile: Value = serde_json::from_slice(&fs::read(home.profile()).unwrap()).unwrap();
    for device in profile["devices"].as_object_mut().unwrap().values_mut() {
        device["quarantine"] = json!([
            { "kernel": "add_f32_vector", "reason": "test" },
            { "kernel": innocent, "reason": "a test too" },
        ]);
    }
    fs::write(home.profile(), profile.to_string()).unwrap();

    let innocent_line = format!("quarantined: {innocent}: a test too");
    let listed = home.run("devices").exits_with(0);
    listed.says(&["quarantined: add_f32_vector: test", &innocent_line]);

    let bench = home.run("bench launch --device opencl:0").exits_with(0);
    assert_eq!(bench.notes_with("add_f32_vector is quarantined"), 1, "{bench:#?}");
    assert_eq!(bench.notes_with("the next kernel is used"), 1, "{bench:#?}");

    fill_cache(&home);
    let listed = home.run("devices").exits_with(0);
    assert!(!listed.stdout.contains(&innocent_line), "{listed:#?}");
}
