//! Built programs on disk: each is built once on a machine, whoever asks, and a damaged file costs
//! a build but never a wrong result.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Child;

use crate::common::{
    ADD, Enqueue, answer, child, discover_in, is_child, opencl_devices, source, tell,
};
use polaris_runtime::machine::Paths;
use polaris_runtime::opencl::{Defines, OpenClDevice, ProgramCounts, ProgramSource};
use polaris_runtime::{DeviceExt, DeviceRef, Runtime, RuntimeOptions};
use sha2::{Digest, Sha256};
use tempfile::TempDir;

/// Adds through a program that nothing else asks for; returns how that came to be.
fn counts_of_adding(device: &DeviceRef) -> ProgramCounts {
    let opencl = device.as_opencl().unwrap();
    let before = opencl.program_counts();
    let kernel = opencl.kernel(("cached", 0), "add", || source("cached", &[ADD])).unwrap();
    let x = device.upload(&[1i32, 2, 3]).unwrap();
    opencl.launch(&kernel).buffer(&x, 0).buffer(&x, 0).value(40i32).enqueue(&[3], &[1]).unwrap();
    assert_eq!(x.to_vec::<i32>().unwrap(), [41, 42, 43]);
    let after = opencl.program_counts();
    ProgramCounts {
        built: after.built - before.built,
        from_disk: after.from_disk - before.from_disk,
    }
}

const BUILT: ProgramCounts = ProgramCounts { built: 1, from_disk: 0 };
const FROM_DISK: ProgramCounts = ProgramCounts { built: 0, from_disk: 1 };
const FROM_MEMORY: ProgramCounts = ProgramCounts { built: 0, from_disk: 0 };

fn program_files(runtime: &Runtime) -> Vec<PathBuf> {
    let folder = runtime.program_cache().folder().unwrap();
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "program")).collect()
}

/// Builds the program of `counts_of_adding` in a fresh folder; returns its file for each device.
fn files_of_a_first_run(folder: &Path) -> Vec<PathBuf> {
    let runtime = discover_in(folder, Vec::new());
    let probes = program_files(&runtime);
    for device in opencl_devices(&runtime) {
        // Two devices of one kind share their programs.
        assert_ne!(counts_of_adding(device), FROM_MEMORY);
        assert_eq!(counts_of_adding(device), FROM_MEMORY, "built once in a process");
    }
    let mut files = program_files(&runtime);
    files.retain(|file| !probes.contains(file));
    assert_eq!(runtime.program_cache().contents().0, probes.len() + files.len());
    files
}

#[test]
fn a_second_runtime_reads_what_the_first_one_built() {
    let folder = TempDir::new().unwrap();
    files_of_a_first_run(folder.path());
    let second = discover_in(folder.path(), Vec::new());
    for device in opencl_devices(&second) {
        assert_eq!(device.as_opencl().unwrap().program_counts().built, 0, "probes are kept too");
        assert_eq!(counts_of_adding(device), FROM_DISK);
        assert_eq!(counts_of_adding(device), FROM_MEMORY);
    }
    let count = second.program_cache().contents().0;
    assert_eq!(second.program_cache().clear().unwrap(), count);
    assert_eq!(second.program_cache().contents(), (0, 0));
    let third = discover_in(folder.path(), Vec::new());
    for device in opencl_devices(&third).iter().take(1) {
        assert_eq!(counts_of_adding(device), BUILT);
    }
}

#[test]
fn other_defines_or_options_are_another_program() {
    let folder = TempDir::new().unwrap();
    let runtime = discover_in(folder.path(), Vec::new());
    for device in opencl_devices(&runtime).iter().take(1) {
        let opencl = device.as_opencl().unwrap();
        let start = opencl.program_counts().built;
        let variants = [(1, ""), (2, ""), (1, "-cl-mad-enable"), (1, "")];
        for ((number, options), key) in variants.into_iter().zip(0..) {
            let defines = Defines::new().number("UNUSED", number);
            let name = format!("variant {key}");
            let program = || ProgramSource { name, parts: &[ADD], defines, options };
            opencl.kernel(("variant", key), "add", program).unwrap();
        }
        assert_eq!(opencl.program_counts().built - start, 3, "the last is the first again");
    }
}

/// Damages the program's files, then expects a build, and a repaired file if that can be.
fn after_damage(what: &str, repaired: bool, damage: impl Fn(&Path)) {
    let folder = TempDir::new().unwrap();
    for file in files_of_a_first_run(folder.path()) {
        damage(&file);
    }
    let second = discover_in(folder.path(), Vec::new());
    for device in opencl_devices(&second).iter().take(1) {
        assert_eq!(counts_of_adding(device), BUILT, "{what}");
        let third = discover_in(folder.path(), Vec::new());
        let expected = if repaired { FROM_DISK } else { BUILT };
        assert_eq!(counts_of_adding(third.device(device.id()).unwrap()), expected, "{what}");
    }
}

fn change(file: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(file).unwrap();
    change(&mut bytes);
    fs::write(file, bytes).unwrap();
}

#[test]
fn a_truncated_file_is_built_anew() {
    after_damage("empty", true, |file| change(file, Vec::clear));
    after_damage("in the header", true, |file| change(file, |bytes| bytes.truncate(30)));
    after_damage("half", true, |file| change(file, |bytes| bytes.truncate(bytes.len() / 2)));
    after_damage("by one", true, |file| change(file, |bytes| bytes.truncate(bytes.len() - 1)));
}

#[test]
fn a_file_with_a_flipped_bit_is_built_anew() {
    after_damage("in the header", true, |file| change(file, |bytes| bytes[20] ^= 0x40));
    after_damage("in the middle", true, |file| {
        change(file, |bytes| {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        });
    });
    after_damage("at the end", true, |file| {
        change(file, |bytes| *bytes.last_mut().unwrap() ^= 128)
    });
    after_damage("longer", true, |file| change(file, |bytes| bytes.push(0)));
}

#[test]
fn a_file_that_is_gone_or_a_directory_is_built_anew() {
    after_damage("gone", true, |file| fs::remove_file(file).unwrap());
    after_damage("a directory", false, |file| {
        fs::remove_file(file).unwrap();
        fs::create_dir(file).unwrap();
    });
}

#[test]
fn a_binary_that_the_driver_refuses_is_built_anew() {
    after_damage("not a binary, with the right checksum", true, |file| {
        change(file, |bytes| {
            let header =
                bytes.split(|&byte| byte == b'\n').take(2).collect::<Vec<_>>().join(&b'\n');
            let payload = b"this is no binary of any driver";
            let checksum: String =
                Sha256::digest(payload).iter().map(|b| format!("{b:02x}")).collect();
            *bytes = [&header[..], b"\n", checksum.as_bytes(), b"\n", payload].concat();
        });
    });
}

#[test]
fn without_a_folder_to_write_to_everything_works() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a regular file");
    fs::write(&file, "in the way").unwrap();
    // Below a file nothing can be made, not even by root, whom permissions do not bind.
    for cache in [None, Some(file.clone()), Some(file.join("below"))] {
        let paths = Paths { cache, data: None };
        let options = RuntimeOptions { threads: Some(1), paths, ..RuntimeOptions::default() };
        for _ in 0..2 {
            let runtime = Runtime::discover(&options).unwrap();
            for device in opencl_devices(&runtime) {
                assert_eq!(counts_of_adding(device), BUILT);
                assert_eq!(counts_of_adding(device), FROM_MEMORY);
            }
            assert_eq!(runtime.program_cache().contents(), (0, 0));
        }
    }
    assert_eq!(fs::read_to_string(file).unwrap(), "in the way");
}

#[test]
fn threads_that_want_one_program_build_it_once() {
    let folder = TempDir::new().unwrap();
    let runtime = discover_in(folder.path(), Vec::new());
    for device in opencl_devices(&runtime).iter().take(1) {
        let opencl = device.as_opencl().unwrap();
        let before = opencl.program_counts();
        let barrier = std::sync::Barrier::new(8);
        std::thread::scope(|scope| {
            for thread in 0..8u64 {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    // Half of them under the same key, the others under keys of their own.
                    let key = ("threads", thread.saturating_sub(4));
                    opencl.kernel(key, "add", || source("threads", &[ADD])).unwrap();
                });
            }
        });
        let after = opencl.program_counts();
        assert_eq!((after.built - before.built, after.from_disk - before.from_disk), (1, 0));
    }
}

const FOLDER: &str = "POLARIS_TEST_FOLDER";

/// Waits for the word to go, asks for a few programs, and tells how they came to be.
#[test]
fn child_builds_programs() {
    if !is_child() {
        return;
    }
    std::io::stdin().read_line(&mut String::new()).unwrap();
    let folder = std::env::var_os(FOLDER).unwrap();
    let runtime = discover_in(Path::new(&folder), Vec::new());
    let mut total = ProgramCounts::default();
    for device in &runtime.devices()[1..] {
        counts_of_adding(device);
        several_programs(device.as_opencl().unwrap());
        let counts = device.as_opencl().unwrap().program_counts();
        total.built += counts.built;
        total.from_disk += counts.from_disk;
    }
    tell(&serde_json::json!([total.built, total.from_disk]));
}

fn several_programs(device: &OpenClDevice) {
    for number in 0..5i64 {
        let program = || ProgramSource {
            name: "one of several".into(),
            parts: &[ADD],
            defines: Defines::new().number("UNUSED", number),
            options: "",
        };
        device.kernel(("several", number as u64), "add", program).unwrap();
    }
}

/// What each of so many processes tells that start at once on one folder.
fn counts_of_processes(processes: usize) -> Vec<[u64; 2]> {
    let folder = TempDir::new().unwrap();
    let start = || {
        child("program_cache::child_builds_programs").env(FOLDER, folder.path()).spawn().unwrap()
    };
    let mut children: Vec<Child> = (0..processes).map(|_| start()).collect();
    for child in &mut children {
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    }
    let outputs = children.into_iter().map(|child| child.wait_with_output().unwrap());
    outputs.map(|output| serde_json::from_value(answer(&output)).unwrap()).collect()
}

#[test]
fn processes_at_once_build_each_program_once_in_total() {
    let folder = TempDir::new().unwrap();
    if opencl_devices(&discover_in(folder.path(), Vec::new())).is_empty() {
        return;
    }
    let [built, from_disk] = counts_of_processes(1)[0];
    assert!(built >= 6, "{built}");
    for _ in 0..3 {
        let found = counts_of_processes(2);
        let total =
            found.iter().fold([0, 0], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1]]);
        assert_eq!(total, [built, built + 2 * from_disk], "{found:?}");
    }
}
