"""Times training steps of Polaris beside PyTorch, in turns in one run; prints medians and ratios.

    pip install torch safetensors numpy
    cargo build --release --example steps -p polaris-nn
    python bench/torch/training.py [--device cpu] [--threads 2] [--rounds 9] [--batch cnn=512]

The CPU is compared with PyTorch on the CPU, OpenCL devices with PyTorch on CUDA (eager, TF32 off). Each has
a process of its own, whose largest resident memory is told (on the CPU). A ratio above 1 says that Polaris
is faster.
"""

import argparse
import json
import math
import os
import statistics
import sys
import tempfile
import time

try:
    import torch
    from safetensors.torch import load_file, save_file
except ImportError as error:
    print(f"SKIPPED: {error} (pip install torch safetensors numpy)")
    sys.exit(77)

from models import build, loss_of, optimizer
from runner import ask, start

CASES = {
    # MLP 784-512-512-10, CNN 1-32-64 with one pooling and 128 hidden, GPT of 4 layers.
    "mlp": ({"kind": "mlp", "hidden": [512, 512]}, [1, 28, 28], 10, 128, "adam"),
    "cnn": (
        {
            "kind": "cnn",
            "channels": [32, 64],
            "kernel": 3,
            "padding": 0,
            "batch_norm": False,
            "pool_after": [2],
            "hidden": [128],
        },
        [1, 28, 28],
        10,
        64,
        "adam",
    ),
    "gpt": ({"kind": "gpt", "layers": 4, "width": 256, "heads": 8}, [128], 256, 8, "adamw"),
}
RATE = 1e-3


class Peer:
    """PyTorch, asked as the Rust program is."""

    def __init__(self, place):
        self.place = place

    def answer(self, request):
        if "model" in request:
            self.model = build(request["model"], request["input"], request["outputs"]).to(self.place)
            if request.get("state"):
                self.model.load_state_dict(load_file(request["state"], device=self.place))
            self.steps = optimizer(request["optimizer"], self.model.parameters(), request["rate"])
            return "ready"
        data = load_file(request["batch"], device=self.place)
        x, y = data["x.0"], data["y.0"]
        self.finish()
        begin = time.perf_counter()
        for _ in range(request["time"]):
            loss = loss_of(self.model, x, y)
            self.steps.zero_grad()
            loss.backward()
            self.steps.step()
        self.finish()
        return {"seconds": time.perf_counter() - begin, "loss": loss.item()}

    def finish(self):
        if self.place == "cuda":
            torch.cuda.synchronize()


def serve(place, threads):
    torch.set_num_threads(threads)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    peer = Peer(place)
    for line in sys.stdin:
        print(json.dumps(peer.answer(json.loads(line))), flush=True)


def resident(process):
    """The most memory a process ever had, in MiB."""
    with open(f"/proc/{process.pid}/status") as status:
        line = next(line for line in status if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def show_kernels(options, request, batch_file, steps):
    """Where the device's time goes, by its own clock, in a process of its own: measuring costs time."""
    process = start([options.runner, options.device, "--kernel-times"])
    ask(process, request)
    ask(process, {"time": 3, "batch": batch_file})
    answer = ask(process, {"time": steps, "batch": batch_file, "kernels": options.kernels})
    print(f"    {'launches':>8s} {'ms':>7s} {'share':>6s}  kernel, of a step")
    for name, launches, seconds, share in answer["kernels"]:
        print(f"    {launches:8.1f} {1e3 * seconds:7.3f} {100 * share:5.1f}%  {name}")
    process.stdin.close()
    process.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--batch", action="append", default=[], help="another size, as in cnn=512")
    parser.add_argument("--kernels", type=int, default=0, help="also show the longest kernels of a device")
    parser.add_argument("--only", help="this case alone")
    parser.add_argument("--runner", default="target/release/examples/steps")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve(options.serve, options.threads)
    sizes = dict(batch.split("=") for batch in options.batch)
    place = "cpu" if options.device == "cpu" else "cuda"
    theirs_command = [sys.executable, __file__, "--serve", place, "--threads", str(options.threads)]
    print(f"{'case':6s} {'batch':>5s} {'Polaris ms':>11s} {'PyTorch ms':>11s} {'ratio':>6s}  memory, MiB")
    ratios = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (model, dims, outputs, size, rule) in CASES.items():
            if options.only and options.only != name:
                continue
            size = int(sizes.get(name, size))
            torch.manual_seed(3)
            batch_file, state_file = os.path.join(folder, "batch"), os.path.join(folder, "state")
            if name == "gpt":
                x, y = (torch.randint(outputs, (size, dims[0])) for _ in range(2))
            else:
                x, y = torch.randn(size, *dims), torch.randint(outputs, (size,))
            save_file({"x.0": x, "y.0": y}, batch_file)
            save_file(build(model, dims, outputs).state_dict(), state_file)
            # New processes for each case: what one case allocated is not counted for another.
            both = [start([options.runner, options.device]), start(theirs_command)]
            request = {"model": model, "input": dims, "outputs": outputs, "optimizer": rule}
            request |= {"rate": RATE, "state": state_file}
            times, losses = ([], []), [0.0, 0.0]
            for process in both:
                ask(process, request)
                first = ask(process, {"time": 3, "batch": batch_file})["seconds"] / 3
            steps = max(1, min(200, round(0.4 / first)))
            for _ in range(options.rounds):
                for side, process in enumerate(both):
                    answer = ask(process, {"time": steps, "batch": batch_file})
                    times[side].append(answer["seconds"] / steps)
                    losses[side] = answer["loss"]
            ours, theirs = (1e3 * statistics.median(side) for side in times)
            memory = ""
            if place == "cpu":
                memory = "{:.0f} and {:.0f}, {:.2f}x".format(
                    *(values := [resident(process) for process in both]), values[0] / values[1]
                )
            ratios.append(theirs / ours)
            print(
                f"{name:6s} {size:5d} {ours:11.3f} {theirs:11.3f} {theirs / ours:6.2f}  {memory}  "
                f"(losses {losses[0]:.4f} {losses[1]:.4f})",
                flush=True,
            )
            for process in both:
                process.stdin.close()
                process.wait()
            if options.kernels and options.device != "cpu":
                show_kernels(options, request, batch_file, steps)
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))
    print(f"geometric mean {mean:.2f}, lowest {min(ratios):.2f}")


if __name__ == "__main__":
    main()
