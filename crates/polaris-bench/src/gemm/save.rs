//! Results kept as data: a file for each device, in which a new result takes the place of an old
//! one of the same case.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::results::{DeviceFacts, Results, Row};
use crate::{Error, Result};

const SCHEMA: &str = "polaris.gemm-results/1";

/// More than the results of a device have.
const MAX_BYTES: u64 = 256 << 20;

/// What tells a case of a device from others.
const CASE_FIELDS: [&str; 7] = ["dtype", "transpose", "m", "n", "k", "threads", "variant"];

/// Writes or updates a file for each device; says which.
///
/// # Errors
/// If the folder or a file cannot be written, or if a file there is of another kind.
pub fn save(folder: &Path, results: &Results) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(folder).map_err(|error| Error::file("make the folder", folder, error))?;
    let mut files = Vec::new();
    for facts in &results.devices {
        let rows: Vec<&Row> =
            results.results.iter().filter(|row| row.device == facts.device).collect();
        if rows.is_empty() {
            continue;
        }
        let file = folder.join(file_name(facts));
        let old = read(&file)?;
        let text = serde_json::to_string_pretty(&updated(old, facts, results, &rows)?)?;
        let written = polaris_files::write_atomic(&file, format!("{text}\n").as_bytes());
        written.map_err(|error| Error::file("write", &file, error))?;
        files.push(file);
    }
    Ok(files)
}

/// The chip and its driver; another driver is another device.
fn file_name(facts: &DeviceFacts) -> String {
    let name = match facts.threads {
        // The key of every processor is the same.
        Some(_) => format!("cpu-{}", slug(&facts.device_name)),
        None => format!("{}-{}", slug(&facts.chip), slug(&facts.driver)),
    };
    format!("{name}.json")
}

/// Small letters, digits and single hyphens.
fn slug(text: &str) -> String {
    let mut slug = String::new();
    for c in text.chars() {
        match c.to_ascii_lowercase() {
            c if c.is_ascii_alphanumeric() => slug.push(c),
            _ if slug.ends_with('-') || slug.is_empty() => {}
            _ => slug.push('-'),
        }
    }
    slug.truncate(80);
    slug.trim_end_matches('-').to_owned()
}

/// The runs of a file that is there.
fn read(file: &Path) -> Result<Vec<Value>> {
    let text = match polaris_files::read_text(file, MAX_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file("read", file, error)),
    };
    let document = serde_json::from_str(&text);
    let mut document: Value =
        document.map_err(|source| Error::Damaged { path: file.to_owned(), source })?;
    if document["schema"] != SCHEMA {
        return Err(Error::OtherVersion { path: file.to_owned(), expected: SCHEMA });
    }
    match document["runs"].take() {
        Value::Array(runs) => Ok(runs),
        _ => Ok(Vec::new()),
    }
}

/// The old runs without the cases that were measured again, and the new one.
fn updated(
    mut runs: Vec<Value>,
    facts: &DeviceFacts,
    results: &Results,
    rows: &[&Row],
) -> Result<Value> {
    let mut new = rows.iter().map(serde_json::to_value).collect::<Result<Vec<Value>, _>>()?;
    for row in new.iter_mut().filter_map(Value::as_object_mut) {
        // The file is about one device, which another machine may list elsewhere.
        row.retain(|field, _| !field.starts_with("device"));
    }
    let is_same = |a: &Value, b: &Value| CASE_FIELDS.iter().all(|field| a[field] == b[field]);
    for run in &mut runs {
        if let Some(old) = run["results"].as_array_mut() {
            old.retain(|old| !new.iter().any(|new| is_same(old, new)));
        }
    }
    runs.retain(|run| run["results"].as_array().is_some_and(|results| !results.is_empty()));
    runs.push(json!({
        "date": results.date,
        "polaris": results.polaris,
        "command": results.command,
        "peak_gflops": facts.peak_gflops,
        "memory_gbs": facts.memory_gbs,
        "peers": facts.peers,
        "results": new,
    }));
    Ok(json!({
        "schema": SCHEMA,
        "device_name": facts.device_name,
        "chip": facts.chip,
        "platform": facts.platform,
        "driver": facts.driver,
        "runs": runs,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::row;
    use super::*;

    fn results(rows: Vec<Row>, date: &str) -> Results {
        let facts = DeviceFacts {
            device: polaris_runtime::DeviceId::Cpu,
            device_name: "Some CPU(R) @ 2.80GHz".into(),
            chip: "cpu".into(),
            platform: "native".into(),
            driver: "polaris 0.1.0".into(),
            threads: Some(2),
            peak_gflops: 100.0,
            memory_gbs: 10.0,
            peers: Vec::new(),
        };
        Results {
            polaris: "0.1.0",
            date: date.into(),
            command: "polaris bench gemm".into(),
            devices: vec![facts],
            results: rows,
            summary: Vec::new(),
            skipped: Vec::new(),
        }
    }

    #[test]
    fn a_new_result_replaces_the_old_one_of_its_case() {
        let folder = tempfile::tempdir().unwrap();
        let first = results(vec![row(512, 1.0, 1.0), row(1024, 2.0, 1.0)], "first");
        let files = save(folder.path(), &first).unwrap();
        assert_eq!(files, [folder.path().join("cpu-some-cpu-r-2-80ghz.json")]);
        save(folder.path(), &results(vec![row(1024, 3.0, 1.0)], "second")).unwrap();
        let read =
            || -> Value { serde_json::from_str(&fs::read_to_string(&files[0]).unwrap()).unwrap() };
        let both = read();
        assert_eq!(both["runs"][0]["date"], "first");
        assert_eq!(both["runs"][0]["results"].as_array().unwrap().len(), 1);
        assert_eq!(both["runs"][0]["results"][0]["m"], 512);
        assert_eq!(both["runs"][1]["results"][0]["gflops"], 3.0);
        // The first run has nothing left.
        save(folder.path(), &results(vec![row(512, 4.0, 1.0)], "third")).unwrap();
        let runs = read()["runs"].as_array().unwrap().len();
        assert_eq!(runs, 2);
        fs::write(&files[0], "{}").unwrap();
        assert!(save(folder.path(), &first).is_err());
    }
}
