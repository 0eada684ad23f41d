//! Conversations from messages and from JSON, the fallback, and what is new after a message.

use polaris_chat::{CHATML, Conversation, DateTime, Error, Message, Template, Value, new_text};
use polaris_core::ErrorKind;

fn render(source: &str, conversation: &Conversation) -> String {
    Template::parse(source).unwrap().render(conversation).unwrap()
}

#[test]
fn messages_have_their_fields_in_order() {
    let message = Message::assistant("4").with("reasoning_content", "2 + 2").with("content", "5");
    assert_eq!(message.role(), "assistant");
    let conversation = Conversation::new(vec![message, Message::tool("id", Value::None)]);
    assert_eq!(
        render("{{ messages | tojson }}", &conversation),
        r#"[{"role": "assistant", "content": "5", "reasoning_content": "2 + 2"}, "#.to_owned()
            + r#"{"role": "tool", "content": null, "tool_call_id": "id"}]"#
    );
}

#[test]
fn variables_reach_the_template() {
    let mut conversation = Conversation::new(vec![Message::user("hi")]);
    conversation.bos = "<s>".to_owned();
    conversation.eos = "</s>".to_owned();
    let source = "{{ bos_token }}{{ eos_token }}{{ add_generation_prompt }}{{ tools is none }}\
                  {{ documents is none }}{{ strftime_now is defined }}{{ enable_thinking }}";
    assert_eq!(render(source, &conversation), "<s></s>TrueTrueTrueFalse");
    let conversation = conversation.with("enable_thinking", false).with("bos_token", "B");
    assert_eq!(render(source, &conversation), "B</s>TrueTrueTrueFalseFalse");
}

/// Templates of someone else that reach for Python's objects, the process or files.
#[test]
fn cve_2024_34359_and_2026_5760_templates_reach_nothing() {
    let conversation = Conversation::new(vec![Message::user("hi")]);
    for source in [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ messages.__class__.__base__ }}{{ messages.__class__.__init__.__globals__ }}",
        "{{ self.__init__.__globals__.__builtins__ }}",
        "{{ cycler.__init__.__globals__.os.popen('id').read() }}",
        "{{ lipsum.__globals__['os'].popen('id').read() }}",
        "{{ namespace.__init__.__globals__ }}",
        "{% for c in [].__class__.__base__.__subclasses__() %}{{ c.__name__ }}{% endfor %}",
        "{{ '{0.__class__.__init__.__globals__}'.format(messages) }}",
        "{{ messages | attr('__class__') | attr('__base__') }}",
        "{% include '/etc/passwd' %}",
        "{% import 'os' as os %}{{ os.system('id') }}",
        "{% from 'os' import system %}{{ system('id') }}",
        "{% extends '/etc/passwd' %}",
        "{{ messages.append(1) }}",
        "{{ messages[0].update({'role': 'system'}) }}",
        "{{ open('/etc/passwd').read() }}{{ eval('1') }}{{ exec('1') }}",
    ] {
        let result = Template::parse(source).and_then(|template| template.render(&conversation));
        // An undefined value is empty text; whatever is done with it is an error.
        assert!(result.as_deref().is_err() || result.as_deref() == Ok(""), "{source}: {result:?}");
    }
}

#[test]
fn the_caller_brings_the_date() {
    let mut conversation = Conversation::new(Vec::new());
    let template = Template::parse("{{ strftime_now('%d %b %Y') }}").unwrap();
    let error = template.render(&conversation).unwrap_err();
    assert_eq!(error.to_string(), "line 1 of the chat template: `strftime_now` is undefined");
    conversation.now = Some(DateTime::new((2026, 7, 4), (13, 0, 0)).unwrap());
    assert_eq!(template.render(&conversation).unwrap(), "04 Jul 2026");
}

#[test]
fn arguments_of_tool_calls_become_maps() {
    let json = r#"{"model": "any", "messages": [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"z\": 1, \"a\": [2.50]}"}},
            {"name": "g", "arguments": "{}"},
            {"function": {"name": "h", "arguments": "not JSON"}}]},
        {"role": "assistant", "function_call": {"name": "i", "arguments": "{\"k\": null}"}}],
        "tools": [{"type": "function", "function": {"name": "f"}}]}"#;
    let conversation = Conversation::from_json(json).unwrap();
    assert_eq!(conversation.tools.len(), 1);
    let source = "{% for m in messages %}{% for c in m.tool_calls or [m.function_call] if c %}\
                  {% set f = c.function or c %}{{ f.name }}{{ f.arguments }};{% endfor %}{% endfor %}\
                  {{ messages[0].content[0].text }}";
    assert_eq!(
        render(source, &conversation),
        "f{'z': 1, 'a': [2.5]};g{};hnot JSON;i{'k': None};hi"
    );
    let made = Message::assistant("").with_tool_call("1", "f", r#"{"z": 1}"#);
    let made = Conversation::new(vec![made.with_tool_call("2", "g", Value::map([("x", true)]))]);
    assert_eq!(
        render("{{ messages[0].tool_calls | map(attribute='function') | list | tojson }}", &made),
        r#"[{"name": "f", "arguments": {"z": 1}}, {"name": "g", "arguments": {"x": true}}]"#
    );
}

#[test]
fn templates_that_want_text_get_text() {
    let message = Message::assistant(Value::None).with_tool_call("1", "f", r#"{"b":1,"a":"ü"}"#);
    let conversation = Conversation::new(vec![message]);
    let arguments = "{{ 'arguments: ' + messages[0].tool_calls[0].function.arguments }}";
    assert_eq!(render(arguments, &conversation), r#"arguments: {"b": 1, "a": "ü"}"#);
    let content = "{{ 'content: ' + messages[0].content }}";
    assert_eq!(render(content, &conversation), "content: ");
    let both = arguments.to_owned() + content;
    assert_eq!(render(&both, &conversation), r#"arguments: {"b": 1, "a": "ü"}content: "#);
    // Where nothing helps, the first error is the one that counts.
    let template =
        Template::parse("{{ messages[0].tool_calls[0].function.arguments + 1 }}").unwrap();
    let error = template.render(&conversation).unwrap_err().to_string();
    assert!(error.contains("a map and an integer"), "{error}");
}

#[test]
fn messages_that_are_none_are_refused() {
    for (json, why) in [
        ("[1]", "it is no JSON object"),
        (r#"[{"content": "x"}]"#, "it has no `role`"),
        (r#"[{"role": 5}]"#, "its `role` is not a string"),
        (r#"{"messages": {}}"#, "its `messages` are not a list"),
        (r#"{"messages": [], "tools": [1]}"#, "its `tools` are not a list of objects"),
        ("5", "it is neither a list nor an object"),
        ("[", "EOF"),
    ] {
        let error = Conversation::from_json(json).unwrap_err();
        assert!(error.to_string().contains(why), "{json}: {error}");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let deep = "[".repeat(10_000) + &"]".repeat(10_000);
    assert!(Conversation::from_json(&deep).is_err());
    let twice = Value::from_json(r#"{"a": 1, "b": 2, "a": 3}"#).unwrap();
    assert_eq!(twice, Value::map([("a", 3), ("b", 2)]));
}

#[test]
fn errors_say_where_and_why() {
    let error = Template::parse("a\n{% if x %}\n{{ y }").unwrap_err();
    assert_eq!(error.to_string(), "line 3 of the chat template: `}` closes nothing");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
    let conversation = Conversation::new(vec![Message::system("x")]);
    let template = Template::parse("a\n\n{{ messages[0].content + 5 }}").unwrap();
    assert_eq!(
        template.render(&conversation).unwrap_err().to_string(),
        "line 3 of the chat template: `+` does not work for a string and an integer"
    );
    let template = Template::parse("{{ raise_exception('No system role\x1b[31m') }}").unwrap();
    let error = template.render(&conversation).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(matches!(&error, Error::Refused { message } if message.starts_with("No system role")));
    assert!(!error.to_string().contains('\x1b'), "{error}");
}

#[test]
fn models_without_a_template_get_chatml() {
    let parts = Value::from_json(r#"[{"type": "text", "text": "a"}, {"type": "image"}]"#).unwrap();
    let mut conversation = Conversation::new(vec![
        Message::system("Be brief."),
        Message::user(parts),
        Message::assistant(Value::None),
    ]);
    let text = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\na<|im_end|>\n\
                <|im_start|>assistant\n<|im_end|>\n<|im_start|>assistant\n";
    assert_eq!(Template::chatml().render(&conversation).unwrap(), text);
    assert_eq!(render(CHATML, &conversation), text);
    conversation.add_generation_prompt = false;
    let text = text.strip_suffix("<|im_start|>assistant\n").unwrap();
    assert_eq!(render(CHATML, &conversation), text);
    assert_eq!(Template::chatml().end_of_turn("", "").as_deref(), Some("<|im_end|>"));
}

#[test]
fn the_end_of_a_turn_is_what_follows_an_answer() {
    let end = |source| Template::parse(source).unwrap().end_of_turn("<s>", "</s>");
    assert_eq!(
        end("{{ bos_token }}{{ messages[1].content }}{{ eos_token }}\n"),
        Some("</s>".into())
    );
    assert_eq!(end("{{ messages[1].content }}\n"), None);
    assert_eq!(end("{{ messages[0].content }}<end>"), None);
    assert_eq!(end("{{ raise_exception('never') }}"), None);
}

#[test]
fn new_text_is_what_follows_the_common_text() {
    assert_eq!(new_text("", "abc"), (0, "abc"));
    assert_eq!(new_text("abc", "abc"), (3, ""));
    assert_eq!(new_text("abc", "abd"), (2, "d"));
    assert_eq!(new_text("abcd", "ab"), (2, ""));
    // `ä` and `å` share their first byte.
    assert_eq!(new_text("xä", "xå"), (1, "å"));
    assert_eq!(new_text("x🦀", "x🦁"), (1, "🦁"));
}

#[test]
fn long_conversations_stay_within_the_limits() {
    // A thousand messages, and a template that goes through all later ones for each of them.
    let messages = (0..500).flat_map(|n| {
        [Message::user(format!("Question {n}")), Message::assistant(format!("Answer {n}"))]
    });
    let conversation = Conversation::new(messages.collect());
    let source = "{% set ns = namespace(text='') %}{% for m in messages %}\
                  {% for later in messages[loop.index0 + 1:] %}{% if later.role == 'x' %}x{% endif %}\
                  {% endfor %}{% set ns.text = ns.text + m.content %}{% endfor %}{{ ns.text }}";
    assert_eq!(render(source, &conversation).len(), 500 * 16 + 2 * (10 + 90 * 2 + 400 * 3));
    let large = Conversation::new(vec![Message::user("x".repeat(20 << 20))]);
    assert_eq!(Template::chatml().render(&large).unwrap().len(), (20 << 20) + 50);
}
