"""Compiles nodes of known shapes into a plan: passes, fusion groups, layouts, lowering and assembly, in this order."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from typing import Any

import numpy as np

from .. import dtypes
from ..algorithms.table import Ranked
from ..backends.backend import FusionGroup, Lowering, Places
from ..backends.table import build, group
from ..convolution.problem import ConvProblem
from ..errors import InvalidArgumentError, ShapeError
from ..graph import Node, Value
from ..graph.json_format import same_shape
from ..ir import GraphView, dims, is_open, linked, stages
from ..ir.env import Env
from ..ir.stages import Stage
from ..once import answered
from ..onednn.partition import Compiled
from ..passes import pipeline
from ..passes.fold_constants import fold_dequantize
from ..program.program import Buffer, Place, View, argument
from ..runtime.reference import Keys
from ..shapes import Attributes, Meta, checked
from ..strides import dense_strides
from ..symbolic import current, frozen
from ..words import counted
from . import listings, selection
from .layouts import lay_out
from .plan import Plan, assemble, settled
from .selection import Selections
from .tile_rows import layers, tile_rows

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
    # of the net's calls; None: the default at a call
    threads: int | None = None

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
    lowering: Lowering
    names: Mapping[Buffer, str]
    # names of products that stay in f32 although another precision was asked for, and why
    wide: Mapping[str, str]
    # names of the products in the narrow type, and the seconds that each saves by estimate
    narrow: Mapping[str, float]

    @property
    def partitions(self) -> tuple[PartitionInfo, ...]:
        def names(views: Sequence[View]) -> tuple[str, ...]:
            return tuple(self.names.get(view.buffer, "scratch") for view in views)

        return tuple(
            PartitionInfo(part.names, part.kinds, True, names(part.reads), names(part.writes))
            for part in self.plan.parts
            if isinstance(part, Compiled)
        )


def known_values(nodes: Sequence[Node], shapes: Mapping[Value, tuple[int, ...]]) -> dict[Value, Value]:
    """Returns a copy of each value of the nodes with all dims known; the copies belong to copies of the nodes.

    `shapes`: shapes of the inputs and constants. A deferred node (`node.late`), whose op depends on sizes, is replaced
    by the nodes or constants that it makes for these sizes. Raises if shapes do not fit together.
    """
    copies: dict[Value, Value] = {}
    answers: dict[Hashable, tuple[Mapping[str, Any], Sequence[Meta]]] = {}
    traced = current() is not None

    def copy(value: Value, shape: tuple[int | None, ...]) -> Value:
        twin = copies[value] = Value(value.graph, value._id, shape, value.dtype, value.name)
        twin._held, twin.strides = value._held, value.strides
        return twin

    for value, shape in shapes.items():
        copy(value, tuple(shape))
    for node in nodes:
        inputs = tuple(copies[v] if v in copies else copy(v, v.shape) for v in node.inputs)
        if node.late is not None:
            results = node.late(inputs)
            if len(results) != len(node.outputs):
                raise InvalidArgumentError(
                    f"{node.name!r}: gives {counted(len(results), 'tensor')}, not {len(node.outputs)}"
                )
            for value, result in zip(node.outputs, results, strict=True):
                if result.dtype != value.dtype:
                    raise InvalidArgumentError(f"{node.name!r}: gives {result.dtype}, the model states {value.dtype}")
                if not same_shape(result.shape, value.shape):
                    raise ShapeError(
                        f"{node.name!r}: has shape {result.shape} for the sizes of this call, the model states "
                        f"{value.shape}; call the model with sizes like those that it was exported with, or export it "
                        f"with sizes like these"
                    )
                copies[value] = result
            continue
        attrs: Mapping[str, Any] = node.attrs
        metas = [value._meta for value in node.outputs]
        # what was checked as the graph was built for these very sizes is so still
        told = not is_open([node]) and [value.shape for value in inputs] == [value.shape for value in node.inputs]
        if node.kind != "Wildcard" and not told:
            read, dtype, count = tuple([value._meta for value in inputs]), metas[0].dtype, len(metas)
            where = f"{node.kind} {node.name!r}"
            infer = partial(checked, node.kind, read, attrs, where, dtype=dtype, outputs=count)
            # many nodes of a net are alike; attributes that are no typed ones are the node's in any case
            stated = attrs.stated if isinstance(attrs, Attributes) else (*attrs.items(),)
            key = frozen((node.kind, read, stated, dtype, count)) if traced else (node.kind, read, stated, dtype, count)
            typed, metas = answered(answers, key, infer) if _is_hashable(stated) else infer()
            attrs = typed if isinstance(typed, Attributes) else attrs
        outputs = [copy(value, meta.shape) for value, meta in zip(node.outputs, metas, strict=True)]
        linked(Node(node.id, node.kind, node.name, inputs, attrs), outputs)
    return copies


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@dataclass
class Compilation(pipeline.Setting):
    """Nodes of known shapes on their way to a plan: the state of passes, and what later stages add to it.

    `results`: the values that the net returns. `views`: of inputs, constants and outputs. `copies`: constants and
    inputs that the net returns, each with the view to copy it to. `given`, `targets`: the views of the arrays that a
    call passes and gets. `names`: of the values in buffers.
    """

    options: Options = _AS_DECLARED
    results: Sequence[Value] = ()
    nodes: Sequence[Node] = ()
    views: dict[Value, View] = field(default_factory=dict)
    copies: list[tuple[Value, View]] = field(default_factory=list)
    groups: list[FusionGroup] = field(default_factory=list)
    places: Places = field(default_factory=lambda: Places({}))
    lowering: Lowering = field(init=False)
    given: list[View] = field(default_factory=list)
    targets: list[View] = field(default_factory=list)
    names: dict[Buffer, str] = field(default_factory=dict)
    constants: Sequence[Value] = ()

    @property
    def own(self) -> bool:
        """Whether code of the package may run ops, and choose layouts."""
        return self.options.policy == "fusion" and self.env.prefers_builtin

    def fuse_groups(self) -> None:
        self.groups = group(self.nodes, self.results, self.env, self.options.policy)

    def fold_dequantize(self) -> None:
        self.groups = fold_dequantize(self.groups, self.results, self.prepare)
        read = [value for some in self.groups for node in some.nodes for value in node.inputs]
        self.views |= _constants([value for value in read if value not in self.views])

    def choose_layouts(self) -> None:
        self.places = lay_out(self.groups, self.views) if self.own else Places(self.views)

    def lower(self) -> None:
        """Builds the program; with tune="measure" twice: to collect the problems, and with their fastest algorithms."""
        selectors = selection.selectors(self.options.algorithms, self.groups, self.narrow)
        if self.env.tune == "measure":
            from .tune import Answers

            questions: list[tuple[ConvProblem, Ranked]] = []
            build(
                self.groups,
                self.places,
                self.env,
                lambda problem, _, ranked: questions.append((problem, ranked)),
                selectors,
            )
            answers = Answers(self.env, questions)
            # the first program has entered its buffers into the places
            self.choose_layouts()
            self.lowering = build(self.groups, self.places, self.env, answers.choose, selectors)
            answers.part(self.lowering.program, self.env)
        else:
            self.lowering = build(self.groups, self.places, self.env, None, selectors)
        for value, target in (*self.places.leaving.items(), *self.copies):
            self.lowering.program.copy(self.places[value], target, "copy to output")

    def let_go(self) -> None:
        """Drops the data of constants: from here on, plans need only the weights that were packed from a constant."""
        for value in (*self.constants, *self.views):
            if value._held is not None:
                value._held.let_go()

    def tile_rows(self) -> None:
        program = self.lowering.program
        tile_rows(program, layers(self.lowering.decisions), self.env)
        program.lowered = None


# The stages after `pipeline.PASSES`; those of `plan.STAGES` follow.
STAGES = (
    Stage("fuse_groups", Compilation.fuse_groups, lambda c: listings.of_groups(c.groups)),
    Stage("fold_dequantize", Compilation.fold_dequantize, lambda c: listings.of_groups(c.groups), lambda c: c.own),
    Stage("choose_layouts", Compilation.choose_layouts, lambda c: listings.of_places(c.places)),
    Stage("lower", Compilation.lower, lambda c: listings.of_steps(c.lowering.program.steps)),
    Stage("tile_rows", Compilation.tile_rows, lambda c: listings.of_steps(c.lowering.program.steps)),
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
    c = passed(nodes, inputs, constants, outputs, env, options)

    def attempt(known: Keys) -> Plan:
        stages.run(STAGES, c)
        return assemble(
            c.lowering.program,
            c.given,
            c.targets,
            env.engine,
            fpmath_mode=env.fpmath_mode,
            macs=c.lowering.macs,
            threads=env.threads,
            name=name,
            literal=env.tune == "off",
            bakes=not env.varies,
            known=known,
        )

    plan = settled(attempt, env.engine)
    c.let_go()
    return Specialised(plan, c.lowering, c.names, c.wide, c.narrow)


def passed(
    nodes: Sequence[Node],
    inputs: Sequence[tuple[Value, Layout]],
    constants: Sequence[Value],
    outputs: Sequence[tuple[Value, Layout | None]],
    env: Env,
    options: Options = _AS_DECLARED,
) -> Compilation:
    """Returns the compilation of nodes after all passes, with the views of arrays that a call passes and gets."""
    results = [value for value, _ in outputs]
    c = Compilation(
        GraphView(nodes, results), env, partial(_prepared, env=env), options.precision, options.wide, options.weighed,
        frozenset(op for op, _ in options.algorithms), options=options, results=results,
    )  # fmt: skip
    if options.policy == "fusion" and env.tune != "off":
        stages.tell("as given", c.graph.listing)
        stages.run(pipeline.PASSES, c)
    c.nodes = nodes = c.graph.nodes()
    for index, (value, (shape, strides)) in enumerate(inputs):
        c.views[value] = argument(Place.INPUT, value.dtype, shape, strides, index)
    declared = set(constants)
    c.views |= _constants([value for value in _read(nodes, results) if value in declared])
    c.views |= _constants([value for value in results if value not in c.views])
    for index, (value, layout) in enumerate(outputs):
        strides = dense_strides(dims(value)) if layout is None else layout[1]
        target = argument(Place.OUTPUT, value.dtype, dims(value), strides, index)
        c.targets.append(target)
        if value in c.views:
            c.copies.append((value, target))
        else:
            c.views[value] = target
    c.given = [c.views[value] for value, _ in inputs]
    c.names = {view.buffer: value.name for value, view in c.views.items()}
    c.views |= _constants([value for value in _read(nodes, ()) if value not in c.views])
    c.constants = constants
    return c


def _prepared(nodes: Sequence[Node], value: Value, env: Env) -> Callable[[], Array]:
    """Returns a function that computes a value from constants, by copies of the nodes, as passes change the nodes."""
    shapes = {v: v._held.shape for node in nodes for v in node.inputs if v._held is not None}
    copies = known_values(nodes, shapes)
    twins = [twin for node in nodes if (twin := copies[node.outputs[0]].node) is not None]
    # one op at a time, which keeps Inf and NaN as the ops of an input do
    one_by_one, options = replace(env, tune="heuristic", algorithm="direct"), Options(policy="debug")

    def computed() -> Array:
        # explain(passes=True) leaves out the plans that compute constants
        with stages.watching():
            plan = specialise(twins, [], [], [(copies[value], None)], one_by_one, options=options).plan
        result: Array = np.empty(dims(copies[value]), dtypes.numpy_dtype(value.dtype))
        plan.executor.run([], [result])
        return result

    return computed


def _read(nodes: Sequence[Node], results: Sequence[Value]) -> list[Value]:
    return list(dict.fromkeys([*[value for node in nodes for value in node.inputs], *results]))


def _constants(values: Iterable[Value]) -> dict[Value, View]:
    """Returns a row-major view of each of the values that is a constant."""
    held = {value: value._held for value in values if value._held is not None}
    return {
        value: View(Buffer(Place.CONSTANT, value.dtype, prod(c.shape), held=c), c.shape, dense_strides(c.shape))
        for value, c in held.items()
    }
