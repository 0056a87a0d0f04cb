"""Compiles nodes of known shapes into a plan: passes, fusion groups, layouts, lowering and assembly, in this order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .. import dtypes
from ..algorithms.lower import Chooser
from ..algorithms.tile_rows import in_bands
from ..backends.backend import Built, Places
from ..backends.table import build, group
from ..errors import InvalidArgumentError
from ..graph import Node, Value
from ..graph.json_format import same_shape
from ..ir import GraphView, linked
from ..lowering.env import Env
from ..lowering.program import Buffer, Place, View, argument
from ..passes import pipeline
from ..passes.fold_constants import fold_dequantize
from ..shapes import Meta, checked
from ..strides import dense_strides
from . import listings, selection
from .layouts import as_given, lay_out
from .native import Compiled
from .plan import Plan, assemble
from .selection import Selections

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]
Layout = tuple[Ints, Ints]  # shape, strides in elements


@dataclass(frozen=True)
class Options:
    """The options that a net is compiled with."""

    policy: str = "fusion"
    tune: str = "heuristic"
    algorithm: str = "auto"
    precision: str = "f32"
    # names of products that stay in f32 although `precision` is another
    wide: tuple[str, ...] = ()
    # whether products are narrow only in regions that gain more than conversions cost
    weighed: bool = True
    # pairs of an op's name and its selection: the name of an algorithm, or a predicate
    algorithms: Selections = ()

    @property
    def asked_precision(self) -> str | None:
        """Returns `precision` as `Graph.compile` takes it: None for f32."""
        return None if self.precision == "f32" else self.precision


_AS_DECLARED = Options()


@dataclass(frozen=True)
class PartitionInfo:
    """A partition as given to the library: names and kinds of its ops, and names of its input and output tensors."""

    ops: tuple[str, ...]
    kinds: tuple[str, ...]
    supported: bool
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class Specialised:
    """A plan for one combination of shapes and strides, and the records of its compilation for explain()."""

    plan: Plan
    built: Built
    names: Mapping[Buffer, str]
    out_shapes: tuple[tuple[int, ...], ...]
    # names of products that stay in f32 although another precision was asked for, and why
    wide: Mapping[str, str]
    # names of the products in the narrow type, and the seconds that each saves by estimate
    narrow: Mapping[str, float]

    @property
    def partitions(self) -> tuple[PartitionInfo, ...]:
        """Returns the partitions that the library runs in the plan."""

        def names(views: Sequence[View]) -> tuple[str, ...]:
            return tuple(self.names.get(view.buffer, "scratch") for view in views)

        return tuple(
            PartitionInfo(part.names, part.kinds, True, names(part.inputs), names(part.outputs))
            for part in self.plan.parts
            if isinstance(part, Compiled)
        )


def known_values(nodes: Sequence[Node], shapes: Mapping[Value, tuple[int, ...]]) -> dict[Value, Value]:
    """Returns a copy of each value of the nodes with all dims known; the copies belong to copies of the nodes.

    `shapes`: shapes of the inputs and constants. A deferred node (`node.late`), whose op depends on sizes, is replaced
    by the nodes or constants that it makes for these sizes.

    Raises:
        ShapeError: shapes do not fit together.
        InvalidArgumentError: a deferred node makes other tensors than it announced.
    """
    found: dict[Value, Value] = {}

    def copy(value: Value, shape: tuple[int | None, ...]) -> Value:
        made = Value(value.graph, value.id, shape, value.dtype, value.name)
        made.held, made.strides = value.held, value.strides
        found[value] = made
        return made

    for value, shape in shapes.items():
        copy(value, tuple(shape))
    for node in nodes:
        inputs = tuple(found[v] if v in found else copy(v, v.shape) for v in node.inputs)
        if node.late is not None:
            results = node.late(inputs)
            if len(results) != len(node.outputs):
                raise InvalidArgumentError(f"{node.name!r}: gives {len(results)} tensors, not {len(node.outputs)}")
            for value, made in zip(node.outputs, results, strict=True):
                if made.dtype != value.dtype or not same_shape(made.shape, value.shape):
                    raise InvalidArgumentError(f"{node.name!r}: gives {made.meta}, where {value.meta} was announced")
                found[value] = made
            continue
        attrs, metas = _checked(node, inputs)
        outputs = [copy(value, meta.shape) for value, meta in zip(node.outputs, metas, strict=True)]
        linked(Node(node.id, node.kind, node.name, inputs, attrs), outputs)
    return found


def _checked(node: Node, inputs: Sequence[Value]) -> tuple[Mapping[str, Any], list[Meta]]:
    if node.kind == "Wildcard":
        return node.attrs, [value.meta for value in node.outputs]
    return checked(
        node.kind,
        [value.meta for value in inputs],
        node.attrs,
        f"{node.kind} {node.name!r}",
        dtype=node.outputs[0].dtype,
        outputs=len(node.outputs),
    )


def specialise(
    nodes: Sequence[Node],
    inputs: Sequence[tuple[Value, Layout]],
    constants: Sequence[Value],
    outputs: Sequence[tuple[Value, Layout | None]],
    env: Env,
    *,
    options: Options = _AS_DECLARED,
    name: str = "",
) -> Specialised:
    """Compiles nodes of known shapes for inputs and outputs of the given strides (None: row-major)."""
    views: dict[Value, View] = {}
    policy = options.policy
    for index, (value, (shape, strides)) in enumerate(inputs):
        views[value] = argument(Place.INPUT, value.dtype, shape, strides, index)
    results = [value for value, _ in outputs]
    prepare = partial(_prepared, env=env)
    setting = pipeline.Setting(env, prepare, options.precision, options.wide, options.weighed)
    own = policy == "fusion" and env.prefers_own
    if policy == "fusion" and env.tune != "off":
        graph = GraphView(nodes, results)
        pipeline.run(graph, setting)
        nodes = graph.nodes()
    declared = set(constants)
    views |= _constants(value for value in _read(nodes, results) if value in declared)
    views |= _constants(value for value in results if value not in views)
    targets, copies = [], []
    for index, (value, layout) in enumerate(outputs):
        shape = tuple(map(int, value.shape))  # type: ignore[arg-type]
        strides = dense_strides(shape) if layout is None else layout[1]
        target = argument(Place.OUTPUT, value.dtype, shape, strides, index)
        targets.append(target)
        if value in views:
            copies.append((value, target))
        else:
            views[value] = target
    names = {view.buffer: value.name for value, view in views.items()}
    views |= _constants(value for value in _read(nodes, ()) if value not in views)
    tell = pipeline.teller()
    groups = group(nodes, results, env, policy)
    tell("after fuse_groups", lambda: listings.of_groups(groups))
    if own:
        groups = fold_dequantize(groups, results, prepare)
        tell("after fold_dequantize", lambda: listings.of_groups(groups))
        views |= _constants(
            value for some in groups for node in some.nodes for value in node.inputs if value not in views
        )
    selectors = selection.selectors(options.algorithms, groups, setting.narrow)

    def lowered(choose: Chooser | None) -> tuple[Built, Places]:
        places = (lay_out if own else as_given)(groups, views)
        tell("after choose_layouts", lambda: listings.of_places(places))
        return build(groups, places, env, choose, selectors), places

    built, places = measured(lowered, env) if env.tune == "measure" else lowered(None)
    for value, target in (*places.leaving.items(), *copies):
        built.program.copy(places[value], target, "copy to output")
    tell("after lower", lambda: listings.of_steps(built.program.steps))
    in_bands(built.program, built.layers, env)
    tell("after tile_rows", lambda: listings.of_steps(built.program.steps))
    plan = assemble(
        built.program,
        [views[value] for value, _ in inputs],
        targets,
        env.engine,
        fpmath_mode=env.fpmath_mode,
        macs=built.macs,
        threads=env.threads,
        name=name,
        literal=env.tune == "off",
    )
    for value in (*constants, *views):
        # from here on, plans need only the weights that were packed from the constant
        if value.held is not None:
            value.held.let_go()
    shapes = tuple(target.shape for target in targets)
    return Specialised(plan, built, names, shapes, setting.wide, setting.narrow)


def _prepared(nodes: Sequence[Node], value: Value, env: Env) -> Callable[[], Array]:
    """Returns a function that computes a value from constants, by copies of the nodes, as passes change the nodes."""
    shapes = {v: v.held.shape for node in nodes for v in node.inputs if v.held is not None}
    found = known_values(nodes, shapes)
    twins = [twin for node in nodes if (twin := found[node.outputs[0]].node) is not None]
    # one op at a time, which keeps Inf and NaN as the ops of an input do
    return partial(_computed, twins, found[value], replace(env, tune="heuristic", algorithm="direct"))


def _computed(nodes: Sequence[Node], value: Value, env: Env) -> Array:
    # explain(passes=True) leaves out the plans that compute constants
    with pipeline.watching():
        of_constants = specialise(nodes, [], [], [(value, None)], env, options=Options(policy="debug"))
    result: Array = np.empty(of_constants.out_shapes[0], dtypes.numpy_dtype(value.dtype))
    of_constants.plan.executor.run([], [result])
    return result


def measured(lowered: Callable[[Chooser | None], tuple[Built, Places]], env: Env) -> tuple[Built, Places]:
    """Lowers with measured choices: once to collect the problems and their algorithms, and again with the fastest ones.

    Problems are measured in the order of their estimated time, the longest first.
    """
    from .tune import Answers, Question

    questions: list[Question] = []
    lowered(lambda problem, _, found: questions.append(Question(problem, found)))
    answers = Answers(env, questions)
    built, places = lowered(answers.choose)
    answers.part(built.program, env)
    return built, places


def _read(nodes: Sequence[Node], results: Sequence[Value]) -> list[Value]:
    return list(dict.fromkeys((*(value for node in nodes for value in node.inputs), *results)))


def _constants(values: Iterable[Value]) -> dict[Value, View]:
    """Returns a row-major view of each of the values that is a constant."""
    found = {}
    for value in values:
        if value.held is not None:
            shape = value.held.shape
            buffer = Buffer(Place.CONSTANT, value.dtype, prod(shape), held=value.held)
            found[value] = View(buffer, shape, dense_strides(shape))
    return found
