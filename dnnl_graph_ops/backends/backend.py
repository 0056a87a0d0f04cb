"""Defines a backend, a group of nodes that a backend computes together, and the list in which backends are asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from .. import schema
from ..algorithms.lower import Chooser, Decision, Selector
from ..graph import Node, Value
from ..ir import changes_of, readers_of, scalar
from ..ir.env import Env
from ..ir.rewrites import NOT_RETURNED, READ_ONCE, No, Rewrite
from ..program import element_ops
from ..program import elementwise as elementwise_group
from ..program.program import Program, View
from ..record import record
from .layout import Wish, wishes

Version = tuple[int, ...]


class Target(NamedTuple):
    """The library that would run an op, as its version and instruction set.

    compute_dtype(dtype, *ops): the dtype in which the library computes ops of `dtype`, such as f32 for bf16 on AVX2.
    prefers_builtin: whether kernels of the package may run instead of the library's.
    """

    version: Version
    isa: str = ""
    compute_dtype: Callable[..., str] = lambda dtype, *ops: dtype
    prefers_builtin: bool = False

    @classmethod
    def of(cls, env: Env) -> Target:
        return cls(env.version, env.isa, env.compute_dtype, env.prefers_builtin)


class Kind(NamedTuple):
    """An op kind with the dtypes of its inputs and outputs, () for ordinary ones; attributes and shapes are unknown."""

    name: str
    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()


_PRODUCTS = schema.kinds("multiplies")


@dataclass(frozen=True, eq=False)
class Backend:
    """Computes groups of nodes by one means: the library, kernels of the package, or NumPy.

    build: appends the steps of a group to the program. match: returns facts about nodes that `build` needs, if the
    backend can run these nodes together, the head first; None otherwise. why_not: says why the backend computes no ops
    of a kind, None where it does. title: names the backend in reports. find: takes groups of several nodes from a
    search's free nodes, by patterns of the backend's own. leads: whether element-wise ops that read a node's result may
    run as its post-ops. takes_any_strides: whether groups read and write tensors of any strides. order: the axes of a
    group's result from the slowest to the fastest in memory, None where the group prefers no order. layout: votes for
    the layouts in which the group is fast, with the price of the other one, and ties between values of one layout; by
    default those of the kinds of its ops. weighs: whether the backend chooses among the algorithms of convolutions.
    turns: the operands of a group that `build` reads in any order, and writes its result in the order that it has to
    have: an input that lies in another order is not copied for such a group.
    """

    name: str
    build: Callable[[Lowering, FusionGroup], Decision]
    match: Callable[[Sequence[Node], Env], Any] = lambda nodes, env: None
    why_not: Callable[[Kind, Target], str | None] = lambda kind, target: "nodes are asked for, not kinds"
    title: str = ""
    find: Callable[[Search], None] = lambda search: None
    leads: Callable[[Node], bool] | None = None
    takes_any_strides: bool = False
    order: Callable[[FusionGroup], Sequence[int] | None] = lambda group: None
    layout: Callable[[FusionGroup], Iterable[Wish]] = lambda group: wishes(group.nodes)
    weighs: bool = False
    turns: Callable[[FusionGroup], Collection[Value]] = lambda group: ()


def match_by(leads: Callable[[Node], bool]) -> Callable[[Sequence[Node], Env], Sequence[Node] | None]:
    """Returns the `match` of a backend that runs any post-ops with the nodes that `leads` accepts."""
    return lambda nodes, env: nodes if env.prefers_builtin and leads(nodes[0]) else None


@record()
class FusionGroup:
    """Nodes in topological order that run together, the backend that computes them, and the result of its `match`."""

    nodes: tuple[Node, ...]
    backend: Backend
    match: Any = None

    @property
    def listed(self) -> tuple[Node, ...]:
        """The nodes, each followed by the nodes whose work passes have folded into it (`Changes.absorbed`)."""
        return tuple(one for node in self.nodes for one in (node, *changes_of(node).absorbed))

    @property
    def outputs(self) -> tuple[Value, ...]:
        first, *others = self.nodes
        return (*first.outputs, *[value for node in others for value in node.outputs]) if others else first.outputs

    @property
    def head(self) -> Node:
        """The product among the nodes, which others only dequantize or follow; without one, the first node."""
        return next((node for node in self.nodes if node.kind in _PRODUCTS), self.nodes[0])

    @property
    def result(self) -> Value:
        """The first output of the last node."""
        return self.nodes[-1].outputs[0]


# (value, number of its readers in the pattern) -> the node that computes the value, if nobody else reads the value
Maker = Callable[[Value, int], Node | None]


class Search:
    """Divides the nodes of a net into groups; a number is a node's index in `nodes`, which is in topological order.

    `free`: numbers of nodes that are in no group yet. `groups`: the groups so far, each with its nodes' numbers.
    `elementwise`: numbers of nodes that may share a group with element-wise ops that they read, or that read them.
    `partitions`: numbers of the nodes of each partition that the library computes exactly.
    """

    def __init__(self, nodes: Sequence[Node], outputs: Collection[Value], env: Env) -> None:
        self.nodes, self.outputs, self.env = nodes, dict.fromkeys(outputs), env
        self.partitions: Sequence[tuple[int, ...]] = ()
        self.numbers = {node: i for i, node in enumerate(nodes)}
        self.elementwise = {i for i, node in enumerate(nodes) if elementwise(node)}
        self.free = set(range(len(nodes)))
        self.groups: list[tuple[tuple[int, ...], FusionGroup]] = []
        self._readers = {
            value: [self.numbers[node] for node in readers] for value, readers in readers_of(nodes).items()
        }

    def of(self, value: Value) -> Sequence[int]:
        return self._readers.get(value, ())

    def leaves(self, value: Value) -> bool:
        return value in self.outputs

    def sorted(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        return tuple(sorted(nodes, key=self.numbers.__getitem__))

    def take(self, group: FusionGroup) -> bool:
        """Adds a group and marks its nodes as no longer free; False, without effect, where a node was not free."""
        numbers = tuple(self.numbers[node] for node in group.nodes)
        if not self.free.issuperset(numbers):
            return False
        self.free.difference_update(numbers)
        self.groups.append((numbers, group))
        return True

    def take_pattern(self, backend: Backend, rewrite: Rewrite, parts_of: Callable[[Node, Maker, No], Any]) -> None:
        """Takes the groups that match a pattern, which is followed from its last node back; the last groups first.

        `parts_of` matches the pattern that ends with a node: it follows inputs by a `Maker`, tells a `No` the condition
        that does not hold, and returns the parts of the pattern, of which `members` are the group's nodes.
        """
        for node in reversed(self.nodes):
            no = partial(rewrite.declined, node)
            parts = parts_of(node, partial(self.maker, no), no)
            if parts is not None and self.take(FusionGroup(self.sorted(parts.members), backend, parts)):
                rewrite.fired(node)

    def reader(self, value: Value) -> Node | None:
        """Returns the node that alone reads `value`; None where none or several do, or where the net returns it."""
        numbers = self.of(value)
        return self.nodes[numbers[0]] if len(numbers) == 1 and not self.leaves(value) else None

    def maker(self, no: No, value: Value, reads: int) -> Node | None:
        """Returns the node that computes `value`, if exactly `reads` nodes read `value` and the net does not return it.

        Otherwise tells `no` which of these conditions does not hold, and returns None. A node with several outputs is
        never returned.
        """
        if value.node is None or len(value.node.outputs) > 1:
            return None
        if len(self.of(value)) != reads:
            return no(READ_ONCE)
        return no(NOT_RETURNED) if self.leaves(value) else value.node


def elementwise(node: Node) -> bool:
    """Whether a node may run with element-wise ops as one: an element-wise op in floats, a Quantize or Dequantize.

    Beside tensors in 16 bits, a constant of one number may be in f32.
    """
    if elementwise_group.is_quantizing(node):
        return True
    dtype = node.outputs[0].dtype
    return (
        node.kind in element_ops.OPS
        and dtype in element_ops.FLOATS
        and all(value.dtype == dtype or (value.dtype == "f32" and scalar(value) is not None) for value in node.inputs)
    )


class Places(dict[Value, View]):
    """The view of each value that a step reads or writes, and the views that are planned for other values.

    `planned`: views of intermediate values that no step reads or writes yet. `joined`: results of Concat, into whose
    parts the operands are written or copied. `entering`: inputs and constants that steps read from a copy in another
    order, each with the view to copy from; an entry goes when the copy is appended. `leaving`: outputs that steps write
    in another order than the net returns, each with the view that the net returns, to be copied to at the end.
    """

    def __init__(self, given: Mapping[Value, View]) -> None:
        super().__init__(given)
        self.planned: dict[Value, View] = {}
        self.joined: set[Value] = set()
        self.entering: dict[Value, View] = {}
        self.leaving: dict[Value, View] = {}

    def take_in(self, program: Program, values: Iterable[Value]) -> None:
        """Appends the copy of each of the values that is in `entering`, once: at its first reader."""
        for value in values:
            if value in self.entering:
                program.copy(self.entering.pop(value), self[value], "copy in another order")

    def place(self, value: Value) -> View | None:
        """Returns the view of a value, or the view that is planned for it; None where there is neither."""
        return self.get(value) or self.planned.get(value)

    def view(self, program: Program, value: Value) -> View:
        """Returns the view of a value; enters the planned view, or else a dense scratch buffer, if it has none."""
        if value not in self:
            self[value] = self.place(value) or program.scratch(value.shape, value.dtype)  # type: ignore[arg-type]
        return self[value]


@dataclass
class Lowering:
    """A program under construction, and the decision for each group; a step's `group` is an index into `decisions`."""

    views: Places
    # values that a group other than their own reads, or that the net returns
    shared: set[Value]
    env: Env
    # ranks the algorithms of a convolution by measured times; None: estimates rank them
    choose: Chooser | None = None
    # by the names of the ops whose algorithms the user selects
    selectors: Mapping[str, Selector] = field(default_factory=dict)
    program: Program = field(default_factory=Program)
    decisions: list[tuple[FusionGroup, Decision]] = field(default_factory=list)
    macs: int = 0

    def view(self, value: Value) -> View:
        """Returns the view of a value in the program's buffers; allocates scratch for a value without a view."""
        return self.views.view(self.program, value)

    def operands(self, node: Node) -> tuple[list[View], list[View]]:
        inputs, outputs = ([self.view(value) for value in values] for values in (node.inputs, node.outputs))
        return inputs, outputs


# The first backend whose `match` accepts nodes computes them; `table` fills the list.
BACKENDS: list[Backend] = []


def group_of(nodes: Sequence[Node], env: Env) -> FusionGroup | None:
    """Returns nodes as one group of the first backend whose `match` accepts them; None where no backend does."""
    for backend in BACKENDS:
        match = backend.match(nodes, env)
        if match is not None:
            return FusionGroup(tuple(nodes), backend, match)
    return None


@contextmanager
def registered(backend: Backend, before: str) -> Iterator[None]:
    """Registers a backend during a with block; it is asked right before the backend that is named `before`."""
    BACKENDS.insert([other.name for other in BACKENDS].index(before), backend)
    try:
        yield
    finally:
        BACKENDS.remove(backend)
