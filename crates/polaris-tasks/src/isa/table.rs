//! The table `gfx803.tsv`: what the machine code of each program takes, as it was last compiled. It shows in a change
//! what the change does to registers, and a program that is in it with the same source need not be compiled again.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use polaris_files::write_atomic;
use polaris_gcn::Toolchain;
use sha2::{Digest, Sha256};

use super::report::{self, COLUMNS, Outcome, Row};
use super::{compile_all, outcome, selected};
use crate::programs::Program;

/// Where it is in the repository.
const FILE: &str = "crates/polaris-tasks/gfx803.tsv";

/// What its first line begins with; the compiler follows.
const HEAD: &str = "# Made by `cargo xtask isa --write` with ";

/// Programs whose key begins with this, one of sixteen, are compiled although they are in the table: figures of a source
/// may change with what is outside of it.
const SAMPLE: char = '0';

/// The compiler and the rows of each program, by its key.
#[derive(Debug, PartialEq)]
struct Table {
    compiler: String,
    rows: HashMap<String, Vec<Vec<String>>>,
}

impl Table {
    fn parse(text: &str) -> Result<Self> {
        let mut lines = text.lines();
        let head = lines.next().and_then(|line| line.strip_prefix(HEAD));
        let compiler = head.context("its first line does not name the compiler")?.to_owned();
        let mut rows = HashMap::<String, Vec<Vec<String>>>::new();
        for (number, line) in lines.enumerate().skip(1) {
            let mut cells = line.split('\t').map(str::to_owned);
            let key = cells.next().unwrap_or_default();
            let cells: Vec<String> = cells.collect();
            let (found, wanted) = (cells.len(), COLUMNS.len());
            ensure!(found == wanted, "line {} has {found} cells, not {wanted}", number + 2);
            rows.entry(key).or_default().push(cells);
        }
        Ok(Self { compiler, rows })
    }
}

/// The text of the file, with the programs in their order.
fn text(compiler: &str, programs: &[(String, Vec<Vec<String>>)]) -> String {
    let mut lines = vec![format!("{HEAD}{compiler}"), format!("key\t{}", COLUMNS.join("\t"))];
    for (key, rows) in programs {
        lines.extend(rows.iter().map(|cells| format!("{key}\t{}", cells.join("\t"))));
    }
    lines.join("\n") + "\n"
}

/// What a program's machine code depends on, but for the compiler.
fn key(program: &Program) -> String {
    let mut hash = Sha256::new();
    for part in [&program.name, &program.source].into_iter().chain(&program.options) {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    hash.finalize().iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}

fn path() -> PathBuf {
    crate::repository().join(FILE)
}

fn read(path: &Path) -> Result<Table> {
    Table::parse(&crate::read_text(path)?).with_context(|| format!("{} is damaged", path.display()))
}

/// The rows of a program that compiled.
fn rows(outcome: &Outcome) -> Vec<Vec<String>> {
    outcome.rows().map(|row: Row| row[..COLUMNS.len()].to_vec()).collect()
}

fn compile(toolchain: &Toolchain, programs: Vec<Program>) -> Vec<Outcome> {
    let compiled = compile_all(toolchain, &programs);
    programs.iter().zip(compiled).map(|(program, compiled)| outcome(program, compiled)).collect()
}

/// Compiles what is not in the table and a sample of the others, and compares; false where something differs, spills or
/// uses scratch. With another compiler than the table's it compiles everything and compares nothing.
pub fn check(toolchain: &Toolchain) -> Result<bool> {
    let (programs, table) = (selected(None)?, read(&path())?);
    let compiler = toolchain.version()?;
    if compiler != table.compiler {
        println!("{FILE} is of {}, not of {compiler}: every program is compiled", table.compiler);
        let outcomes = compile(toolchain, programs);
        println!("{}", report::summary(&outcomes));
        return Ok(report::is_clean(&outcomes));
    }
    let count = programs.len();
    let mut keys: Vec<String> = programs.iter().map(key).collect();
    let stale = table.rows.keys().filter(|key| !keys.contains(key)).count();
    let is_due = |key: &String| key.starts_with(SAMPLE) || !table.rows.contains_key(key);
    let due = programs.into_iter().zip(&keys).filter(|(_, key)| is_due(key));
    let due: Vec<Program> = due.map(|(program, _)| program).collect();
    keys.retain(is_due);
    let outcomes = compile(toolchain, due);
    let differs =
        |(outcome, key): &(&Outcome, &String)| table.rows.get(*key) != Some(&rows(outcome));
    let different: Vec<_> = outcomes.iter().zip(&keys).filter(differs).collect();
    for (outcome, _) in &different {
        println!("not as in {FILE}: {}", outcome.program);
    }
    println!(
        "{count} programs, {} compiled: {}; {} not as in {FILE}, {stale} of it gone",
        outcomes.len(),
        report::summary(&outcomes),
        different.len()
    );
    let is_current = different.is_empty() && stale == 0;
    if !is_current {
        eprintln!("{FILE} is out of date: run `cargo xtask isa --write`");
    }
    Ok(is_current && report::is_clean(&outcomes))
}

/// Compiles what is not in the table and writes it anew; false, with the old one left, where a program spills or uses
/// scratch.
pub fn write(toolchain: &Toolchain) -> Result<bool> {
    let (programs, path) = (selected(None)?, path());
    let compiler = toolchain.version()?;
    // A table that cannot be read is replaced.
    let known = read(&path).ok().filter(|table| table.compiler == compiler);
    let mut known = known.map(|table| table.rows).unwrap_or_default();
    let keys: Vec<String> = programs.iter().map(key).collect();
    let due: Vec<Program> =
        programs.into_iter().filter(|program| !known.contains_key(&key(program))).collect();
    let due_keys: Vec<String> = due.iter().map(key).collect();
    let outcomes = compile(toolchain, due);
    println!("{} programs compiled: {}", outcomes.len(), report::summary(&outcomes));
    if !report::is_clean(&outcomes) {
        print!("{}", report::table(&outcomes));
        return Ok(false);
    }
    known.extend(due_keys.into_iter().zip(outcomes.iter().map(rows)));
    let with_rows = |key: String| {
        let rows = known.remove(&key).unwrap_or_default();
        (key, rows)
    };
    let all: Vec<_> = keys.into_iter().map(with_rows).collect();
    write_atomic(&path, text(&compiler, &all).as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(name: &str, source: &str, options: &[&str]) -> Program {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Program { name: name.into(), source: source.into(), options }
    }

    #[test]
    fn keys_depend_on_every_part() {
        let keys: std::collections::BTreeSet<String> = [
            program("a", "b", &[]),
            program("ab", "", &[]),
            program("a", "c", &[]),
            program("a", "b", &["-c"]),
            program("a", "b", &["-c", "-d"]),
            program("a", "b", &["-c-d"]),
        ]
        .iter()
        .map(key)
        .collect();
        assert_eq!(keys.len(), 6);
        assert_eq!(key(&program("a", "b", &[])), key(&program("a", "b", &[])));
    }

    #[test]
    fn what_is_written_is_read() {
        let cells = |name: &str| {
            COLUMNS.iter().map(|column| format!("{name} {column}")).collect::<Vec<String>>()
        };
        let programs = [
            ("0a".to_owned(), vec![cells("one"), cells("two")]),
            ("1b".to_owned(), vec![cells("three")]),
        ];
        let text = text("clang 15", &programs);
        let table = Table::parse(&text).unwrap();
        assert_eq!(table, Table { compiler: "clang 15".into(), rows: programs.into() });
        for damaged in ["", "key\tprogram\n", &text.replace("two spills", "two\tspills")] {
            assert!(Table::parse(damaged).is_err(), "{damaged}");
        }
    }
}
