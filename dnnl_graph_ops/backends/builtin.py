"""Runs single ops by kernels of the package: a table of the nodes that each takes, and takes before the library."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from ..algorithms.lower import Decision
from ..graph import Node, Value
from ..ir.env import Env
from ..program import element_ops, elementwise_int, gather, select
from ..program.program import Program, View
from ..schema import kinds
from . import composed, dynamic, gradients, movement, norm, window
from .backend import Backend, FusionGroup, Kind, Lowering, Target
from .layout import Wish, wishes

Views = Sequence[View]
Build = Callable[[Program, Node, Views, Views], None]


class Kernel(NamedTuple):
    """A kernel of the package for a kind of ops.

    build: appends the steps of a node, from the views of its inputs to those of its outputs. serves: whether the kernel
    computes a node, whose sizes may be unknown. preferred: whether the kernel runs a node even where the library has a
    kernel too; None: never. layout: votes in addition to those of the node's
    kind, for a node with its first input and output.
    """

    build: Build
    serves: Callable[[Node], bool] = lambda node: True
    preferred: Callable[[Node], bool] | None = None
    layout: Callable[[Node, Value, Value], Iterable[Wish]] = lambda node, source, result: ()


def _each(
    builders: Mapping[str, Build], serves: Callable[[Node], bool], preferred: Callable[[Node], bool]
) -> dict[str, Kernel]:
    return {kind: Kernel(build, serves, preferred) for kind, build in builders.items()}


KERNELS: dict[str, Kernel] = {
    "Add": Kernel(elementwise_int.whole, elementwise_int.is_whole, elementwise_int.is_whole),
    "Subtract": Kernel(elementwise_int.whole, elementwise_int.is_whole, elementwise_int.is_whole),
    "AvgPoolBackward": Kernel(gradients.average_pool, gradients.averages, gradients.averages_faster),
    "InterpolateBackward": Kernel(gradients.resample, gradients.resamples, gradients.resamples),
    **_each(norm.SOFTMAX_GRADIENTS, norm.all_floats, norm.all_floats),
    "MaxPoolBackward": Kernel(gradients.max_pool, window.is_float, gradients.largest_faster),
    **dict.fromkeys(kinds("pools"), Kernel(window.pool, window.is_float, window.pools_faster, window.layout)),
    **_each(composed.BUILDERS, composed.serves, composed.slow_in_library),
    **dict.fromkeys(norm.OWN_NORMS, Kernel(norm.build, norm.serves, norm.serves)),
    "DynamicDequantize": Kernel(dynamic.dequantize, dynamic.serves, dynamic.serves),
    "DynamicQuantize": Kernel(dynamic.quantize, dynamic.serves, dynamic.serves),
    "Gather": Kernel(gather.gather),
    "GreaterEqual": Kernel(elementwise_int.compare),
    "Interpolate": Kernel(
        window.resample,
        lambda node: window.is_float(node) or window.repeats(node),
        window.resamples_better,
        window.layout,
    ),
    **dict.fromkeys(window.REDUCTIONS, Kernel(window.reduce, window.reduces, window.reduces)),
    "Pad": Kernel(movement.pad),
    "Reorder": Kernel(movement.copy),
    "Select": Kernel(select.build),
    "Slice": Kernel(movement.copy_slice),
    "StaticReshape": Kernel(movement.reshape),
    "StaticTranspose": Kernel(movement.transpose),
    "TypeCast": Kernel(movement.copy),
}

# Kinds of which the library's float kernels lose NaN.
KEEPING_NAN = kinds("nan_lost")
KEEPS_NAN = "the library's kernels lose NaN"


def serves(node: Node) -> bool:
    """Whether the package has a kernel that computes a node."""
    return node.host is None and node.kind in KERNELS and KERNELS[node.kind].serves(node)


def goes_before(node: Node, env: Env) -> str | None:
    """Returns why a kernel of the package runs a node before the library may; None where the library is asked first."""
    if not env.prefers_builtin or not serves(node):
        return None
    faster = KERNELS[node.kind].preferred
    if faster is None or not faster(node):
        return None
    return KEEPS_NAN if node.kind in KEEPING_NAN else _better(node.kind)


def _better(kind: str) -> str:
    return f"builtin kernels of {kind} are faster or more accurate than the library's"


def goes_before_kind(kind: Kind, target: Target) -> str | None:
    """Returns why kernels of the package run ops of a kind before the library may; None where the library is asked."""
    if not target.prefers_builtin or not element_ops.FLOATS.issuperset(kind.inputs):
        return None
    if kind.name in KEEPING_NAN:
        return KEEPS_NAN
    return _better(kind.name) if kind.name in norm.OWN_NORMS else None


def build(lowering: Lowering, group: FusionGroup) -> Decision:
    """Appends the steps of a node that `serves` accepts."""
    (node,) = group.nodes
    KERNELS[node.kind].build(lowering.program, node, *lowering.operands(node))
    return Decision("builtin kernel", node.outputs[0].dtype)


def _layout(group: FusionGroup) -> Iterable[Wish]:
    (node,) = group.nodes
    return chain(wishes(group.nodes), KERNELS[node.kind].layout(node, node.inputs[0], node.outputs[0]))


BUILTIN = Backend(
    "builtin",
    build,
    lambda nodes, env: nodes[0] if len(nodes) == 1 and serves(nodes[0]) else None,
    lambda kind, target: None if kind.name in KERNELS else f"no kernel of the package computes {kind.name}",
    "builtin kernel",
    layout=_layout,
)
