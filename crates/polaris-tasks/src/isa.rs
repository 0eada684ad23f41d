//! `cargo xtask isa`: registers, memory and occupancy of every OpenCL program on gfx803 (Polaris), without such a
//! card.

pub mod report;
mod table;
mod weights;

use std::fs;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, ensure};
use polaris_files::AtomicFile;
use polaris_gcn::{Compiled, Toolchain, parse_kernels};

use crate::programs::{self, Program};
use report::Outcome;

/// What the programs are compiled for.
pub const TARGET: &str = "gfx803";

/// Arguments of `cargo xtask isa`.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Print JSON instead of the table.
    pub json: bool,
    /// The compiler to use instead of searching one.
    pub clang: Option<PathBuf>,
    /// Where to leave sources and assembly.
    pub keep: Option<PathBuf>,
    /// Say which compiler is used.
    pub verbose: bool,
    /// What to do with the table of the repository.
    pub table: Option<Table>,
    /// Only programs whose name contains this.
    pub filter: Option<String>,
}

/// What to do with the table of the repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Compile what is not in it and a sample of the rest, and compare.
    Check,
    /// Bring it up to date.
    Write,
}

impl Options {
    /// Reads the arguments after `isa`; an error is a message for the user.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, String> {
        let mut options = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value =
                |what| arguments.next().ok_or_else(|| format!("{argument} needs a {what}"));
            match argument.as_str() {
                "--json" => options.json = true,
                "--verbose" => options.verbose = true,
                "--check" => options.table = Some(Table::Check),
                "--write" => options.table = Some(Table::Write),
                "--clang" => options.clang = Some(value("PATH")?.into()),
                "--keep" => options.keep = Some(value("DIR")?.into()),
                flag if flag.starts_with('-') => return Err(format!("unknown option {flag}")),
                _ if options.filter.is_some() => {
                    return Err(format!("a second FILTER: {argument}"));
                }
                _ => options.filter = Some(argument),
            }
        }
        if options.table.is_some() && options.filter.is_some() {
            return Err("--check and --write are for all programs: leave FILTER out".to_owned());
        }
        Ok(options)
    }
}

/// Compiles the programs and prints the report; false when it is not clean.
pub fn run(toolchain: &Toolchain, options: &Options) -> Result<bool> {
    if options.verbose {
        eprintln!("{toolchain}");
    }
    match options.table {
        Some(Table::Check) => return table::check(toolchain),
        Some(Table::Write) => return table::write(toolchain),
        None => {}
    }
    let programs = selected(options.filter.as_deref())?;
    let compiled = compile_all(toolchain, &programs);
    if let Some(folder) = &options.keep {
        keep(folder, &programs, &compiled)
            .with_context(|| format!("cannot write to {}", folder.display()))?;
    }
    let counts = weights::counts(&programs, &compiled)?;
    let outcomes: Vec<_> = programs.iter().zip(compiled).map(|(it, c)| outcome(it, c)).collect();
    if options.json {
        println!("{}", report::json(&outcomes));
    } else {
        print!("{}", report::table(&outcomes));
        print!("{}", weights::table(&counts));
        println!("{}", report::summary(&outcomes));
    }
    Ok(report::is_clean(&outcomes) && weights::within_budget(&counts))
}

/// The programs to compile, after checking that the whole list covers the tree.
fn selected(filter: Option<&str>) -> Result<Vec<Program>> {
    let root = crate::repository();
    let files = programs::cl_files(&root).context("cannot list the .cl files")?;
    let mut programs = programs::programs();
    let covered = programs::covered_names(&root, &files, &programs)
        .context("cannot read the .cl files of the tree")?;
    programs::check_coverage(&files, &covered)?;
    if let Some(filter) = filter {
        programs.retain(|program| program.name.contains(filter));
        ensure!(!programs.is_empty(), "no program's name contains `{filter}`");
    }
    // A report about nothing would pass as a gate.
    ensure!(!programs.is_empty(), "the list of programs is empty");
    Ok(programs)
}

/// Compiles on all cores; the results are in the order of `programs`.
fn compile_all(toolchain: &Toolchain, programs: &[Program]) -> Vec<polaris_gcn::Result<Compiled>> {
    let threads = thread::available_parallelism().map_or(1, usize::from).min(programs.len());
    let show_progress = std::io::stderr().is_terminal();
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(programs.len()));
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(program) = programs.get(index) else { break };
                    let result =
                        toolchain.compile(&program.name, &program.source, &program.options);
                    let mut done = done.lock().expect("no compiling thread should panic");
                    done.push((index, result));
                    if show_progress {
                        eprint!("\rcompiled {} of {}", done.len(), programs.len());
                    }
                }
            });
        }
    });
    if show_progress {
        eprint!("\r\x1b[K");
        // The bar goes before the report comes; a closed stderr is no reason to stop.
        let _ = std::io::stderr().flush();
    }
    let mut done = done.into_inner().expect("no compiling thread should panic");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Reads the kernels out of the assembly; clang's log goes to stderr.
fn outcome(program: &Program, compiled: polaris_gcn::Result<Compiled>) -> Outcome {
    let kernels = compiled.map_err(anyhow::Error::from).and_then(|compiled| {
        let log = compiled.log.trim_end();
        if !log.is_empty() {
            eprintln!("{}: clang warns:\n{log}\n", program.name);
        }
        let kernels = parse_kernels(&compiled.assembly)?;
        ensure!(!kernels.is_empty(), "the program has no kernel");
        Ok(kernels)
    });
    let kernels = kernels.map_err(|error| format!("{error:#}"));
    if let Err(error) = &kernels {
        eprintln!("{} {:?}: {error}\n", program.name, program.options);
    }
    Outcome { program: program.name.clone(), kernels }
}

/// Writes each program's source and, where it compiled, its assembly.
fn keep(
    folder: &Path,
    programs: &[Program],
    compiled: &[polaris_gcn::Result<Compiled>],
) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    for (index, (program, compiled)) in programs.iter().zip(compiled).enumerate() {
        let stem = file_stem(index, &program.name);
        write(&folder.join(format!("{stem}.cl")), &program.source)?;
        if let Ok(compiled) = compiled {
            write(&folder.join(format!("{stem}.s")), &compiled.assembly)?;
        }
    }
    Ok(())
}

/// Hundreds of files that can be made again are not worth waiting for the disk.
fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(text.as_bytes())?;
    file.finish_unsynced()
}

/// A file name for a program. The number keeps apart names that differ only in replaced or cut
/// characters.
fn file_stem(index: usize, name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._=-".contains(c) { c } else { '_' };
    let name: String = name.chars().map(plain).take(120).collect();
    format!("{index:03}-{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        Options::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn arguments_are_read_in_any_order() {
        assert_eq!(parse(""), Ok(Options::default()));
        let all = Options {
            json: true,
            clang: Some("/x/clang".into()),
            keep: Some("out".into()),
            verbose: true,
            table: None,
            filter: Some("gemm".into()),
        };
        assert_eq!(parse("gemm --keep out --json --verbose --clang /x/clang"), Ok(all));
        assert_eq!(parse("--write").unwrap().table, Some(Table::Write));
    }

    #[test]
    fn wrong_arguments_are_named() {
        assert_eq!(parse("--fast").unwrap_err(), "unknown option --fast");
        assert_eq!(parse("--keep").unwrap_err(), "--keep needs a DIR");
        assert_eq!(parse("one two").unwrap_err(), "a second FILTER: two");
        assert!(parse("--check one").unwrap_err().contains("FILTER"));
    }

    #[test]
    fn file_names_are_safe() {
        assert_eq!(file_stem(7, "../m m/ä.cl t=1"), "007-.._m_m__.cl_t=1");
        assert_eq!(file_stem(0, &"x".repeat(500)).len(), 124);
    }
}
