"""Defines PlannedNet, the plans of a net: one for each combination of shapes and strides, built at the first call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from math import prod
from typing import Any

from .. import dtypes
from .._core import Executor, NetBase, PlanCache
from ..compile import selection
from ..compile.specialise import Ints, Layout, Options, Specialised, known_values, specialise
from ..compile.template import Templates, Traceable
from ..cost.model import exceeds_near
from ..graph import Graph, Node, Value
from ..ir import dims, reachable
from ..ir.env import Env
from ..once import once
from ..progress import Progress, listener, telling
from ..runtime import arrays, garbage
from ..runtime import threads as pool
from ..runtime.dlpack import Array
from ..runtime.engines import Engine
from ..runtime.locks import Builds
from ..strides import dense_strides, is_row_major
from .outputs import Outputs, result_strides
from .sizes import Parts, Shapes

_MOST_SHAPES = 1024


class PlannedNet(NetBase):
    """The plans of a compiled graph, by the shapes and strides of its inputs and outputs.

    A plan is found in a cache, evaluated from a plan that is a function of sizes, or compiled.
    """

    _constants: tuple[Value, ...] = ()  # none where a net is made of several
    # steps of streams by sizes and chunks
    _streams: dict[Any, Any]
    # the function of `compile(progress=...)`, for what a call measures
    _progress: Progress | None = None

    def __init__(self, graph: Graph, outputs: Mapping[str, Value], engine: Engine, options: Options) -> None:
        nodes, leaves = reachable(list(outputs.values()))
        selection.check_ops(options.algorithms, nodes)
        needed = set(leaves)
        self.inputs = tuple(value for value in graph.inputs if graph._keeps_inputs or value in needed)
        self._strides = tuple(result_strides(name, value) for name, value in outputs.items())
        self._row_major = all(strides is None for strides in self._strides)
        super().__init__(
            [value.name for value in self.inputs], len(outputs), PlanCache(), self._row_major, options.threads or 0
        )
        self.graph = graph
        self.outputs: dict[str, Value] = Outputs(outputs)
        self.engine = engine
        self._options = options
        self._progress = listener()
        self._nodes = tuple(nodes)
        self._constants = tuple(value for value in leaves if value.is_constant)
        # shapes of results by shapes of inputs; and for the newest, the values that inference returned, until compiled
        self._shapes: dict[tuple[Ints, ...], list[Ints]] = {}
        self._inferred: dict[tuple[Ints, ...], dict[Value, Value]] = {}
        # packed weights from a file, kept alive for plans that are built later
        self._holds: Sequence[Array] = ()
        self._builds = Builds()
        self._templates = Templates()
        self._streams = {}
        if all(None not in value.shape for value in self.inputs):
            self._plan_for([dims(value) for value in self.inputs])

    def _out_shapes(self, shapes: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
        if all(tuple(shape) == value.shape for shape, value in zip(shapes, self.inputs, strict=True)):
            return [dims(value) for value in self.outputs.values()]
        key = tuple(shapes)
        results = self._shapes.get(key)
        if results is None:
            traced = self._templates.shapes(self._unknown(shapes))
            if traced is None:
                values = self._infer(shapes)
                self._inferred = {key: values}
                return self._remember(key, values)
            results = self._shapes[key] = list(traced)
        return results

    def _remember(self, key: tuple[Ints, ...], values: Mapping[Value, Value]) -> list[Ints]:
        """Keeps and returns the shapes of the results, from the values that inference returned."""
        if len(self._shapes) >= _MOST_SHAPES:
            self._shapes.clear()
        shapes = self._shapes[key] = [dims(values[value]) for value in self.outputs.values()]
        return shapes

    def _unknown(self, shapes: Sequence[tuple[int, ...]]) -> list[int]:
        """Returns the sizes, in these shapes of the inputs, of the dims that the graph leaves unknown."""
        return [
            size
            for value, shape in zip(self.inputs, shapes, strict=True)
            for dim, size in zip(value.shape, shape, strict=True)
            if dim is None
        ]

    def _infer(self, shapes: Sequence[tuple[int, ...]]) -> dict[Value, Value]:
        """Infers all shapes from those of the inputs; returns a copy of each value of the graph with all dims known."""
        leaves: dict[Value, tuple[int, ...]] = dict(zip(self.inputs, shapes, strict=True))
        leaves.update({value: value.shape for value in self._constants})  # type: ignore[misc]
        return known_values(self._nodes, leaves)

    def _plan_for(self, shapes: Sequence[Ints]) -> Executor:
        """Returns the plan for inputs of these shapes, row-major or of declared strides, and new results."""
        ins = [(shape, v.strides or dense_strides(shape)) for shape, v in zip(shapes, self.inputs, strict=True)]
        return self._specialise(ins, None if self._row_major else self._results(self._out_shapes(shapes)))

    def _parts_at(self, shapes: Shapes) -> Parts:
        """Returns the plans that a call with these shapes runs."""
        return Parts([(self._plans, lambda: self._plan_for([shape for shape in shapes if shape is not None]))])

    def _specialise(self, ins: Sequence[Layout], outs: Sequence[Layout] | None) -> Executor:
        key = _described(self.inputs, ins), None if outs is None else _described(self.outputs.values(), outs)
        # the number of the process may change meanwhile
        with pool.of_net(self._options.threads or pool.count):
            return self._builds.once(lambda: self._plans.find(*key), lambda: self._executor(ins, outs))

    def _executor(self, ins: Sequence[Layout], outs: Sequence[Layout] | None) -> Executor:
        """Returns a new plan, by a template where one is for these sizes; its record is made when it is asked for."""
        with nullcontext() if self._options.tune == "measure" else garbage.paused():
            if outs is None and self._may_trace and all(is_row_major(*layout) for layout in ins):
                start, shapes = self._plans.start(), [shape for shape, _ in ins]
                executor: Executor | None = self._templates.executor(self._unknown(shapes), self._traceable(), shapes)
                if executor is not None:
                    self._plans.add(executor, None, start)
                    return executor
                executor = self._made(ins, outs).plan.executor
                self._templates.add(self._unknown(shapes))
                return executor
            return self._made(ins, outs).plan.executor

    @property
    def _may_trace(self) -> bool:
        """Whether the plan may be a function of the unknown dims: kernels of the package run all groups, unmeasured."""
        options = self._options
        plain = options.policy == "fusion" and options.tune == "heuristic" and not options.algorithms
        return plain and self.engine.on_host and any(None in value.shape for value in self.inputs)

    def _traceable(self) -> Traceable:
        outputs = list(self.outputs.values())
        return Traceable(
            self.inputs, outputs, self._constants, self._infer, self._known_nodes, self._env(), self._options,
            self.graph.name,
        )  # fmt: skip

    def _known_nodes(self, values: Mapping[Value, Value]) -> list[Node]:
        """Returns the copies of the graph's nodes with all dims known, of which `_infer` returned the values."""
        if any(node.late for node in self._nodes):
            nodes, _ = reachable([values[value] for value in self.outputs.values()])
            return list(nodes)
        return [node for node in (values[n.outputs[0]].node for n in self._nodes) if node is not None]

    def _made(self, ins: Sequence[Layout], outs: Sequence[Layout] | None) -> Specialised:
        """Builds a plan, and keeps it unless plans were dropped meanwhile."""
        start = self._plans.start()
        specialised = self._build(ins, outs)
        self._plans.add(specialised.plan.executor, specialised, start)
        return specialised

    def _build(self, ins: Sequence[Layout], outs: Sequence[Layout] | None) -> Specialised:
        shapes = [shape for shape, _ in ins]
        # specialise changes the values, so only one build may take them
        values = self._inferred.pop(tuple(shapes), None) or self._infer(shapes)
        self._remember(tuple(shapes), values)
        with telling(self._progress):
            return specialise(
                self._known_nodes(values),
                [(values[value], layout) for value, layout in zip(self.inputs, ins, strict=True)],
                [values[value] for value in self._constants],
                [(values[v], None if outs is None else outs[i]) for i, v in enumerate(self.outputs.values())],
                self._env(),
                options=self._options,
                name=self.graph.name,
            )

    def _env(self) -> Env:
        """Returns the settings that lowering depends on: engine, threads, options, and whether sizes vary."""
        return Env(
            self.engine,
            pool.get_num_threads(),
            self._options.tune,
            self._options.algorithm,
            self.graph.fpmath_mode,
            any(None in value.shape for value in self.inputs),
            self._is_cold,
        )

    @once
    def _is_cold(self) -> bool:
        """Whether the constants exceed the near caches."""
        return exceeds_near(sum(prod(dims(value)) * dtypes.itemsize(value.dtype) for value in self._constants))

    def _results(self, shapes: Sequence[tuple[int, ...]], given: Sequence[Any] | None = None) -> list[Layout] | None:
        """Returns the shape and strides of each result: those of its array in `given`, else the declared ones.

        Returns None if all results are row-major and new.
        """
        strides = [
            arrays.element_strides(array, "out") if array is not None else stated
            for array, stated in zip(given or [None] * len(shapes), self._strides, strict=True)
        ]
        if all(item is None for item in strides):
            return None
        return [
            (shape, dense_strides(shape) if item is None else item) for shape, item in zip(shapes, strides, strict=True)
        ]

    def _latest(self) -> Specialised | None:
        """Returns the plan that ran last, or was built since; None if the net has no plan."""
        executor = self._plans.latest()
        return None if executor is None else self._whole(executor)

    def _whole(self, executor: Executor) -> Specialised:
        """Returns the full record of an executor's plan; a plan whose record is not in memory is built again."""
        with pool.of_calls(self._plans.threads(executor) or None):
            return self._builds.once(
                lambda: self._plans.payload(executor), lambda: self._made(*self._layouts(executor))
            )

    def _layouts(self, executor: Executor) -> tuple[list[Layout], list[Layout] | None]:
        """Returns the layouts of a plan's inputs and outputs; None for outputs that are all row-major."""
        ins, outs = ([_stated(*layout) for layout in some] for some in (executor.inputs, executor.outputs))
        return ins, None if all(is_row_major(*layout) for layout in outs) else outs


def _described(values: Iterable[Value], layouts: Sequence[Layout]) -> list[tuple[int, Ints, Ints]]:
    """Returns (dtype code, shape, strides) of each array: the key by which plans are looked up."""
    return [(dtypes.CODES[value.dtype], *layout) for value, layout in zip(values, layouts, strict=True)]


def _stated(shape: Sequence[int], strides: Sequence[int]) -> Layout:
    """Returns the layout of an executor's tensor; axes of one element get the strides of a dense array."""
    dense = dense_strides(shape)
    if is_row_major(shape, strides):
        return tuple(shape), dense
    return tuple(shape), tuple(d if n == 1 else s for n, s, d in zip(shape, strides, dense, strict=True))
