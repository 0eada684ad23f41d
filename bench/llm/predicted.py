#!/usr/bin/env python3
"""Mixed precision by several budgets: the speed and the divergence that were predicted, and those of the files.

    predicted.py MODEL.gguf TEXT --budgets "speed=1.5x,speed=2x,size=200MB" [--polaris BINARY] [--probe-windows 4] [--threads 2]

TEXT is the one that formats are chosen by; windows behind those are scored.
"""
import argparse
import json
import pathlib
import subprocess


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--budgets", required=True)
    parser.add_argument("--polaris", type=pathlib.Path, default=pathlib.Path("target/release/polaris"))
    parser.add_argument("--probe-windows", default="4")
    parser.add_argument("--threads", default=None)
    options = parser.parse_args()
    options.polaris = options.polaris.resolve()
    out, known = options.model.with_suffix(".mixed.gguf"), options.model.with_suffix(".sensitivities.json")
    print(
        "| Budget | bytes | tokens/s of the model | predicted tokens/s | measured | error | predicted KL | measured |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for budget in options.budgets.split(","):
        kind, value = budget.split("=")
        command = [options.polaris, "quantize", options.model, "-o", out, f"--{kind}", value, "--calibrate", options.text]
        command += ["--sensitivities", known, "--probe-windows", options.probe_windows, "--json"]
        command += ["--threads", options.threads] if options.threads else []
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
        if done.returncode:
            print(f"| `--{kind} {value}` | {done.stderr.strip()[-300:]} |")
            continue
        found = json.loads(done.stdout)
        mixture, measured = found["mixture"], found["measured"]
        predicted, speed = mixture["predicted_tokens_per_second"], measured["tokens_per_second"]
        scored = f"{measured['score']['divergence']:.5f}" if "score" in measured else "-"
        model = f"{mixture['source_tokens_per_second']:.1f}, then {measured['source_tokens_per_second']:.1f}"
        print(
            f"| `--{kind} {value}` | {found['bytes']:,} | {model} | {predicted:.1f} | {speed:.1f} "
            f"| {100 * (predicted / speed - 1):+.1f} % | {mixture['predicted_divergence']:.5f} | {scored} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
