#!/usr/bin/env python3
"""Gives the random models of llama.cpp's test tool weights of usual sizes.

The tool draws every weight around 0 with a deviation of 0.01, so that most parts of a model hardly change its logits.
This draws them again such that each part counts: norms around 1, matrices that keep the size of what they multiply,
decays below 0. The cap of logits, which the tool writes for all architectures and llama.cpp applies for some, becomes 0.

    amplify.py FROM.gguf TO.gguf
"""

import struct
import sys
import zlib

import numpy as np

ELEMENTS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 8

    def number(self, code):
        value = struct.unpack_from("<" + code, self.data, self.at)[0]
        self.at += struct.calcsize("<" + code)
        return value

    def text(self):
        length = self.number("Q")
        self.at += length
        return bytes(self.data[self.at - length : self.at]).decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            kind, count = self.number("I"), self.number("Q")
            return [self.value(kind) for _ in range(count)]
        return self.number(ELEMENTS[kind])


def values(name, dims, architecture):
    """`dims` has the innermost first, as files do."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    normal = random.standard_normal(int(np.prod(dims)))
    last = name.split(".", 2)[-1] if name.startswith("blk.") else name
    if last.endswith("_exps.scale") or architecture == "minimax-01" and last.endswith(".scale"):
        return np.ones_like(normal)
    if last.endswith("scale"):
        return 1 + 0.2 * np.tanh(normal)
    if "norm" in last:
        return 1 + 0.3 * normal
    if last == "ssm_a":
        return -np.exp(0.5 * normal)
    if last == "ssm_dt.bias":
        return normal - 1
    if last == "ssm_d":
        return normal
    if last.startswith("rope_f"):
        return 1 + 0.5 * np.abs(normal)
    if "conv" in last and last.endswith("weight") and "proj" not in last:
        return 0.6 * normal
    if last.endswith("bias"):
        return 0.2 * normal
    if last == "token_embd.weight":
        return normal
    return normal / np.sqrt(dims[0])


def main():
    data = bytearray(open(sys.argv[1], "rb").read())
    reader = Reader(data)
    tensors, keys = reader.number("Q"), reader.number("Q")
    metadata = {}
    for _ in range(keys):
        key = reader.text()
        metadata[key] = reader.value(reader.number("I"))
        if key.endswith(".final_logit_softcapping"):
            data[reader.at - 4 : reader.at] = bytes(4)
    found = []
    for _ in range(tensors):
        name = reader.text()
        dims = [reader.number("Q") for _ in range(reader.number("I"))]
        found.append((name, dims, reader.number("I"), reader.number("Q")))
    alignment = metadata.get("general.alignment", 32)
    start = -(-reader.at // alignment) * alignment
    for name, dims, kind, offset in found:
        if kind != 0:
            sys.exit(f"{name} is of type {kind}; expected is 0 (F32)")
        new = values(name, dims, metadata["general.architecture"]).astype("<f4").tobytes()
        data[start + offset : start + offset + len(new)] = new
    open(sys.argv[2], "wb").write(data)


main()
