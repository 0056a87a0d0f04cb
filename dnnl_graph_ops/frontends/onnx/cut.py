"""Models that are no single graph: graphs, and between them nodes that run on arrays.

A cut is where a shape depends on data, where types are not the package's, where control flow begins. The graph behind
it has inputs of unknown sizes, so that it is planned for each shape as every such graph is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from ... import dtypes
from ..._core import NetBase, PlanCache
from ...compile import selection
from ...compile.explain import Benchmark, Explanation, PartitionReport, StepReport, StepTime
from ...compile.net import Net, made
from ...compile.plan import Plan
from ...compile.profile import Profile
from ...compile.saved import described
from ...compile.specialise import Options, PartitionInfo, Specialised
from ...drawing.picture import Box, Picture, of_net, short
from ...errors import UnsupportedError
from ...graph import AlgorithmInfo, Graph, Value
from ...progress import listener, telling
from ...runtime import arrays
from ...runtime.engines import Engine, default_engine
from ..reading.node import Array
from .hosts import HostNode
from .model import Model
from .submodel import SubModel, plain


@dataclass(eq=False)
class Part:
    """A graph, and the nodes that run before it; `feeds` says which tensors its inputs are."""

    graph: Graph
    before: list[HostNode] = field(default_factory=list)
    feeds: dict[Value, str] = field(default_factory=dict)
    # what it gives, of what something behind it reads
    gives: dict[str, Value] = field(default_factory=dict)


class MadeOf(NamedTuple):
    """A function that builds a graph, and its arguments."""

    build: Callable[[Model, Engine | None, int], Graph]
    model: Model
    engine: Engine | None
    budget: int


class CutGraph(Graph):
    """The parts of a model in their order, and the rest that a call builds; `stored` are outputs that are known.

    It is pickled and saved as the model.
    """

    def __init__(
        self,
        made_of: MadeOf,
        name: str,
        parts: Sequence[Part],
        stored: Mapping[str, Array],
        rest: SubModel | None,
    ) -> None:
        super().__init__(made_of.engine, name=name)
        self._made_of = made_of
        self._parts, self._stored, self._rest = tuple(parts), dict(stored), rest
        self.nodes = [node for part in parts for node in part.graph.nodes]
        self.constants = [value for part in parts for value in part.graph.constants]

    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_of.build, self._made_of[1:]


@dataclass(frozen=True, eq=False)
class _Stage:
    """What runs at one time, as a function of tensors by name."""

    reads: tuple[str, ...]
    gives: tuple[str, ...]
    run: Callable[[Mapping[str, Any]], Sequence[Any]]
    does: Net | HostNode | SubModel


class CutNet(Net):
    """The net of such a model: its graphs' nets, and what is between them."""

    graph: CutGraph

    def __init__(self, graph: CutGraph, options: Options) -> None:
        self.inputs = tuple(graph.inputs)
        self.outputs = dict(graph.outputs)
        NetBase.__init__(self, [value.name for value in self.inputs], len(self.outputs), PlanCache(), True)
        self.graph, self._options, self._progress = graph, options, listener()
        self.engine = graph.engine or default_engine()
        self._stored = graph._stored
        self._stages = self._stages_of(graph)
        if not graph._keeps_inputs:
            read = {name for stage in self._stages for name in stage.reads} | {*self.outputs}
            self.inputs = tuple(value for value in self.inputs if value.name in read)
        NetBase.__init__(self, [value.name for value in self.inputs], len(self.outputs), PlanCache(), True)
        self._drops = self._last_reads()
        # a call that is right has no use for them
        self._where = {value.name: f"{self!r}: input {value.name!r}" for value in self.inputs}
        self._outs_where = [f"{self!r}: 'out' for {name!r}" for name in self.outputs]

    def _stages_of(self, graph: CutGraph) -> tuple[_Stage, ...]:
        """What is needed for the outputs, found from the end."""
        needed, stages, selections = {*self.outputs}, list[_Stage](), self._options.algorithms
        selection.check_ops(selections, graph.nodes)
        options = replace(self._options, algorithms=())
        if graph._rest is not None:
            rest = graph._rest

            def run(values: Mapping[str, Any]) -> Sequence[Any]:
                return rest([values[name] for name in rest.inputs], options)

            stages.append(_Stage(rest.inputs, rest.outputs, run, rest))
            needed.update(rest.inputs)
        for part in reversed(graph._parts):
            wanted = {name: value for name, value in part.gives.items() if name in needed}
            if wanted:
                of_part = selection.of_nodes(selections, part.graph.nodes)
                net = made(part.graph, wanted, replace(options, algorithms=of_part))
                stages.append(_of_net(net, tuple(part.feeds[value] for value in net.inputs), tuple(wanted)))
                needed.update(stages[-1].reads)
            for host in reversed(part.before):
                if needed.intersection(filter(None, host.node.outputs)):
                    stages.append(_of_host(host, options))
                    needed.update(host.reads)
        return tuple(reversed(stages))

    def _last_reads(self) -> list[tuple[str, ...]]:
        """The tensors that nobody reads after each stage."""
        seen, drops = {*self.outputs}, list[tuple[str, ...]]()
        for stage in reversed(self._stages):
            drops.append(tuple(name for name in dict.fromkeys((*stage.reads, *stage.gives)) if name not in seen))
            seen.update((*stage.reads, *stage.gives))
        return drops[::-1]

    # -- calling ----------------------------------------------------------------------------------------------

    def _call(self, given: Sequence[Any], outs: Sequence[Any]) -> list[Any]:
        tensors = self._given(given)
        # nothing of the caller's may be in a result
        lent = [item for item in (*tensors.values(), *self._stored.values()) if isinstance(item, np.ndarray)]
        tensors |= self._stored
        # nets of nodes whose ranks a call tells are built here
        with telling(self._progress):
            for stage, drops in zip(self._stages, self._drops, strict=True):
                self._run(stage, tensors)
                for name in drops:
                    tensors.pop(name, None)
        return [
            _returned(tensors[name], out, where, lent)
            for name, out, where in zip(self.outputs, outs, self._outs_where, strict=True)
        ]

    def _check(self, inputs: Mapping[str, Any]) -> None:
        self._given(self._by_name((), dict(inputs)))

    def _given(self, given: Sequence[Any]) -> dict[str, Any]:
        tensors: dict[str, Any] = {}
        for value, item in zip(self.inputs, given, strict=True):
            where = self._where[value.name]
            if value.dtype == SEQUENCE:
                tensors[value.name] = item
                continue
            array = arrays.as_array(item, where)
            if value.dtype == "object":
                array = array.astype(object)
            if (found := dtypes.label(array.dtype)) != value.dtype:
                name = dtypes.numpy_dtype(value.dtype).name if value.dtype in dtypes.CODES else value.dtype
                raise arrays.wrong_dtype(found, value.dtype, name, where)
            if value.shape != UNKNOWN:
                arrays.check_shape(array, value.shape, where)
            tensors[value.name] = array
        return tensors

    def _run(self, stage: _Stage, tensors: dict[str, Any]) -> None:
        found = stage.run(tensors)
        tensors.update((name, item) for name, item in zip(stage.gives, found, strict=False) if name)

    # -- plans ------------------------------------------------------------------------------------------------

    @property
    def _nets(self) -> list[Net]:
        """Of its graphs, as far as these have been built."""
        found: list[Net] = []
        for stage in self._stages:
            if isinstance(stage.does, Net):
                found.append(stage.does)
            else:
                models = [stage.does] if isinstance(stage.does, SubModel) else stage.does.bodies.values()
                found += [net for model in models for net in model.nets]
        return found

    def _latest(self) -> Specialised | None:
        return None

    def _narrow(self) -> Mapping[str, float]:
        """Of all its nets."""
        return {name: gain for net in self._nets for name, gain in net._narrow().items()}

    @property
    def partitions(self) -> tuple[PartitionInfo, ...]:
        """Of all its nets."""
        return tuple(part for net in self._nets for part in net.partitions)

    def clear_plans(self) -> None:
        for net in self._nets:
            net.clear_plans()

    def plan_count(self) -> int:
        return sum(net.plan_count() for net in self._nets)

    def _constants_read(self) -> list[Array]:
        return [array for net in self._nets for array in net._constants_read()]

    # -- looking inside ---------------------------------------------------------------------------------------

    def benchmark(self, *args: Any, repeat: int = 100, **kwargs: Any) -> Benchmark:
        """Time whole calls."""
        self._check_repeat(repeat)
        given = self._by_name(args, kwargs)
        times = []
        for _ in range(repeat + 1):
            start = time.perf_counter()
            self._call(given, [None] * len(self.outputs))
            times.append(time.perf_counter() - start)
        return Benchmark(tuple(times[1:]))

    def profile(self, *args: Any, repeat: int = 20, **kwargs: Any) -> list[StepTime]:
        """Median time of each graph, and of each node between them, on these arrays."""
        self._check_repeat(repeat)
        given, times = self._by_name(args, kwargs), [list[float]() for _ in self._stages]
        for _ in range(repeat + 1):
            tensors = self._given(given) | self._stored
            for stage, some in zip(self._stages, times, strict=True):
                start = time.perf_counter()
                self._run(stage, tensors)
                some.append(time.perf_counter() - start)
        medians = [median(some[1:]) for some in times]
        total = sum(medians) or 1.0
        steps = (
            StepTime(_title(stage), seconds, share=seconds / total)
            for stage, seconds in zip(self._stages, medians, strict=True)
        )
        return Profile(sorted(steps, key=lambda one: -one.seconds))

    def _plans_told(self) -> tuple[list[Plan], list[Plan]]:
        told = [net._plans_told() for stage in self._stages for net in _nets_of(stage)]
        last, others = ([plan for pair in told for plan in pair[i]] for i in (0, 1))
        return last, others

    def algorithms(self, op: str) -> tuple[AlgorithmInfo, ...]:
        nets = self._nets
        selection.convolution(op, [node for net in nets for node in net.graph.nodes], f"{self!r}.algorithms")
        return next(net for net in nets if any(node.name == op for node in net.graph.nodes)).algorithms(op)

    def _named_options(self) -> Options:
        names = [pair for net in self._nets for pair in net._named_options().algorithms]
        return replace(self._options, algorithms=tuple(names))

    def explain(self, *, rewrites: bool = False, passes: bool = False) -> Explanation:
        """What runs and why: the plans of its graphs, and the nodes between them, in their order."""
        parts = [part for stage in self._stages for part in _explained(stage, rewrites, passes)]
        found = [one for one in parts if isinstance(one, Explanation)]
        groups = tuple(row for one in parts for row in (one.groups if isinstance(one, Explanation) else (one,)))
        steps = tuple(step for one in parts for step in one.steps)
        base = found[0] if found else Net(*_nothing(self.engine), self.engine, self._options).explain()
        said = Explanation(
            base.runtime,
            base.isa,
            base.threads,
            self._options.tune,
            self._options.algorithm,
            self._options.asked_precision,
            sum(one.scratch_bytes for one in found),
            sum(one.constant_bytes for one in found),
            groups,
            steps,
            {name: reason for one in found for name, reason in one.wide.items()},
            rewrites=tuple(report for one in found for report in one.rewrites),
            passes=tuple(graph for one in found for graph in one.passes),
            convolutions=tuple(line for one in found for line in one.convolutions),
        )
        return self._with_choice(said)


# of an input: the dtype where it is no tensor, and the shape where not even the number of axes is known
SEQUENCE = "sequence"
UNKNOWN: tuple[int | None, ...] = (-1,)


def _nothing(engine: Engine) -> tuple[Graph, dict[str, Value]]:
    graph = Graph(engine)
    return graph, {"y": graph.constant(np.zeros(1, np.float32))}


def _of_net(net: Net, reads: tuple[str, ...], gives: tuple[str, ...]) -> _Stage:
    def run(values: Mapping[str, Any]) -> Sequence[Any]:
        results = net(*(plain(values[name]) for name in reads))
        return results if isinstance(results, tuple) else (results,)

    return _Stage(reads, gives, run, net)


def _of_host(host: HostNode, options: Options) -> _Stage:
    return _Stage(host.reads, host.node.outputs, lambda values: host(values, options), host)


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


def _title(stage: _Stage) -> str:
    if isinstance(stage.does, Net):
        return f"graph of {', '.join(stage.gives)}"
    if isinstance(stage.does, HostNode):
        return f"{stage.does.node.op_type} ({stage.does.by})"
    return "nodes whose ranks a call tells"


def _nets_of(stage: _Stage) -> Sequence[Net]:
    """The nets that a stage calls."""
    does = stage.does
    if isinstance(does, HostNode):
        return [net for body in does.bodies.values() for net in body.nets]
    return [does] if isinstance(does, Net) else does.nets


def _explained(stage: _Stage, rewrites: bool, passes: bool) -> Iterator[Explanation | PartitionReport]:
    does = stage.does
    if isinstance(does, HostNode):
        node = does.node
        slow = does.by == "onnx.reference"
        of = f"{node.op_type} {node.name}".rstrip()
        step = StepReport(f"{node.op_type} ({does.by})", does.by, does.reads, node.outputs, 0, slow, 0, of, does.by)
        yield PartitionReport((node.name,), (node.op_type,), does.by, "", (), False, (step,))
    for net in _nets_of(stage):
        if isinstance(net, CutNet) or net._latest() is not None:
            yield net.explain(rewrites=rewrites, passes=passes)


@of_net.register
def _drawn(net: CutNet) -> Picture:
    """The pictures of its graphs and the nodes between them in one, joined by the names of tensors."""
    boxes, edges, legend = list[Box](), dict[tuple[int, int], None](), list[str]()
    maker: dict[str, int] = {}

    def ends(names: Iterable[str], role: str) -> None:
        for name in names:
            if role == "output" and name in maker:
                edges[maker[name], len(boxes)] = None
            else:
                maker[name] = len(boxes)
            boxes.append(Box(short(name), (), name, role))

    ends(net.input_names, "input")
    for stage in net._stages:
        if isinstance(stage.does, Net):
            _joined(of_net(stage.does), stage, boxes, edges, legend, maker)
            continue
        legend.append(f"{len(legend) + 1}: {_title(stage)}")
        edges.update(((maker[name], len(boxes)), None) for name in stage.reads if name in maker)
        maker.update((name, len(boxes)) for name in stage.gives if name)
        boxes.append(Box(_title(stage), tuple(short(name) for name in stage.gives if name), "", "op", len(legend)))
    ends(net.outputs, "output")
    return Picture(net.graph.name, tuple(boxes), tuple(edges), tuple(legend))


def _joined(
    picture: Picture,
    stage: _Stage,
    boxes: list[Box],
    edges: dict[tuple[int, int], None],
    legend: list[str],
    maker: dict[str, int],
) -> None:
    """Append the picture of one graph, whose inputs and outputs are tensors that others give and read."""
    first = len(legend)
    place: dict[int, int] = {}
    reads, gives = iter(stage.reads), iter(stage.gives)
    results: dict[int, str] = {}
    for i, box in enumerate(picture.boxes):
        if box.role == "op":
            place[i] = len(boxes)
            boxes.append(replace(box, part=box.part and box.part + first))
        elif box.role == "output":
            results[i] = next(gives)
        elif (name := next(reads)) in maker:
            place[i] = maker[name]
    for source, target in picture.edges:
        if source in place and target in place:
            edges[place[source], place[target]] = None
        elif source in place:
            maker[results[target]] = place[source]
    for line in picture.legend:
        number, _, text = line.partition(": ")
        legend.append(f"{int(number) + first}: {text}")


@made.register
def _made(graph: CutGraph, outputs: Any, options: Options) -> Net:
    """Only all outputs of the model can be asked for."""
    if outputs is not None:
        raise UnsupportedError(
            "Graph.compile: a model that is no single graph has the outputs that it declares; leave 'outputs' out"
        )
    return CutNet(graph, options)


@described.register
def _described(net: CutNet) -> tuple[dict[str, Any], list[Array]]:
    """The model, whose graphs are planned again, for which the package onnx is needed."""
    arrays: list[Array] = []

    def keep(array: Array) -> int:
        arrays.append(array)
        return len(arrays) - 1

    return {"model": net.graph._made_of.model.record(keep)}, arrays
