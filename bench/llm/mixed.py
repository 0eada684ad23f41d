#!/usr/bin/env python3
"""Mixed precision beside uniform formats and the usual mixtures of the same size: KL divergence from the original.

    mixed.py MODEL.gguf TEXT --calibrate OTHER_TEXT [--polaris BINARY] [--types Q4_K,Q4_K_M] [--window 256]

MODEL is in f32 or f16. For each type a file is made of it, and one of at most the same bytes by `polaris quantize --size`;
both are scored on TEXT on the CPU. Types of one format (Q4_K) are that of all matrices, others (Q4_K_M) are mixtures.
"""
import argparse
import json
import pathlib
import subprocess

TYPES = "Q2_K,Q3_K,IQ4_XS,Q4_K,Q5_K,Q6_K,Q2_K mixture,Q3_K_M,IQ4_XS mixture,Q4_K_M,Q5_K_M"
NAMED = {"Q3_K": "Q3_K_M", "Q4_K": "Q4_K_M", "Q5_K": "Q5_K_M"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--calibrate", type=pathlib.Path, required=True, help="the text that sensitivities are measured with")
    parser.add_argument("--polaris", type=pathlib.Path, default=pathlib.Path("target/release/polaris"))
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--window", type=int, default=256)
    options = parser.parse_args()
    name = options.model.with_suffix

    def polaris(*arguments):
        done = subprocess.run([options.polaris, *map(str, arguments), "--json"], capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{arguments}\n{done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def score(path):
        command = ["perplexity", path, options.text, "--mode", "cpu", "--base", options.model]
        found = polaris(*command, "--window", options.window)
        return found["perplexity"], found["divergence"]["mean"]

    print("| Type | bytes | perplexity, KL times 1,000 | mixed, same bytes | predicted KL | ratio of KL |\n|---|---|---|---|---|---|")
    for kind in options.types.split(","):
        one, mixed = name(".uniform.gguf"), name(".mixed.gguf")
        recipe = NAMED.get(kind, kind.split()[0])
        is_uniform = kind in NAMED or " " not in kind and not kind.endswith("_M")
        same = ["--tensor", f"weight={kind}"] if is_uniform else []
        size = polaris("quantize", options.model, "-o", one, "--type", recipe, *same)["bytes"]
        calibrated = ["--calibrate", options.calibrate, "--sensitivities", name(".sensitivities.json")]
        made = polaris("quantize", options.model, "-o", mixed, "--size", size, *calibrated)
        (perplexity, divergence), (other, less) = score(one), score(mixed)
        predicted = made["mixture"]["predicted_divergence"]
        print(
            f"| {kind} | {size:,} | {perplexity:.2f}, {1000 * divergence:.3f} | {other:.2f}, {1000 * less:.3f} "
            f"| {1000 * predicted:.3f} | {divergence / less:.2f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
