"""Writes small random models as folders of Hugging Face, and the logits that transformers computes for them.

    python3 huggingface.py DIR [FILTER]

DIR gets tokens.txt, and for each model a folder and a file NAME.logits: the number of tokens and of the vocabulary as
32-bit integers, then a row of 32-bit floats for each token. All parameters are random, norms and biases too.
"""

import json
import random
import struct
import sys
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file

WORDS, TOKENS = 199, 48
BASE = dict(
    vocab_size=WORDS, hidden_size=96, intermediate_size=80, num_hidden_layers=3, num_attention_heads=6,
    num_key_value_heads=2, max_position_embeddings=128, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
WINDOW = dict(sliding_window=9)
EXPERTS = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=48)
LLAMA3 = dict(rope_type="llama3", rope_theta=5000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=32)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32)


def longrope(original, pairs=8):
    return dict(rope_type="longrope", rope_theta=10000.0, original_max_position_embeddings=original,
                short_factor=[1.0 + 0.1 * i for i in range(pairs)], long_factor=[1.5 + 0.4 * i for i in range(pairs)])


# Name, class, settings, and what is done with the folder.
MODELS = [
    ("llama", "Llama", {}, {}),
    ("llama-shards", "Llama", dict(attention_bias=True, mlp_bias=True), dict(shards="60KB")),
    ("llama-tied", "Llama", dict(tie_word_embeddings=True, head_dim=20), {}),
    ("llama-llama3", "Llama", dict(rope_parameters=LLAMA3), {}),
    ("llama-llama3-old", "Llama", dict(rope_parameters=LLAMA3), dict(old=True)),
    ("llama-linear", "Llama", dict(rope_parameters=dict(rope_type="linear", rope_theta=1e4, factor=3.0)), {}),
    ("llama-yarn", "Llama", dict(rope_parameters=YARN), dict(old=True)),
    ("llama-yarn-factor", "Llama", dict(rope_parameters=dict(YARN, attention_factor=1.3, beta_fast=16.0)), {}),
    ("llama-yarn-scales", "Llama", dict(rope_parameters=dict(YARN, mscale=0.7, mscale_all_dim=1.2)), {}),
    ("llama-bf16", "Llama", {}, dict(dtype=torch.bfloat16)),
    ("llama-f16", "Llama", {}, dict(dtype=torch.float16)),
    ("mistral", "Mistral", WINDOW, {}),
    ("mistral-whole", "Mistral", dict(sliding_window=None, head_dim=24), {}),
    ("mixtral", "Mixtral", dict(num_local_experts=5), {}),
    ("mixtral-shards", "Mixtral", dict(num_local_experts=4, **WINDOW), dict(shards="100KB", dtype=torch.bfloat16)),
    ("qwen2", "Qwen2", {}, {}),
    ("qwen2-window", "Qwen2", dict(use_sliding_window=True, max_window_layers=1, **WINDOW), {}),
    ("qwen2-window-old", "Qwen2", dict(use_sliding_window=True, max_window_layers=2, **WINDOW), dict(old=True)),
    ("qwen3", "Qwen3", dict(head_dim=32), {}),
    ("qwen3-bf16", "Qwen3", dict(head_dim=16, attention_bias=True), dict(dtype=torch.bfloat16)),
    ("qwen2moe", "Qwen2Moe", dict(shared_expert_intermediate_size=40, decoder_sparse_step=2, **EXPERTS), {}),
    ("qwen2moe-bf16", "Qwen2Moe", dict(shared_expert_intermediate_size=40, **EXPERTS), dict(dtype=torch.bfloat16)),
    ("qwen3moe", "Qwen3Moe", dict(head_dim=16, norm_topk_prob=True, mlp_only_layers=[1], **EXPERTS), {}),
    ("olmoe", "Olmoe", dict(num_experts=5, num_experts_per_tok=2), {}),
    ("gemma", "Gemma", dict(head_dim=24), {}),
    ("gemma2", "Gemma2", dict(head_dim=24, query_pre_attn_scalar=40, **WINDOW), {}),
    ("gemma2-bf16", "Gemma2", dict(head_dim=16, attn_logit_softcapping=None, **WINDOW), dict(dtype=torch.bfloat16)),
    ("gemma3", "Gemma3Text", dict(head_dim=24, query_pre_attn_scalar=30, num_hidden_layers=7, **WINDOW), {}),
    ("gemma3-old", "Gemma3Text", dict(
        head_dim=16, layer_types=["sliding_attention", "full_attention", "sliding_attention"], rope_parameters=dict(
            full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
            sliding_attention=dict(rope_type="default", rope_theta=1e4)), **WINDOW), dict(old=True)),
    ("gemma3-images", "Gemma3", dict(head_dim=16, **WINDOW), {}),
    ("phi3", "Phi3", {}, {}),
    ("phi3-window", "Phi3", WINDOW, {}),
    ("phi3-short", "Phi3", dict(original_max_position_embeddings=64, rope_parameters=longrope(64)), {}),
    ("phi3-long", "Phi3", dict(original_max_position_embeddings=16, rope_parameters=longrope(16)), dict(old=True)),
    ("phi3-partial", "Phi3", dict(rope_parameters=dict(rope_type="default", rope_theta=1e4,
                                                       partial_rotary_factor=0.75)), {}),
    ("gpt2", "GPT2", {}, {}),
    ("gpt2-bare", "GPT2", dict(n_inner=100), dict(bare="transformer.", dtype=torch.float16)),
    ("smollm3", "SmolLM3", dict(num_hidden_layers=5), {}),
    ("smollm3-list", "SmolLM3", dict(no_rope_layers=[0, 1, 1], tie_word_embeddings=False), {}),
    ("olmo2", "Olmo2", {}, {}),
    ("olmo3", "Olmo3", dict(num_hidden_layers=4, **WINDOW), {}),
    ("olmo3-yarn", "Olmo3", dict(num_hidden_layers=4, rope_parameters=dict(
        full_attention=YARN, sliding_attention=dict(rope_type="default", rope_theta=1e4)), **WINDOW), {}),
    ("granite", "Granite", dict(embedding_multiplier=3.0, logits_scaling=5.0, residual_multiplier=0.3,
                                attention_multiplier=0.1), {}),
    ("granitemoe", "GraniteMoe", dict(embedding_multiplier=3.0, logits_scaling=5.0, residual_multiplier=0.3,
                                      attention_multiplier=0.1, num_local_experts=5), {}),
    ("gpt-oss", "GptOss", dict(head_dim=16, num_local_experts=5, num_experts_per_tok=2, num_hidden_layers=4,
                               rope_parameters=dict(YARN, truncate=False), **WINDOW), {}),
    ("gpt-oss-bf16", "GptOss", dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2,
                                    rope_parameters=dict(YARN, truncate=True), **WINDOW), dict(dtype=torch.bfloat16)),
    ("gpt-oss-mxfp4", "GptOss", dict(head_dim=16, num_local_experts=4, num_experts_per_tok=2, intermediate_size=64,
                                     rope_parameters=YARN, **WINDOW), dict(mxfp4=True, old=True)),
    ("starcoder2", "Starcoder2", {}, {}),
    ("starcoder2-window", "Starcoder2", dict(use_bias=False, **WINDOW), {}),
    ("stablelm", "StableLm", dict(use_qkv_bias=True), {}),
    ("stablelm-norms", "StableLm", dict(qk_layernorm=True, use_parallel_residual=True), dict(dtype=torch.bfloat16)),
    ("cohere", "Cohere", {}, {}),
    ("cohere-norms", "Cohere", dict(use_qk_norm=True), dict(dtype=torch.bfloat16)),
    ("cohere2", "Cohere2", dict(num_hidden_layers=5, **WINDOW), {}),
    ("glm", "Glm", dict(head_dim=16), {}),
    ("glm4", "Glm4", dict(head_dim=24), {}),
]


def make(kind, settings):
    """A model with random parameters."""
    settings = BASE | settings
    if kind == "GPT2":
        del settings["num_key_value_heads"]
    if kind == "Gemma3":
        text = transformers.Gemma3TextConfig(**settings)
        vision = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28,
                      patch_size=14)
        config = transformers.Gemma3Config(text_config=text.to_dict(), vision_config=vision, mm_tokens_per_image=4,
                                           image_token_index=WORDS - 1)
        made = transformers.Gemma3ForConditionalGeneration._from_config(config, attn_implementation="eager")
    else:
        config = getattr(transformers, kind + "Config")(**settings)
        made = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    made = made.eval().float()
    with torch.no_grad():
        for name, parameter in made.named_parameters():
            noise = torch.randn_like(parameter)
            if parameter.dim() < 2 or name.endswith("_bias"):
                parameter.add_(0.3 * noise)
            elif "norm" in name:
                parameter.add_(0.3 * noise)
            else:
                parameter.copy_(noise * 1.5 / parameter.shape[-1] ** 0.5)
    return made


def packed(rows, columns, experts):
    """Random MXFP4: blocks, scales, and the values that they stand for."""
    blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), dtype=torch.uint8)
    scales = torch.randint(121, 125, (experts, rows, columns // 32), dtype=torch.uint8)
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    codes = torch.stack([blocks & 15, blocks >> 4], -1).flatten(-2).long()
    values = table[codes] * torch.exp2(scales.float() - 127).unsqueeze(-1)
    return blocks, scales, values.reshape(experts, rows, columns)


def pack(made):
    """Gives the experts of a model random MXFP4; returns the tensors to store."""
    stored = {}
    for number, layer in enumerate(made.model.layers):
        experts = layer.mlp.experts
        for name in ["gate_up_proj", "down_proj"]:
            parameter = getattr(experts, name)
            count, columns, rows = parameter.shape
            blocks, scales, values = packed(rows, columns, count)
            parameter.data.copy_(values.transpose(1, 2))
            stored[f"model.layers.{number}.mlp.experts.{name}_blocks"] = blocks
            stored[f"model.layers.{number}.mlp.experts.{name}_scales"] = scales
    return stored


def old_settings(config):
    """The form of rotary embeddings before transformers 5."""
    rope = config.pop("rope_parameters")
    if "full_attention" in rope:
        config["rope_local_base_freq"] = rope["sliding_attention"]["rope_theta"]
        rope = rope["full_attention"]
    config["rope_theta"] = rope.pop("rope_theta")
    if rope.get("partial_rotary_factor") == 1.0:
        rope.pop("partial_rotary_factor")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else dict(rope, type=kind)
    if config["model_type"] in ("qwen2", "gemma3_text"):
        types = config.pop("layer_types")
        if config["model_type"] == "gemma3_text":
            config["sliding_window_pattern"] = types.index("full_attention") + 1


def write(folder, name, kind, settings, options, tokens):
    torch.manual_seed(sum(map(ord, name)))
    made = make(kind, settings)
    stored = pack(made) if options.get("mxfp4") else {}
    dtype = options.get("dtype", torch.float32)
    with torch.no_grad():
        # The frequencies of rotary embeddings stay exact.
        for parameter in made.parameters():
            parameter.copy_(parameter.to(dtype))
        inputs = torch.tensor([tokens])
        kinds = dict(token_type_ids=torch.zeros_like(inputs)) if kind == "Gemma3" else {}
        logits = made(inputs, use_cache=False, **kinds).logits[0].float()
    path = folder / name
    made.to(dtype).save_pretrained(path, max_shard_size=options.get("shards", "1GB"))
    file, config_file = path / "model.safetensors", path / "config.json"
    if stored:
        tensors = load_file(file)
        gone = ("mlp.experts.gate_up_proj", "mlp.experts.down_proj")
        tensors = {key: value for key, value in tensors.items() if not key.endswith(gone)}
        save_file(tensors | stored, file)
    if "bare" in options:
        tensors = load_file(file)
        tensors = {key.removeprefix(options["bare"]): value for key, value in tensors.items()}
        tensors["h.0.attn.bias"] = torch.ones(1, 1, 4, 4, dtype=torch.bool)
        save_file(tensors, file)
    if options.get("old"):
        config = json.loads(config_file.read_text())
        old_settings(config)
        if stored:
            config["quantization_config"] = dict(quant_method="mxfp4")
        config_file.write_text(json.dumps(config, indent=1))
    with open(folder / f"{name}.logits", "wb") as out:
        out.write(struct.pack("<ii", *logits.shape))
        out.write(logits.contiguous().numpy().tobytes())
    print(f"{name:20} {sum(p.numel() for p in made.parameters())} parameters, logits up to {logits.abs().max():.1f}")


def main():
    folder, part = Path(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else ""
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(7)
    tokens = [draw.randrange(3, WORDS - 1) for _ in range(TOKENS)]
    (folder / "tokens.txt").write_text(" ".join(map(str, tokens)))
    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    for name, kind, settings, options in MODELS:
        if part in name:
            write(folder, name, kind, settings, options, tokens)


if __name__ == "__main__":
    main()
