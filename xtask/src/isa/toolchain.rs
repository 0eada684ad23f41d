//! Finds a clang and the AMD device libraries that together compile OpenCL C for gfx803.

use std::fmt;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::assembly::parse_kernels;

/// Names to try, the version the figures in our documents come from first.
const CLANGS: [&str; 7] =
    ["clang-15", "clang-16", "clang-17", "clang-18", "clang-19", "clang-20", "clang"];

/// Fixed part of the command line.
///
/// The code object version is stated because clang's default changes between versions and has to
/// agree with the `oclc_abi_version` that is linked.
const FLAGS: [&str; 13] = [
    "-x",
    "cl",
    "-cl-std=CL1.2",
    "-target",
    "amdgcn-amd-amdhsa",
    "-mcpu=gfx803",
    "-mcode-object-version=4",
    "-nogpulib",
    "-Xclang",
    "-finclude-default-header",
    "-O3",
    "-S",
    "-fno-color-diagnostics",
];

/// Device libraries every installation has.
const LIBRARIES: [&str; 4] = ["opencl", "ocml", "ockl", "oclc_isa_version_803"];

/// Switches of the device libraries, linked where present: the set differs between releases.
/// Unsafe and finite-only math stay off since our operations define their results for NaN and
/// infinity.
const SWITCHES: [&str; 6] = [
    "oclc_wavefrontsize64_on",
    "oclc_finite_only_off",
    "oclc_unsafe_math_off",
    "oclc_daz_opt_on",
    "oclc_correctly_rounded_sqrt_off",
    "oclc_abi_version_400",
];

/// Uses the header, a work-item function and a math function, so that it needs every library.
const PROBE: &str = "__kernel void probe(__global float *x) { x[get_global_id(0)] = exp(*x); }";

/// A compiler and its device libraries, known to work together.
#[derive(Debug, Clone)]
pub struct Toolchain {
    clang: PathBuf,
    bitcode: PathBuf,
}

/// Result of a successful compilation.
#[derive(Debug)]
pub struct Compiled {
    /// The assembly text.
    pub assembly: String,
    /// What clang had to say all the same: warnings.
    pub log: String,
}

/// No usable compiler on this machine, and why.
#[derive(Debug)]
pub struct Unusable {
    tried: Vec<String>,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "no clang that compiles OpenCL C for gfx803:")?;
        for line in &self.tried {
            writeln!(f, "  {line}")?;
        }
        write!(
            f,
            "install the Debian packages clang-15 and rocm-device-libs, or name other places with \
             --clang PATH and the environment variable ROCM_DEVICE_LIBS (a folder with opencl.bc)"
        )
    }
}

impl std::error::Error for Unusable {}

impl Toolchain {
    /// Tries `clang`, or the usual names, with each folder of device libraries until a small
    /// kernel compiles. (A clang older than the bitcode cannot read it: presence is not enough.)
    pub fn find(clang: Option<&Path>) -> Result<Self, Unusable> {
        let names: Vec<PathBuf> = match clang {
            Some(path) => vec![path.to_owned()],
            None => CLANGS.iter().map(PathBuf::from).collect(),
        };
        let mut tried = Vec::new();
        for name in &names {
            let resources = match resource_folder(name) {
                Ok(folder) => folder,
                // Saying that clang-17 is absent helps only who asked for it.
                Err(error) if clang.is_none() && is_not_found(&error) => continue,
                Err(error) => {
                    tried.push(format!("{}: {error:#}", name.display()));
                    continue;
                }
            };
            let folders = bitcode_folders(&resources);
            if folders.is_empty() {
                tried.push(format!("{}: found, but no device libraries", name.display()));
            }
            for bitcode in folders {
                let candidate = Self { clang: name.clone(), bitcode };
                match candidate.probe() {
                    Ok(()) => return Ok(candidate),
                    Err(error) => tried.push(format!("{candidate}: {error:#}")),
                }
            }
        }
        if tried.is_empty() {
            tried.push(format!("none of {} is installed", CLANGS.join(", ")));
        }
        Err(Unusable { tried })
    }

    /// Compiles one program to assembly. `name` stands for the file in clang's messages.
    pub fn compile(&self, name: &str, source: &str, options: &[String]) -> Result<Compiled> {
        let mut child = self
            .command(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {}", self.clang.display()))?;
        let file = name.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!("#line 1 \"{file}\"\n{source}\n");
        let mut stdin = child.stdin.take().expect("stdin should be piped");
        match stdin.write_all(text.as_bytes()) {
            // Clang left early, over a bad option for example: its log tells more.
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                return Err(error).context("cannot hand the source to clang");
            }
            _ => drop(stdin),
        }
        let output = child.wait_with_output().context("cannot read clang's output")?;
        let log = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            bail!("clang: {}\n{}", output.status, log.trim_end());
        }
        let assembly = String::from_utf8(output.stdout).context("clang's output is no UTF-8")?;
        Ok(Compiled { assembly, log })
    }

    fn probe(&self) -> Result<()> {
        let compiled = self.compile("probe.cl", PROBE, &[])?;
        match parse_kernels(&compiled.assembly)?.len() {
            1 => Ok(()),
            count => bail!("the probe has 1 kernel, its assembly {count}"),
        }
    }

    fn command(&self, options: &[String]) -> Command {
        let mut command = Command::new(&self.clang);
        command.args(FLAGS).args(options);
        for library in LIBRARIES.iter().chain(&SWITCHES) {
            let file = self.bitcode.join(library).with_extension("bc");
            if LIBRARIES.contains(library) || file.is_file() {
                command.args(["-Xclang", "-mlink-builtin-bitcode", "-Xclang"]).arg(file);
            }
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

fn is_not_found(error: &anyhow::Error) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|error| error.kind() == ErrorKind::NotFound)
}

/// Clang's own folder, which may hold device libraries.
fn resource_folder(clang: &Path) -> Result<PathBuf> {
    let output = Command::new(clang).arg("-print-resource-dir").output()?;
    if !output.status.success() {
        bail!("-print-resource-dir: {}", output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}

/// Folders that hold the device libraries; only the one in `ROCM_DEVICE_LIBS` when that is set.
fn bitcode_folders(resources: &Path) -> Vec<PathBuf> {
    let folders = match std::env::var_os("ROCM_DEVICE_LIBS") {
        Some(folder) => {
            let folder = PathBuf::from(folder);
            vec![folder.join("amdgcn/bitcode"), folder]
        }
        None => vec![
            PathBuf::from(format!("/usr/lib/{}-linux-gnu/amdgcn/bitcode", std::env::consts::ARCH)),
            resources.join("amdgcn/bitcode"),
            resources.join("lib/amdgcn/bitcode"),
            PathBuf::from("/usr/lib/amdgcn/bitcode"),
            PathBuf::from("/usr/lib64/amdgcn/bitcode"),
            PathBuf::from("/usr/share/amdgcn/bitcode"),
            PathBuf::from("/usr/amdgcn/bitcode"),
            PathBuf::from("/opt/rocm/amdgcn/bitcode"),
        ],
    };
    folders.into_iter().filter(|folder| folder.join("opencl.bc").is_file()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_absent_clang_names_the_packages() {
        let error = Toolchain::find(Some(Path::new("/nowhere/clang"))).unwrap_err().to_string();
        for part in ["/nowhere/clang", "clang-15", "rocm-device-libs", "ROCM_DEVICE_LIBS"] {
            assert!(error.contains(part), "`{part}` is missing in: {error}");
        }
    }

    #[test]
    fn real_clang_output_is_understood() {
        // The report itself is the gate that requires clang; see POLARIS_REQUIRE in `suite`.
        let Ok(toolchain) = Toolchain::find(None) else {
            eprintln!("SKIPPED: no clang for gfx803 on this machine");
            return;
        };
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

        let error = toolchain.compile("dir/sum.cl SIZE=?", source, &[]).unwrap_err().to_string();
        assert!(error.contains("dir/sum.cl SIZE=?:1:"), "no position in: {error}");
    }
}
