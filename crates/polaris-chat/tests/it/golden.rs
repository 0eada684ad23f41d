//! Short templates against Python's jinja2. `bench/chat/templates.py --snippets` has rendered them.

use polaris_chat::{Conversation, Error, Template, Value};

use crate::{date, json, repository};

#[test]
fn short_templates_render_as_in_python() {
    let data = json(&repository("crates/polaris-chat/tests/golden/snippets.json"));
    let expected = json(&repository("crates/polaris-chat/tests/golden/expected.json"));
    let (Some(Value::List(snippets)), Value::List(expected)) = (data.get("snippets"), expected)
    else {
        panic!()
    };
    assert_eq!(snippets.len(), expected.len());
    let Some(Value::Map(variables)) = data.get("variables") else { panic!() };
    let conversation = Conversation {
        variables: variables.clone(),
        now: Some(date(data.get("now").unwrap())),
        ..Conversation::default()
    };
    let (mut texts, mut errors, mut different) = (0, 0, Vec::new());
    for (snippet, expected) in snippets.iter().zip(&expected) {
        let source = snippet.as_text().unwrap();
        let ours = Template::parse(source).and_then(|template| template.render(&conversation));
        match (&ours, expected.get("text").and_then(Value::as_text)) {
            (Ok(ours), Some(theirs)) if ours == theirs => texts += 1,
            (Err(error), None) => {
                // Both refuse on purpose, or neither does.
                let raised =
                    expected.get("error").and_then(Value::as_text) == Some("TemplateError");
                assert_eq!(matches!(error, Error::Refused { .. }), raised, "{source}: {error}");
                errors += 1;
            }
            _ => different.push(format!("{source}\n  ours   {ours:?}\n  theirs {expected:?}")),
        }
    }
    println!("{texts} texts and {errors} errors are those of Python, {} differ", different.len());
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}
