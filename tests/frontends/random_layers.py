"""How nodes are drawn that compute sums, products, windows, norms, recurrent layers, signals and losses."""

import numpy as np

from .random_nodes import BOOL, ROWS, row
from .random_operands import Again

__all__ = ["ROWS"]


def filled(array):
    return 0 not in array.shape


# ---- sums and products -----------------------------------------------------------------------------------------------


def reduced(d, kinds=""):
    """Of some elements where it is a mean: ONNX Runtime's mean of none is 0."""
    x, shape, _ = d.tensor(kind=kinds, fits=lambda x: x.size > 0 or d.schema.name != "ReduceMean")
    if d.schema.name == "ReduceProd" and np.abs(d.array(x).astype("f8")).clip(1).prod() > 2.0**15:
        # of zero and what is too large the order decides
        raise Again
    axes = d.axes(len(shape))
    return [x, *(d.listed("axes", axes) if axes or d.chance(0.3) else [])]


def product(d):
    x, shape, kind = d.tensor(1)
    if len(shape) == 1 or d.chance(0.2):
        return [x, d.of((shape[-1], d.size()) if d.chance(0.7) else (shape[-1],), kind)]
    batch = d.pick((), shape[:-2], tuple(1 if d.chance() else n for n in shape[:-2]))
    return [x, d.of((*batch, shape[-1], d.size()), kind)]


def gemm(d):
    x, (m, k), kind = d.tensor(2, 2)
    m, k = (k, m) if d.attrs.get("transA") else (m, k)
    n = d.size()
    y = d.of((n, k) if d.attrs.get("transB") else (k, n), kind)
    return [x, y, d.beside((m, n), kind)] if d.chance(0.6) else [x, y]


def well_conditioned(x):
    """Square matrices; large ones far from singular, of which ONNX Runtime is off by no more than a rounding."""
    size = x.shape[-1]
    return size == x.shape[-2] and (size < 5 or bool((np.linalg.cond(x.astype("f8")) < 100).all()))


EQUATIONS = (
    "ij,jk->ik", "ij,ij->", "ij->ji", "ii->i", "ij->i", "bij,bjk->bik", "i,j->ij", "bhqd,bhkd->bhqk", "ij,kj->ik",
    "...i,i->...", "ij,j", "bij->b",
)  # fmt: skip


def einsum(d):
    """Of some elements: ONNX Runtime divides by their number."""
    d.attrs["equation"] = equation = d.pick(*EQUATIONS)
    sizes, kind, more = {letter: d.size() for letter in "abcdefghijkqd"}, d.kind(), d.shape(0, 2)
    if 0 in (*sizes.values(), *more):
        raise Again
    terms = equation.partition("->")[0].split(",")
    shapes = ([*more * ("..." in term), *(sizes[one] for one in term.replace("...", ""))] for term in terms)
    return [d.of(shape, kind) for shape in shapes]


def integer_product(d):
    """Of some terms: ONNX Runtime leaves sums of none unwritten."""
    a, shape, _ = d.tensor(2, 4, kind="u1 i1", fits=lambda a: a.shape[-1] > 0)
    b = d.of((shape[-1], d.size()), d.pick("u1", "i1"))
    if d.schema.name == "QLinearMatMul":
        return [a, *_scaled(d, a), b, *_scaled(d, b), *_scaled(d, a)]
    return [a, b, *_zero_points(d, a, b)]


def _zero_points(d, *operands):
    return [d.number(d.whole(0, 2), d.like(one)[1]) for one in operands][: d.whole(0, len(operands))]


def _scaled(d, like):
    """A scale and a zero point of the type of an operand."""
    return [d.number(d.pick(0.25, 0.5, 1.0), "f4"), d.number(d.whole(0, 3), d.like(like)[1])]


def _scale(d, shape):
    """Of the whole tensor, or of each element along an axis in opsets that have it, and its shape."""
    size = ()
    if d.opset >= 13 and shape and d.chance(0.4):
        d.attrs["axis"] = axis = d.axis(len(shape))
        size = (shape[axis],)
    return d.leaf(d.rng.choice([0.25, 0.5, 1.0, 2.0], size).astype("f4"), 0.9), size


def quantized(d):
    x, shape, _ = d.tensor(kind="f4")
    scale, size = _scale(d, shape)
    kind = d.pick("u1", "i1", *("u2", "i2") * (d.opset >= 21))
    return [x, scale, d.leaf(d.numbers(size, kind), 0.9)] if size or d.chance(0.8) else [x, scale]


def dequantized(d):
    x, shape, kind = d.tensor(kind="u1 i1 i4" + " u2 i2" * (d.opset >= 21))
    scale, size = _scale(d, shape)
    return [x, scale, d.leaf(d.numbers(size, kind), 0.9)] if kind != "i4" and d.chance(0.8) else [x, scale]


def ranged(d):
    """Of some numbers but 0: of no others ONNX Runtime's scale is 1, ONNX's 0."""
    d.outputs = 3
    return [d.any(fits=lambda x: x.any())]


row("ReduceSum ReduceMax ReduceMin", reduced, keepdims=BOOL, noop_with_empty_axes=BOOL)
row("ReduceL1 ReduceProd ReduceSumSquare", reduced, keepdims=BOOL, noop_with_empty_axes=BOOL)
row("ReduceMean ReduceL2", reduced, "r", keepdims=BOOL, noop_with_empty_axes=BOOL)
row("ReduceLogSum ReduceLogSumExp", lambda d: reduced(d, "f4 f2 f8"), "r", keepdims=BOOL, noop_with_empty_axes=BOOL)
row("MatMul", product)
row("Gemm", gemm, transA=BOOL, transB=BOOL, alpha=(0.5, 2.0), beta=(0.5, 0.0))
row("Einsum", einsum)
row("Det", lambda d: [d.any(2, 4, fits=well_conditioned)], "r")
row("MatMulInteger QLinearMatMul", integer_product)
row("QuantizeLinear", quantized, "j")
row("DequantizeLinear", dequantized)
row("DynamicQuantizeLinear", ranged, "rj")


# ---- windows ---------------------------------------------------------------------------------------------------------


def windows(d, kernel, pools=False):
    """Pads of pools are less than windows; ONNX Runtime's that keep the size fit no gaps between or within windows."""
    same = d.chance(0.15)
    if same or d.chance(0.1):
        d.attrs["auto_pad"] = d.pick("SAME_UPPER", "SAME_LOWER") if same else "VALID"
    elif d.chance(0.7):
        d.attrs["pads"] = [d.whole(0, n // 2 if pools else n - 1) for n in kernel * 2]
    if d.chance():
        d.attrs["strides"] = [d.whole(1, min(n, 3) if same else 3) for n in kernel]
    if d.chance(0.3) and not same and "dilations" in d.schema.attributes:
        d.attrs["dilations"] = [d.pick(1, 2) for _ in kernel]


def pooled(d, places=False):
    """Windows within the data: beyond it the results of ONNX Runtime are empty, and the package refuses them."""
    x, shape, kind = d.tensor(3)
    d.attrs["kernel_shape"] = kernel = [d.pick(1, *range(2, min(n, 3) + 1)) for n in shape[2:]]
    windows(d, kernel, True)
    most = max(d.attrs.get("dilations", [1]))
    if any((k - 1) * most >= n for k, n in zip(kernel, shape[2:], strict=True)):
        raise Again
    # among the least numbers of a type ONNX Runtime finds no largest, among those that round another
    d.outputs = d.pick(1, 1, 2) if places and kind != "u1" and d.is_exact(x) else 1
    return [x]


def convolved(d, low=3, high=5):
    """x (N, C, spatial...), weights, and how many channels the result has."""
    x, shape, kind = d.tensor(low, high, fits=lambda x: x.shape[1])
    c = shape[1]
    group = d.pick(*(n for n in range(1, c + 1) if c % n == 0))
    out = d.extent if d.extent and d.extent % group == 0 else group * d.whole(1, 2)
    kernel = [d.pick(1, 2, 3) for _ in shape[2:]]
    if group > 1 or d.chance(0.3):
        d.attrs["group"] = group
    if d.chance():
        d.attrs["kernel_shape"] = kernel
    windows(d, kernel)
    sizes = (c, out // group) if d.schema.name == "ConvTranspose" else (out, c // group)
    slot = {"ConvInteger": 1, "QLinearConv": 3}.get(d.schema.name)
    return x, d.of((*sizes, *kernel), d.kind(slot) if slot else kind, -2, 2), out


def convolution(d):
    x, w, out = convolved(d)
    if d.schema.name == "ConvTranspose":
        if "auto_pad" in d.attrs:
            # of windows with gaps between them ONNX Runtime makes fewer results than ONNX infers
            d.attrs.pop("strides", None)
        elif "strides" in d.attrs and d.chance(0.3):
            d.attrs["output_padding"] = [d.whole(0, n - 1) for n in d.attrs["strides"]]
    return [x, w, *([d.of((out,), d.like(x)[1])] if d.chance() else [])]


def integer_convolution(d):
    x, w, out = convolved(d, 4, 4)
    if d.schema.name == "ConvInteger":
        return [x, w, *_zero_points(d, x, w)]
    bias = [d.of((out,), "i4", constant=1)] if d.chance() else []
    return [x, *_scaled(d, x), w, d.number(0.5, "f4"), d.number(0, d.like(w)[1]), *_scaled(d, x), *bias]


def unpooled(d):
    x, (n, c, h, w), _ = d.tensor(4, 4, kind="f4", fits=filled)
    d.attrs |= {"kernel_shape": [2, 2], "strides": [2, 2]}
    places = np.arange(n * c * h * w * 4).reshape(n * c, -1)
    return [x, d.leaf(np.stack([d.rng.permutation(one)[: h * w] for one in places]).reshape(n, c, h, w))]


def deformed(d):
    x, (n, c, h, w), kind = d.tensor(4, 4, fits=filled)
    out = d.size()
    d.attrs |= {"kernel_shape": [2, 2], "pads": [1, 1, 0, 0]}
    offset = d.leaf((d.numbers((n, 8, h, w), kind) / 4).astype(kind))
    return [x, d.of((out, c, 2, 2), kind), offset, *([d.of((out,), kind)] if d.chance() else [])]


def regions(d):
    x, (n, _, h, w), kind = d.tensor(4, 4, fits=filled)
    count = d.size()
    boxes = np.sort(d.rng.integers(0, 2 * max(h, w), (count, 2, 2)) / 2, 1).reshape(count, 4)
    # at the edge of the data rounding of a place decides: these are exact
    d.attrs |= {"output_height": d.pick(1, 2, 4), "output_width": d.pick(1, 2, 4), "sampling_ratio": d.whole(1, 2)}
    return [x, d.leaf(boxes.astype(kind)), d.leaf(d.rng.integers(0, n, count))]


def sampled(d):
    x, shape, _ = d.tensor(4, 5 if d.opset >= 20 else 4, fits=filled)
    axes = len(shape) - 2
    grid = d.rng.integers(-9, 10, (shape[0], *(d.size() for _ in range(axes)), axes)) / 8
    modes = ("bilinear", "nearest", "bicubic") if d.opset < 20 else ("linear", "nearest", "cubic")
    d.attrs["mode"] = d.pick(*modes[: 3 if axes == 2 else 2])
    return [x, d.leaf(grid.astype(d.kind(1, "f4")))]


def affine(d):
    """Axes of two or more: of an aligned axis of one ONNX Runtime takes the middle, ONNX the first corner."""
    axes, n = d.pick(2, 3), d.size()
    return [
        d.of((n, axes, axes + 1), d.kind()),
        d.number([n, d.size(), *(max(2, d.size()) for _ in range(axes))]),
    ]


def resized(d):
    """Integers by the nearest only: ONNX Runtime cuts off what ONNX rounds."""
    d.attrs["mode"] = mode = d.pick("nearest", "linear", "cubic")
    x, shape, _ = d.tensor(1, 4, kind="f4 i4 u1 i1" if mode == "nearest" else "f4", fits=filled)
    still = max(0, len(shape) - d.whole(1, 2))
    if mode == "nearest" and d.chance():
        d.attrs["nearest_mode"] = d.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    # before opset 13 empty arrays stand for what is left out
    left_out = [d.leaf(np.zeros(0, "f4"), 1) if d.opset < 13 else "" for _ in range(2)]
    if d.chance():
        return [x, *left_out, d.number([*shape[:still], *(d.whole(1, 6) for _ in shape[still:])])]
    # by scales of a call align_corners is as onnx's node tests have it, ONNX Runtime reads other places
    constant = 1 if d.attrs.get("coordinate_transformation_mode") == "align_corners" else 0.9
    scales = [1] * still + [d.pick(0.5, 1, 2, 2, 1.5) for _ in shape[still:]]
    return [x, left_out[0], d.number(scales, "f4", constant)]


def columns(d):
    n, c, block, size = d.size(), d.whole(1, 2), [d.pick(1, 2), d.pick(1, 2)], [d.whole(2, 4), d.whole(2, 4)]
    count = (size[0] - block[0] + 1) * (size[1] - block[1] + 1)
    return [d.of((n, c * block[0] * block[1], count), d.kind()), d.number(size), d.number(block)]


row("MaxPool", lambda d: pooled(d, True), ceil_mode=BOOL, storage_order=(0,))
row("AveragePool", pooled, "r", ceil_mode=BOOL, count_include_pad=BOOL)
row("LpPool", pooled, "r", p=(1, 2, 3))
row("GlobalAveragePool GlobalMaxPool", lambda d: [d.any(3)], "r")
row("GlobalLpPool", lambda d: [d.any(3)], "r", p=(1, 2, 3))
row("Conv ConvTranspose", convolution)
row("ConvInteger QLinearConv", integer_convolution)
row("MaxUnpool", unpooled)
row("DeformConv", deformed, "r")
row("RoiAlign", regions, "r", mode=("avg", "max"), spatial_scale=(0.5, 1.0))
row("GridSample", sampled, "r", align_corners=BOOL, padding_mode=("zeros", "border", "reflection"))
row("AffineGrid", affine, "r", align_corners=BOOL)
TRANSFORMS = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
row("Resize", resized, "r", coordinate_transformation_mode=TRANSFORMS)
row("Col2Im", columns)
row("LRN", lambda d: [d.any(4, 4)], "r", size=(1, 3), alpha=(0.5, 1.0), beta=(0.5, 1.0), bias=(2.0,))


# ---- norms -----------------------------------------------------------------------------------------------------------


def by_channel(d, count, low=2):
    """Scale, shift and mean, and a variance that is not small."""
    x, shape, kind = d.tensor(low, fits=filled)
    variance = [d.leaf(d.numbers(shape[1:2], kind, 1, 4), 0.8)] * (count == 4)
    return [x, *(d.of(shape[1:2], kind) for _ in range(min(count, 3))), *variance]


def groups(d):
    x, (_, c, *_), kind = d.tensor(3, fits=filled)
    d.attrs["num_groups"] = n = d.pick(*(n for n in range(1, c + 1) if c % n == 0))
    size = (c if d.opset >= 21 else n,)
    return [x, d.of(size, kind), d.of(size, kind)]


def layers(d, count):
    x, shape, kind = d.tensor(1, fits=filled)
    d.attrs["axis"] = axis = d.axis(len(shape))
    size = shape[axis:] if d.chance(0.8) else shape[-1:]
    return [x, *(d.of(size, kind) for _ in range(count))]


def mean_variance(d):
    """Of numbers that differ: ONNX Runtime takes roots of a variance that rounding makes negative."""
    x = d.any(4, 4, fits=filled)
    d.attrs["axes"] = axes = [axis % 4 for axis in d.axes(4)] or [0, 2, 3]
    if d.array(x).std(tuple(axes)).min() < 0.1:
        raise Again
    return [x]


row("BatchNormalization", lambda d: by_channel(d, 4), "r", epsilon=(0.5,))
row("InstanceNormalization", lambda d: by_channel(d, 2, 3), "r", epsilon=(0.5,))
# of float64 it computes in float32, as stash_type says by default
row("GroupNormalization", groups, "rs", epsilon=(0.5,))
row("LayerNormalization", lambda d: layers(d, d.pick(1, 2)), "r", epsilon=(0.5,))
row("RMSNormalization", lambda d: layers(d, 1), "r", epsilon=(0.5,))
row("MeanVarianceNormalization", mean_variance, "r")


# ---- recurrent layers and attention ----------------------------------------------------------------------------------


def some(d, count):
    """Sizes that are not 0, where ONNX Runtime aborts."""
    sizes = [d.size() for _ in range(count)]
    if 0 in sizes:
        raise Again
    return sizes


def recurrent(d, gates):
    (length, batch, inside), size, kind = some(d, 3), d.whole(1, 4), d.kind(0, "f4")
    d.attrs |= {"hidden_size": size, "direction": d.pick("forward", "reverse", "bidirectional")}
    count = 2 if d.attrs["direction"] == "bidirectional" else 1
    x = d.of((length, batch, inside), kind)
    w, r = (d.leaf((d.numbers((count, gates * size, n), kind) / 4).astype(kind), 0.9) for n in (inside, size))
    d.outputs = d.pick(1, 2)
    bias = d.of((count, 2 * gates * size), kind) if d.chance() else ""
    return [x, w, r, bias, *(["", d.of((count, batch, size), kind)] if d.chance(0.4) else [])]


def attention(d):
    batch, heads, length, other, size, kind = d.size(), d.pick(1, 2), d.size(), d.size(), d.whole(1, 4), d.kind(0, "f4")
    q, k, v = (d.of((batch, heads, n, size), kind) for n in (length, other, other))
    return [q, k, v, *([d.of((length, other), d.pick(kind, "?"))] if d.chance(0.4) else [])]


def turned(d):
    batch, heads, length, half, kind = d.size(), d.pick(1, 2), d.size(), d.whole(1, 4), d.kind(0, "f4")
    caches = [d.of((9, half), kind) for _ in range(2)]
    return [d.of((batch, heads, length, 2 * half), kind), *caches, d.leaf(d.rng.integers(0, 9, (batch, length)))]


def carried(d):
    (batch, channels, length), taps, kind = some(d, 3), d.whole(1, 3), d.kind(0, "f4")
    d.outputs = 2
    bias = [d.of((channels,), kind)] if d.chance() else []
    return [d.of((batch, channels, length), kind), d.of((channels, 1, taps), kind), *bias]


def linear_attention(d):
    (batch, length), heads, size, kind = some(d, 2), d.pick(1, 2), d.whole(1, 4), d.kind(0, "f4")
    d.attrs |= {"q_num_heads": heads, "kv_num_heads": heads, "update_rule": "linear"}
    d.outputs = 2
    return [d.of((batch, length, heads * size), kind) for _ in range(3)]


row("LSTM", lambda d: recurrent(d, 4), "r")
row("GRU", lambda d: recurrent(d, 3), "r", linear_before_reset=BOOL)
row("RNN", lambda d: recurrent(d, 1), "r")
row("Attention", attention, "r", scale=(0.5, 1.0), softcap=(0.0, 2.0), is_causal=BOOL)
row("RotaryEmbedding", turned, "r", interleaved=BOOL)
row("CausalConvWithState", carried, "r", activation=("none", "silu"))
row("LinearAttention", linear_attention, "r", scale=(0.5, 1.0))


# ---- signals, losses -------------------------------------------------------------------------------------------------


def fourier(d):
    batch, length, numbers, kind = d.size(), d.size(), d.pick(1, 2), d.kind(0, "f4")
    if not length:
        raise Again
    d.attrs |= {"axis": 1} if d.opset < 20 else {}
    return [d.of((batch, length, numbers), kind), *(["", d.number(1)] if d.opset >= 20 else [])]


def frames(d):
    batch, width, kind = d.size(), d.whole(2, 6), d.kind(0, "f4")
    signal = d.of((batch, width + d.whole(0, 9), 1), kind)
    return [signal, d.number(d.whole(1, 4)), *([d.of((width,), kind)] if d.chance() else ["", d.number(width)])]


def mel(d):
    numbers = [d.number(n) for n in (d.whole(1, 5), d.pick(8, 16), 8000)]
    return [*numbers, d.number(d.whole(0, 300), "f4"), d.number(d.whole(1000, 4000), "f4")]


def labelled(d):
    x, (n, c, *rest), kind = d.tensor(2, 4, fits=filled)
    weights = [d.leaf(d.numbers((c,), kind, 1, 4))] if d.chance() else []
    return [x, d.leaf(d.rng.integers(0, c, (n, *rest))), *weights]


def boxes(d):
    batch, count, classes = d.size(), d.size(), d.size()
    corners = np.sort(d.rng.integers(0, 9, (batch, count, 2, 2)), 2).reshape(batch, count, 4).astype("f4")
    limits = [d.number([d.whole(1, 4)]), d.number([0.3], "f4"), d.number([d.pick(-1.0, 0.5)], "f4")]
    return [d.leaf(corners), d.of((batch, classes, count), "f4"), *limits[: d.whole(1, 3)]]


row("DFT", fourier, "r", inverse=BOOL, onesided=(0,))
row("STFT", frames, "r", onesided=BOOL)
# a symmetric window of one element is 0 / 0 by its definition
row("BlackmanWindow HammingWindow HannWindow", lambda d: [d.number(d.whole(2, 9), d.pick("i8", "i4"))], "r",
    periodic=BOOL)  # fmt: skip
row("MelWeightMatrix", mel, "r")
row("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss", labelled, "r", reduction=("none", "sum", "mean"))
row("NonMaxSuppression", boxes, "j")
