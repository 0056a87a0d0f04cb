"""The ordinary family on SYCL engines and on memory of a device: random problems against the definition."""

import numpy as np
import pytest
from functional.test_convolution import Case

import dnnl_graph_ops as dgo

from .engines import open_engine


@pytest.mark.sweep(every=4)
@pytest.mark.parametrize("number", range(0, 240, 4))
@pytest.mark.parametrize("name", ["sycl", "device"])
def test_three_directions(name, number, seed):
    engine = open_engine(name)
    case = Case(seed, number)
    p = case.problem
    print(f"seed {seed} case {number}: {p}")
    keywords = {**p.formats, **p.attributes, "engine": engine}
    case.check(lambda out: dgo.convolution(case.src, case.weights, case.bias, out=out, **keywords), case.dst)
    case.check(
        lambda out: dgo.convolution_backward_data(
            case.diff, case.weights, src_shape=case.src.shape, out=out, **keywords
        ),
        case.diff_src,
    )
    case.check(
        lambda out: dgo.convolution_backward_weights(case.src, case.diff, case.weights.shape, out=out, **keywords),
        case.diff_weights,
    )


def test_a_net_with_constants_kept_there():
    engine = open_engine("device")
    rng = np.random.default_rng(3)
    x, w, b = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((2, 9, 8, 16), (3, 3, 16, 24), (24,)))
    results = []
    for where in (engine, dgo.engine("cpu")):
        graph = dgo.Graph(where)
        src = graph.input("x", x.shape)
        value = dgo.ops.relu(dgo.ops.convolution(src, graph.constant(w), graph.constant(b), pads_begin=1, pads_end=1))
        net = graph.compile(value)
        results.append([net(x), net(x)])
    for one in results[0]:
        np.testing.assert_array_equal(one, results[1][0])
