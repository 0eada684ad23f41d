use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::*;
use crate::Random;
use crate::record::tests::measured;
use crate::record::{Failure, Outcome};

/// What a process of this test's own is to append, as `folder|first|count|bytes of a line`.
const CHILD: &str = "POLARIS_TUNE_TEST_APPEND";

fn numbered(number: u64) -> Record {
    Record { at: number, ..measured(32, 512, 1.0 / 3.0 + number as f64) }
}

fn numbers(loaded: &Loaded) -> Vec<u64> {
    let mut numbers: Vec<u64> = loaded.records.iter().map(|record| record.at).collect();
    numbers.sort_unstable();
    numbers
}

/// Not a test by itself: what the processes run that the tests below start.
#[test]
fn appends_as_told() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let mut parts = order.split('|');
    let database = Database::open(Path::new(parts.next().unwrap()));
    let [first, count, bytes] = [(); 3].map(|()| parts.next().unwrap().parse::<u64>().unwrap());
    for number in first..first + count {
        let padding = "x".repeat(bytes as usize);
        database.append(&Record { polaris: padding, ..numbered(number) }).unwrap();
        println!("appended {number}");
    }
}

fn child(folder: &Path, first: u64, count: u64, bytes: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "database::tests::appends_as_told", "--nocapture"])
        .env(CHILD, format!("{}|{first}|{count}|{bytes}", folder.display()))
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn what_is_appended_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&folder.path().join("not/yet/there"));
    assert_eq!(database.load_all().unwrap(), Loaded::default());
    assert_eq!(database.load("polaris10").unwrap(), Loaded::default());
    assert!(!database.folder().exists(), "reading makes nothing");

    let mut random = Random::new(3);
    let mut written: Vec<Record> = (0..50).map(|n| measured(n, 512, random.unit())).collect();
    written[7].outcome = Outcome::Failed { kind: Failure::Crash, why: "two\nlines \"é\"".into() };
    // Two names that share a file.
    written[8].device.chip = "../gfx 803".into();
    written[9].device.chip = "../GFX/803".into();
    written.iter().for_each(|record| database.append(record).unwrap());

    let of = |chip: &str| -> Vec<Record> {
        written.iter().filter(|record| record.device.chip == chip).cloned().collect()
    };
    for chip in ["polaris10", "../gfx 803", "../GFX/803"] {
        assert_eq!(database.load(chip).unwrap().records, of(chip));
    }
    assert_eq!(database.load_all().unwrap().records.len(), 50);
    assert_eq!(fs::read_dir(database.folder()).unwrap().count(), 2);
}

#[test]
fn half_a_line_costs_itself_alone() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path());
    (0..3).for_each(|number| database.append(&numbered(number)).unwrap());
    let path = folder.path().join("polaris10.jsonl");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 40]).unwrap();
    let loaded = database.load("polaris10").unwrap();
    assert_eq!((numbers(&loaded), loaded.unreadable), (vec![0, 1], 1));
    database.append(&numbered(3)).unwrap();
    let loaded = database.load("polaris10").unwrap();
    assert_eq!((numbers(&loaded), loaded.unreadable), (vec![0, 1, 3], 1));
    // A line that lacks nothing but its end is whole.
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    database.append(&numbered(4)).unwrap();
    assert_eq!(numbers(&database.load("polaris10").unwrap()), [0, 1, 3, 4]);
}

#[test]
fn other_schemas_and_damage_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path());
    database.append(&numbered(1)).unwrap();
    let path = folder.path().join("polaris10.jsonl");
    let mut text = fs::read(&path).unwrap();
    text.extend(b"{\"schema\":2,\"chip\":\"polaris10\"}\n\n{\"schema\":1}\n\xff\0\0\r\n[]\n");
    fs::write(&path, text).unwrap();
    database.append(&numbered(2)).unwrap();
    let loaded = database.load("polaris10").unwrap();
    assert_eq!((numbers(&loaded), loaded.unreadable, loaded.other_schema), (vec![1, 2], 3, 1));
}

#[test]
fn threads_and_processes_append_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(&folder.path().join("new"));
    let children: Vec<Child> =
        (2..4).map(|n| child(database.folder(), n * 200, 200, 5000)).collect();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let database = &database;
            scope.spawn(move || {
                for number in thread * 200..(thread + 1) * 200 {
                    database.append(&numbered(number)).unwrap();
                }
            });
        }
    });
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    let loaded = database.load("polaris10").unwrap();
    assert_eq!((loaded.unreadable, numbers(&loaded)), (0, (0..800).collect()));
}

#[test]
fn a_killed_writer_loses_nothing_it_had_written() {
    let folder = tempfile::tempdir().unwrap();
    let database = Database::open(folder.path());
    let mut random = Random::new(20);
    let (rounds, mut promised) = (20, Vec::new());
    for round in 0..rounds {
        // Long lines, so that some writes are cut in the middle.
        let mut child = child(folder.path(), round * 1_000_000, 900_000, 20_000);
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while !text.contains("appended") {
            assert!(output.read_line(&mut text).unwrap() > 0, "the child should append: {text}");
        }
        std::thread::sleep(Duration::from_micros(random.below(5000) as u64));
        child.kill().unwrap();
        output.read_to_string(&mut text).unwrap();
        child.wait().unwrap();
        // A number whose line was cut short promises nothing.
        let complete = &text[..text.rfind('\n').unwrap()];
        let said = complete.lines().filter_map(|line| line.split("appended ").nth(1));
        promised.extend(said.map(|number| number.parse::<u64>().unwrap()));
        let own = round * 1_000_000 + 999_999;
        database.append(&numbered(own)).unwrap();
        promised.push(own);
    }
    let loaded = database.load("polaris10").unwrap();
    assert!(loaded.unreadable <= rounds as usize, "{} lines were torn", loaded.unreadable);
    let there: HashSet<u64> = numbers(&loaded).into_iter().collect();
    assert_eq!(there.len(), loaded.records.len());
    println!("{} promised, {} torn", promised.len(), loaded.unreadable);
    assert!(promised.len() >= 2 * rounds as usize);
    let lost: Vec<&u64> = promised.iter().filter(|number| !there.contains(number)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[test]
fn what_cannot_be_written_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = Database::open(&path).append(&numbered(1)).unwrap_err().to_string();
        assert!(error.contains("POLARIS_DATA_DIR") && error.contains("file"), "{error}");
    }
    assert!(Database::open(folder.path()).export(&file.join("below")).is_err());
    let error = Database::open(folder.path()).import(&folder.path().join("none")).unwrap_err();
    assert!(error.to_string().contains("check the name"), "{error}");
    let endless = measured(1, 1, f64::INFINITY);
    let error = Database::open(folder.path()).append(&endless).unwrap_err().to_string();
    assert!(error.contains("as failed"), "{error}");
}

#[test]
fn a_full_disk_says_so() {
    let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
    let error = super::file_error(std::path::Path::new("chip.jsonl"), full).to_string();
    assert!(error.contains("free some space"), "{error}");
}

#[cfg(target_os = "linux")]
#[test]
fn special_files_are_refused_and_stay() {
    use std::os::unix::fs::FileTypeExt;
    let folder = tempfile::tempdir().unwrap();
    let fifo = folder.path().join("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let database = Database::open(folder.path());
    for special in [fifo.as_path(), std::path::Path::new("/dev/zero")] {
        let errors = [database.import(special).err(), database.export(special).err()];
        for error in errors {
            let error = error.unwrap().to_string();
            assert!(error.contains("name a regular file"), "{error}");
        }
    }
    assert!(fs::symlink_metadata(&fifo).unwrap().file_type().is_fifo());
    fs::rename(&fifo, folder.path().join("polaris10.jsonl")).unwrap();
    assert!(database.append(&numbered(1)).unwrap_err().to_string().contains("a FIFO"));
    assert!(database.load_all().unwrap_err().to_string().contains("a FIFO"));
}

#[test]
fn an_import_adds_what_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["one", "two"].map(|name| Database::open(&folder.path().join(name)));
    let mut random = Random::new(5);
    for number in 0..40 {
        let mut record = measured(number, 512, random.unit() * 1e-4);
        record.device.chip = ["polaris10", "vega10"][number as usize % 2].into();
        one.append(&record).unwrap();
        if number < 10 {
            two.append(&record).unwrap();
        }
    }
    let file = folder.path().join("all.jsonl");
    assert_eq!(one.export(&file).unwrap(), 40);
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name.display().to_string().contains("tmp")).count(), 0);
    let mut text = fs::read(&file).unwrap();
    text.extend_from_within(..text.iter().position(|&byte| byte == b'\n').unwrap() + 1);
    text.extend(b"{\"schema\":9}\n{\"schema\":");
    fs::write(&file, text).unwrap();

    let first = two.import(&file).unwrap();
    assert_eq!(first, Imported { added: 30, already_there: 11, unreadable: 1, other_schema: 1 });
    let again = two.import(&file).unwrap();
    assert_eq!((again.added, again.already_there), (0, 41));
    let sorted = |database: &Database| {
        let mut records = database.load_all().unwrap().records;
        records.sort_by(|a, b| a.config.cmp(&b.config));
        records
    };
    assert_eq!(sorted(&one), sorted(&two));
}
