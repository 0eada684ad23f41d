//! docs/cli.md: generated from the argument definitions, and compared with the committed page.

use std::fmt::Write;

use clap::{Arg, Command, CommandFactory};

use super::Arguments;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
/// Set by `cargo xtask docs`: write the page instead of comparing it.
const WRITE: &str = "POLARIS_WRITE_DOCS";
/// The heading of options that every command takes.
const GLOBAL: &str = "Global options";

#[test]
fn the_reference_follows_from_the_arguments() {
    let generated = page();
    if std::env::var_os(WRITE).is_some() {
        return std::fs::write(PAGE, generated).expect("docs/cli.md should be writable");
    }
    let committed = std::fs::read_to_string(PAGE).unwrap_or_default();
    let lines = generated.lines().zip(committed.lines().chain(std::iter::repeat("")));
    let different = lines.enumerate().find(|(_, (generated, committed))| generated != committed);
    if let Some((at, (generated, committed))) = different {
        panic!(
            "docs/cli.md is out of date at line {}; regenerate it with `cargo xtask docs`\n\
             committed: {committed}\ngenerated: {generated}",
            at + 1
        );
    }
    assert_eq!(generated, committed, "docs/cli.md is too long; run `cargo xtask docs`");
}

/// The page in Markdown.
fn page() -> String {
    let mut root = Arguments::command();
    // Gives subcommands their full names and the global options.
    root.build();
    let mut page = String::from(
        "# The `polaris` command\n\n\
         <!-- Generated from crates/polaris-cli/src/arguments.rs by `cargo xtask docs`. Do not edit. -->\n\n",
    );
    page += &description(&root);
    page += &after_help(&root);
    page += "## Commands\n\n| Command | Description |\n|---|---|\n";
    for command in commands(&root) {
        let name = full_name(&command);
        let anchor = name.replace(' ', "-");
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        _ = writeln!(page, "| [`{name}`](#{anchor}) | {} |", cell(&about));
    }
    _ = write!(page, "\n## {GLOBAL}\n\nEvery command takes these.\n\n");
    page += &options(root.get_arguments());
    for mut command in commands(&root) {
        _ = write!(page, "## `{}`\n\n", full_name(&command));
        page += &description(&command);
        let usage = command.render_usage().to_string();
        let usage = usage.trim_start_matches("Usage:").lines().map(str::trim).collect::<Vec<_>>();
        _ = write!(page, "```\n{}\n```\n\n", usage.join("\n"));
        let own = command.get_arguments().filter(|argument| {
            !argument.is_global_set() && !matches!(argument.get_id().as_str(), "help" | "version")
        });
        page += &options(own);
        page += &after_help(&command);
    }
    page.truncate(page.trim_end().len());
    page.push('\n');
    page
}

/// All commands below this one, in the order of the help.
fn commands(parent: &Command) -> Vec<Command> {
    let mut all = Vec::new();
    let shown = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    for command in parent.get_subcommands().filter(shown) {
        all.push(command.clone());
        all.extend(commands(command));
    }
    all
}

fn full_name(command: &Command) -> String {
    command.get_bin_name().unwrap_or(command.get_name()).to_owned()
}

fn description(command: &Command) -> String {
    let text = command.get_long_about().or(command.get_about());
    let text = text.map(ToString::to_string).unwrap_or_default();
    text.split("\n\n").map(|paragraph| format!("{}\n\n", links(&sentence(paragraph)))).collect()
}

/// Arguments and options as a table; empty if there are none.
fn options<'a>(arguments: impl Iterator<Item = &'a Arg>) -> String {
    let mut table = String::new();
    for argument in arguments.filter(|argument| !argument.is_hide_set()) {
        let help = argument.get_long_help().or(argument.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        let mut default = default_values(argument);
        let mut text = String::new();
        for (at, paragraph) in help.split("\n\n").enumerate() {
            let mut paragraph = paragraph;
            // Defaults that are no plain values stand at the end of the short help.
            if at == 0
                && let Some((short, stated)) = paragraph.split_once(" [default: ")
            {
                (paragraph, default) = (short, stated.trim_end_matches(']').to_owned());
            }
            let separator = if at == 0 { "" } else { " " };
            _ = write!(text, "{separator}{}", sentence(paragraph));
        }
        text += &possible_values(argument);
        _ = writeln!(table, "| {} | {} | {default} |", name(argument), links(&cell(&text)));
    }
    match table.as_str() {
        "" => table,
        rows => format!("| Option | Description | Default |\n|---|---|---|\n{rows}\n"),
    }
}

/// An option with its value, as in `-o`, `--output OUT`.
fn name(argument: &Arg) -> String {
    let takes_value = argument.get_action().takes_values();
    let values = argument.get_value_names().filter(|_| takes_value).unwrap_or_default();
    let value = values.iter().map(|name| format!(" {name}")).collect::<String>();
    let long = argument.get_long().map(|long| format!("`--{long}{value}`"));
    let short = argument.get_short().map(|short| format!("`-{short}`"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    if names.is_empty() { format!("`{}`", value.trim()) } else { names.join(", ") }
}

fn default_values(argument: &Arg) -> String {
    if !argument.get_action().takes_values() {
        return String::new();
    }
    let value = |value: &clap::builder::OsStr| {
        let value = value.to_string_lossy().escape_debug().to_string();
        if value.is_empty() { String::new() } else { format!("`{value}`") }
    };
    argument.get_default_values().iter().map(value).collect::<Vec<_>>().join(", ")
}

fn possible_values(argument: &Arg) -> String {
    let values = argument.get_possible_values();
    let shown = values.iter().filter(|value| !value.is_hide_set());
    let values: Vec<String> = shown
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), lower_case(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if values.is_empty() { String::new() } else { format!(" Values: {}.", values.join(", ")) }
}

/// The blocks of a command's closing help: examples as code, other lists as tables.
fn after_help(command: &Command) -> String {
    let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut blocks = String::new();
    for block in text.split("\n\n").filter(|block| !block.is_empty()) {
        let (title, lines) = block.split_once(":\n").expect("after_help should have titled lists");
        _ = write!(blocks, "{title}:\n\n");
        if title == "Examples" {
            let lines: Vec<String> = lines.lines().map(example).collect();
            _ = write!(blocks, "```sh\n{}\n```\n\n", lines.join("\n"));
            continue;
        }
        blocks += "| | |\n|---|---|\n";
        for line in lines.lines() {
            let (name, meaning) = line.trim().split_once("  ").expect("two columns");
            _ = writeln!(blocks, "| `{name}` | {} |", cell(meaning.trim()));
        }
        blocks.push('\n');
    }
    blocks
}

/// A line of the examples; what stands behind the command becomes a comment.
fn example(line: &str) -> String {
    let line = line.trim();
    match line.split_once("  ") {
        Some((command, comment)) => {
            let width = line.len() - comment.trim_start().len();
            format!("{command:<width$}# {}", comment.trim_start())
        }
        None => line.to_owned(),
    }
}

/// Text that ends with a full stop; help texts of one sentence have none.
fn sentence(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() || text.ends_with('.') { text.to_owned() } else { format!("{text}.") }
}

fn lower_case(text: &str) -> String {
    let mut letters = text.chars();
    let acronym = letters.clone().nth(1).is_some_and(char::is_uppercase);
    match letters.next() {
        Some(first) if !acronym => first.to_lowercase().chain(letters).collect(),
        _ => text.to_owned(),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

/// Makes links of the pages that help texts name, as in docs/json.md.
fn links(text: &str) -> String {
    let mut linked = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("docs/") {
        linked += before;
        let end = after.find(".md").expect("a page of docs/") + ".md".len();
        let (page, behind) = after.split_at(end);
        _ = write!(linked, "[{page}]({page})");
        rest = behind;
    }
    linked + rest
}
