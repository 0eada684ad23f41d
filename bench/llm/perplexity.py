"""Compares the perplexity of a model in several formats, by llama.cpp and by Polaris on each device.

    polaris train llama && polaris export runs/llama --out llama.gguf --type f32
    python bench/llm/perplexity.py llama.gguf --llama LLAMA.CPP/build/bin --polaris target/release/polaris

llama.cpp converts the model, so that both read the same files. The text is the end of the bundled one, which
`polaris train llama` keeps for validation, or that of --text. Both score the second half of each window. It fails if a
perplexity differs by more than --allowed percent.
"""

import argparse
import gzip
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "crates/polaris-data/data/text.txt.gz"
VALIDATION = 0.05


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=pathlib.Path, help="a GGUF file in f32 or f16")
    parser.add_argument("--llama", type=pathlib.Path, required=True, help="the folder of llama.cpp's programs")
    parser.add_argument("--polaris", type=pathlib.Path, default=ROOT / "target/release/polaris")
    parser.add_argument("--text", type=pathlib.Path, help="the text to score")
    parser.add_argument("--types", default="F16,Q8_0,Q6_K,Q5_K_M,Q4_K_M")
    parser.add_argument("--devices", default="cpu", help="devices of Polaris, such as cpu,opencl:0")
    parser.add_argument("--window", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--allowed", type=float, default=0.2, help="percent")
    return parser.parse_args()


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(str(part) for part in command)}\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr if command[0].name.startswith("llama-") else done.stdout


def text_file(given, folder):
    if given:
        return given
    text = gzip.open(BUNDLED, "rt").read()
    path = folder / "validation.txt"
    path.write_text(text[-int(VALIDATION * len(text)):])
    return path


def main():
    options = arguments()
    folder = options.model.resolve().parent
    text = text_file(options.text, folder)
    devices = options.devices.split(",")
    print("| Type | bytes | llama.cpp | " + " | ".join(f"Polaris, {device}" for device in devices) + " |")
    print("|---|---|---|" + "---|" * len(devices))
    worst = 0.0
    for kind in options.types.split(","):
        path = folder / f"{options.model.stem}-{kind}.gguf"
        run(options.llama / "llama-quantize", options.model, path, kind, options.threads)
        said = run(options.llama / "llama-perplexity", "-m", path, "-f", text, "-c", options.window,
                   "-b", options.window, "-t", options.threads)
        expected = float(re.search(r"Final estimate: PPL = ([0-9.]+)", said)[1])
        row = [kind, f"{path.stat().st_size:,}", f"{expected:.4f}"]
        for device in devices:
            answer = run(options.polaris, "perplexity", path, text, "--window", options.window, "--device", device,
                         "--threads", options.threads, "--no-first-check", "--json")
            found = json.loads(answer)["perplexity"]
            difference = 100 * (found / expected - 1)
            worst = max(worst, abs(difference))
            row.append(f"{found:.4f} ({difference:+.3f} %)")
        print("| " + " | ".join(row) + " |", flush=True)
    print(f"\nlargest difference: {worst:.3f} %")
    return worst > options.allowed


if __name__ == "__main__":
    sys.exit(main())
