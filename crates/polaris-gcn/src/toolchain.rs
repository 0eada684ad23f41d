//! Finds a clang and the AMD device libraries that together compile OpenCL C for a GCN card.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::assembly::parse_kernels;
use crate::error::{Error, Result};
use crate::places::{bitcode_folders, resource_folder};
use crate::process::{self, Ended};

/// Names to try, the version the figures in our documents come from first.
const CLANGS: [&str; 7] =
    ["clang-15", "clang-16", "clang-17", "clang-18", "clang-19", "clang-20", "clang"];

/// Fixed part of the command line.
///
/// The code object version is stated because clang's default changes between versions and has to
/// agree with the `oclc_abi_version` that is linked.
const FLAGS: [&str; 12] = [
    "-x",
    "cl",
    "-cl-std=CL1.2",
    "-target",
    "amdgcn-amd-amdhsa",
    "-mcode-object-version=4",
    "-nogpulib",
    "-Xclang",
    "-finclude-default-header",
    "-O3",
    "-S",
    "-fno-color-diagnostics",
];

/// Device libraries every installation has, beside the one of the target.
const LIBRARIES: [&str; 3] = ["opencl", "ocml", "ockl"];

/// Switches of the device libraries, linked where present: the set differs between releases.
/// Unsafe and finite-only math stay off since our operations define their results for NaN and
/// infinity.
const SWITCHES: [&str; 5] = [
    "oclc_wavefrontsize64_on",
    "oclc_finite_only_off",
    "oclc_unsafe_math_off",
    "oclc_daz_opt_on",
    "oclc_abi_version_400",
];

/// Square roots are functions of the device libraries: this option chooses among two, as drivers do.
const EXACT_DIVISION: &str = "-cl-fp32-correctly-rounded-divide-sqrt";

/// Uses the header, a work-item function and a math function, so that it needs every library.
const PROBE: &str = "__kernel void probe(__global float *x) { x[get_global_id(0)] = exp(*x); }";

/// What clang says of a target that it does not know.
const UNKNOWN: [&str; 3] = ["invalid target ID", "unknown target CPU", "unsupported argument"];

/// How long a program may take to compile: our largest ones take a second or two.
pub const TIMEOUT: Duration = Duration::from_secs(60);

/// A compiler and its device libraries, known to work together for a target.
#[derive(Debug, Clone)]
pub struct Toolchain {
    clang: PathBuf,
    bitcode: PathBuf,
    target: String,
    timeout: Duration,
}

/// Result of a successful compilation.
#[derive(Debug)]
pub struct Compiled {
    /// The assembly text.
    pub assembly: String,
    /// What clang had to say all the same: warnings.
    pub log: String,
}

impl Toolchain {
    /// Tries `clang`, or the usual names, with each folder of device libraries until a small
    /// kernel compiles for `target`, such as `gfx803`. (A clang older than the bitcode cannot read
    /// it: presence is not enough.)
    ///
    /// # Errors
    /// [`Error::UnknownTarget`] if a compiler is there that does not know the target, or its
    /// libraries do not; otherwise [`Error::NoCompiler`]. Both say what was tried.
    pub fn find(clang: Option<&Path>, target: &str) -> Result<Self> {
        let unknown = |tried| Err(Error::UnknownTarget { target: target.to_owned(), tried });
        if version(target).is_none() {
            return unknown(vec!["a target is gfx and its version, such as gfx803".to_owned()]);
        }
        let names: Vec<PathBuf> = match clang {
            Some(path) => vec![path.to_owned()],
            None => CLANGS.iter().map(PathBuf::from).collect(),
        };
        let (mut tried, mut strangers) = (Vec::new(), Vec::new());
        for name in &names {
            let resources = match resource_folder(name, TIMEOUT) {
                Ok(folder) => folder,
                // Saying that clang-17 is absent helps only who asked for it.
                Err(error) if clang.is_none() && error.kind() == ErrorKind::NotFound => continue,
                Err(error) => {
                    tried.push(format!("{}: {error}", name.display()));
                    continue;
                }
            };
            let folders = bitcode_folders(&resources);
            if folders.is_empty() {
                tried.push(format!("{}: found, but no device libraries", name.display()));
            }
            for bitcode in folders {
                let candidate = Self {
                    clang: name.clone(),
                    bitcode,
                    target: target.to_owned(),
                    timeout: TIMEOUT,
                };
                match candidate.probe() {
                    Ok(()) => return Ok(candidate),
                    Err(Error::UnknownTarget { tried, .. }) => strangers.extend(tried),
                    Err(error) => tried.push(format!("{candidate}: {error}")),
                }
            }
        }
        if !strangers.is_empty() {
            return unknown(strangers);
        }
        if tried.is_empty() {
            tried.push(format!("none of {} is installed", CLANGS.join(", ")));
        }
        Err(Error::NoCompiler { target: target.to_owned(), tried })
    }

    /// With another time-out than [`TIMEOUT`] for each compilation.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }

    /// What it compiles for.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// What the compiler says of its version.
    ///
    /// # Errors
    /// [`Error::Run`] if it could not be run, [`Error::TimedOut`] if it did not end.
    pub fn version(&self) -> Result<String> {
        let mut command = Command::new(&self.clang);
        command.arg("--version");
        let cannot_run = |source| Error::Run { clang: self.clang.clone(), source };
        let ended = process::run(command, Vec::new(), self.timeout).map_err(cannot_run)?;
        let name = || "--version".to_owned();
        let ended = ended.ok_or_else(|| Error::TimedOut { name: name(), limit: self.timeout })?;
        let text = String::from_utf8_lossy(&ended.output);
        Ok(text.lines().next().unwrap_or_default().trim().to_owned())
    }

    /// Compiles one program to assembly. `name` stands for the file in clang's messages.
    ///
    /// # Errors
    /// [`Error::Rejected`] if clang does not take it, [`Error::TimedOut`] if it did not end in
    /// time and was stopped, [`Error::Run`] if it could not be run at all.
    pub fn compile(&self, name: &str, source: &str, options: &[String]) -> Result<Compiled> {
        let file = name.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!("#line 1 \"{file}\"\n{source}\n");
        let ended = process::run(self.command(options), text.into_bytes(), self.timeout);
        let cannot_run = |source| Error::Run { clang: self.clang.clone(), source };
        let Some(Ended { status, output, log }) = ended.map_err(cannot_run)? else {
            return Err(Error::TimedOut { name: name.to_owned(), limit: self.timeout });
        };
        let log = String::from_utf8_lossy(&log).into_owned();
        if !status.success() {
            return Err(Error::Rejected { status, log: log.trim_end().to_owned() });
        }
        let assembly = String::from_utf8(output).map_err(|_| Error::assembly("it is not UTF-8"))?;
        Ok(Compiled { assembly, log })
    }

    /// Whether compiler and libraries fit together and know the target.
    fn probe(&self) -> Result<()> {
        let unknown = |why: String| Error::UnknownTarget {
            target: self.target.clone(),
            tried: vec![format!("{self}: {why}")],
        };
        let library = self.target_library();
        if !library.is_file() {
            return Err(unknown(format!("there is no {}", library.display())));
        }
        match self.compile("probe.cl", PROBE, &[]) {
            Ok(compiled) => match parse_kernels(&compiled.assembly)?.len() {
                1 => Ok(()),
                found => Err(Error::Kernels { found }),
            },
            Err(Error::Rejected { log, .. }) if UNKNOWN.iter().any(|text| log.contains(text)) => {
                Err(unknown(log))
            }
            Err(error) => Err(error),
        }
    }

    /// What the libraries know about the target.
    fn target_library(&self) -> PathBuf {
        let version = version(&self.target).unwrap_or_default();
        self.bitcode.join(format!("oclc_isa_version_{version}.bc"))
    }

    fn command(&self, options: &[String]) -> Command {
        let mut command = Command::new(&self.clang);
        command.args(FLAGS).arg(format!("-mcpu={}", self.target)).args(options);
        let file = |name: &&str| self.bitcode.join(name).with_extension("bc");
        let exact = options.iter().any(|option| option == EXACT_DIVISION);
        let sqrt = ["oclc_correctly_rounded_sqrt_off", "oclc_correctly_rounded_sqrt_on"];
        let switches = SWITCHES.iter().chain([&sqrt[usize::from(exact)]]);
        let switches = switches.map(file).filter(|file| file.is_file());
        let libraries = LIBRARIES.iter().map(file).chain([self.target_library()]).chain(switches);
        for library in libraries {
            command.args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang"]).arg(library);
        }
        command.args(["-o", "-", "-"]);
        command
    }
}

impl fmt::Display for Toolchain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with {}", self.clang.display(), self.bitcode.display())
    }
}

/// The version in a target's name: `803` of `gfx803`.
fn version(target: &str) -> Option<&str> {
    let version = target.strip_prefix("gfx")?;
    let is_plain = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_plain.then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found() -> Option<Toolchain> {
        let toolchain = Toolchain::find(None, "gfx803").ok();
        if toolchain.is_none() {
            // `tests/it/kernels.rs` is what fails where clang is required.
            eprintln!("SKIPPED: no clang for gfx803 on this machine");
        }
        toolchain
    }

    #[test]
    fn an_absent_clang_names_the_packages() {
        let error = Toolchain::find(Some(Path::new("/nowhere/clang")), "gfx803").unwrap_err();
        assert!(matches!(error, Error::NoCompiler { .. }));
        let error = error.to_string();
        for part in ["/nowhere/clang", "gfx803", "clang-15", "rocm-device-libs", "ROCM_DEVICE_LIBS"]
        {
            assert!(error.contains(part), "`{part}` is missing in: {error}");
        }
    }

    #[test]
    fn an_unknown_target_is_named() {
        for target in ["", "803", "gfx", "rx580", "gfx803:xnack-", "gfx../../x"] {
            let error = Toolchain::find(None, target).unwrap_err();
            assert!(matches!(error, Error::UnknownTarget { .. }), "{target}: {error}");
        }
        if found().is_some() {
            let error = Toolchain::find(None, "gfx999").unwrap_err();
            assert!(matches!(error, Error::UnknownTarget { .. }), "{error}");
            let error = error.to_string();
            assert!(error.contains("gfx999") && error.contains("oclc_isa_version_999"), "{error}");
        }
    }

    #[test]
    fn real_clang_output_is_understood() {
        let Some(toolchain) = found() else { return };
        let source = "__kernel __attribute__((reqd_work_group_size(SIZE, 1, 1)))\n\
            void sum_f32(__global const float *x, __global float *y) {\n\
              __local float t[SIZE];\n\
              t[get_local_id(0)] = x[get_global_id(0)];\n\
              barrier(CLK_LOCAL_MEM_FENCE);\n\
              y[get_global_id(0)] = exp(t[SIZE - 1 - get_local_id(0)]);\n\
            }";
        let options = ["-DSIZE=128".to_owned(), "-cl-mad-enable".to_owned()];
        let compiled = toolchain.compile("sum.cl", source, &options).unwrap();
        let kernels = parse_kernels(&compiled.assembly).unwrap();
        assert_eq!(kernels.len(), 1);
        assert_eq!(kernels[0].name, "sum_f32");
        assert_eq!(kernels[0].lds_bytes, 512);
        assert_eq!(kernels[0].required_workgroup, Some([128, 1, 1]));
        assert!(kernels[0].vgprs > 0 && kernels[0].code_bytes > 0);
        assert_eq!(kernels[0].spills(), 0);

        let error = toolchain.compile("dir/sum.cl SIZE=?", source, &[]).unwrap_err();
        assert!(matches!(error, Error::Rejected { .. }));
        let error = error.to_string();
        assert!(error.contains("dir/sum.cl SIZE=?:1:"), "no position in: {error}");
    }

    #[test]
    fn a_slow_compilation_is_stopped() {
        let Some(toolchain) = found() else { return };
        let error =
            toolchain.with_timeout(Duration::from_millis(1)).compile("probe.cl", PROBE, &[]);
        let error = error.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        assert!(error.to_string().contains("stopped after 0.001 s"), "{error}");
    }
}
