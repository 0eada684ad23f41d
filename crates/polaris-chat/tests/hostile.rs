//! Templates that mean harm, and 2,000 damaged ones: they end with a text or an error, within memory and stack that do
//! not depend on them. A binary of its own, since it counts what the process allocates.

#[path = "../../polaris-core/tests/counting/mod.rs"]
mod counting;

use polaris_chat::{CHATML, Conversation, DateTime, Error, Message, Result, Template, Value};
use polaris_core::random::SplitMix64;

/// What a template of this size may make the process allocate: the limit of its values is 16 MiB, and a value that is
/// being made counts when it is finished. The tree of a template and its tokens take some bytes for each of its own.
fn allowed(source: usize) -> usize {
    (40 << 20) + source * 200
}

/// Stack of the thread that renders; Rust's threads have 2 MiB by default, the main thread usually 8 MiB.
const STACK: usize = 1 << 20;

/// Parses and renders, and gives the result with the most bytes that were allocated at once.
fn measured(source: &str, conversation: &Conversation) -> (Result<String>, usize) {
    let (result, allocated) = counting::measured(|| {
        Template::parse(source).and_then(|template| template.render(conversation))
    });
    (result, allocated.peak)
}

fn conversation() -> Conversation {
    let tool = r#"{"type": "function", "function": {"name": "look", "parameters": {"type": "object",
        "properties": {"at": {"type": "string"}, "n": {"type": ["integer", "null"]}}}}}"#;
    Conversation {
        tools: vec![Value::from_json(tool).unwrap()],
        bos: "<s>".to_owned(),
        eos: "</s>".to_owned(),
        now: Some(DateTime::from_unix(1_783_170_309)),
        ..Conversation::new(vec![
            Message::system("Be brief."),
            Message::user("Where is Polaris? "),
            Message::assistant(Value::None).with_tool_call("1", "look", r#"{"at": "Ursa Minor"}"#),
            Message::tool("1", "north"),
            Message::assistant("<think>easy</think>In the north."),
            Message::user("Thanks"),
        ])
    }
}

/// Own templates with everything that the language has, to be damaged.
const TEMPLATES: [&str; 4] = [
    CHATML,
    "{{- bos_token -}}
{%- macro type_of(schema, depth=0) -%}
  {%- if schema.type is string -%}{{ schema.type | upper }}
  {%- elif schema.type is iterable -%}{{ schema.type | map('string') | join(' | ') }}
  {%- elif schema.properties is defined -%}{{ type_of(schema.properties, depth + 1) }}
  {%- endif -%}
{%- endmacro -%}
{%- set ns = namespace(last=-1, text='', seen=[]) -%}
{%- for m in messages -%}{%- if m.role == 'user' -%}{%- set ns.last = loop.index0 -%}{%- endif -%}{%- endfor -%}
{%- if tools -%}
  {{- '[TOOLS]' + tools | tojson(indent=2) + '\\n' -}}
  {%- for tool in tools -%}
    {%- for name, schema in tool.function.parameters.properties.items() | sort -%}
      {{- name ~ ': ' ~ type_of(schema) ~ (', ' if not loop.last else '\\n') -}}
    {%- endfor -%}
  {%- endfor -%}
{%- endif -%}
{%- for m in messages if m.role != 'system' recursive -%}
  {%- if m.tool_calls -%}
    {%- for call in m.tool_calls -%}{{- '<call>' ~ (call.function | tojson) ~ '</call>' -}}{%- endfor -%}
    {%- continue -%}
  {%- endif -%}
  {%- set content = m.content.split('</think>')[-1].strip() if m.content else '' -%}
  {%- set ns.seen = ns.seen + [m.role] -%}
  {{- '<|%s|>' % m.role ~ content[:100] ~ content[::-1] | title | replace('e', '3') -}}
  {%- if loop.index0 > ns.last + 10 -%}{%- break -%}{%- endif -%}
{%- endfor -%}
{{- '{:>8}|{!r}'.format(ns.seen | length, ns.seen[0]) -}}
{%- if add_generation_prompt -%}{{- '<|assistant|>' -}}{%- endif -%}",
    "{% set system = messages | selectattr('role', 'equalto', 'system') | map(attribute='content') | first %}
{% macro outer(n) %}{% if n > 0 %}{{ caller(n) }}{% for i in range(n) %}{{ loop.cycle('a', 'b') }}{% endfor %}{% endif %}{% endmacro %}
{% call(x) outer(3) %}{{ x }}{{ system | default('none', true) | indent(2) }}{% endcall %}
{% filter upper %}{% for k, v in {'a': [1, 2.5, none], 'b': (true,)}.items() %}{{ k }}={{ v }}{{ ', ' if not loop.last }}{% endfor %}{% endfilter %}
{% set block | trim %} text {{ strftime_now('%Y-%m-%d') }} {% endset %}{{ block }}{% generation %}{{ messages[-1]['content'] }}{% endgeneration %}
{% with a = messages | length, b = 2 ** 5 // 3 %}{{ a * b }}{{ 'x' * a }}{{ [a, b] * 2 }}{% endwith %}
{% if messages[0].role != 'system' %}{{ raise_exception('no ' ~ messages[0].role) }}{% endif %}",
    "{% for m in messages %}{{ m.role.upper().center(20, '*') }}{{ (m.content or '') | trim | e }}
{% raw %}{{ raw }}{% endraw %}{# note #}{{ loop.previtem.role if not loop.first }}{{ m | tojson | safe }}
{{ dict(m, extra=[1]) | dictsort | list | string | length }}{{ m.keys() | list | unique | join('/') }}{% endfor %}",
];

/// Templates that would take all memory, all time or all of the stack, each with what stops it.
fn bombs() -> Vec<(String, &'static str)> {
    let mut bombs: Vec<(String, &str)> = [
        ("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", "steps"),
        ("{% for i in range(99999) %}{% for j in range(99999) %}a longer text{% endfor %}{% endfor %}", "output"),
        ("{{ range(10 ** 9) | list }}", "range"),
        ("{{ range(0 - 10 ** 38, 10 ** 38, 10 ** 30) | list }}", "range"),
        ("{{ 'a' * 10 ** 9 }}", "steps"),
        ("{{ 'a' * 10 ** 37 }}", "steps"),
        ("{{ ('a' * 10 ** 7) ~ ('b' * 10 ** 7) ~ 'c' * 10 ** 7 }}", "memory"),
        ("{{ [1] * 10 ** 9 }}", "steps"),
        ("{{ [1] * 10 ** 7 }}", "memory"),
        ("{{ ([0] * 10 ** 5) * 10 ** 37 }}", "steps"),
        ("{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}", "memory"),
        ("{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}", "memory"),
        ("{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s %}{{ n.s }}{{ n.s }}{% endset %}{% endfor %}", "memory"),
        ("{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s | replace('', n.s) %}{% endfor %}", "memory"),
        ("{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = [n.s, n.s] | join(n.s) %}{% endfor %}", "memory"),
        ("{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s.join([n.s, n.s]) %}{% endfor %}", "memory"),
        ("{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = '%s%s' % (n.s, n.s) %}{% endfor %}", "memory"),
        ("{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = '{0}{0}'.format(n.s) %}{% endfor %}", "memory"),
        ("{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = n.s + n.s %}{% endfor %}", "memory"),
        ("{% set n = namespace(s=[1]) %}{% for i in range(999) %}{% set n.s = [n.s] %}{% endfor %}", "nested"),
        ("{% set n = namespace(s=[1]) %}{% for i in range(999) %}{% set n.s = {1: n.s} %}{% endfor %}", "nested"),
        ("{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s }}", "output"),
        ("{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s | tojson }}", "memory"),
        ("{% set n = namespace(s=[1], t=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ n.s == n.t }}", "steps"),
        ("{% set n = namespace(s=[1], t=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% set n.t = [n.t, n.t] %}{% endfor %}{{ [n.s, n.t] | sort }}", "steps"),
        ("{% set n = namespace() %}{% set n.s = n %}", "stored"),
        ("{% macro m() %}{% endmacro %}{% set n = namespace(m=m) %}", "stored"),
        ("{% for i in [1] %}{{ [loop] }}{% endfor %}", "stored"),
        ("{{ ['a'.upper] }}", "stored"),
        ("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "depth"),
        ("{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}", "depth"),
        ("{% macro m() %}{{ caller() }}{% endmacro %}{% macro w() %}{% call m() %}{{ w() }}{% endcall %}{% endmacro %}{{ w() }}", "depth"),
        ("{% macro m(x) %}{{ m(m) }}{{ m(m) }}{% endmacro %}{{ m(1) }}", "depth"),
        ("{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}", "steps"),
        ("{% macro m(x) %}{{ m(m(m(x))) | upper ~ (1 + (2 * (m(x)))) }}{% endmacro %}{{ m(1) }}", "depth"),
        ("{% macro m() %}{{ [[[[[[[[m()]]]]]]]] }}{% endmacro %}{{ m() }}", "depth"),
        ("{% macro m() %}{% with a = 1 %}{% filter upper %}{% set b %}{{ m() }}{% endset %}{% endfilter %}{% endwith %}{% endmacro %}{{ m() }}", "depth"),
        ("{% macro m(a=m()) %}{% endmacro %}{{ m() }}", "depth"),
        ("{% macro m() %}{% for x in [1] if m() %}{% endfor %}{% endmacro %}{{ m() }}", "depth"),
        ("{% macro m() %}{% if 1 %}{% if 1 %}{% for x in [1] %}{{ x if m() }}{% endfor %}{% endif %}{% endif %}{% endmacro %}{{ m() }}", "depth"),
        ("{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}", "depth"),
        ("{% for x in [1, 2] recursive %}{{ loop([1, 2]) }}{{ loop([1]) }}{% endfor %}", "depth"),
        ("{{ '%1000000000d' % 1 }}", "steps"),
        ("{{ '%.1000000000f' % 1 ~ '%8000000s' % 1 ~ '%8000000s' % 1 }}", "memory"),
        ("{{ '%99999999999999999999999d' % 1 }}", "wide"),
        ("{{ '{:1000000000}'.format(1) }}", "steps"),
        ("{{ '{:>40000000}'.format('x') }}", "memory"),
        ("{{ 'a'.center(10 ** 9) }}", "memory"),
        ("{{ 'a'.zfill(10 ** 37) }}", "memory"),
        ("{{ 'a\nb' | indent(10 ** 9) }}", "memory"),
        ("{% set s = 'a\n' * 100000 %}{{ s | indent(1000000) }}", "memory"),
        ("{{ [[1]] | tojson(indent=10 ** 9) }}", "indentation"),
        ("{{ ([[1]] * 100000) | tojson(indent='x' * 1000000) }}", "memory"),
        ("{{ ('a' * 9000000) | list }}", "memory"),
        ("{{ ('a ' * 10000000).split() }}", "memory"),
        ("{% for c in 'a' * 9000000 %}{% endfor %}", "memory"),
        ("{{ (10 ** 10) ** (10 ** 10) }}", "bits"),
        ("{{ 10 ** 38 * 10 }}", "bits"),
        ("{{ strftime_now('%A' * 1000000) }}", "strftime_now"),
        ("{% set d = namespace(d={}) %}{% for i in range(99999) %}{% set d.d = dict(d.d, **{i | string: i}) %}{% endfor %}", "steps"),
        ("{% for i in range(99999) %}{{ (range(99999) | list).count(i) }}{% endfor %}", "steps"),
        ("{% for i in range(99999) %}{{ range(9999) | sort | first }}{% endfor %}", "steps"),
        ("{% for i in range(99999) %}{% set x = ('a' * 1000000) in ('a' * 999999 ~ 'b') %}{% endfor %}", "steps"),
        ("{% for i in range(99999) %}{% set x = messages | map('tojson') | map('upper') | join %}{% endfor %}", "steps"),
        ("{% for i in range(99999) %}{% set x = 'abc'.count('') + 'abc'.find('') %}{% endfor %}{{ raise_exception('x' * 1000) }}", "refuses"),
        ("{{ raise_exception('x' * 10 ** 6) }}", "refuses"),
    ]
    .map(|(source, reason)| (source.to_owned(), reason))
    .into();
    let many = 100_000;
    let repeated = |open: &str, inner: &str, close: &str| {
        format!("{{{{ {}{inner}{} }}}}", open.repeat(many), close.repeat(many))
    };
    bombs.extend([
        (repeated("(", "1", ")"), "depth"),
        (repeated("[", "1", "]"), "depth"),
        (repeated("{1:", "1", "}"), "depth"),
        (repeated("f(", "1", ")"), "depth"),
        (repeated("x[", "1", "]"), "depth"),
        (repeated("not ", "1", ""), "depth"),
        (repeated("- ", "1", ""), "depth"),
        (repeated("1 if ", "1", ""), "conditions"),
        (format!("{{{{ {} }}}}", "1 if 1 else ".repeat(80_000)), "depth"),
        (repeated("1|d(", "1", ")"), "depth"),
        ("{% if 1 %}".repeat(many), "depth"),
        ("{% for x in y %}".repeat(60_000), "depth"),
        ("{% macro m() %}".repeat(60_000), "depth"),
        (format!("{{% set {}x{} = 1 %}}", "(".repeat(many), ")".repeat(many)), "depth"),
        ("x".repeat(2 << 20), "length"),
        ("{#".repeat(many), "comment"),
        ("{% raw %}".repeat(many), "raw"),
        ("{{ '".repeat(many + 1), "string"),
        ("{".repeat(many), "no `}}`"),
    ]);
    bombs
}

fn bombs_end_with_an_error() {
    let conversation = conversation();
    let mut largest = 0;
    let bombs = bombs();
    let mut wrong = Vec::new();
    for (source, reason) in &bombs {
        let shown: String = source.chars().take(120).collect();
        let (result, peak) = measured(source, &conversation);
        let error = result.err().map_or("no error".to_owned(), |error| error.to_string());
        if !error.contains(reason) {
            wrong.push(format!("{shown}: {error}"));
        }
        if peak > allowed(source.len()) {
            wrong.push(format!("{shown}: {peak} bytes"));
        }
        largest = largest.max(peak);
    }
    assert!(wrong.is_empty(), "{} bombs:\n{}", wrong.len(), wrong.join("\n"));
    println!("{} bombs: the largest {largest} bytes", bombs.len());
}

/// Long, but neither deep nor large.
fn long_templates_render() {
    let many = 50_000;
    for (source, length) in [
        (format!("{{{{ 1{} }}}}", " + 1".repeat(many)), 5),
        (format!("{{{{ ''{} }}}}", " ~ 'a'".repeat(many)), many),
        (format!("{{{{ 0{} }}}}", " or 0".repeat(many)), 1),
        (format!("{{{{ 1{} }}}}", "|abs".repeat(many)), 1),
        (format!("{{% if 0 %}}{}{{% endif %}}x", "{% elif 0 %}".repeat(many)), 1),
        ("{% set a = 1 %}".repeat(many), 0),
        ("{{ 1 }}".repeat(many), many),
    ] {
        let (result, peak) = measured(&source, &conversation());
        assert_eq!(result.map(|text| text.len()), Ok(length), "{}", &source[..60]);
        assert!(peak <= allowed(source.len()), "{}: {peak} bytes", &source[..60]);
    }
}

fn below(random: &mut SplitMix64, end: usize) -> usize {
    (random.bits() % end.max(1) as u64) as usize
}

/// Words replaced by others, which mostly still parses; parts cut out, doubled, moved or replaced by parts of the
/// language, which mostly does not.
fn damage(source: &mut Vec<char>, random: &mut SplitMix64) {
    const WORDS: [&str; 32] = [
        "messages",
        "m",
        "ns",
        "loop",
        "content",
        "role",
        "tools",
        "call",
        "none",
        "true",
        "1",
        "-1",
        "99999",
        "1000000000",
        "9e99",
        "''",
        "'role'",
        "[1, 2]",
        "(m, m)",
        "{'a': m}",
        "range",
        "dict",
        "namespace()",
        "upper",
        "tojson",
        "list",
        "string",
        "join",
        "sort",
        "items",
        "split",
        "x",
    ];
    const PARTS: [&str; 24] = [
        "{%",
        "%}",
        "{{",
        "}}",
        "{#",
        "#}",
        "-",
        "(",
        ")",
        "[",
        "]",
        "'",
        "\\",
        "|",
        " * 1000000000 ",
        " ** 99 ",
        "{% endfor %}",
        "{% endif %}",
        "{% for x in messages %}",
        " recursive ",
        " if ",
        "\u{1f980}",
        "|tojson",
        "[::-1]",
    ];
    const KEYWORDS: [&str; 30] = [
        "if",
        "elif",
        "else",
        "endif",
        "for",
        "in",
        "endfor",
        "recursive",
        "set",
        "endset",
        "macro",
        "endmacro",
        "call",
        "endcall",
        "filter",
        "endfilter",
        "with",
        "endwith",
        "generation",
        "endgeneration",
        "raw",
        "endraw",
        "break",
        "continue",
        "is",
        "not",
        "and",
        "or",
        "defined",
        "",
    ];
    for _ in 0..1 + below(random, 3) {
        let at = below(random, source.len());
        let end = (at + 1 + below(random, 30)).min(source.len());
        match below(random, 10) {
            0 => drop(source.drain(at..end)),
            1 => {
                let part = source[at..end].to_vec();
                let to = below(random, source.len());
                source.splice(to..to, part);
            }
            2 => {
                source.splice(at..at, PARTS[below(random, PARTS.len())].chars());
            }
            3 => {
                source.splice(at..end, PARTS[below(random, PARTS.len())].chars());
            }
            _ => {
                let is_word = |c: &char| c.is_alphanumeric() || *c == '_';
                let start = at + source[at..].iter().take_while(|c| !is_word(c)).count();
                let end = start + source[start..].iter().take_while(|c| is_word(c)).count();
                if KEYWORDS.contains(&String::from_iter(&source[start..end]).as_str()) {
                    continue;
                }
                source.splice(start..end, WORDS[below(random, WORDS.len())].chars());
            }
        }
    }
}

/// A seed for each of 2,000 templates, so that one that fails can be made again.
fn damaged_templates_end() {
    let conversation = conversation();
    let (mut texts, mut invalid, mut largest) = (0, 0, 0);
    for source in TEMPLATES {
        let (result, _) = measured(source, &conversation);
        result.unwrap_or_else(|error| panic!("{error}: {source}"));
    }
    for seed in 0..2_000 {
        let mut source: Vec<char> = TEMPLATES[seed as usize % TEMPLATES.len()].chars().collect();
        damage(&mut source, &mut SplitMix64::new(seed));
        let source = String::from_iter(source);
        let (result, peak) = measured(&source, &conversation);
        assert!(peak <= allowed(source.len()), "seed {seed}: {peak} bytes");
        texts += usize::from(result.is_ok());
        invalid += usize::from(matches!(result, Err(Error::Syntax { .. })));
        largest = largest.max(peak);
    }
    println!(
        "of 2000 damaged templates {texts} render and {invalid} do not parse; the largest \
         {largest} bytes"
    );
    // Neither is the damage harmless, nor does nothing get past the parser.
    assert!((200..1_500).contains(&texts) && (200..1_500).contains(&invalid));
}

/// One after the other, since they count what the whole process allocates, and on a small stack.
#[test]
fn hostile_templates_end() {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(|| {
        bombs_end_with_an_error();
        long_templates_render();
        damaged_templates_end();
    });
    thread.unwrap().join().unwrap();
}
