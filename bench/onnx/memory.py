"""The most memory that ONNX Runtime takes for a model, beside `examples/endurance` of polaris-graph.

    python bench/onnx/memory.py ENDURANCE MODEL.onnx [NAME=LENGTH...]

Python and its libraries do not count for ONNX Runtime: what was resident before the session is subtracted. For
Polaris everything counts.
"""

import subprocess
import sys

import numpy
import onnxruntime


def status(name):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(name)) / 1024


def main():
    endurance, model, *lengths = sys.argv[1:]
    given = dict(length.split("=") for length in lengths)
    before = status("VmRSS")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    feeds = {}
    for value in session.get_inputs():
        shape = [dim if isinstance(dim, int) else int(given.get(dim, 1)) for dim in value.shape]
        feeds[value.name] = numpy.zeros(shape, numpy.int64 if "int64" in value.type else numpy.float32)
    for _ in range(3):
        session.run(None, feeds)
    runtime = status("VmHWM") - before
    output = subprocess.run([endurance, model, "3", "1", "cpu", *lengths], check=True, capture_output=True, text=True)
    polaris = float(output.stdout.rsplit("most ", 1)[1])
    print(f"{model}: ONNX Runtime {runtime:.0f} MiB, Polaris {polaris:.0f} MiB, {polaris / runtime:.2f}")


if __name__ == "__main__":
    main()
