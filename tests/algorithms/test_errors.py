"""Errors of algorithms against docs/accuracy.md; `python -m algorithms.test_errors` in tests/ prints its table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from reference import conv_transpose as truth

import dnnl_graph_ops as dgo
from dnnl_graph_ops.algorithms import filtering, table
from dnnl_graph_ops.convolution.nodes import CONV_KINDS
from dnnl_graph_ops.ir.env import ALGORITHM_VARIABLE, Env

from .test_algorithms import KINDS
from .test_repeatable import Question, computed

Array = np.ndarray[Any, Any]

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
FORMS = ("builtin direct", *(f"Winograd {results}" for results in filtering.TILES))
Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]
DATA: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape).astype(np.float32),
    "uniform": lambda rng, shape: rng.random(shape).astype(np.float32),
}
TITLES = dict(zip(KINDS, ("forward", "backward data", "backward weights"), strict=True))
UNIT = 1e-7


class Layer(NamedTuple):
    channels: int
    size: tuple[int, ...]
    kernel: int
    stride: int
    pad: int = 1


LAYERS = {3: Layer(64, (16, 16), 3, 1), 2: Layer(64, (16, 16), 4, 2)}  # by taps per phase


class Error(NamedTuple):
    """Against float64, in those of the result's root mean square."""

    rms: float
    largest: float

    @classmethod
    def of(cls, got: Array, exact: Array) -> Error:
        apart, scale = np.abs(got - exact), np.sqrt(np.mean(exact**2))
        return cls(float(np.sqrt(np.mean(apart**2)) / scale), float(apart.max() / scale))


def asked_of(kind: str, layer: Layer, data: str) -> tuple[Question, Array]:
    """The question and its answer in float64."""
    return asked_with(kind, layer, DATA[data], np.random.default_rng(7))


def asked_with(kind: str, layer: Layer, drawn: Draw, rng: np.random.Generator) -> tuple[Question, Array]:
    rank, c = len(layer.size), layer.channels
    dst = [(n - 1) * layer.stride + layer.kernel - 2 * layer.pad for n in layer.size]
    x, y = (drawn(rng, (1, *spatial, c)) for spatial in (layer.size, dst))
    w = drawn(rng, (c, c, *(layer.kernel,) * rank))
    attrs: dict[str, Any] = {
        "strides": (layer.stride,) * rank, "pads_begin": (layer.pad,) * rank, "pads_end": (layer.pad,) * rank,
        "data_format": "NXC", "weights_format": "IOX",
    }  # fmt: skip
    x64, w64, y64 = (array.astype(np.float64) for array in (x, w, y))
    if kind == "ConvTranspose":
        return Question(kind, attrs, [x, w], y.shape), truth.forward(x64, w64, **attrs)
    if kind == "ConvTransposeBackwardData":
        exact = truth.backward_data(y64, w64, src_spatial=layer.size, **attrs)
        return Question(kind, {**attrs, "src_shape": x.shape}, [y, w], x.shape), exact
    return Question(kind, attrs, [x, y], w.shape), truth.backward_weights(x64, y64, w.shape[2:], **attrs)


def uneven(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Normal numbers, of which one place on each spatial axis has far larger ones."""
    array = rng.standard_normal(shape).astype(np.float32)
    for axis in range(1, len(shape)):
        if rng.random() < 0.5:
            place = np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))])
            array = np.where(place == rng.integers(shape[axis]), array * np.float32(10 ** rng.uniform(0, 5)), array)
    return array


def errors_within(kind: str, rng: np.random.Generator) -> dict[str, float]:
    """Of uneven operands: the largest error of every form by the number of terms and the largest elements."""
    kernel, stride = ((3, 1), (4, 2), (5, 1))[rng.integers(3)]
    layer = Layer(int(rng.choice([1, 3, 16])), (int(rng.choice([6, 9])),) * 2, kernel, stride)
    asked, exact = asked_with(kind, layer, uneven, rng)
    first, second = asked.arrays
    terms = first[..., 0].size if kind.endswith("Weights") else layer.channels * kernel**2
    magnitude = terms * float(np.abs(first).max()) * float(np.abs(second).max())
    env = Env(dgo.engine("cpu"), 1, algorithm="fast")
    forms = [form for form in table.ALGORITHMS if form.name in FORMS and form.direction == CONV_KINDS[kind].direction]
    return {
        form.name: float(np.abs(got - exact).max()) / magnitude
        for form in forms
        for got in computed(asked, env, form, 1)
    }


def errors_of(kind: str, layer: Layer, data: str) -> dict[str, Error]:
    """Of every form of ours that applies."""
    asked, exact = asked_of(kind, layer, data)
    env = Env(dgo.engine("cpu"), 1, algorithm="fast")
    found = {}
    for form in table.ALGORITHMS:
        if form.name in FORMS and form.direction == CONV_KINDS[kind].direction:
            for result in computed(asked, env, form, 1):
                found[form.name] = Error.of(result, exact)
    return found


def torch_error(kind: str, layer: Layer, data: str) -> Error:
    """Of PyTorch, which reads channels first."""
    torch = pytest.importorskip("torch")
    asked, exact = asked_of(kind, layer, data)
    first, second = (torch.from_numpy(array) for array in asked.arrays)
    x = first.permute(0, 3, 1, 2)
    options = {"stride": layer.stride, "padding": layer.pad}
    if kind == "ConvTranspose":
        got = torch.nn.functional.conv_transpose2d(x, second, **options)
    elif kind == "ConvTransposeBackwardData":
        got = torch.nn.functional.conv2d(x, second, **options)
    else:
        # a gradient of the convolution that reads diff_dst
        got = torch.nn.grad.conv2d_weight(second.permute(0, 3, 1, 2), asked.shape, x, **options)
        return Error.of(got.numpy(), exact)
    return Error.of(got.permute(0, 2, 3, 1).numpy(), exact)


def rows(peer: bool) -> Iterator[tuple[tuple[str, ...], list[Error]]]:
    """Of the table: taps, direction, form; the errors by data."""
    for taps, layer in LAYERS.items():
        for kind, title in TITLES.items():
            found = [errors_of(kind, layer, data) for data in DATA]
            for form in FORMS:
                if form in found[0]:
                    yield (str(taps), title, form), [errors[form] for errors in found]
            if peer:
                yield (str(taps), title, "PyTorch"), [torch_error(kind, layer, data) for data in DATA]


def page_table() -> str:
    lines = [
        "| taps | direction | algorithm | normal: rms | largest | uniform: rms | largest |",
        "|---|---|---|---|---|---|---|",
    ]
    for key, errors in rows(peer=True):
        numbers = [f"{value / UNIT:.2f}" for error in errors for value in error]
        lines.append(f"| {' | '.join((*key, *numbers))} |")
    return "\n".join(lines)


def stated() -> dict[tuple[str, ...], list[Error]]:
    """What the page says."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text("utf-8").splitlines()]
    return {
        tuple(row[:3]): [Error(float(row[i]) * UNIT, float(row[i + 1]) * UNIT) for i in (3, 5)]
        for row in cells
        if len(row) == 7 and row[0].isdigit()
    }


@pytest.mark.slow
def test_the_page_says_what_forms_round() -> None:
    """Other vectors sum in another order, so that the numbers are nearly the same."""
    page, seen = stated(), {}
    for key, errors in rows(peer=False):
        seen[key] = errors
        for error, said in zip(errors, page[key], strict=True):
            assert 0.7 * said.rms <= error.rms <= 1.4 * said.rms, key
            assert error.largest <= 2 * said.largest, key
    assert {key for key in page if key[2] != "PyTorch"} == set(seen)
    forms = {key[2] for key in seen}
    assert forms == set(FORMS)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [1, filtering.FEWEST, 32])
@pytest.mark.parametrize("data", DATA)
def test_errors_stay_within_what_forms_state(kind: str, channels: int, data: str) -> None:
    """Few channels are the worst: a direct sum of them rounds little, the transforms as ever."""
    for layer in (
        Layer(channels, (60,), 3, 1), Layer(channels, (60,), 4, 2), Layer(channels, (14, 14), 3, 1),
        Layer(channels, (14, 14), 4, 2), Layer(channels, (13, 11), 2, 1), Layer(channels, (14, 14), 5, 2),
        Layer(channels, (3, 9, 10), 3, 1),
    ):  # fmt: skip
        found = errors_of(kind, layer, data)
        direct = found.pop("builtin direct").rms
        assert found
        for name, error in found.items():
            # the least that a direct sum rounds in f32, however few its terms
            bound = filtering.ERROR if table.remark(name) else 4
            assert error.rms <= bound * max(direct, 2**-25), (name, layer)


def layer_and_net(algorithm: str | None) -> tuple[Array, Array, dgo.Net]:
    rng = np.random.default_rng(5)
    dy, w = DATA["normal"](rng, (1, 32, 32, 128)), DATA["normal"](rng, (128, 128, 3, 3))
    graph = dgo.Graph()
    value = dgo.ops.conv_transpose_backward_data(
        graph.input("dy", dy.shape, "f32"), graph.constant(w), **ATTRS
    )  # fmt: skip
    return dy, w, graph.compile(value, algorithm=algorithm)


ATTRS: dict[str, Any] = {"pads_begin": 1, "pads_end": 1, "data_format": "NXC", "weights_format": "IOX"}


@pytest.mark.choice
def test_only_fast_takes_what_rounds_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    dy, w, net = layer_and_net("fast")
    exact = truth.backward_data(
        dy.astype(np.float64),
        w.astype(np.float64),
        src_spatial=(32, 32),
        **{"strides": (1, 1), **ATTRS, "pads_begin": (1, 1), "pads_end": (1, 1)},
    )
    np.testing.assert_allclose(net(dy), exact, rtol=0, atol=1e-5 * np.abs(exact).max())
    told = net.explain()
    (part,) = told.partitions
    assert part.remark == "error up to 8 x direct"
    assert f"{part.remark}; estimated" in " ".join(str(told).split())
    assert told.to_dict()["partitions"][0]["remark"] == part.remark
    for algorithm in (None, "auto", "direct"):
        (part,) = layer_and_net(algorithm)[2].explain().partitions
        assert not part.remark
        assert not any(table.remark(name) for name, _ in part.candidates)
    monkeypatch.setenv(ALGORITHM_VARIABLE, "fast")
    assert layer_and_net(None)[2].explain().partitions[0].remark
    np.testing.assert_array_equal(dgo.conv_transpose_backward_data(dy, w, **ATTRS).shape, exact.shape)


if __name__ == "__main__":
    print(page_table())
