#!/usr/bin/env python3
"""Writes a random model of a size that is not worth quantising: its blocks are drawn, not computed.

    large_model.py OUT.gguf [--shape 7b] [--type Q4_K_M] [--seed 1]

Values have the spread of trained weights, so that logits stay finite; rows repeat after some megabytes, which matters to
nobody who measures time. Q4_K_M mixes types as llama-quantize does. Needs the Python packages gguf and numpy.
"""
import argparse

import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFWriter

# Width, layers, heads, heads of keys, network, vocabulary.
SHAPES = {
    "0.5b": (896, 24, 14, 2, 4864, 151936),
    "1.5b": (1536, 28, 12, 2, 8960, 151936),
    "7b": (4096, 32, 32, 32, 11008, 32000),
    "8b": (4096, 32, 32, 8, 14336, 128256),
    "13b": (5120, 40, 40, 40, 13824, 32000),
    "32b": (5120, 64, 40, 8, 27648, 152064),
}
POOL = 1 << 22  # bytes of random blocks, at least, that all tensors of a type and a row length are cut from

# Elements and bytes of a block; where its factors in half precision are, and the factors for weights of spread 1.
BLOCKS = {
    Type.Q4_0: (32, 18, {0: 1 / 4.6}),
    Type.Q5_0: (32, 22, {0: 1 / 9.2}),
    Type.Q5_1: (32, 24, {0: 1 / 9.2, 2: -15.5 / 9.2}),
    Type.Q8_0: (32, 34, {0: 1 / 74}),
    Type.Q4_K: (256, 144, {0: 1 / 250, 2: 7.5 / 250}),
    Type.Q5_K: (256, 176, {0: 1 / 510, 2: 15.5 / 510}),
    Type.Q6_K: (256, 210, {208: 1 / 1366}),
}

# What rows have that are not whole blocks of 256.
SHORT = {Type.Q4_K: Type.Q5_0, Type.Q5_K: Type.Q5_1, Type.Q6_K: Type.Q8_0}


class Source:
    """Random rows of each type."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.pools = {}

    def rows(self, kind, count, length):
        if kind == Type.F16:
            row_bytes = 2 * length
        else:
            elements, size, _ = BLOCKS[kind]
            row_bytes = length // elements * size
        pool = self.pools.get((kind, length))
        if pool is None:
            pool = self.pools[kind, length] = self.pool(kind, length, max(1, POOL // row_bytes))
        repeated = np.resize(pool, (count, row_bytes))
        return repeated.view(np.float16) if kind == Type.F16 else repeated

    def pool(self, kind, length, rows):
        spread = 1 / np.sqrt(length)
        if kind == Type.F16:
            values = self.random.standard_normal((rows, length), dtype=np.float32) * spread
            return values.astype(np.float16).view(np.uint8).reshape(rows, -1)
        elements, size, factors = BLOCKS[kind]
        blocks = self.random.integers(0, 256, (rows * length // elements, size), dtype=np.uint8)
        for at, factor in factors.items():
            blocks[:, at : at + 2] = np.frombuffer(np.float16(factor * spread).tobytes(), np.uint8)
        return blocks.reshape(rows, -1)


def types(name, layers):
    """The type of a tensor, by the name of its matrix and its layer."""
    if name not in ("Q4_K_M", "Q5_K_M"):
        plain = Type[name]
        return lambda matrix, layer: plain
    usual = Type.Q4_K if name == "Q4_K_M" else Type.Q5_K

    def choose(matrix, layer):
        finer = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
        if matrix == "output" or (matrix in ("attn_v", "ffn_down") and finer):
            return Type.Q6_K
        return usual

    return choose


def metadata(writer, shape):
    """What a file says of a llama of a shape, and a tokenizer of bytes."""
    width, layers, heads, key_heads, network, vocabulary = shape
    writer.add_context_length(32768)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(network)
    writer.add_head_count(heads)
    writer.add_head_count_kv(key_heads)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(width // heads)
    writer.add_vocab_size(vocabulary)
    writer.add_tokenizer_model("llama")
    pieces = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    kinds = [2, 3, 3] + [6] * 256
    rest = vocabulary - len(pieces)
    writer.add_token_list(pieces + [f"t{number}" for number in range(rest)])
    writer.add_token_scores([0.0] * vocabulary)
    writer.add_token_types(kinds + [1] * rest)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--shape", choices=SHAPES, default="7b")
    parser.add_argument("--type", choices=["Q4_0", "Q8_0", "Q4_K_M", "Q5_K_M", "Q6_K", "F16"], default="Q4_K_M")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    width, layers, heads, key_heads, network, vocabulary = SHAPES[options.shape]
    head = width // heads
    source, choose = Source(options.seed), types(options.type, layers)
    writer = GGUFWriter(options.out, "llama")
    metadata(writer, SHAPES[options.shape])

    # The tensors are described first and drawn while they are written, so that memory holds one at a time.
    plan = []

    def matrix(name, rows, columns, layer=0):
        kind = choose(name, layer)
        if columns % 256:
            kind = SHORT.get(kind, kind)
        full = f"{name}.weight" if name in ("token_embd", "output") else f"blk.{layer}.{name}.weight"
        plan.append((full, kind, rows, columns))

    def norm(name):
        plan.append((name, Type.F32, 1, width))

    matrix("token_embd", vocabulary, width)
    matrix("output", vocabulary, width)
    norm("output_norm.weight")
    for layer in range(layers):
        norm(f"blk.{layer}.attn_norm.weight")
        norm(f"blk.{layer}.ffn_norm.weight")
        matrix("attn_q", heads * head, width, layer)
        matrix("attn_k", key_heads * head, width, layer)
        matrix("attn_v", key_heads * head, width, layer)
        matrix("attn_output", width, heads * head, layer)
        matrix("ffn_gate", network, width, layer)
        matrix("ffn_up", network, width, layer)
        matrix("ffn_down", width, network, layer)
    for name, kind, rows, columns in plan:
        if kind == Type.F32:
            writer.add_tensor_info(name, [columns], np.dtype(np.float32), 4 * columns)
        elif kind == Type.F16:
            writer.add_tensor_info(name, [rows, columns], np.dtype(np.float16), 2 * rows * columns)
        else:
            elements, size, _ = BLOCKS[kind]
            row_bytes = columns // elements * size
            writer.add_tensor_info(name, [rows, row_bytes], np.dtype(np.uint8), rows * row_bytes, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for name, kind, rows, columns in plan:
        tensor = np.ones(columns, np.float32) if kind == Type.F32 else source.rows(kind, rows, columns)
        writer.write_tensor_data(tensor)
    writer.close()


if __name__ == "__main__":
    main()
