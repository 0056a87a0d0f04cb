"""Ordinary convolutions against PyTorch on random problems: those of the family with src and dst exchanged.

Every fourth case runs by default, all of them with --all. One case again:
pytest tests/family/test_random_convolution.py --seed=SEED --case=NUMBER
"""

from typing import Any

import numpy as np
from reference import conv_transpose as ct
from reference import peer
from reference.data import integers
from reference.rounding import DTYPES, ulp_error, wide

import dnnl_graph_ops as dgo

from .problems import blank, draw, view

CASES, EVERY = 640, 4


def pytest_generate_tests(metafunc):
    config = metafunc.config
    chosen, every = config.getoption("--case"), 1 if config.getoption("--all") else EVERY
    metafunc.parametrize("number", range(0, CASES, every) if chosen is None else [chosen])


class Case:
    """A drawn problem, the other way round, with its data in the layouts that the calls take."""

    def __init__(self, seed: int, number: int):
        drawn = draw(seed, number)
        self.dtype, self.graph, self.constant, self.use_out = drawn.dtype, drawn.graph, drawn.constant, drawn.use_out
        self.attributes: dict[str, Any] = {k: v for k, v in drawn.attributes.items() if k != "output_padding"}
        self.formats = {"data_format": drawn.data_format, "weights_format": drawn.weights_format}
        self.rng = rng = np.random.default_rng([seed, number, 2])
        src, oix = (integers(rng, shape, self.dtype) for shape in (drawn.dst, drawn.weights))
        bias = integers(rng, drawn.weights[:1], self.dtype) if drawn.bias else None
        self.src, self.weights = view(rng, self.laid(src)), view(rng, self.formatted(oix))
        if drawn.src[0] > 1 and rng.random() < 0.2:
            src[...] = src[:1]
            self.src = np.broadcast_to(self.laid(src)[:1], self.src.shape)
        shape = dgo.convolution_output_shape(self.src.shape, self.weights.shape, **self.formats, **self.attributes)
        self.diff, self.bias = view(rng, integers(rng, shape, self.dtype)), bias
        self.truth = peer.convolution(
            src, oix, bias, ct.channels_first(self.diff, self.formats["data_format"]), **self.attributes
        )

    def laid(self, array: np.ndarray) -> np.ndarray:
        return ct.from_channels_first(array, self.formats["data_format"])

    def formatted(self, oix: np.ndarray) -> np.ndarray:
        letters = {"O": (0,), "I": (1,), "X": range(2, oix.ndim)}
        return oix.transpose([axis for letter in self.formats["weights_format"] for axis in letters[letter]])

    def agrees(self, actual: np.ndarray, exact: np.ndarray) -> None:
        assert (actual.dtype, actual.shape) == (DTYPES[self.dtype], exact.shape)
        assert ulp_error(actual, exact, self.dtype) <= (self.dtype != "f32")

    def check(self, call, exact: np.ndarray) -> None:
        """`call(out)` gives `exact`, into a strided view of a larger buffer or as a new array."""
        if not self.use_out:
            self.agrees(call(None), exact)
            return
        out, buffer = blank(self.rng, exact.shape, DTYPES[self.dtype])
        around = np.isnan(wide(buffer)).sum() - out.size
        call(out)
        self.agrees(out, exact)
        assert np.isnan(wide(buffer)).sum() == around, "elements outside of out were written"


def run_one_shot(case: Case) -> None:
    keywords = {**case.formats, **case.attributes}
    src, weights, diff, truth = case.src, case.weights, case.diff, case.truth
    case.check(lambda out: dgo.convolution(src, weights, case.bias, out=out, **keywords), case.laid(truth.dst))
    case.check(
        lambda out: dgo.convolution_backward_data(diff, weights, src_shape=src.shape, out=out, **keywords),
        case.laid(truth.diff_src),
    )
    case.check(
        lambda out: dgo.convolution_backward_weights(src, diff, weights.shape, out=out, **keywords),
        case.formatted(truth.diff_weights),
    )
    case.check(
        lambda out: dgo.convolution_backward_bias(diff, data_format=case.formats["data_format"], out=out),
        truth.diff_bias,
    )


def run_graph(case: Case) -> None:
    """All directions in one net, with ReLU behind the forward."""
    keywords = {**case.formats, **case.attributes}
    graph = dgo.Graph()
    arrays = {"src": case.src, "weights": case.weights, "diff": case.diff, "bias": case.bias}
    fixed = {"weights", "bias"} if case.constant else set()
    values = {
        name: graph.constant(array) if name in fixed else graph.input(name, array.shape, case.dtype)
        for name, array in arrays.items()
        if array is not None
    }
    src, weights, diff = (values[name] for name in ("src", "weights", "diff"))
    forward = dgo.ops.relu(dgo.ops.convolution(src, weights, values.get("bias"), **keywords))
    results = {
        "dst": (forward, case.laid(np.maximum(case.truth.dst, 0))),
        "diff_src": (
            dgo.ops.convolution_backward_data(diff, weights, src_shape=case.src.shape, **keywords),
            case.laid(case.truth.diff_src),
        ),
        "diff_weights": (
            dgo.ops.convolution_backward_weights(src, diff, weights_shape=case.weights.shape, **keywords),
            case.formatted(case.truth.diff_weights),
        ),
    }
    net = graph.compile({name: value for name, (value, _) in results.items()})
    together = net.run({name: arrays[name] for name in net.input_names})
    for name, (value, exact) in results.items():
        case.agrees(together[name], exact)
        alone = graph.compile(value)
        used = {name: arrays[name] for name in alone.input_names}
        case.check(lambda out, alone=alone, used=used: alone(out=out, **used), exact)


def test_against_pytorch(seed, number):
    print(f"pytest tests/family/test_random_convolution.py --seed={seed} --case={number}")
    case = Case(seed, number)
    (run_graph if case.graph else run_one_shot)(case)
