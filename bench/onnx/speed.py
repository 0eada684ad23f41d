"""Times Polaris beside ONNX Runtime, and PyTorch if asked, on the same models.

    pip install onnxruntime numpy            # and torch torchvision for --torch
    python bench/onnx/speed.py POLARIS MODELS [--threads 1,2] [--rounds 5] [--runs 10] [--mode cpu]
                               [--device DEVICE] [--dim NAME=N] [--torch cpu|cuda] [--before POLARIS] [NAME...]

The engines take turns, several rounds of several runs each, so that whatever disturbs one disturbs all. A time
is the median over the rounds of the medians of their runs; a ratio is their time by ours, so that above 1 means
that Polaris is faster. MODELS is a folder of .onnx files, as export_models.py writes them. With --json FILE the
figures are written there too. --before names another build of Polaris that takes its turns as well.

With --torch cuda, for `--mode gpu --device opencl:1` or the like, PyTorch runs eagerly on its GPU without TF32, once
with inputs and results there (torch) and once with both in the host's memory (copied), as Polaris has them; ONNX
Runtime, which is on the CPU here, is left out.
"""

import argparse
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

import numpy
import onnxruntime

ELEMENTS = {"tensor(float)": numpy.float32, "tensor(double)": numpy.float64, "tensor(int64)": numpy.int64,
            "tensor(int32)": numpy.int32, "tensor(float16)": numpy.float16, "tensor(bool)": numpy.bool_}
# As a user would ask for them; what is left open is 1.
USUAL_LENGTHS = {"sequence": 128}


def lengths_of(path, given):
    """The lengths that a model leaves open, by name."""
    names = {}
    for value in onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"]).get_inputs():
        for dim in value.shape:
            if isinstance(dim, str):
                names[dim] = int(given.get(dim, USUAL_LENGTHS.get(dim, 1)))
    return names


def random_inputs(values, lengths):
    random = numpy.random.default_rng(0)
    feeds = {}
    for value in values:
        shape = [dim if isinstance(dim, int) else lengths.get(dim, 1) for dim in value.shape]
        kind = ELEMENTS[value.type]
        whole = numpy.issubdtype(kind, numpy.integer) or kind is numpy.bool_
        numbers = random.integers(0, 2 if kind is numpy.bool_ else 4, shape) if whole else random.standard_normal(shape)
        feeds[value.name] = numbers.astype(kind)
    return feeds


def median_of(run, runs):
    """The median time of a run in milliseconds, after one that warms up."""
    run()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


class Polaris:
    def __init__(self, command, path, place, threads, lengths, runs):
        self.command = [command, "bench", "model", str(path), *place, "--threads", str(threads),
                        "--runs", str(runs), "--json"]
        for name, length in lengths.items():
            self.command += ["--dim", f"{name}={length}"]

    def answer(self):
        """What `polaris bench model` says."""
        return json.loads(subprocess.run(self.command, check=True, stdout=subprocess.PIPE).stdout)

    def round(self):
        return self.answer()["median_ms"]


class OnnxRuntime:
    def __init__(self, path, threads, lengths, runs):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # Threads that spin would take the cores from whoever comes next.
        options.add_session_config_entry("session.intra_op.allow_spinning", "1")
        options.add_session_config_entry("session.force_spinning_stop", "1")
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.feeds = random_inputs(self.session.get_inputs(), lengths)
        self.runs = runs

    def round(self):
        return median_of(lambda: self.session.run(None, self.feeds), self.runs)


class Torch:
    def __init__(self, path, threads, lengths, runs, device="cpu", copied=False):
        import torch
        from export_models import MODELS
        make, _ = MODELS[path.stem]
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        # What a model makes while it runs is made there too.
        torch.set_default_device(device)
        self.torch, self.threads, self.runs, self.device, self.copied = torch, threads, runs, device, copied
        self.model = make().eval()
        session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        feeds = random_inputs(session.get_inputs(), lengths)
        self.inputs = [torch.from_numpy(array) for array in feeds.values()]
        if not copied:
            self.inputs = [tensor.to(device) for tensor in self.inputs]

    def run(self):
        result = self.model(*(tensor.to(self.device) for tensor in self.inputs))
        if self.copied:
            result.cpu()
        elif self.device == "cuda":
            self.torch.cuda.synchronize()

    def round(self):
        self.torch.set_num_threads(self.threads)
        with self.torch.inference_mode():
            return median_of(self.run, self.runs)


def measure(arguments, path, threads, given):
    lengths = lengths_of(path, given)
    place = ["--mode", arguments.mode] + (["--device", arguments.device] if arguments.device else [])
    engines = {"polaris": Polaris(arguments.polaris, path, place, threads, lengths, arguments.runs)}
    if arguments.before:
        engines["before"] = Polaris(arguments.before, path, place, threads, lengths, arguments.runs)
    if "onnxruntime" in others_of(arguments):
        engines["onnxruntime"] = OnnxRuntime(path, threads, lengths, arguments.runs)
    if arguments.torch:
        try:
            engines["torch"] = Torch(path, threads, lengths, arguments.runs, arguments.torch)
            if arguments.torch == "cuda":
                engines["copied"] = Torch(path, threads, lengths, arguments.runs, "cuda", copied=True)
        except (ImportError, KeyError) as error:
            print(f"note: {path.stem}: no PyTorch ({error!r})", file=sys.stderr)
    times = {name: [] for name in engines}
    for number in range(arguments.rounds):
        # Each round begins with another engine: nobody always comes after the same.
        names = list(engines)
        for name in names[number % len(names):] + names[:number % len(names)]:
            times[name].append(engines[name].round())
    row = {"model": path.stem, "threads": threads, "lengths": lengths}
    row["ms"] = {name: statistics.median(list_) for name, list_ in times.items()}
    row["spread"] = {name: max(list_) / min(list_) for name, list_ in times.items()}
    row["ratio"] = {name: row["ms"][name] / row["ms"]["polaris"] for name in engines if name != "polaris"}
    return row


def others_of(arguments):
    """Who Polaris is compared with."""
    others = {None: ["onnxruntime"], "cpu": ["onnxruntime", "torch"], "cuda": ["torch", "copied"]}[arguments.torch]
    return ["before"] + others if arguments.before else others


def geometric_mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("polaris")
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--mode", default="cpu")
    parser.add_argument("--device")
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--torch", choices=["cpu", "cuda"])
    parser.add_argument("--before")
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_intermixed_args()
    given = dict(dim.split("=") for dim in arguments.dim)
    paths = [path for path in sorted(arguments.models.glob("*.onnx"))
             if not arguments.names or path.stem in arguments.names]
    if not paths:
        sys.exit(f"no such models in {arguments.models}")
    others = others_of(arguments)
    print(f"{'model':18} {'threads':>7} {'polaris ms':>11}"
          + "".join(f" {name + ' ms':>15} {'ratio':>6}" for name in others))
    rows = []
    for path in paths:
        for threads in map(int, arguments.threads.split(",")):
            row = measure(arguments, path, threads, given)
            rows.append(row)
            cells = "".join(
                f" {row['ms'][name]:15.2f} {row['ratio'][name]:6.2f}" if name in row["ms"] else f" {'-':>15} {'-':>6}"
                for name in others)
            print(f"{row['model']:18} {threads:7} {row['ms']['polaris']:11.2f}{cells}", flush=True)
    means = {}
    for threads in sorted({row["threads"] for row in rows}):
        for name in others:
            ratios = [row["ratio"][name] for row in rows if row["threads"] == threads and name in row["ratio"]]
            if ratios:
                means[f"{name}/{threads}"] = geometric_mean(ratios)
                print(f"geometric mean, {threads} threads, {name}: {means[f'{name}/{threads}']:.3f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"mode": arguments.mode, "rows": rows, "geometric_means": means}, indent=1))


if __name__ == "__main__":
    main()
