"""The family against PyTorch on random problems.

Every 16th case runs by default, every fourth with --all, all of them with --random=full. One case again:
pytest tests/functional/test_random.py --seed=SEED --case=NUMBER
"""

import numpy as np
import pytest
from reference import conv_transpose as ct
from reference.data import integers
from reference.rounding import DTYPES, ulp_error, wide

import dnnl_graph_ops as dgo

from .problems import Problem, blank, draw, view

pytestmark = pytest.mark.isa

peer = pytest.importorskip("reference.peer", reason="needs PyTorch")

pytestmark = pytest.mark.numbers(640, every=(16, 4, 1))
SMOOTH = {"sigmoid", "tanh"}


class Case:
    """A drawn problem with its data, in the layouts that the calls take."""

    def __init__(self, seed: int, number: int):
        self.problem = p = draw(seed, number)
        self.rng = rng = np.random.default_rng([seed, number, 1])
        self.dtype = DTYPES[p.dtype]
        plain = [integers(rng, s) for s in (p.src, p.weights, (p.dst[1],), p.dst)]
        src, weights, bias, diff = plain
        if p.src[0] > 1 and rng.random() < 0.1:
            src[...] = src[:1]
        self.truth = peer.run(src, weights, bias if p.bias else None, diff, **p.attributes)
        self.src, self.diff = (view(rng, self.laid(a).astype(self.dtype)) for a in (src, diff))
        if p.src[0] > 1 and (src == src[:1]).all():
            self.src = np.broadcast_to(self.src[:1], self.src.shape)
        self.weights = view(rng, self.formatted(weights).astype(self.dtype))
        self.bias = bias.astype(self.dtype) if p.bias else None
        self.formats = {"data_format": p.data_format, "weights_format": p.weights_format}

    def laid(self, array: np.ndarray) -> np.ndarray:
        return ct.from_channels_first(array, self.problem.data_format)

    def formatted(self, weights: np.ndarray) -> np.ndarray:
        p = self.problem
        if p.documented:
            return ct.documented(weights, p.weights_format, p.attributes["groups"])
        return ct.from_iox(weights, p.weights_format)

    def agrees(self, actual: np.ndarray, exact: np.ndarray) -> None:
        assert (actual.dtype, actual.shape) == (self.dtype, exact.shape)
        assert ulp_error(actual, exact, self.problem.dtype) <= (self.problem.dtype != "f32")

    def check(self, call, exact: np.ndarray, agrees=None) -> None:
        """`call(out)` gives `exact`, into a strided view of a larger buffer or as a new array."""
        agrees = agrees or self.agrees
        if not self.problem.use_out:
            agrees(call(None), exact)
            return
        out, buffer = blank(self.rng, exact.shape, self.dtype)
        around = np.isnan(wide(buffer)).sum() - out.size
        result = call(out)
        assert result is out or np.shares_memory(result, out) or out.size == 0
        agrees(out, exact)
        assert np.isnan(wide(buffer)).sum() == around, "elements outside of out were written"


@pytest.fixture
def case(seed, number):
    print(f"pytest tests/functional/test_random.py --seed={seed} --case={number}\n{draw(seed, number)}")
    return Case(seed, number)


def shapes_stated(p: Problem, case: Case) -> tuple[dict, dict]:
    """Keyword arguments that state, or leave to be derived, the shapes of the gradients."""
    stated = p.state_shapes
    weights = case.weights.shape if stated or not p.derivable or p.documented else None
    return {"src_shape": case.src.shape if stated or 0 in p.src else None}, {"weights_shape": weights}


def run_one_shot(p: Problem, case: Case) -> None:
    keywords = {**case.formats, **p.attributes}
    src_shape, weights_shape = shapes_stated(p, case)
    case.check(
        lambda out: dgo.conv_transpose(case.src, case.weights, case.bias, out=out, **keywords),
        case.laid(case.truth.dst),
    )
    case.check(
        lambda out: dgo.conv_transpose_backward_data(case.diff, case.weights, out=out, **src_shape, **keywords),
        case.laid(case.truth.diff_src),
    )
    case.check(
        lambda out: dgo.conv_transpose_backward_weights(case.src, case.diff, out=out, **weights_shape, **keywords),
        case.formatted(case.truth.diff_weights),
    )
    case.check(
        lambda out: dgo.conv_transpose_backward_bias(case.diff, data_format=p.data_format, out=out),
        case.truth.diff_bias,
    )
    if p.weights_format in ("XIO", "OIX"):
        case.check(
            lambda out: dgo.conv_transpose_backprop_filters(
                case.src,
                case.diff,
                np.array(case.weights.shape),
                data_format=p.data_format,
                filter_format=p.weights_format,
                out=out,
                **p.attributes,
            ),
            case.formatted(case.truth.diff_weights),
        )


def post_op(name: str, value, exact: np.ndarray, p: Problem, rng: np.random.Generator):
    """The value with one more op behind it, and the exact result; `exact` is in NCX."""
    channels = exact.shape[1]
    along = exact.ndim - 2 if p.data_format == "NCX" else 0
    if name == "relu":
        return dgo.ops.relu(value), np.maximum(exact, 0)
    if name == "leaky_relu":
        return dgo.ops.leaky_relu(value, alpha=0.5), np.where(exact > 0, exact, exact / 2)
    if name == "sigmoid":
        return dgo.ops.sigmoid(value), 1 / (1 + np.exp(-exact))
    if name == "tanh":
        return dgo.ops.tanh(value), np.tanh(exact)
    vector = integers(rng, (channels,), p.dtype, 2)
    shaped = wide(vector).reshape(-1, *(1,) * (exact.ndim - 2))
    if name == "bias_add":
        constant = value.graph.constant(vector)
        return dgo.ops.bias_add(value, constant, data_format=p.data_format), exact + shaped
    operand = value.graph.constant(vector.reshape(-1, *(1,) * along))
    build, apply = {
        "add": (dgo.ops.add, np.add),
        "multiply": (dgo.ops.multiply, np.multiply),
    }[name]
    return build(value, operand), apply(exact, shaped)


def run_graph(p: Problem, case: Case) -> None:
    keywords = {**case.formats, **p.attributes}
    graph = dgo.Graph()

    def given(name: str, array: np.ndarray, constant: bool = False):
        if constant:
            return graph.constant(array), {}
        return graph.input(name, array.shape, dtype=p.dtype), {name: array}

    src, feed_src = given("src", case.src)
    weights, feed_weights = given("weights", case.weights, p.constant)
    diff, feed_diff = given("diff", case.diff)
    bias, feed_bias = (None, {}) if case.bias is None else given("bias", case.bias, p.constant)
    value, exact = dgo.ops.conv_transpose(src, weights, bias, name="up", **keywords), case.truth.dst
    largest = np.abs(exact).max(initial=1)
    for name in p.post_ops:
        value, exact = post_op(name, value, exact, p, case.rng)
        largest = max(largest, np.abs(exact).max(initial=1))

    def agrees(actual, expected):
        if p.dtype == "f32" and not SMOOTH & set(p.post_ops):
            case.agrees(actual, expected)
            return
        # each op may round its result, and later ones enlarge the error
        step = {"f32": 2e-6, "bf16": 2.0**-8, "f16": 2.0**-11}[p.dtype]
        allowed = step * (1 + len(p.post_ops)) * 2 ** p.post_ops.count("multiply") * largest
        assert (actual.dtype, actual.shape) == (case.dtype, expected.shape)
        np.testing.assert_allclose(wide(actual), expected, rtol=0, atol=allowed)

    src_shape, weights_shape = shapes_stated(p, case)
    diff_src = dgo.ops.conv_transpose_backward_data(diff, weights, **src_shape, **keywords)
    diff_weights = dgo.ops.conv_transpose_backward_weights(src, diff, **weights_shape, **keywords)
    feeds = {**feed_src, **feed_weights, **feed_diff, **feed_bias}
    for result, expected, comparison in (
        (value, case.laid(exact), agrees),
        (diff_src, case.laid(case.truth.diff_src), None),
        (diff_weights, case.formatted(case.truth.diff_weights), None),
    ):
        net = graph.compile(result)
        used = {name: feeds[name] for name in net.input_names}
        case.check(lambda out, net=net, used=used: net(out=out, **used), expected, comparison)
    together = graph.compile([value, diff_src, diff_weights])(**feeds)
    agrees(together[0], case.laid(exact))
    case.agrees(together[1], case.laid(case.truth.diff_src))
    case.agrees(together[2], case.formatted(case.truth.diff_weights))


def test_against_pytorch(case):
    p = case.problem
    shape = dgo.conv_transpose_output_shape(case.src.shape, case.weights.shape, **case.formats, **p.attributes)
    assert tuple(shape) == case.diff.shape
    (run_graph if p.graph else run_one_shot)(p, case)
