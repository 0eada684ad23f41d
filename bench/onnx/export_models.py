"""Writes models with random weights as ONNX, exported by PyTorch.

    pip install torch torchvision onnx
    python bench/onnx/export_models.py MODELS [NAME...]

Batch sizes are open, and so are sequence lengths where a model has them. Random weights show what constant
ones hide: a transposed weight gives other numbers.
"""

import pathlib
import sys

import torch
import torch.nn as nn

IMAGE = ("image", (2, 3, 224, 224), {0: "batch"})


class UNet(nn.Module):
    """A small U-Net: two levels down, two up, one by transposed convolution and one by interpolation."""

    def __init__(self, width=16):
        super().__init__()

        def block(before, after):
            return nn.Sequential(
                nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
                nn.Conv2d(after, after, 3, padding=1), nn.GroupNorm(4, after), nn.SiLU())

        self.down1, self.down2, self.middle = block(3, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.pool = nn.MaxPool2d(2)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.up1 = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False)
        self.join2, self.join1 = block(4 * width, 2 * width), block(3 * width, width)
        self.out = nn.Conv2d(width, 2, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(self.pool(a))
        c = self.middle(self.pool(b))
        b = self.join2(torch.cat([self.up2(c), b], 1))
        a = self.join1(torch.cat([self.up1(b), a], 1))
        return self.out(a)


class Lstm(nn.Module):
    """Two bidirectional layers over embedded tokens, and a classifier of the last step."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.lstm = nn.LSTM(64, 96, num_layers=2, bidirectional=True)
        self.out = nn.Linear(192, 10)

    def forward(self, tokens):
        y, _ = self.lstm(self.embed(tokens).transpose(0, 1))
        return self.out(y[-1])


class Block(nn.Module):
    """Attention and two linear layers, normalised before (GPT-2) or after (BERT)."""

    def __init__(self, width, heads, first, causal):
        super().__init__()
        self.heads, self.first, self.causal = heads, first, causal
        self.qkv, self.join = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.gelu = nn.GELU(approximate="tanh" if causal else "none")

    def attend(self, x):
        batch, tokens, width = x.shape
        q, k, v = self.qkv(x).view(batch, tokens, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / (width // self.heads) ** 0.5
        if self.causal:
            later = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
            scores = scores.masked_fill(later, float("-inf"))
        return self.join((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, tokens, width))

    def feed(self, x):
        return self.narrow(self.gelu(self.wide(x)))

    def forward(self, x):
        if self.first:
            x = x + self.attend(self.norm1(x))
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.feed(x))


class Transformer(nn.Module):
    """BERT-base or GPT-2 small, by their sizes and orders of layers."""

    def __init__(self, vocabulary, positions, causal, width=768, heads=12, layers=12):
        super().__init__()
        self.causal = causal
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads, causal, causal) for _ in range(layers))
        nn.init.normal_(self.words.weight, std=0.02)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        if not self.causal:
            x = self.norm(x)
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.words.weight.T if self.causal else x


def bert():
    return Transformer(30522, 512, causal=False)


def gpt2():
    return Transformer(50257, 1024, causal=True)


def vision(name):
    import torchvision
    return lambda: getattr(torchvision.models, name)(weights=None)


TOKENS = ("tokens", (2, 17), {0: "batch", 1: "sequence"})
MODELS = {
    "resnet50": (vision("resnet50"), IMAGE),
    "mobilenet_v2": (vision("mobilenet_v2"), IMAGE),
    "efficientnet_b0": (vision("efficientnet_b0"), IMAGE),
    "unet": (UNet, ("image", (2, 3, 64, 96), {0: "batch"})),
    "bert_base": (bert, TOKENS),
    "gpt2": (gpt2, TOKENS),
    "vit_b_16": (vision("vit_b_16"), IMAGE),
    "lstm": (Lstm, TOKENS),
}


def settle(model):
    """Gives normalisations statistics and parameters of their own, so that leaving one out shows."""
    for module in model.modules():
        if isinstance(module, (nn.BatchNorm2d, nn.GroupNorm, nn.LayerNorm)):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.uniform_(module.bias, -0.2, 0.2)
        if isinstance(module, nn.Linear) and not module.weight.any():
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 1.5)


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or MODELS:
        make, (input_name, shape, open_axes) = MODELS[name]
        torch.manual_seed(0)
        model = make().eval()
        settle(model)
        tokens = input_name == "tokens"
        example = torch.randint(0, 1000, shape) if tokens else torch.randn(shape)
        path = folder / f"{name}.onnx"
        torch.onnx.export(
            model, (example,), str(path), input_names=[input_name], output_names=["output"],
            dynamic_axes={input_name: open_axes}, opset_version=17, dynamo=False)
        print(f"{path}: {path.stat().st_size / 1e6:.1f} MB", flush=True)


if __name__ == "__main__":
    main()
