"""What constants alone lead to is computed once, and is what weights are packed of."""

import pickle

import numpy as np
import pytest
from children import child
from compile.test_pack_weights import arrays_of, plans

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.compile import specialise


def small(rng, *shape):
    return rng.integers(-2, 3, shape).astype(np.float32)


def normed(graph, x, rng, channels=32):
    """A layer whose weights are a direction times a length, as weight norm has them; and these weights."""
    direction = rng.choice([-1.0, 1.0], (channels, channels, 4)).astype(np.float32)  # each row has the length 8 sqrt(2)
    length = (np.float32(2) ** rng.integers(0, 3, (channels, 1, 1))).astype(np.float32)
    v = graph.constant(direction)
    square = ops.reduce_sum(v * v, axes=[1, 2], keep_dims=True)
    weights = v * (graph.constant(length) * 128.0 / square)
    return ops.convolution(x, weights, data_format="NCX", weights_format="OIX"), direction * length


def kinds(net):
    return [kind for part in net.partitions for kind in part.kinds] + [step.step for step in net.explain().steps]


def test_weights_of_a_weight_norm_are_constants(rng):
    graph = dgo.Graph()
    x = small(rng, 2, 32, 50)
    y, weights = normed(graph, graph.input("x", x.shape), rng)
    net = graph.compile(ops.relu(y))
    want = np.maximum(dgo.convolution(x, weights, data_format="NCX", weights_format="OIX"), 0)
    np.testing.assert_array_equal(net(x), want)
    assert not any(word in text for text in kinds(net) for word in ("Reduce", "Multiply", "Divide"))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(net))(x), want)
    np.testing.assert_array_equal(graph.compile(ops.relu(y), tune="off")(x), want)


def test_they_are_computed_and_packed_once_for_all_sizes(rng, monkeypatch):
    graph = dgo.Graph()
    y, weights = normed(graph, graph.input("x", (1, 32, None)), rng)
    net = graph.compile(y)
    made = []
    prepared = specialise._prepared

    def counted(*args, **options):
        compute = prepared(*args, **options)
        return lambda: made.append(compute()) or made[-1]

    monkeypatch.setattr(specialise, "_prepared", counted)
    for size in (300, 517, 1024):
        x = small(rng, 1, 32, size)
        want = dgo.convolution(x, weights, data_format="NCX", weights_format="OIX")
        np.testing.assert_array_equal(net(x), want)
    assert len(plans(net)) == 3
    assert len(arrays_of(net)) == len(made) == 1


def test_a_saved_net_is_the_same(rng, tmp_path):
    graph = dgo.Graph()
    x = small(rng, 1, 32, 64)
    net = graph.compile(normed(graph, graph.input("x", x.shape), rng)[0])
    want = net(x)
    net.save(tmp_path / "net.dgo")
    np.testing.assert_array_equal(dgo.load(tmp_path / "net.dgo")(x), want)


def test_what_is_returned_or_read_twice(rng):
    """A chain whose middle is an output, and one with a part that stays."""
    graph = dgo.Graph()
    x = graph.input("x", (4,))
    a = graph.constant(small(rng, 4))
    first = a + 1.0
    second = first * first
    y = second + x
    values = small(rng, 4)
    got = graph.compile([first, second, y])(values)
    one = a.constant + 1
    for array, want in zip(got, (one, one * one, one * one + values), strict=True):
        np.testing.assert_array_equal(array, want)


def test_a_view_of_a_constant_that_is_returned_and_read_is_written(rng):
    """The op that reads the view is folded with it; the caller still wants the view."""
    graph = dgo.Graph()
    data = small(rng, 3, 5)
    turned = ops.static_transpose(graph.constant(data), order=[1, 0])
    outputs = {"turned": turned, "squares": ops.square(turned)}
    out = {name: np.full((5, 3), np.nan, np.float32) for name in outputs}
    graph.compile(outputs).run({}, out=out)
    np.testing.assert_array_equal(out["turned"], data.T)
    np.testing.assert_array_equal(out["squares"], data.T * data.T)


def test_what_would_grow_is_computed_at_the_call(rng):
    graph = dgo.Graph()
    column, row = graph.constant(small(rng, 2048, 1)), graph.constant(small(rng, 1, 2048))
    x = graph.input("x", (1,))
    net = graph.compile(column + row + x)
    np.testing.assert_array_equal(net(np.ones(1, np.float32)), column.constant + row.constant + 1)
    assert net.explain().to_dict()["constant_bytes"] < 1 << 20


@pytest.mark.parametrize("kind", ["reshape", "transpose"])
def test_views_of_constants_stay_views(kind, rng):
    graph = dgo.Graph()
    held = graph.constant(small(rng, 8, 4))
    moved = (
        ops.static_reshape(held, shape=[4, 8], special_zero=False)
        if kind == "reshape"
        else ops.static_transpose(held, order=[1, 0])
    )
    x = graph.input("x", (3, moved.shape[0]))
    net = graph.compile(ops.matmul(x, moved))
    values = small(rng, 3, moved.shape[0])
    weights = held.constant.reshape(4, 8) if kind == "reshape" else held.constant.T
    np.testing.assert_array_equal(net(values), values @ weights)


QUANTIZED = """
import numpy as np
import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

rng = np.random.default_rng(0)
w, x = rng.integers(-3, 4, (32, 32, 3, 3)).astype(np.int8), rng.integers(0, 4, (1, 32, 9, 9)).astype(np.uint8)
graph = dgo.Graph()
real = ops.dequantize(graph.input("x", x.shape, "u8"), scales=[0.5], zps=[1])
weights = ops.dequantize(graph.constant(w), scales=[0.25] * 32, zps=[0] * 32, qtype="per_channel", axis=0)
attrs = dict(pads_begin=1, pads_end=1, data_format="NCX", weights_format="OIX")
net = graph.compile(ops.quantize(ops.convolution(real, weights, **attrs), scales=[1.0], zps=[3], dtype="s8"))
want = dgo.convolution((x - np.float32(1)) / 2, w * np.float32(0.25), **attrs)
np.testing.assert_array_equal(net(x), np.clip(np.rint(want) + 3, -128, 127))
assert [step.step for step in net.explain().steps].count("Dequantize") == 1
assert not any("pack" in step.step for step in net.explain().steps)
"""


@pytest.mark.child
def test_quantized_weights_of_a_layer_in_floats_are_packed_once():
    done = child("-c", QUANTIZED, ONEDNN_MAX_CPU_ISA="AVX2", DNNL_GRAPH_OPS_INT8="none")
    assert done.returncode == 0, done.stderr[-2000:]


NONFINITE = {
    "exp": ops.exp,
    "relu": ops.relu,
    "clamp": lambda x: ops.clamp(x, min=-1, max=5),
    "maximum": lambda x: ops.maximum(x, x * 2),
    "softmax": lambda x: ops.softmax(x, axis=1),
}


@pytest.mark.parametrize("name", NONFINITE)
def test_infinities_and_nan_of_constants(name):
    """They are where they are in the results of an input."""
    array = np.float32([[np.nan, 1, np.inf], [1, -np.inf, 0]])
    graph, other = dgo.Graph(), dgo.Graph()
    got = graph.compile(NONFINITE[name](graph.constant(array)))()
    want = other.compile(NONFINITE[name](other.input("x", array.shape)))(array)
    np.testing.assert_allclose(got, want, rtol=1e-6)
