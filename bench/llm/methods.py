#!/usr/bin/env python3
"""What methods of choosing levels cost: perplexity, and KL divergence from the original.

    methods.py MODEL.gguf CALIBRATION TEXT FOLDER [--polaris BINARY] [--int4 PROGRAM] [--types Q4_0,Q4_K_S] [--window 256]

MODEL is in f32 or f16. The example `int4` of polaris-optimize writes integers (4 bits, groups of 64) as floats by each method,
`polaris quantize` writes files in block formats with and without GPTQ; Polaris scores all of them on the CPU, in f32.
"""
import argparse
import json
import pathlib
import subprocess

TYPES = "Q8_0,Q6_K,Q5_K_S,Q4_K_M,Q4_K_S,IQ4_XS,IQ4_NL,Q4_1,Q4_0,Q3_K_M,Q2_K"


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(str(part) for part in command)}\n{done.stderr[-2000:]}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "calibration", "text", "folder"):
        parser.add_argument(name, type=pathlib.Path)
    parser.add_argument("--polaris", type=pathlib.Path, default=pathlib.Path("target/release/polaris"))
    parser.add_argument("--int4", type=pathlib.Path, default=pathlib.Path("target/release/examples/int4"))
    parser.add_argument("--types", default=TYPES, help="types of files, with commas; empty for none")
    parser.add_argument("--bits", default="4", help="bits of the integers; 0 for none")
    parser.add_argument("--group", default="64")
    parser.add_argument("--window", default="256")
    parser.add_argument("--extra", default="", help="options for polaris quantize --method gptq")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)

    def score(path):
        command = [options.polaris, "perplexity", path, options.text, "--mode", "cpu", "--json"]
        found = json.loads(run(*command, "--base", options.model, "--window", options.window))
        divergence = found["divergence"]
        return f"{found['perplexity']:.4f}, {1000 * divergence['mean']:.3f}, {divergence['same_top']:.4f}"

    if options.bits != "0":
        told = run(options.int4, options.model, options.calibration, options.folder, options.bits, options.group)
        print(f"| {options.bits} bits, groups of {options.group} | change of outputs | perplexity, KL times 1,000, same top token |")
        print("|---|---|---|")
        for line in told.splitlines():
            name, change = line.split(" ", 1)
            print(f"| {name} | {change} | {score(options.folder / f'{name}.gguf')} |", flush=True)
        print()
    print("| Type | nearest: perplexity, KL times 1,000, same top token | GPTQ |\n|---|---|---|")
    for kind in filter(None, options.types.split(",")):
        row = []
        for method in ("nearest", "gptq"):
            out = options.folder / f"{kind}-{method}.gguf"
            command = [options.polaris, "quantize", options.model, "-o", out, "--type", kind, "--method", method]
            if method == "gptq":
                command += ["--calibrate", options.calibration, "--window", options.window, *options.extra.split()]
            run(*command)
            row.append(score(out))
        print(f"| {kind} | {row[0]} | {row[1]} |", flush=True)


if __name__ == "__main__":
    main()
