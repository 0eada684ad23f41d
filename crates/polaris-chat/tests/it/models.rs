//! The templates of real models against Python's jinja2. They are read from a checkout of llama.cpp in
//! `POLARIS_LLAMA_CPP`, what Python makes of them from `target/chat/expected.json`; `bench/chat/templates.py` writes it.

use std::path::Path;

use polaris_chat::{Conversation, Error, Message, Template, Value, new_text};

use crate::{date, json, repository};

/// The templates with their names.
fn templates() -> Option<Vec<(String, String)>> {
    let Some(folder) = std::env::var_os("POLARIS_LLAMA_CPP") else {
        println!("skipped: POLARIS_LLAMA_CPP names no checkout of llama.cpp");
        return None;
    };
    let folder = Path::new(&folder).join("models/templates");
    let mut templates = Vec::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jinja") {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            templates.push((name, std::fs::read_to_string(&path).unwrap()));
        }
    }
    templates.sort();
    assert!(templates.len() > 60, "{} templates in {}", templates.len(), folder.display());
    Some(templates)
}

/// The conversations of `bench/chat/conversations.json`.
fn conversations() -> Vec<(String, Conversation)> {
    let data = json(&repository("bench/chat/conversations.json"));
    let Some(Value::Map(conversations)) = data.get("conversations") else { panic!() };
    let read = |(name, value): &(String, Value)| {
        let list = |field| match value.get(field) {
            Some(Value::List(items)) => items.clone(),
            _ => Vec::new(),
        };
        let variables = match value.get("variables") {
            Some(Value::Map(variables)) => variables.clone(),
            _ => Vec::new(),
        };
        let messages = list("messages").into_iter().map(|m| Message::from_value(m).unwrap());
        let conversation = Conversation {
            tools: list("tools"),
            add_generation_prompt: value.get("add_generation_prompt") == Some(&Value::Bool(true)),
            bos: data.get("bos").unwrap().as_text().unwrap().to_owned(),
            eos: data.get("eos").unwrap().as_text().unwrap().to_owned(),
            variables,
            now: Some(date(data.get("now").unwrap())),
            ..Conversation::new(messages.collect())
        };
        (name.clone(), conversation)
    };
    conversations.iter().map(read).collect()
}

/// Where two texts part, with what comes before.
fn difference(ours: &str, theirs: &str) -> String {
    let (common, rest) = new_text(theirs, ours);
    let cut = |text: &str| text.chars().take(80).collect::<String>();
    let before: String = ours[..common].chars().rev().take(40).collect();
    let before: String = before.chars().rev().collect();
    format!("after {before:?}: {:?}, not {:?}", cut(rest), cut(&theirs[common..]))
}

#[test]
fn templates_of_models_render_as_in_python() {
    let Some(templates) = templates() else { return };
    let path = repository("target/chat/expected.json");
    if !path.exists() {
        println!("skipped: {} is not there; bench/chat/templates.py writes it", path.display());
        return;
    }
    let expected = json(&path);
    let (mut texts, mut errors, mut different) = (0, 0, Vec::new());
    for (name, source) in &templates {
        let expected = expected.get(name).unwrap_or_else(|| panic!("{name} is not in the file"));
        let template = Template::parse(source);
        for (which, conversation) in conversations() {
            let ours =
                template.as_ref().map_err(Clone::clone).and_then(|t| t.render(&conversation));
            let theirs = expected.get(&which).unwrap();
            match (ours, theirs.get("text").and_then(Value::as_text)) {
                (Ok(ours), Some(theirs)) if ours == theirs => texts += 1,
                (Ok(ours), Some(theirs)) => {
                    different.push(format!("{name}, {which}: {}", difference(&ours, theirs)));
                }
                (Err(ours), None) => {
                    let theirs = theirs.get("error").and_then(Value::as_text).unwrap_or_default();
                    // What the template itself says has to be the same; Python's own errors have other words.
                    match (&ours, theirs.strip_prefix("TemplateError: ")) {
                        (Error::Refused { message }, Some(theirs)) if message == theirs => {}
                        (Error::Render { .. } | Error::Limit { .. }, None) => {}
                        _ => different.push(format!("{name}, {which}: {ours}, not {theirs}")),
                    }
                    println!("{name}, {which}: {ours} ({theirs})");
                    errors += 1;
                }
                (Err(error), Some(_)) => different.push(format!("{name}, {which}: {error}")),
                (Ok(_), None) => different.push(format!("{name}, {which}: Python {theirs:?}")),
            }
        }
    }
    println!("{texts} texts and {errors} errors are those of Python, {} differ", different.len());
    assert!(different.is_empty(), "{} differ:\n{}", different.len(), different.join("\n"));
}

#[test]
fn templates_of_models_say_where_a_turn_ends() {
    let Some(templates) = templates() else { return };
    let ends = templates.iter().map(|(name, source)| {
        let end = Template::parse(source).unwrap().end_of_turn("<s>", "</s>");
        (name.trim_end_matches(".jinja"), end)
    });
    let ends: Vec<(&str, Option<String>)> = ends.collect();
    for (name, end) in &ends {
        println!("{name}: {end:?}");
    }
    let end = |name| {
        let found = ends.iter().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no {name}")).1.as_deref()
    };
    assert_eq!(end("Qwen-Qwen3-0.6B"), Some("<|im_end|>"));
    assert_eq!(end("meta-llama-Llama-3.1-8B-Instruct"), Some("<|eot_id|>"));
    assert_eq!(end("google-gemma-2-2b-it"), Some("<end_of_turn>"));
    assert_eq!(end("mistralai-Mistral-Nemo-Instruct-2407"), Some("</s>"));
    assert_eq!(end("microsoft-Phi-3.5-mini-instruct"), Some("<|end|>"));
}

/// What users and models say is content in every template, wherever it is written as it was said.
#[test]
fn templates_of_models_keep_apart_what_was_said() {
    let Some(templates) = templates() else { return };
    let words = ["Wherefore-1", "therefore-2", "Whereupon-3"];
    let (mut found, mut rendered) = (0, 0);
    for (name, source) in &templates {
        let messages =
            vec![Message::user(words[0]), Message::assistant(words[1]), Message::user(words[2])];
        let conversation = Conversation { bos: "<s>".into(), ..Conversation::new(messages) };
        let Ok(result) = Template::parse(source).unwrap().render_marked(&conversation) else {
            continue;
        };
        rendered += 1;
        for word in words {
            for (at, _) in result.text.match_indices(word) {
                let inside = |range: &&std::ops::Range<usize>| {
                    range.start <= at && at + word.len() <= range.end
                };
                assert!(result.content.iter().any(|range| inside(&range)), "{name}: {word}");
                found += 1;
            }
        }
        // Nothing else is.
        let bytes: usize = result.content.iter().map(|range| range.len()).sum();
        let said: usize =
            words.iter().map(|word| result.text.matches(word).count() * word.len()).sum();
        assert_eq!(bytes, said, "{name}: {:?}", result.content);
    }
    assert!(rendered > 50 && found > 150, "{rendered} templates, {found} texts");
}
