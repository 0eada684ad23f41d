"""Times int8 CNNs of many shapes in Polaris beside ONNX Runtime, on the same files.

    pip install onnxruntime onnx numpy
    python bench/onnx/int8_speed.py POLARIS [--models FOLDER] [--only NAME,...] [--threads 1,2] [--rounds 7] [--runs 15]
                                    [--activations u8|i8] [--before POLARIS] [--json FILE]

The networks have random weights and the shapes of usual ones: residual blocks (ResNet-50; ResNet-18 with four images),
depthwise convolutions with residuals (MobileNetV2) and with squeeze-excitation, 5x5 kernels and odd numbers of channels
(MobileNetV3), grouped 3x3 kernels (ResNeXt, RegNet), dense concatenations (DenseNet), branches of unequal kernels
(Inception), and a detector with upsampled and concatenated maps (YOLO). `polaris quantize` quantises each with random
images. FOLDER keeps the files, and files that are there are used again.

The engines take turns, so that whatever disturbs one disturbs all; a time is the least median of a round, and a ratio
theirs by ours: above 1 means that Polaris is faster. --before names another build of Polaris that takes its turns as well.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

import numpy
import onnx
from int8_forms import Network
from speed import OnnxRuntime, Polaris, geometric_mean


class Images(Network):
    """Convolutions as CNNs have them."""

    def conv_relu(self, x, to, of, kernel=3, stride=1, group=1, act="Relu"):
        y = self.node("Conv", x, self.draw(to, of // group, kernel, kernel), self.draw(to, scale=0.1),
                      pads=[kernel // 2] * 4, strides=[stride] * 2, group=group, kernel_shape=[kernel] * 2)
        if act == "Relu6":
            return self.node("Clip", y, *[self.constant(numpy.float32(end)) for end in (0, 6)])
        return self.node(act, y) if act else y

    def pool(self, x, kernel=3, stride=2, operator="MaxPool"):
        padding = kernel // 2 if kernel % 2 else 0
        return self.node(operator, x, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[padding] * 4)

    def classified(self, x, of, shape, classes=1000):
        x = self.node("Flatten", self.node("GlobalAveragePool", x))
        weights = self.draw(classes, of, scale=of ** -0.5), self.draw(classes, scale=0.1)
        return self.model(self.node("Gemm", x, *weights, transB=1), shape)[0]

    def added(self, x, y, act="Relu"):
        y = self.node("Add", x, y)
        return self.node(act, y) if act else y


def bottlenecks(depths, width, group_width=None, expansion=4):
    """ResNet-50 and ResNeXt."""
    n = Images()
    x, of = n.pool(n.conv_relu("x", 64, 3, 7, 2)), 64
    for stage, depth in enumerate(depths):
        inner = width << stage
        to = (64 << stage) * expansion
        for block in range(depth):
            stride = 2 if stage and not block else 1
            y = n.conv_relu(x, inner, of, 1)
            y = n.conv_relu(y, inner, inner, 3, stride, inner // group_width if group_width else 1)
            y = n.conv_relu(y, to, inner, 1, act=None)
            x = n.added(y, x if block else n.conv_relu(x, to, of, 1, stride, act=None))
            of = to
    return n.classified(x, of, [1, 3, 224, 224])


def resnet18():
    n = Images()
    x, of = n.pool(n.conv_relu("x", 64, 3, 7, 2)), 64
    for to in (64, 128, 256, 512):
        for block in range(2):
            stride = 2 if to != of else 1
            y = n.conv_relu(n.conv_relu(x, to, of, 3, stride), to, to, 3, act=None)
            x = n.added(y, x if to == of else n.conv_relu(x, to, of, 1, stride, act=None))
            of = to
    return n.classified(x, of, [4, 3, 224, 224])


def mobilenet_v2():
    n = Images()
    x, of = n.conv_relu("x", 32, 3, 3, 2, act="Relu6"), 32
    for wider, to, depth, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                     (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(depth):
            inner = of * wider
            y = n.conv_relu(x, inner, of, 1, act="Relu6") if wider > 1 else x
            y = n.conv_relu(y, inner, inner, 3, 1 if block else stride, inner, act="Relu6")
            y = n.conv_relu(y, to, inner, 1, act=None)
            x = n.added(x, y, None) if block else y
            of = to
    return n.classified(n.conv_relu(x, 1280, of, 1, act="Relu6"), 1280, [1, 3, 224, 224])


def mobilenet_v3():
    n = Images()
    x, of = n.conv_relu("x", 16, 3, 3, 2), 16
    for kernel, inner, to, squeeze, stride in (
            (3, 16, 16, 0, 1), (3, 64, 24, 0, 2), (3, 72, 24, 0, 1), (5, 72, 40, 24, 2), (5, 120, 40, 32, 1),
            (5, 120, 40, 32, 1), (3, 240, 80, 0, 2), (3, 200, 80, 0, 1), (3, 184, 80, 0, 1), (3, 480, 112, 120, 1),
            (3, 672, 112, 168, 1), (5, 672, 160, 168, 2), (5, 960, 160, 240, 1), (5, 960, 160, 240, 1)):
        y = n.conv_relu(x, inner, of, 1)
        y = n.conv_relu(y, inner, inner, kernel, stride, inner)
        if squeeze:
            z = n.conv_relu(n.node("GlobalAveragePool", y), squeeze, inner, 1)
            y = n.node("Mul", y, n.conv_relu(z, inner, squeeze, 1, act="HardSigmoid"))
        y = n.conv_relu(y, to, inner, 1, act=None)
        x = n.added(x, y, None) if stride == 1 and of == to else y
        of = to
    return n.classified(n.conv_relu(x, 960, of, 1), 960, [1, 3, 224, 224])


def regnet():
    """Widths and groups of RegNetX-800MF."""
    n = Images()
    x, of = n.conv_relu("x", 32, 3, 3, 2), 32
    for to, depth in ((64, 1), (128, 3), (288, 7), (672, 5)):
        for block in range(depth):
            stride = 1 if block else 2
            y = n.conv_relu(n.conv_relu(x, to, of, 1), to, to, 3, stride, to // 16)
            y = n.conv_relu(y, to, to, 1, act=None)
            x = n.added(y, x if block else n.conv_relu(x, to, of, 1, stride, act=None))
            of = to
    return n.classified(x, of, [1, 3, 224, 224])


def densenet():
    n = Images()
    x, of, growth = n.pool(n.conv_relu("x", 64, 3, 7, 2)), 64, 32
    for stage, depth in enumerate((6, 12, 16)):
        for _ in range(depth):
            y = n.conv_relu(n.conv_relu(x, 4 * growth, of, 1), growth, 4 * growth, 3)
            x, of = n.node("Concat", x, y, axis=1), of + growth
        if stage < 2:
            x = n.pool(n.conv_relu(x, of // 2, of, 1), 2, 2, "AveragePool")
            of //= 2
    return n.classified(x, of, [1, 3, 224, 224])


def inception():
    n = Images()
    x = n.conv_relu(n.conv_relu(n.conv_relu("x", 32, 3, 3, 2), 32, 32), 64, 32)
    x = n.conv_relu(n.conv_relu(n.pool(x), 80, 64, 1), 192, 80)
    x, of = n.pool(x), 192
    for last in (32, 64, 64):
        a = n.conv_relu(x, 64, of, 1)
        b = n.conv_relu(n.conv_relu(x, 48, of, 1), 64, 48, 5)
        c = n.conv_relu(n.conv_relu(n.conv_relu(x, 64, of, 1), 96, 64), 96, 96)
        d = n.conv_relu(n.pool(x, 3, 1), last, of, 1)
        x, of = n.node("Concat", a, b, c, d, axis=1), 224 + last
    return n.classified(x, of, [1, 3, 224, 224])


def detector():
    n = Images()
    x, of, maps = n.conv_relu("x", 16, 3, 3, 2), 16, []
    for to, depth in ((32, 1), (64, 2), (128, 2), (256, 1)):
        x = n.conv_relu(x, to, of, 3, 2)
        a, b = n.conv_relu(x, to // 2, to, 1), n.conv_relu(x, to // 2, to, 1)
        for _ in range(depth):
            y = n.conv_relu(n.conv_relu(a, to // 2, to // 2), to // 2, to // 2)
            a = n.added(a, y, None)
        x, of = n.conv_relu(n.node("Concat", a, b, axis=1), to, to, 1), to
        maps.append((x, of))
    for lower, width in maps[-2::-1][:2]:
        scales = n.constant(numpy.array([1, 1, 2, 2], numpy.float32))
        x = n.node("Resize", n.conv_relu(x, width, of, 1), "", scales, mode="nearest")
        x, of = n.conv_relu(n.node("Concat", x, lower, axis=1), width, 2 * width), width
    return n.model(n.conv_relu(x, 85, of, 1, act=None), [1, 3, 320, 320])[0]


NETWORKS = {
    "resnet50": lambda: bottlenecks((3, 4, 6, 3), 64), "resnet18-batch4": resnet18, "mobilenet_v2": mobilenet_v2,
    "mobilenet_v3": mobilenet_v3, "resnext50": lambda: bottlenecks((3, 4, 6, 3), 128, 4), "regnet": regnet,
    "densenet": densenet, "inception": inception, "detector": detector}


def quantised(polaris, folder, name, activations):
    path = folder / f"{name}-{activations}.onnx"
    if not path.exists():
        model = NETWORKS[name]()
        shape = [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim]
        onnx.save(model, folder / "float.onnx")
        images = numpy.random.default_rng(1).standard_normal((8, *shape[1:])).astype(numpy.float32)
        numpy.save(folder / "data.npy", images)
        subprocess.run([polaris, "quantize", folder / "float.onnx", "--data", folder / "data.npy", "-o", path,
                        "--activations", activations], check=True, stdout=subprocess.DEVNULL)
    return path


def measured(given, path, name, threads):
    engines = {"polaris": Polaris(given.polaris, path, ["--mode", "cpu"], threads, {}, given.runs)}
    if given.before:
        engines["before"] = Polaris(given.before, path, ["--mode", "cpu"], threads, {}, given.runs)
    engines["onnxruntime"] = OnnxRuntime(path, threads, {}, given.runs)
    times = {name: [] for name in engines}
    for number in range(given.rounds):
        names = list(engines)
        first = number % len(names)
        for engine in names[first:] + names[:first]:
            times[engine].append(engines[engine].round())
    least = {engine: min(list_) for engine, list_ in times.items()}
    ratio = {engine: time / least["polaris"] for engine, time in least.items() if engine != "polaris"}
    return {"model": name, "threads": threads, "ms": least, "ratio": ratio, "all_ms": times}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("polaris")
    parser.add_argument("--models", type=pathlib.Path, help="a folder that keeps the files")
    parser.add_argument("--only", help=f"some of {', '.join(NETWORKS)}")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--activations", choices=["u8", "i8"], default="u8")
    parser.add_argument("--before")
    parser.add_argument("--json", type=pathlib.Path)
    given = parser.parse_args()
    names = given.only.split(",") if given.only else list(NETWORKS)
    unknown = [name for name in names if name not in NETWORKS]
    if unknown:
        sys.exit(f"no such networks: {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    others = (["before"] if given.before else []) + ["onnxruntime"]
    print(f"{'network':16} {'threads':>7} {'polaris ms':>11}"
          + "".join(f" {name + ' ms':>15} {'ratio':>6}" for name in others))
    rows = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.models or pathlib.Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            path = quantised(given.polaris, folder, name, given.activations)
            for threads in map(int, given.threads.split(",")):
                row = measured(given, path, name, threads)
                rows.append(row)
                cells = "".join(f" {row['ms'][other]:15.2f} {row['ratio'][other]:6.2f}" for other in others)
                print(f"{name:16} {threads:7} {row['ms']['polaris']:11.2f}{cells}", flush=True)
    for threads in sorted({row["threads"] for row in rows}):
        for other in others:
            mean = geometric_mean([row["ratio"][other] for row in rows if row["threads"] == threads])
            print(f"geometric mean, {threads} threads, {other}: {mean:.3f}")
    if given.json:
        given.json.write_text(json.dumps({"activations": given.activations, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
