"""Runs the ONNX standard's test data in ONNX Runtime, by the rules of `polaris onnx-test`.

    pip install onnxruntime numpy onnx
    python bench/onnx/runtime_conformance.py DATA/node DATA/simple ...
"""

import pathlib
import sys

import numpy
import onnx
import onnxruntime
from onnx import numpy_helper


def read(path, type_proto):
    data = path.read_bytes()
    if type_proto.HasField("sequence_type"):
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if type_proto.HasField("optional_type"):
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return numpy_helper.to_array(onnx.TensorProto.FromString(data))


def same(found, expected):
    if isinstance(expected, list):
        assert len(found) == len(expected)
        return all(same(a, b) for a, b in zip(found, expected))
    if expected is None:
        return found is None
    found, expected = numpy.asarray(found), numpy.asarray(expected)
    assert found.shape == expected.shape and (found.dtype == expected.dtype or expected.dtype == object)
    if expected.dtype == object:
        return (found == expected).all()
    numpy.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-7)
    return True


def passes(folder):
    if folder.suffix == ".onnx":
        model, sets = folder, [None]
    else:
        model, sets = folder / "model.onnx", sorted(folder.glob("test_data_set_*"))
    try:
        proto = onnx.load(model)
        session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
        constants = {tensor.name for tensor in proto.graph.initializer}
        inputs = [value for value in proto.graph.input if value.name not in constants]
        for data in sets:
            if data is None:
                shape = [max(dim.dim_value, 1) for dim in inputs[0].type.tensor_type.shape.dim]
                count = int(numpy.prod(shape))
                given = {inputs[0].name: (numpy.arange(count).reshape(shape) / count).astype(numpy.float32)}
                expected = [read(folder.with_name(f"{folder.stem}_output_0.pb"), proto.graph.output[0].type)]
            else:
                given = {value.name: read(data / f"input_{index}.pb", value.type) for index, value in enumerate(inputs)}
                expected = [read(data / f"output_{index}.pb", value.type) for index, value in enumerate(proto.graph.output)]
            for found, wanted in zip(session.run(None, given), expected):
                if not same(found, wanted):
                    return False
        return True
    except Exception:
        return False


def main():
    onnxruntime.set_default_logger_severity(4)
    print(f"ONNX Runtime {onnxruntime.__version__}")
    for argument in sys.argv[1:]:
        folder = pathlib.Path(argument)
        cases = sorted(path for path in folder.iterdir() if path.is_dir() or path.suffix == ".onnx")
        count = sum(passes(case) for case in cases)
        print(f"{folder.name:20} {count} of {len(cases)}", flush=True)


if __name__ == "__main__":
    main()
