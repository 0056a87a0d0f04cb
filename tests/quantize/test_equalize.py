"""Cross-layer equalization: which channels are scaled, by what, and what it gains."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from reference import conv_transpose as ct

import dnnl_graph_ops as dgo
from dnnl_graph_ops.ir import GraphView
from dnnl_graph_ops.quantize import calibrate, equalize

Array = np.ndarray
FORMATS = ("OIX", "IOX", "XIO", "XOI")


def equalized(graph: dgo.Graph, output: dgo.Value) -> dgo.Graph:
    """The graph itself, its convolutions scaled."""
    view = GraphView(graph.nodes, [output])
    equalize.run(view)
    graph.nodes[:] = view.nodes()
    return graph


def weights_of(graph: dgo.Graph) -> list[Array]:
    return [np.asarray(node.inputs[1].constant) for node in graph.nodes if node.kind.startswith("Conv")]


def uneven(rng: np.random.Generator, *shape: int, axis: int) -> Array:
    """Channels along an axis of which the largest is 1000 times the smallest."""
    factors = np.geomspace(1e-2, 10, shape[axis])
    rng.shuffle(factors)
    wide = rng.standard_normal(shape) * factors.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    return wide.astype(np.float32)


@pytest.mark.sweep
@pytest.mark.parametrize("fmt", FORMATS)
@pytest.mark.parametrize("groups", [(1, 1), (2, 1), (1, 3), (2, 3), (12, 12)])
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_both_have_the_same_range_in_each_channel(
    fmt: str, groups: tuple[int, int], transposed: tuple[bool, bool], seed: int
) -> None:
    """In weights of any order, (in channels, out channels of a group, taps) or the other way round."""
    rng = np.random.default_rng(seed)
    g = dgo.Graph()
    value = g.input("x", (1, 7, 6, 12))
    ranges: list[Callable[[Array, int], Array]] = []
    for group, back in zip(groups, transposed, strict=True):
        shape = (12, 12 // group, 3, 2)
        array = uneven(rng, *shape, axis=0)
        builder = dgo.ops.conv_transpose if back else dgo.ops.convolution
        given = ct.from_iox(array if back else array.swapaxes(0, 1), fmt)
        value = builder(value, np.ascontiguousarray(given), groups=group, weights_format=fmt)
        value = value if ranges else dgo.ops.leaky_relu(value, alpha=0.25)
        ranges.append(lambda array, side, back=back, group=group: _range(array, fmt, back, group, side))
    x = rng.standard_normal((1, 7, 6, 12)).astype(np.float32)
    want = g.compile(value)(x)
    made, read = (of(array, side) for of, array, side in zip(ranges, weights_of(g), (1, 0), strict=True))
    equal = np.sqrt(made * read)
    got = equalized(g, value).compile(value)(x)
    for of, array, side in zip(ranges, weights_of(g), (1, 0), strict=True):
        np.testing.assert_allclose(of(array, side), equal, rtol=1e-6)
    np.testing.assert_allclose(got, want, atol=2e-6 * np.abs(want).max())


def _range(weights: Array, fmt: str, transposed: bool, groups: int, side: int) -> Array:
    """The largest magnitude for each channel read (0) or made (1), by a loop over all weights' places."""
    iox = np.abs(ct.to_iox(weights, fmt)).max((2, 3))
    largest = np.zeros(12)
    of_group = 12 // groups
    for i, o in np.ndindex(*iox.shape):
        # the shorter axis has the channels of one group
        group = (i if transposed else o) // of_group
        channels = (i, o + group * of_group * (groups > 1)) if transposed else (i + group * of_group * (groups > 1), o)
        largest[channels[side]] = max(largest[channels[side]], iox[i, o])
    return largest


def test_channels_of_zeros_or_of_infinity_stay() -> None:
    g = dgo.Graph()
    first, second = np.ones((1, 1, 4, 3), np.float32), np.full((1, 1, 3, 2), 4, np.float32)
    first[..., 0], second[..., 1, :] = 0, np.inf
    y = dgo.ops.convolution(g.input("x", (1, 2, 2, 4)), first)
    y = dgo.ops.convolution(dgo.ops.relu(y), second)
    one, two = weights_of(equalized(g, y))
    np.testing.assert_array_equal(one[0, 0, 0], [0, 1, 2])
    np.testing.assert_array_equal(two[0, 0, :, 0], [4, np.inf, 2])


def test_what_is_no_multiple_behind_it_is_not_scaled() -> None:
    g, rng = dgo.Graph(), np.random.default_rng(0)
    y = dgo.ops.convolution(g.input("x", (1, 4, 4, 4)), uneven(rng, 1, 1, 4, 8, axis=3))
    y = dgo.ops.convolution(dgo.ops.clamp(y, min=0.0, max=6.0), uneven(rng, 1, 1, 8, 4, axis=2))
    before = weights_of(g)
    for array, same in zip(weights_of(equalized(g, y)), before, strict=True):
        np.testing.assert_array_equal(array, same)


def test_depthwise_layers_lose_less(seed: int) -> None:
    """A batch norm before has given their channels ranges far apart, which the next layer makes up for."""
    rng = np.random.default_rng(seed)
    g = dgo.Graph()
    y = g.input("x", (1, 12, 12, 8))
    sizes = np.ones(8)
    for number in range(3):
        factors = np.exp(rng.normal(0, 1, 16))
        # of what comes in with ranges `sizes`
        wide = rng.standard_normal((1, 1, 8 if number == 0 else 16, 16)) / sizes[:, None] * factors
        y = dgo.ops.relu(dgo.ops.convolution(y, wide.astype(np.float32)))
        again = np.exp(rng.normal(0, 1, 16))
        wide = rng.standard_normal((3, 3, 1, 16)) / factors * again
        y = dgo.ops.relu(dgo.ops.convolution(y, wide.astype(np.float32), groups=16, pads_begin=1, pads_end=1))
        sizes = again
    g.outputs["y"] = dgo.ops.convolution(y, (rng.standard_normal((1, 1, 16, 4)) / sizes[:, None]).astype(np.float32))
    before = weights_of(g)
    samples = [rng.standard_normal((1, 12, 12, 8)).astype(np.float32) for _ in range(4)]
    plain, even = (calibrate(g, samples, equalize=scales).errors[0].signal_to_noise_db for scales in (False, True))
    assert even > plain + 3
    for array, same in zip(weights_of(g), before, strict=True):
        np.testing.assert_array_equal(array, same)
