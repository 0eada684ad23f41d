"""Validates constrained answers with the Python package jsonschema.

    cargo run --release -p polaris-llm --example constrained -- 1000 1 > answers.jsonl
    python3 bench/llm/schemas.py answers.jsonl

Needs jsonschema 4 (`pip install jsonschema`). Prints every answer that does not fit its schema, and a count.
"""

import json
import sys

import jsonschema


def main(path):
    # That of the draft: the general one checks formats as older drafts did.
    formats = jsonschema.Draft202012Validator.FORMAT_CHECKER
    count, keywords, wrong = 0, {}, 0
    for line in open(path, encoding="utf-8"):
        document = json.loads(line)
        schema, answer = document["schema"], document["answer"]
        jsonschema.Draft202012Validator.check_schema(schema)
        validator = jsonschema.Draft202012Validator(schema, format_checker=formats)
        count += 1
        for keyword in collect(schema):
            keywords[keyword] = keywords.get(keyword, 0) + 1
        try:
            value = json.loads(answer)
            validator.validate(value)
        except (ValueError, jsonschema.ValidationError) as error:
            wrong += 1
            print(f"{json.dumps(schema)}\n  {answer}\n  {str(error).splitlines()[0]}")
    listed = ", ".join(f"{keyword} {times}" for keyword, times in sorted(keywords.items()))
    print(f"{count} answers, {wrong} wrong; schemas that have a keyword: {listed}")
    return 1 if wrong or not count else 0


def collect(schema):
    """The keywords of a schema and those in it, but for its definitions."""
    found = set()
    if isinstance(schema, dict):
        for keyword, value in schema.items():
            if keyword in ("$defs", "const", "enum"):
                found.add(keyword)
            elif keyword == "properties":
                found.add(keyword)
                for part in value.values():
                    found |= collect(part)
            else:
                found.add(keyword)
                found |= collect(value)
    elif isinstance(schema, list):
        for part in schema:
            found |= collect(part)
    return found


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
