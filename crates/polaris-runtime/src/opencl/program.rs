//! Programs: OpenCL C source with typed defines, built at most once in a process and, where the
//! disk allows, at most once on a machine.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cl3::info_type::InfoType;
use cl3::kernel::{CL_KERNEL_NUM_ARGS, create_kernel, get_kernel_info};
use cl3::program::{
    CL_PROGRAM_BINARIES, CL_PROGRAM_BUILD_LOG, build_program, create_program_with_binary,
    create_program_with_source, get_program_build_info, get_program_info, release_program,
};
use cl3::types::{cl_context, cl_device_id, cl_program};
use polaris_core::printable_lines;
use serde::Serialize;

use crate::opencl::cache::{CacheKey, ProgramCache};
use crate::opencl::failed;
use crate::opencl::launch::Kernel;
use crate::{DeviceId, Error, Result};

/// A value of a define.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Define {
    /// A number.
    Number(i64),
    /// An identifier or expression of OpenCL C.
    Code(String),
}

impl fmt::Display for Define {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Code(code) => f.write_str(code),
        }
    }
}

/// Named parameters of a program, in the order in which they were set, and texts that belong to them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Defines {
    values: Vec<(&'static str, Define)>,
    texts: Vec<Cow<'static, str>>,
}

impl Defines {
    /// No parameters.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a number (or bool, as 0 or 1).
    #[must_use]
    pub fn number(mut self, name: &'static str, value: impl Into<i64>) -> Self {
        self.values.push((name, Define::Number(value.into())));
        self
    }

    /// Adds an identifier or expression.
    #[must_use]
    pub fn code(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.values.push((name, Define::Code(value.into())));
        self
    }

    /// Adds a text that stands between the parameters and the parts, once: the functions that a parameter names.
    #[must_use]
    pub fn text(mut self, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        if !self.texts.contains(&text) {
            self.texts.push(text);
        }
        self
    }

    /// The parameters.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &Define)> {
        self.values.iter().map(|(name, value)| (*name, value))
    }
}

/// What a program is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProgramSource {
    /// Names it in messages: the file and what it was specialised for.
    pub name: String,
    /// The texts that are joined to the source, in order: shared parts first.
    pub parts: &'static [&'static str],
    /// Its parameters.
    pub defines: Defines,
    /// Further compiler options, such as `-cl-mad-enable`.
    pub options: &'static str,
}

impl ProgramSource {
    /// The whole source. The defines stand in it as text, since expressions on a compiler's
    /// command line are quoted differently by every driver.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, value) in self.defines.iter() {
            let _ = writeln!(text, "#define {name} {value}");
        }
        let texts = self.defines.texts.iter().map(|text| &**text);
        for part in texts.chain(self.parts.iter().copied()) {
            text.push_str(part);
            text.push('\n');
        }
        text
    }
}

/// How programs came to be in this process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ProgramCounts {
    /// Compiled from source.
    pub built: usize,
    /// Read from disk.
    pub from_disk: usize,
}

/// A built program, released when dropped.
pub struct Program {
    raw: cl_program,
    device: DeviceId,
    source: ProgramSource,
}

// SAFETY: OpenCL programs may be used from any thread.
unsafe impl Send for Program {}
// SAFETY: as above.
unsafe impl Sync for Program {}

impl Program {
    /// One of its kernels.
    ///
    /// # Errors
    /// If there is no kernel of that name.
    pub(super) fn kernel(self: &Arc<Self>, name: &str) -> Result<Kernel> {
        let no_such_name = |_| Error::BadLaunch {
            kernel: name.to_owned(),
            why: "the name holds a zero byte".into(),
        };
        let c_name = CString::new(name).map_err(no_such_name)?;
        let raw = create_kernel(self.raw, &c_name).map_err(|code| match code {
            // CL_INVALID_KERNEL_NAME
            -46 => Error::BadLaunch {
                kernel: name.to_owned(),
                why: format!("`{}` has no kernel of that name", self.name()),
            },
            code => failed(self.device, "clCreateKernel")(code),
        })?;
        let arguments = match get_kernel_info(raw, CL_KERNEL_NUM_ARGS) {
            Ok(InfoType::Uint(count)) => Some(count),
            _ => None,
        };
        Ok(Kernel::new(raw, name.to_owned(), self.device, arguments, Arc::clone(self)))
    }

    pub(super) fn raw(&self) -> cl_program {
        self.raw
    }

    /// The name of its source.
    pub fn name(&self) -> &str {
        &self.source.name
    }

    /// Whether it was made from this source, whatever its name.
    pub(super) fn is_of(&self, source: &ProgramSource) -> bool {
        let ProgramSource { name: _, parts, defines, options } = source;
        let own = &self.source;
        own.parts == *parts && own.defines == *defines && own.options == *options
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: this value owns one reference.
        let _ = unsafe { release_program(self.raw) };
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Program({})", self.name())
    }
}

/// The programs of one device.
pub(super) struct Programs {
    context: cl_context,
    raw_device: cl_device_id,
    device: DeviceId,
    /// Name, platform and driver: what a binary is valid for.
    identity: String,
    cache: Arc<ProgramCache>,
    /// Whether the driver takes [`EXACT_DIVISION`].
    pub exact_division: bool,
    /// One slot per source, so that threads that want the same program wait for one build and
    /// others go on.
    slots: Mutex<HashMap<CacheKey, Arc<Slot>>>,
    built: AtomicUsize,
    from_disk: AtomicUsize,
    /// Whether what is built goes to the disk.
    keeps_built: AtomicBool,
}

type Slot = Mutex<Option<Arc<Program>>>;

/// The version every driver can be asked for.
const OPTIONS: &str = "-cl-std=CL1.2";

/// Lets quotients and square roots of floats be rounded correctly, as the CPU's are; otherwise they may be off
/// by 2.5 and 3 units in the last place. A source may name it among its options: it is left out where the
/// driver does not have it.
pub const EXACT_DIVISION: &str = "-cl-fp32-correctly-rounded-divide-sqrt";

/// The options that a driver is given.
fn options(wanted: &str, exact_division: bool) -> String {
    let wanted = wanted.split_ascii_whitespace();
    let known = wanted.filter(|&option| exact_division || option != EXACT_DIVISION);
    [OPTIONS].into_iter().chain(known).collect::<Vec<_>>().join(" ")
}

/// Answers to whether a source builds, as they are kept on disk.
const YES: &[u8] = b"yes";
const NO: &[u8] = b"no";

// SAFETY: OpenCL contexts and devices may be used from any thread.
unsafe impl Send for Programs {}
// SAFETY: as above; the rest is synchronised.
unsafe impl Sync for Programs {}

impl Programs {
    pub fn new(
        context: cl_context,
        raw_device: cl_device_id,
        device: DeviceId,
        identity: String,
        cache: Arc<ProgramCache>,
    ) -> Self {
        Self {
            context,
            raw_device,
            device,
            identity,
            cache,
            exact_division: false,
            slots: Mutex::default(),
            built: AtomicUsize::new(0),
            from_disk: AtomicUsize::new(0),
            keeps_built: AtomicBool::new(true),
        }
    }

    pub fn counts(&self) -> ProgramCounts {
        ProgramCounts {
            built: self.built.load(Ordering::Relaxed),
            from_disk: self.from_disk.load(Ordering::Relaxed),
        }
    }

    pub fn keep_built(&self, keep: bool) {
        self.keeps_built.store(keep, Ordering::Relaxed);
    }

    /// The program, from memory, from disk or built now.
    pub fn get(&self, source: &ProgramSource) -> Result<Arc<Program>> {
        let text = source.text();
        let options = options(source.options, self.exact_division);
        let key = CacheKey::new(&[&text, &options, &self.identity]);
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(key.clone()).or_default())
        };
        let mut program = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(program) = &*program {
            return Ok(Arc::clone(program));
        }
        let made = Arc::new(self.make(&key, &text, &options, source)?);
        *program = Some(Arc::clone(&made));
        Ok(made)
    }

    /// Whether the compiler takes a source. The answer is kept on disk, also if it is no.
    pub fn builds(&self, source: &ProgramSource) -> bool {
        let text = source.text();
        let options = options(source.options, true);
        let key = CacheKey::new(&["does it build?", &text, &options, &self.identity]);
        let _building = self.cache.lock(&key);
        if let Some(answer) = self.cache.load(&key) {
            self.from_disk.fetch_add(usize::from(answer == YES), Ordering::Relaxed);
            return answer == YES;
        }
        let built = self.build(&text, &options, source).is_ok();
        self.built.fetch_add(usize::from(built), Ordering::Relaxed);
        self.cache.store(&key, if built { YES } else { NO });
        built
    }

    fn make(
        &self,
        key: &CacheKey,
        text: &str,
        options: &str,
        source: &ProgramSource,
    ) -> Result<Program> {
        if let Some(program) = self.load(key, source) {
            return Ok(program);
        }
        // Whoever holds the lock builds; the others find its result on disk.
        let _building = self.cache.lock(key);
        if let Some(program) = self.load(key, source) {
            return Ok(program);
        }
        let program = self.build(text, options, source)?;
        self.built.fetch_add(1, Ordering::Relaxed);
        if self.keeps_built.load(Ordering::Relaxed)
            && self.cache.folder().is_some()
            && let Some(binary) = binary_of(&program)
        {
            self.cache.store(key, &binary);
        }
        Ok(program)
    }

    fn load(&self, key: &CacheKey, source: &ProgramSource) -> Option<Program> {
        let binary = self.cache.load(key)?;
        // SAFETY: the bytes are what this driver gave for this device, as their checksum shows.
        let raw =
            unsafe { create_program_with_binary(self.context, &[self.raw_device], &[&binary]) };
        let program = self.wrap(raw.ok()?, source);
        // The driver may refuse its own binary, say after a change of settings: build again.
        build_program(program.raw, &[self.raw_device], c"", None, std::ptr::null_mut()).ok()?;
        self.from_disk.fetch_add(1, Ordering::Relaxed);
        Some(program)
    }

    fn build(&self, text: &str, options: &str, source: &ProgramSource) -> Result<Program> {
        let raw = create_program_with_source(self.context, &[text]);
        let raw = raw.map_err(failed(self.device, "clCreateProgramWithSource"))?;
        let program = self.wrap(raw, source);
        let c_options = CString::new(options).unwrap_or_default();
        self.compile(&program, &c_options).map_err(|log| Error::BuildFailed {
            device: self.device,
            program: source.name.clone(),
            options: format!(" with {options}"),
            log,
        })?;
        Ok(program)
    }

    fn compile(&self, program: &Program, options: &CStr) -> std::result::Result<(), String> {
        let built =
            build_program(program.raw, &[self.raw_device], options, None, std::ptr::null_mut());
        built.map_err(|code| {
            let log = get_program_build_info(program.raw, self.raw_device, CL_PROGRAM_BUILD_LOG);
            let log = log
                .map(|log| {
                    printable_lines(log.to_string().trim_matches(['\0', ' ', '\n'])).into_owned()
                })
                .unwrap_or_default();
            if log.is_empty() { cl3::error_codes::error_text(code).to_owned() } else { log }
        })
    }

    fn wrap(&self, raw: cl_program, source: &ProgramSource) -> Program {
        Program { raw, device: self.device, source: source.clone() }
    }
}

fn binary_of(program: &Program) -> Option<Vec<u8>> {
    match get_program_info(program.raw, CL_PROGRAM_BINARIES) {
        Ok(InfoType::VecVecUchar(binaries)) => {
            binaries.into_iter().next().filter(|b| !b.is_empty())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_division_is_asked_for_where_the_driver_has_it() {
        let wanted = format!("-cl-mad-enable {EXACT_DIVISION}");
        assert_eq!(options(&wanted, false), "-cl-std=CL1.2 -cl-mad-enable");
        assert_eq!(
            options(&wanted, true),
            format!("-cl-std=CL1.2 -cl-mad-enable {EXACT_DIVISION}")
        );
        assert_eq!(options("", true), "-cl-std=CL1.2");
    }
}
