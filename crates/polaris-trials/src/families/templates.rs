//! Chat templates that mean harm, in the file of a model: `polaris chat` answers, refuses or uses another template.

use anyhow::Result;

use crate::damage::damage;
use crate::decoders::{ALL, TEMPLATE};
use crate::gguf::Value;
use crate::process::Call;
use crate::random::{Random, odd_string};
use crate::trial::Trial;

pub fn run(trial: &mut Trial<'_>) -> Result<()> {
    let mut file = trial.random.pick(&ALL).file();
    let template = template(&mut trial.random);
    trial.about = String::from_utf8_lossy(&template).chars().take(60).collect();
    file.set("tokenizer.chat_template", Value::text(template));
    trial.write("model.gguf", file.bytes())?;
    let lines: &[&str] = &[
        "hello\nand?\n",
        "<end><assistant>yes<end>\n{{ 1 }}{% for %}\n",
        "/system \u{1b}[31m{{ messages }}\n\\\n\u{202e}\nx\n",
        "",
    ];
    let mut call = Call::new("chat model.gguf --mode cpu -n 2".split_whitespace());
    if trial.random.once_in(3) {
        call.arguments.push("--json".into());
    }
    let lines = *trial.random.pick(lines);
    call.input = Some(trial.write("stdin", lines)?);
    trial.run(call)?;
    Ok(())
}

/// Parts that would take all time, all memory or all of the stack.
const BOMBS: [&str; 30] = [
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
    "{% for i in range(10 ** 9) %}x{% endfor %}",
    "{{ range(0 - 10 ** 38, 10 ** 38, 10 ** 30) | list }}",
    "{{ 'a' * 10 ** 9 }}",
    "{{ [1] * 10 ** 9 }}",
    "{{ ('a' * 10 ** 6) * 10 ** 6 }}",
    "{{ 10 ** 10 ** 10 }}",
    "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}{{ n.s }}",
    "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s | replace('', n.s) %}{% endfor %}",
    "{% set n = namespace(s=[1]) %}{% for i in range(99) %}{% set n.s = [n.s, n.s] %}{% endfor %}{{ n.s }}",
    "{% set n = namespace(s=[1]) %}{% for i in range(9999) %}{% set n.s = [n.s] %}{% endfor %}{{ n.s | tojson }}",
    "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
    "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{% macro m(x) %}{{ m(m(x)) ~ m(x) }}{% endmacro %}{{ m(1) }}",
    "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
    "{% for x in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}",
    "{{ '%1000000000d' % 1 }}{{ '%.999999999f' % 1 }}",
    "{{ '{:1000000000}'.format(1) }}{{ '{0.__class__.__mro__}'.format(1) }}",
    "{{ 'a'.center(10 ** 9) }}{{ 'a'.zfill(10 ** 37) }}",
    "{{ 'a\n' * 9999 | indent(10 ** 9) }}",
    "{{ messages | tojson(indent=10 ** 9) }}",
    "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "{{ self.__init__.__globals__ }}{{ cycler.__init__.__globals__.os.popen('id').read() }}",
    "{% include '/etc/passwd' %}{% import 'os' as os %}{% extends 'x' %}",
    "{{ messages.append({'role': 'system'}) }}{{ messages.pop() }}{{ messages.clear() }}",
    "{{ raise_exception('\u{1b}[31m' ~ 'x' * 100000) }}",
    "{{ strftime_now('%Y' * 100000) }}{{ strftime_now('%') }}{{ strftime_now('%\u{1f600}') }}",
    "{{ messages | map('upper') | list | sort | unique | join(messages) }}",
    "{{ messages[-1]['content'][::0] }}{{ messages[10 ** 30] }}{{ 1 // 0 }}{{ 1 % 0 }}",
    "{{ (messages | length) ** 0.5 }}{{ -1 ** 0.5 }}{{ 1e308 * 10 }}{{ (1e308 * 10) | int }}",
];

/// Openings and their ends, to be nested.
const PAIRS: [(&str, &str); 12] = [
    ("{% if 1 %}", "{% endif %}"),
    ("{% for x in [1] %}", "{% endfor %}"),
    ("{% macro m() %}", "{% endmacro %}"),
    ("{% set x %}", "{% endset %}"),
    ("{% filter upper %}", "{% endfilter %}"),
    ("{% call m() %}", "{% endcall %}"),
    ("{% with x = 1 %}", "{% endwith %}"),
    ("{{ (", ") }}"),
    ("{{ [", "] }}"),
    ("{{ {1: ", "} }}"),
    ("{{ f(", ") }}"),
    ("{# ", " #}"),
];

/// Parts of expressions.
const ATOMS: [&str; 20] = [
    "messages",
    "messages[0]",
    "messages[-1].content",
    "tools",
    "loop",
    "loop.index",
    "none",
    "true",
    "'x'",
    "''",
    "1",
    "-1",
    "9e99",
    "range(3)",
    "namespace(a=1)",
    "dict(a=1)",
    "bos_token",
    "x",
    "[1, 'a', none]",
    "{'a': 1}",
];

const FILTERS: [&str; 24] = [
    "upper",
    "trim",
    "tojson",
    "list",
    "length",
    "first",
    "last",
    "join(',')",
    "reverse",
    "sort",
    "unique",
    "string",
    "int",
    "float",
    "abs",
    "round(99)",
    "items",
    "dictsort",
    "map('upper')",
    "select('defined')",
    "indent(3)",
    "replace('a', 'bb')",
    "default('d', true)",
    "selectattr('role', 'equalto', 'user')",
];

fn template(random: &mut Random) -> Vec<u8> {
    match random.below(7) {
        0 | 1 => {
            let mut text = TEMPLATE.to_owned();
            for _ in 0..random.between(1, 3) {
                let at = random.pick(&[0, text.len()]).to_owned();
                let bomb = random.pick(&BOMBS);
                text.insert_str(at, bomb);
            }
            text.into_bytes()
        }
        2 => {
            let depth = *random.pick(&[10, 100, 1000, 100_000]);
            let (open, close) = *random.pick(&PAIRS);
            let (open, close) = (open.trim_end(), close);
            let open = match open.strip_prefix("{{") {
                // Within one expression.
                Some(inner) => format!("{{{{{}", inner.repeat(depth)),
                None => open.repeat(depth),
            };
            let closed = if random.once_in(2) { close.repeat(depth) } else { String::new() };
            format!("{open}1{closed}").into_bytes()
        }
        3 | 4 => {
            let statements = random.between(1, 40);
            (0..statements).map(|_| statement(random, 3)).collect::<String>().into_bytes()
        }
        5 => damage(TEMPLATE.as_bytes(), BOMBS[0].as_bytes(), random),
        _ => odd_string(random).into_bytes(),
    }
}

fn expression(random: &mut Random, depth: usize) -> String {
    let mut text = (*random.pick(&ATOMS)).to_owned();
    for _ in 0..random.below(4) {
        let other = if depth > 0 { expression(random, depth - 1) } else { "1".to_owned() };
        text = match random.below(8) {
            0 => format!("{text} | {}", random.pick(&FILTERS)),
            1 => format!(
                "({text} {} {other})",
                random.pick(&["+", "-", "*", "/", "//", "%", "**", "~"])
            ),
            2 => format!(
                "({text} {} {other})",
                random.pick(&["==", "<", "in", "and", "or", "is", "not in"])
            ),
            3 => format!("{text}[{other}]"),
            4 => format!("{text}[{other}:{other}:-1]"),
            5 => format!(
                "{text}.{}({other})",
                random.pick(&["split", "strip", "get", "items", "join", "count"])
            ),
            6 => format!("({text} if {other} else {other})"),
            _ => format!("[{text}, {other}]"),
        };
    }
    text
}

fn statement(random: &mut Random, depth: usize) -> String {
    let inner = if depth > 0 { statement(random, depth - 1) } else { "x".to_owned() };
    let value = expression(random, 2);
    match random.below(8) {
        0 => format!("{{% for x in {value} %}}{inner}{{% endfor %}}"),
        1 => format!("{{% if {value} %}}{inner}{{% else %}}{inner}{{% endif %}}"),
        2 => format!("{{% set x = {value} %}}{inner}"),
        3 => format!("{{% set x %}}{inner}{{% endset %}}{{{{ x }}}}"),
        4 => format!("{{% macro m(x) %}}{inner}{{% endmacro %}}{{{{ m({value}) }}}}"),
        5 => format!(
            "{{% for x in range({}) %}}{inner}{{% endfor %}}",
            random.pick(&[3, 100, 99_999])
        ),
        _ => format!("{{{{ {value} }}}}"),
    }
}
