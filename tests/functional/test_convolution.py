"""The ordinary family against the definition on random problems.

Every 16th case runs by default, every fourth with --all, all of them with --random=full. One case again:
pytest tests/functional/test_convolution.py --seed=SEED --case=NUMBER
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference import convolution as truth
from reference.data import integers
from reference.rounding import DTYPES, ulp_error, wide

import dnnl_graph_ops as dgo

from .problems import FORMATS, LAYOUTS, blank, view

pytestmark = pytest.mark.numbers(1000, every=(16, 4, 1))
_LARGEST = {1: 40, 2: 14, 3: 7}


@dataclass
class Problem:
    """One configuration: sizes in NCX and OIX, attributes as they are passed."""

    dtype: str
    src: tuple[int, ...]
    weights: tuple[int, ...]
    attributes: dict[str, Any]
    formats: dict[str, str]
    bias: bool
    post_op: str
    constant: bool
    algorithm: str


def draw(seed: int, number: int) -> Problem:
    rng = np.random.default_rng([seed, number, 7])
    rank = int(rng.integers(1, 4))
    groups = int(rng.choice([1, 1, 1, 2, 4, 8]))
    ic, oc = (int(v) for v in rng.choice([1, 2, 3, 4, 8, 16, 17, 33], 2))
    if groups == 8:
        ic, oc = 1, int(rng.choice([1, 1, 2]))
    kind = rng.integers(0, 6)
    kernel = [int(v) for v in rng.integers(1, 6 if rank < 3 else 4, rank)]
    strides = [int(v) for v in rng.integers(1, 4, rank)] if rng.random() < 0.5 else [1] * rank
    dilations = [int(v) for v in rng.integers(1, 4, rank)] if rng.random() < 0.3 else [1] * rank
    if kind == 0:
        kernel, dilations = [1] * rank, [1] * rank
    elif kind == 1:
        kernel, dilations = [3] * rank, [1] * rank
    elif kind == 2:
        strides, dilations = kernel, [1] * rank
    reach = ct.extents(kernel, dilations)
    begin, end = ([int(rng.integers(0, e)) for e in reach] for _ in range(2))
    size = [int(rng.integers(max(e - b - p, 1), _LARGEST[rank] + e)) for e, b, p in zip(reach, begin, end, strict=True)]
    auto_pad = str(rng.choice(["none", "valid", "same_upper", "same_lower"], p=[0.76, 0.08, 0.08, 0.08]))
    if auto_pad == "valid":
        size = [max(i, e) for i, e in zip(size, reach, strict=True)]
    attributes = {
        "strides": strides, "pads_begin": begin, "pads_end": end, "dilations": dilations, "auto_pad": auto_pad,
        "groups": groups,
    }  # fmt: skip
    return Problem(
        dtype=str(rng.choice(["f32", "bf16", "f16"], p=[0.6, 0.2, 0.2])),
        src=(int(rng.integers(1, 4)), ic * groups, *size),
        weights=(oc * groups, ic, *kernel),
        attributes=attributes,
        formats={"data_format": str(rng.choice(LAYOUTS)), "weights_format": str(rng.choice(FORMATS))},
        bias=bool(rng.random() < 0.5),
        post_op=str(rng.choice(["", "relu", "add"])),
        constant=bool(rng.random() < 0.5),
        algorithm=str(rng.choice(["auto", "direct"], p=[0.8, 0.2])),
    )


class Case:
    """A drawn problem with its data, in the layouts that the calls take, and the exact results."""

    def __init__(self, seed: int, number: int):
        self.problem = p = draw(seed, number)
        self.rng = rng = np.random.default_rng([seed, number, 8])
        self.dtype = DTYPES[p.dtype]
        src, weights, bias = (integers(rng, s) for s in (p.src, p.weights, p.weights[:1]))
        self.bias = bias.astype(self.dtype) if p.bias else None
        x, w = self.laid(src), self.formatted(weights)
        self.dst = truth.forward(x, w, self.bias, **p.formats, **p.attributes)
        y = self.laid(integers(rng, ct.channels_first(self.dst, p.formats["data_format"]).shape))
        self.diff_src = truth.backward_data(y, w, p.src[2:], **p.formats, **p.attributes)
        self.diff_weights = truth.backward_weights(x, y, p.weights[2:], **p.formats, **p.attributes)
        self.src, self.weights, self.diff = (view(rng, a.astype(self.dtype)) for a in (x, w, y))

    def laid(self, array: np.ndarray) -> np.ndarray:
        return ct.from_channels_first(array, self.problem.formats["data_format"])

    def formatted(self, weights: np.ndarray) -> np.ndarray:
        return ct.from_iox(weights, truth._AS_TRANSPOSED[self.problem.formats["weights_format"]])

    def check(self, call, exact: np.ndarray) -> None:
        """`call(out)` gives `exact` in a strided view of a larger buffer, and writes nothing around it."""
        out, buffer = blank(self.rng, exact.shape, self.dtype)
        around = np.isnan(wide(buffer)).sum() - out.size
        call(out)
        assert ulp_error(out, exact, self.problem.dtype) <= (self.problem.dtype != "f32")
        assert np.isnan(wide(buffer)).sum() == around, "elements outside of out were written"


@pytest.fixture
def case(seed, number):
    print(f"pytest tests/functional/test_convolution.py --seed={seed} --case={number}\n{draw(seed, number)}")
    return Case(seed, number)


def adorned(case: Case, value, dst: np.ndarray):
    """The value with a post-op behind it, and the exact result."""
    name = case.problem.post_op
    if name == "relu":
        return dgo.ops.relu(value), np.maximum(dst, 0)
    if name == "add":
        other = integers(case.rng, dst.shape).astype(case.dtype)
        return dgo.ops.add(value, value.graph.constant(other)), dst + other.astype(np.float64)
    return value, dst


def test_nets(case, monkeypatch):
    p = case.problem
    keywords = {**p.formats, **p.attributes}
    graph = dgo.Graph()

    def given(name: str, array: np.ndarray):
        return graph.constant(array) if p.constant else graph.input(name, array.shape, p.dtype)

    src, diff = (graph.input(name, a.shape, p.dtype) for name, a in (("src", case.src), ("diff", case.diff)))
    weights, bias = given("weights", case.weights), None if case.bias is None else given("bias", case.bias)
    forward, dst = adorned(case, dgo.ops.convolution(src, weights, bias, **keywords), case.dst)
    backward = dgo.ops.convolution_backward_data(diff, weights, src_shape=case.src.shape, **keywords)
    gradient = dgo.ops.convolution_backward_weights(src, diff, weights_shape=case.weights.shape, **keywords)
    feeds = {"src": case.src, "diff": case.diff, "weights": case.weights, "bias": case.bias}
    for value, exact in ((forward, dst), (backward, case.diff_src), (gradient, case.diff_weights)):
        net = graph.compile(value, algorithm=p.algorithm)
        used = {name: feeds[name] for name in net.input_names}
        case.check(lambda out, net=net, used=used: net(out=out, **used), exact)


def test_one_shot_functions(case):
    p = case.problem
    keywords = {**p.formats, **p.attributes}
    shape = dgo.convolution_output_shape(case.src.shape, case.weights.shape, **keywords)
    assert tuple(shape) == case.diff.shape
    case.check(lambda out: dgo.convolution(case.src, case.weights, case.bias, out=out, **keywords), case.dst)
    shapes = {"src_shape": case.src.shape}
    case.check(
        lambda out: dgo.convolution_backward_data(case.diff, case.weights, out=out, **shapes, **keywords),
        case.diff_src,
    )
    case.check(
        lambda out: dgo.convolution_backward_weights(case.src, case.diff, case.weights.shape, out=out, **keywords),
        case.diff_weights,
    )
    bias = ct.channels_first(case.diff.astype(np.float64), p.formats["data_format"]).sum((0, *range(2, case.diff.ndim)))
    case.check(
        lambda out: dgo.convolution_backward_bias(case.diff, data_format=p.formats["data_format"], out=out), bias
    )


def test_graphs_that_were_read_again(case):
    """The formats of weights that the library lacks too."""
    p = case.problem
    graph = dgo.Graph()
    src = graph.input("src", case.src.shape, p.dtype)
    weights = graph.input("weights", case.weights.shape, p.dtype)
    value = dgo.ops.convolution(src, weights, **p.formats, **p.attributes)
    again = dgo.Graph.from_json(value.graph.to_json())
    given = dict(zip(again.compile().input_names, (case.src, case.weights), strict=True))
    want = graph.compile(value)(case.src, case.weights)
    np.testing.assert_array_equal(wide(again.compile().run(given).popitem()[1]), wide(want))
