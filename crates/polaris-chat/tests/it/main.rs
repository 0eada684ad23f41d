//! Chat templates as models bring them, and as nobody should.

mod chat;
mod content;
mod golden;
mod models;

use std::path::{Path, PathBuf};

use polaris_chat::Value;

/// A file of the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    Value::from_json(&text).unwrap()
}

fn date(value: &Value) -> polaris_chat::DateTime {
    let Value::List(parts) = value else { panic!("a date is a list") };
    let part = |at: usize| match parts[at] {
        Value::Int(number) => u32::try_from(number).unwrap(),
        _ => panic!("a date has numbers"),
    };
    let date = (part(0).into(), part(1), part(2));
    polaris_chat::DateTime::new(date, (part(3), part(4), part(5))).unwrap()
}
