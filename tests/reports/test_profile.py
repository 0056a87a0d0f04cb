"""What net.profile says of each step."""

import numpy as np
import pytest

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.reports import peaks
from dnnl_graph_ops.reports.profile import ARITHMETIC, MEMORY


@pytest.fixture
def net():
    graph = dgo.Graph()
    rng = np.random.default_rng(2)
    x = graph.input("x", (1, 12, 12, 16))
    weights = rng.integers(-2, 3, (3, 3, 16, 16)).astype(np.float32)
    y = ops.relu(ops.convolution(x, weights, pads_begin=1, pads_end=1, name="conv"), name="act")
    z = ops.max_pool(y, kernel=2, strides=2, pads_begin=0, pads_end=0, name="pool")
    return graph.compile(ops.matmul(z, rng.random((16, 5), np.float32), name="head"))


def test_steps_are_named_and_weighed(net):
    times = net.profile(np.ones((1, 12, 12, 16), np.float32), repeat=3)
    assert len(times) == len(net.explain().steps)
    assert sum(step.share for step in times) == pytest.approx(1.0)
    total = sum(step.seconds for step in times)
    assert [step.seconds for step in times] == pytest.approx([step.share * total for step in times])
    named = {step.ops: step for step in times}
    assert named["conv", "act"].kinds == ("Convolution", "ReLU")
    assert named["pool",].bound == MEMORY and named["head",].bound == ARITHMETIC
    assert any(step.bound == ARITHMETIC for step in times if step.ops == ("conv", "act"))
    assert all(step.of_peak > 0 for step in times)


def test_the_table_has_the_longest_first(net):
    times = net.profile(np.ones((1, 12, 12, 16), np.float32), repeat=3)
    total, header, *lines = str(times).splitlines()
    assert total.endswith(f"ms in {len(times)} steps") and header.split()[:2] == ["ms", "share"]
    rows = [line for line in lines if line[0].isdigit()]
    shown = [float(row.split()[0]) for row in rows]
    assert len(rows) == len(times) and shown == sorted(shown, reverse=True)
    assert any("Convolution conv" in row for row in rows)


def test_the_products_of_several_steps_count_once():
    """A transposed convolution in phases: all of them together did the work."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 8, 8, 4))
    y = ops.conv_transpose(x, np.ones((5, 5, 3, 4), np.float32), strides=3)
    net = graph.compile(y)
    times = net.profile(np.ones(x.shape, np.float32), repeat=3)
    reached = {step.of_peak for step in times if step.bound == ARITHMETIC}
    assert len(reached) == 1
    macs = 8 * 8 * 5 * 5 * 4 * 3
    spent = sum(step.seconds for step in times if step.bound == ARITHMETIC)
    peak = peaks.of_products(net.engine, "f32", net._latest().plan.executor.threads)
    assert reached.pop() == pytest.approx(macs / spent / peak.rate)


@pytest.mark.parametrize("kind", ["Convolution", "MatMul"])
def test_products_of_integers_are_told_as_such(kind, rng):
    """Of builtin kernels and of the library's."""
    graph = dgo.Graph()
    x = graph.input("x", (1, 12, 12, 16))
    weights = rng.integers(-2, 3, (3, 3, 16, 16)).astype(np.float32)
    convolved = ops.convolution(x, weights, pads_begin=1, pads_end=1)
    y, terms = (convolved, 9 * 16) if kind == "Convolution" else (ops.matmul(x, weights[0, 0]), 16)
    array = rng.standard_normal(x.shape, np.float32)
    net = dgo.quantize.calibrate(graph.compile(ops.relu(y)), [array]).compile()
    (product,) = (part for part in net.explain().partitions if kind in part.kinds)
    words = ("integer", "native")
    assert (product.compute_dtype in ("s8", "u8")) == any(word in product.formulation for word in words)
    steps = [step for step in net.profile(array, repeat=3) if step.bound == ARITHMETIC]
    peak = peaks.of_products(net.engine, product.compute_dtype, net._latest().plan.executor.threads)
    reached = 144 * 16 * terms / sum(step.seconds for step in steps) / peak.rate
    assert steps and [step.of_peak for step in steps] == pytest.approx([reached] * len(steps))
