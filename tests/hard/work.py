"""What the soaks and the race tests call: nets and one-shot functions of mixed small shapes, with their results."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.net.net import Net


@dataclass(frozen=True)
class Case:
    name: str
    run: Callable[..., np.ndarray]  # takes `out`
    expected: np.ndarray

    def check(self, out: np.ndarray | None = None) -> None:
        result = self.run() if out is None else self.run(out=out)
        if not np.array_equal(result, self.expected):
            wrong = np.flatnonzero(result != self.expected)
            raise AssertionError(f"{self.name}: {wrong.size} of {result.size} elements differ, the first at {wrong[0]}")


class Draw:
    """Integers so small that every sum of products is exact."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def __call__(self, *shape: int) -> np.ndarray:
        return self.rng.integers(-4, 5, shape).astype(np.float32)


FAMILY: dict[str, Any] = {"strides": 2, "pads_begin": 1, "pads_end": 1}


IMAGE = {"strides": 1, "pads_begin": 1, "pads_end": 1, "dilations": 1, "data_format": "NCX", "weights_format": "OIX"}


def up_net(weights: np.ndarray) -> Net:
    """Any image size; packed weights; relu as a post-op."""
    g = dgo.Graph()
    src = g.input("src", (None, None, None, weights.shape[-1]))
    return g.compile(ops.relu(ops.conv_transpose(src, g.constant(weights), **FAMILY)))


def dense_net(first: np.ndarray, second: np.ndarray) -> Net:
    """Two products with packed weights and something between them."""
    g = dgo.Graph()
    hidden = ops.relu(ops.matmul(g.input("src", (None, first.shape[0])), g.constant(first)))
    return g.compile(ops.matmul(hidden, g.constant(second)))


def image_net(weights: np.ndarray) -> Net:
    """Channels first, several steps with buffers between them."""
    g = dgo.Graph()
    src = g.input("src", (None, weights.shape[1], 12, 12))
    x = ops.convolution(src, g.constant(weights), **IMAGE)
    x = ops.max_pool(ops.abs(x), strides=2, kernel=2, pads_begin=0, pads_end=0, data_format="NCX")
    return g.compile(ops.softmax(x, axis=1))


def chain_net(weights: list[np.ndarray], length: int | None = None) -> Net:
    """Layers behind each other, each with a ReLU and its source added; any length, or one."""
    g = dgo.Graph()
    x = g.input("src", (1, weights[0].shape[1], length))
    for one in weights:
        x = x + ops.relu(ops.convolution(x, g.constant(one), **IMAGE))
    return g.compile(x)


def plain_net(weights: list[np.ndarray], length: int | None = None) -> Net:
    """Layers behind each other; any length, or one."""
    g = dgo.Graph()
    x = g.input("src", (1, weights[0].shape[1], length))
    for one in weights:
        x = ops.convolution(x, g.constant(one), **IMAGE)
    return g.compile(x)


def wide_net(weights: np.ndarray) -> Net:
    """More scratch than plans keep for themselves."""
    g = dgo.Graph()
    src = g.input("src", (None, 24, 24, weights.shape[-1]))
    x = ops.conv_transpose(src, g.constant(weights), strides=2)
    return g.compile(ops.conv_transpose(ops.square(x), g.constant(weights), strides=2))


def _nets(draw: Draw) -> Iterator[tuple[str, Net, list[np.ndarray]]]:
    yield "up", up_net(draw(4, 4, 8, 16)), [draw(1 + n % 2, 3 + n, 5, 16) for n in range(4)]
    yield "dense", dense_net(draw(32, 48), draw(48, 8)), [draw(rows, 32) for rows in (1, 4, 7)]
    yield "image", image_net(draw(8, 4, 3, 3)), [draw(n, 4, 12, 12) for n in (1, 2)]
    yield "wide", wide_net(draw(2, 2, 8, 8)), [draw(n, 24, 24, 8) for n in (1, 2)]


def _functions(draw: Draw) -> Iterator[tuple[str, Callable[..., np.ndarray], tuple[np.ndarray, ...], dict[str, Any]]]:
    for n in range(3):
        src, weights, diff = draw(2, 4 + n, 6, 16), draw(4, 4, 8, 16), draw(2, 8 + 2 * n, 12, 8)
        yield "forward", dgo.conv_transpose, (src, weights), FAMILY
        yield "backward data", dgo.conv_transpose_backward_data, (diff, weights), FAMILY
        yield "backward weights", dgo.conv_transpose_backward_weights, (src, diff), FAMILY
        yield "backward bias", dgo.conv_transpose_backward_bias, (diff,), {}
        depthwise = {"groups": 16, "data_format": "NCX", "weights_format": "IOX", "strides": 2}
        yield "depthwise", dgo.conv_transpose, (draw(1, 16, 6 + n, 6), draw(16, 1, 3, 3)), depthwise


def cases(seed: int) -> list[Case]:
    """About thirty; computed once here, by one thread."""
    draw = Draw(seed)
    found = []
    for name, net, sources in _nets(draw):
        for src in sources:
            found.append((f"{name} {src.shape}", lambda net=net, src=src, **out: net(src, **out)))
    for name, function, arrays, attributes in _functions(draw):

        def run(function=function, arrays=arrays, attributes=attributes, **out):
            return function(*arrays, **attributes, **out)

        found.append((f"{name} {[a.shape for a in arrays]}", run))
    return [Case(name, run, run()) for name, run in found]
