"""Layers that run by bands of rows give what they give one after the other, whatever rows they see."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
from reference.data import integers
from reference.graph import evaluate_built

import dnnl_graph_ops as dgo
from dnnl_graph_ops import ops
from dnnl_graph_ops.algorithms import choice, table
from dnnl_graph_ops.compile import bands, tile_rows

EACH = 20


@pytest.fixture(params=[1, 2, 3])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = dgo.get_num_threads()
    dgo.set_num_threads(request.param)
    yield request.param
    dgo.set_num_threads(before)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Bands wherever they are possible; the argument is how many bytes stay near."""
    monkeypatch.setattr(tile_rows, "saving", lambda chain, env: len(chain) - 1)
    return lambda near: monkeypatch.setattr(bands, "NEAR", near)


@pytest.fixture
def estimated(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Forms of convolutions take so many microseconds by name: of depthwise ones, and of others; the rest take long."""

    def estimates(depthwise: Mapping[str, float], others: Mapping[str, float]) -> None:
        def by_name(problem: Any, env: Any) -> Callable[[Any], float]:
            named = depthwise if problem.geometry.groups > 1 else others
            return lambda form: named.get(form.name, 1e6) * 1e-6

        for module in (table, choice):
            monkeypatch.setattr(module, "estimates", by_name)
        monkeypatch.setattr(choice, "_rankings", {})

    return estimates


def banded(net: Any) -> list[str]:
    return [step.step for step in net.explain().steps if " | " in step.step]


class Chain:
    """A chain of layers on small integers, and what its graph reads besides the first one's source."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.graph = rng, dgo.Graph()
        self.data: dict[Any, Any] = {}
        rank = int(rng.integers(1, 4))
        sizes = (int(rng.integers(6, 40)), *(int(rng.integers(3, 12)) for _ in range(rank - 1)))
        channels = int(rng.choice([3, 8, 16, 24, 40]))
        value = self.input((int(rng.integers(1, 4)), *sizes, channels))
        for _ in range(int(rng.integers(2, 5))):
            value = self.layer(value)
        self.result = value

    def input(self, shape: tuple[int, ...]) -> Any:
        value = self.graph.input(f"x{len(self.data)}", shape)
        self.data[value] = integers(self.rng, shape, "f32", limit=2)
        return value

    def layer(self, source: Any) -> Any:
        rng, channels, rank = self.rng, source.shape[-1], len(source.shape) - 2
        depthwise = channels >= 8 and rng.random() < 0.5
        groups = channels if depthwise else 1
        results = channels if depthwise else int(rng.choice([8, 16, 24]))
        kernel = [int(rng.choice([1, 3, 3, 5] if depthwise else [1, 1, 3])) for _ in range(rank)]
        strides, dilations, begin, end = [], [], [], []
        for k, size in zip(kernel, source.shape[1:-1], strict=True):
            dilation = int(rng.choice([1, 1, 2]))
            reach = dilation * (k - 1) + 1
            begin.append(int(rng.integers(0, reach)))
            end.append(max(int(rng.integers(0, reach)), reach - size - begin[-1]))
            strides.append(int(rng.choice([1, 1, 2, 3])))
            dilations.append(dilation)
        weights = integers(rng, (*kernel, channels // groups, results), "f32", limit=1)
        weights[rng.random(weights.shape) < 0.6] = 0
        bias = [self.graph.constant(integers(rng, (results,), "f32", limit=2))] if rng.random() < 0.5 else []
        made = ops.convolution(
            source, self.graph.constant(weights), *bias,
            strides=strides, pads_begin=begin, pads_end=end, dilations=dilations, groups=groups,
        )  # fmt: skip
        return self.finished(made)

    def finished(self, value: Any) -> Any:
        how = int(self.rng.integers(0, 7))
        if how == 0:
            return ops.relu(value)
        if how == 1:
            return ops.clamp(value, min=-3.0, max=4.0)
        if how == 2:
            return ops.relu(ops.add(value, self.input(tuple(value.shape))))
        if how == 3:
            slopes = self.graph.constant(integers(self.rng, (value.shape[-1],), "f32", limit=2))
            return ops.prelu(value, slopes)
        if how == 4:
            gates = self.input((value.shape[0], *(1,) * (len(value.shape) - 2), value.shape[-1]))
            return ops.multiply(value, gates)
        if how == 5:
            return ops.clamp(ops.add(value, self.input((1, *value.shape[1:]))), min=-5.0, max=5.0)
        return value


@pytest.mark.cases(20, 40, 1000, each=EACH)
def test_random_chains(
    start: int, threads: int, always: Callable[[int], None], estimated: Callable[..., None], seed: int
) -> None:
    used = 0
    for case in range(start, start + EACH):
        rng = np.random.default_rng([seed, case])
        chain = Chain(rng)
        always(int(rng.choice([2_000, 10_000, 50_000, 1 << 20])))
        # half of the layers are lowered by the library first
        estimated(
            *({"builtin depthwise": own, "builtin direct": own, "convolution": 50} for own in rng.choice([10, 90], 2))
        )
        net = chain.graph.compile(chain.result)
        got = net(**{value.name: data for value, data in chain.data.items()})
        want = evaluate_built(chain.graph, chain.data)[chain.result]
        np.testing.assert_array_equal(got, want, err_msg=f"--seed {seed}, case {case}\n{chain.graph}")
        used += bool(banded(net))
    assert used >= EACH // 2


class Block:
    """An inverted block: 24 to 144 channels, through windows of 3 x 3 by steps of 2, and back to 24."""

    def __init__(self, rng: np.random.Generator, post: Callable[[Any], Any] = ops.relu, size: int | None = 56) -> None:
        self.graph = dgo.Graph()
        self.x = self.graph.input("x", (1, size, size, 24))
        first, window, last = (
            self.graph.constant(rng.standard_normal(shape, np.float32))
            for shape in ((1, 1, 24, 144), (3, 3, 1, 144), (1, 1, 144, 24))
        )
        wide = post(ops.convolution(self.x, first))
        pads = {"pads_begin": [1, 1], "pads_end": [1, 1]}
        seen = post(ops.convolution(wide, window, groups=144, strides=2, **pads))
        self.result = ops.convolution(seen, last)
        self.data = rng.standard_normal((1, 56, 56, 24), np.float32)


@pytest.mark.parametrize("post", [ops.relu, ops.sigmoid])
@pytest.mark.parametrize("lowered_by", ["builtin depthwise", "convolution"])
def test_an_inverted_block_at_its_usual_size(
    post: Callable[[Any], Any],
    lowered_by: str,
    rng: np.random.Generator,
    always: Callable[[int], None],
    estimated: Callable[..., None],
) -> None:
    """One step by own forms, whichever form a layer would have alone."""
    estimated({"builtin depthwise": 50, "convolution": 50, lowered_by: 10}, {"builtin direct": 10})
    block = Block(rng, post)
    net = block.graph.compile(block.result)
    got = net(block.data)
    assert [step.step for step in net.explain().steps] == banded(net)
    assert [op.formulation for op in net.explain().partitions] == [
        "builtin direct",
        "builtin depthwise",
        "builtin direct",
    ]
    whole = block.graph.compile(block.result, tune="off")
    np.testing.assert_allclose(got, whole(block.data), rtol=1e-4, atol=1e-3)


# (56, 56, 144) exceed the near caches by 1.3 MB, which take 256 us to write and read again
CHOICES = {(100, 120): True, (100, 330): True, (100, 380): False, (380, 100): True}


@pytest.mark.parametrize(("library", "own"), CHOICES)
def test_bands_are_taken_where_they_save_more_than_their_forms_lose(
    library: float, own: float, rng: np.random.Generator, one_thread: None, estimated: Callable[..., None]
) -> None:
    estimated({"convolution": library, "builtin depthwise": own}, {"builtin direct": 200})
    block = Block(rng)
    net = block.graph.compile(block.result)
    assert bool(banded(net)) == CHOICES[library, own]
    forms = [op.formulation for op in net.explain().partitions]
    assert forms == [
        "builtin direct",
        "builtin depthwise" if CHOICES[library, own] else "convolution",
        "builtin direct",
    ]


def test_open_sizes_are_priced_at_the_size_of_the_call(
    rng: np.random.Generator, one_thread: None, estimated: Callable[..., None]
) -> None:
    """Estimates are of (128, 128) results, five times as many as windows have: 1.6 ms are saved of 6 or 12 lost."""
    for lost, taken in ((6000, True), (12000, False)):
        estimated({"convolution": 100, "builtin depthwise": 100 + lost}, {"builtin direct": 200})
        block = Block(rng, size=None)
        net = block.graph.compile(block.result)
        net(rng.standard_normal((1, 112, 112, 24), np.float32))
        assert bool(banded(net)) == taken


def test_a_run_is_divided_where_that_saves_most(monkeypatch: pytest.MonkeyPatch) -> None:
    saved = {"ab": 3.0, "bc": 4.0, "abc": 5.0, "cd": 3.0, "abcd": 5.5, "de": -1.0}
    monkeypatch.setattr(tile_rows, "saving", lambda chain, env: saved.get("".join(chain), 0.0))
    assert tile_rows._chains("abcde", None) == ["ab", "cd"]  # type: ignore[arg-type]
    assert tile_rows._chains("de", None) == []  # type: ignore[arg-type]


def test_what_somebody_else_reads_is_written(rng: np.random.Generator, always: Callable[[int], None]) -> None:
    graph = dgo.Graph()
    x = graph.input("x", (2, 20, 9, 16))
    between = ops.relu(ops.convolution(x, graph.constant(integers(rng, (1, 1, 16, 16), "f32", limit=1))))
    weights = graph.constant(integers(rng, (3, 3, 1, 16), "f32", limit=1))
    after = ops.convolution(between, weights, groups=16, pads_begin=[1, 1], pads_end=[1, 1])
    data = integers(rng, x.shape, "f32", limit=2)
    net = graph.compile([between, after])
    assert not banded(net)
    want = evaluate_built(graph, {x: data})
    for got, value in zip(net(data), (between, after), strict=True):
        np.testing.assert_array_equal(got, want[value])


def test_weights_that_are_given_at_each_call(rng: np.random.Generator, always: Callable[[int], None]) -> None:
    graph = dgo.Graph()
    x, first, second = (
        graph.input(name, shape)
        for name, shape in (("x", (2, 20, 9, 16)), ("first", (1, 1, 16, 24)), ("second", (3, 3, 1, 24)))
    )
    between = ops.relu(ops.convolution(x, first))
    last = ops.convolution(between, second, groups=24, pads_begin=[1, 1], pads_end=[1, 1])
    net = graph.compile(last)
    assert banded(net)
    for _ in range(2):
        data = {value: integers(rng, value.shape, "f32", limit=2) for value in (x, first, second)}
        np.testing.assert_array_equal(net(*data.values()), evaluate_built(graph, data)[last])


def test_open_sizes(rng: np.random.Generator, always: Callable[[int], None]) -> None:
    graph = dgo.Graph()
    x = graph.input("x", (1, None, 9, 16))
    between = ops.relu(ops.convolution(x, graph.constant(integers(rng, (1, 1, 16, 16), "f32", limit=1))))
    weights = graph.constant(integers(rng, (3, 3, 1, 16), "f32", limit=1))
    net = graph.compile(ops.convolution(between, weights, groups=16, pads_begin=[1, 1], pads_end=[1, 1]))
    for size in (1, 2, 7, 40):
        data = integers(rng, (1, size, 9, 16), "f32", limit=2)
        alone = dgo.Graph()
        y = alone.input("x", data.shape)
        same = ops.relu(ops.convolution(y, alone.constant(between.node.inputs[0].node.inputs[1].constant)))
        last = ops.convolution(same, alone.constant(weights.constant), groups=16, pads_begin=[1, 1], pads_end=[1, 1])
        np.testing.assert_array_equal(net(data), evaluate_built(alone, {y: data})[last])


def test_copies_that_other_layers_read_stay(rng: np.random.Generator, always: Callable[[int], None]) -> None:
    """The source lies with its channels apart: one copy serves the layers in bands and the one beside them."""
    always(1 << 14)
    graph = dgo.Graph()
    x = graph.input("x", (1, 24, 20, 20))

    def layer(value: Any, made: int, kernel: int, stride: int, groups: int = 1) -> Any:
        weights = graph.constant(integers(rng, (made, value.shape[1] // groups, kernel, kernel), "f32", limit=1))
        pads = [kernel // 2] * 2
        return ops.convolution(
            value, weights, strides=[stride] * 2, pads_begin=pads, pads_end=pads, groups=groups,
            data_format="NCX", weights_format="OIX",
        )  # fmt: skip

    inner = layer(ops.relu(layer(x, 32, 1, 1)), 32, 3, 2, 4)
    last = ops.add(layer(inner, 16, 1, 1), layer(x, 16, 1, 2))
    net = graph.compile(last)
    data = integers(rng, x.shape, "f32", limit=2)
    found = net(data)
    assert banded(net)
    np.testing.assert_array_equal(found, evaluate_built(graph, {x: data})[last])
