"""Trains the built-in GPT on the built-in text in PyTorch, as `polaris train text` does, and compares the
losses at the end.

    pip install torch safetensors numpy
    cargo build --release && cargo build --release --example steps -p polaris-nn
    python bench/torch/text.py [--epochs 2] [--threads 2]

Both begin with the same weights and see the same batches with the same schedule. Losses on the validation
text should end within 1 %.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time

try:
    import torch
    from safetensors.torch import load_file
except ImportError as error:
    print(f"SKIPPED: {error} (pip install torch safetensors numpy)")
    sys.exit(77)

from models import build, loss_of
from runner import ask, start

# What crates/polaris-nn/src/train/text.toml says.
MODEL = {"kind": "gpt", "layers": 4, "width": 128, "heads": 4}
TEXT = {"context": 128, "batch": 16, "validation": 0.05}
RATE, WARMUP, FLOOR, CLIP = 2e-3, 100, 0.1, 1.0
VOCABULARY = 256


def factor(step, total):
    if step < WARMUP:
        return (step + 1) / WARMUP
    part = min(1.0, (step - WARMUP) / max(1, total - WARMUP))
    return FLOOR + (1 - FLOOR) * 0.5 * (1 + math.cos(math.pi * part))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--binary", default="target/release/polaris")
    parser.add_argument("--runner", default="target/release/examples/steps")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    with tempfile.TemporaryDirectory() as folder:
        command = [options.binary, "train", "text", "--json", "--out", os.path.join(folder, "run")]
        command += ["--threads", str(options.threads), "--set", f"train.epochs={options.epochs}"]
        begin = time.perf_counter()
        ours = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        ours_seconds = time.perf_counter() - begin

        process = start([options.runner, "cpu"])
        request = {"model": MODEL, "input": [TEXT["context"]], "outputs": VOCABULARY, "optimizer": "adamw"}
        ask(process, request | {"rate": RATE, "seed": 0})
        state_file, batch_file = os.path.join(folder, "state"), os.path.join(folder, "batches")
        ask(process, {"save": state_file})
        model = build(MODEL, [TEXT["context"]], VOCABULARY)
        model.load_state_dict(load_file(state_file))
        steps = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.99), weight_decay=0.1)
        begin, step = time.perf_counter(), 0
        for epoch in range(options.epochs):
            count = ask(process, {"text": TEXT, "epoch": epoch, "to": batch_file})
            batches = load_file(batch_file)
            for number in range(count):
                for group in steps.param_groups:
                    group["lr"] = RATE * factor(step, options.epochs * count)
                loss = loss_of(model, batches[f"x.{number}"], batches[f"y.{number}"])
                steps.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
                steps.step()
                step += 1
        seconds = time.perf_counter() - begin
        count = ask(process, {"text": TEXT, "to": batch_file})
        batches = load_file(batch_file)
        with torch.no_grad():
            total = examples = 0
            for number in range(count):
                x, y = batches[f"x.{number}"], batches[f"y.{number}"]
                total += loss_of(model, x, y).item() * len(x)
                examples += len(x)
    theirs, found = total / examples, ours["last"]["loss"]
    print(f"after {step} and {ours['steps']} steps: PyTorch {theirs:.4f} in {seconds:.0f} s, Polaris {found:.4f} in {ours_seconds:.0f} s")
    print(f"difference {100 * (found / theirs - 1):+.2f} %")
    sys.exit(0 if abs(found / theirs - 1) <= 0.01 else 1)


if __name__ == "__main__":
    main()
