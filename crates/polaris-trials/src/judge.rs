//! Tells documented exits of the binary (docs/guide.md) from faults.

use std::path::Path;

use serde::Serialize;

use crate::process::{Call, Ended, Output};

/// Something that must not happen.
#[derive(Debug, Clone, Serialize)]
pub struct Fault {
    pub kind: Kind,
    /// What tells causes apart: faults with the same kind and cause are counted together.
    pub cause: String,
    /// What was found.
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Panic,
    Signal,
    Hang,
    ExitCode,
    /// A temporary file after the process ended by itself.
    Leftover,
    /// `--json`, and stdout is not one JSON document (of a chat: several).
    Json,
    /// It failed without a message.
    Silence,
    /// Terminals obey these; names in files must not reach them.
    ControlCharacters,
    /// More than anyone reads.
    Flood,
    /// Two ways of computing the same differ.
    Result,
    /// A file is incomplete, or a run cannot be resumed.
    Broken,
}

/// More than this on stderr is not a message.
const MOST_MESSAGE: usize = 64 << 10;

/// The faults of a process that ended, apart from what is left in its folder.
pub fn judge(call: &Call, ended: &Ended, folder: &Path) -> Vec<Fault> {
    let mut faults = Vec::new();
    // The trial's folder has another name in each run, and says nothing.
    let text = ended.stderr_text().replace(&format!("{}/", folder.display()), "");
    let command = command_of(call);
    let mut add = |kind, cause: String, detail: String| faults.push(Fault { kind, cause, detail });
    if ended.hung {
        add(Kind::Hang, command, format!("killed; it had said: {}", tail(&text)));
        return faults;
    }
    if let Some(at) = text.find("panicked at ") {
        add(Kind::Panic, masked(&panic_place(&text[at..])), tail(&text));
        return faults;
    }
    // The loader of the system, before the binary's first instruction.
    if ended.code() == Some(127) && text.contains("error while loading shared libraries") {
        return faults;
    }
    if let Some(signal) = ended.signal() {
        let own = ended.sent.is_some_and(|sent| number_of(sent) == signal);
        if !own {
            let is_hint = |line: &&str| line.starts_with("note: run with `RUST_BACKTRACE");
            let last = text.lines().rfind(|line| !is_hint(line)).unwrap_or_default();
            add(Kind::Signal, format!("{command}: signal {signal}: {}", masked(last)), tail(&text));
        }
        return faults;
    }
    let code = ended.code().unwrap_or(-1);
    let asked = ended.sent.is_some_and(|sent| sent != "KILL");
    if !is_documented(code, &command, asked) {
        let first = text.lines().next().unwrap_or_default();
        add(Kind::ExitCode, masked(&format!("{command}: {code}: {first}")), tail(&text));
    }
    // Ctrl-C needs no explanation, and what a test finds wrong is said on stdout.
    if matches!(code, 2 | 3) && text.trim().is_empty() {
        add(Kind::Silence, format!("{command}: {code}"), String::new());
    }
    if text.len() > MOST_MESSAGE {
        add(Kind::Flood, command.clone(), format!("{} bytes: {}", text.len(), tail(&text)));
    }
    if let Some(line) = text.lines().find(|line| has_control(line)) {
        // The first line says what it is about, if the damaged one itself does not.
        let first = text.lines().next().unwrap_or_default().replace(char::is_control, "");
        add(Kind::ControlCharacters, format!("{command}: {}", masked(&first)), format!("{line:?}"));
    }
    let json = call.arguments.iter().any(|argument| argument == "--json");
    if call.output != Output::Read {
        return faults;
    }
    if json {
        // A chat prints a document for each answer.
        let documents = serde_json::Deserializer::from_slice(&ended.stdout);
        let parsed = documents.into_iter::<serde_json::Value>().collect::<Result<Vec<_>, _>>();
        let parsed = match (command.as_str(), parsed) {
            ("chat", Ok(_)) => Ok(()),
            (_, Ok(documents)) if documents.len() == 1 => Ok(()),
            (_, Ok(documents)) => Err(format!("{} documents", documents.len())),
            (_, Err(error)) => Err(error.to_string()),
        };
        if let Err(error) = parsed
            && code != 2
        {
            let detail = format!("{error}: {}", tail(&String::from_utf8_lossy(&ended.stdout)));
            add(Kind::Json, format!("{command}: {code}"), detail);
        }
    } else if !matches!(command.as_str(), "generate" | "chat") {
        let stdout = String::from_utf8_lossy(&ended.stdout);
        if let Some(line) = stdout.lines().find(|line| has_control(line)) {
            add(Kind::ControlCharacters, format!("{command}: stdout"), format!("{line:?}"));
        }
    }
    faults
}

/// Temporary files that are left in a folder.
pub fn leftovers(call: &Call, folder: &Path) -> Option<Fault> {
    let left = find_unfinished(folder, 0)?;
    let detail = format!("{} is left", left.display());
    Some(Fault { kind: Kind::Leftover, cause: command_of(call), detail })
}

fn find_unfinished(folder: &Path, depth: usize) -> Option<std::path::PathBuf> {
    for entry in std::fs::read_dir(folder).ok()?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".writing-") {
            return Some(entry.path());
        }
        if depth < 6 && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let inside = find_unfinished(&entry.path(), depth + 1);
            if inside.is_some() {
                return inside;
            }
        }
    }
    None
}

/// Codes that a command may end with; 1 belongs to those that find something wrong.
fn is_documented(code: i32, command: &str, asked_to_stop: bool) -> bool {
    match code {
        0 | 2 | 3 => true,
        1 => matches!(command, "check" | "quickstart" | "bench" | "embed" | "onnx-test"),
        130 => asked_to_stop,
        _ => false,
    }
}

/// The command's name: the first argument that is not an option.
fn command_of(call: &Call) -> String {
    let first = call.arguments.iter().find(|argument| !argument.to_string_lossy().starts_with('-'));
    first.map_or_else(|| "polaris".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn has_control(line: &str) -> bool {
    line.chars().any(|c| c.is_control() && c != '\t')
}

fn number_of(signal: &str) -> i32 {
    match signal {
        "INT" => 2,
        "KILL" => 9,
        _ => 15,
    }
}

/// Where it panicked, and the first line of why.
fn panic_place(text: &str) -> String {
    let mut lines = text.lines();
    let place = lines.next().unwrap_or_default().trim_start_matches("panicked at ");
    // Of a dependency the folder of the registry says nothing.
    let place = place.split_once("/registry/src/").map_or(place, |(_, place)| place);
    format!("{place} {}", lines.next().unwrap_or_default())
}

/// Numbers and names differ from trial to trial; the cause is the text around them. Line numbers stay.
fn masked(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    if let Some((place, message)) =
        text.split_once(": ").filter(|(place, _)| place.contains(".rs:"))
    {
        out.push_str(place);
        out.push_str(": ");
        rest = message;
    }
    let mut quoted = false;
    for c in rest.chars().take(160) {
        match c {
            '`' => {
                quoted = !quoted;
                out.push('`');
            }
            _ if quoted => {}
            c if c.is_ascii_digit() => {
                if !out.ends_with('#') {
                    out.push('#');
                }
            }
            c => out.push(c),
        }
    }
    out
}

/// The end of a message, as one can print it.
fn tail(text: &str) -> String {
    let trimmed = text.trim_end();
    let start = trimmed.char_indices().rev().nth(600).map_or(0, |(at, _)| at);
    let printable = |c: char| if c.is_control() && c != '\n' { '?' } else { c };
    trimmed[start..].chars().map(printable).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    fn ended(raw: i32, stdout: &str, stderr: &str) -> Ended {
        Ended {
            status: ExitStatus::from_raw(raw),
            stdout: stdout.into(),
            stderr: stderr.into(),
            hung: false,
            sent: None,
        }
    }

    fn kinds(arguments: &[&str], ended: &Ended) -> Vec<Kind> {
        judge(&Call::new(arguments), ended, Path::new("/none"))
            .iter()
            .map(|fault| fault.kind)
            .collect()
    }

    #[test]
    fn documented_ends_are_no_faults() {
        assert!(kinds(&["run", "m"], &ended(0, "fine", "")).is_empty());
        assert!(kinds(&["run", "m"], &ended(3 << 8, "", "error: no such file")).is_empty());
        assert!(kinds(&["embed", "m"], &ended(1 << 8, "", "note: line 3 is empty")).is_empty());
        assert!(kinds(&["--json", "run"], &ended(0, "{\"a\": 1}\n", "")).is_empty());
    }

    #[test]
    fn everything_else_is_one() {
        let panic = "thread 'main' panicked at crates/a/src/b.rs:1:2:\nindex out of bounds";
        assert_eq!(kinds(&["run"], &ended(101 << 8, "", panic)), [Kind::Panic]);
        assert_eq!(kinds(&["run"], &ended(6, "", "memory allocation failed")), [Kind::Signal]);
        assert_eq!(kinds(&["run"], &ended(1 << 8, "", "error: x")), [Kind::ExitCode]);
        assert_eq!(kinds(&["run"], &ended(130 << 8, "", "stopped")), [Kind::ExitCode]);
        assert_eq!(kinds(&["run"], &ended(3 << 8, "", "")), [Kind::Silence]);
        assert_eq!(kinds(&["run", "--json"], &ended(0, "{} {}", "")), [Kind::Json]);
        assert_eq!(kinds(&["run"], &ended(0, "", "a\u{1b}[31m")), [Kind::ControlCharacters]);
        let hung = Ended { hung: true, ..ended(9, "", "") };
        assert_eq!(kinds(&["run"], &hung), [Kind::Hang]);
    }

    #[test]
    fn a_signal_that_was_sent_is_no_fault() {
        let killed = Ended { sent: Some("KILL"), ..ended(9, "", "") };
        assert!(kinds(&["train"], &killed).is_empty());
        let stopped = Ended { sent: Some("INT"), ..ended(130 << 8, "", "stopped") };
        assert!(kinds(&["train"], &stopped).is_empty());
        let crashed = Ended { sent: Some("INT"), ..ended(11, "", "") };
        assert_eq!(kinds(&["train"], &crashed), [Kind::Signal]);
    }

    #[test]
    fn causes_are_told_apart_by_place_and_words_only() {
        assert_eq!(
            masked("crates/a.rs:10:3: index 7 of `name`"),
            "crates/a.rs:10:3: index # of ``"
        );
        assert_eq!(masked("memory allocation of 123456 bytes"), "memory allocation of # bytes");
    }
}
