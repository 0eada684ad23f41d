#!/usr/bin/env python3
"""Quantised models with the logits of their weights, and with those of llama.cpp, which rounds activations too.

    quantized.py MODELS OUT --llama LLAMA.CPP/build/bin --logits LOGITS [--types Q8_0,Q4_K_M]

MODELS is a folder that test-llama-archs wrote, with tokens.txt; LOGITS the program of this folder. For some architectures,
OUT gets files with rows of whole blocks whose weights count, as random_models.py makes them, quantised by llama-quantize.
NAME.logits is what llama.cpp computes with the weights of the file as f32, NAME.rounded with the file itself, NAME.single
token by token, and NAME.plain without its other order of weights. The script prints how far these are apart.
Needs the Python packages gguf and numpy.
"""
import argparse
import pathlib
import shutil
import subprocess

import numpy as np
from gguf import GGUFReader, GGUFValueType as T, GGUFWriter, dequantize
from random_models import Model, finish

NAMES = ["llama-dense", "llama-moe", "qwen2-dense", "qwen3-dense", "qwen3moe-moe", "qwen35-dense", "gemma2-dense", "phi3-dense",
         "gpt2-dense", "starcoder2-dense", "glm4-dense", "falcon-h1-dense", "mamba2-dense", "lfm2-dense"]
# Sizes of feed-forward networks, as multiples of 256.
WHOLE = {384: 512, 768: 1024}


def make(path, out):
    model = Model(path)
    for key in ["feed_forward_length", "expert_feed_forward_length"]:
        value = model.get(key)
        if isinstance(value, list):
            model.set(key, [WHOLE.get(size, size) for size in value])
        elif value in WHOLE:
            model.set(key, WHOLE[value])
    for name, dims in model.tensors.items():
        if "ffn" in name:
            model.tensors[name] = [WHOLE.get(size, size) for size in dims]
    finish(model)
    model.write(out, np.random.default_rng(list(path.stem.encode())))


def expand(path, out):
    """The same model with weights as f32."""
    reader = GGUFReader(path)
    writer = GGUFWriter(out, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        value = None if key.startswith("GGUF.") or key == "general.architecture" else field.contents()
        if value is not None and value != []:
            is_list = field.types[0] == T.ARRAY
            writer.add_key_value(key, value, field.types[0], field.types[-1] if is_list else None)
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        writer.add_tensor(tensor.name, values.reshape([int(size) for size in tensor.shape][::-1]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def read(path):
    rows, words = np.fromfile(path, "<i4", 2)
    return np.fromfile(path, "<f4", offset=8).reshape(rows, words).astype(np.float64)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--llama", type=pathlib.Path, required=True)
    parser.add_argument("--logits", type=pathlib.Path, required=True)
    parser.add_argument("--types", default="Q8_0,Q4_K_M")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    tokens = options.out / "tokens.txt"
    shutil.copy(options.models / "tokens.txt", tokens)

    def logits(model, out, *mode):
        subprocess.run([options.logits.resolve(), model, tokens, out, "1", *mode], check=True)
        return read(out)

    def error(found, expected):
        return np.linalg.norm(found - expected) / np.linalg.norm(expected)

    print(f"{'model':28} {'rounded':>8} {'single':>8} {'plain':>8}")
    floats = options.out / "floats"
    for name in NAMES:
        make(options.models / f"{name}.gguf", floats)
        for kind in options.types.split(","):
            path = options.out / f"{name}-{kind}.gguf"
            quantize = [options.llama / "llama-quantize", floats, path, kind, "1"]
            subprocess.run(quantize, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            expanded = options.out / "expanded"
            expand(path, expanded)
            exact = logits(expanded, path.with_suffix(".logits"), "decode")
            expanded.unlink()
            rounded = logits(path, path.with_suffix(".rounded"), "decode")
            single = logits(path, path.with_suffix(".single"), "single")
            plain = logits(path, path.with_suffix(".plain"), "decode", "plain")
            apart = [error(rounded, exact), error(single, rounded), error(plain, rounded)]
            print(f"{path.stem:28}", *(f"{each:8.1e}" for each in apart))
    floats.unlink()


if __name__ == "__main__":
    main()
