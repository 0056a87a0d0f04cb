"""What computes nodes: the record of a backend, groups of nodes that one computes together, and who takes which."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ..algorithms import tile_rows
from ..algorithms.lower import Chooser, Decision, Selector
from ..graph import Node, Value
from ..ir import readers_of
from ..lowering import chain
from ..lowering.env import Env
from ..lowering.program import Program, View
from ..lowering.rewrites import NOT_RETURNED, READ_ONCE, No
from .kinds import Kind, Target
from .places import view_of


def _is_no_kind(kind: Kind, target: Target) -> str | None:
    return "nodes are asked for, not kinds"


def _finds_nothing(search: Search) -> None:
    return None


@dataclass(frozen=True, eq=False)
class Backend:
    """Something that computes nodes.

    build: appends the steps of a group. match: of nodes that would run together, the first of which is the head, what
    `build` is to know of them; None where this backend does not run them. why_not: why it computes no ops of a kind,
    None where it does; `title` says who computes such ops. find: takes groups of several nodes out of those that are
    free yet, by patterns of its own. leads: whether the element-wise ops behind a node run with it. takes_any_strides:
    of what its groups read and give; order: the axes of a group's result from the slowest to the fastest, where the
    group has a wish. weighs: it chooses among the algorithms of convolutions.
    """

    name: str
    build: Callable[[Built, FusionGroup], Decision]
    match: Callable[[Sequence[Node], Env], Any] = lambda nodes, env: None
    why_not: Callable[[Kind, Target], str | None] = _is_no_kind
    title: str = ""
    find: Callable[[Search], None] = _finds_nothing
    leads: Callable[[Node], bool] = lambda node: False
    takes_any_strides: bool = False
    order: Callable[[FusionGroup], Sequence[int] | None] = lambda group: None
    weighs: bool = False


@dataclass(frozen=True)
class FusionGroup:
    """Nodes in topological order, the backend that computes them together, and what it found of them."""

    nodes: tuple[Node, ...]
    backend: Backend
    match: Any = None

    @property
    def listed(self) -> tuple[Node, ...]:
        """The nodes, and behind each what it absorbed."""
        return tuple(one for node in self.nodes for one in (node, *node.absorbed))

    @property
    def outputs(self) -> tuple[Value, ...]:
        return tuple(value for node in self.nodes for value in node.outputs)

    @property
    def result(self) -> Value:
        """The first result of the last node."""
        return self.nodes[-1].outputs[0]


class Search:
    """The nodes of a net by number, in topological order, who reads which value, and what of them is free yet.

    `elementwise`: the numbers of nodes that may run with others that they read, or that read them. `partitions`: those
    of the library that it computes exactly, by numbers.
    """

    def __init__(
        self,
        nodes: Sequence[Node],
        outputs: Collection[Value],
        env: Env,
        partitions: Sequence[tuple[int, ...]] = (),
    ) -> None:
        self.nodes, self.env, self.partitions = nodes, env, partitions
        self.numbers = {node: i for i, node in enumerate(nodes)}
        self.elementwise = {i for i, node in enumerate(nodes) if elementwise(node)}
        self.free = set(range(len(nodes)))
        self.groups: list[tuple[tuple[int, ...], FusionGroup]] = []
        self._outputs = frozenset(outputs)
        self._readers = {
            value: [self.numbers[node] for node in readers] for value, readers in readers_of(nodes).items()
        }

    def of(self, value: Value) -> Sequence[int]:
        """The numbers of the nodes that read a value."""
        return self._readers.get(value, ())

    def leaves(self, value: Value) -> bool:
        """Whether the net returns it."""
        return value in self._outputs

    def sorted(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Nodes of the net in topological order."""
        return tuple(sorted(nodes, key=self.numbers.__getitem__))

    def take(self, group: FusionGroup) -> bool:
        """Whether all nodes of a group were free; they are not any more."""
        numbers = tuple(self.numbers[node] for node in group.nodes)
        if not self.free.issuperset(numbers):
            return False
        self.free.difference_update(numbers)
        self.groups.append((numbers, group))
        return True

    def maker(self, no: No, value: Value, reads: int) -> Node | None:
        """The node that makes a value for so many readers alone, none of them outside of the net."""
        if value.node is None or len(value.node.outputs) > 1:
            return None
        if len(self.of(value)) != reads:
            return no(READ_ONCE)
        return no(NOT_RETURNED) if self.leaves(value) else value.node


def elementwise(node: Node) -> bool:
    """Whether a node may run with element-wise ops that it reads, or that read it."""
    if chain.is_quantizing(node):
        return True
    dtype = node.outputs[0].dtype
    return node.kind in chain.OPS and dtype in chain.FLOATS and all(value.dtype == dtype for value in node.inputs)


@dataclass
class Built:
    """A program as it grows, and what was decided for each group; the steps state the position of theirs."""

    views: dict[Value, View]
    # values that a group other than their own reads, or that the net returns
    shared: set[Value]
    env: Env
    # ranks the formulations of convolutions, if they are not to be ranked by their estimates
    choose: Chooser | None = None
    # by the names of the ops whose algorithms the user selects
    selectors: Mapping[str, Selector] = field(default_factory=dict)
    program: Program = field(default_factory=Program)
    decisions: list[tuple[FusionGroup, Decision]] = field(default_factory=list)
    macs: int = 0
    # what may run by bands of rows
    layers: list[tile_rows.Layer] = field(default_factory=list)

    def view(self, value: Value) -> View:
        """Where a value lives."""
        return view_of(self.program, value, self.views)

    def operands(self, node: Node) -> tuple[list[View], list[View]]:
        """Where the inputs and outputs of a node live."""
        inputs, outputs = ([self.view(value) for value in values] for values in (node.inputs, node.outputs))
        return inputs, outputs


# The first one that matches nodes computes them; `table` fills it.
BACKENDS: list[Backend] = []


def group_of(nodes: Sequence[Node], env: Env) -> FusionGroup | None:
    """Nodes as the first backend takes them that runs them as one; None where none does."""
    for backend in BACKENDS:
        match = backend.match(nodes, env)
        if match is not None:
            return FusionGroup(tuple(nodes), backend, match)
    return None


@contextmanager
def registered(backend: Backend, before: str) -> Iterator[None]:
    """One more backend, which is asked before the one of this name."""
    BACKENDS.insert([other.name for other in BACKENDS].index(before), backend)
    try:
        yield
    finally:
        BACKENDS.remove(backend)
