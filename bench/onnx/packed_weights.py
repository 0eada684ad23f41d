#!/usr/bin/env python3
"""Products with weights of 4 and 8 bits that stay packed, beside ONNX Runtime: median milliseconds.

    packed_weights.py [--polaris BINARY] [--rows 1,128] [--threads 1,2] [--group 32] [--columns 11008] [--inputs 4096] [--runs 15]

Writes one MatMul with random weights (f32, int4 and int8, scales in half precision for each group along the sum) to a temporary
folder. Polaris runs it with activations as they are and rounded to 8 bits (--precision), ONNX Runtime as it does by default.
Needs numpy, onnx and onnxruntime.
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile
import time

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def write(path, kind, inputs, columns, group):
    random = numpy.random.default_rng(0)
    nodes, constants = [], []
    if kind == "f32":
        weight = (random.standard_normal((inputs, columns)) * 0.02).astype(numpy.float32)
        constants.append(numpy_helper.from_array(weight, "w"))
    else:
        half = 8 if kind == "int4" else 128
        levels = random.integers(-half, half, (inputs, columns))
        if kind == "int4":
            nibbles = (levels.reshape(-1) & 15).astype(numpy.uint8)
            raw, element = (nibbles[0::2] | nibbles[1::2] << 4).tobytes(), TensorProto.INT4
        else:
            raw, element = levels.astype(numpy.int8).tobytes(), TensorProto.INT8
        constants.append(helper.make_tensor("q", element, (inputs, columns), raw, raw=True))
        scales = (random.random((inputs // group, columns)) * 0.01 + 0.001).astype(numpy.float16)
        constants.append(numpy_helper.from_array(scales.astype(numpy.float32), "s"))
        nodes.append(helper.make_node("DequantizeLinear", ["q", "s"], ["w"], axis=0, block_size=group))
    nodes.append(helper.make_node("MatMul", ["x", "w"], ["y"]))
    value = lambda name, width: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", width])
    graph = helper.make_graph(nodes, "matmul", [value("x", inputs)], [value("y", columns)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)


def peer(path, rows, inputs, threads, runs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    x = numpy.random.default_rng(1).random((rows, inputs), dtype=numpy.float32)
    times = []
    for _ in range(runs + 2):
        start = time.perf_counter()
        session.run(None, {"x": x})
        times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--polaris", default="target/release/polaris")
    parser.add_argument("--rows", default="1,128")
    parser.add_argument("--threads", default="1,2")
    for name, default in [("group", 32), ("columns", 11008), ("inputs", 4096), ("runs", 15)]:
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    print("| weight | rows | threads | full | int8 | ONNX Runtime |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for kind in ["f32", "int4", "int8"]:
            path = pathlib.Path(folder) / f"{kind}.onnx"
            write(path, kind, options.inputs, options.columns, options.group)
            for rows in map(int, options.rows.split(",")):
                for threads in map(int, options.threads.split(",")):
                    row = []
                    for precision in ["full", "int8"]:
                        command = [options.polaris, "bench", "model", path, "--mode", "cpu", "--json"]
                        command += ["--dim", f"n={rows}", "--threads", threads, "--runs", options.runs]
                        command += ["--precision", precision]
                        found = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True)
                        row.append(json.loads(found.stdout)["median_ms"])
                    row.append(peer(path, rows, options.inputs, threads, options.runs))
                    print(f"| {kind} | {rows} | {threads} | " + " | ".join(f"{ms:.2f}" for ms in row) + " |", flush=True)


if __name__ == "__main__":
    main()
