//! Compares ARCHITECTURE.md with the tree: the map of crates, the direction of modules, process-wide state.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect();
    all.sort();
    all
}

/// The crates of the workspace with those that they are built with, by their manifests.
fn manifests() -> BTreeMap<String, BTreeSet<String>> {
    let crates = folders(&root().join("crates")).into_iter().chain([root().join("xtask")]);
    let read = |folder: PathBuf| {
        let manifest = text(&folder.join("Cargo.toml"));
        let name = manifest.lines().find_map(|line| line.strip_prefix("name = ")).unwrap();
        let mut section = "";
        let mut used = BTreeSet::new();
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let key = line.split(['.', ' ', '=']).next().unwrap_or_default();
            if section == "[dependencies]" && key.starts_with("polaris") {
                used.insert(key.to_owned());
            }
        }
        (name.trim_matches('"').to_owned(), used)
    };
    crates.map(read).collect()
}

#[test]
fn the_map_of_crates_is_cargos() {
    let document = text(&root().join("ARCHITECTURE.md"));
    let block = document.split("```").nth(1).expect("the map should be the first block");
    let mut found = BTreeMap::new();
    for line in block.lines().filter(|line| !line.is_empty()) {
        let mut words = line.split_whitespace();
        let name = words.next().unwrap().to_owned();
        let used: BTreeSet<String> = words
            .map(|word| match word {
                "polaris" => word.to_owned(),
                other => format!("polaris-{other}"),
            })
            .collect();
        let unknown: Vec<&String> = used.iter().filter(|name| !found.contains_key(*name)).collect();
        assert!(unknown.is_empty(), "{name} stands above {unknown:?}");
        found.insert(name, used);
    }
    assert_eq!(found, manifests());
}

/// The modules of a file's own crate that it uses, but for tests.
fn used_modules(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let mut used = BTreeSet::new();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for after in line.split("crate::").skip(1) {
            let names = after.strip_prefix('{').unwrap_or(after);
            for name in names.split(',') {
                let is_word = |c: char| c.is_ascii_lowercase() || c == '_';
                let word: String = name.trim().chars().take_while(|&c| is_word(c)).collect();
                used.insert(word);
                if !after.starts_with('{') {
                    break;
                }
            }
        }
    }
    used
}

fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    for path in folders(path) {
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|end| end == "rs") => found.push(path),
            false => {}
        }
    }
}

#[test]
fn modules_use_those_before_them() {
    let document = text(&root().join("ARCHITECTURE.md"));
    let table = document.split("| Crate | Modules, the lowest first |").nth(1).expect("the table");
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() >= 2, "the table should have rows");
    for row in rows {
        let mut names = row.split('`').skip(1).step_by(2);
        let folder = root().join("crates").join(names.next().unwrap()).join("src");
        let order: Vec<&str> = names.collect();
        for (place, module) in order.iter().enumerate() {
            let mut files = vec![folder.join(format!("{module}.rs"))];
            files.retain(|file| file.exists());
            if folder.join(module).is_dir() {
                sources(&folder.join(module), &mut files);
            }
            assert!(!files.is_empty(), "{} has no module {module}", folder.display());
            for file in files {
                let used = used_modules(&text(&file));
                let later = order[place + 1..].iter().find(|later| used.contains(**later));
                assert!(later.is_none(), "{} uses {later:?} from below", file.display());
            }
        }
    }
}

/// The name of a static that can change, if a line declares one.
fn changing_static(line: &str) -> Option<&str> {
    const CELLS: [&str; 8] =
        ["Mutex<", "RwLock<", "OnceLock<", "LazyLock<", "Once ", "Atomic", "Cell<", "RefCell<"];
    let (name, ty) = line.trim_start().strip_prefix("static ")?.split_once(": ")?;
    CELLS.iter().any(|cell| ty.starts_with(cell)).then_some(name)
}

#[test]
fn process_wide_state_is_listed() {
    let document = text(&root().join("ARCHITECTURE.md"));
    let table = document.split("| Crate | Static | Why |").nth(1).expect("the table of state");
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let mut listed = BTreeSet::new();
    for row in rows {
        let cells: Vec<&str> = row.split('|').collect();
        let name = cells[1].trim().trim_matches('`');
        for state in cells[2].split(',') {
            listed.insert((name.to_owned(), state.trim().trim_matches('`').to_owned()));
        }
    }
    let mut found = BTreeSet::new();
    for folder in folders(&root().join("crates")) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let mut files = Vec::new();
        sources(&folder.join("src"), &mut files);
        for file in files.iter().filter(|file| !file.ends_with("tests.rs")) {
            let source = text(file);
            let code = source.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let states = code.lines().filter_map(changing_static);
            found.extend(states.map(|state| (name.clone(), state.to_owned())));
        }
    }
    assert_eq!(found, listed);
}

/// The first command of the README is `cargo run`: it must know which program is meant.
#[test]
fn cargo_run_starts_the_one_program() {
    let manifest = text(&root().join("Cargo.toml"));
    let line = manifest.lines().find(|line| line.starts_with("default-members")).unwrap();
    let members: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
    let has_program = |member: &&&str| root().join(member).join("src/main.rs").exists();
    let programs: Vec<&&str> = members.iter().filter(has_program).collect();
    assert_eq!(programs, [&"crates/polaris-cli"], "of {members:?}");
}
