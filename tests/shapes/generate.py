"""Random valid inputs and attributes for every op kind, as a user would write them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import numpy as np

from dnnl_graph_ops.shapes import Meta


class Case(NamedTuple):
    shapes: list[tuple[int, ...]]
    attrs: dict[str, Any]
    input_dtypes: tuple[str, ...] = ()  # empty: all f32
    dtype: str | None = None
    outputs: int | None = None

    @property
    def metas(self) -> list[Meta]:
        dtypes = self.input_dtypes or ("f32",) * len(self.shapes)
        return [Meta(shape, dtype) for shape, dtype in zip(self.shapes, dtypes, strict=True)]


def inside(kind: str, attrs: dict[str, Any], arrays: list[Any]) -> list[Any]:
    """The operands of an op, the positions of a Gather on its axis."""
    if kind != "Gather":
        return arrays
    size = arrays[0].shape[attrs["axis"]]
    return [arrays[0], np.clip(arrays[1], -size, size - 1)]


def shape(rng: Random, least: int = 1, most: int = 5) -> tuple[int, ...]:
    return tuple(rng.randint(1, 6) for _ in range(rng.randint(least, most)))


def data(rng: Random, batch: int, channels: int, spatial: tuple[int, ...], layout: str) -> tuple[int, ...]:
    return (batch, channels, *spatial) if layout == "NCX" else (batch, *spatial, channels)


def weights(oc: int, ic: int, kernel: tuple[int, ...], fmt: str) -> tuple[int, ...]:
    return {
        "OIX": (oc, ic, *kernel),
        "XIO": (*kernel, ic, oc),
        "IOX": (ic, oc, *kernel),
        "XOI": (*kernel, oc, ic),
    }[fmt]


def mixed_case(rng: Random, word: str) -> str:
    return rng.choice([word, word.lower(), word.upper()])


def broadcastable(rng: Random, target: tuple[int, ...]) -> tuple[int, ...]:
    kept = target[rng.randint(0, len(target) - 1) :]
    return tuple(1 if rng.random() < 0.3 else dim for dim in kept)


def unary(**attrs: Callable[[Random], Any]) -> Callable[[Random], Case]:
    return lambda rng: Case([shape(rng)], {name: make(rng) for name, make in attrs.items()})


def unary_backward(**attrs: Callable[[Random], Any]) -> Callable[[Random], Case]:
    def make(rng: Random) -> Case:
        one = shape(rng)
        return Case([one, one], {name: value(rng) for name, value in attrs.items()})

    return make


def positive(rng: Random) -> float:
    return rng.uniform(0.1, 2)


def boolean(rng: Random) -> bool:
    return rng.random() < 0.5


def binary(rng: Random) -> Case:
    target = shape(rng)
    if rng.random() < 0.2:
        return Case([target, target], {"auto_broadcast": mixed_case(rng, "none")})
    pair = [target, broadcastable(rng, target)]
    rng.shuffle(pair)
    if rng.random() < 0.3 and len(pair[0]) == len(pair[1]):
        # sizes of 1 on both sides
        pair[0] = tuple(1 if a == b and rng.random() < 0.3 else a for a, b in zip(*pair, strict=True))
    return Case(pair, {})


def select(rng: Random) -> Case:
    a, b = binary(rng).shapes
    rank = max(len(a), len(b))
    wide = [(1,) * (rank - len(one)) + one for one in (a, b)]
    target = tuple(map(max, *wide))
    return Case([broadcastable(rng, target), a, b], {}, ("boolean", "f32", "f32"))


class Window(NamedTuple):
    """One window problem whose every axis has at least one position."""

    spatial: tuple[int, ...]
    kernel: tuple[int, ...]
    attrs: dict[str, Any]


def window(rng: Random, *, dilate: bool = True) -> Window:
    rank = rng.randint(1, 3)

    def per_axis(low: int, high: int) -> tuple[int, ...]:
        return tuple(rng.randint(low, high) for _ in range(rank))

    kernel, strides = per_axis(1, 4), per_axis(1, 3)
    dilations = per_axis(1, 2) if dilate else (1,) * rank
    reach = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    begin = tuple(rng.randint(0, k - 1) for k in kernel)
    end = tuple(rng.randint(0, k - 1) for k in kernel)
    spatial = tuple(max(1, r) + rng.randint(0, 6) for r in reach)
    attrs = {
        "strides": rng.choice([strides, strides[0] if len(set(strides)) == 1 else strides]),
        "pads_begin": begin,
        "pads_end": list(end),
        "dilations": dilations,
        "data_format": mixed_case(rng, rng.choice(["NXC", "NCX"])),
    }
    auto_pad = rng.choice(["None", "None", "VALID", "SAME_UPPER", "SAME_LOWER"])
    if auto_pad != "None" or rng.random() < 0.2:
        attrs["auto_pad"] = mixed_case(rng, auto_pad)
    return Window(spatial, kernel, attrs)


def convolution(rng: Random) -> Case:
    problem = window(rng)
    groups = rng.choice([1, 1, 2, 3])
    ic, oc = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
    fmt = rng.choice(["OIX", "XIO"])
    src = data(rng, rng.randint(1, 3), ic, problem.spatial, problem.attrs["data_format"].upper())
    attrs = {**problem.attrs, "groups": groups, "weights_format": mixed_case(rng, fmt)}
    shapes = [src, weights(oc, ic // groups, problem.kernel, fmt)]
    return Case(shapes + ([(oc,)] if rng.random() < 0.4 else []), attrs)


def conv_transpose(rng: Random) -> Case:
    problem = window(rng)
    groups = rng.choice([1, 1, 2])
    ic, oc = groups * rng.randint(1, 3), groups * rng.randint(1, 3)
    fmt = rng.choice(["IOX", "XOI"])
    src = data(rng, rng.randint(1, 3), ic, problem.spatial, problem.attrs["data_format"].upper())
    attrs = {**problem.attrs, "groups": groups, "weights_format": mixed_case(rng, fmt)}
    strides = attrs["strides"]
    strides = (strides,) * len(problem.kernel) if isinstance(strides, int) else strides
    attrs["output_padding"] = tuple(rng.randint(0, stride - 1) for stride in strides)
    shapes = [src, weights(oc // groups, ic, problem.kernel, fmt)]
    return Case(shapes + ([(oc,)] if rng.random() < 0.4 else []), attrs)


def pool(rng: Random, *, maximum: bool) -> Case:
    problem = window(rng, dilate=maximum)
    attrs = {**problem.attrs, "kernel": problem.kernel, "rounding_type": rng.choice(["floor", "Ceil"])}
    if not maximum:
        attrs |= {"exclude_pad": boolean(rng)}
        del attrs["dilations"]
    elif rng.random() < 0.3 and set(attrs["dilations"]) == {1}:
        del attrs["dilations"]
    src = data(rng, rng.randint(1, 2), rng.randint(1, 5), problem.spatial, attrs["data_format"].upper())
    return Case([src], attrs)


def matmul(rng: Random) -> Case:
    batch = shape(rng, 0, 3)
    m, k, n = (rng.randint(1, 6) for _ in range(3))
    flags = {"transpose_a": boolean(rng), "transpose_b": boolean(rng)}
    a = (k,) if rng.random() < 0.15 else (*batch, *((k, m) if flags["transpose_a"] else (m, k)))
    other = broadcastable(rng, batch) if batch else ()
    b = (k,) if rng.random() < 0.15 else (*other, *((n, k) if flags["transpose_b"] else (k, n)))
    if len(a) == len(b) == 1:
        a = (m, k)
        flags["transpose_a"] = False
    shapes = [a, b]
    if len(a) > 1 and len(b) > 1 and rng.random() < 0.3:
        shapes.append((n,))
    return Case(shapes, flags)


def spatial_data(rng: Random) -> tuple[tuple[int, ...], int, str]:
    layout = rng.choice(["NXC", "NCX"])
    channels = rng.randint(1, 6)
    spatial = tuple(rng.randint(1, 5) for _ in range(rng.randint(1, 3)))
    return data(rng, rng.randint(1, 3), channels, spatial, layout), channels, layout


def batch_norm(count: int, **extra: float) -> Callable[[Random], Case]:
    def make(rng: Random) -> Case:
        src, channels, layout = spatial_data(rng)
        attrs = {"epsilon": 1e-5, "data_format": layout, **extra}
        return Case([src, *[(channels,)] * count], attrs)

    return make


def batch_norm_backward(rng: Random) -> Case:
    src, channels, layout = spatial_data(rng)
    # the library infers this op from four axes on
    if len(src) == 3:
        src = (src[0], *src[1:2], src[2]) if layout == "NCX" else src
        src = (*src, 3) if layout == "NCX" else (src[0], 3, *src[1:])
    return Case([src, src, *[(channels,)] * 3], {"epsilon": 1e-5, "data_format": layout})


def layer_norm(rng: Random) -> Case:
    src = shape(rng, 2, 5)
    attrs: dict[str, Any] = {"keep_stats": boolean(rng), "use_affine": boolean(rng)}
    if rng.random() < 0.5:
        attrs["begin_norm_axis"] = rng.choice([-1, len(src) - 1])
    return Case([src, *([src[-1:]] * 2 if attrs["use_affine"] else [])], attrs)


def layer_norm_backward(rng: Random) -> Case:
    src = shape(rng, 2, 5)
    affine = boolean(rng)
    shapes = [src, src, src[:-1], src[:-1], *([src[-1:]] * 2 if affine else [])]
    return Case(shapes, {"use_affine": affine})


def group_norm(rng: Random) -> Case:
    src, channels, layout = spatial_data(rng)
    groups = rng.choice([g for g in range(1, channels + 1) if channels % g == 0])
    attrs = {
        "groups": groups,
        "data_format": layout,
        "use_affine": boolean(rng),
        "keep_stats": boolean(rng),
    }
    return Case([src, *([(channels,)] * 2 if attrs["use_affine"] else [])], attrs)


def rms_norm(rng: Random) -> Case:
    src = shape(rng, 2, 4)
    return Case([src, src[-1:]], {})


def softmax(rng: Random) -> Case:
    src = shape(rng)
    return Case([src], {"axis": rng.randint(-len(src), len(src) - 1)})


def softmax_backward(rng: Random) -> Case:
    src = shape(rng)
    return Case([src, src], {"axis": rng.randint(-len(src), len(src) - 1)})


def prelu(rng: Random, *, backward: bool = False) -> Case:
    src, channels, layout = spatial_data(rng)
    per_channel = boolean(rng)
    slope = (channels,) if per_channel else broadcastable(rng, src)
    if not per_channel and len(slope) == 1:
        slope = src[-1:]
    if backward:
        # no attribute there: one axis means the channels
        return Case([src, slope if len(slope) > 1 else (channels,), src], {"data_format": layout})
    return Case([src, slope], {"data_format": layout, "per_channel_broadcast": per_channel})


def reduce(rng: Random) -> Case:
    src = shape(rng, 2, 5)
    axes = rng.sample(range(len(src)), rng.randint(1, len(src) - 1))
    # a size of 1 everywhere would leave the library nothing to reduce
    src = tuple(dim + 1 for dim in src)
    return Case([src], {"axes": [a - rng.choice([0, len(src)]) for a in axes], "keep_dims": boolean(rng)})


def concat(rng: Random) -> Case:
    first = shape(rng, 1, 5)
    axis = rng.randrange(len(first))
    shapes = [
        tuple(rng.randint(1, 5) if i == axis else d for i, d in enumerate(first)) for _ in range(rng.randint(1, 5))
    ]
    return Case(shapes, {"axis": axis - rng.choice([0, len(first)])})


def reshape(rng: Random) -> Case:
    src = shape(rng, 2, 5)
    target = [d for d in src if d != 1] or [1]
    rng.shuffle(target)
    if len(target) > 1 and rng.random() < 0.5:
        target[:2] = [target[0] * target[1]]
    if rng.random() < 0.5:
        target[rng.randrange(len(target))] = -1
    special = boolean(rng)
    if special and target[0] == src[0]:
        target[0] = 0
    return Case([src], {"shape": target, "special_zero": special})


def transpose(rng: Random) -> Case:
    src = shape(rng)
    order = list(range(len(src)))
    rng.shuffle(order)
    return Case([src], {"order": [axis - rng.choice([0, len(src)]) for axis in order]})


def interpolate(rng: Random, *, backward: bool = False) -> Case:
    src, channels, layout = spatial_data(rng)
    spatial = src[2:] if layout == "NCX" else src[1:-1]
    mode = rng.choice(["nearest", ["linear", "bilinear", "trilinear"][len(spatial) - 1]])
    attrs: dict[str, Any] = {"mode": mode, "data_format": layout}
    if rng.random() < 0.5:
        attrs["sizes"] = [rng.randint(1, 9) for _ in spatial]
        result = tuple(attrs["sizes"])
    else:
        attrs["scales"] = [rng.choice([1.0, 1.5, 2.0, 3.0, 2.3]) for _ in spatial]
        result = tuple(int(size * scale) for size, scale in zip(spatial, attrs["scales"], strict=True))
    return Case([src, *([data(rng, src[0], channels, result, layout)] if backward else [])], attrs)


def quantized(src_dtype: str, dtype: str | None) -> Callable[[Random], Case]:
    def make(rng: Random) -> Case:
        src = shape(rng, 2, 5)
        axis = rng.randrange(len(src))
        per_channel = boolean(rng)
        count = src[axis] if per_channel else 1
        attrs = {
            "qtype": "per_channel" if per_channel else "per_tensor",
            "axis": axis - rng.choice([0, len(src)]),
            "scales": [rng.uniform(0.1, 1) for _ in range(count)],
            "zps": [0] * count,
        }
        return Case([src], attrs, (src_dtype,), dtype)

    return make


def dynamic(src_dtype: str, dtype: str | None) -> Callable[[Random], Case]:
    def make(rng: Random) -> Case:
        src = shape(rng, 2, 5)
        axis = rng.randrange(len(src))
        per_channel = boolean(rng)
        count = (src[axis] if per_channel else 1,)
        attrs = {"qtype": "per_channel" if per_channel else "per_tensor", "axis": axis}
        zps = [count] if rng.random() < 0.5 else []
        dtypes = (src_dtype, "f32", *(["s32"] if zps else []))
        return Case([src, count, *zps], attrs, dtypes, dtype)

    return make


def bias_add(rng: Random) -> Case:
    src, channels, layout = spatial_data(rng)
    return Case([src, (channels,)], {"data_format": mixed_case(rng, layout)})


def bias_add_backward(rng: Random) -> Case:
    src, _, layout = spatial_data(rng)
    return Case([src], {"data_format": layout})


def gen_index(rng: Random) -> Case:
    src = shape(rng)
    return Case([src], {"axis": rng.randrange(len(src))})


MOVED = ("f32", "bf16", "f16", "s32", "s8", "u8")


def part(rng: Random) -> Case:
    src = shape(rng)
    axes = rng.sample(range(len(src)), rng.randint(1, len(src)))
    attrs: dict[str, Any] = {"steps": [rng.choice([1, 1, 1, 2, 3, -1, -2]) for _ in axes]}
    attrs |= {
        name: [rng.choice([rng.randint(-7, 7), -(2**63), 2**63 - 1]) for _ in axes] for name in ("starts", "ends")
    }
    attrs["axes"] = [axis - len(src) if boolean(rng) else axis for axis in axes]
    if sorted(axes) == list(range(len(axes))) and boolean(rng):
        del attrs["axes"]
    if boolean(rng):
        del attrs["steps"]
    return Case([src], attrs, (rng.choice([*MOVED, "boolean"]),))


def pad(rng: Random) -> Case:
    src, mode = shape(rng), rng.choice(["constant", "reflect", "edge", "wrap"])
    most = [{"reflect": size - 1, "wrap": size}.get(mode, 4) for size in src]
    attrs = {name: [rng.randint(0, min(m, 3)) for m in most] for name in ("pads_begin", "pads_end")}
    return Case([src], {**attrs, "mode": mixed_case(rng, mode), "value": rng.randint(0, 9)}, (rng.choice(MOVED),))


def gather(rng: Random) -> Case:
    src = shape(rng, most=4)
    dtypes = (rng.choice([*MOVED, "boolean"]), rng.choice(["s32", "s64"]))
    return Case([src, shape(rng, least=0, most=2)], {"axis": rng.randrange(-len(src), len(src))}, dtypes)


def dropout(rng: Random) -> Case:
    src = shape(rng)
    return Case([src, (), (1,), ()], {}, ("f32", "s64", "s64", "f32"), outputs=rng.choice([1, 2]))


GENERATORS: dict[str, Callable[[Random], Case]] = {
    **dict.fromkeys(("Abs", "Exp", "HardSwish", "Log", "Mish", "ReLU", "Reciprocal", "Round"), unary()),
    **dict.fromkeys(("Sigmoid", "Sqrt", "Square", "Tanh", "Reorder", "GELU", "SoftPlus"), unary()),
    **dict.fromkeys(("Cos", "Erf", "Sin"), unary()),
    **dict.fromkeys(("Elu", "LeakyReLU"), unary(alpha=positive)),
    "Clamp": unary(min=lambda rng: -1, max=positive),
    "HardSigmoid": unary(alpha=positive, beta=positive),
    "Pow": unary(beta=positive),
    **dict.fromkeys(("AbsBackward", "GELUBackward", "HardSwishBackward", "MishBackward"), unary_backward()),
    **dict.fromkeys(("ReLUBackward", "SigmoidBackward"), unary_backward(use_dst=boolean)),
    **dict.fromkeys(("SqrtBackward", "TanhBackward"), unary_backward(use_dst=boolean)),
    "SoftPlusBackward": unary_backward(),
    "EluBackward": unary_backward(alpha=positive, use_dst=boolean),
    "ClampBackward": unary_backward(min=lambda rng: -1, max=positive, use_dst=boolean),
    "HardSigmoidBackward": unary_backward(alpha=positive, beta=positive),
    **dict.fromkeys(("Add", "Divide", "Maximum", "Minimum", "Multiply"), binary),
    **dict.fromkeys(("SquaredDifference", "Subtract", "GreaterEqual"), binary),
    "Select": select,
    "TypeCast": lambda rng: Case([shape(rng)], {}, ("f32",), rng.choice(["bf16", "f16"])),
    "BiasAdd": bias_add,
    "BiasAddBackward": bias_add_backward,
    "PReLU": prelu,
    "PReLUBackward": lambda rng: prelu(rng, backward=True),
    "Convolution": convolution,
    "ConvTranspose": conv_transpose,
    "AvgPool": lambda rng: pool(rng, maximum=False),
    "MaxPool": lambda rng: pool(rng, maximum=True),
    "MatMul": matmul,
    "BatchNormInference": batch_norm(4),
    "BatchNormForwardTraining": batch_norm(2, momentum=0.1),
    "BatchNormTrainingBackward": batch_norm_backward,
    "LayerNorm": layer_norm,
    "LayerNormBackward": layer_norm_backward,
    "GroupNorm": group_norm,
    "RMSNorm": rms_norm,
    "SoftMax": softmax,
    "LogSoftmax": softmax,
    "SoftMaxBackward": softmax_backward,
    "LogSoftmaxBackward": softmax_backward,
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean"), reduce),
    **dict.fromkeys(("ReduceMin", "ReduceProd", "ReduceSum"), reduce),
    "Concat": concat,
    "StaticReshape": reshape,
    "StaticTranspose": transpose,
    "Interpolate": interpolate,
    "InterpolateBackward": lambda rng: interpolate(rng, backward=True),
    "Quantize": lambda rng: quantized("f32", rng.choice(["u8", "s8"]))(rng),
    "Dequantize": lambda rng: quantized(rng.choice(["u8", "s8"]), None)(rng),
    "DynamicQuantize": lambda rng: dynamic("f32", rng.choice(["u8", "s8"]))(rng),
    "DynamicDequantize": lambda rng: dynamic(rng.choice(["u8", "s8"]), None)(rng),
    "Gather": gather,
    "GenIndex": gen_index,
    "Pad": pad,
    "Slice": part,
    "Dropout": dropout,
    "End": unary(),
    "Wildcard": lambda rng: Case([shape(rng) for _ in range(rng.randint(0, 3))], {}),
}


def gradient(forward: str, roles: Callable[[Case, tuple[int, ...]], Case]) -> Callable[[Random], Case]:
    """A backward case out of a forward one, whose result shape is the expected one of its diff_dst."""
    from dnnl_graph_ops import schema, shapes

    def make(rng: Random) -> Case:
        case = GENERATORS[forward](rng)
        lengths = schema.attr_lengths(forward, len(case.shapes[0]))
        attrs = schema.normalise_attrs(forward, case.attrs, forward, ranks=lengths)
        return roles(case, shapes.checked(forward, case.metas, attrs, forward)[1][0].shape)

    return make


def without(attrs: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in attrs.items() if name not in names}


GENERATORS |= {
    "ConvolutionBackwardData": gradient(
        "Convolution",
        lambda case, dst: Case([dst, case.shapes[1]], {**case.attrs, "dst_shape": case.shapes[0]}),
    ),
    "ConvolutionBackwardWeights": gradient(
        "Convolution",
        lambda case, dst: Case([case.shapes[0], dst], {**case.attrs, "weights_shape": case.shapes[1]}),
    ),
    "AvgPoolBackward": gradient(
        "AvgPool",
        lambda case, dst: Case([dst], {**without(case.attrs, "rounding_type"), "src_shape": case.shapes[0]}),
    ),
    "MaxPoolBackward": gradient(
        "MaxPool", lambda case, dst: Case([case.shapes[0], dst], without(case.attrs, "rounding_type"))
    ),
    "ConvTransposeBackwardData": gradient(
        "ConvTranspose", lambda case, dst: Case([dst, case.shapes[1]], without(case.attrs, "output_padding"))
    ),
    "ConvTransposeBackwardWeights": gradient(
        "ConvTranspose",
        lambda case, dst: Case(
            [case.shapes[0], dst], {**without(case.attrs, "output_padding"), "weights_shape": case.shapes[1]}
        ),
    ),
}
