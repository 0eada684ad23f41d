//! The OpenCL programs that `cargo xtask isa` compiles, and the check that none is forgotten.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use polaris_runtime::opencl::ProgramSource;

/// One program as the dispatcher would build it.
#[derive(Debug, Clone)]
pub struct Program {
    /// The `.cl` file, a space and the configuration's label: `matmul/gemm.cl tile_m=64`.
    pub name: String,
    /// The complete OpenCL C source.
    pub source: String,
    /// Options for the compiler: `-DNAME=VALUE` and `-cl-*`.
    pub options: Vec<String>,
}

/// All programs that the dispatcher ships, in every configuration that stands for others.
pub fn programs() -> Vec<Program> {
    let measuring = polaris_runtime::measure::shipped_programs();
    let operations = polaris_ops::shipped_programs();
    let program = |source: ProgramSource| Program {
        source: source.text(),
        options: source.options.split_ascii_whitespace().map(str::to_owned).collect(),
        name: source.name,
    };
    measuring.into_iter().chain(operations).map(program).collect()
}

/// Files that no AMD compiler takes: they are made of another maker's instructions.
const FOR_OTHER_MAKERS: &[&str] = &["matmul/opencl/tensor.cl"];

/// All `.cl` files under `crates/*/src` that an AMD compiler takes, relative to the repository,
/// sorted.
pub fn cl_files(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let folder = entry?.path().join("src");
        if folder.is_dir() {
            collect(&folder, &mut files)?;
        }
    }
    let relative = |file: PathBuf| file.strip_prefix(root).map(Path::to_owned).unwrap_or(file);
    let for_amd = |file: &PathBuf| !FOR_OTHER_MAKERS.iter().any(|name| file.ends_with(name));
    let mut files: Vec<_> = files.into_iter().map(relative).filter(for_amd).collect();
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "cl") {
            files.push(path);
        }
    }
    Ok(())
}

/// Names of the files that `programs` cover: the file part of each program's name, and each file
/// whose text is part of a program's source (included files have no program of their own).
pub fn covered_names(
    root: &Path,
    files: &[PathBuf],
    programs: &[Program],
) -> Result<BTreeSet<String>> {
    let file_part =
        |program: &Program| program.name.split_whitespace().next().unwrap_or_default().to_owned();
    let mut names: BTreeSet<String> = programs.iter().map(file_part).collect();
    for file in files {
        let text = crate::read_text(&root.join(file))?;
        let text = text.trim();
        if !text.is_empty() && programs.iter().any(|program| program.source.contains(text)) {
            names.insert(slashed(file));
        }
    }
    Ok(names)
}

/// Fails when a `.cl` file of the tree is covered by no configuration.
///
/// A name covers a file when it is the end of the file's path: `gemm.cl` and `matmul/gemm.cl` both
/// cover `crates/polaris-ops/src/matmul/gemm.cl`. A name that fits several files is refused, for
/// it would let one of them slip through.
pub fn check_coverage(files: &[PathBuf], covered: &BTreeSet<String>) -> Result<()> {
    for name in covered {
        let fitting: Vec<_> = files.iter().filter(|file| file.ends_with(name)).collect();
        ensure!(
            fitting.len() <= 1,
            "the program name {name} fits several files: give more of the path: {fitting:?}"
        );
    }
    let forgotten: Vec<_> = files
        .iter()
        .filter(|file| !covered.iter().any(|name| file.ends_with(name)))
        .map(|file| slashed(file))
        .collect();
    ensure!(
        forgotten.is_empty(),
        "no configuration in the list of programs covers: {}",
        forgotten.join(", ")
    );
    Ok(())
}

/// A path with `/` on every system.
fn slashed(path: &Path) -> String {
    path.display().to_string().replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEMM: &str = "crates/polaris-ops/src/matmul/gemm.cl";
    const SUM: &str = "crates/polaris-ops/src/reduce/sum.cl";

    fn check(files: &[&str], covered: &[&str]) -> Result<(), String> {
        let files: Vec<_> = files.iter().map(PathBuf::from).collect();
        let covered = covered.iter().map(|&name| name.to_owned()).collect();
        check_coverage(&files, &covered).map_err(|error| error.to_string())
    }

    #[test]
    fn the_end_of_a_path_covers_a_file() {
        assert_eq!(check(&[GEMM, SUM], &["gemm.cl", "reduce/sum.cl"]), Ok(()));
        assert_eq!(check(&[GEMM, SUM], &[GEMM, SUM]), Ok(()));
        assert_eq!(check(&[], &[]), Ok(()));
    }

    #[test]
    fn a_forgotten_file_is_named() {
        let error = check(&[GEMM, SUM], &["gemm.cl"]).unwrap_err();
        assert!(error.contains(SUM) && !error.contains(GEMM), "{error}");
        let error = check(&[GEMM], &["mm.cl"]).unwrap_err();
        assert!(error.contains(GEMM), "only whole parts of a path count: {error}");
    }

    #[test]
    fn an_ambiguous_name_is_refused() {
        let other = "crates/polaris-snn/src/gemm.cl";
        assert!(check(&[GEMM, other], &["gemm.cl"]).unwrap_err().contains("several"));
        assert_eq!(check(&[GEMM, other], &["matmul/gemm.cl", "src/gemm.cl"]), Ok(()));
    }

    #[test]
    fn names_and_included_texts_cover() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("crates/one/src/deep");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("a.cl"), "TEMPLATE\n").unwrap();
        fs::write(folder.join("part.cl"), "PART\n").unwrap();
        fs::write(folder.join("lost.cl"), "LOST\n").unwrap();
        fs::write(folder.join("a.rs"), "").unwrap();
        let files = cl_files(root.path()).unwrap();
        let program = Program {
            name: "deep/a.cl x=1".into(),
            source: "PART\nchanged\n".into(),
            options: vec![],
        };
        let covered = covered_names(root.path(), &files, &[program]).unwrap();

        assert_eq!(files.len(), 3);
        let expected = ["crates/one/src/deep/part.cl", "deep/a.cl"].map(str::to_owned);
        assert_eq!(covered, BTreeSet::from(expected));
        let error = check_coverage(&files, &covered).unwrap_err().to_string();
        assert!(error.ends_with("covers: crates/one/src/deep/lost.cl"), "{error}");
    }
}
