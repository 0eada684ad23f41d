//! Grammars that constrain text, and the matcher that follows a text through them.

mod analyse;
mod automaton;
pub(crate) mod charset;
mod compile;
pub(crate) mod expr;
pub(crate) mod gbnf;
mod matcher;
mod pieces;

use std::sync::Arc;

pub use matcher::Matcher;
pub use pieces::Pieces;

use compile::Network;
use expr::Rules;

use crate::error::Shown;
use crate::{Error, Result};

/// A grammar, ready to follow texts; cheap to clone.
///
/// Whatever it allows can be completed: alternatives that no finite text matches are dropped.
///
/// ```
/// use polaris_sample::{Grammar, Matcher, Pieces};
/// use std::sync::Arc;
///
/// let grammar = Grammar::from_gbnf(r#"root ::= "yes" | "no" "!"*"#)?;
/// let pieces = Arc::new(Pieces::new(&["y", "no", "es", "!!", ""], &[4])?);
/// let mut matcher = Matcher::new(&grammar, pieces)?;
/// assert!(matcher.allowed()?.allows(1) && !matcher.allowed()?.allows(3));
/// matcher.accept_token(1)?;
/// assert!(matcher.is_complete() && matcher.allowed()?.allows(3) && matcher.allowed()?.allows(4));
/// # Ok::<(), polaris_sample::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Grammar(Arc<Compiled>);

#[derive(Debug)]
struct Compiled {
    network: Network,
    /// Whether a node can lead to the end of its rule.
    live: Vec<bool>,
    /// Bytes that no arc tells apart have the same class.
    classes: [u8; 256],
    class_count: usize,
}

impl Grammar {
    /// Reads a grammar in GBNF, as llama.cpp defines it.
    ///
    /// A rule that is defined twice, left recursion, and a grammar that no finite text matches are errors.
    pub fn from_gbnf(text: &str) -> Result<Self> {
        Self::from_rules(&gbnf::read(text)?)
    }

    /// The JSON texts that a JSON schema describes.
    ///
    /// Keywords that would restrict the values and have no grammar are errors. Objects have no properties beyond those
    /// listed, and arrays no items beyond `prefixItems`, unless `additionalProperties` or `items` ask for them.
    /// Properties come in the order of the schema.
    pub fn from_json_schema(schema: &str) -> Result<Self> {
        Self::from_rules(&crate::schema::rules(schema)?)
    }

    fn from_rules(rules: &Rules) -> Result<Self> {
        let network = compile::compile(rules)?;
        let problem = |rule: usize, why| {
            let name = &rules.names[network.owners[rule] as usize];
            Error::Rule { rule: Shown(name).to_string(), why }
        };
        if let Some(rule) = network.left_recursive(&network.reaches_end(false)) {
            return Err(problem(rule, "begins with itself (left recursion)"));
        }
        let live = network.reaches_end(true);
        if !live[network.starts[0] as usize] {
            return Err(problem(0, "matches no finite text"));
        }
        let mut begins = [false; 257];
        for arc in &network.arcs {
            begins[usize::from(arc.low)] = true;
            begins[usize::from(arc.high) + 1] = true;
        }
        let mut classes = [0; 256];
        let mut class = 0;
        for byte in 0..256 {
            class += u8::from(byte > 0 && begins[byte]);
            classes[byte] = class;
        }
        let class_count = usize::from(class) + 1;
        Ok(Self(Arc::new(Compiled { network, live, classes, class_count })))
    }
}
