//! Results on stdout, as tables or JSON; everything else on stderr. All text for people passes through here, since
//! names from files may contain escape sequences that change the terminal.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use polaris::{Progress, printable, printable_lines};
use serde::Serialize;

/// Prints a result as JSON with its schema's name and version first.
pub fn print_json<T: Serialize>(schema: &str, result: &T) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Document<'a, T> {
        schema: &'a str,
        #[serde(flatten)]
        result: &'a T,
    }
    print_as_it_is(&safe_json(&serde_json::to_string_pretty(&Document { schema, result })?))
}

/// JSON with escapes for what serde leaves in strings: DEL, C1 and characters that change the direction of text.
fn safe_json(json: &str) -> Cow<'_, str> {
    if matches!(printable_lines(json), Cow::Borrowed(_)) {
        return Cow::Borrowed(json);
    }
    let escape = |character: char| match printable_lines(character.encode_utf8(&mut [0; 4])) {
        Cow::Borrowed(_) => character.to_string(),
        // They are found in strings only, and have four hexadecimal digits at most.
        Cow::Owned(_) => format!("\\u{:04x}", u32::from(character)),
    };
    json.chars().map(escape).collect()
}

/// Prints a result as one line of JSON, for results that follow one another.
pub fn print_json_line<T: Serialize>(result: &T) -> anyhow::Result<()> {
    print_as_it_is(&safe_json(&serde_json::to_string(result)?))
}

/// Text that a model writes, on stdout as it comes: as it is for a program, escaped for a terminal.
pub struct Stream {
    visible: bool,
    terminal: bool,
    closed: bool,
}

impl Stream {
    /// `visible`: whether anything is written.
    pub fn new(visible: bool) -> Self {
        Self { visible, terminal: std::io::stdout().is_terminal(), closed: false }
    }

    /// Writes text; false once nobody reads it any more.
    pub fn write(&mut self, text: &str) -> bool {
        if self.visible && !self.closed {
            let text = if self.terminal { printable_lines(text) } else { Cow::Borrowed(text) };
            let mut stdout = std::io::stdout().lock();
            self.closed = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).is_err();
        }
        !self.closed
    }

    /// Whether nobody reads it any more.
    pub fn is_closed(&self) -> bool {
        self.closed
    }
}

/// Prints text of one or more lines. A closed pipe (`polaris devices | head -1`) is not an error.
pub fn print_line(text: &str) -> anyhow::Result<()> {
    print_as_it_is(&printable_lines(text))
}

/// Prints a line on stderr. A closed stderr is not an error.
pub fn say_line(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{}", shortened(&printable_lines(text)));
}

/// Truncates text, since names from files may have any length.
fn shortened(text: &str) -> Cow<'_, str> {
    const LONGEST: usize = 8000;
    if text.len() <= LONGEST {
        return Cow::Borrowed(text);
    }
    let begin: String = text.chars().take(LONGEST / 2).collect();
    let left_out = text.len() - begin.len();
    Cow::Owned(format!("{begin} [... {left_out} more bytes]"))
}

/// As `eprintln!`, through [`say_line`].
macro_rules! say {
    ($($arg:tt)*) => { $crate::output::say_line(&format!($($arg)*)) };
}
pub(crate) use say;

fn print_as_it_is(text: &str) -> anyhow::Result<()> {
    match writeln!(std::io::stdout().lock(), "{text}") {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

/// Prints an error and its hint on stderr; with `--json` also on stdout, so that a program can read it.
pub fn report_error(error: &anyhow::Error, code: u8, json: bool) {
    let words = in_words(error)
        + &crate::hints::hint(error).map_or(String::new(), |hint| format!("; {hint}"));
    say!("error: {words}");
    if json {
        #[derive(Serialize)]
        struct Failure {
            error: String,
            exit_code: u8,
        }
        let _ = print_json("polaris.error/1", &Failure { error: words, exit_code: code });
    }
}

/// An error with its causes, each once: many messages already contain their cause.
fn in_words(error: &anyhow::Error) -> String {
    let mut words = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if words.is_empty() {
            words = cause;
        } else if !words.ends_with(&cause) {
            words = format!("{words}: {cause}");
        }
    }
    words
}

/// A table with left-aligned text and right-aligned numbers.
pub struct Table {
    rows: Vec<Vec<String>>,
    /// Which columns hold numbers.
    numbers: Vec<bool>,
}

impl Table {
    /// A table with these headings; a leading `>` marks a column of numbers.
    pub fn new(headings: &[&str]) -> Self {
        let numbers = headings.iter().map(|heading| heading.starts_with('>')).collect();
        let headings =
            headings.iter().map(|heading| heading.trim_start_matches('>').to_owned()).collect();
        Self { rows: vec![headings], numbers }
    }

    /// Adds a row. Long cells are truncated, since names from files may have any length.
    pub fn row(&mut self, cells: Vec<String>) {
        const LONGEST: usize = 200;
        let short = |cell: String| {
            let cell = printable(&cell);
            match cell.char_indices().nth(LONGEST) {
                Some((at, _)) => format!("{}...", &cell[..at]),
                None => cell.into_owned(),
            }
        };
        self.rows.push(cells.into_iter().map(short).collect());
    }

    /// Prints it, indented.
    pub fn print(&self) -> anyhow::Result<()> {
        let width = |column: usize| {
            self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..self.numbers.len()).map(width).collect();
        for row in &self.rows {
            let mut line = String::from(" ");
            for ((cell, &width), &number) in row.iter().zip(&widths).zip(&self.numbers) {
                line.push(' ');
                line.push_str(&if number {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                });
                line.push(' ');
            }
            print_line(line.trim_end())?;
        }
        Ok(())
    }
}

/// Replaces a file atomically: a reader sees the old one or the new one.
pub fn replace_file(path: &Path, text: &str) -> anyhow::Result<()> {
    polaris_files::write_atomic(path, text.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Shows the progress of the library: a bar and notes on stderr.
pub struct Shown(ProgressBar);

impl Shown {
    pub fn new() -> Self {
        Self(ProgressBar::hidden())
    }
}

impl Progress for Shown {
    fn begin(&mut self, title: &str, steps: usize) {
        self.0 = progress(steps, title);
    }

    fn advance(&mut self, done: usize, detail: &str) {
        self.0.set_position(done as u64);
        self.0.set_message(detail.to_owned());
    }

    fn end(&mut self) {
        self.0.finish_and_clear();
    }

    fn note(&mut self, text: &str) {
        self.0.suspend(|| say!("note: {text}"));
    }
}

/// A progress bar on stderr; invisible where stderr is not a terminal.
pub fn progress(length: usize, what: &str) -> ProgressBar {
    styled(Some(length as u64), what, "{prefix} [{bar:30}] {pos}/{len} {msg} ({eta} left)")
}

/// A progress bar for bytes; without a length it spins. Invisible where stderr is not a terminal.
pub fn byte_progress(length: Option<u64>, what: &str) -> ProgressBar {
    match length {
        Some(_) => styled(length, what, "{prefix} [{bar:30}] {percent} % {msg} ({eta} left)"),
        None => styled(length, what, "{prefix} {spinner} {bytes} {msg}"),
    }
}

/// What takes some seconds. Invisible where stderr is not a terminal.
pub fn spinner(what: &str) -> ProgressBar {
    styled(None, what, "{prefix} {spinner}")
}

fn styled(length: Option<u64>, what: &str, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
    let style = ProgressStyle::with_template(template);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
    bar.set_prefix(what.to_owned());
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_without_end_is_shortened() {
        let text = "\u{fc}".repeat(100_000);
        let short = shortened(&text);
        assert!(
            short.len() < 9000 && short.ends_with("[... 192000 more bytes]"),
            "{}",
            short.len()
        );
        assert_eq!(shortened("short"), "short");
    }

    #[test]
    fn names_in_tables_have_no_control_characters() {
        let mut table = Table::new(&["name"]);
        table.row(vec!["\u{1b}[31mred\n\u{202e}".to_owned()]);
        assert_eq!(table.rows[1], ["\\u{1b}[31mred\\n\\u{202e}"]);
    }

    #[test]
    fn json_stays_json() {
        let name = "a\u{1b}\u{9b}\u{7f}\u{202e}\n\u{e9}\u{1f600}";
        let json = serde_json::to_string_pretty(&serde_json::json!({ "name": name })).unwrap();
        let safe = safe_json(&json);
        let is_unsafe = |c: char| c != '\n' && (c.is_control() || c == '\u{202e}');
        assert!(!safe.contains(is_unsafe), "{safe}");
        let read: serde_json::Value = serde_json::from_str(&safe).unwrap();
        assert_eq!(read["name"], name);
    }
}
