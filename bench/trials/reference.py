"""What ONNX Runtime makes of models that `polaris run` has run: one process for many models.

Reads a JSON object a line from stdin: `model`, `inputs` and `outputs` (names with NPY files), `tolerance`.
Answers with one a line: `differs` is null, or the first output that differs, with words in `detail`.
`onnx.reference` decides where ONNX Runtime disagrees. Needs onnx, onnxruntime and numpy.
"""

import json
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx.reference import ReferenceEvaluator


def difference(found, wanted, tolerance):
    """In words, or None."""
    wanted = np.asarray(wanted)
    if found.shape != wanted.shape:
        return f"shape {list(found.shape)} and not {list(wanted.shape)}"
    if found.dtype != wanted.dtype:
        return f"type {found.dtype} and not {wanted.dtype}"
    if wanted.dtype.kind != "f":
        return None if np.array_equal(found, wanted) else "other elements"
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    finite = np.abs(b[np.isfinite(b)])
    allowed = tolerance * max(1.0, finite.max(initial=0.0))
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= allowed)
    if same.all():
        return None
    at = tuple(np.argwhere(~same)[0])
    return f"element {list(map(int, at))} is {a[at]} and not {b[at]}; {allowed:.2e} is allowed"


def first_difference(names, found, wanted, tolerance):
    for name, value in zip(names, wanted):
        why = difference(found[name], value, tolerance)
        if why:
            return name, why
    return None


def answer(request):
    inputs = {name: np.load(path) for name, path in request["inputs"].items()}
    found = {name: np.load(path) for name, path in request["outputs"].items()}
    names, tolerance = list(found), request["tolerance"]
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = ort.InferenceSession(request["model"], options, providers=["CPUExecutionProvider"])
        wanted = session.run(names, inputs)
    except Exception as error:  # It lacks some types and operators.
        return {"differs": None, "skipped": str(error)[:200]}
    wrong = first_difference(names, found, wanted, tolerance)
    if wrong is None:
        return {"differs": None}
    try:
        judged = ReferenceEvaluator(onnx.load(request["model"])).run(names, inputs)
        if first_difference(names, found, judged, tolerance) is None:
            return {"differs": None, "note": f"ONNX Runtime alone differs: {wrong}"}
    except Exception as error:  # Nobody can tell who is right.
        return {"differs": None, "note": f"undecided, {error}: {wrong}"}
    return {"differs": wrong[0], "detail": f"{wrong[0]}: {wrong[1]}; onnx.reference differs, too"}


def main():
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:
            reply = {"differs": None, "skipped": str(error)[:200]}
        print(json.dumps(reply), flush=True)


main()
