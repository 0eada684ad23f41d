"""The most memory that `polaris embed` has for texts of several lengths, which should be the same for all.

    pip install safetensors torch
    python bench/embed/memory.py POLARIS MODEL [--lines 20000,100000,1000000] [--layers 1]

MODEL is a folder of sentence-transformers with model.safetensors; of its layers only the first --layers are kept, so
that a million lines take minutes. Lines are 3 to 8 short words. Resident memory is what the system counted at most.
"""

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

import safetensors.torch

WORDS = "the of and to a in is that for it was on are as with his they at be this from have or by one had not but".split()


# Started by a small process: what starts another one counts as that one's memory until it is there.
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=sys.stderr)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)
"""


def shortened(model, folder, layers):
    """The model with its first layers only."""
    for file in model.rglob("*"):
        if file.suffix in (".json", ".txt"):
            place = folder / file.relative_to(model)
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, place)
    weights = safetensors.torch.load_file(model / "model.safetensors")
    kept = {name: tensor for name, tensor in weights.items()
            if ".layer." not in name or int(name.split(".layer.")[1].split(".")[0]) < layers}
    safetensors.torch.save_file(kept, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config["num_hidden_layers"] = layers
    (folder / "config.json").write_text(json.dumps(config))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("polaris")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--lines", default="20000,100000,1000000")
    parser.add_argument("--layers", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "model").mkdir()
        shortened(given.model, folder / "model", given.layers)
        for lines in map(int, given.lines.split(",")):
            words = random.Random(1)
            with open(folder / "lines.txt", "w") as file:
                for _ in range(lines):
                    file.write(" ".join(words.choices(WORDS, k=words.randint(3, 8))) + "\n")
            command = [sys.executable, "-c", PEAK, given.polaris, "embed", folder / "model", folder / "lines.txt",
                       "-o", folder / "vectors.npy"]
            peak = int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            print(f"{lines} lines: {peak / 1e6:.0f} MB", flush=True)


if __name__ == "__main__":
    main()
