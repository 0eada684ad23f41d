"""Compares the modes of Polaris on ONNX models: hybrid beside the better of cpu and gpu, and what it expected.

    pip install onnxruntime numpy            # names of open lengths are read with it
    python bench/onnx/hybrid.py POLARIS MODELS [--device opencl:0] [--threads 2] [--rounds 5] [--runs 10]
                                [--dim NAME=N] [--without-gpu] [NAME...]

The modes take turns, several rounds of several runs each, as in speed.py; a time is the median over the rounds of the
medians of their runs. `hybrid / better` above 1 means that hybrid is slower. `expected` is what hybrid expected of a
run by what it measured and tried, by what it took. MODELS is a folder of .onnx files, as export_models.py writes them.
A device that is the CPU under another name (PoCL) may take long in the mode gpu: --without-gpu leaves that mode out.
"""

import argparse
import os
import pathlib
import statistics

from speed import Polaris, lengths_of


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("polaris")
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--device", default="opencl:0")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--dim", action="append", default=[])
    parser.add_argument("--without-gpu", action="store_true")
    given = parser.parse_intermixed_args()
    dims = dict(dim.split("=") for dim in given.dim)
    modes = ["cpu", "hybrid"] if given.without_gpu else ["cpu", "gpu", "hybrid"]
    print(f"{'model':18}" + "".join(f" {mode + ' ms':>10}" for mode in modes)
          + f" {'hybrid / better':>16} {'chosen':>8} {'expected':>9}")
    for path in sorted(given.models.glob("*.onnx")):
        if given.names and path.stem not in given.names:
            continue
        lengths = lengths_of(path, dims)
        places = {mode: ["--mode", mode] + ([] if mode == "cpu" else ["--device", given.device]) for mode in modes}
        runs = {mode: Polaris(given.polaris, path, place, given.threads, lengths, given.runs)
                for mode, place in places.items()}
        # Costs are measured and plans tried in the first run.
        runs["hybrid"].answer()
        times = {mode: [] for mode in modes}
        for _ in range(given.rounds):
            for mode in modes:
                last = runs[mode].answer()
                times[mode].append(last["median_ms"])
        medians = {mode: statistics.median(list_of) for mode, list_of in times.items()}
        ratio = medians["hybrid"] / min(medians[mode] for mode in modes if mode != "hybrid")
        print(f"{path.stem:18}" + "".join(f" {medians[mode]:10.2f}" for mode in modes)
              + f" {ratio:16.3f} {last['prediction']['chosen']:>8} {last['predicted_ms'] / medians['hybrid']:9.2f}",
              flush=True)


if __name__ == "__main__":
    main()
