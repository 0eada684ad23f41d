"""Quantises classifiers of handwritten digits to int8 after training, and counts what it costs on digits that neither
training nor calibration has seen.

    pip install onnxruntime numpy
    python bench/onnx/post_training.py POLARIS [--seeds 5] [--calibration percentile] [--method NAME ...] [--most 0.3]

For each seed a convolutional network and a perceptron are trained by `polaris train` on 1,198 of the 1,797 digits that
come with Polaris, exported, and quantised by `polaris quantize` with 256 of the same. On the other 599 `polaris compare`
counts the accuracy of both files, with the integer kernels, and ONNX Runtime runs the int8 file. Prints a row for each
model, and the means; fails if int8 costs more than --most points on average, or if ONNX Runtime's predictions agree with
Polaris' in less than 99.5 % of the rows.
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
}

CONFIG = """[model]
{model}
[data]
source = "csv"
path = "{folder}/train.csv"
dims = [1, 8, 8]
scale = 0.0625
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


def write_data(folder):
    header, *rows = gzip.open(DIGITS, "rt").read().split()
    order = numpy.random.default_rng(1).permutation(len(rows))
    test, train = order[:599], order[599:]
    (folder / "train.csv").write_text("\n".join([header, *(rows[at] for at in train)]) + "\n")
    values = numpy.array([[float(cell) for cell in row.split(",")] for row in rows], dtype=numpy.float32)
    for name, part in (("test", test), ("calibration", train[:256])):
        images = values[part, :64].reshape(-1, 1, 8, 8) / 16
        numpy.savez(folder / f"{name}.npz", x=images, y=values[part, 64].astype(numpy.int64))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("polaris")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=25)
    parser.add_argument("--calibration", default="percentile")
    parser.add_argument("--method", action="append", default=[])
    parser.add_argument("--most", type=float, default=0.3)
    given = parser.parse_args()
    options = [f"--method={name}" for name in given.method]
    failed = False
    print("model  seed  f32 %  int8 %  same class %  KL        SQNR dB  bytes            same as ONNX Runtime %")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        write_data(folder)
        test = numpy.load(folder / "test.npz")
        for kind, model in MODELS.items():
            accuracies, agreements = [], []
            for seed in range(given.seeds):
                at = folder / f"{kind}{seed}"
                at.mkdir()
                (at / "config.toml").write_text(
                    CONFIG.format(model=model, folder=folder, seed=seed, epochs=given.epochs))
                run(given.polaris, "train", at / "config.toml", "--out", at / "run", "--device", "cpu")
                run(given.polaris, "export", at / "run", "--out", at / "float.onnx")
                run(given.polaris, "quantize", at / "float.onnx", "-o", at / "int8.onnx",
                    "--data", folder / "calibration.npz", "--calibration", given.calibration, *options)
                found = json.loads(run(given.polaris, "compare", at / "float.onnx", at / "int8.onnx",
                                       "--data", folder / "test.npz", "--json"))
                output = found["outputs"][0]
                classes = output["classes"]
                accuracies.append([100 * accuracy for accuracy in classes["accuracy"]])
                # The same file in the other engine, against what Polaris answers for it.
                numpy.save(at / "images.npy", test["x"])
                run(given.polaris, "run", at / "int8.onnx", "--mode", "cpu", "--input", f"input={at}/images.npy",
                    "--output-dir", at)
                ours = numpy.load(at / "output.npy").argmax(1)
                session = onnxruntime.InferenceSession(str(at / "int8.onnx"), providers=["CPUExecutionProvider"])
                theirs = session.run(None, {"input": test["x"]})[0].argmax(1)
                agreements.append(100 * (ours == theirs).mean())
                print(f"{kind:5}  {seed:4}  {accuracies[-1][0]:5.2f}  {accuracies[-1][1]:6.2f}  "
                      f"{100 * classes['top1_agreement']:12.2f}  {classes['kl_mean']:.2e}  "
                      f"{output['sqnr_db']:7.1f}  {found['models'][0]['bytes']:7} {found['models'][1]['bytes']:7}  "
                      f"{agreements[-1]:22.2f}", flush=True)
            before, after = numpy.mean(accuracies, axis=0)
            print(f"{kind:5}  mean  {before:5.2f}  {after:6.2f}  ({after - before:+.2f} points)")
            failed |= before - after > given.most or min(agreements) < 99.5
    if failed:
        sys.exit("int8 costs more than it may, or engines differ")


if __name__ == "__main__":
    main()
