"""Programs that answer a line of JSON with another one: `crates/polaris-nn/examples/steps.rs`."""

import json
import subprocess


def start(command):
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(process, request):
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    if isinstance(answer, dict) and "error" in answer:
        raise SystemExit(answer["error"])
    return answer
