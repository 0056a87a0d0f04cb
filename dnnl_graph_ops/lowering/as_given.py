"""Groups of the library's ops as they are, where needed on copies: row-major ones, or in a dtype that runs here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from .. import schema
from ..algorithms.lower import Decision
from ..graph import Node, Value
from . import trust
from .env import Env
from .groups import Group, native_attributes, ops_of
from .host_ops import HOST, step
from .program import Edge, NativeOp, Operand, Program, View
from .rewrites import Rewrite

STAGE_OPERANDS = Rewrite(
    "stage_operands",
    "ops of the library run on row-major copies, or on copies in f32",
    ("some lie in another order than that of their axes",),
)


class Places(dict[Value, View]):
    """Where values live, as far as anything has been made for them, and where the others will.

    `planned`: places of values that nothing has been made for yet. `joined`: results of Concat in whose places operands
    are, or are to be copied. `entering`: inputs and constants that live in a copy, and what is copied. `leaving`:
    outputs that live beside what the net returns, which they are copied to at the end.
    """

    def __init__(self, given: Mapping[Value, View]) -> None:
        super().__init__(given)
        self.planned: dict[Value, View] = {}
        self.joined: set[Value] = set()
        self.entering: dict[Value, View] = {}
        self.leaving: dict[Value, View] = {}

    def take_in(self, program: Program, values: Iterable[Value]) -> None:
        """Append the copies of those of the values that live in one, unless it was made before."""
        for value in values:
            if value in self.entering:
                program.copy(self.entering.pop(value), self[value], "copy in another order")


def place_of(value: Value, views: Mapping[Value, View]) -> View | None:
    """Where a value lives or will, if that is known."""
    planned = views.planned if isinstance(views, Places) else {}
    return views.get(value) or planned.get(value)


def view_of(program: Program, value: Value, views: dict[Value, View]) -> View:
    """Where a value lives; an intermediate one that no place is planned for gets a dense buffer."""
    if value not in views:
        views[value] = place_of(value, views) or program.scratch(value.shape, value.dtype)  # type: ignore[arg-type]
    return views[value]


def native_ops(
    program: Program,
    nodes: Sequence[Node],
    leaving: set[Value],
    views: dict[Value, View],
    edges: dict[Value, Operand],
    env: Env,
) -> list[NativeOp]:
    """Nodes as the library takes them; of their results those that are `leaving` get buffers, the others edges."""
    ops = []

    def operand(value: Value) -> Operand:
        return edges[value] if value in edges else view_of(program, value, views)

    for node in nodes:
        inputs = tuple(operand(value) for value in node.inputs)
        for value in node.outputs:
            if value not in leaving and value not in edges:
                edges[value] = Edge(value.shape, value.dtype)  # type: ignore[arg-type]
        outputs = tuple(operand(value) for value in node.outputs)
        host = partial(step, node) if node.kind in HOST else None
        ops.append(NativeOp(node.kind, native_attributes(node, env), inputs, outputs, node.name, host))
    return ops


def leaving_of(item: Group, shared: set[Value]) -> set[Value]:
    """Values of a group that need a buffer: those that someone outside reads, and those that nobody does."""
    read = {value for node in item.nodes for value in node.inputs}
    return {value for value in item.outputs if value in shared or value not in read}


# which operands a kernel takes only row-major, by the word of the op table
_ROW_MAJOR: dict[str, Callable[[Value], bool]] = {
    "": lambda value: False,
    "all": lambda value: True,
    "vectors": lambda value: len(value.shape) == 1,
    "batches": lambda value: len(value.shape) > 2,
}


def only_row_major(word: str, value: Value) -> bool:
    """Whether a kernel takes a value only densely in the order of its axes, by the word of the op table."""
    return _ROW_MAJOR[word](value)


def _taken_row_major(item: Group, env: Env) -> set[Value]:
    """Values that a kernel of the group takes only densely in the order of their axes."""
    found: set[Value] = set()
    for node in item.nodes:
        spec = schema.OPS[node.kind]
        if env.version >= spec.row_major_since:
            found.update(value for value in (*node.inputs, *node.outputs) if only_row_major(spec.row_major, value))
    return found


def build_native(program: Program, item: Group, shared: set[Value], views: dict[Value, View], env: Env) -> Decision:
    """Ops of the library as they are; bf16 and f16 become f32 inside where it has no kernels of them for these ops."""
    leaving = leaving_of(item, shared)
    values = dict.fromkeys(value for node in item.nodes for value in (*node.inputs, *node.outputs))
    ops = ops_of(item.nodes)
    staged = dict.fromkeys(value for value in values if env.compute_dtype(value.dtype, *ops) != value.dtype)
    dense = _taken_row_major(item, env)
    places = {value: place_of(value, views) for value in values if value in dense}
    staged |= dict.fromkeys(value for value, place in places.items() if place is not None and not place.row_major)
    if staged:
        STAGE_OPERANDS.fired(item.nodes[-1])
        return _build_staged(program, item, leaving, views, env, list(staged))
    if dense:
        STAGE_OPERANDS.declined(item.nodes[-1], "some lie in another order than that of their axes")
    program.native(native_ops(program, item.nodes, leaving, views, {}, env), item.nodes[0].kind)
    return Decision("native", trust.multiplied(item.nodes) or item.nodes[-1].outputs[0].dtype)


def _build_staged(
    program: Program,
    item: Group,
    leaving: set[Value],
    views: dict[Value, View],
    env: Env,
    staged: Sequence[Value],
) -> Decision:
    """The group on row-major copies of some values, in the dtype to compute in."""
    made = set(item.outputs)
    known = {value: place_of(value, views) for node in item.nodes for value in node.inputs}
    inner = {value: place for value, place in known.items() if place is not None}
    back: list[tuple[View, View]] = []
    edges: dict[Value, Operand] = {}
    for value in staged:
        compute = env.compute_dtype(value.dtype, *ops_of(item.nodes))
        if value in made and value not in leaving:
            edges[value] = Edge(value.shape, compute)  # type: ignore[arg-type]
            continue
        outer = view_of(program, value, views)
        inner[value] = program.scratch(outer.shape, compute)
        if value in made:
            back.append((inner[value], outer))
        else:
            program.copy(outer, inner[value], f"{value.dtype} to {compute}")
    for value in made:
        if value not in inner and value in leaving:
            inner[value] = view_of(program, value, views)
    ops = native_ops(program, item.nodes, leaving, inner, edges, env)
    program.native(ops, item.nodes[0].kind)
    for source, target in back:
        program.copy(source, target, f"{source.dtype} to {target.dtype}")
    compute = env.compute_dtype(staged[0].dtype, *ops_of(item.nodes))
    return Decision("native", trust.multiplied(item.nodes) or compute)
