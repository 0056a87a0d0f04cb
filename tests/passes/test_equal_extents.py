"""Constants before and behind convolutions all of whose extents are equal: a wrong axis has the right shape there."""

import numpy as np
import pytest
from reference.data import EXTENTS, constant_beside, integers, unwritten
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops

EACH = 25
BINARY = (ops.add, ops.subtract, ops.multiply, ops.divide, ops.maximum, ops.minimum)


def surrounded(rng, value):
    """Up to three ops that each read a constant, or ReLU, or a batch norm."""
    for _ in range(int(rng.integers(0, 4))):
        choice = int(rng.integers(0, len(BINARY) + 2))
        if choice < len(BINARY):
            pair = [value, constant_beside(rng, value.shape)]
            divides = BINARY[choice] is ops.divide
            value = BINARY[choice](*(pair if divides or rng.random() < 0.5 else pair[::-1]))
        elif choice == len(BINARY):
            value = ops.relu(value)
        else:
            data_format = str(rng.choice(["NXC", "NCX"]))
            channels = value.shape[-1 if data_format == "NXC" else 1]
            gamma, beta, mean = (integers(rng, (channels,), limit=2) for _ in range(3))
            variance = np.full(channels, 0.25, np.float32)
            value = ops.batch_norm_inference(value, gamma, beta, mean, variance, epsilon=0.0, data_format=data_format)
    return value


def graph_of(rng):
    extent, rank = int(rng.choice(EXTENTS)), int(rng.integers(1, 4))
    graph = dgo.Graph()
    x = graph.input("x", (extent,) * (rank + 2))
    value = surrounded(rng, x)
    for _ in range(int(rng.integers(1, 3))):
        kernel = [int(rng.choice([1, 3])) for _ in range(rank)]
        weights = integers(rng, (*kernel, extent, extent), limit=1)
        pads = [k // 2 for k in kernel]
        make, order = [(ops.convolution, "XIO"), (ops.conv_transpose, "XOI")][int(rng.integers(0, 2))]
        data_format = str(rng.choice(["NXC", "NCX"]))
        value = make(value, weights, pads_begin=pads, pads_end=pads, data_format=data_format, weights_format=order)
        value = surrounded(rng, value)
    return graph, x, value


@pytest.mark.cases(50, 200, 1000, each=EACH)
def test_constants_beside_convolutions(start, seed):
    """Sums beyond 2**24 or fractions may be rounded: one part in 2**20 of the largest; most are exact."""
    for case in range(start, start + EACH):
        rng = np.random.default_rng([seed, case])
        graph, x, value = graph_of(rng)
        if value is x:
            continue
        data = integers(rng, x.shape, limit=2)
        want = evaluate_built(graph, {x: data})[value]
        out = unwritten(want.shape)
        graph.compile(value)(data, out=out)
        scale = max(np.abs(want).max(), 1.0)
        text = f"--seed {seed}, case {case}\n{graph}"
        np.testing.assert_allclose(out, want, rtol=0, atol=scale * 2.0**-20, err_msg=text)
