"""Compares Polaris with ONNX Runtime on the models of export_models.py.

    pip install onnxruntime numpy
    python bench/onnx/compare.py POLARIS MODELS [--mode cpu|gpu] [NAME...]

For several batch sizes and sequence lengths, the largest difference by the largest output. Exit code 1 if one
is above 1e-3.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnxruntime

LIMIT = 1e-3
SHAPES = {
    "tokens": [(1, 8), (3, 31)],
    "unet": [(1, 3, 64, 96), (3, 3, 64, 96)],
    "image": [(1, 3, 224, 224), (3, 3, 224, 224)],
}


def compare(polaris, path, mode, folder):
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    given = session.get_inputs()[0]
    kind = path.stem if path.stem in SHAPES else given.name
    worst = 0.0
    for number, shape in enumerate(SHAPES[kind]):
        random = numpy.random.default_rng(number)
        if "int64" in given.type:
            x = random.integers(0, 1000, shape)
        else:
            x = random.standard_normal(shape).astype(numpy.float32)
        expected = session.run(None, {given.name: x})
        numpy.save(folder / "input.npy", x)
        command = [
            polaris, "run", path, "--input", f"{given.name}={folder}/input.npy", "--mode", mode,
            "--output-dir", folder, "--json"]
        answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
        for output, wanted in zip(answer["outputs"], expected):
            found = numpy.load(output["file"])
            assert found.shape == wanted.shape and found.dtype == wanted.dtype, (found.shape, wanted.shape)
            scale = abs(wanted).max()
            assert scale > 0, "a model whose output is zero compares nothing"
            difference = float(abs(found - wanted).max() / scale)
            worst = difference if difference != difference else max(worst, difference)
    return worst, answer["device"]


def main():
    arguments = sys.argv[1:]
    mode = "cpu"
    if "--mode" in arguments:
        at = arguments.index("--mode")
        mode = arguments[at + 1]
        del arguments[at:at + 2]
    polaris, models, *names = arguments
    paths = sorted(pathlib.Path(models).glob("*.onnx"))
    failed = False
    for path in paths:
        if names and path.stem not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            worst, device = compare(polaris, path, mode, pathlib.Path(folder))
        failed |= not worst <= LIMIT
        print(f"{path.stem:20} {device:10} {worst:.2e}{'' if worst <= LIMIT else '  too large'}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
