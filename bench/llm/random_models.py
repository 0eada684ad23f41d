#!/usr/bin/env python3
"""Random variants of small models, to compare logits with llama.cpp's.

    random_models.py MODELS OUT [--seed N] [--count N] [--filter NAME] [--plain]

MODELS is a folder that test-llama-archs wrote; of each file that it holds, and of the architectures that are derived from
them below, OUT gets some variants: more layers, other numbers of heads and experts, scalings of rotary embeddings, windows,
tied outputs. Unlike in MODELS, weights are such that every layer counts in the logits. `--plain` changes nothing but that.
Needs the Python packages gguf and numpy. The program `logits` of this folder says which of the variants llama.cpp can load.
"""
import argparse
import pathlib
import random
import re

import numpy as np
from gguf import GGUFReader, GGUFValueType as T, GGUFWriter

# Architectures that test-llama-archs does not save: from which they are made, tensors of layers that go, tensors of layers
# that come (sizes: W width, Q all queries, K all keys, D a head, F the network, E experts), keys.
DERIVED = {
    "gemma3": ("gemma2-dense", [], {"attn_q_norm.weight": "D", "attn_k_norm.weight": "D"},
               {"attention.sliding_window": 9, "attention.sliding_window_pattern": 3, "rope.freq_base_swa": 5000.0}),
    "cohere2": ("command-r-dense", ["attn_q_norm", "attn_k_norm"], {},
                {"attention.sliding_window": 9, "attention.sliding_window_pattern": 3}),
    "olmo2": ("llama-dense", ["attn_norm", "ffn_norm", "bias", "rope"],
              {"post_attention_norm.weight": "W", "post_ffw_norm.weight": "W",
               "attn_q_norm.weight": "Q", "attn_k_norm.weight": "K"}, {}),
    "plm": ("minicpm3-dense", ["attn_q_a", "attn_q_b", "ffn_gate", "output.weight", "rope"],
            {"attn_q.weight": "QW"}, {}),
    "apertus": ("llama-dense", ["ffn_gate", "bias"], {"attn_q_norm.weight": "D", "attn_k_norm.weight": "D"},
                {"xielu.alpha_n": 0.7, "xielu.alpha_p": 0.9, "xielu.beta": 0.5, "xielu.eps": -1e-6}),
    "bitnet": ("llama-dense", ["bias", "output.weight", "rope"],
               {"attn_sub_norm.weight": "Q", "ffn_sub_norm.weight": "F"}, {}),
    "plamo3": ("phi3-dense", ["rope", "attn_q", "attn_k", "attn_v"],
               {"attn_qkv.weight": "AW", "attn_q_norm.weight": "D", "attn_k_norm.weight": "D",
                "post_attention_norm": "W", "post_ffw_norm": "W"},
               {"attention.sliding_window": 9, "attention.sliding_window_pattern": 3}),
    "mellum": ("qwen3moe-moe", [], {}, {"attention.sliding_window": 9, "attention.sliding_window_pattern": 3}),
    "exaone-moe": ("qwen3moe-moe", [],
                   {"exp_probs_b.bias": "E", "ffn_gate_shexp.weight": "FW", "ffn_up_shexp.weight": "FW",
                    "ffn_down_shexp.weight": "WF"},
                   {"attention.sliding_window": 9, "expert_gating_func": 2, "expert_weights_norm": True,
                    "expert_weights_scale": 2.5, "leading_dense_block_count": 0}),
    "afmoe": ("qwen3moe-moe", ["bias"],
              {"attn_gate.weight": "QW", "exp_probs_b.bias": "E", "post_attention_norm.weight": "W",
               "post_ffw_norm.weight": "W"},
              {"attention.sliding_window": 9, "expert_gating_func": 2, "expert_weights_norm": True,
               "leading_dense_block_count": 0, "expert_shared_count": 0}),
    "laguna": ("qwen3moe-moe", ["bias"],
               {"attn_gate.weight": "HW", "exp_probs_b.bias": "E", "ffn_gate_shexp.weight": "FW",
                "ffn_up_shexp.weight": "FW", "ffn_down_shexp.weight": "WF"},
               {"attention.sliding_window": 9, "expert_gating_func": 2, "expert_weights_norm": True,
                "leading_dense_block_count": 0, "expert_shared_feed_forward_length": 384}),
    "granite_swa": ("granite-dense", ["bias"], {"attn_sinks.weight": "H"}, {"attention.sliding_window": 9}),
    "gemma4": ("gemma2-dense", ["bias"],
               {"attn_q_norm.weight": "D", "attn_k_norm.weight": "D", "layer_output_scale.weight": "1",
                "inp_gate.weight": "PW", "proj.weight": "WP", "post_norm.weight": "W"},
               {"attention.sliding_window": 9, "embedding_length_per_layer_input": 32, "rope.freq_base_swa": 5000.0}),
    "gemma3n": ("gemma2-dense", [],
                {"attn_q_norm.weight": "D", "attn_k_norm.weight": "D", "inp_gate.weight": "PW", "proj.weight": "WP",
                 "post_norm.weight": "W", "altup_correct_coef.weight": "44", "altup_correct_scale.weight": "W",
                 "altup_predict_coef.weight": "S4", "altup_router.weight": "4W", "altup_router_norm.weight": "W",
                 "laurel_l.weight": "LW", "laurel_r.weight": "WL", "laurel_post_norm.weight": "W"},
                {"attention.sliding_window": 9, "embedding_length_per_layer_input": 256}),
    "cohere2moe": ("qwen3moe-moe", ["bias", "ffn_norm", "attn_q_norm", "attn_k_norm"],
                   {"ffn_gate_shexp.weight": "FW", "ffn_up_shexp.weight": "FW", "ffn_down_shexp.weight": "WF"},
                   {"attention.sliding_window": 9, "attention.sliding_window_pattern": 3, "logit_scale": 0.5,
                    "attention.layer_norm_epsilon": 1e-5, "attention.layer_norm_rms_epsilon": 0.0,
                    "expert_shared_count": 1, "expert_gating_func": 2, "leading_dense_block_count": 0}),
    "mimo2": ("qwen3moe-moe", ["bias", "attn_q", "attn_k", "attn_v"],
              {"attn_qkv.weight": "AW", "attn_sinks.weight": "H", "exp_probs_b.bias": "E"},
              {"attention.sliding_window": 9, "attention.value_scale": 0.7, "expert_gating_func": 2}),
    "step35": ("qwen3moe-moe", ["bias"],
               {"attn_gate.weight": "HW", "exp_probs_b.bias": "E", "ffn_gate_shexp.weight": "FW",
                "ffn_up_shexp.weight": "FW", "ffn_down_shexp.weight": "WF"},
               {"attention.sliding_window": 9, "expert_gating_func": 2, "expert_shared_feed_forward_length": 384}),
}
# Those whose pattern of windows is a list.
LISTS = ("gemma4", "granite_swa", "mimo2", "step35")


class Model:
    """Keys with their types, and the shapes of tensors, outermost axis first."""

    def __init__(self, path):
        reader = GGUFReader(path)
        self.name = pathlib.Path(path).stem
        self.arch = reader.fields["general.architecture"].contents()
        self.keys = {}
        for key, field in reader.fields.items():
            if not key.startswith("GGUF."):
                self.keys[key] = (field.contents(), field.types[0], field.types[-1])
        self.tensors = {t.name: [int(d) for d in reversed(t.shape)] for t in reader.tensors}
        # Scales of products are in files of NVFP4 alone.
        self.tensors = {name: dims for name, dims in self.tensors.items() if not name.endswith("scale")}

    def get(self, key, default=None):
        return self.keys.get(f"{self.arch}.{key}", (default,))[0]

    def set(self, key, value):
        kind = {bool: T.BOOL, int: T.UINT32, float: T.FLOAT32, str: T.STRING, list: T.ARRAY}[type(value)]
        first = value[0] if isinstance(value, list) else None
        inner = {bool: T.BOOL, int: T.UINT32, float: T.FLOAT32}.get(type(first), kind)
        full = key if key.startswith(("xielu.", "general.")) else f"{self.arch}.{key}"
        self.keys[full] = (value, kind, inner)

    def drop(self, key):
        self.keys.pop(f"{self.arch}.{key}", None)

    def rename(self, arch):
        self.keys = {re.sub(rf"^{re.escape(self.arch)}\.", arch + ".", key): value for key, value in self.keys.items()}
        self.arch = arch
        self.set("general.architecture", arch)

    def sizes(self):
        width, heads = self.get("embedding_length"), self.get("attention.head_count")
        head = self.get("attention.key_length", width // heads)
        keys = self.get("attention.head_count_kv", heads) * head
        hidden = self.get("feed_forward_length")
        return {"W": width, "H": heads, "D": head, "Q": heads * head, "K": keys, "F": hidden, "1": 1, "4": 4, "S": 16,
                "L": 64, "A": heads * head + 2 * keys,
                "E": self.get("expert_count", 0), "P": self.get("embedding_length_per_layer_input", 0)}

    def layers(self):
        return self.get("block_count")

    def set_layers(self, count):
        """Further layers are like the last; lists with an entry for each layer grow alike."""
        old = self.layers()
        for number in range(old, count):
            for name in [n for n in self.tensors if n.startswith(f"blk.{old - 1}.")]:
                self.tensors[name.replace(f"blk.{old - 1}.", f"blk.{number}.", 1)] = list(self.tensors[name])
        for key, (value, kind, inner) in list(self.keys.items()):
            if isinstance(value, list) and len(value) == old and not key.startswith("tokenizer"):
                self.keys[key] = (value + [value[-1]] * (count - old), kind, inner)
        self.set("block_count", count)

    def set_heads(self, heads, shared, head):
        """Heads of queries, heads of keys, and their size; tensors are cut or grow alike."""
        old = self.sizes()
        new = {"W": old["W"], "Q": heads * head, "K": shared * head, "D": head, "H": heads}
        self.set("attention.head_count", heads)
        self.set("attention.head_count_kv", shared)
        for key in ["key_length", "value_length", "key_length_swa", "value_length_swa"]:
            self.set(f"attention.{key}", head)
        part = self.get("rope.dimension_count", old["D"]) / old["D"]
        for key in ["dimension_count", "dimension_count_swa"]:
            self.set(f"rope.{key}", max(2, int(head * part) // 2 * 2))
        for name, dims in self.tensors.items():
            tensor = name.split(".", 2)[-1] if name.startswith("blk.") else name
            if tensor.startswith(("attn_q.", "attn_gate.")) and dims[0] == old["Q"]:
                dims[0] = new["Q"]
            elif tensor.startswith(("attn_k.", "attn_v.")):
                dims[0] = new["K"] if dims != [1] else 1
            elif tensor.startswith("attn_qkv.") and dims != [1]:
                dims[0] = new["Q"] + 2 * new["K"]
            elif tensor == "attn_output.weight":
                dims[-1] = new["Q"]
            elif tensor.startswith(("attn_q_norm", "attn_k_norm")):
                whole = "Q" if "q_norm" in tensor else "K"
                of = {old["D"]: new["D"], old[whole]: new[whole]}
                dims[:] = [of.get(dim, dim) for dim in dims]
            elif tensor in ("attn_sinks.weight", "attn_gate.weight", "attn_gate.bias"):
                dims[0] = new["H"]
            elif tensor == "attn_sub_norm.weight":
                dims[0] = new["Q"]
            elif tensor.startswith("rope_f"):
                dims[0] = self.get("rope.dimension_count") // 2

    def set_latent_heads(self, heads, is_together):
        """Heads of latent attention, and whether the matrices of keys and values are together."""
        mla = self.get("attention.key_length_mla", 0) > 0
        key, value = ("attention.key_length_mla", "attention.value_length_mla") if mla else (
            "attention.key_length", "attention.value_length")
        key, value = self.get(key), self.get(value)
        rank, rotated = self.get("attention.kv_lora_rank"), self.get("rope.dimension_count")
        self.set("attention.head_count", heads)
        self.set("attention.head_count_kv", heads if is_together else 1)
        if is_together:
            self.set("attention.key_length", key)
            self.set("attention.value_length", value)
            self.drop("attention.key_length_mla")
            self.drop("attention.value_length_mla")
        for name in list(self.tensors):
            layer, _, tensor = name.rpartition("attn_")
            if not re.fullmatch(r"blk\.\d+\.", layer):
                continue
            if tensor in ("q_b.weight", "q.weight"):
                self.tensors[name][0] = heads * key
            elif tensor == "output.weight":
                self.tensors[name][-1] = heads * value
            elif tensor in ("k_b.weight", "kv_b.weight"):
                del self.tensors[name]
                self.tensors.pop(f"{layer}attn_v_b.weight", None)
                if is_together:
                    self.tensors[f"{layer}attn_kv_b.weight"] = [heads * (key - rotated + value), rank]
                else:
                    self.tensors[f"{layer}attn_k_b.weight"] = [heads, rank, key - rotated]
                    self.tensors[f"{layer}attn_v_b.weight"] = [heads, value, rank]

    def set_kimi_heads(self, heads):
        """Heads of Kimi delta attention, and of the latent attention beside it."""
        key, value = self.get("attention.key_length_mla"), self.get("attention.value_length_mla")
        rank, rotated, width = self.get("attention.kv_lora_rank"), self.get("rope.dimension_count"), self.get("embedding_length")
        inner = heads * self.get("kda.head_dim")
        shared = self.get("attention.head_count_kv")
        self.set("attention.head_count", [heads for _ in shared])
        for name, dims in self.tensors.items():
            if not name.startswith("blk."):
                continue
            tensor, is_latent = name.split(".", 2)[2], shared[int(name.split(".")[1])] > 0
            if is_latent:
                whole = {"attn_q.weight": [heads * key, width], "attn_q_b.weight": [heads * key, dims[-1]],
                         "attn_k_b.weight": [heads, rank, key - rotated], "attn_v_b.weight": [heads, value, rank],
                         "attn_output.weight": [width, heads * value],
                         "attn_gate.weight": [heads if dims in ([1, width], [width]) else heads * value, width]}
            else:
                whole = {"attn_output.weight": [width, inner], "ssm_beta.weight": [heads, width], "ssm_dt.bias": [inner],
                         "ssm_a": [heads] if self.arch == "kimi-k3" else [heads, 1]}
                if re.match("(attn_[qkv]|ssm_g|ssm_g_b|ssm_f_b|ssm_conv1d_[qkv])[.]", tensor) or (
                        self.arch == "bailingmoe3" and re.match("ssm_[fg]_a[.]", tensor)):
                    whole[tensor] = [inner] + dims[1:]
            dims[:] = whole.get(tensor, dims)

    def set_experts(self, count, used):
        old = self.get("expert_count")
        self.set("expert_count", count)
        self.set("expert_used_count", used)
        for name, dims in self.tensors.items():
            if "_exps." in name and "norm" not in name or "ffn_gate_inp." in name and dims[0] == old or "exp_probs_b" in name:
                dims[0] = count

    def write(self, path, numbers):
        writer = GGUFWriter(path, self.arch)
        for key, (value, kind, inner) in self.keys.items():
            if key != "general.architecture" and not (isinstance(value, list) and not value):
                writer.add_key_value(key, value, kind, inner if kind == T.ARRAY else None)
        for name, dims in self.tensors.items():
            # Scores that are not divided by the size of heads would be too large.
            factor = 0.3 if self.arch in ("gemma3n", "gemma4") and re.search("attn_[qk]_norm", name) else 1
            writer.add_tensor(name, draw(name, dims, numbers) * np.float32(factor))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()


def draw(name, dims, numbers):
    """Norms, scales and factors around 1, biases around 0, matrices that keep the size of what they are given."""
    normal = numbers.standard_normal(dims, dtype=np.float32)
    if name.endswith("ssm_a"):
        return -np.exp(0.3 * normal)
    if "norm" in name and not name.endswith("bias") or name.endswith(("scale", "scales", "rope_freqs.weight", "ssm_d")):
        return 1 + np.float32(0.2) * np.tanh(normal)
    if name.startswith("rope_factors"):
        return 1 + np.abs(normal)
    if len(dims) == 1 and name.endswith(("bias", "exp_probs_b")):
        return np.float32(0.3) * normal
    return normal / np.float32(np.sqrt(dims[-1]))


def derive(arch, folder):
    base, gone, added, keys = DERIVED[arch]
    model = Model(folder / f"{base}.gguf")
    model.name = arch
    model.rename(arch)
    for key, value in keys.items():
        model.set(key, value)
    rule = re.compile(rf"(^|\.)({'|'.join(gone)})")
    model.tensors = {name: dims for name, dims in model.tensors.items() if not gone or not rule.search(name)}
    sizes = model.sizes()
    for layer in range(model.layers()):
        for name, axes in added.items():
            model.tensors[f"blk.{layer}.{name}"] = [sizes[axis] for axis in axes]
    return model


def vary(model, choose):
    """Changes some of the sizes and numbers of a model."""
    arch = model.arch
    model.drop("attention.scale")
    if not model.get("nextn_predict_layers"):
        model.set_layers(choose.choice([2, 3, 4, 6]) if model.layers() == 2 else model.layers())
    plain = not (model.get("attention.kv_lora_rank") or model.get("ssm.inner_size"))
    if plain and isinstance(model.get("attention.head_count"), int) and choose.random() < 0.8:
        heads, head = choose.choice([(2, 128), (4, 64), (8, 32), (16, 16)] * 2 + [(3, 64), (6, 32), (5, 48)])
        if model.tensors.get("blk.0.attn_q_norm.weight") == [model.sizes()["W"]]:
            heads, head = choose.choice([(2, 128), (4, 64), (8, 32)])
        shared = choose.choice([n for n in range(1, heads + 1) if heads % n == 0])
        model.set_heads(heads, shared, head)
    if model.get("attention.kv_lora_rank") and not model.get("kda.head_dim"):
        mla = model.get("attention.key_length_mla", 0) > 0
        model.set_latent_heads(choose.choice([1, 2, 3, 6]), not mla or arch == "deepseek2" and choose.random() < 0.4)
        if model.get("attention.indexer.top_k"):
            model.set("attention.indexer.top_k", 64)
    if model.get("kda.head_dim"):
        model.set_kimi_heads(choose.choice([1, 2, 3]))
        if arch == "kimi-k3":
            model.set("attn_res.block_size", choose.choice([1, 2, 3]))
            model.drop("kda.gate_lower_bound") if choose.random() < 0.3 else None
    if arch == "qwen3next" and choose.random() < 0.5:
        # As older files have it: one matrix for queries, keys, values and gates.
        model.tensors = {name: dims for name, dims in model.tensors.items()
                         if "ssm_in" in name or not re.search("0.attn_(qkv|gate)", name)}
    if model.get("expert_count"):
        count = choose.choice([2, 4, 6, 8])
        model.set_experts(count, choose.randint(1, min(count, 4)))
        model.set("expert_weights_norm", choose.random() < 0.5)
        model.set("expert_weights_scale", choose.choice([0.0, 1.0, 2.5]))
        if count == 8 and choose.random() < 0.5:
            model.set("expert_group_count", 4)
            model.set("expert_group_used_count", 2)
        else:
            model.drop("expert_group_count")
    if arch == "ernie4_5-moe":
        model.set("interleave_moe_layer_step", 1)
    if model.get("attention.sliding_window"):
        model.set("attention.sliding_window", choose.choice([5, 9, 17, 33]))
        if arch in LISTS:
            model.set("attention.sliding_window_pattern", [choose.random() < 0.6 for _ in range(model.layers())])
        elif isinstance(model.get("attention.sliding_window_pattern", 2), int):
            model.set("attention.sliding_window_pattern", choose.choice([2, 3, 4]))
    model.set("rope.freq_base", choose.choice([1e4, 5e5, 1e6, 3210.0]))
    kind = choose.choice(["none", "linear", "yarn", "yarn", "longrope"])
    model.set("rope.scaling.type", kind)
    model.set("rope.scaling.factor", choose.choice([2.0, 4.0, 8.0]) if kind in ("linear", "yarn") else 0.0)
    model.set("rope.scaling.original_context_length", choose.choice([16, 32, 64, 512]))
    model.set("rope.scaling.attn_factor", choose.choice([1.0, 1.0, 1.19]))
    for key in ["yarn_beta_fast", "yarn_beta_slow", "yarn_ext_factor", "yarn_attn_factor", "yarn_log_multiplier"]:
        model.drop(f"rope.scaling.{key}")
    if choose.random() < 0.3:
        model.set("rope.scaling.yarn_log_multiplier", choose.choice([0.1, 0.07, 1.0]))
    if kind == "longrope" and "rope_freqs.weight" in model.tensors:
        dims = model.tensors.pop("rope_freqs.weight")
        model.tensors["rope_factors_long.weight"] = model.tensors["rope_factors_short.weight"] = dims
    if choose.random() < 0.2:
        model.tensors.pop("output.weight", None)
        model.tensors.pop("output.bias", None)


def finish(model):
    """What follows from sizes that were varied."""
    layers, width = model.layers(), model.get("embedding_length")
    if model.arch in LISTS:
        pattern = model.get("attention.sliding_window_pattern")
        pattern = pattern if isinstance(pattern, list) else [layer % 2 == 0 for layer in range(layers)]
        pattern[-2:] = [True, False]
        model.set("attention.sliding_window_pattern", pattern)
    if model.arch == "step35":
        model.set("swiglu_clamp_exp", [0.4 if layer % 2 else 0.0 for layer in range(layers)])
        model.set("swiglu_clamp_shexp", [0.0 if layer % 2 else 0.6 for layer in range(layers)])
        model.set("rope.dimension_count_swa", model.get("rope.dimension_count"))
    if model.arch in ("gemma3n", "gemma4"):
        own = model.get("embedding_length_per_layer_input")
        words = model.tensors["token_embd.weight"][0]
        model.tensors["per_layer_token_embd.weight"] = [words, layers * own]
        model.tensors["per_layer_model_proj.weight"] = [layers * own, width]
        model.tensors["per_layer_proj_norm.weight"] = [own]
    if model.arch == "codeshell" and layers > 2:
        model.tensors.pop("token_embd.weight")
    if model.arch == "deci" and layers > 2:
        # A layer without attention, and one with a matrix in its place.
        heads, shared = [[model.get(f"attention.{key}")] * layers for key in ("head_count", "head_count_kv")]
        heads[1] = shared[1] = shared[2] = 0
        model.set("attention.head_count", heads)
        model.set("attention.head_count_kv", shared)
        gone = re.compile(r"blk\.(1\.attn_|2\.attn_[qkv]\.)")
        model.tensors = {name: dims for name, dims in model.tensors.items() if not gone.match(name)}
        model.tensors["blk.2.attn_output.weight"] = [width, width]
    if model.arch == "gemma3n":
        model.tensors["altup_proj.weight"] = model.tensors["altup_unembd_proj.weight"] = [3, width, width]
    if model.arch == "gemma4":
        model.tensors["rope_freqs.weight"] = [model.get("rope.dimension_count") // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1, help="variants of each model")
    parser.add_argument("--filter", default="", help="a part of names")
    parser.add_argument("--plain", action="store_true", help="change weights only")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    sources = [(path.stem, path) for path in sorted(options.models.glob("*.gguf"))]
    for name, path in sources + [(arch, None) for arch in DERIVED]:
        for number in range(options.count if options.filter in name else 0):
            seed = f"{name} {options.seed} {number}"
            model = Model(path) if path else derive(name, options.models)
            if not options.plain:
                vary(model, random.Random(seed))
            finish(model)
            numbers = np.random.default_rng(list(seed.encode()))
            model.write(options.out / f"{model.name}-{options.seed}-{number}.gguf", numbers)


if __name__ == "__main__":
    main()
