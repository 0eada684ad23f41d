"""Compares a quantised classifier's answers with ONNX Runtime's: how often both name the same class.

    pip install onnxruntime numpy
    python bench/onnx/quantized.py POLARIS MODEL.onnx [--float FLOAT.onnx] [--inputs 200] [--batch 20]
                                   [--mode cpu] [--least 0.98]

Inputs are random images (standard normal numbers). Each engine's class is that of its largest output, the first
of several that are equal. A model with random weights has the same class for almost every image; so the output
that lies farthest above its mean over all images, which differs from image to image, is compared as well, and how
many outputs are the same step of their scale or the next one; beside that, the same for ONNX Runtime with and
without its own optimisations. With --float the model before quantisation is run as well, which says how much of a
difference quantisation itself makes. Fails if the engines agree less often than --least. quantize_model.py makes
such models.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnxruntime


def polaris(command, mode, path, name, images):
    with tempfile.TemporaryDirectory() as folder:
        given = pathlib.Path(folder) / "images.npy"
        numpy.save(given, images)
        subprocess.run([command, "run", str(path), "--mode", mode, "--input", f"{name}={given}",
                        "--output-dir", folder], check=True, stdout=subprocess.DEVNULL)
        outputs = [file for file in pathlib.Path(folder).glob("*.npy") if file != given]
        return numpy.load(outputs[0])


def steps_apart(a, b):
    """In words, how many outputs are the same step of their scale, and how many at most one apart."""
    # Outputs of a quantised model are multiples of a step; a model whose outputs are all the same has none.
    step = numpy.diff(numpy.unique(b)).min(initial=numpy.abs(b).max() or 1)
    apart = numpy.abs(a - b) / step
    return f"{(apart < 0.5).mean():.1%} the same step, {(apart < 1.5).mean():.1%} at most one apart"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("polaris")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--float", type=pathlib.Path, dest="unquantised")
    parser.add_argument("--inputs", type=int, default=200)
    parser.add_argument("--batch", type=int, default=20)
    parser.add_argument("--mode", default="cpu")
    parser.add_argument("--least", type=float, default=0.98)
    given = parser.parse_args()
    session = onnxruntime.InferenceSession(str(given.model), providers=["CPUExecutionProvider"])
    before = given.unquantised and onnxruntime.InferenceSession(
        str(given.unquantised), providers=["CPUExecutionProvider"])
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = onnxruntime.InferenceSession(str(given.model), plain, providers=["CPUExecutionProvider"])
    value = session.get_inputs()[0]
    random = numpy.random.default_rng(2)
    same = same_as_float = theirs_as_float = done = 0
    all_ours, all_theirs, all_plain = [], [], []
    while done < given.inputs:
        count = min(given.batch, given.inputs - done)
        images = random.standard_normal([count, *value.shape[1:]]).astype(numpy.float32)
        theirs = session.run(None, {value.name: images})[0].reshape(count, -1)
        ours = polaris(given.polaris, given.mode, given.model, value.name, images).reshape(count, -1)
        classes, their_classes = ours.argmax(1), theirs.argmax(1)
        same += int((classes == their_classes).sum())
        all_ours.append(ours)
        all_theirs.append(theirs)
        all_plain.append(plain.run(None, {value.name: images})[0].reshape(count, -1))
        if before:
            wanted = before.run(None, {before.get_inputs()[0].name: images})[0].reshape(count, -1).argmax(1)
            same_as_float += int((classes == wanted).sum())
            theirs_as_float += int((their_classes == wanted).sum())
        done += count
    ours, theirs = numpy.concatenate(all_ours), numpy.concatenate(all_theirs)
    largest = float(numpy.abs(ours - theirs).max() / numpy.abs(theirs).max())
    mean = theirs.mean(0)
    farthest = int(((ours - mean).argmax(1) == (theirs - mean).argmax(1)).sum())
    print(f"{given.model.name}: the same class for {same} of {done} ({same / done:.1%}), "
          f"the same output farthest above its mean for {farthest} ({farthest / done:.1%}), "
          f"largest difference {largest:.2%} of the largest output")
    print(f"outputs of both: {steps_apart(ours, theirs)}")
    print(f"ONNX Runtime with and without optimisations: {steps_apart(numpy.concatenate(all_plain), theirs)}")
    if before:
        print(f"the class of the model before quantisation: Polaris {same_as_float}, "
              f"ONNX Runtime {theirs_as_float} of {done}")
    if same < given.least * done:
        sys.exit(f"less than {given.least:.1%}")


if __name__ == "__main__":
    main()
