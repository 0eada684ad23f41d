"""The models of polaris-nn in PyTorch, with the same names for their parameters."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Mlp(nn.Module):
    def __init__(self, inputs, hidden, outputs):
        super().__init__()
        self.count = len(hidden)
        width = inputs
        for index, next_width in enumerate(hidden):
            setattr(self, f"linear{index}", nn.Linear(width, next_width))
            width = next_width
        self.output = nn.Linear(width, outputs)

    def forward(self, x):
        x = x.flatten(1)
        for index in range(self.count):
            x = F.relu(getattr(self, f"linear{index}")(x))
        return self.output(x)


class Cnn(nn.Module):
    def __init__(self, dims, channels, kernel, padding, batch_norm, pool_after, hidden, outputs):
        super().__init__()
        before, rows, columns = dims
        self.count, self.batch_norm, self.pool_after = len(channels), batch_norm, pool_after
        self.hidden = len(hidden)
        for number, after in enumerate(channels, 1):
            conv = nn.Conv2d(before, after, kernel, padding=padding, bias=not batch_norm)
            setattr(self, f"conv{number}", conv)
            if batch_norm:
                setattr(self, f"norm{number}", nn.BatchNorm2d(after))
            before = after
            rows, columns = (length + 2 * padding + 1 - kernel for length in (rows, columns))
            if number in pool_after:
                rows, columns = rows // 2, columns // 2
        width = before * rows * columns
        for index, next_width in enumerate(hidden):
            setattr(self, f"linear{index}", nn.Linear(width, next_width))
            width = next_width
        self.output = nn.Linear(width, outputs)

    def forward(self, x):
        for number in range(1, self.count + 1):
            x = getattr(self, f"conv{number}")(x)
            if self.batch_norm:
                x = getattr(self, f"norm{number}")(x)
            x = F.relu(x)
            if number in self.pool_after:
                x = F.max_pool2d(x, 2)
        x = x.flatten(1)
        for index in range(self.hidden):
            x = F.relu(getattr(self, f"linear{index}")(x))
        return self.output(x)


class Attention(nn.Module):
    """nn.MultiheadAttention's parameters with PyTorch's fastest way to compute it."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.in_proj_weight = nn.Parameter(torch.empty(3 * width, width))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * width))
        nn.init.xavier_uniform_(self.in_proj_weight)
        self.out_proj = nn.Linear(width, width)
        nn.init.zeros_(self.out_proj.bias)

    def forward(self, x):
        batch, tokens, width = x.shape
        all_three = F.linear(x, self.in_proj_weight, self.in_proj_bias)
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2) for part in all_three.split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out_proj(y.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.self_attn = Attention(width, heads)
        self.linear1, self.linear2 = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x))
        return x + self.linear2(F.gelu(self.linear1(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocabulary, context, layers, width, heads):
        super().__init__()
        self.token_embedding = nn.Embedding(vocabulary, width)
        self.position_embedding = nn.Embedding(context, width)
        nn.init.normal_(self.token_embedding.weight, std=0.02)
        nn.init.normal_(self.position_embedding.weight, std=0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, x):
        x = self.token_embedding(x) + self.position_embedding.weight[: x.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def build(model, dims, outputs):
    """PyTorch's version of a model's description."""
    kind = model["kind"]
    if kind == "mlp":
        return Mlp(torch.Size(dims).numel(), model["hidden"], outputs)
    if kind == "cnn":
        names = ("channels", "kernel", "padding", "batch_norm", "pool_after", "hidden")
        return Cnn(dims, *(model[name] for name in names), outputs)
    return Gpt(outputs, dims[0], model["layers"], model["width"], model["heads"])


def optimizer(name, parameters, rate, momentum=0.0):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=momentum)
    return {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[name](parameters, lr=rate)


def loss_of(model, x, y):
    logits = model(x)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), y.flatten())
