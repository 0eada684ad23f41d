"""Renders chat templates with Python's jinja2, configured as in Hugging Face Transformers: what polaris-chat has to give.

    pip install jinja2==3.1.6
    python bench/chat/templates.py LLAMA_CPP/models/templates --out target/chat/expected.json
    POLARIS_LLAMA_CPP=LLAMA_CPP cargo test -p polaris-chat         # reads target/chat/expected.json
    python bench/chat/templates.py --snippets                      # crates/polaris-chat/tests/golden/expected.json

Every template of the folder is rendered for the conversations of conversations.json. The table has the length of each
text in characters, or the kind of the error. An expectation is {"text": ...} or {"error": ...}; with "retried" where the
template fails, but not with the arguments of tool calls as JSON text or with empty content in place of none, which
Template::render tries too.

With --snippets, the short templates of crates/polaris-chat/tests/golden/snippets.json are rendered instead.
"""

import argparse
import copy
import datetime
import json
import pathlib

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent.parent / "crates/polaris-chat/tests/golden"


class Generation(jinja2.ext.Extension):
    """`{% generation %}...{% endgeneration %}` marks what the model writes; its text is that of its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def environment(now):
    def raise_exception(message):
        raise jinja2.exceptions.TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda format: datetime.datetime(*now).strftime(format)
    return env


def functions(message):
    for call in message.get("tool_calls") or []:
        yield call.get("function", call)


def parsed(conversation):
    """The arguments of tool calls as maps, as Hugging Face asks for them."""
    conversation = copy.deepcopy(conversation)
    for message in conversation["messages"]:
        for function in functions(message):
            function["arguments"] = json.loads(function["arguments"])
    return conversation


def other_forms(conversation):
    """With the arguments of tool calls as JSON text, with empty content in place of none, with both."""
    for text, empty in [(True, False), (False, True), (True, True)]:
        copied = copy.deepcopy(conversation)
        written, filled = not text, not empty
        for message in copied["messages"]:
            if text:
                for function in functions(message):
                    function["arguments"] = json.dumps(function["arguments"], ensure_ascii=False)
                    written = True
            if empty and message.get("content") is None:
                message["content"] = ""
                filled = True
        if written and filled:
            yield copied


def render(template, conversation, data):
    return template.render(
        messages=conversation["messages"], tools=conversation.get("tools"), documents=None,
        add_generation_prompt=conversation["add_generation_prompt"],
        bos_token=data["bos"], eos_token=data["eos"], **conversation.get("variables", {}))


def expectation(env, source, conversation, data):
    try:
        template = env.from_string(source)
        conversation = parsed(conversation)
        try:
            return {"text": render(template, conversation, data)}
        except Exception as error:
            for form in other_forms(conversation):
                try:
                    return {"text": render(template, form, data), "retried": True}
                except Exception:
                    pass
            raise error
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}


def templates(folder, out):
    data = json.loads((HERE / "conversations.json").read_text())
    env = environment(data["now"])
    names = list(data["conversations"])
    expected = {}
    print(f"{'template':60}" + "".join(f"{name:>22}" for name in names))
    for path in sorted(folder.glob("*.jinja")):
        source = path.read_bytes().decode()
        results = {name: expectation(env, source, data["conversations"][name], data) for name in names}
        expected[path.name] = results
        shown = []
        for result in results.values():
            text = str(len(result["text"])) if "text" in result else result["error"].split(":")[0]
            shown.append(f"{text + (' (retried)' if result.get('retried') else ''):>22}")
        print(f"{path.name:60}" + "".join(shown))
    if out:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(expected, ensure_ascii=False, indent=1))


def snippets():
    data = json.loads((GOLDEN / "snippets.json").read_text())
    env = environment(data["now"])
    expected = []
    for source in data["snippets"]:
        try:
            expected.append({"text": env.from_string(source).render(**data["variables"])})
        except Exception as error:
            expected.append({"error": type(error).__name__})
            print(f"{type(error).__name__:24} {source}")
    (GOLDEN / "expected.json").write_text(json.dumps(expected, ensure_ascii=False, indent=1) + "\n")
    print(f"{len(expected)} snippets, of which {sum('error' in e for e in expected)} fail")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=pathlib.Path, help="folder of *.jinja")
    parser.add_argument("--out", type=pathlib.Path, help="file for the expectations")
    parser.add_argument("--snippets", action="store_true", help="render the short templates of the tests")
    arguments = parser.parse_args()
    if arguments.snippets:
        snippets()
    elif arguments.folder:
        templates(arguments.folder, arguments.out)
    else:
        parser.error("a folder of templates or --snippets is needed")


if __name__ == "__main__":
    main()
