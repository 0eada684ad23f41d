"""Makes the files that the tests of polaris-gguf read, with the Python package gguf, or checks a file it wrote.

    pip install gguf==0.19.0 numpy
    python bench/gguf/golden.py                      # those in crates/polaris-gguf/tests/golden
    python bench/gguf/golden.py --out DIR --blocks 20000
    POLARIS_GGUF_GOLDEN=DIR cargo test -p polaris-gguf golden
    python bench/gguf/golden.py --check IN OUT TYPE  # OUT was made of IN by the example `quantize`

decode.gguf has blocks of every type with what the package makes of them (`TYPE` and `TYPE.f32`), encode.gguf weights
with the blocks that the package makes. Blocks are random bytes, blocks of one byte, and blocks with scales that are
zero, subnormal, infinite or NaN. Weights are of all magnitudes, with ties, zeros of both signs and blocks whose largest
weight is just below a power of two. Left out are weights for which the package writes a scale that is not finite, lets
the exponent of MXFP4 wrap around, or finds a minimum of zero whose sign depends on the order of its vectors.
"""

import argparse
import pathlib
import warnings

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type

warnings.filterwarnings("ignore", category=RuntimeWarning)

# Where the half-precision numbers of a block are.
HALVES = {
    Type.Q4_0: [0], Type.Q4_1: [0, 2], Type.Q5_0: [0], Type.Q5_1: [0, 2], Type.Q8_0: [0],
    Type.Q2_K: [80, 82], Type.Q3_K: [108], Type.Q4_K: [0, 2], Type.Q5_K: [0, 2], Type.Q6_K: [208],
    Type.IQ4_NL: [0], Type.IQ4_XS: [0], Type.MXFP4: [],
}
SPECIAL = np.array([0x0000, 0x8000, 0x0001, 0x8001, 0x03ff, 0x0400, 0x7bff, 0xfbff,
                    0x7c00, 0xfc00, 0x7c01, 0x7e00, 0xfe00], dtype=np.uint16)
ENCODED = [Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1, Type.Q8_0, Type.MXFP4]


def random_blocks(kind, count, random):
    """Random bytes; in turns with usual scales, with special ones and as they are, some of one byte."""
    size = gguf.GGML_QUANT_SIZES[kind][1]
    blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
    for number in range(count):
        if number % 3 == 0:
            for place in HALVES[kind]:
                blocks[number, place:place + 2] = random.uniform(-1, 1, 1).astype(np.float16).view(np.uint8)
        if number % 3 == 1:
            for place in HALVES[kind]:
                blocks[number, place:place + 2] = random.choice(SPECIAL, 1).view(np.uint8)
            if kind == Type.MXFP4:
                blocks[number, 0] = [0, 1, 255, 2, 254][number // 3 % 5]
        if number % 9 == 8:
            blocks[number] = number // 9 % 256
    return blocks


def random_weights(count, random):
    """Blocks of 32 weights."""
    weights = random.standard_normal((count, 32)) * 10.0 ** random.uniform(-44, 5, (count, 1))
    weights = weights.astype(np.float32)
    for number in range(count):
        block = weights[number]
        match number % 10:
            case 1:
                block[:] = random.integers(-16, 17, 32) / 2
            case 2:
                block[random.integers(0, 32, 20)] = random.choice([0.0, -0.0])
            case 3:
                block[:] = random.choice([0.0, -0.0], 32)
            case 4:
                block[:] = block[0]
            case 5:
                block[random.integers(32)] *= 1000
            case 6:
                power = np.float32(2.0) ** np.float32(random.integers(-120, 16))
                block[:] = power * random.uniform(-0.9, 0.9, 32)
                bits = power.view(np.uint32) - np.uint32(random.integers(0, 6))
                block[random.integers(32)] = bits.view(np.float32) * random.choice([1, -1])
            case 7:
                block[:] = 1 + random.standard_normal(32) / 4
            case 8:
                # Ties of Q8_0: its scale is 1.
                block[:] = random.integers(-126, 126, 32) + 0.5
                block[random.integers(32)] = 127
    return weights


def is_defined(kind, weights, blocks):
    """Blocks whose scales are finite, whose exponent did not wrap around, and whose minimum is not any of two zeros."""
    if kind == Type.MXFP4:
        most = np.abs(weights).max(axis=1)
        return (most == 0) | (most >= 2.0 ** -125)
    halves = [blocks[:, place:place + 2].copy().view(np.float16)[:, 0] for place in HALVES[kind]]
    signs = np.signbit(weights)
    both = ((weights == 0) & signs).any(axis=1) & ((weights == 0) & ~signs).any(axis=1)
    any_zero = both & (weights.min(axis=1) == 0) & (kind in [Type.Q4_1, Type.Q5_1])
    return np.all(np.isfinite(halves), axis=0) & ~any_zero


def random_floats(kind, count, random):
    """Bits of a type without quantisation: all 65536 where there are so many to choose from."""
    if kind == Type.F32:
        return random.integers(0, 1 << 32, count, dtype=np.uint32).view(np.uint8)
    if count >= 65536:
        return np.arange(65536, dtype=np.uint16).view(np.uint8)
    return np.concatenate([SPECIAL, random.integers(0, 65536, count, dtype=np.uint16)]).view(np.uint8)


def write(path, tensors, fill=lambda writer: None, **options):
    writer = gguf.GGUFWriter(path, "test", **options)
    fill(writer)
    for name, (data, kind) in tensors.items():
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def write_blocks(folder, small, large, random):
    """`small` blocks of 32 weights, `large` of 256, of each type."""
    tensors = {}
    for kind in [Type.F32, Type.F16, Type.BF16]:
        data = random_floats(kind, max(small * 4, 65536 if small > 10000 else 0), random)
        tensors[kind.name] = (data, kind)
        tensors[kind.name + ".f32"] = (gguf.dequantize(data, kind), Type.F32)
    for kind in HALVES:
        count = small if gguf.GGML_QUANT_SIZES[kind][0] == 32 else large
        data = random_blocks(kind, count, random)
        tensors[kind.name] = (data, kind)
        tensors[kind.name + ".f32"] = (gguf.dequantize(data, kind), Type.F32)
    write(folder / "decode.gguf", tensors)
    tensors = {}
    for kind in [Type.F16, Type.BF16]:
        weights = np.concatenate([random.integers(0, 1 << 32, small * 4, dtype=np.uint32).view(np.float32),
                                  random_weights(small // 4 + 1, random).reshape(-1)])
        tensors[kind.name + ".f32"] = (weights, Type.F32)
        tensors[kind.name] = (gguf.quantize(weights, kind).view(np.uint8), kind)
    for kind in ENCODED:
        weights = random_weights(small * 2, random)
        blocks = gguf.quantize(weights, kind)
        defined = is_defined(kind, weights, blocks)
        tensors[kind.name + ".f32"] = (weights[defined], Type.F32)
        tensors[kind.name] = (blocks[defined], kind)
    write(folder / "encode.gguf", tensors)


def write_metadata(folder):
    kinds = gguf.GGUFValueType
    numbers = {
        kinds.UINT8: [0, 200], kinds.INT8: [-100, 7], kinds.UINT16: [0, 60000], kinds.INT16: [-30000, 7],
        kinds.UINT32: [0, 4000000000], kinds.INT32: [-2000000000, 7], kinds.FLOAT32: [1.5, -0.25],
        kinds.BOOL: [True, False], kinds.UINT64: [0, 1 << 63], kinds.INT64: [-(1 << 63), 7],
        kinds.FLOAT64: [1e300, -0.1],
    }

    def fill(writer):
        writer.add_custom_alignment(64)
        writer.add_string("test.string", "Größe 中 \0 \n")
        writer.add_key_value("test.empty", "", kinds.STRING)
        for kind, values in numbers.items():
            writer.add_key_value("test." + kind.name.lower(), values[1], kind)
            writer.add_key_value("test." + kind.name.lower() + "s", values, kinds.ARRAY, sub_type=kind)
        writer.add_array("test.strings", ["<s>", "", "▁a", "x" * 100])

    shapes = {"scalar": (), "vector": (5,), "matrix": (2, 3), "cube": (2, 3, 4), "four": (2, 1, 3, 4)}
    tensors = {name: (np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape), None)
               for name, shape in shapes.items()}
    write(folder / "metadata.gguf", tensors, fill)
    write(folder / "big-endian.gguf", {}, endianess=gguf.GGUFEndian.BIG)
    parts = {f"blk.{i}.weight": (np.full((2, 4), i, dtype=np.float16), None) for i in range(5)}
    write(folder / "split.gguf", parts, lambda writer: writer.add_block_count(5), split_max_tensors=2)


def check(before, after, kind):
    """Whether the package reads `after`, and finds in it what it would have made of `before` itself."""
    before, after = gguf.GGUFReader(before), gguf.GGUFReader(after)
    keys = [key for key in before.fields if not key.startswith("GGUF.")]
    assert keys == [key for key in after.fields if not key.startswith("GGUF.")], "other keys"
    for key in keys:
        a, b = before.fields[key], after.fields[key]
        assert a.types == b.types and a.contents() == b.contents(), key
    assert [tensor.name for tensor in before.tensors] == [tensor.name for tensor in after.tensors]
    quantised = 0
    for a, b in zip(before.tensors, after.tensors):
        assert list(a.shape) == list(b.shape) and b.data_offset % after.alignment == 0, a.name
        if b.tensor_type == a.tensor_type:
            expected = np.asarray(a.data)
        else:
            assert b.tensor_type == kind, f"{b.name} is {b.tensor_type.name}"
            expected = gguf.quantize(gguf.dequantize(a.data, a.tensor_type), kind)
            quantised += 1
        assert expected.tobytes() == np.asarray(b.data).tobytes(), b.name
    print(f"{len(keys)} keys and {len(after.tensors)} tensors are the same, {quantised} of them as {kind.name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = pathlib.Path(__file__).resolve().parents[2]
    parser.add_argument("--out", type=pathlib.Path, default=here / "crates/polaris-gguf/tests/golden")
    parser.add_argument("--blocks", type=int, help="blocks of each type (a few)")
    parser.add_argument("--check", nargs=3, metavar=("IN", "OUT", "TYPE"))
    arguments = parser.parse_args()
    if arguments.check:
        return check(arguments.check[0], arguments.check[1], Type[arguments.check[2]])
    arguments.out.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(1)
    write_blocks(arguments.out, arguments.blocks or 6, arguments.blocks or 2, random)
    write_metadata(arguments.out)


if __name__ == "__main__":
    main()
