//! Looking for devices under every circumstance a user's environment brings about: there is always
//! the CPU, and there is a reason in words for what is missing. Each case is a process of its own,
//! since OpenCL's loader reads the environment once.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{
    answer, any_runtime, child, is_child, opencl_devices, options_in, runtime, skip, tell,
};
use polaris_runtime::{DeviceExt, DeviceId, Error, Runtime, RuntimeOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Tells what discovery finds, and that the CPU works whatever that is.
#[test]
fn child_discovers() {
    if !is_child() {
        return;
    }
    let folder = TempDir::new().unwrap();
    let opencl = std::env::var_os(CPU_ONLY).is_none();
    let options = RuntimeOptions { opencl, ..options_in(folder.path(), Vec::new()) };
    let runtime = Runtime::discover(&options).unwrap();
    let buffer = runtime.cpu().upload(&[1i32, 2, 3]).unwrap();
    assert_eq!(buffer.to_vec::<i32>().unwrap(), [1, 2, 3]);
    let unknown = runtime.device(DeviceId::OpenCl(99)).unwrap_err();
    tell(&json!({
        "devices": runtime.devices().iter().map(|device| device.id()).collect::<Vec<_>>(),
        "opencl": runtime.opencl(),
        "rusticl": std::env::var("RUSTICL_ENABLE").ok(),
        "unknown": unknown.to_string(),
        "loaded": fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("OpenCL")),
    }));
}

/// Set for a child that asks for the CPU only.
const CPU_ONLY: &str = "POLARIS_TEST_CPU_ONLY";

fn discover() -> Command {
    let mut command = child("discovery::child_discovers");
    for name in ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH", "OCL_ICD_FILENAMES"] {
        command.env_remove(name);
    }
    command
}

#[track_caller]
fn found_by(command: &mut Command) -> Value {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    answer(&output)
}

/// What is found with only these driver files; nothing where there is no loader to read them.
#[track_caller]
fn found_with_drivers(files: &[(&str, &[u8])]) -> Option<(TempDir, Value)> {
    let folder = TempDir::new().unwrap();
    for (name, contents) in files {
        fs::write(folder.path().join(name), contents).unwrap();
    }
    let found = found_by(discover().env("OCL_ICD_VENDORS", folder.path()));
    assert_eq!(found["devices"], json!(["cpu"]), "{found}");
    if found["opencl"]["available"] == false {
        skip(&problems(&found));
        return None;
    }
    Some((folder, found))
}

fn problems(found: &Value) -> String {
    let problems = found["opencl"]["problems"].as_array().unwrap();
    problems.iter().map(|problem| problem.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[track_caller]
fn assert_names(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in: {text}");
    }
}

#[test]
fn opencl_is_switched_off_by_the_user() {
    for off in ["off", "OFF", "Off"] {
        let found = found_by(discover().env("POLARIS_OPENCL", off));
        assert_eq!(found["devices"], json!(["cpu"]));
        assert_eq!(found["opencl"]["available"], false);
        assert_names(&problems(&found), &["POLARIS_OPENCL=off", "unset it"]);
        // Whoever asks for OpenCL then is told why there is none.
        assert_names(found["unknown"].as_str().unwrap(), &["opencl:99", "POLARIS_OPENCL=off"]);
        assert_eq!(found["rusticl"], Value::Null, "and nothing is prepared for it");
    }
}

#[test]
fn a_loader_without_drivers_is_a_reason() {
    let Some((_folder, found)) = found_with_drivers(&[]) else { return };
    assert_names(&problems(&found), &["the OpenCL loader found no driver", "install"]);
    assert_eq!(found["opencl"]["icds"], json!([]));
    assert_eq!(found["opencl"]["platforms"], json!([]));
    assert_names(found["unknown"].as_str().unwrap(), &["cpu (", "no OpenCL device", "no driver"]);
}

#[test]
fn a_vendor_folder_that_does_not_exist_is_survived() {
    let missing = Path::new("/no/such/folder/of/drivers");
    let found = found_by(discover().env("OCL_ICD_VENDORS", missing));
    assert_eq!(found["devices"], json!(["cpu"]));
    assert!(!problems(&found).is_empty());
}

#[test]
fn a_driver_file_that_names_a_missing_library_is_named() {
    let missing = "libno-such-driver-of-polaris.so.1";
    let icd = ("missing.icd", format!("{missing}\n"));
    let files = [(icd.0, icd.1.as_bytes()), ("readme.txt", b"not a driver file")];
    let Some((folder, found)) = found_with_drivers(&files) else { return };
    let file = folder.path().join(icd.0).display().to_string();
    assert_names(&problems(&found), &[&file, missing, "cannot be loaded", "reinstall"]);
    let icds = found["opencl"]["icds"].as_array().unwrap();
    assert_eq!(icds.len(), 1, "{icds:?}");
    assert_eq!((&icds[0]["file"], &icds[0]["library"]), (&json!(file), &json!(missing)));
}

#[test]
fn a_driver_file_without_a_library_is_named() {
    let files: [(&str, &[u8]); 3] = [("a.icd", b""), ("b.icd", b"\n"), ("c.icd", b"  \n\n")];
    let Some((_folder, found)) = found_with_drivers(&files) else { return };
    assert_names(&problems(&found), &["a.icd", "b.icd", "c.icd", "names no library"]);
    assert_eq!(found["opencl"]["icds"].as_array().unwrap().len(), 3);
}

#[test]
fn a_driver_file_of_garbage_is_named() {
    let scrambled = |i: u32| (i.wrapping_mul(2_654_435_761) >> 24) as u8;
    let garbage: Vec<u8> = (1..3000).map(scrambled).collect();
    let files: [(&str, &[u8]); 4] = [
        ("garbage.icd", &garbage),
        ("half.icd", b"libhalf.so\0.1\n"),
        ("long.icd", &[b'a'; 20_000]),
        // A file that is there and that is not a library.
        ("text.icd", b"/etc/passwd\n"),
    ];
    let Some((_folder, found)) = found_with_drivers(&files) else { return };
    assert_names(&problems(&found), &files.map(|(name, _)| name));
    assert_names(&problems(&found), &["/etc/passwd"]);
    for icd in found["opencl"]["icds"].as_array().unwrap() {
        assert!(icd["problem"].is_string(), "{icd}");
    }
}

/// ocl-icd 2.3.1 reads such a file as an empty line and ends the process in `clGetPlatformIDs`
/// (`clinfo` too), so it must not be asked at all.
#[test]
fn a_driver_file_that_begins_with_a_zero_byte_is_named() {
    let Some((_folder, found)) = found_with_drivers(&[("zeros.icd", &[0; 100])]) else { return };
    assert_names(&problems(&found), &["zeros.icd"]);
}

#[cfg(target_env = "gnu")]
#[test]
fn a_library_that_cannot_be_loaded_has_the_systems_reason() {
    let files: [(&str, &[u8]); 2] =
        [("a.icd", b"libno-such-driver.so\n"), ("b.icd", b"/etc/passwd\n")];
    let Some((_folder, found)) = found_with_drivers(&files) else { return };
    assert_names(&problems(&found), &["cannot open shared object file", "invalid ELF header"]);
}

#[test]
fn a_driver_file_that_is_a_folder_or_a_dead_link_is_survived() {
    let folder = TempDir::new().unwrap();
    fs::create_dir(folder.path().join("folder.icd")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("/no/such/file", folder.path().join("link.icd")).unwrap();
    let found = found_by(discover().env("OCL_ICD_VENDORS", folder.path()));
    assert_eq!(found["devices"], json!(["cpu"]));
    if found["opencl"]["available"] == false {
        return skip(&problems(&found));
    }
    assert_names(&problems(&found), &["folder.icd", "link.icd", "cannot be read"]);
}

/// The first half of a library that this process has loaded.
#[cfg(target_os = "linux")]
fn half_a_library() -> Vec<u8> {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps.lines().find_map(|line| {
        let path = line.split_whitespace().last()?;
        path.contains("libc.so").then(|| fs::read(path).unwrap())
    });
    let library = library.expect("a test should have loaded the C library");
    library[..library.len() / 2].to_vec()
}

#[cfg(target_os = "linux")]
#[test]
fn a_driver_that_is_cut_off_is_named_and_not_loaded() {
    let libraries = TempDir::new().unwrap();
    let library = libraries.path().join("driver.so");
    fs::write(&library, half_a_library()).unwrap();
    let icd = format!("{}\n", library.display());
    let files = [("half.icd", icd.as_bytes())];
    let Some((_folder, found)) = found_with_drivers(&files) else { return };
    assert_names(&problems(&found), &["half.icd", "driver.so", "truncated", "reinstall"]);
    // A driver that is named without a file.
    let empty = TempDir::new().unwrap();
    let found = found_by(
        discover().env("OCL_ICD_VENDORS", empty.path()).env("OCL_ICD_FILENAMES", &library),
    );
    assert_names(&problems(&found), &["driver.so", "truncated"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_driver_file_or_driver_that_is_no_regular_file_is_named_and_not_opened() {
    let folder = TempDir::new().unwrap();
    let fifo = folder.path().join("fifo.icd");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", folder.path().join("zero.icd")).unwrap();
    fs::write(folder.path().join("names.icd"), format!("{}\n", fifo.display())).unwrap();
    let sparse = fs::File::create(folder.path().join("huge.icd")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    let found = found_by(discover().env("OCL_ICD_VENDORS", folder.path()));
    assert_eq!(found["devices"], json!(["cpu"]));
    if found["opencl"]["available"] == false {
        return skip(&problems(&found));
    }
    let expected = ["fifo.icd", "a FIFO", "zero.icd", "a device", "names.icd", "huge.icd"];
    assert_names(&problems(&found), &expected);
    assert_names(&problems(&found), &["crash or hang", "remove"]);
}

#[test]
fn what_a_driver_file_holds_cannot_steer_a_terminal() {
    let icd = ("escape.icd", &b"lib\x1b[31mred.so\n"[..]);
    let Some((_folder, found)) = found_with_drivers(&[icd]) else { return };
    assert_names(&problems(&found), &["lib\\u{1b}[31mred.so"]);
    assert!(!problems(&found).replace('\n', "").contains(char::is_control));
}

#[cfg(target_os = "linux")]
#[test]
fn a_loader_that_is_cut_off_is_named_and_not_loaded() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("libOpenCL.so.1"), half_a_library()).unwrap();
    let found = found_by(discover().env("LD_LIBRARY_PATH", folder.path()));
    assert_eq!(found["devices"], json!(["cpu"]));
    assert_eq!(found["opencl"]["available"], false);
    assert_names(&problems(&found), &["libOpenCL.so.1", "truncated", "reinstall"]);
    assert_eq!(found["loaded"], false);
}

#[test]
fn nothing_of_opencl_is_opened_where_only_the_cpu_is_asked_for() {
    let found = found_by(discover().env(CPU_ONLY, "1"));
    assert_eq!(found["devices"], json!(["cpu"]));
    assert_eq!(found["opencl"]["searched"], false);
    assert_eq!(found["opencl"]["available"], false);
    assert_eq!(found["opencl"]["icds"], json!([]));
    assert_eq!(found["loaded"], false, "no library of OpenCL is in the process");
    assert_eq!(found["rusticl"], Value::Null);
    assert_names(&problems(&found), &["not searched", "only the CPU"]);
}

#[test]
fn rusticl_is_enabled_unless_the_user_has_decided() {
    let folder = TempDir::new().unwrap();
    let start = || {
        let mut command = discover();
        command.env("OCL_ICD_VENDORS", folder.path());
        command
    };
    let enabled = found_by(&mut start());
    assert_names(enabled["rusticl"].as_str().unwrap(), &["radeonsi", "iris"]);
    for decided in ["", "swrast", "radeonsi:0"] {
        let found = found_by(start().env("RUSTICL_ENABLE", decided));
        assert_eq!(found["rusticl"], decided);
    }
}

#[test]
fn drivers_that_work_are_found_by_a_fresh_process() {
    let runtime = runtime();
    if opencl_devices(&runtime).is_empty() {
        return;
    }
    let ids: Vec<String> = runtime.devices().iter().map(|device| device.id().to_string()).collect();
    let mut command = child("discovery::child_discovers");
    // Values other than `off` do not switch OpenCL off.
    let found = found_by(command.env("POLARIS_OPENCL", "on"));
    assert_eq!(found["devices"], json!(ids));
    assert_eq!(found["opencl"]["available"], true);
    assert!(!found["opencl"]["platforms"].as_array().unwrap().is_empty());
}

#[test]
fn an_unknown_device_is_answered_with_those_there_are() {
    let runtime = any_runtime();
    let asked = DeviceId::OpenCl(runtime.devices().len());
    let error = runtime.device(asked).unwrap_err();
    assert!(matches!(error, Error::UnknownDevice { .. }), "{error:?}");
    let message = error.to_string();
    assert_names(&message, &[&format!("`{asked}`")]);
    for device in runtime.devices() {
        assert_names(&message, &[&format!("{} ({})", device.id(), device.info().name)]);
        assert_eq!(runtime.device(device.id()).unwrap().id(), device.id());
    }
    assert_eq!(runtime.cpu().id(), DeviceId::Cpu);
}

/// Tells where files would lie.
#[test]
fn child_tells_its_folders() {
    if !is_child() {
        return;
    }
    let paths = RuntimeOptions::default().paths;
    tell(&json!([paths.cache, paths.data]));
}

#[cfg(unix)]
#[test]
fn tests_leave_the_folders_of_the_user_alone() {
    // Cargo reads `.cargo/config.toml`; a binary that is started by hand has what its user set.
    let by_cargo = std::env::var_os("CARGO").is_some();
    assert!(!by_cargo || std::env::var_os("POLARIS_TEST_DIR").is_some());
    let found = |set: &[(&str, &str)]| {
        let mut command = child("discovery::child_tells_its_folders");
        for name in ["POLARIS_TEST_DIR", "POLARIS_CACHE_DIR", "POLARIS_DATA_DIR"] {
            command.env_remove(name);
        }
        found_by(command.envs(set.iter().copied()))
    };
    let below = ("POLARIS_TEST_DIR", "/test");
    assert_eq!(found(&[below]), json!(["/test/cache", "/test/data"]));
    let cache = ("POLARIS_CACHE_DIR", "/cache");
    assert_eq!(found(&[below, cache]), json!(["/cache", "/test/data"]));
    let data = ("POLARIS_DATA_DIR", "/data");
    assert_eq!(found(&[cache, data]), json!(["/cache", "/data"]));
}
