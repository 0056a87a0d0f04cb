"""Nets with unknown dims, drawn from a seed, whose plans by a template are compared with plans compiled for the sizes.

A net is compiled once with templates and once for each of its sizes without, by the algorithms that the template chose.
The plan of a template shares kernels of layers that are alike, the other one does not. Compared are the kernels of both
plans with all that they were made with, where their operands lie, the bytes of results, and the memory.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest import mock

import numpy as np

import dnnl_graph_ops as dgo
from dnnl_graph_ops import _core, dtypes, ops
from dnnl_graph_ops.algorithms import alike, lower, table
from dnnl_graph_ops.compile import evaluate, plan, template, tile_rows
from dnnl_graph_ops.convolution import problem as problems
from dnnl_graph_ops.passes.folding import layers
from dnnl_graph_ops.strides import dense_strides
from dnnl_graph_ops.symbolic import native

Shape = tuple[Any, ...]
CHANNELS = (1, 2, 3, 8, 16, 17, 32)
ARENA = 1.1


class Drawn:
    """A net being drawn: data is (N, C, spatial...) or (N, spatial..., C), of which all but C may be unknown."""

    def __init__(self, *seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.graph = dgo.Graph()
        self.rank = self.pick(1, 1, 2, 2, 3)
        self.last = self.chance(0.4)
        self.format = "NXC" if self.last else "NCX"
        self.channels = self.pick(*CHANNELS)
        self.known = [self.whole(1, 3), *(self.size() for _ in range(self.rank))]
        self.unknown = [self.chance(0.4), *(self.chance(0.8) for _ in range(self.rank))]
        if not any(self.unknown):
            self.unknown[-1] = True
        self.dtype = self.pick("f32", "f32", "f32", "bf16")
        self.input = self.graph.input("x", self.shape([None if u else n for n, u in self.extents]), self.dtype)
        value = self.input
        self.kept: list[dgo.Value] = [value]
        self.story: list[str] = []
        for _ in range(self.whole(1, 7)):
            value = self.step(value)
        self.outputs = {"y": value}
        if self.chance(0.3) and self.kept[-1] is not self.input:
            self.outputs["z"] = ops.relu(self.pick(*self.kept[1:]))

    @property
    def extents(self) -> Iterator[tuple[int, bool]]:
        return zip(self.known, self.unknown, strict=True)

    # ---- numbers -----------------------------------------------------------------------------------------------------

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def whole(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def pick(self, *items: Any) -> Any:
        return items[self.whole(0, len(items) - 1)]

    def size(self) -> int:
        most = {1: 300, 2: 40, 3: 9}[self.rank]
        return self.pick(self.whole(1, 6), self.whole(4, most), self.whole(4, most))

    def shape(self, extents: Sequence[Any]) -> Shape:
        batch, *spatial = extents
        return (batch, *spatial, self.channels) if self.last else (batch, self.channels, *spatial)

    def sizes(self) -> Shape:
        """Sizes of a call near those that were drawn; one may be 0 or 1."""
        wanted = np.prod([n for n, unknown in self.extents if unknown])
        for _ in range(20):
            sizes = [max(self.whole(n // 5, 5 * n), 1) if unknown else n for n, unknown in self.extents]
            if 0.2 <= np.prod([n for n, unknown in zip(sizes, self.unknown, strict=True) if unknown]) / wanted <= 4:
                break
        if self.chance(0.05):
            sizes[self.pick(*np.flatnonzero(self.unknown))] = self.pick(0, 1)
        return tuple(sizes)

    def array(self, *shape: int, low: int = -2, high: int = 2) -> np.ndarray:
        return self.rng.integers(low, high + 1, shape).astype(dtypes.numpy_dtype(self.dtype))

    # ---- layers ------------------------------------------------------------------------------------------------------

    def count(self, value: dgo.Value) -> int:
        channels = value.shape[-1 if self.last else 1]
        assert channels is not None
        return channels

    def step(self, value: dgo.Value) -> dgo.Value:
        steps: tuple[Callable[[dgo.Value], dgo.Value], ...] = (
            self.convolution, self.convolution, self.convolution, self.alike, self.transposed, self.elementwise,
            self.elementwise,
            self.residual, self.pooled, self.padded, self.cut, self.joined, self.normed, self.transposed_axes,
            self.reduced, self.scaled, self.by_channels, self.product, self.scores,
        )  # fmt: skip
        layer = self.pick(*steps)
        try:
            result = layer(value)
        except dgo.InvalidArgumentError:
            # what does not fit the sizes so far, such as a slice of what may be empty
            return value
        self.story.append(layer.__name__)
        if len(result.shape) == self.rank + 2:
            self.kept.append(result)
        return result

    def is_image(self, value: dgo.Value) -> bool:
        return value.ndim == self.rank + 2 and bool(value.shape[-1 if self.last else 1])

    def convolution(self, value: dgo.Value) -> dgo.Value:
        if not self.is_image(value):
            return ops.relu(value)
        ic = self.count(value)
        groups = self.pick(1, 1, 1, ic)
        oc = groups * self.pick(1, 2) if groups > 1 else self.pick(*CHANNELS)
        kernel = [self.whole(1, 4) for _ in range(self.rank)]
        dilations = [self.pick(1, 1, 1, 2, 3) for _ in range(self.rank)]
        reach = [(k - 1) * d for k, d in zip(kernel, dilations, strict=True)]
        same = self.chance(0.6)
        begin = [r // 2 if same else self.whole(0, r) for r in reach]
        end = [r - b if same else self.whole(0, r) for r, b in zip(reach, begin, strict=True)]
        weights = self.graph.constant(self.array(oc, ic // groups, *kernel, low=-1, high=1))
        bias = self.graph.constant(self.array(oc)) if self.chance(0.5) else None
        return ops.convolution(
            value, weights, bias, strides=[self.pick(1, 1, 1, 2) for _ in kernel], dilations=dilations, groups=groups,
            pads_begin=begin, pads_end=end, data_format=self.format, weights_format="OIX",
        )  # fmt: skip

    def alike(self, value: dgo.Value) -> dgo.Value:
        """Returns the result of a few layers that differ in weights alone, and maybe in what is added."""
        if not self.is_image(value):
            return ops.relu(value)
        c, kernel = self.count(value), [self.whole(1, 3) for _ in range(self.rank)]
        pads, biased, follows = [(k - 1) // 2 for k in kernel], self.chance(0.5), self.pick(0, 0, 1, 2)
        ends = [k - 1 - pad for k, pad in zip(kernel, pads, strict=True)]
        for _ in range(self.pick(2, 3)):
            before = value
            weights = self.graph.constant(self.array(c, c, *kernel, low=-1, high=1))
            bias = self.graph.constant(self.array(c)) if biased else None
            value = ops.convolution(
                value, weights, bias, pads_begin=pads, pads_end=ends, data_format=self.format, weights_format="OIX",
            )  # fmt: skip
            if follows == 1:
                value = ops.prelu(value, self.graph.constant(self.array(c)), data_format=self.format)
            if follows == 2:
                value = ops.relu(value + before)
        return value

    def transposed(self, value: dgo.Value) -> dgo.Value:
        if not self.is_image(value):
            return ops.relu(value)
        ic, oc = self.count(value), self.pick(1, 2, 8, 16)
        stride = self.pick(1, 2, 2, 3)
        kernel = self.pick(stride, 2 * stride, stride + 1)
        pad = self.whole(0, kernel - 1) // 2
        weights = self.graph.constant(self.array(ic, oc, *[kernel] * self.rank, low=-1, high=1))
        return ops.conv_transpose(
            value, weights, strides=stride, pads_begin=pad, pads_end=pad, data_format=self.format,
            weights_format="IOX",
        )  # fmt: skip

    def elementwise(self, value: dgo.Value) -> dgo.Value:
        one: dgo.Value = self.pick(
            ops.relu, ops.abs, ops.tanh, ops.sigmoid, lambda v: ops.leaky_relu(v, alpha=0.5), lambda v: v * 0.5,
            lambda v: v + 1.0, ops.hard_swish,
        )(value)  # fmt: skip
        return one

    def residual(self, value: dgo.Value) -> dgo.Value:
        other = self.pick(*self.kept)
        return value + other if other.shape == value.shape else ops.relu(value) + value

    def pooled(self, value: dgo.Value) -> dgo.Value:
        if not self.is_image(value):
            return ops.relu(value)
        kernel = self.pick(1, 2, 3)
        common = {
            "kernel": [kernel] * self.rank, "strides": [self.pick(1, 2)] * self.rank,
            "pads_begin": [kernel // 2] * self.rank, "pads_end": [self.pick(0, kernel // 2)] * self.rank,
            "data_format": self.format,
        }  # fmt: skip
        return ops.max_pool(value, **common) if self.chance(0.5) else ops.avg_pool(value, exclude_pad=True, **common)

    def padded(self, value: dgo.Value) -> dgo.Value:
        begin = [self.pick(0, 0, 1, 2) for _ in value.shape]
        end = [self.pick(0, 0, 1) for _ in value.shape]
        if self.is_image(value):
            begin[-1 if self.last else 1] = end[-1 if self.last else 1] = 0
        return ops.pad(value, pads_begin=begin, pads_end=end, mode=self.pick("constant", "constant", "edge"))

    def cut(self, value: dgo.Value) -> dgo.Value:
        axis = self.whole(0, value.ndim - 1)
        return ops.slice(value, starts=[self.pick(0, 1)], ends=[self.pick(-1, 2**31)], axes=[axis])

    def joined(self, value: dgo.Value) -> dgo.Value:
        others = [other for other in self.kept if other.shape == value.shape]
        axis = (value.ndim - 1 if self.last else 1) if value.ndim > 2 else 0
        return ops.concat(value, self.pick(*others, ops.relu(value)), axis=axis)

    def normed(self, value: dgo.Value) -> dgo.Value:
        if value.shape[-1] is not None and self.chance(0.5):
            return ops.layer_norm(value, keep_stats=False, use_affine=False)
        if self.is_image(value) and self.chance(0.5):
            c = self.count(value)
            ones = [self.graph.constant(np.full(c, n, dtypes.numpy_dtype(self.dtype))) for n in (2, 1, 0, 1)]
            return ops.batch_norm_inference(value, *ones, epsilon=0.0, data_format=self.format)
        return ops.softmax(value, axis=self.pick(1, value.ndim - 1))

    def transposed_axes(self, value: dgo.Value) -> dgo.Value:
        order = list(range(value.ndim))
        a, b = self.whole(0, value.ndim - 1), self.whole(0, value.ndim - 1)
        order[a], order[b] = order[b], order[a]
        result = ops.static_transpose(ops.abs(value), order=order)
        return ops.static_transpose(ops.relu(result), order=order) if self.chance(0.8) else result

    def reduced(self, value: dgo.Value) -> dgo.Value:
        axis = self.whole(0, value.ndim - 1)
        mean = self.pick(ops.reduce_mean, ops.reduce_sum)(value, axes=[axis], keep_dims=True)
        return value - mean if self.chance(0.7) else mean

    def scaled(self, value: dgo.Value) -> dgo.Value:
        if not self.is_image(value) or self.chance(0.5):
            return ops.static_reshape(ops.relu(value), shape=[0, 0, -1][: value.ndim], special_zero=True)
        return ops.interpolate(value, mode="nearest", scales=[2.0] * self.rank, data_format=self.format)

    def by_channels(self, value: dgo.Value) -> dgo.Value:
        if not self.is_image(value):
            return ops.relu(value)
        c = self.count(value)
        shape = [1] * value.ndim
        shape[-1 if self.last else 1] = c
        return value * self.graph.constant(self.array(*shape))

    def product(self, value: dgo.Value) -> dgo.Value:
        if not value.shape[-1]:
            return ops.relu(value)
        return ops.matmul(value, self.graph.constant(self.array(value.shape[-1], self.pick(1, 4, 16), low=-1, high=1)))

    def scores(self, value: dgo.Value) -> dgo.Value:
        scores = ops.softmax(ops.matmul(value, value, transpose_b=True), axis=-1)
        return ops.matmul(scores, value) if self.chance(0.7) else scores

    def compiled(self) -> dgo.Net:
        return self.graph.compile(self.outputs)


# ---- what a plan was made of -----------------------------------------------------------------------------------------


class Otherwise(Exception):
    """The size that is compiled has other layers to choose algorithms for than the trace: its plan is another one."""


class Log:
    """Records what native objects are made with; and what a trace chooses, to choose it again.

    A trace chooses algorithms, bands, folds and taps of layers.

    `steps`: of each executor that was built, by its address, the kernels, and the places of their operands.
    """

    def __init__(self) -> None:
        self.made: dict[int, Any] = {}
        self.steps: dict[int, list[Any]] = {}
        self.kept: list[Any] = []
        self.algorithms: list[str] = []
        self.chains: list[list[list[int]]] = []
        self.folds: list[bool] = []
        # taps of layers along an axis, and whether they are used
        self.taps: list[tuple[Any, bool]] = []

    def told(self, value: Any) -> Any:
        """Arguments, with native objects as what they were made with."""
        if isinstance(value, list | tuple):
            return tuple(map(self.told, value))
        if id(value) in self.made:
            return self.made[id(value)]
        return value if isinstance(value, int | float | str | bytes) else str(type(value))

    def wrapped(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if type(result) is not native.Traced and not isinstance(result, int | str | bytes | tuple | list | None):
                self.kept.append(result)
                self.made[id(result)] = name, self.told((*args, *kwargs.values()))
            return result

        return call

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Records the factories that traces, formulas and compiles call, and the executors that they build."""
        log, call = self, native._Function.__call__

        class Kernels:
            def __getattr__(self, name: str) -> Any:
                return log.wrapped(name, getattr(_core.kernels, name))

        class Recorded(_core.Executor):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                self.names: list[Any] = []
                log.steps[id(self)] = self.told = []
                log.kept.append(self)

            def _slot(self, kind: str, slot: int) -> int:
                self.names.append(kind)
                return slot

            def add_input(self, *args: Any) -> int:
                return self._slot("input", super().add_input(*args))

            def add_output(self, *args: Any) -> int:
                return self._slot("output", super().add_output(*args))

            def add_scratch(self, *args: Any) -> int:
                return self._slot("scratch", super().add_scratch(*args))

            def add_constant(self, *args: Any) -> int:
                return self._slot("constant", super().add_constant(*args))

            def add_kernel(self, kernel: Any, refs: Any, label: str, nbytes: Any) -> None:
                super().add_kernel(kernel, refs, label, nbytes)
                self.tell(kernel, refs, label, nbytes)

            def tell(self, kernel: Any, refs: Any, label: str, nbytes: Any) -> None:
                places = []
                for slot, offset in refs:
                    if isinstance(self.names[slot], str):
                        # inputs and outputs are numbered as they are, all others as they are first used
                        used = sum(not isinstance(name, str) for name in self.names)
                        number = slot if self.names[slot] in ("input", "output") else used
                        self.names[slot] = self.names[slot], number
                    places.append((self.names[slot], offset))
                self.told.append((label, kernel.by, log.told(kernel), tuple(places), tuple(nbytes)))

        class Filled(_core.PlanSteps):
            def __init__(self, *args: Any) -> None:
                super().__init__(*args)
                self.args = args

            def fill(
                self, plan: Any, ins: Any, outs: Any, nbytes: Any, starts: Any, constants: Any, sized: Any
            ) -> None:
                super().fill(plan, ins, outs, nbytes, starts, constants, sized)
                counts = {"input": ins, "output": outs, "scratch": nbytes, "constant": constants}
                plan.names += [kind for kind, every in counts.items() for _ in every]
                for (label, slots, _), (kernel, offsets, extents) in zip(self.args[-1], sized, strict=True):
                    plan.tell(kernel, [*zip(slots, offsets, strict=True)], label, extents)

        with (
            mock.patch("dnnl_graph_ops.symbolic.formula.kernels", Kernels()),
            mock.patch.object(
                native._Function, "__call__", lambda f, *a, **k: log.wrapped(f.__name__, call.__get__(f))(*a, **k)
            ),
            mock.patch.object(evaluate, "Executor", Recorded),
            mock.patch.object(evaluate, "PlanSteps", Filled),
            mock.patch.object(plan, "Executor", Recorded),
        ):
            yield

    @contextmanager
    def choosing(self) -> Iterator[None]:
        """Records the algorithms, bands, folds and taps that are chosen."""
        ranked, chains = lower._ranked, tile_rows._chains

        def first(problem: Any, env: Any) -> Any:
            ranking = ranked(problem, env)
            self.algorithms.append(ranking[0][0].name)
            return ranking

        def parts(run: Any, env: Any) -> Any:
            chosen = chains(run, env)
            self.chains.append([[layer.group for layer in chain] for chain in chosen])
            return chosen

        def pays(*seconds: float) -> bool:
            self.folds.append(worth(*seconds))
            return self.folds[-1]

        def is_used(g: Any, axis: int, first: int) -> bool:
            self.taps.append(((g.kernel, axis, first), used(g, axis, first)))
            return self.taps[-1][1]

        worth, used = layers.pays, problems._is_used
        with (
            mock.patch.object(lower, "_ranked", first),
            mock.patch.object(tile_rows, "_chains", parts),
            mock.patch.object(layers, "pays", pays),
            mock.patch.object(problems, "_is_used", is_used),
        ):
            yield

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Chooses the algorithms, bands, folds and taps that were recorded, and lowers each layer by itself.

        Raises Otherwise where that is impossible.
        """
        ranked, algorithms, chains = lower._ranked, iter(self.algorithms), iter(self.chains)

        def first(problem: Any, env: Any) -> Any:
            name, ranking = next(algorithms, ""), ranked(problem, env)
            every = [*ranking, *((a, 0.0) for a in table.ALGORITHMS if a.direction == problem.direction)]
            chosen = next((item for item in every if item[0].name == name), None)
            if chosen is None or not chosen[0].applies(problem, env):
                raise Otherwise
            return [chosen, *(item for item in ranking if item is not chosen)]

        def parts(run: Any, env: Any) -> Any:
            groups = next(chains, [])
            found = [[layer for layer in run if layer.group in some] for some in groups]
            if [len(some) for some in groups] != list(map(len, found)):
                raise Otherwise
            return found

        def pays(*seconds: float) -> bool:
            fold = next(folds, None)
            if fold is None:
                raise Otherwise
            return fold

        def is_used(g: Any, axis: int, first: int) -> bool:
            tap, used = next(taps, (None, True))
            if tap != (g.kernel, axis, first):
                raise Otherwise
            return used

        folds, taps = iter(self.folds), iter(self.taps)
        with (
            mock.patch.object(lower, "_ranked", first),
            mock.patch.object(tile_rows, "_chains", parts),
            mock.patch.object(layers, "pays", pays),
            mock.patch.object(problems, "_is_used", is_used),
            mock.patch.object(alike, "append", lambda *layer: layer[-1]()),
        ):
            yield


# ---- the comparison --------------------------------------------------------------------------------------------------


def judge(seed: int, number: int, tries: int = 3) -> Counter[str]:
    """Draws a net and compares its plans for some sizes. Returns how many were equal, or why they were not compared."""
    outcomes: Counter[str] = Counter()
    d = Drawn(seed, number)
    net = d.compiled()
    log = Log()
    known = d.shape(d.known)
    with log.listening():
        try:
            with log.choosing():
                traced = template.Template(net._traceable(), [known])
        except dgo.Error as error:
            return Counter({f"no such net: {type(error).__name__}": 1})
        except template.Refused as error:
            return Counter({f"refused: {str(error).split(' ')[0]}": 1})
        # the first plan keeps the constants alive
        first = traced.executor([n for n, u in d.extents if u])
        if first is None and isinstance(traced._parts, evaluate.Mixed):
            # choices that a reference kernel would run are known from now on
            return Counter({"by a reference kernel of the library": 1})
        if first is None:
            raise AssertionError("the template does not hold for the sizes that it was made with")
        for _ in range(tries):
            outcomes[_compared(d, net, traced, log, d.sizes())] += 1
    return outcomes


def _compared(d: Drawn, net: dgo.Net, traced: template.Template, log: Log, sizes: Shape) -> str:
    shape = d.shape(sizes)
    unknown = [n for n, u in zip(sizes, d.unknown, strict=True) if u]
    shapes = traced.shapes(unknown)
    executor = traced.executor(unknown)
    if executor is None or shapes is None:
        return "not for these sizes"
    x = d.array(*shape)
    layout = [(shape, dense_strides(shape))]
    kinds = [dtypes.numpy_dtype(value.dtype) for value in d.outputs.values()]
    results = [np.full(one, np.nan, kind) for one, kind in zip(shapes, kinds, strict=True)]
    executor.run([x], results)
    try:
        with log.chosen():
            fresh = net._build(layout, None).plan.executor
        otherwise = False
    except Otherwise:
        fresh, otherwise = net._build(layout, None).plan.executor, True
    wanted = [np.full([*one], np.nan, kind) for (one, _), kind in zip(fresh.outputs, kinds, strict=True)]
    assert [one.shape for one in wanted] == [one.shape for one in results], (sizes, shapes)
    fresh.run([x], wanted)
    if otherwise or [step[0] for step in log.steps[id(executor)]] != [step[0] for step in log.steps[id(fresh)]]:
        close = 1e-3 if d.dtype == "f32" else 5e-2
        for one, other in ((a.astype(np.float32), b.astype(np.float32)) for a, b in zip(results, wanted, strict=True)):
            np.testing.assert_allclose(
                one, other, rtol=close, atol=close * max(1.0, float(np.abs(other).max(initial=0)))
            )
        return "other choices, results alike"
    for ours, theirs in zip(log.steps[id(executor)], log.steps[id(fresh)], strict=True):
        assert ours == theirs, (sizes, ours, theirs)
    for one, other in zip(results, wanted, strict=True):
        assert one.tobytes() == other.tobytes(), sizes
    assert executor.arena_bytes <= ARENA * fresh.arena_bytes + 4096, (executor.arena_bytes, fresh.arena_bytes)
    assert executor.threads == fresh.threads and executor.release_gil == fresh.release_gil
    return "equal plans"


def main(count: int = 1000, seed: int = 1, first: int = 0) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(first, first + count):
        try:
            outcomes += judge(seed, number)
        except Exception as error:
            outcomes["WRONG"] += 1
            print(
                f"seed {seed}, net {number}, {Drawn(seed, number).story}: {type(error).__name__}: {error}"[:1500],
                flush=True,
            )
        if number % 100 == 99:
            print(number + 1, dict(outcomes), flush=True)
    print(f"{count} nets: {dict(outcomes)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
