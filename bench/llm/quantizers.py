#!/usr/bin/env python3
"""Quantised files of Polaris beside those of llama-quantize: size, perplexity, and KL divergence from the original.

    quantizers.py MODEL.gguf TEXT --llama LLAMA.CPP/build/bin [--polaris BINARY] [--types Q4_K_M,Q4_0] [--window 256]
    quantizers.py MODEL.gguf TEXT --llama LLAMA.CPP/build/bin --imatrix CALIBRATION.TXT

MODEL is in f32 or f16. Both programs make a file of each type, next to the model; Polaris scores both on the CPU. With
--imatrix each makes an importance matrix of that text first, and quantises with its own; TEXT should be another one. How
far the two matrices are apart is printed if the Python package gguf is there.
"""
import argparse
import json
import pathlib
import subprocess

TYPES = "Q8_0,Q6_K,Q5_K_M,Q5_K_S,Q4_K_M,Q4_K_S,IQ4_XS,IQ4_NL,Q3_K_M,Q2_K,Q5_1,Q5_0,Q4_1,Q4_0"


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{' '.join(str(part) for part in command)}\n{done.stderr[-2000:]}")
    return done.stdout


def sums(path):
    """The tensors of an importance matrix, flat."""
    import gguf

    return {tensor.name: tensor.data.flatten().astype("f8") for tensor in gguf.GGUFReader(path).tensors}


def calibrate(options):
    """An importance matrix of each program."""
    ours, theirs = (options.model.with_suffix(f".{who}-imatrix.gguf") for who in ("polaris", "llama"))
    run(options.polaris, "imatrix", options.model, options.imatrix, "-o", ours, "--window", options.window)
    window = ["-c", options.window, "-b", options.window]
    run(options.llama / "llama-imatrix", "-m", options.model, "-f", options.imatrix, "-o", theirs, *window, "--no-ppl")
    try:
        a, b = sums(ours), sums(theirs)
    except ImportError:
        return ours, theirs
    square = lambda x: float((x * x).sum())
    apart = {name: (square(a[name] - b[name]) / square(b[name])) ** 0.5 for name in b}
    worst = max(apart, key=apart.get)
    print(f"{len(b)} tensors of both, {len(a) - len(b)} of Polaris alone; farthest apart: {worst}, {apart[worst]:.1e}\n")
    return ours, theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path)
    parser.add_argument("--llama", type=pathlib.Path, required=True, help="the folder of llama.cpp's programs")
    parser.add_argument("--polaris", type=pathlib.Path, default=pathlib.Path("target/release/polaris"))
    parser.add_argument("--types", default=TYPES)
    parser.add_argument("--window", type=int, default=256)
    parser.add_argument("--imatrix", type=pathlib.Path, help="a text to calibrate with")
    options = parser.parse_args()

    def score(path):
        command = [options.polaris, "perplexity", path, options.text, "--mode", "cpu", "--json"]
        found = json.loads(run(*command, "--base", options.model, "--window", options.window))
        divergence = found["divergence"]
        return f"{found['perplexity']:.4f}, {1000 * divergence['mean']:.2f}, {divergence['same_top']:.4f}"

    imatrices = [["--imatrix", path] for path in calibrate(options)] if options.imatrix else [[], []]
    print("| Type | bytes | Polaris: perplexity, KL times 1,000, same top token | bytes | llama.cpp |\n|---|---|---|---|---|")
    for kind in options.types.split(","):
        ours, theirs = (options.model.with_suffix(f".{who}-{kind}.gguf") for who in ("polaris", "llama"))
        run(options.polaris, "quantize", options.model, "-o", ours, "--type", kind, *imatrices[0])
        run(options.llama / "llama-quantize", *imatrices[1], options.model, theirs, kind, 2)
        sizes = [path.stat().st_size for path in (ours, theirs)]
        print(f"| {kind} | {sizes[0]:,} | {score(ours)} | {sizes[1]:,} | {score(theirs)} |", flush=True)


if __name__ == "__main__":
    main()
