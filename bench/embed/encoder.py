"""BERT written out in PyTorch: the reference of compare.py, and its ONNX file for ONNX Runtime."""

import json
import pathlib

import safetensors.torch
import torch
import torch.nn.functional as F


class Encoder(torch.nn.Module):
    """`last_hidden_state` of a folder with model.safetensors and config.json."""

    def __init__(self, folder):
        super().__init__()
        folder = pathlib.Path(folder)
        self.config = json.loads((folder / "config.json").read_text())
        assert self.config["model_type"] == "bert" and self.config["hidden_act"] == "gelu", self.config
        weights = safetensors.torch.load_file(folder / "model.safetensors")
        prefix = next(name for name in weights if name.endswith("embeddings.word_embeddings.weight"))
        prefix = prefix[:-len("embeddings.word_embeddings.weight")]
        self.weights = torch.nn.ParameterDict({
            name[len(prefix):].replace(".", "/"): torch.nn.Parameter(value.float(), requires_grad=False)
            for name, value in weights.items() if name.startswith(prefix) and value.is_floating_point()})

    def get(self, name):
        return self.weights[name.replace(".", "/")]

    def linear(self, name, x):
        return F.linear(x, self.get(f"{name}.weight"), self.get(f"{name}.bias"))

    def norm(self, name, x):
        hidden, epsilon = self.config["hidden_size"], self.config["layer_norm_eps"]
        return F.layer_norm(x, (hidden,), self.get(f"{name}.weight"), self.get(f"{name}.bias"), epsilon)

    def forward(self, ids, mask, types):
        heads, hidden = self.config["num_attention_heads"], self.config["hidden_size"]
        batch, length = ids.shape
        x = F.embedding(ids, self.get("embeddings.word_embeddings.weight"))
        x = x + F.embedding(types, self.get("embeddings.token_type_embeddings.weight"))
        x = x + self.get("embeddings.position_embeddings.weight")[:length]
        x = self.norm("embeddings.LayerNorm", x)
        padding = (1.0 - mask[:, None, None, :].to(torch.float32)) * torch.finfo(torch.float32).min
        for layer in range(self.config["num_hidden_layers"]):
            name = f"encoder.layer.{layer}"
            q, k, v = (
                self.linear(f"{name}.attention.self.{part}", x).view(batch, length, heads, -1).transpose(1, 2)
                for part in ("query", "key", "value"))
            scores = q @ k.transpose(2, 3) / (hidden // heads) ** 0.5 + padding
            y = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, hidden)
            y = self.linear(f"{name}.attention.output.dense", y)
            x = self.norm(f"{name}.attention.output.LayerNorm", y + x)
            y = self.linear(f"{name}.output.dense", F.gelu(self.linear(f"{name}.intermediate.dense", x)))
            x = self.norm(f"{name}.output.LayerNorm", y + x)
        return x


def export(encoder, path):
    """Writes it as ONNX, batch and length open."""
    example = tuple(torch.ones((2, 5), dtype=torch.int64) for _ in range(3))
    names = ["input_ids", "attention_mask", "token_type_ids"]
    axes = {name: {0: "batch", 1: "tokens"} for name in names + ["last_hidden_state"]}
    torch.onnx.export(
        encoder, example, str(path), input_names=names, output_names=["last_hidden_state"],
        dynamic_axes=axes, opset_version=17, dynamo=False)
