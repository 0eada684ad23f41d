//! `polaris generate`: samples text from a GPT or llama of `polaris train`; files of other models go to `llm::generate`.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};

use anyhow::bail;
use polaris::nn::sample::{Sampling, generate};
use polaris::nn::train::{ModelFile, Task, Words};
use serde::Serialize;

use super::eval::model_path;
use super::train::chosen_device;
use crate::arguments::{Generate, Global};
use crate::output::say;
use crate::session::Session;
use crate::{exit, interrupt, output};

#[derive(Serialize)]
struct Generated {
    prompt: String,
    text: String,
    tokens: usize,
    seconds: f64,
}

pub fn run(global: Global, options: &Generate) -> anyhow::Result<u8> {
    if super::llm::is_language_model(&options.model) {
        return super::llm::generate::run(global, options);
    }
    let json = global.json;
    let path = model_path(&options.model)?;
    let mut session = Session::on_cpu(global)?;
    let device = chosen_device(&mut session, "cpu")?;
    let (about, model) = ModelFile::load(&path, &device)?;
    if about.task != Task::Tokens {
        bail!("{}: this model does not generate text; a GPT or a llama does", path.display());
    }
    let tokenizer = Words::new(about.tokenizer)?.tokenizer;
    let mut tokens = tokenizer.encode(&options.prompt)?;
    if tokens.is_empty() && !options.prompt.is_empty() {
        bail!("the model's tokenizer has no tokens for this prompt; use another prompt");
    }
    if tokens.is_empty() {
        tokens.push(0);
    }
    let given = tokens.len();
    let asked = &options.sampling;
    let sampling = Sampling {
        temperature: f64::from(asked.temperature.unwrap_or(0.8).max(0.0)),
        top_k: asked.top_k.map_or(0, |k| k.max(0) as usize),
        seed: asked.seed,
    };
    let mut stdout = std::io::stdout().lock();
    let terminal = stdout.is_terminal();
    let mut shown = Vec::new();
    let mut written = 0;
    let mut broken = false;
    if !json {
        write!(stdout, "{}", for_reader(&options.prompt, terminal))?;
    }
    let begin = std::time::Instant::now();
    let context = about.input.first().copied().unwrap_or(1);
    generate(
        &*model,
        &device,
        context,
        &mut tokens,
        options.tokens.unwrap_or(300),
        &sampling,
        |token| {
            shown.push(token);
            if !json {
                // A character may take several tokens; print it when it is complete.
                let text = tokenizer.decode(&shown);
                let whole = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
                if let Some(new) = whole.get(written..) {
                    let new = for_reader(new, terminal);
                    broken =
                        stdout.write_all(new.as_bytes()).and_then(|()| stdout.flush()).is_err();
                    written = whole.len();
                }
            }
            !broken && !interrupt::requested()
        },
    )?;
    let seconds = begin.elapsed().as_secs_f64();
    drop(stdout);
    let count = tokens.len() - given;
    if json {
        let text = tokenizer.decode(&shown);
        let generated = Generated { prompt: options.prompt.clone(), text, tokens: count, seconds };
        output::print_json("polaris.generate/1", &generated)?;
    } else {
        output::print_line("")?;
        say!("{count} tokens, {:.1} tokens/s", count as f64 / seconds.max(1e-9));
    }
    Ok(if interrupt::requested() { exit::INTERRUPTED } else { exit::OK })
}

/// The text for a program; escaped for a terminal.
fn for_reader(text: &str, terminal: bool) -> Cow<'_, str> {
    if terminal { polaris::printable_lines(text) } else { Cow::Borrowed(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_no_escape_sequences() {
        assert_eq!(for_reader("a\n\u{1b}[2J", true), "a\n\\u{1b}[2J");
        assert_eq!(for_reader("a\n\u{1b}[2J", false), "a\n\u{1b}[2J");
    }
}
