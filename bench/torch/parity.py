"""Trains the same models on the same batches in Polaris and in PyTorch, and compares every loss.

    pip install torch safetensors numpy
    cargo build --release --example steps -p polaris-nn
    python bench/torch/parity.py [--device cpu --device opencl:0] [--steps 50]

Each of MLP, CNN with batch norm and GPT begins with PyTorch's weights (through safetensors) and is trained
by SGD with momentum and by AdamW. Losses of `f32` may differ from PyTorch's by 1e-4 of them at every step.
Where they differ by more, both are trained in `f64` as well, which tells rounding from a mistake: `f64` may
differ by 1e-7, and Polaris' `f32` must then be as close to PyTorch's `f64` as PyTorch's `f32` is, or
nearly so.
"""

import argparse
import os
import sys
import tempfile

try:
    import torch
    from safetensors.torch import save_file
except ImportError as error:
    print(f"SKIPPED: {error} (pip install torch safetensors numpy)")
    sys.exit(77)

from models import build, loss_of, optimizer
from runner import ask, start

MODELS = {
    "mlp": ({"kind": "mlp", "hidden": [64, 32]}, [1, 8, 8], 10, 32),
    "cnn": (
        {
            "kind": "cnn",
            "channels": [8, 16],
            "kernel": 3,
            "padding": 1,
            "batch_norm": True,
            "pool_after": [2],
            "hidden": [32],
        },
        [1, 8, 8],
        10,
        32,
    ),
    "gpt": ({"kind": "gpt", "layers": 2, "width": 32, "heads": 4}, [24], 64, 8),
}
RULES = {"sgd": {"rate": 0.05, "momentum": 0.9}, "adamw": {"rate": 1e-3, "momentum": 0.0}}


def batches(kind, dims, outputs, size, steps):
    """Something that can be learned, but not by heart: classes with a faint pattern each, or a text that
    repeats itself. A loss near zero would be all rounding."""
    generator = torch.Generator().manual_seed(5)
    patterns = torch.randn(outputs, *dims, generator=generator) if kind != "gpt" else None
    text = torch.randint(outputs, (4000,), generator=generator).repeat(3)
    found = {}
    for step in range(steps):
        if kind == "gpt":
            starts = torch.randint(8000, (size,), generator=generator)
            rows = torch.stack([text[s : s + dims[0] + 1] for s in starts.tolist()])
            found[f"x.{step}"], found[f"y.{step}"] = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        else:
            y = torch.randint(outputs, (size,), generator=generator)
            found[f"x.{step}"] = 0.3 * patterns[y] + torch.randn(size, *dims, generator=generator)
            found[f"y.{step}"] = y
    return found


def train(description, dims, outputs, state, data, rule, dtype):
    model = build(description, dims, outputs).to(dtype)
    model.load_state_dict({name: tensor.to(dtype) for name, tensor in state.items()}, strict=False)
    steps = optimizer(rule, model.parameters(), **RULES[rule])
    losses = []
    for step in range(len(data) // 2):
        x = data[f"x.{step}"]
        loss = loss_of(model, x.to(dtype) if x.is_floating_point() else x, data[f"y.{step}"])
        steps.zero_grad()
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return losses


def difference(ours, theirs):
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", action="append")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--runner", default="target/release/examples/steps")
    options = parser.parse_args()
    wrong = 0
    print(f"{'model':6s} {'rule':6s} {'device':10s} {'f32 differs':>12s} {'f64 differs':>12s}  first and last loss")
    with tempfile.TemporaryDirectory() as folder:
        for device in options.device or ["cpu", "opencl:0"]:
            process = start([options.runner, device])
            for name, (description, dims, outputs, size) in MODELS.items():
                torch.manual_seed(3)
                data = batches(name, dims, outputs, size, options.steps)
                data_file, state_file = os.path.join(folder, "data"), os.path.join(folder, "state")
                save_file(data, data_file)
                state = build(description, dims, outputs).state_dict()
                state = {name: tensor for name, tensor in state.items() if tensor.is_floating_point()}
                save_file(state, state_file)
                for rule in RULES:

                    def ours(dtype):
                        request = {"model": description, "input": dims, "outputs": outputs, "optimizer": rule}
                        ask(process, request | RULES[rule] | {"dtype": dtype, "state": state_file})
                        return ask(process, {"losses": data_file})

                    arguments = (description, dims, outputs, state, data, rule)
                    single, theirs = ours("f32"), train(*arguments, torch.float32)
                    found, verdict, double = difference(single, theirs), "", ""
                    if found > 1e-4:
                        exact = train(*arguments, torch.float64)
                        if device == "cpu":
                            double = difference(ours("f64"), exact)
                        rounding = difference(theirs, exact)
                        harmless = difference(single, exact) <= 2 * rounding and (double == "" or double < 1e-7)
                        verdict = f"rounding: PyTorch's own f32 differs by {rounding:.1e}" if harmless else "WRONG"
                        wrong += not harmless
                        double = f"{double:.1e}" if double != "" else ""
                    print(
                        f"{name:6s} {rule:6s} {device:10s} {found:12.1e} {double:>12s}  "
                        f"{theirs[0]:.4f} {theirs[-1]:.4f} {verdict}"
                    )
    print(f"{wrong} wrong")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
