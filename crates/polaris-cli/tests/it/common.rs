//! Running the `polaris` command as a user would, with folders of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use polaris_testkit::is_required;
use serde_json::Value;
use tempfile::TempDir;

/// A user's folders: empty at first, and gone at the end.
pub struct Home {
    folder: TempDir,
    cache: PathBuf,
}

impl Home {
    /// With a cache of its own.
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let cache = folder.path().join("cache");
        Self { folder, cache }
    }

    /// With the cache that tests share which are not about it: drivers compile slowly.
    pub fn with_shared_cache() -> Self {
        Self::with_cache(&Path::new(env!("CARGO_TARGET_TMPDIR")).join("polaris-cache"))
    }

    /// With this cache folder.
    pub fn with_cache(cache: &Path) -> Self {
        Self { cache: cache.to_owned(), ..Self::new() }
    }

    /// For what a test makes.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn cache(&self) -> &Path {
        &self.cache
    }

    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// What the machine is remembered by.
    pub fn profile(&self) -> PathBuf {
        self.data().join("machine.json")
    }

    /// The command with these arguments, which are split at spaces.
    pub fn command(&self, arguments: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_polaris"));
        command.args(arguments.split_whitespace());
        for name in ["POLARIS_OPENCL", "POLARIS_LOG", "RUSTICL_ENABLE"] {
            command.env_remove(name);
        }
        command.env("POLARIS_CACHE_DIR", &self.cache).env("POLARIS_DATA_DIR", self.data());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs it to its end.
    pub fn run(&self, arguments: &str) -> Answer {
        Answer::of(&mut self.command(arguments))
    }

    /// Whether there is `opencl:0`; without it the test is skipped with a message, or fails if OpenCL is required.
    pub fn has_opencl(&self) -> bool {
        let machine = self.run("devices --json --no-first-check").json();
        let found = machine["devices"].as_array().is_some_and(|devices| devices.len() > 1);
        if !found {
            skip("opencl", &format!("no OpenCL device: {}", machine["opencl"]["problems"]));
        }
        found
    }
}

/// Says that a test is left out for want of something, unless that is required.
pub fn skip(what: &str, why: &str) {
    assert!(!is_required(what), "POLARIS_REQUIRE asks for {what} and yet {why}");
    let thread = std::thread::current();
    eprintln!("SKIPPED: {}: {why}", thread.name().unwrap_or("a test"));
}

/// What a process said and ended with.
#[derive(Debug)]
pub struct Answer {
    /// `None` if a signal ended it.
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Answer {
    pub fn of(command: &mut Command) -> Self {
        Self::from(command.output().expect("the polaris program should start"))
    }

    /// Asserts the exit code.
    #[track_caller]
    pub fn exits_with(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// stdout, as one JSON document with a schema.
    #[track_caller]
    pub fn json(&self) -> Value {
        let document: Value = serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("not one JSON document ({error}): {self:#?}"));
        let schema = document["schema"].as_str().unwrap_or_default();
        let version = schema.strip_prefix("polaris.").and_then(|rest| rest.split_once('/'));
        assert!(
            version.is_some_and(|(name, n)| !name.is_empty() && n.parse::<u32>().is_ok()),
            "{schema:?} is not of the form polaris.NAME/N"
        );
        document
    }

    /// stdout and stderr.
    pub fn text(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// How many lines of stderr hold this.
    pub fn notes_with(&self, part: &str) -> usize {
        self.stderr.lines().filter(|line| line.contains(part)).count()
    }

    /// Asserts that all of these are in what was printed.
    #[track_caller]
    pub fn says(self, parts: &[&str]) -> Self {
        let text = self.text();
        for part in parts {
            assert!(text.contains(part), "{part:?} is missing in {self:#?}");
        }
        self
    }
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output should be UTF-8");
        Self {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}
