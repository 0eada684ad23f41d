//! Templates: parsing, and rendering within limits.

use std::ops::Range;

use crate::clock::DateTime;
use crate::conversation::Conversation;
use crate::error::{Error, Result};
use crate::message::Message;
use crate::run::{self, Limits};
use crate::syntax::{self, ast::Program};

/// Steps of a rendering (statements, parts of expressions, 16 bytes moved), and how many more for each byte of the
/// conversation. The templates of real models take about 100 steps for a message, and some go through all messages for
/// each of them. A million steps take about 0.1 seconds.
const STEPS: u64 = 5_000_000;
const STEPS_PER_BYTE: u64 = 100;

/// Memory of all values at one time in bytes, and how many more for each byte of the conversation: templates copy it
/// a few times.
const MEMORY: usize = 16 << 20;
const MEMORY_PER_BYTE: usize = 8;

/// Length of the text in bytes, and how many more for each byte of the conversation: templates write every message
/// about once, with instructions of some kilobytes in front.
const OUTPUT: usize = 4 << 20;
const OUTPUT_PER_BYTE: usize = 4;

/// The template for models without one: ChatML, which most models have seen.
///
/// It does not write `bos`, since ChatML models have none; add the token if the model's tokenizer does.
pub const CHATML: &str = "\
{%- for message in messages -%}
{{ '<|im_start|>' + message.role + '\\n' }}
{%- if message.content is string -%}
{{ message.content }}
{%- else -%}
{%- for part in message.content or [] -%}{{ part.text if part.text is string else '' }}{%- endfor -%}
{%- endif -%}
{{ '<|im_end|>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\\n' }}{%- endif -%}
";

/// The text of a conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// The bytes of it that come from the conversation: what users, tools and the model have said. Where the texts of
    /// special tokens are among these, they are text; the template writes the tokens. Ranges in order, apart from each
    /// other.
    pub content: Vec<Range<usize>>,
}

/// A chat template, parsed.
///
/// Templates come with models from anywhere, so they may be hostile. A template is a program of a small language
/// (Jinja, with Python's meaning of values), which sees the conversation and nothing else; a rendering ends with an
/// error when it takes too many steps, too much memory, too much depth, or writes too much.
#[derive(Debug)]
pub struct Template {
    program: Program,
}

impl Template {
    /// Parses the Jinja source of a template: `tokenizer.chat_template` of a GGUF file, `chat_template` of a
    /// `tokenizer_config.json`, or a `chat_template.jinja`.
    pub fn parse(source: &str) -> Result<Self> {
        Ok(Self { program: syntax::parse(source)? })
    }

    /// The template for models without one, [`CHATML`].
    pub fn chatml() -> Self {
        Self::parse(CHATML).expect("the template CHATML should parse")
    }

    /// The text of a conversation.
    ///
    /// # Errors
    /// As for [`Template::render_marked`].
    pub fn render(&self, conversation: &Conversation) -> Result<String> {
        Ok(self.render_marked(conversation)?.text)
    }

    /// The text of a conversation, with what of it is content.
    ///
    /// The arguments of tool calls are maps for the template and absent content is `none`, as in Hugging Face
    /// Transformers. Some templates add them to text, which fails: then the conversation is rendered once more with
    /// arguments as JSON text, with empty content, or with both.
    ///
    /// # Errors
    /// If the template refuses the conversation, fails, or exceeds a limit.
    pub fn render_marked(&self, conversation: &Conversation) -> Result<Rendered> {
        let error = match self.render_once(conversation) {
            Err(error @ (Error::Render { .. } | Error::Refused { .. })) => error,
            result => return result,
        };
        conversation.other_forms().find_map(|form| self.render_once(&form).ok()).ok_or(error)
    }

    fn render_once(&self, conversation: &Conversation) -> Result<Rendered> {
        let variables = conversation.all_variables();
        let size: usize = variables.iter().map(|(name, value)| name.len() + value.size()).sum();
        let limits = Limits {
            steps: STEPS.saturating_add((size as u64).saturating_mul(STEPS_PER_BYTE)),
            memory: MEMORY.saturating_add(size.saturating_mul(MEMORY_PER_BYTE)),
            output: OUTPUT.saturating_add(size.saturating_mul(OUTPUT_PER_BYTE)),
        };
        let variables = variables.iter().map(|(name, value)| (name.as_str(), value));
        let (text, content) = run::render(&self.program, variables, conversation.now, limits)?;
        Ok(Rendered { text, content: content.into_ranges() })
    }

    /// The text that the template writes behind an answer, such as `<|im_end|>`, up to whitespace: where a model writes
    /// it, its turn has ended. Nothing where the template writes none, or refuses a short conversation.
    ///
    /// It may be several tokens, of which the first ends the turn, and a few templates write what belongs to the next
    /// turn without being asked: look for the model's own end tokens first. `bos` and `eos` are the texts of the model's
    /// tokens, as in [`Conversation`].
    pub fn end_of_turn(&self, bos: &str, eos: &str) -> Option<String> {
        // No template has a reason to change such a word, and the date does not matter.
        const ANSWER: &str = "Polaris";
        let messages = vec![Message::user("Name a star."), Message::assistant(ANSWER)];
        let conversation = Conversation {
            bos: bos.to_owned(),
            eos: eos.to_owned(),
            add_generation_prompt: false,
            now: Some(DateTime::from_unix(0)),
            ..Conversation::new(messages)
        };
        let text = self.render(&conversation).ok()?;
        let (_, end) = text.rsplit_once(ANSWER)?;
        end.split_whitespace().next().map(str::to_owned)
    }
}

/// The part of `after` that is new: what follows the text that both begin with, and how many bytes of `before` that
/// text has. Tokens of the common text can stay in the cache of a model.
///
/// Texts of a growing conversation usually share all of the older one. Some templates rewrite what came before, for
/// example to remove the reasoning of earlier answers; then less is shared.
pub fn new_text<'a>(before: &str, after: &'a str) -> (usize, &'a str) {
    let mut common = before.bytes().zip(after.bytes()).take_while(|(a, b)| a == b).count();
    while !after.is_char_boundary(common) {
        common -= 1;
    }
    (common, &after[common..])
}
