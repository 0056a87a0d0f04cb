"""Random graphs of many ops in mixed data formats, exact on small integers."""

from collections.abc import Callable

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

Drawn = tuple[dgo.Value, str]  # with its data format
NODES = 40
MOST = 6000  # elements of a value


class Draw:
    """One graph being drawn, and the values that may be read next."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        # what is not small is clamped, so that no dtype rounds a result
        self.dtype = str(rng.choice(["f32", "f32", "f32", "bf16", "f16"]))
        self.graph = dgo.Graph()
        self.rank = int(rng.choice([3, 4, 4, 4, 5]))
        self.live: list[Drawn] = []
        batch, size = int(rng.integers(1, 3)), int(rng.choice([4, 6]))
        for number in range(int(rng.integers(1, 4))):
            channels = int(rng.choice([1, 3, 4, 16]))
            fmt = str(rng.choice(["NCX", "NXC"]))
            spatial = (size,) * (self.rank - 2)
            shape = (batch, channels, *spatial) if fmt == "NCX" else (batch, *spatial, channels)
            self.live.append((self.graph.input(f"x{number}", shape, self.dtype), fmt))

    def pick(self) -> Drawn:
        # mostly one of the last few, so that graphs are deep
        back = min(int(self.rng.geometric(0.4)), len(self.live))
        return self.live[-back]

    def ints(self, *shape: int, least: int = -1, most: int = 1) -> np.ndarray:
        return self.rng.integers(least, most + 1, shape).astype(dgo.dtypes.numpy_dtype(self.dtype))

    def spatial(self, value: dgo.Value, fmt: str) -> tuple[int, ...]:
        return value.shape[2:] if fmt == "NCX" else value.shape[1:-1]

    def channels(self, value: dgo.Value, fmt: str) -> int:
        return value.shape[1 if fmt == "NCX" else -1]

    def along_channels(self, value: dgo.Value, fmt: str, least: int = -1, most: int = 1) -> np.ndarray:
        array = self.ints(self.channels(value, fmt), least=least, most=most)
        return array.reshape(1, -1, *(1,) * (self.rank - 2)) if fmt == "NCX" else array

    def small(self, value: dgo.Value) -> dgo.Value:
        """Integers again, and small ones."""
        return ops.clamp(ops.round(value), min=-4.0, max=4.0)


def convolution(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    channels = draw.channels(value, fmt)
    out, kernel = int(draw.rng.choice([1, 4, 8, 12, 16])), int(draw.rng.choice([1, 3]))
    weights = draw.ints(out, channels, *(kernel,) * (draw.rank - 2))
    pad, stride = kernel // 2, int(draw.rng.choice([1, 1, 2]))
    keywords = {"weights_format": "OIX", "data_format": fmt, "pads_begin": pad, "pads_end": pad, "strides": stride}
    bias = draw.ints(out) if draw.rng.random() < 0.5 else None
    result = ops.convolution(value, weights, bias, **keywords)
    if draw.rng.random() < 0.5:
        result = ops.relu(result)
    return draw.small(result)


def upsampled(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    channels, kernel = draw.channels(value, fmt), int(draw.rng.choice([2, 4]))
    weights = draw.ints(channels, int(draw.rng.choice([1, 4, 8])), *(kernel,) * (draw.rank - 2))
    pad = kernel // 2 - 1
    keywords = {"weights_format": "IOX", "data_format": fmt, "pads_begin": pad, "pads_end": pad, "strides": 2}
    return draw.small(ops.conv_transpose(value, weights, **keywords))


def unary(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    return draw.rng.choice([ops.relu, ops.abs, draw.small])(value)


def binary(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    others = [other for other, its in draw.live if other.shape == value.shape and its == fmt]
    op = draw.rng.choice([ops.add, ops.subtract, ops.maximum, ops.multiply])
    full = draw.ints(*(n if draw.rng.random() < 0.7 else 1 for n in value.shape))
    operand = [others[draw.rng.integers(len(others))], draw.along_channels(value, fmt), full][draw.rng.integers(3)]
    return draw.small(op(value, operand))


def joined(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    axis = 1 if fmt == "NCX" else draw.rank - 1
    if draw.rng.random() < 0.2:
        axis = int(draw.rng.integers(draw.rank))
    others = [
        other
        for other, its in draw.live
        if its == fmt
        and all(a == b for i, (a, b) in enumerate(zip(other.shape, value.shape, strict=True)) if i != axis)
    ]
    more = [others[i] for i in draw.rng.integers(len(others), size=draw.rng.integers(1, 3))]
    if draw.rng.random() < 0.2:
        more.append(draw.graph.constant(draw.ints(*value.shape)))
    return ops.concat(value, *more, axis=axis)


def pooled(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    keywords = dict.fromkeys(("strides", "kernel"), (2,) * (draw.rank - 2))
    zeros = (0,) * (draw.rank - 2)
    keywords |= {"pads_begin": zeros, "pads_end": zeros, "data_format": fmt}
    if draw.rng.random() < 0.5:
        return ops.max_pool(value, **keywords)
    return draw.small(ops.avg_pool(value, exclude_pad=False, **keywords))


def resized(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    sizes = tuple(2 * n for n in draw.spatial(value, fmt))
    return ops.interpolate(value, mode="nearest", sizes=sizes, data_format=fmt)


def normalised(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    count = draw.channels(value, fmt)
    gamma, beta, mean = (draw.ints(count, least=-2, most=2).astype(np.float32) for _ in range(3))
    variance = np.full(count, 4.0, np.float32)
    result = ops.batch_norm_inference(value, gamma, beta, mean, variance, epsilon=0.0, data_format=fmt)
    return draw.small(result)


def sloped(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    return draw.small(ops.prelu(value, draw.ints(draw.channels(value, fmt)), data_format=fmt))


def flattened(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    """Spatial axes as one, and apart again."""
    batch, channels, spatial = value.shape[0], draw.channels(value, fmt), draw.spatial(value, fmt)
    shape = (batch, channels, -1) if fmt == "NCX" else (batch, -1, channels)
    flat = ops.relu(ops.static_reshape(value, shape=shape, special_zero=False))
    back = (batch, channels, *spatial) if fmt == "NCX" else (batch, *spatial, channels)
    return ops.static_reshape(flat, shape=back, special_zero=False)


def shuffled(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    """Channels of groups taken in turn."""
    axis = 1 if fmt == "NCX" else draw.rank - 1
    count = value.shape[axis]
    groups = 2 if count % 2 == 0 else 1
    shape = (*value.shape[:axis], groups, count // groups, *value.shape[axis + 1 :])
    order = list(range(len(shape)))
    order[axis : axis + 2] = axis + 1, axis
    apart = ops.static_transpose(ops.static_reshape(value, shape=shape, special_zero=False), order=order)
    return ops.static_reshape(apart, shape=value.shape, special_zero=False)


def gated(draw: Draw, value: dgo.Value, fmt: str) -> dgo.Value:
    axes = list(range(2, draw.rank)) if fmt == "NCX" else list(range(1, draw.rank - 1))
    return draw.small(ops.multiply(value, ops.reduce_max(value, axes=axes, keep_dims=True)))


SAME: list[Callable[[Draw, dgo.Value, str], dgo.Value]] = [
    *(convolution,) * 4,
    unary,
    *(binary,) * 3,
    *(joined,) * 3,
    normalised,
    sloped,
    flattened,
    shuffled,
    gated,
]
SMALLER = [pooled]
LARGER = [upsampled, resized]


def step(draw: Draw) -> None:
    """One more op, or a few that belong together."""
    value, fmt = draw.pick()
    if draw.rng.random() < 0.12:
        other = "NXC" if fmt == "NCX" else "NCX"
        order = (0, *range(2, draw.rank), 1) if fmt == "NCX" else (0, draw.rank - 1, *range(1, draw.rank - 1))
        draw.live.append((ops.static_transpose(value, order=order), other))
        return
    spatial = draw.spatial(value, fmt)
    choices = [*SAME]
    choices += SMALLER * (2 if min(spatial) >= 2 else 0)
    choices += LARGER if max(spatial) <= 4 and np.prod(value.shape) * 2 ** (draw.rank - 2) < MOST else []
    result = choices[draw.rng.integers(len(choices))](draw, value, fmt)
    if np.prod(result.shape) < MOST:
        draw.live.append((result, fmt))


def random_graph(rng: np.random.Generator) -> tuple[dgo.Graph, list[dgo.Value]]:
    """A graph and its outputs: what nothing reads, and something between."""
    draw = Draw(rng)
    while len(draw.graph.nodes) < NODES:
        step(draw)
    read = {value for node in draw.graph.nodes for value in node.inputs}
    outputs = [v for node in draw.graph.nodes for v in node.outputs if v not in read]
    inner = [value for node in draw.graph.nodes for value in node.outputs if value in read]
    outputs += [inner[i] for i in rng.integers(len(inner), size=2)]
    return draw.graph, list(dict.fromkeys(outputs))


def laid_out(rng: np.random.Generator, value: dgo.Value) -> np.ndarray:
    """An array whose axes lie in memory in some order, perhaps with gaps."""
    shape = value.shape
    order = rng.permutation(len(shape)) if rng.random() < 0.6 else np.arange(len(shape))
    gap = int(rng.integers(0, 3)) if rng.random() < 0.3 else 0
    inner = [shape[axis] for axis in order]
    inner[-1] += gap
    array = np.full(inner, np.nan, dgo.dtypes.numpy_dtype(value.dtype))[..., : inner[-1] - gap]
    return array.transpose(np.argsort(order))
