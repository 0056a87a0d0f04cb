"""Lists the backends in the order in which they are asked, divides nodes into groups, and appends the groups' steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..algorithms.lower import Chooser, Decision, Selector
from ..errors import UnsupportedError
from ..graph import Node, Value
from ..ir import postorder
from ..ir.env import Env
from ..program import elementwise
from . import movement, norm, onednn, partitions
from .attention import ATTENTION
from .backend import BACKENDS, Backend, FusionGroup, Kind, Lowering, Places, Search, Target, group_of
from .builtin import BUILTIN
from .convolution import CONVOLUTION
from .elementwise import ELEMENTWISE
from .equal import EQUAL_OP
from .int8 import INT8
from .integer_window import INTEGER_WINDOW
from .matmul import MATMUL
from .norm import NORM
from .numpy_fallback import NUMPY
from .onednn import ONEDNN
from .rotary import ROTARY
from .search import elementwise_groups, with_post_ops


def _refuse(lowering: Lowering, group: FusionGroup) -> Decision:
    """Raises the error for a node that no other backend computes, with the reason why the library does not."""
    node = group.nodes[0]
    raise UnsupportedError(f"{node.kind} {node.name!r}: {onednn.why_not(node, lowering.env)}")


NOWHERE = Backend(
    "nowhere",
    _refuse,
    lambda nodes, env: nodes if len(nodes) == 1 else None,
    lambda kind, target: None,
    "not supported",
)
BACKENDS[:] = [
    ATTENTION, ROTARY, INT8, INTEGER_WINDOW, NORM, MATMUL, ELEMENTWISE, CONVOLUTION, ONEDNN, EQUAL_OP, BUILTIN, NUMPY,
    NOWHERE,
]  # fmt: skip

# ---- which nodes run together ----------------------------------------------------------------------------------------


def group(nodes: Sequence[Node], outputs: Sequence[Value], env: Env, policy: str) -> list[FusionGroup]:
    """Divides nodes into groups that run together, each value computed before the groups that read it.

    With tune="off", policy "debug" or on a device the groups are the library's partitions.
    """
    with onednn.asked_once():
        if len(nodes) < 2:
            groups = [one for node in nodes for one in _settled([node], env)]
        elif not env.prefers_builtin or policy != "fusion":
            members = sorted(partitions.partitions(nodes, outputs, env, policy))
            groups = [one for some in members for one in _settled([nodes[i] for i in some], env)]
        else:
            groups = _fused(nodes, outputs, env)
    return _ordered(groups)


def _settled(nodes: Sequence[Node], env: Env) -> Iterator[FusionGroup]:
    """Yields nodes as one group where a backend runs them together, else each node as a group of its own."""
    whole = group_of(nodes, env)
    if whole is not None:
        yield whole
        return
    for node in nodes:
        yield from _settled([node], env)


def _fused(nodes: Sequence[Node], outputs: Sequence[Value], env: Env) -> list[FusionGroup]:
    """Divides nodes into groups by all backends' rules, in this order; a node goes to the first group that takes it.

    First come the patterns of backends (attention, rotary embeddings, int8), then exact partitions of the library of
    nodes that builtin code does not fuse, then heads with their post-ops, then element-wise groups, then single nodes.
    """
    search = Search(nodes, outputs, env)
    search.partitions, products = partitions.exact_partitions(search)
    for backend in BACKENDS:
        backend.find(search)

    def take(members: Sequence[int]) -> None:
        if search.free.issuperset(members):
            for one in _settled([nodes[i] for i in members], env):
                search.take(one)

    for members in (*search.partitions, *products):
        take(members)
    alone = {i: nodes[i] for i in search.free}
    joining = {i for i, n in alone.items() if onednn.runs(n, env) or norm.leads(n) or elementwise.takes([n], env)}
    for members in with_post_ops(search, joining):
        take(members)
    for members in elementwise_groups(search, joining & search.free):
        take(members)
    for number in sorted(search.free):
        take((number,))
    return [one for _, one in sorted(search.groups, key=lambda item: item[0])]


def _ordered(groups: Sequence[FusionGroup]) -> list[FusionGroup]:
    """Sorts groups such that each value is computed before a group reads it; otherwise the groups keep their order."""
    maker = {value: i for i, item in enumerate(groups) for value in item.outputs}

    def needs(i: int) -> list[int]:
        read = (value for node in groups[i].nodes for value in node.inputs)
        return sorted({maker[value] for value in read if value in maker} - {i})

    return [groups[i] for i in postorder(range(len(groups)), needs)]


def who_runs(kind: Kind, target: Target) -> tuple[Backend, str]:
    """Returns the backend of ops of a kind, as far as dtypes tell, and why the backend is not the library, or "".

    A node's attributes and shapes may rule out the backend all the same.
    """
    backend = next(backend for backend in BACKENDS if backend.why_not(kind, target) is None)
    return backend, "" if backend is CONVOLUTION else onednn.why_not_kind(kind, target) or ""


# ---- steps -----------------------------------------------------------------------------------------------------------


def build(
    groups: Sequence[FusionGroup], views: Places, env: Env, choose: Chooser | None, selectors: Mapping[str, Selector]
) -> Lowering:
    """Appends the steps of every group to a new program.

    `views`: the views of the net's inputs, constants and outputs; other values get scratch buffers. `choose` ranks the
    algorithms of a convolution by measured times; without it estimates rank them. `selectors`: by the names of ops
    whose algorithms the user chooses.
    """
    reads = [[value for node in item.nodes for value in node.inputs] for item in groups]
    shared = set(views).union(*(set(read).difference(g.outputs) for read, g in zip(reads, groups, strict=True)))
    lowering = Lowering(views, shared, env, choose, selectors)
    lowering.program.lowered = {}
    for item, read in zip(groups, reads, strict=True):
        lowering.program.group = len(lowering.decisions)
        turned = item.backend.turns(item)
        views.take_in(lowering.program, [value for value in read if value not in turned])
        lowering.decisions.append((item, _append(lowering, item)))
    lowering.program.group = None
    return lowering


def _append(lowering: Lowering, group: FusionGroup) -> Decision:
    """Appends the steps of a group, unless its result needs none.

    A result without elements needs no step, nor does a view of an operand, nor a Concat whose operands were written
    into their parts of the result.
    """
    head, views = group.nodes[0], lowering.views
    dtype = head.outputs[0].dtype
    if all(0 in value.shape for value in group.outputs):
        return Decision("nothing to do", dtype)
    alone = len(group.nodes) == 1
    if alone and head.kind in movement.VIEWS:
        source, place = views.place(head.inputs[0]), views.place(head.outputs[0])
        if source is not None and place is not None and source.buffer is place.buffer:
            return Decision("view", dtype)
    if alone and head.outputs[0] in views.joined:
        inputs, (result,) = lowering.operands(head)
        return Decision("builtin kernel" if movement.join(lowering.program, head, inputs, result) else "view", dtype)
    return group.backend.build(lowering, group)
