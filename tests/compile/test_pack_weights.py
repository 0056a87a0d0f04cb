"""Packed constants are made once for all plans of a graph, and a new size is right whatever came before it."""

import gc

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import dtypes, ops
from dnnl_graph_ops._core import kernels
from dnnl_graph_ops.algorithms import table
from dnnl_graph_ops.algorithms.choice import grid
from dnnl_graph_ops.compile import pack_weights
from dnnl_graph_ops.graph.constants import owner_of
from dnnl_graph_ops.graph.files import Pages
from dnnl_graph_ops.onednn.partition import Compiled


def arrays_of(net):
    """The packed arrays that the plans of a net work on, by address."""
    return {
        view.buffer.array.ctypes.data
        for plan in plans(net)
        for view in constants(plan)
        if view.buffer.array is not None
    }


def plans(net):
    return [net._whole(executor).plan for executor in net._plans.executors()]


def constants(plan):
    return [view for part in plan.parts for view in getattr(part, "reads", ()) if view.is_constant]


def small(rng, *shape):
    return rng.integers(-2, 3, shape).astype(np.float32)


def layer(graph, x, weights, **attrs):
    return ops.conv_transpose(x, graph.constant(weights), data_format="NCX", weights_format="IOX", **attrs)


def open_net(rng, rank=1, **attrs):
    graph = dgo.Graph()
    x = graph.input("x", (None, 48, *[None] * rank))
    return graph.compile(layer(graph, x, small(rng, 48, 32, *[4] * rank), strides=2, pads_begin=1, pads_end=1, **attrs))


def test_weights_are_packed_once_for_all_sizes(rng):
    net = open_net(rng)
    for size in (300, 301, 517, 1024):
        net(np.ones((1, 48, size), np.float32))
    assert len(plans(net)) == 4
    assert len(arrays_of(net)) == 1


def test_short_rows_share_them_too(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 32, None))
    net = graph.compile(layer(graph, x, small(rng, 32, 32, 16), strides=8, pads_begin=4, pads_end=4))
    for size in range(1000, 20, -49):
        net(np.ones((1, 32, size), np.float32))
    assert len(arrays_of(net)) == 1


def test_nets_of_a_graph_share_them_and_the_last_one_frees_them(rng):
    gc.collect()
    before = len(pack_weights.kept())
    graph = dgo.Graph()
    x = graph.input("x", (1, 48, None))
    y = layer(graph, x, small(rng, 48, 32, 4), strides=2)
    nets = [graph.compile(y), graph.compile(ops.relu(y))]
    for net in nets:
        net(np.ones((1, 48, 300), np.float32))
    del net
    assert arrays_of(nets[0]) == arrays_of(nets[1]) != set()
    assert len(pack_weights.kept()) == before + 1
    del nets, graph, x, y
    gc.collect()
    assert len(pack_weights.kept()) == before


def test_large_ones_have_pages_of_their_own(rng):
    """Weights of 4 MB take pages that are freed one by one; those of a few KB share what NumPy allocates."""
    graph = dgo.Graph()
    y = graph.input("x", (1, 512, 64))
    for channels in (512, 512, 4):
        y = layer(graph, y, small(rng, 512, channels, 3), pads_begin=1, pads_end=1)
    (plan,) = plans(graph.compile(y, tune="heuristic", algorithm="direct"))
    packed = [view.buffer.array for view in constants(plan) if view.buffer.array is not None]
    owners = [owner_of(array)[0] for array in packed if array.nbytes >= 512 * 512 * 3 * 4]
    assert len(owners) == 2 and all(isinstance(owner, Pages) for owner in owners)
    assert owners[0] is not owners[1]
    assert not any(isinstance(owner_of(array)[0], Pages) for array in packed if array.nbytes < 1 << 16)


def test_what_is_folded_into_weights_is_packed_once_too(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 48, None))
    y = layer(graph, x, small(rng, 48, 32, 4), strides=2)
    scale = graph.constant(small(rng, 1, 32, 1) + 3)
    net = graph.compile(ops.relu(y * scale + graph.constant(small(rng, 1, 32, 1))))
    for size in (300, 301, 517):
        net(np.ones((1, 48, size), np.float32))
    large = {view.buffer.array.ctypes.data for plan in plans(net) for view in constants(plan) if view.size > 48 * 32}
    assert len(large) == 1


def test_other_weights_are_other_arrays(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 48, None))
    weights = [small(rng, 48, 48, 3), small(rng, 48, 48, 3)]
    net = graph.compile([layer(graph, x, w) for w in weights])
    data = small(rng, 1, 48, 300)
    for y, w in zip(net(data), weights, strict=True):
        np.testing.assert_array_equal(y, dgo.conv_transpose(data, w, data_format="NCX", weights_format="IOX"))
    assert len(arrays_of(net)) == 2


@pytest.mark.parametrize("rank", [1, 2])
def test_a_size_is_exact_whatever_came_before(rng, rank):
    net = open_net(rng, rank)
    (weights,) = (value.constant for value in net._constants)
    for _ in range(24):
        shape = (int(rng.integers(1, 4)), 48, *map(int, rng.integers(1, 70, rank)))
        data = small(rng, *shape)
        kept = {"strides": 2, "pads_begin": 1, "pads_end": 1, "data_format": "NCX", "weights_format": "IOX"}
        if min(shape[2:]) == 1:
            continue
        np.testing.assert_array_equal(net(data), dgo.conv_transpose(data, weights, **kept), str(shape))


@pytest.mark.choice
def test_the_choice_does_not_depend_on_what_came_before(rng):
    sizes = [2, 3, 9, 17, 40, 200, 900]
    found = []
    for order in (sizes, sizes[::-1]):
        net = open_net(np.random.default_rng(1))
        chosen = {}
        for size in order:
            net(np.ones((1, 48, size), np.float32))
            chosen[size] = net._latest().lowering.decisions[0][1].formulation
        found.append(chosen)
    assert found[0] == found[1]


def test_the_grid_is_near_every_size():
    for size in range(1, 5000):
        assert size <= grid(size) < 1.25 * size
        assert grid(grid(size)) == grid(size)
    assert len({grid(size) for size in range(17, 4097)}) == 32


@pytest.mark.choice
def test_long_rows_of_few_channels_leave_nothing_for_the_library_to_compile(rng):
    graph = dgo.Graph()
    x = graph.input("x", (1, 32, None))
    same = {"pads_begin": 5, "pads_end": 5, "dilations": 5, "data_format": "NCX", "weights_format": "OIX"}
    net = graph.compile(ops.convolution(x, graph.constant(small(rng, 32, 32, 3)), **same))
    net(np.ones((1, 32, 40_000), np.float32))
    assert not any(isinstance(part, Compiled) for part in net._latest().plan.parts)


@pytest.mark.parametrize("tile", [1, 2, 3])
def test_packing_for_any_size_is_one(tile):
    def packing(size, any_size):
        problem = kernels.FilterProblem(
            1, 64, 64, [size], [8 * size], [16], [8], [4], [tile], groups=1, any_size=any_size
        )
        return problem.packing("dgrad")

    assert len({packing(size, True) for size in range(2, 200)}) == 1
    # that of sizes of their own differs
    assert len({packing(size, False) for size in range(1, 200)}) > 1 or tile == 1


def in_f32(graph, w):
    return lambda x: x, graph.constant(w)


def in_int8(graph, w):
    """Of zero points, which the library's own products are not trusted with."""
    w = ops.dequantize(graph.constant(w.astype(np.int8)), scales=[1.0], zps=[1])
    return lambda x: ops.dequantize(ops.quantize(x, scales=[1.0], zps=[3], dtype="s8"), scales=[1.0], zps=[3]), w


FORMS = [(in_f32, "builtin direct"), (in_int8, "builtin integer")] + [(in_f32, "builtin bf16")] * bool(
    kernels.bf16_isa()[0]
)


@pytest.mark.parametrize(("taken", "form"), FORMS)
def test_a_convolution_and_a_transposed_one_of_the_same_weights(rng, monkeypatch, taken, form):
    """Of one tap and as many channels on both sides: they read the weights transposed to each other."""
    monkeypatch.setattr(table, "ALGORITHMS", tuple(f for f in table.ALGORITHMS if f.name == form))
    dtype = "bf16" if form == "builtin bf16" else "f32"
    graph, x, w = dgo.Graph(), small(rng, 1, 6, 16), small(rng, 16, 16, 1)
    given, weights = taken(graph, w.astype(dtypes.numpy_dtype(dtype)))
    source = given(graph.input("x", x.shape, dtype))
    ways = {"OIX": ops.convolution, "IOX": ops.conv_transpose}
    nets = [graph.compile(build(source, weights, data_format="NXC", weights_format=o)) for o, build in ways.items()]
    factor = w[..., 0] - (taken is in_int8)
    for net, wanted in zip(nets, (x @ factor.T, x @ factor), strict=True):
        np.testing.assert_array_equal(net(x.astype(dtypes.numpy_dtype(dtype))).astype(np.float32), wanted)
        assert {part.formulation for part in net.explain().partitions} >= {form}
