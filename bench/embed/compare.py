"""Compares `polaris embed` with PyTorch and with ONNX Runtime on made-up sentences.

    pip install torch onnx onnxruntime tokenizers safetensors numpy
    python bench/embed/compare.py POLARIS MODEL [--threads 2] [--rounds 5] [--mode cpu] [--count 1000]

MODEL is a folder of sentence-transformers with model.safetensors, such as all-MiniLM-L6-v2. Vectors of PyTorch in
f64 are the reference; what `polaris embed` makes of the folder, and of an ONNX file exported from it, must have a
cosine of at least 0.9999 with them, line by line. Then sentences a second of Polaris and of ONNX Runtime with the
same tokenizer, sorting and batches, in turns; tokenising counts, loading does not. Exit code 1 if a cosine is too
small.
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile
import time

LEAST = 0.9999


def batches(encoded, tokens):
    """Batches as Polaris cuts them: the longest first, of about as many tokens, padded to a few lengths."""
    order = sorted(range(len(encoded)), key=lambda at: -len(encoded[at]))
    while order:
        longest = len(encoded[order[0]])
        step = max(4, (1 << (longest - 1).bit_length()) // 8)
        length = -(-longest // step) * step
        count = max(1, tokens // length)
        yield order[:count], length
        order = order[count:]


def embed(texts, tokenizer, run, tokens, dtype):
    """Mean pooling and length 1 of what `run` makes of ids and mask."""
    import numpy

    encoded = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    vectors = [None] * len(texts)
    for places, length in batches(encoded, tokens):
        ids = numpy.zeros((len(places), length), numpy.int64)
        for row, place in enumerate(places):
            ids[row, :len(encoded[place])] = encoded[place]
        mask = numpy.arange(length)[None, :] < numpy.array([len(encoded[place]) for place in places])[:, None]
        hidden = run(ids, mask.astype(numpy.int64))
        pooled = numpy.einsum("btw,bt->bw", hidden, mask.astype(dtype)) / mask.sum(1, keepdims=True)
        pooled /= numpy.linalg.norm(pooled, axis=1, keepdims=True)
        for place, vector in zip(places, pooled):
            vectors[place] = vector
    return numpy.array(vectors)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("polaris")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--mode", default="cpu")
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=1024, help="of a batch, for ONNX Runtime")
    options = parser.parse_args()
    # Threads are counted before libraries start theirs.
    os.environ["OMP_NUM_THREADS"] = os.environ["RAYON_NUM_THREADS"] = str(options.threads)
    import numpy
    import onnxruntime
    import tokenizers
    import torch
    from encoder import Encoder, export
    from sentences import sentences

    torch.set_num_threads(options.threads)
    texts = sentences(options.count)
    limit = json.loads((options.model / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = tokenizers.Tokenizer.from_file(str(options.model / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(limit)

    encoder = Encoder(options.model)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for path in options.model.rglob("*.json"):
            to = folder / "exported" / path.relative_to(options.model)
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, to)
        onnx_file = folder / "exported" / "model.onnx"
        export(encoder, onnx_file)
        (folder / "text.txt").write_text("\n".join(texts) + "\n")

        def polaris(model):
            command = [
                options.polaris, "embed", model, folder / "text.txt", "-o", folder / "vectors.npy", "--mode",
                options.mode, "--threads", str(options.threads), "--json"]
            answer = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
            assert answer["lines"] == len(texts) and answer["skipped"] == 0, answer
            return numpy.load(folder / "vectors.npy"), answer

        double = encoder.double()

        def torch_run(ids, mask):
            with torch.no_grad():
                ids, mask = torch.from_numpy(ids), torch.from_numpy(mask)
                # The mask's type would round the smallest f32 only; padding has no share either way.
                return double(ids, mask, torch.zeros_like(ids)).numpy()

        reference = embed(texts, tokenizer, torch_run, options.tokens, numpy.float64)

        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        session = onnxruntime.InferenceSession(str(onnx_file), settings, providers=["CPUExecutionProvider"])

        def runtime_run(ids, mask):
            given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": numpy.zeros_like(ids)}
            return session.run(["last_hidden_state"], given)[0]

        def runtime():
            begin = time.perf_counter()
            vectors = embed(texts, tokenizer, runtime_run, options.tokens, numpy.float32)
            return vectors, len(texts) / (time.perf_counter() - begin)

        failed = False
        candidates = [
            ("ONNX Runtime", runtime()[0]),
            ("Polaris, safetensors", polaris(options.model)[0]),
            ("Polaris, ONNX", polaris(folder / "exported")[0])]
        for name, vectors in candidates:
            assert vectors.shape == reference.shape, (vectors.shape, reference.shape)
            lengths = numpy.linalg.norm(vectors, axis=1)
            cosines = (vectors * reference).sum(1) / lengths
            failed |= not cosines.min() >= LEAST
            print(
                f"{name:22} least cosine {cosines.min():.8f}, largest difference "
                f"{abs(vectors - reference).max():.1e}, lengths {lengths.min():.6f} to {lengths.max():.6f}", flush=True)

        ours, theirs = [], []
        for _ in range(options.rounds):
            answer = polaris(options.model)[1]
            ours.append(answer["sentences_per_second"])
            theirs.append(runtime()[1])
        ratios = [a / b for a, b in zip(ours, theirs)]
        print(f"{answer['tokens']} tokens, {options.threads} threads, {answer['device']}, {options.rounds} rounds")
        for name, rates in ("Polaris", ours), ("ONNX Runtime", theirs):
            print(f"{name:14} {statistics.median(rates):8.1f} sentences/s ({min(rates):.1f} to {max(rates):.1f})")
        print(f"ratio          {statistics.median(ratios):8.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    raise SystemExit(failed)


if __name__ == "__main__":
    main()
