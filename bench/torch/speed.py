"""Times operations of Polaris beside PyTorch, in turns in one run; prints medians and ratios.

    cargo build --release --example speed -p polaris-tensor
    python bench/torch/speed.py [--device cpu] [--threads 2] [--batch 8] [--rounds 15]

The CPU is compared with PyTorch on the CPU, OpenCL devices with PyTorch on CUDA (TF32 off). A ratio
above 1 says that Polaris is faster.
"""

import argparse
import math
import statistics
import subprocess
import sys
import time

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("SKIPPED: PyTorch is not installed (pip install torch)")
    sys.exit(77)


def convolution(place, inputs, outputs, size, kernel, groups, batch):
    x = torch.randn(batch, inputs, size, size, device=place)
    weight = torch.randn(outputs, inputs // groups, kernel, kernel, device=place)
    g = torch.randn(batch, outputs, size, size, device=place)
    padding = kernel // 2

    def backward(mask):
        arguments = ([0], [1, 1], [padding] * 2, [1, 1], False, [0, 0], groups, mask)
        return lambda: torch.ops.aten.convolution_backward(g, x, weight, *arguments)

    return {
        "forward": lambda: F.conv2d(x, weight, None, 1, padding, 1, groups),
        "input": backward([True, False, False]),
        "weight": backward([False, True, False]),
    }


def with_gradient(function, *inputs):
    """Forward without a graph, and the backward pass of a graph that is kept."""
    leaves = [t.requires_grad_() for t in inputs]
    y = function(*leaves)
    g = torch.randn_like(y)

    def forward():
        with torch.no_grad():
            return function(*leaves)

    return {
        "forward": forward,
        "backward": lambda: torch.autograd.grad(y, leaves, g, retain_graph=True),
    }


def softmax(place, batch):
    return with_gradient(lambda x: x.softmax(1), torch.randn(4096 * batch, 1024, device=place))


def layer_norm(place, batch):
    weight, bias = torch.randn(768, device=place), torch.randn(768, device=place)
    x = torch.randn(4096 * batch, 768, device=place)
    return with_gradient(lambda x: F.layer_norm(x, [768], weight, bias), x)


def attention(place, batch):
    tensors = [torch.randn(batch, 8, 512, 64, device=place) for _ in range(3)]
    return with_gradient(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *tensors)


def embedding(place, batch):
    tokens = torch.randint(0, 50_000, (8192 * batch,), device=place)
    return with_gradient(lambda table: F.embedding(tokens, table), torch.randn(50_000, 768, device=place))


def gelu(place, batch):
    x = torch.randn(batch << 24, device=place)
    return {"forward": lambda: F.gelu(x)}


def cases(place, batch, small):
    """Name, batch and PyTorch's versions; `small` is the batch of what is not images."""
    yield "conv3x3", batch, lambda: convolution(place, 64, 64, 56, 3, 1, batch)
    yield "conv1x1", batch, lambda: convolution(place, 256, 64, 56, 1, 1, batch)
    yield "depthwise", batch, lambda: convolution(place, 32, 32, 112, 3, 32, batch)
    yield "softmax", small, lambda: softmax(place, small)
    yield "layer_norm", small, lambda: layer_norm(place, small)
    yield "attention", small, lambda: attention(place, small)
    yield "embedding", small, lambda: embedding(place, small)
    yield "gelu", small, lambda: gelu(place, small)


def moved(name, part, batch):
    """Bytes that must be read and written at least, of what memory limits; nothing of the others."""
    elements = {"softmax": 4096 * 1024, "layer_norm": 4096 * 768, "embedding": 8192 * 768, "gelu": 1 << 24}
    arrays = {"forward": 2, "backward": 3}[part] if name in elements else 0
    if (name, part) == ("embedding", "backward"):
        return 4 * (batch * elements[name] + 50_000 * 768)
    return 4 * batch * arrays * elements.get(name, 0)


def ask(process, line):
    process.stdin.write(line + "\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=8, help="images of a convolution")
    parser.add_argument("--small", type=int, default=1, help="factor for everything else")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--runner", default="target/release/examples/speed")
    parser.add_argument("--only", help="cases whose name contains this")
    options = parser.parse_args()
    place = "cpu" if options.device == "cpu" else "cuda"
    torch.set_num_threads(options.threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    finish = torch.cuda.synchronize if place == "cuda" else (lambda: None)
    command = [options.runner, options.device]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    ratios = []
    # What memory allows: a copy of Polaris' own, of the size of the GELU's arrays.
    ask(process, f"case copy. {options.small}")
    copies = [float(ask(process, "run 3")) / 3 for _ in range(7)]
    copy_rate = 2 * 4 * (options.small << 24) / statistics.median(copies)
    print(f"copy: {copy_rate / 1e9:.1f} GB/s")
    print(f"{'case':22s} {'Polaris ms':>11s} {'PyTorch ms':>11s} {'ratio':>6s}  of copy bandwidth")
    for name, batch, make in cases(place, options.batch, options.small):
        if options.only and options.only not in name:
            continue
        for part, theirs in make().items():
            answer = ask(process, f"case {name}.{part} {batch}")
            if answer != "ready":
                raise SystemExit(f"{name}.{part}: {answer}")

            def time_theirs(count):
                begin = time.perf_counter()
                for _ in range(count):
                    theirs()
                finish()
                return (time.perf_counter() - begin) / count

            def time_ours(count):
                return float(ask(process, f"run {count}")) / count

            for _ in range(2):
                time_ours(1), time_theirs(1)
            # About 30 ms a sample.
            counts = [max(1, int(0.03 / max(timer(1), 1e-6))) for timer in (time_ours, time_theirs)]
            samples = [[], []]
            for turn in range(options.rounds):
                order = (0, 1) if turn % 2 else (1, 0)
                for which in order:
                    samples[which].append((time_ours, time_theirs)[which](counts[which]))
            ours, torchs = map(statistics.median, samples)
            ratios.append(torchs / ours)
            share = moved(name, part, batch) / ours / copy_rate
            share = f"{share:8.2f}" if share else ""
            print(f"{name + '.' + part:22s} {1e3 * ours:11.3f} {1e3 * torchs:11.3f} {torchs / ours:6.2f} {share}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"geometric mean {mean:.2f}, lowest {min(ratios):.2f}")


if __name__ == "__main__":
    main()
