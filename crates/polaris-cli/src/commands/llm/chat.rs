//! `polaris chat`: a conversation in the terminal.

use std::io::{BufRead, IsTerminal, Read, Write};
use std::ops::ControlFlow;
use std::path::Path;

use polaris::llm::{Chat as Conversation, Finish, GenerateOptions};
use serde::Serialize;

use super::{device, engine, grammar, speculation};
use crate::arguments::{Chat, Global};
use crate::output::{Stream, say};
use crate::{exit, interrupt, output};

const HELP: &str = "/system TEXT   tell the model what it is, from the next message on
/reset         forget the conversation
/save FILE     write the conversation as JSON
/help          show this
/exit          leave, as Ctrl-D does
Ctrl-C stops an answer; a line that ends in \\ goes on in the next one.";

/// The most bytes of a message; contexts are far shorter.
const LONGEST_LINE: u64 = 16 << 20;

/// An answer, with `--json` a line for each.
#[derive(Serialize)]
struct Answer<'a> {
    schema: &'static str,
    text: &'a str,
    finish: &'static str,
    tokens: usize,
    seconds: f64,
    prompt_tokens: usize,
    reused_tokens: usize,
    dropped_messages: usize,
    prompt_seconds: f64,
    proposed_tokens: usize,
    accepted_tokens: usize,
}

/// What a line of the user means.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    System(&'a str),
    Reset,
    Save(&'a str),
    Help,
    Exit,
    Unknown(&'a str),
    Message(&'a str),
}

fn parse(line: &str) -> Line<'_> {
    let line = line.trim();
    let Some(command) = line.strip_prefix('/') else { return Line::Message(line) };
    let (name, rest) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
    match name {
        "system" => Line::System(rest.trim()),
        "reset" => Line::Reset,
        "save" if !rest.trim().is_empty() => Line::Save(rest.trim()),
        "help" | "?" => Line::Help,
        "exit" | "quit" | "bye" => Line::Exit,
        _ => Line::Unknown(line),
    }
}

pub fn run(global: Global, options: &Chat) -> anyhow::Result<u8> {
    let json = global.json;
    let grammar = grammar(&options.constraint)?;
    let (_session, device) = device(global, options.engine.mode)?;
    let mut engine = engine(&options.model, &device, &options.engine)?;
    let speculation = speculation(&mut engine, &device, &options.engine, &options.speculation)?;
    let mut chat = Conversation::new(engine)?;
    chat.set_truncates(options.truncate);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    chat.set_time(now.map_or(0, |now| now.as_secs() as i64));
    if let Some(system) = &options.system {
        chat.set_system(system);
    }
    let generate = GenerateOptions {
        sampling: options.sampling.options(chat.engine().model().sampling()),
        max_tokens: options.tokens,
        grammar,
        speculation,
        ..GenerateOptions::default()
    };
    let is_terminal = std::io::stdin().is_terminal();
    if is_terminal && !json {
        let name = chat.engine().model().name().unwrap_or("the model").to_owned();
        let context = chat.engine().context();
        say!("{name} on {}, {context} tokens of context; /help lists commands", device.id());
        if super::is_built_in(&options.model) {
            say!("note: it is a toy that is built in; `polaris chat FILE.gguf` uses a real model");
        }
    }
    while let Some(line) = read_message(is_terminal && !json)? {
        match parse(&line) {
            Line::Message("") => {}
            Line::Message(text) => {
                // A Ctrl-C at the prompt was for the prompt.
                interrupt::forget();
                match answer(&mut chat, text, &generate, json) {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        let code = exit::code_of(&error);
                        output::report_error(&error, code, json);
                        if !is_terminal {
                            return Ok(code);
                        }
                    }
                }
            }
            Line::System(text) => chat.set_system(text),
            Line::Reset => chat.reset(),
            Line::Save(path) => match save(&chat, Path::new(path)) {
                Ok(()) => say!("saved to {path}"),
                Err(error) => say!("error: {error:#}"),
            },
            Line::Help => say!("{HELP}"),
            Line::Exit => break,
            Line::Unknown(line) => say!("there is no command `{line}`; /help lists commands"),
        }
    }
    Ok(exit::OK)
}

/// Prints an answer; false if nobody reads it any more.
fn answer(
    chat: &mut Conversation,
    text: &str,
    options: &GenerateOptions,
    json: bool,
) -> anyhow::Result<bool> {
    let mut stream = Stream::new(!json);
    let mut on_text = |text: &str| match stream.write(text) {
        true => ControlFlow::Continue(()),
        false => ControlFlow::Break(()),
    };
    let generated = chat.ask(text, options, &mut on_text, &interrupt::requested)?;
    if json {
        let answer = Answer {
            schema: "polaris.chat/1",
            text: &generated.text,
            finish: generated.finish.name(),
            tokens: generated.tokens.len(),
            seconds: generated.time.as_secs_f64(),
            prompt_tokens: generated.prompt_tokens,
            reused_tokens: generated.reused_tokens,
            dropped_messages: generated.dropped_messages,
            prompt_seconds: generated.prompt_time.as_secs_f64(),
            proposed_tokens: generated.proposed_tokens,
            accepted_tokens: generated.accepted_tokens,
        };
        output::print_json_line(&answer)?;
        return Ok(true);
    }
    output::print_line("")?;
    if generated.dropped_messages > 0 {
        let dropped = generated.dropped_messages;
        say!("note: the {dropped} oldest messages no longer fit the context and were dropped");
    }
    match generated.finish {
        Finish::ContextFull => {
            say!(
                "note: the context is full; /reset begins anew, -c gives a longer one, --truncate drops old turns"
            );
        }
        Finish::Stopped if interrupt::requested() => say!("note: stopped"),
        _ => {}
    }
    interrupt::forget();
    Ok(!stream.is_closed())
}

/// A message of one or more lines; `None` at the end of the input.
fn read_message(prompt: bool) -> anyhow::Result<Option<String>> {
    let mut message = String::new();
    loop {
        if prompt {
            let sign = if message.is_empty() { "> " } else { "| " };
            let _ =
                write!(std::io::stderr().lock(), "{sign}").and_then(|()| std::io::stderr().flush());
        }
        let mut line = String::new();
        if std::io::stdin().lock().take(LONGEST_LINE).read_line(&mut line)? == 0 {
            return Ok((!message.is_empty()).then_some(message));
        }
        if (message.len() + line.len()) as u64 >= LONGEST_LINE {
            anyhow::bail!("a message has more than {LONGEST_LINE} bytes; give a shorter one");
        }
        let line = line.trim_end_matches(['\n', '\r']);
        match line.strip_suffix('\\') {
            Some(begin) => {
                message.push_str(begin);
                message.push('\n');
            }
            None => {
                message.push_str(line);
                return Ok(Some(message));
            }
        }
    }
}

fn save(chat: &Conversation, path: &Path) -> anyhow::Result<()> {
    #[derive(Serialize)]
    struct Message {
        role: String,
        content: String,
    }
    #[derive(Serialize)]
    struct Saved {
        schema: &'static str,
        messages: Vec<Message>,
    }
    let message = |message: &polaris::llm::Message| Message {
        role: message.role().to_owned(),
        content: message
            .get("content")
            .and_then(|text| text.as_text())
            .unwrap_or_default()
            .to_owned(),
    };
    let messages = chat.messages().iter().map(message).collect();
    let saved = Saved { schema: "polaris.conversation/1", messages };
    output::replace_file(path, &(serde_json::to_string_pretty(&saved)? + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_messages_or_commands() {
        assert_eq!(parse("hello /reset"), Line::Message("hello /reset"));
        assert_eq!(parse("  /system  be brief "), Line::System("be brief"));
        assert_eq!(parse("/system"), Line::System(""));
        assert_eq!(parse("/save chat.json"), Line::Save("chat.json"));
        assert_eq!(parse("/save"), Line::Unknown("/save"));
        assert_eq!(parse("/exit"), Line::Exit);
        assert_eq!(parse("/nonsense"), Line::Unknown("/nonsense"));
    }
}
