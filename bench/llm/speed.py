#!/usr/bin/env python3
"""Tokens a second beside llama.cpp: the same files, the same threads, in turns.

    speed.py FOLDER --llama LLAMA.CPP/build/bin [--polaris BINARY] [--sizes 0.5,1.5] [--types Q4_K_M,F16]
             [--threads 1,2] [--prompt 512] [--tokens 64] [--depth 0] [--rounds 3]

FOLDER keeps random models of the shapes below, which are written once and quantised by llama-quantize. Each round runs
both programs; the table has the medians, the ratios of Polaris to llama.cpp, and the peak resident memory of both.
Needs the Python packages gguf and numpy.
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import tempfile

# Width, layers, heads, heads of keys, network, vocabulary: about what Qwen 2.5 and Llama have in these sizes.
SHAPES = {
    "0.25": (1024, 12, 16, 4, 2816, 50257),
    "0.5": (896, 24, 14, 2, 4864, 151936),
    "1.1": (2048, 22, 32, 4, 5632, 32000),
    "1.5": (1536, 28, 12, 2, 8960, 151936),
}


def write_model(path, shape):
    import numpy as np
    from gguf import GGUFWriter

    from large_model import metadata

    width, layers, heads, key_heads, network, vocabulary = shape
    head = width // heads
    writer = GGUFWriter(str(path), "llama")
    metadata(writer, shape)
    writer.add_file_type(1)
    random = np.random.default_rng(1)

    def matrix(name, *dims):
        values = random.standard_normal(dims, dtype=np.float32) / np.sqrt(dims[-1])
        writer.add_tensor(name, values.astype(np.float16))

    matrix("token_embd.weight", vocabulary, width)
    writer.add_tensor("output_norm.weight", np.ones(width, np.float32))
    for layer in range(layers):
        part = f"blk.{layer}."
        for norm in ["attn_norm", "ffn_norm"]:
            writer.add_tensor(f"{part}{norm}.weight", np.ones(width, np.float32))
        matrix(part + "attn_q.weight", heads * head, width)
        matrix(part + "attn_k.weight", key_heads * head, width)
        matrix(part + "attn_v.weight", key_heads * head, width)
        matrix(part + "attn_output.weight", width, heads * head)
        matrix(part + "ffn_gate.weight", network, width)
        matrix(part + "ffn_up.weight", network, width)
        matrix(part + "ffn_down.weight", width, network)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def model(folder, size, kind, llama):
    path = folder / f"{size}-{kind}.gguf"
    if not path.exists():
        unfinished = path.with_suffix(".part")
        if kind == "F16":
            # In a process of its own: programs that are started later inherit the peak of this one's memory.
            writer = multiprocessing.Process(target=write_model, args=(unfinished, SHAPES[size]))
            writer.start()
            writer.join()
            if writer.exitcode != 0:
                raise SystemExit(f"{path} could not be written")
        else:
            source = model(folder, size, "F16", llama)
            command = [llama / "llama-quantize", source, unfinished, kind, "2"]
            subprocess.run(command, check=True, capture_output=True)
        unfinished.rename(path)
    return path


def run(command):
    """Standard output and the peak resident memory in bytes."""
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen([str(part) for part in command], stdout=output, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        if status != 0:
            raise SystemExit(f"{command[0]} ended with {status}")
        output.seek(0)
        return output.read().decode(), usage.ru_maxrss * 1024


def by_llama(options, path, threads):
    command = [options.llama / "llama-bench", "-m", path, "-t", threads, "-p", options.prompt, "-n", options.tokens]
    command += ["-d", options.depth, "-r", "2", "-ngl", "0", "-o", "json"]
    text, memory = run(command)
    tests = json.loads(text)
    prompt = next((test["avg_ts"] for test in tests if test["n_gen"] == 0), None)
    return prompt, next((test["avg_ts"] for test in tests if test["n_gen"] > 0), None), memory


def by_polaris(options, path, threads):
    command = [options.polaris, "bench", "llm", path, "--device", "cpu", "--threads", threads, "-p", options.prompt]
    command += ["-n", options.tokens, "--depth", options.depth, "-r", "2", "--json"]
    text, memory = run(command)
    tests = {test["test"][:2]: test["tokens_per_second"] for test in json.loads(text)["results"]}
    return tests.get("pp"), tests.get("tg"), memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--llama", type=pathlib.Path, required=True)
    parser.add_argument("--polaris", type=pathlib.Path, default=pathlib.Path("target/release/polaris"))
    parser.add_argument("--sizes", default="0.5,1.5")
    parser.add_argument("--types", default="Q4_K_M,Q5_K_M,Q6_K,Q8_0,Q4_0,F16")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--depth", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    print("size type threads | prompt ours theirs ratio | decode ours theirs ratio | memory MB ours theirs ratio", flush=True)
    for size in options.sizes.split(","):
        for kind in options.types.split(","):
            path = model(options.folder, size, kind, options.llama)
            for threads in options.threads.split(","):
                rounds = []
                for number in range(options.rounds):
                    pair = [by_polaris, by_llama]
                    # Whoever is first finds another machine than whoever is second.
                    order = pair if number % 2 == 0 else pair[::-1]
                    found = {program: program(options, path, threads) for program in order}
                    rounds.append([found[program] for program in pair])
                cells = []
                for what in range(3):
                    if rounds[0][0][what] is None or rounds[0][1][what] is None:
                        cells.append("-")
                        continue
                    ours, theirs = (statistics.median(one[who][what] for one in rounds) for who in range(2))
                    ratio = statistics.median(one[0][what] / one[1][what] for one in rounds)
                    unit = 1e6 if what == 2 else 1
                    cells.append(f"{ours / unit:8.1f} {theirs / unit:8.1f} {ratio:5.2f}")
                print(f"{size:>4} {kind:7} {threads} | " + " | ".join(cells), flush=True)


if __name__ == "__main__":
    main()
