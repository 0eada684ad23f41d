"""The cases: what to compute, on which shapes, and how PyTorch is asked for it."""

import torch
import torch.nn.functional as F


class Case:
    """An operation with a way to make inputs and options, and PyTorch's version of it."""

    def __init__(self, name, make, function, label=None, differentiable=True, options=None):
        self.name = name
        self.label = label or name
        self.make = make
        self.torch = function
        self.differentiable = differentiable
        self.options = options or (lambda options: options)


def uniform(shape, low=-2.0, high=2.0):
    return torch.empty(shape, dtype=torch.float64).uniform_(low, high)


def shape(generator, rank=None, low=1, high=6):
    rank = generator.randint(1, 4) if rank is None else rank
    return [generator.randint(low, high) for _ in range(rank)]


def one(name, function, low=-2.0, high=2.0, rank=None, options=None, label=None, differentiable=True):
    """Of one tensor; `options` makes the options from a generator and the shape."""

    def make(generator):
        dims = shape(generator, rank)
        made = options(generator, dims) if options else {}
        return [uniform(dims, low, high)], made

    return Case(name, make, function, label, differentiable)


def broadcast(generator):
    """Two shapes that fit."""
    dims = shape(generator, generator.randint(1, 3))
    cut = [1 if generator.random() < 0.3 else d for d in dims]
    other = [1 if generator.random() < 0.3 else d for d in dims][generator.randint(0, len(dims) - 1):]
    return cut, other


def two(name, function, low=-2.0, high=2.0, differentiable=True):
    def make(generator):
        a, b = broadcast(generator)
        return [uniform(a, low, high), uniform(b, low, high)], {}

    return Case(name, make, function, differentiable=differentiable)


def axis_of(generator, dims):
    return {"axis": generator.randrange(len(dims))}


def axes_of(generator, dims):
    count = generator.randint(1, len(dims))
    return {"axes": sorted(generator.sample(range(len(dims)), count)), "keep_dims": generator.random() < 0.5}


UNARY = [
    one("neg", torch.neg),
    one("abs", torch.abs),
    one("sign", torch.sign),
    one("square", torch.square),
    one("relu", F.relu),
    one("sqrt", torch.sqrt, 0.1),
    one("rsqrt", torch.rsqrt, 0.1),
    one("reciprocal", torch.reciprocal, 0.1),
    one("exp", torch.exp),
    one("log", torch.log, 0.1),
    one("sin", torch.sin),
    one("cos", torch.cos),
    one("tanh", torch.tanh),
    one("erf", torch.erf),
    one("sigmoid", torch.sigmoid),
    one("silu", F.silu),
    one("gelu", F.gelu, -4, 4),
    one("gelu_tanh", lambda x: F.gelu(x, approximate="tanh"), -4, 4),
    one("floor", torch.floor),
    one("ceil", torch.ceil),
    one("round", torch.round),
    one("clamp", lambda x, low, high: x.clamp(low, high), options=lambda g, d: {"low": -0.5, "high": 0.75}),
    one("pow_scalar", lambda x, exponent: x**exponent, 0.1, options=lambda g, d: {"exponent": 2.5}),
    one("pow_scalar", lambda x, exponent: x**exponent, options=lambda g, d: {"exponent": 3}, label="pow 3"),
]

BINARY = [
    two("add", torch.add),
    two("sub", torch.sub),
    two("mul", torch.mul),
    two("div", torch.div, 0.2),
    two("pow", torch.pow, 0.2),
    two("maximum", torch.maximum),
    two("minimum", torch.minimum),
    two("eq", torch.eq, differentiable=False),
    two("ne", torch.ne, differentiable=False),
    two("lt", torch.lt, differentiable=False),
    two("le", torch.le, differentiable=False),
    two("gt", torch.gt, differentiable=False),
    two("ge", torch.ge, differentiable=False),
    Case(
        "where",
        lambda g: ([torch.rand(3, 4) < 0.5, uniform([2, 3, 4]), uniform([4])], {}),
        torch.where,
    ),
]


def sliced(generator, dims):
    axis = generator.randrange(len(dims))
    start = generator.randint(0, dims[axis])
    return {"axis": axis, "start": start, "end": generator.randint(start, dims[axis]), "step": generator.randint(1, 3)}


def take_slice(x, axis, start, end, step):
    index = [slice(None)] * x.dim()
    index[axis] = slice(start, end, step)
    return x[tuple(index)]


def joined(generator):
    dims = shape(generator, generator.randint(1, 3))
    axis = generator.randrange(len(dims))
    lengths = [generator.randint(0, 4) for _ in range(3)]
    return [uniform(dims[:axis] + [n] + dims[axis + 1:]) for n in lengths], {"axis": axis}


VIEWS = [
    one("reshape", lambda x, shape: x.reshape(shape), options=lambda g, d: {"shape": [torch.Size(d).numel()]}),
    one("flatten", torch.flatten),
    one("permute", lambda x, axes: x.permute(axes), options=lambda g, d: {"axes": g.sample(range(len(d)), len(d))}),
    one("transpose", lambda x, axes: x.transpose(*axes), rank=3, options=lambda g, d: {"axes": [0, 2]}),
    one("unsqueeze", lambda x, axis: x.unsqueeze(axis), options=lambda g, d: {"axis": g.randint(0, len(d))}),
    one(
        "broadcast_to",
        lambda x, shape: x.broadcast_to(shape),
        options=lambda g, d: {"shape": [3] + d},
    ),
    one("slice", take_slice, options=sliced),
    one("select", lambda x, axis, index: x.select(axis, index), options=lambda g, d: {"axis": 0, "index": d[0] - 1}),
    Case("concatenate", joined, lambda *x, axis: torch.cat(x, axis)),
    Case("stack", lambda g: ([uniform([2, 3]) for _ in range(3)], {"axis": g.randint(0, 2)}), lambda *x, axis: torch.stack(x, axis)),
]

REDUCTIONS = [
    one("sum", lambda x, axes, keep_dims: x.sum(axes, keep_dims), options=axes_of),
    one("mean", lambda x, axes, keep_dims: x.mean(axes, keep_dims), options=axes_of),
    one("amax", lambda x, axes, keep_dims: x.amax(axes, keep_dims), options=axes_of),
    one("amin", lambda x, axes, keep_dims: x.amin(axes, keep_dims), options=axes_of),
    one(
        "argmax",
        lambda x, axis: x.argmax(axis),
        options=axis_of,
        differentiable=False,
    ),
    one(
        "var",
        lambda x, axes, keep_dims, correction: x.var(axes, correction=correction, keepdim=keep_dims),
        options=lambda g, d: axes_of(g, d) | {"correction": 0},
    ),
    one("logsumexp", lambda x, axes, keep_dims: x.logsumexp(axes, keep_dims), options=axes_of),
    one("softmax", lambda x, axis: x.softmax(axis), options=axis_of),
    one("log_softmax", lambda x, axis: x.log_softmax(axis), options=axis_of),
]


def matrices(generator):
    m, n, k = shape(generator, 3)
    batch = shape(generator, generator.randint(0, 2))
    return [uniform(batch + [m, k]), uniform(([] if generator.random() < 0.5 else batch) + [k, n])], {}


def layer(with_bias):
    def make(generator):
        rows, (inputs, outputs) = shape(generator, generator.randint(1, 2)), shape(generator, 2)
        tensors = [uniform(rows + [inputs]), uniform([outputs, inputs])]
        return tensors + ([uniform([outputs])] if with_bias else []), {}

    return make


def normed(count):
    def make(generator):
        dims = shape(generator, generator.randint(1, 3), low=2)
        return [uniform(dims)] + [uniform(dims[-1:]) for _ in range(count)], {"eps": 1e-5}

    return make


PRODUCTS = [
    Case("matmul", matrices, torch.matmul),
    Case("matmul", lambda g: ([uniform([5]), uniform([5])], {}), torch.matmul, "vector with vector"),
    Case("matmul", lambda g: ([uniform([5]), uniform([2, 5, 3])], {}), torch.matmul, "vector with matrices"),
    Case("matmul", lambda g: ([uniform([2, 4, 5]), uniform([5])], {}), torch.matmul, "matrices with vector"),
    Case("linear", layer(True), F.linear),
    Case("linear", layer(False), F.linear, "linear without bias"),
]

NORMS = [
    Case("layer_norm", normed(0), lambda x, eps: F.layer_norm(x, x.shape[-1:], None, None, eps), "layer_norm, plain"),
    Case("layer_norm", normed(2), lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:], w, b, eps)),
    Case("rms_norm", normed(0), lambda x, eps: F.rms_norm(x, x.shape[-1:], None, eps), "rms_norm, plain"),
    Case("rms_norm", normed(1), lambda x, w, eps: F.rms_norm(x, x.shape[-1:], w, eps)),
]


def pairs(low, high):
    def make(generator):
        dims = shape(generator, 2)
        return [uniform(dims, low, high), uniform(dims, 0.0, 1.0)], {}

    return make


LOSSES = [
    Case("mse_loss", pairs(-1, 1), F.mse_loss),
    Case("bce_with_logits_loss", pairs(-3, 3), F.binary_cross_entropy_with_logits),
    Case("kl_div_loss", pairs(-3, 0), lambda x, y: F.kl_div(x, y, reduction="batchmean")),
]


def convolved(images, weight, bias=True, **options):
    """A convolution of images of this shape; one entry in a list is for sequences."""

    def make(generator):
        batch = generator.randint(1, 3)
        outputs = weight[1] * options.get("groups", 1) if options.get("turned") else weight[0]
        tensors = [uniform([batch] + images), uniform(weight)] + ([uniform([outputs])] if bias else [])
        return tensors, {name: value for name, value in options.items() if name != "turned"}

    return make


def convolve(x, weight, bias=None, **options):
    return (F.conv1d if x.dim() == 3 else F.conv2d)(x, weight, bias, **options)


def convolve_back(x, weight, bias=None, **options):
    return (F.conv_transpose1d if x.dim() == 3 else F.conv_transpose2d)(x, weight, bias, **options)


CONVOLUTIONS = [
    Case("convolution", convolved([3, 7, 9], [5, 3, 3, 3], padding=[1, 1]), convolve, "conv2d"),
    Case("convolution", convolved([3, 7, 9], [5, 3, 3, 3], bias=False), convolve, "conv2d without bias"),
    Case("convolution", convolved([8, 6, 5], [12, 8, 1, 1]), convolve, "conv2d 1x1"),
    Case("convolution", convolved([4, 11, 10], [6, 2, 3, 2], stride=[2, 3], padding=[2, 1], dilation=[2, 1], groups=2), convolve, "conv2d grouped"),
    Case("convolution", convolved([5, 9, 8], [5, 1, 3, 3], padding=[1, 1], groups=5), convolve, "conv2d depthwise"),
    Case("convolution", convolved([3, 8, 8], [6, 1, 5, 5], stride=[2, 2], padding=[2, 2], groups=3), convolve, "conv2d depthwise, multiplied"),
    Case("convolution", convolved([3, 20], [4, 3, 5], stride=[2], padding=[2], dilation=[2]), convolve, "conv1d"),
    Case("transposed_convolution", convolved([4, 5, 6], [4, 3, 3, 3], stride=[2, 2], padding=[1, 1], output_padding=[1, 1], turned=True), convolve_back, "conv_transpose2d"),
    Case("transposed_convolution", convolved([4, 5, 6], [4, 3, 2, 3], groups=2, dilation=[1, 2], turned=True), convolve_back, "conv_transpose2d grouped"),
    Case("transposed_convolution", convolved([2, 9], [2, 3, 4], stride=[3], padding=[1], turned=True), convolve_back, "conv_transpose1d"),
]


def pooled(function, kernel, stride, padding, **more):
    def run(x, kernel, stride, padding, **more):
        names = {"count_padding": "count_include_pad"}
        return function(x, kernel, stride, padding, **{names.get(name, name): value for name, value in more.items()})

    def make(generator):
        dims = shape(generator, 2) + [generator.randint(6, 10) for _ in kernel]
        return [uniform(dims)], {"kernel": kernel, "stride": stride, "padding": padding} | more

    return make, run


def pool(name, function, label, kernel, stride, padding, **more):
    make, run = pooled(function, kernel, stride, padding, **more)
    return Case(name, make, run, label)


def adaptive(name, function, sizes):
    def make(generator):
        return [uniform(shape(generator, 2) + [generator.randint(3, 9) for _ in sizes])], {"output_size": sizes}

    return Case(name, make, lambda x, output_size: function(x, output_size), f"{name}, adaptive to {sizes}")


POOLS = [
    pool("max_pool", F.max_pool2d, "max_pool2d", [2, 3], [2, 1], [1, 1]),
    pool("max_pool", F.max_pool2d, "max_pool2d, dilated", [2, 2], [1, 2], [0, 1], dilation=[2, 1]),
    pool("max_pool", F.max_pool2d, "max_pool2d, ceil", [3, 2], [2, 2], [1, 0], ceil_mode=True),
    pool("max_pool", F.max_pool1d, "max_pool1d", [3], [2], [1]),
    pool("average_pool", F.avg_pool2d, "avg_pool2d", [2, 3], [2, 1], [1, 1], count_padding=True),
    pool("average_pool", F.avg_pool2d, "avg_pool2d, padding does not count", [3, 3], [2, 2], [1, 1], count_padding=False),
    pool("average_pool", F.avg_pool2d, "avg_pool2d, ceil", [3, 2], [2, 2], [1, 0], ceil_mode=True, count_padding=True),
    pool("average_pool", F.avg_pool1d, "avg_pool1d", [3], [2], [1], count_padding=True),
    adaptive("average_pool", F.adaptive_avg_pool2d, [3, 2]),
    adaptive("average_pool", F.adaptive_avg_pool2d, [1, 1]),
    adaptive("max_pool", F.adaptive_max_pool2d, [2, 3]),
    adaptive("average_pool", F.adaptive_avg_pool1d, [3]),
]


def attended(heads=2, key_heads=2, mask=None, **options):
    def make(generator):
        batch, queries, keys, depth, width = shape(generator, 5)
        queries, keys = queries + 1, keys + 1
        tensors = [uniform([batch, heads, queries, depth]), uniform([batch, key_heads, keys, depth]), uniform([batch, key_heads, keys, width])]
        if mask == "bool":
            tensors.append(torch.rand(queries, keys) < 0.6)
            tensors[-1][:, 0] = True
        return tensors, options

    return make


def attend(q, k, v, mask=None, causal=False, scale=None):
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=grouped)


ATTENTIONS = [
    Case("attention", attended(), attend, "attention"),
    Case("attention", attended(causal=True), attend, "attention, causal"),
    Case("attention", attended(mask="bool"), attend, "attention, masked"),
    Case("attention", attended(heads=4, key_heads=2, scale=0.3), attend, "attention, grouped"),
]


def indices(generator, dims, length):
    return torch.randint(0, length, dims)


def looked_up(generator):
    length, width = shape(generator, 2)
    return [uniform([length, width]), indices(generator, shape(generator, 2), length)], {}


def taken(generator):
    dims = shape(generator, 3)
    return [uniform(dims), indices(generator, [4], dims[1])], {"axis": 1}


def gathered(generator):
    dims = shape(generator, 2)
    return [uniform(dims), indices(generator, [4, dims[1]], dims[0])], {"axis": 0}


def scattered(unique):
    def make(generator):
        length, width = generator.randint(4, 6), generator.randint(1, 4)
        index = indices(generator, [3, width], length)
        if unique:
            index = torch.stack([torch.randperm(length)[:3] for _ in range(width)], 1)
        return [uniform([length, width]), index, uniform([3, width])], {"axis": 0}

    return make


def padded(mode, **more):
    def make(generator):
        dims = shape(generator, 3, low=3)
        return [uniform(dims)], {"widths": [0, 0, 0, 0, 1, 2], "mode": mode} | more

    return Case("pad", make, lambda x, widths, mode, **more: F.pad(x, widths[4:], mode, **more), f"pad, {mode}")


INDEXING = [
    Case("embedding", looked_up, lambda table, index: F.embedding(index, table)),
    Case("take", taken, lambda x, index, axis: x.index_select(axis, index)),
    Case("gather", gathered, lambda x, index, axis: x.gather(axis, index)),
    Case("scatter_add", scattered(False), lambda x, index, source, axis: x.scatter_add(axis, index, source)),
    Case("scatter", scattered(True), lambda x, index, source, axis: x.scatter(axis, index, source.detach())),
    padded("constant", value=0.5),
    padded("reflect"),
    padded("replicate"),
    padded("circular"),
    one("flip", lambda x, axes: x.flip(axes), options=lambda g, d: {"axes": [0]}),
    one("cumsum", lambda x, axis: x.cumsum(axis), options=axis_of),
    one("sort", lambda x, axis, descending: x.sort(dim=axis, descending=descending, stable=True).values, options=lambda g, d: axis_of(g, d) | {"descending": g.random() < 0.5}),
    one("argsort", lambda x, axis, descending: x.argsort(dim=axis, descending=descending, stable=True), options=lambda g, d: axis_of(g, d) | {"descending": False}, differentiable=False),
    one("topk", lambda x, k, axis: x.topk(k, axis).values, rank=2, options=lambda g, d: {"k": min(2, d[1]), "axis": 1}),
]


def channels(generator, groups=1):
    dims = [generator.randint(2, 4), 2 * groups] + shape(generator, generator.randint(1, 2), low=2)
    return [uniform(dims), uniform(dims[1:2]), uniform(dims[1:2])]


def entropy(weighted, **options):
    def make(generator):
        rows, classes = generator.randint(2, 6), generator.randint(2, 6)
        tensors = [uniform([rows, classes]), indices(generator, [rows], classes)]
        return tensors + ([uniform([classes], 0.5, 2.0)] if weighted else []), options

    return make


def cross_entropy(logits, targets, weights=None, smoothing=0.0, ignore_index=None):
    weights = None if weights is None else weights.detach()
    ignored = -100 if ignore_index is None else ignore_index
    return F.cross_entropy(logits, targets, weights, ignore_index=ignored, label_smoothing=smoothing)


MORE = [
    Case("batch_norm", lambda g: (channels(g), {"eps": 1e-5}), lambda x, w, b, eps: F.batch_norm(x, None, None, w, b, True, 0.1, eps)),
    Case("group_norm", lambda g: (channels(g, 2), {"groups": 2, "eps": 1e-5}), lambda x, w, b, groups, eps: F.group_norm(x, groups, w, b, eps)),
    Case("cross_entropy", entropy(False), cross_entropy),
    Case("cross_entropy", entropy(True), cross_entropy, "cross_entropy, weighted"),
    Case("cross_entropy", entropy(True, smoothing=0.1), cross_entropy, "cross_entropy, smoothed"),
    Case("cross_entropy", entropy(False, ignore_index=1, smoothing=0.2), cross_entropy, "cross_entropy, ignoring"),
    Case("einsum", lambda g: ([uniform([2, 3, 4]), uniform([2, 4, 5])], {"equation": "bij,bjk->bki"}), lambda *x, equation: torch.einsum(equation, *x)),
    Case("einsum", lambda g: ([uniform([3, 4]), uniform([4, 2]), uniform([2])], {"equation": "ij,jk,k->i"}), lambda *x, equation: torch.einsum(equation, *x), "einsum of three"),
]

CASES = UNARY + BINARY + VIEWS + REDUCTIONS + PRODUCTS + NORMS + LOSSES
CASES += CONVOLUTIONS + POOLS + ATTENTIONS + INDEXING + MORE
