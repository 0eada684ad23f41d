//! Chat templates of language models: from messages to the text that a model continues.
//!
//! Models bring their template as the source of a Jinja program. [`Template`] parses and renders it with an interpreter
//! of its own, so that a template from anywhere ends, whatever it does: steps, memory, depth and output are limited,
//! and a template sees nothing but the [`Conversation`]. The language is what Hugging Face Transformers gives to
//! templates, with Python's meaning of values: `tojson` as `json.dumps`, methods of strings, slices, `namespace`,
//! macros, `break` and `continue`, `raise_exception`, `strftime_now`, `generation`.
//!
//! ```
//! use polaris_chat::{Conversation, Message, Template, new_text};
//!
//! let template = Template::parse(
//!     "{% for m in messages %}<{{ m.role }}>{{ m.content | trim }}</{{ m.role }}>\n{% endfor %}\
//!      {% if add_generation_prompt %}<assistant>{% endif %}",
//! )?;
//! let mut conversation = Conversation::new(vec![Message::user("Name a star. ")]);
//! let first = template.render(&conversation)?;
//! assert_eq!(first, "<user>Name a star.</user>\n<assistant>");
//! assert_eq!(template.end_of_turn("", "").as_deref(), Some("</assistant>"));
//!
//! conversation.messages.push(Message::assistant("Polaris"));
//! conversation.messages.push(Message::user("Another one."));
//! let second = template.render(&conversation)?;
//! let (kept, new) = new_text(&first, &second);
//! assert_eq!(kept, first.len());
//! assert_eq!(new, "Polaris</assistant>\n<user>Another one.</user>\n<assistant>");
//! # Ok::<(), polaris_chat::Error>(())
//! ```

#![forbid(unsafe_code)]

mod clock;
mod conversation;
mod error;
mod message;
mod run;
mod syntax;
mod template;
mod value;

pub use clock::DateTime;
pub use conversation::Conversation;
pub use error::{Error, Result};
pub use message::Message;
pub use template::{CHATML, Rendered, Template, new_text};
pub use value::Value;
