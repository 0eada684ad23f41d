"""Compares what ONNX Runtime makes of exported models with what Polaris makes of the models themselves.

    pip install onnxruntime onnx numpy
    cargo build --release -p polaris-cli && cargo build --release --example steps -p polaris-nn
    python bench/torch/export.py RUN... [--target target/release]

RUN is a folder that `polaris train` wrote. Inputs are random; batches and, for a GPT, numbers of tokens are
the smallest and a larger one. Outputs may differ by 1e-5 of the largest.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy
    import onnx
    import onnxruntime
except ImportError as error:
    print(f"SKIPPED: {error} (pip install onnxruntime onnx numpy)")
    sys.exit(77)

from runner import ask, start

ALLOWED = 1e-5


def batches(shape, context, tokens):
    """Inputs of each size; `tokens` is how many there are to choose from, or None for numbers."""
    generator = numpy.random.default_rng(5)
    for batch in (1, 7):
        for length in (1, context) if tokens else (None,):
            dims = [{"batch": batch, "tokens": length}.get(axis, axis) for axis in shape]
            if tokens:
                yield generator.integers(tokens, size=dims, dtype=numpy.int64)
            else:
                yield generator.standard_normal(dims, dtype=numpy.float32)


def compare(run, target, program):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        command = [os.path.join(target, "polaris"), "export", run, "--out", path, "--json"]
        exported = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        onnx.checker.check_model(path, full_check=True)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    words = session.get_modelmeta().custom_metadata_map
    tokens = exported["output"]["shape"][-1] if exported["input"]["type"] == "i64" else None
    worst = 0.0
    for x in batches(exported["input"]["shape"], int(words.get("context", 0)), tokens):
        (found,) = session.run(["output"], {"input": x})
        request = {"outputs": exported["model"], "dims": x.shape, "values": x.ravel().tolist()}
        expected = numpy.reshape(ask(program, request), found.shape)
        worst = max(worst, abs(found - expected).max() / abs(expected).max())
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", nargs="+", metavar="RUN")
    parser.add_argument("--target", default="target/release")
    options = parser.parse_args()
    program = start([os.path.join(options.target, "examples", "steps")])
    print(f"ONNX Runtime {onnxruntime.__version__}")
    wrong = 0
    for run in options.runs:
        worst = compare(run, options.target, program)
        wrong += worst > ALLOWED
        print(f"{run:24} largest difference {worst:.1e} of the largest output")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
