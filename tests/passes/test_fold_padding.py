"""Slices of a convolution's result are taken into its pads, where that is the same."""

import random

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

pytestmark = pytest.mark.choice

CASES = (30, 60, 1000)


def case(choose):
    rank = choose.choice((1, 1, 2, 3))
    layout = choose.choice(("NCX", "NXC"))
    kernel = [choose.randint(1, 4) for _ in range(rank)]
    strides = [choose.choice((1, 1, 2, 3)) for _ in range(rank)]
    dilations = [choose.choice((1, 1, 2)) for _ in range(rank)]
    reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
    begin, end = ([choose.randint(0, r) for r in reach] for _ in range(2))
    src = [choose.randint(r + 1, r + 12) for r in reach]
    return layout, kernel, {
        "strides": strides, "dilations": dilations, "pads_begin": begin, "pads_end": end, "data_format": layout,
        "weights_format": "OIX",
    }, src  # fmt: skip


def test_at_random(seed, amount):
    taken = 0
    for number in range(amount(*CASES)):
        choose = random.Random(f"{seed} {number}")
        rng = np.random.default_rng(choose.randrange(1 << 32))
        layout, kernel, keywords, src = case(choose)
        shape = (2, 4, *src) if layout == "NCX" else (2, *src, 4)
        x = rng.integers(-3, 4, shape).astype(np.float32)
        w = rng.integers(-3, 4, (6, 4, *kernel)).astype(np.float32)
        whole = dgo.convolution(x, w, **keywords)
        graph = dgo.Graph()
        y = ops.convolution(graph.input("x", x.shape), graph.constant(w), **keywords)
        first = 2 if layout == "NCX" else 1
        cut = [slice(None)] * whole.ndim
        for axis in range(first, first + len(src)):
            begin = choose.choice((0, 0, choose.randrange(whole.shape[axis])))
            cut[axis] = slice(begin, choose.randint(begin + 1, whole.shape[axis]))
        starts, ends = (
            [one.start or 0 for one in cut],
            [n if one.stop is None else one.stop for one, n in zip(cut, whole.shape, strict=True)],
        )
        net = graph.compile(ops.relu(ops.slice(y, starts=starts, ends=ends)))
        want = np.maximum(whole[tuple(cut)], 0)
        message = f"seed {seed}, number {number}: {keywords}, src {x.shape}, kernel {kernel}, slice {cut}"
        np.testing.assert_array_equal(net(x), want, err_msg=message)
        taken += not any("Slice" in step.step or "opy" in step.step for step in net.explain().steps)
        if number == 0:
            print(message)
    assert taken


def test_what_a_causal_convolution_cuts_off(rng):
    """Padded on both sides, and cut at the end: one step with what follows."""
    graph = dgo.Graph()
    x = rng.integers(-3, 4, (1, 16, 200)).astype(np.float32)
    w = rng.integers(-3, 4, (16, 16, 3)).astype(np.float32)
    keywords = {"data_format": "NCX", "weights_format": "OIX", "dilations": [2]}
    y = ops.convolution(graph.input("x", x.shape), graph.constant(w), pads_begin=4, pads_end=4, **keywords)
    net = graph.compile(ops.relu(ops.slice(y, starts=[0], ends=[-4], axes=[2])))
    want = np.maximum(dgo.convolution(x, w, pads_begin=4, pads_end=0, **keywords), 0)
    np.testing.assert_array_equal(net(x), want)
    assert net.explain().to_dict()["partitions"][0]["kinds"] == ("Convolution", "Slice", "ReLU")
    assert not any("Slice" in step.step or step.step == "ReLU" for step in net.explain().steps)
