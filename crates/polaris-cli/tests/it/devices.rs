//! `polaris devices` on machines with and without OpenCL, wrong usage, and what needs no device.

use std::fs;

use crate::common::{self, Answer, Home, skip};

#[test]
fn without_opencl_devices_shows_the_cpu_and_says_why_there_is_no_more() {
    let home = Home::new();
    let switched_off = Answer::of(home.command("devices").env("POLARIS_OPENCL", "off"));
    let parts = ["POLARIS_OPENCL=off", "unset it", "\ncpu ", "Recommended mode: cpu"];
    switched_off.exits_with(0).says(&parts);

    if !home.has_opencl() {
        return;
    }
    let empty = home.path("vendors");
    fs::create_dir(&empty).unwrap();
    let no_driver = Answer::of(home.command("devices").env("OCL_ICD_VENDORS", &empty));
    no_driver.exits_with(0).says(&["found no driver", "install", "Recommended mode: cpu"]);
}

#[test]
fn a_driver_file_that_names_a_missing_library_is_named_with_it() {
    let home = Home::new();
    if !home.has_opencl() {
        return;
    }
    let vendors = home.path("vendors");
    fs::create_dir(&vendors).unwrap();
    fs::write(vendors.join("broken.icd"), "/nowhere/libgone.so.1\n").unwrap();
    let mut command = home.command("devices");
    let answer = Answer::of(command.env("OCL_ICD_VENDORS", &vendors)).exits_with(0);
    answer.says(&["broken.icd", "/nowhere/libgone.so.1", "reinstall"]);
}

#[test]
fn devices_as_json_describes_the_machine() {
    let machine = Home::new().run("devices --json --no-first-check").exits_with(0).json();
    assert_eq!(machine["schema"], "polaris.devices/1");
    assert!(!machine["hardware"]["cpu"]["name"].as_str().unwrap().is_empty());
    assert!(machine["hardware"]["ram"]["total_bytes"].as_u64().unwrap() > 1 << 20);
    assert_eq!(machine["devices"][0]["id"], "cpu");
    let mode = machine["advice"]["mode"].as_str().unwrap();
    assert!(["cpu", "gpu", "hybrid"].contains(&mode), "{mode}");
    assert!(!machine["advice"]["reason"].as_str().unwrap().is_empty());
}

#[test]
fn pocl_is_never_recommended_as_a_gpu() {
    let home = Home::new();
    let vendors = home.path("vendors");
    fs::create_dir(&vendors).unwrap();
    // Whatever else this machine has, this run sees PoCL alone.
    if fs::copy("/etc/OpenCL/vendors/pocl.icd", vendors.join("pocl.icd")).is_err() {
        return skip("opencl", "PoCL is not installed");
    }
    let mut command = home.command("devices --json --no-first-check");
    let machine = Answer::of(command.env("OCL_ICD_VENDORS", &vendors)).exits_with(0).json();
    assert_eq!(machine["devices"][1]["platform"], "Portable Computing Language");
    assert_eq!(machine["devices"][1]["kind"], "cpu");
    assert_eq!(machine["devices"].as_array().unwrap().len(), 2);
    assert_eq!(machine["advice"]["mode"], "cpu");
    assert!(machine["advice"]["device"].is_null());
}

#[test]
fn an_unknown_device_is_wrong_usage_and_the_known_ones_are_listed() {
    let home = Home::new();
    let cpu = home.run("devices --json --no-first-check").json()["devices"][0]["name"].clone();
    for command in ["devices", "check --quick", "bench memory", "bench launch", "quickstart"] {
        let answer = home.run(&format!("{command} --device opencl:9")).exits_with(2);
        answer.says(&["`opencl:9`", "cpu (", cpu.as_str().unwrap()]);
    }
    home.run("devices --device no-such-card").exits_with(2).says(&["`no-such-card`", "cpu ("]);
    home.run("devices --device opencl:x").exits_with(2).says(&["`opencl:x`", "`cpu`", "`gpu`"]);
}

#[test]
fn an_impossible_memory_limit_is_wrong_usage_and_says_how_to_write_it() {
    let home = Home::new();
    for (limit, why) in [
        ("512MiB", "there is no `=`"),
        ("opencl:x=1GiB", "not a device"),
        ("cpu=lots", "not a size"),
        ("cpu=0", "without any memory"),
        ("cpu=9000TiB", "the device has only"),
    ] {
        let answer = home.run(&format!("devices --no-first-check --memory-limit {limit}"));
        answer.exits_with(2).says(&[why, "write it as in gpu=512MiB"]);
    }
    let by_name = home.run("devices --no-first-check --device cpu --memory-limit cpu=1GiB --json");
    assert_eq!(by_name.exits_with(0).json()["devices"][0]["memory"]["limit"], 1 << 30);
    let absent = home.run("devices --no-first-check --memory-limit opencl:9=1GiB");
    absent.exits_with(2).says(&["`opencl:9`", "cpu"]);
}

#[test]
fn out_of_memory_says_what_was_asked_is_used_and_is_left() {
    let home = Home::with_shared_cache();
    if !home.has_opencl() {
        return;
    }
    let arguments = "--memory-limit opencl:0=64MiB bench memory --device opencl:0 --size 64MiB \
                     --no-first-check";
    let message = "no room for 64 MiB: 64 MiB are in use and 0 B are left";
    home.run(arguments).exits_with(3).says(&["opencl:0", message, "--memory-limit"]);
    let failure = home.run(&format!("{arguments} --json")).exits_with(3).json();
    assert_eq!(failure["schema"], "polaris.error/1");
    assert_eq!(failure["exit_code"], 3);
    assert!(failure["error"].as_str().unwrap().contains(message), "{failure}");
}

#[test]
fn the_version_is_answered_without_opencl() {
    let home = Home::new();
    let answer = Answer::of(home.command("--version").env("LD_DEBUG", "files")).exits_with(0);
    assert!(answer.stdout.starts_with("polaris "), "{answer:#?}");
    assert!(answer.stdout.trim().ends_with(env!("CARGO_PKG_VERSION")), "{answer:#?}");
    if cfg!(all(target_os = "linux", target_env = "gnu")) {
        assert!(answer.stderr.contains("libc.so"), "LD_DEBUG should list libraries: {answer:#?}");
        assert!(!answer.stderr.contains("libOpenCL"), "{answer:#?}");
    }
    assert!(!home.cache().exists() && !home.data().exists(), "it should write nothing");
}

#[test]
fn completions_are_printed_for_every_shell() {
    let home = Home::new();
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let answer = home.run(&format!("completions {shell}")).exits_with(0);
        assert!(answer.stdout.lines().count() > 20, "{answer:#?}");
        answer.says(&["polaris", "quickstart", "memory-limit"]);
    }
    home.run("completions bash").says(&["complete -F _polaris"]);
    home.run("completions cobol").exits_with(2).says(&["bash", "zsh"]);
}

#[test]
fn the_help_of_every_command_has_examples() {
    let home = Home::new();
    let mut commands = vec![String::new()];
    let mut without = Vec::new();
    let mut seen = 0;
    while let Some(command) = commands.pop() {
        let answer = home.run(&format!("{command} --help")).exits_with(0);
        if !answer.stdout.contains("Examples:\n  polaris") {
            without.push(format!("polaris{command}"));
        }
        seen += 1;
        let listed = answer.stdout.lines().skip_while(|line| *line != "Commands:").skip(1);
        let names = listed
            .take_while(|line| !line.is_empty())
            // Descriptions that go on in the next line are indented further.
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next());
        commands
            .extend(names.filter(|name| *name != "help").map(|name| format!("{command} {name}")));
    }
    assert!(seen >= 9, "only {seen} commands were found in the help");
    assert!(without.is_empty(), "no examples in the help of {without:?}");
}

#[test]
fn wrong_usage_exits_with_2_and_no_command_shows_the_help() {
    let home = Home::new();
    home.run("no-such-command").exits_with(2).says(&["no-such-command", "--help"]);
    home.run("devices --no-such-option").exits_with(2).says(&["--no-such-option"]);
    home.run("bench memory --size 12").exits_with(2).says(&["64MiB"]);
    for threads in [0, 1025, 4096] {
        let answer = home.run(&format!("devices --threads {threads}"));
        answer.exits_with(2).says(&["--threads", "1..=1024"]);
    }
    home.run("").exits_with(2).says(&["Examples:", "quickstart"]);
}

/// A loader that is cut off used to end the process, whatever was asked for.
#[cfg(target_os = "linux")]
#[test]
fn a_broken_opencl_does_no_harm() {
    let home = Home::new();
    let folder = home.path("libraries");
    std::fs::create_dir(&folder).unwrap();
    let whole = std::fs::read(env!("CARGO_BIN_EXE_polaris")).unwrap();
    std::fs::write(folder.join("libOpenCL.so.1"), &whole[..whole.len() / 2]).unwrap();
    let devices = |options: &str| {
        let mut command = home.command(&format!("devices --json --no-first-check {options}"));
        command.env("LD_LIBRARY_PATH", &folder);
        common::Answer::of(&mut command).exits_with(0).json()
    };
    let found = devices("");
    assert_eq!(found["opencl"]["searched"], true);
    assert!(found["opencl"]["problems"].to_string().contains("truncated"), "{}", found["opencl"]);
    let found = devices("--device cpu");
    assert_eq!(found["opencl"]["searched"], false);
    assert_eq!(found["cures"], serde_json::json!([]), "nothing is known to be missing");
    assert_eq!(found["advice"]["mode"], "cpu");
}
