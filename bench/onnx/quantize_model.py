"""Quantises a model of images to bytes with ONNX Runtime's tool, in QDQ form.

    pip install onnxruntime onnx numpy
    python bench/onnx/quantize_model.py MODEL.onnx OUT.onnx [--per-tensor] [--activations u8|i8]
                                        [--images 8] [--format qdq|operator]

Scales are calibrated with random images (standard normal numbers), which suits models with random weights; a
trained model wants images of its own kind. Weights are signed bytes with a scale for each output channel, or one
for all with --per-tensor. With `--format operator` nodes are QLinearConv and the like instead of pairs of
QuantizeLinear and DequantizeLinear. Prints how many nodes of each kind the result has.
"""

import argparse
import collections
import pathlib
import tempfile

import numpy
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process


class RandomImages(CalibrationDataReader):
    """So many batches of one random image for every input of the model."""

    def __init__(self, path, count):
        model = onnx.load(path, load_external_data=False)
        constants = {tensor.name for tensor in model.graph.initializer}
        random = numpy.random.default_rng(1)
        shapes = {}
        for value in model.graph.input:
            if value.name not in constants:
                dims = value.type.tensor_type.shape.dim
                shapes[value.name] = [dim.dim_value if dim.HasField("dim_value") else 1 for dim in dims]
        self.left = iter([{name: random.standard_normal(shape).astype(numpy.float32)
                           for name, shape in shapes.items()} for _ in range(count)])

    def get_next(self):
        return next(self.left, None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--per-tensor", action="store_true", help="one scale for a whole weight")
    parser.add_argument("--activations", choices=["u8", "i8"], default="u8")
    parser.add_argument("--images", type=int, default=8, help="random images to calibrate with")
    parser.add_argument("--format", choices=["qdq", "operator"], default="qdq")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        prepared = pathlib.Path(folder) / "prepared.onnx"
        try:
            # Folds normalisations into convolutions, so that there is one node to quantise and not two.
            quant_pre_process(given.model, prepared, skip_symbolic_shape=True)
        except Exception as error:
            print(f"not prepared, quantised as it is: {error}")
            prepared = given.model
        quantize_static(
            prepared, given.out, RandomImages(prepared, given.images),
            quant_format=QuantFormat.QDQ if given.format == "qdq" else QuantFormat.QOperator,
            activation_type=QuantType.QUInt8 if given.activations == "u8" else QuantType.QInt8,
            weight_type=QuantType.QInt8, per_channel=not given.per_tensor)
    kinds = collections.Counter(node.op_type for node in onnx.load(given.out).graph.node)
    print(", ".join(f"{count} {kind}" for kind, count in kinds.most_common()))


if __name__ == "__main__":
    main()
