"""Staged graphs, for models that one graph cannot express: each stage is a graph, a node on arrays, or nodes built at
a call.

A stage ends where a shape depends on data, a dtype is not the package's, or control flow begins. The next graph has
inputs of dynamic shapes, and so a plan for each shape.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import TYPE_CHECKING, Any

import numpy as np

from ... import dtypes
from ..._core import Executor, NetBase, PlanCache, check_deadline
from ...compile import selection
from ...compile.specialise import Options
from ...drawing.picture import Picture, alone, of_net, side_by_side
from ...errors import UnsupportedError
from ...graph import Graph, Value
from ...graph.array_file import numbering
from ...net.files import described
from ...net.net import Net, made
from ...net.sizes import UNKNOWN, Ints, Parts, Shapes
from ...progress import listener, telling
from ...reports.explain import Benchmark, Explanation, PartitionReport, StepTime, joined, nothing
from ...reports.profile import Profile
from ...runtime import arrays
from ...runtime.engines import Engine, default_engine
from .node import Array, Tensor
from .section import Section
from .types import CODES, LABELS

# the mark of an input that is no tensor
SEQUENCE = "sequence"


class Stage:
    """Computes the tensors `gives` from the tensors `reads`, by name; "" in `gives` stands for a dropped result."""

    if TYPE_CHECKING:

        @property
        def reads(self) -> tuple[str, ...]: ...

        @property
        def gives(self) -> tuple[str, ...]: ...

        @property
        def title(self) -> str: ...

        def __call__(self, values: Sequence[Any], options: Options) -> Sequence[Any]: ...

    def nets(self) -> Sequence[Net]:
        """The nets that the stage has built so far."""
        return ()

    def parts(self, known: Mapping[str, Tensor]) -> Parts:
        """Returns the plans that the stage runs on tensors of known facts."""
        return Parts(())

    def known_results(self, known: Mapping[str, Tensor]) -> Sequence[Tensor]:
        """Returns the facts of the tensors `gives`, as far as facts of the tensors `reads` determine them, or none."""
        return ()

    def reports(self) -> Sequence[PartitionReport]:
        """Reports for `explain`, besides those of the nets."""
        return ()

    def picture(self) -> Picture:
        return alone(self.title, self.reads, tuple(filter(None, self.gives)))


@dataclass(frozen=True, eq=False)
class NetStage(Stage):
    """A stage of a graph whose inputs have the names `reads`."""

    net: Net
    reads: tuple[str, ...]
    gives: tuple[str, ...]

    @property
    def title(self) -> str:
        return f"graph of {', '.join(self.gives)}"

    def __call__(self, values: Sequence[Any], options: Options) -> Sequence[Any]:
        return several(self.net(*map(plain, values)))

    def nets(self) -> Sequence[Net]:
        return (self.net,)

    def parts(self, known: Mapping[str, Tensor]) -> Parts:
        shapes = self._shapes(known)
        return Parts((), (self.title,)) if shapes is None else self.net._parts_at(shapes)

    def _shapes(self, known: Mapping[str, Tensor]) -> tuple[Ints, ...] | None:
        """Returns the shapes of the net's inputs; None if a size depends on data."""
        stated = [
            value.shape if None not in value.shape else known[name].sizes if name in known else (None,)
            for name, value in zip(self.reads, self.net.inputs, strict=True)
        ]
        return None if any(None in shape for shape in stated) else tuple(map(tuple, stated))  # type: ignore[arg-type]

    def known_results(self, known: Mapping[str, Tensor]) -> Sequence[Tensor]:
        shapes = self._shapes(known)
        if shapes is None:
            return [Tensor(CODES[value.dtype], value.shape) for value in self.net.outputs.values()]
        values = zip(self.net.outputs.values(), self.net._out_shapes(shapes), strict=True)
        return [Tensor(CODES[value.dtype], shape) for value, shape in values]

    def picture(self) -> Picture:
        return of_net(self.net)


def several(results: Any) -> Sequence[Any]:
    """Returns a net's result as a sequence."""
    return results if isinstance(results, tuple) else (results,)


def plain(array: Any) -> Any:
    """Returns an array that a graph accepts; an array of at most one element needs no copy."""
    if not isinstance(array, np.ndarray) or (array.flags.carray and min(array.strides, default=0) >= 0):
        return array
    return array.copy(order="C")


@dataclass(eq=False)
class Part:
    """A graph, and the nodes that run before it; `feeds`: the tensors of its inputs."""

    graph: Graph
    before: list[Stage] = field(default_factory=list)
    feeds: dict[Value, str] = field(default_factory=dict)
    # outputs that later parts read
    gives: dict[str, Value] = field(default_factory=dict)


class StagedGraph(Graph):
    """The parts of a model in order, and the rest, which a call builds; `stored`: outputs that are known.

    Pickled and saved as `whole`, from which `build` makes it again.
    """

    def __init__(
        self,
        whole: Section,
        build: Callable[[Any, Engine | None], Graph],
        engine: Engine | None,
        parts: Sequence[Part],
        stored: Mapping[str, Array],
        rest: Stage | None,
    ) -> None:
        super().__init__(engine, name=whole.name.replace("\0", "?"))
        self._whole, self._build = whole, build
        self._parts, self._stored, self._rest = tuple(parts), dict(stored), rest
        self.nodes = [node for part in parts for node in part.graph.nodes]
        self.constants = [value for part in parts for value in part.graph.constants]

    def __reduce__(self) -> tuple[Any, ...]:
        return self._build, (self._whole, self.engine)


class StagedNet(Net):
    """The net of a staged graph: a net for each graph, and the nodes between them."""

    graph: StagedGraph

    def __init__(self, graph: StagedGraph, options: Options) -> None:
        self.graph, self._options, self._progress = graph, options, listener()
        self.engine = graph.engine or default_engine()
        self.outputs = dict(graph.outputs)
        self._stages = self._stages_of(graph)
        read = {name for stage in self._stages for name in stage.reads} | {*self.outputs}
        self.inputs = tuple(value for value in graph.inputs if graph._keeps_inputs or value.name in read)
        names = [value.name for value in self.inputs]
        NetBase.__init__(self, names, len(self.outputs), PlanCache(), True, options.threads or 0)
        self._drops = self._last_reads()
        # only wrong calls need them
        self._where = [f"{self!r}: input {value.name!r}" for value in self.inputs]
        self._outs_where = [f"{self!r}: 'out' for {name!r}" for name in self.outputs]

    def _stages_of(self, graph: StagedGraph) -> tuple[Stage, ...]:
        """Returns the stages that the outputs depend on, searched from the end."""
        needed, stages, selections = {*self.outputs}, list[Stage](), self._options.algorithms
        selection.check_ops(selections, graph.nodes)
        self._own_options = replace(self._options, algorithms=())

        def need(stage: Stage) -> None:
            stages.append(stage)
            needed.update(stage.reads)

        if graph._rest is not None:
            need(graph._rest)
        for part in reversed(graph._parts):
            wanted = {name: value for name, value in part.gives.items() if name in needed}
            if wanted:
                of_part = selection.of_nodes(selections, part.graph.nodes)
                net = made(part.graph, wanted, replace(self._options, algorithms=of_part))
                need(NetStage(net, tuple(part.feeds[value] for value in net.inputs), tuple(wanted)))
            for stage in reversed(part.before):
                if needed.intersection(filter(None, stage.gives)):
                    need(stage)
        return tuple(reversed(stages))

    def _last_reads(self) -> list[tuple[str, ...]]:
        """Returns for each stage the tensors that no later stage reads."""
        seen, drops = {*self.outputs}, list[tuple[str, ...]]()
        for stage in reversed(self._stages):
            drops.append(tuple(name for name in dict.fromkeys((*stage.reads, *stage.gives)) if name not in seen))
            seen.update((*stage.reads, *stage.gives))
        return drops[::-1]

    # -- calling ----------------------------------------------------------------------------------------------

    def _call(self, given: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        tensors = self._tensors(given)
        # results must not share the caller's memory
        lent = [item for item in tensors.values() if isinstance(item, np.ndarray)]
        # builds nets of nodes whose ranks depend on the call
        with telling(self._progress):
            for stage, drops in zip(self._stages, self._drops, strict=True):
                check_deadline(f"{self!r}")
                self._run(stage, tensors)
                for name in drops:
                    tensors.pop(name, None)
        return [
            _returned(tensors[name], out, where, lent)
            for name, out, where in zip(self.outputs, outs, self._outs_where, strict=True)
        ]

    def _tensors(self, given: Sequence[Any]) -> dict[str, Any]:
        return dict(zip(self.input_names, self._operands(given), strict=True)) | self.graph._stored

    def _operands(self, given: Sequence[Any], where: str = "") -> list[Any]:
        labels = [f"{where}: input {value.name!r}" for value in self.inputs] if where else self._where
        return [
            item if value.dtype == SEQUENCE else _operand(value, item, label)
            for value, item, label in zip(self.inputs, given, labels, strict=True)
        ]

    def _run(self, stage: Stage, tensors: dict[str, Any]) -> None:
        found = stage([tensors[name] for name in stage.reads], self._own_options)
        tensors.update((name, item) for name, item in zip(stage.gives, found, strict=False) if name)

    # -- plans ------------------------------------------------------------------------------------------------

    @property
    def _nets(self) -> tuple[Net, ...]:
        return tuple(one for stage in self._stages for net in stage.nets() for one in net._nets)

    def _parts_at(self, shapes: Shapes) -> Parts:
        known = {
            value.name: Tensor(LABELS[value.dtype], shape)
            for value, shape in zip(self.inputs, shapes, strict=True)
            if value.dtype in LABELS
        }
        known |= {name: Tensor(LABELS[dtypes.label(one.dtype)], one.shape) for name, one in self.graph._stored.items()}
        plans, late = list[tuple[PlanCache, Callable[[], Executor]]](), list[str]()
        for stage in self._stages:
            parts = stage.parts(known)
            plans += parts.plans
            late += parts.late
            results = zip(stage.gives, stage.known_results(known), strict=False)
            known.update((name, result) for name, result in results if name)
        return Parts(plans, late)

    # -- looking inside ---------------------------------------------------------------------------------------

    def benchmark(self, *args: Any, repeat: int = 100, **kwargs: Any) -> Benchmark:
        """Time whole calls; see `Net.benchmark`."""
        self._check_repeat(repeat)
        given, outs = self._by_name(args, kwargs), [None] * len(self.outputs)
        return Benchmark(tuple(_seconds(self._call, given, outs) for _ in range(repeat + 1))[1:])

    def profile(self, *args: Any, repeat: int = 20, **kwargs: Any) -> Profile:
        """Measure the median time of each graph, and of each node between graphs; see `Net.profile`."""
        self._check_repeat(repeat)
        given, rounds = self._by_name(args, kwargs), list[list[float]]()
        for _ in range(repeat + 1):
            tensors = self._tensors(given)
            rounds.append([_seconds(self._run, stage, tensors) for stage in self._stages])
        medians = [median(some) for some in zip(*rounds[1:], strict=True)]
        total = sum(medians) or 1.0
        return Profile(
            StepTime(stage.title, seconds, share=seconds / total)
            for stage, seconds in zip(self._stages, medians, strict=True)
        )

    def _named_options(self) -> Options:
        names = [pair for net in self._nets for pair in net._named_options().algorithms]
        return replace(self._options, algorithms=tuple(names))

    def explain(self, *, rewrites: bool = False, passes: bool = False) -> Explanation:
        """Explain the plans of the graphs, and the nodes between them, in order; see `Net.explain`."""
        parts = [nothing(self.engine, self._options)]
        for stage in self._stages:
            rows = tuple(stage.reports())
            parts.append(replace(parts[0], groups=rows, steps=tuple(step for row in rows for step in row.steps)))
            parts += [
                net.explain(rewrites=rewrites, passes=passes)
                for net in stage.nets()
                if isinstance(net, StagedNet) or net._latest() is not None
            ]
        return self._with_choice(joined(parts))


def _operand(value: Value, item: Any, where: str) -> Array:
    array = arrays.as_array(item, where)
    if value.dtype == "object":
        array = array.astype(object)
    if (found := dtypes.label(array.dtype)) != value.dtype:
        name = dtypes.numpy_dtype(value.dtype).name if value.dtype in dtypes.CODES else value.dtype
        raise arrays.wrong_dtype(found, value.dtype, name, where)
    if value.shape != UNKNOWN:
        arrays.check_shape(array, value.shape, where)
    return array


def _returned(item: Any, out: Any, where: str, lent: Sequence[Array]) -> Any:
    if not isinstance(item, np.ndarray):
        return item
    if out is not None:
        target = arrays.as_array(out, where)
        arrays.check_out(target, item.shape, dtypes.label(item.dtype), where)
        target[...] = item
        return out
    mine = item.base is None and item.flags.writeable and not any(item is other for other in lent)
    return item if mine else item.copy(order="C")


def _seconds(run: Callable[..., Any], *args: Any) -> float:
    start = time.perf_counter()
    run(*args)
    return time.perf_counter() - start


@of_net.register
def _drawn(net: StagedNet) -> Picture:
    """Returns one picture of all stages, connected by the names of tensors."""
    stages = [(stage.picture(), stage.reads, tuple(filter(None, stage.gives))) for stage in net._stages]
    return side_by_side(net.graph.name, net.input_names, net.output_names, stages)


@made.register
def _made(graph: StagedGraph, outputs: Any, options: Options) -> Net:
    """Builds the net; a staged graph can only be compiled for all its outputs."""
    if outputs is not None:
        raise UnsupportedError(
            "Graph.compile: a model that is no single graph has the outputs that it declares; leave 'outputs' out"
        )
    return StagedNet(graph, options)


@described.register
def _described(net: StagedNet) -> tuple[dict[str, Any], list[Array]]:
    """Returns the record of the model; loading it builds the graphs again and needs the package onnx."""
    kept: list[Array] = []
    return {"model": net.graph._whole.record(numbering(kept))}, kept
