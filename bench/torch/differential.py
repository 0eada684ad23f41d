"""Compares Polaris with PyTorch, operation by operation: results and gradients, on random shapes.

    cargo build --release --example evaluate -p polaris-tensor
    python bench/torch/differential.py [--device cpu --device opencl:0] [--seed 1] [--rounds 2]

Both are given the same numbers and the same gradient to begin the backward pass with. PyTorch
computes in float64, Polaris in f32 (and f64 on the CPU). Ends with 1 if anything differs, and with
77 if PyTorch is not there.
"""

import argparse
import json
import math
import random
import subprocess
import sys

try:
    import torch
except ImportError:
    print("SKIPPED: PyTorch is not installed (pip install torch)")
    sys.exit(77)

from cases import CASES

# What a value may differ by, relative to the largest of its tensor (and 1).
TOLERANCE = {"f32": 2e-4, "f64": 1e-9}


def values(tensor, dtype):
    return {"dtype": dtype, "shape": list(tensor.shape), "values": tensor.double().flatten().tolist()}


def name_of(tensor, dtype):
    if tensor.dtype == torch.bool:
        return "bool"
    return "i64" if tensor.dtype == torch.int64 else dtype


def ask(process, request):
    process.stdin.write(json.dumps(request) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    if not line:
        raise SystemExit("the evaluator stopped; see its message above")
    return json.loads(line)


def difference(expected, found):
    """The largest difference by the largest value, or None if the shapes differ."""
    if list(expected.shape) != found["shape"]:
        return None
    if expected.numel() == 0:
        return 0.0
    expected = expected.detach().double().flatten()
    # JSON has no word for what is not finite.
    found = torch.tensor([math.nan if v is None else v for v in found["values"]], dtype=torch.float64)
    finite = torch.isfinite(expected)
    if not torch.equal(finite, torch.isfinite(found)):
        return math.inf
    distance = (expected - found)[finite].abs()
    scale = torch.cat([expected[finite].abs(), torch.ones(1)]).max()
    return (distance.max() / scale).item() if distance.numel() else 0.0


def run(process, case, device, dtype, generator):
    tensors, options = case.make(generator)
    # What Polaris computes with is what PyTorch is given.
    rounded = torch.float32 if dtype == "f32" else torch.float64
    tensors = [t.to(rounded).double() if t.is_floating_point() else t for t in tensors]
    leaves = [t.clone().requires_grad_(t.is_floating_point() and case.differentiable) for t in tensors]
    expected = case.torch(*leaves, **options)
    seed = None
    if case.differentiable:
        seed = torch.empty_like(expected).uniform_(-1, 1)
        seed = seed.to(rounded).double()
        expected.backward(seed)
    request = {
        "operation": case.name,
        "device": device,
        "inputs": [values(t, name_of(t, dtype)) for t in tensors],
        "options": case.options(options),
        "seed": values(seed, dtype) if seed is not None else None,
    }
    answer = ask(process, request)
    if "error" in answer:
        return [f"{answer['error']}"]
    results = answer["results"]
    pairs = [("result", expected, results["output"])]
    for index, (leaf, gradient) in enumerate(zip(leaves, results["gradients"])):
        if leaf.grad is not None:
            gradient = gradient or {"shape": list(leaf.shape), "values": [0.0] * leaf.numel()}
            pairs.append((f"gradient {index}", leaf.grad, gradient))
    problems = []
    for what, expected, found in pairs:
        error = difference(expected, found)
        if error is None:
            problems.append(f"{what}: shape {found['shape']}, PyTorch has {list(expected.shape)}")
        elif error > TOLERANCE[dtype]:
            shapes = [list(t.shape) for t in tensors]
            problems.append(f"{what}: differs by {error:.2e} for {shapes} {request['options']}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", action="append", help="cpu, opencl:0, ... (default: cpu)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=2, help="random shapes for each case")
    parser.add_argument("--evaluator", default="target/release/examples/evaluate")
    parser.add_argument("--only", help="cases whose name contains this")
    options = parser.parse_args()
    process = subprocess.Popen([options.evaluator], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    failed, compared = 0, 0
    cases = [case for case in CASES if not options.only or options.only in case.name]
    for device in options.device or ["cpu"]:
        for dtype in ["f32", "f64"] if device == "cpu" else ["f32"]:
            for case in cases:
                for turn in range(options.rounds):
                    torch.manual_seed(options.seed + turn)
                    generator = random.Random(f"{options.seed} {case.name} {turn}")
                    problems = run(process, case, device, dtype, generator)
                    compared += 1
                    failed += bool(problems)
                    for problem in problems:
                        print(f"DIFFERS {device} {dtype} {case.label}: {problem}")
    process.stdin.close()
    print(f"{len(cases)} operations and combinations of arguments, {compared} comparisons, {failed} differ")
    sys.exit(1 if failed or not compared else 0)


if __name__ == "__main__":
    main()
