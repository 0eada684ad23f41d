"""Quantises small networks of many forms with `polaris quantize`, and runs the int8 files in Polaris and in ONNX Runtime.

    pip install onnxruntime onnx numpy
    python bench/onnx/int8_forms.py POLARIS [--least 45]

The networks have random weights: residual blocks with normalisations, depthwise convolutions with clips, concatenated
branches, attention, transposed convolutions, one spatial axis, uneven padding, and an early opset. For each and both types of
activations it prints what became of the layers, and signal-to-noise ratios in decibels: of the int8 file in Polaris and in
ONNX Runtime against the float model, and of Polaris against ONNX Runtime on the int8 file. The last one shows whether both
mean the same by it: engines may differ by a step where sums are ties. Fails if it is below --least, or if a node runs in the
host interpreter.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


class Network:
    """A graph in the making: each operator returns the name of its result."""

    def __init__(self, opset=17):
        self.random = numpy.random.default_rng(5)
        self.nodes, self.constants, self.opset = [], [], opset

    def constant(self, array):
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(numpy.asarray(array), name))
        return name

    def draw(self, *shape, scale=None):
        fan = numpy.prod(shape[1:]) if len(shape) > 1 else 1
        numbers = self.random.standard_normal(shape) * (numpy.sqrt(2 / fan) if scale is None else scale)
        return self.constant(numbers.astype(numpy.float32))

    def positive(self, length):
        return self.constant((self.random.random(length) + 0.5).astype(numpy.float32))

    def node(self, operator, *inputs, **attributes):
        name = f"{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], name=name, **attributes))
        return name

    def conv(self, x, to, of, kernel=3, norm=False, **attributes):
        inputs = [x, self.draw(to, of, kernel, kernel)] + ([] if norm else [self.draw(to, scale=0.1)])
        y = self.node("Conv", *inputs, pads=[kernel // 2] * 4, **attributes)
        if norm:
            numbers = [self.positive(to), self.draw(to, scale=0.2), self.draw(to, scale=0.2), self.positive(to)]
            y = self.node("BatchNormalization", y, *numbers)
        return y

    def linear(self, x, of, to):
        product = self.node("MatMul", x, self.draw(of, to, scale=of ** -0.5))
        return self.node("Add", product, self.draw(to, scale=0.1))

    def model(self, y, shape):
        nodes = self.nodes + [helper.make_node("Identity", [y], ["y"])]
        ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)]
                for name, shape in (("x", shape), ("y", None))]
        graph = helper.make_graph(nodes, "network", *ends, self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)
        return onnx.shape_inference.infer_shapes(model), shape


def residual(opset=17):
    n = Network(opset)
    x = n.node("Relu", n.conv("x", 16, 3, 7, norm=True, strides=[2, 2]))
    x = n.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for of, to, stride in ((16, 16, 1), (16, 32, 2), (32, 32, 1)):
        y = n.node("Relu", n.conv(x, to, of, norm=True, strides=[stride] * 2))
        y = n.conv(y, to, to, norm=True)
        z = n.conv(x, to, of, 1, norm=True, strides=[stride] * 2) if of != to else x
        x = n.node("Relu", n.node("Add", y, z))
    x = n.node("Flatten", n.node("GlobalAveragePool", x))
    return n.model(n.node("Gemm", x, n.draw(10, 32), n.draw(10, scale=0.1), transB=1), ["n", 3, 32, 32])


def depthwise():
    n = Network()
    ends = [n.constant(numpy.float32(end)) for end in (0, 6)]
    x = n.node("Clip", n.conv("x", 8, 3, norm=True, strides=[2, 2]), *ends)
    for _ in range(3):
        y = n.node("Clip", n.conv(x, 24, 8, 1, norm=True), *ends)
        y = n.node("Clip", n.conv(y, 24, 1, norm=True, group=24), *ends)
        x = n.node("Add", x, n.conv(y, 8, 24, 1, norm=True))
    x = n.node("HardSwish", n.conv(x, 16, 8, 1))
    x = n.node("ReduceMean", x, axes=[2, 3], keepdims=0)
    return n.model(n.node("Softmax", n.linear(x, 16, 10), axis=-1), ["n", 3, 24, 24])


def branches():
    n = Network()
    x = n.node("Relu", n.conv("x", 8, 3))
    a = n.node("Relu", n.conv(x, 6, 8, 1))
    b = n.node("Relu", n.conv(n.node("Relu", n.conv(x, 4, 8, 1)), 6, 4))
    c = n.node("Relu", n.conv(n.node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4), 5, 8, 1))
    x = n.node("Concat", a, b, c, axis=1)
    x = n.node("Concat", n.conv(x, 4, 17, 1), x, axis=1)
    x = n.node("LeakyRelu", n.conv(x, 8, 21, strides=[2, 2]), alpha=0.1)
    x = n.node("Reshape", x, n.constant(numpy.array([0, -1])))
    return n.model(n.node("Gemm", x, n.draw(512, 7, scale=0.05), n.draw(7, scale=0.1)), ["n", 3, 16, 16])


def attention():
    n = Network()
    x, width = "x", 32
    for _ in range(2):
        y = n.node("LayerNormalization", x, n.positive(width), n.draw(width, scale=0.1), axis=-1)
        heads = n.constant(numpy.array([0, 0, 4, 8]))
        q, k, v = [n.node("Transpose", n.node("Reshape", n.linear(y, width, width), heads), perm=[0, 2, 1, 3])
                   for _ in range(3)]
        scores = n.node("MatMul", q, n.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = n.node("Softmax", n.node("Mul", scores, n.constant(numpy.float32(8 ** -0.5))), axis=-1)
        y = n.node("Transpose", n.node("MatMul", scores, v), perm=[0, 2, 1, 3])
        y = n.node("Reshape", y, n.constant(numpy.array([0, 0, width])))
        x = n.node("Add", x, n.linear(y, width, width))
        y = n.node("LayerNormalization", x, n.positive(width), n.draw(width, scale=0.1), axis=-1)
        y = n.linear(y, width, 64)
        x = n.node("Add", x, n.linear(n.node("Mul", y, n.node("Sigmoid", y)), 64, width))
    return n.model(x, ["n", 6, width])


def decoder():
    n = Network()
    x = n.node("Relu", n.conv("x", 8, 1, strides=[2, 2]))
    x = n.node("ConvTranspose", x, n.draw(8, 4, 2, 2, scale=0.3), n.draw(4, scale=0.1), strides=[2, 2])
    x = n.node("Resize", n.node("Relu", x), "", n.constant(numpy.array([1, 1, 2, 2], numpy.float32)), mode="nearest")
    x = n.node("DepthToSpace", n.conv(x, 4, 4), blocksize=2)
    return n.model(n.node("Tanh", n.conv(x, 1, 1)), ["n", 1, 8, 8])


def one_axis():
    n = Network()
    x = n.node("Relu", n.node("Conv", "x", n.draw(6, 2, 5), n.draw(6, scale=0.1), pads=[2, 2], strides=[2]))
    x = n.node("Conv", x, n.draw(6, 3, 3), pads=[2, 2], dilations=[2], group=2)
    x = n.node("Squeeze", n.node("GlobalMaxPool", x), n.constant(numpy.array([2])))
    return n.model(n.node("Gemm", x, n.draw(6, 3), alpha=0.5), ["n", 2, 21])


def uneven():
    n = Network(13)
    x = n.node("Pad", "x", n.constant(numpy.array([0, 0, 1, 1, 0, 0, 2, 2])))
    x = n.node("Relu", n.node("Conv", x, n.draw(5, 3, 3, 3), auto_pad="SAME_UPPER", strides=[2, 2]))
    x = n.node("Slice", x, *[n.constant(numpy.array([number])) for number in (1, 5, 1)])
    return n.model(n.node("Conv", x, n.draw(3, 4, 3, 3), pads=[0, 1, 2, 1]), [4, 3, 13, 11])


FORMS = {"residual": residual, "residual, opset 11": lambda: residual(11), "depthwise": depthwise, "branches": branches,
         "attention": attention, "decoder": decoder, "one axis": one_axis, "uneven": uneven}


def ratio(signal, other):
    return 10 * numpy.log10((signal ** 2).sum() / max(((signal - other) ** 2).sum(), 1e-30))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("polaris")
    parser.add_argument("--least", type=float, default=45)
    given = parser.parse_args()

    def polaris(*words):
        return subprocess.run([given.polaris, *map(str, words)], check=True, capture_output=True, text=True).stdout

    failed = False
    print(f"{'network':20} type  layers {'':30} float-Polaris  float-ORT  ORT-Polaris")
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name, form in FORMS.items():
            model, shape = form()
            onnx.save(model, folder / "float.onnx")
            inputs = numpy.random.default_rng(1).standard_normal((72, *shape[1:])).astype(numpy.float32)
            inputs, test = inputs[:64], inputs[64:64 + (shape[0] if isinstance(shape[0], int) else 8)]
            numpy.save(folder / "data.npy", inputs)
            numpy.save(folder / "test.npy", test)
            for kind in ("u8", "i8"):
                told = json.loads(polaris("quantize", folder / "float.onnx", "--data", folder / "data.npy", "-o",
                                          folder / "int8.onnx", "--activations", kind, "--json"))
                onnx.checker.check_model(onnx.load(folder / "int8.onnx"), full_check=True)
                polaris("run", folder / "int8.onnx", "--mode", "cpu", "--input", f"x={folder}/test.npy",
                        "--output-dir", folder)
                ours = numpy.load(folder / "y.npy")
                before, theirs = [
                    onnxruntime.InferenceSession(str(folder / file), providers=["CPUExecutionProvider"])
                    .run(None, {"x": test})[0] for file in ("float.onnx", "int8.onnx")]
                types = collections.Counter(layer["type"] for layer in told["layers"])
                types = ", ".join(f"{count} {kind}" for kind, count in types.items())
                found = ratio(before, ours), ratio(before, theirs), ratio(theirs, ours)
                on_host = "host:" in polaris("plan", folder / "int8.onnx", "--mode", "cpu")
                failed |= on_host or found[2] < given.least
                print(f"{name:20} {kind:5} {types:37} {found[0]:13.1f}  {found[1]:9.1f}  {found[2]:11.1f}"
                      + ("  a node runs in the interpreter" if on_host else ""), flush=True)
    if failed:
        sys.exit(f"engines differ by less than {given.least} dB, or a node has no kernel")


if __name__ == "__main__":
    main()
