#!/usr/bin/env python3
"""Tokens a second of a random decoder in half precision by PyTorch, beside which `polaris bench llm` can be read.

    decoder.py [--shape 7b] [--prompt 512] [--rows 32] [--device cuda]

The layers are those of bench/llm/large_model.py: RMS norms, rotary positions left out, one product for queries, keys and
values and one for gate and up, torch's own attention. It prints a prompt, single tokens with and without a CUDA graph, and
one step of several rows.
"""
import argparse
import statistics
import time

import torch
import torch.nn.functional as F

# Width, layers, heads, heads of keys, network, vocabulary.
SHAPES = {
    "1.5b": (1536, 28, 12, 2, 8960, 151936),
    "7b": (4096, 32, 32, 32, 11008, 32000),
}
POSITION = 64  # what a single token sees


class Decoder:
    def __init__(self, shape, positions, device):
        self.width, self.layers, self.heads, self.key_heads, network, vocabulary = shape
        self.size = self.width // self.heads
        self.options = {"device": device, "dtype": torch.float16}

        def matrix(rows, columns):
            return torch.randn(rows, columns, **self.options) * columns**-0.5

        kv = self.key_heads * self.size
        self.weights = [
            {
                "qkv": matrix(self.width + 2 * kv, self.width),
                "out": matrix(self.width, self.width),
                "gate_up": matrix(2 * network, self.width),
                "down": matrix(self.width, network),
                "norms": torch.ones(2, self.width, **self.options),
            }
            for _ in range(self.layers)
        ]
        self.output = matrix(vocabulary, self.width)
        self.cache = torch.zeros(self.layers, 2, self.key_heads, positions, self.size, **self.options)

    def step(self, x, position):
        rows = x.shape[0]
        kv = self.key_heads * self.size
        for layer, weights in enumerate(self.weights):
            normed = F.rms_norm(x, (self.width,), weights["norms"][0], 1e-5)
            q, k, v = F.linear(normed, weights["qkv"]).split([self.width, kv, kv], dim=-1)
            keys, values = self.cache[layer]
            keys[:, position : position + rows] = k.view(rows, -1, self.size).transpose(0, 1)
            values[:, position : position + rows] = v.view(rows, -1, self.size).transpose(0, 1)
            seen = position + rows
            attended = F.scaled_dot_product_attention(
                q.view(rows, -1, self.size).transpose(0, 1)[None],
                keys[None, :, :seen],
                values[None, :, :seen],
                is_causal=rows > 1,
                enable_gqa=self.key_heads < self.heads,
            )
            x = x + F.linear(attended[0].transpose(0, 1).reshape(rows, self.width), weights["out"])
            normed = F.rms_norm(x, (self.width,), weights["norms"][1], 1e-5)
            gate, up = F.linear(normed, weights["gate_up"]).chunk(2, dim=-1)
            x = x + F.linear(F.silu(gate) * up, weights["down"])
        return F.linear(x[-1:], self.output)


def seconds(run, device, rounds=5):
    def finish():
        if device == "cuda":
            torch.cuda.synchronize()

    times = []
    for turn in range(rounds + 2):
        finish()
        start = time.perf_counter()
        run()
        finish()
        if turn >= 2:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=SHAPES, default="7b")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--rows", type=int, default=32)
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    with torch.inference_mode():
        decoder = Decoder(SHAPES[options.shape], max(options.prompt, options.rows) + POSITION, options.device)

        def inputs(rows):
            return torch.randn(rows, decoder.width, **decoder.options)

        prompt, one, several = inputs(options.prompt), inputs(1), inputs(options.rows)
        time_of = lambda run: seconds(run, options.device)
        print(f"prompt of {options.prompt}: {options.prompt / time_of(lambda: decoder.step(prompt, 0)):.0f} tokens/s")
        print(f"single tokens: {1 / time_of(lambda: decoder.step(one, POSITION)):.1f} tokens/s")
        if options.device == "cuda":
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                decoder.step(one, POSITION)
            print(f"single tokens, CUDA graph: {1 / time_of(graph.replay):.1f} tokens/s")
        print(f"{options.rows} rows: {options.rows / time_of(lambda: decoder.step(several, 0)):.0f} tokens/s")


if __name__ == "__main__":
    main()
