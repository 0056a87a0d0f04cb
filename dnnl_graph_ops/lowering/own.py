"""Ops by own kernels: one table, with what they take of an op and whether they go before the library's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from ..graph import Node
from ..schema import kinds
from ..strides import dense_strides
from . import norms, plain, select, take, windows
from .env import Env
from .matching import order_of
from .pieces import copy_slice, middle_of, pad, sliced
from .program import Program, View

Views = Sequence[View]


class Own(NamedTuple):
    """Own code of a kind of ops.

    build: appends the steps from the views of a node's inputs to those of its outputs. serves: whether it takes a node,
    whose shapes may be unknown. preferred: whether it goes before a kernel of the library; None: never.
    """

    build: Callable[[Program, Node, Views, Views], None]
    serves: Callable[[Node], bool] = lambda node: True
    preferred: Callable[[Node], bool] | None = None


def serves(node: Node) -> bool:
    """Whether own code runs this node."""
    return node.kind in OWN and OWN[node.kind].serves(node)


def preferred(node: Node, env: Env) -> bool:
    """Whether own code runs this node even where the library has a kernel."""
    if not env.prefers_own or not serves(node):
        return False
    faster = OWN[node.kind].preferred
    return faster is not None and faster(node)


def _one(build: Callable[[Program, Node, View, View], None]) -> Callable[[Program, Node, Views, Views], None]:
    """A builder of ops with one operand."""

    def made(program: Program, node: Node, sources: Views, targets: Views) -> None:
        build(program, node, sources[0], targets[0])

    return made


def _copy(program: Program, node: Node, sources: Views, targets: Views) -> None:
    program.copy(sources[0], targets[0], node.kind)


def _transposed(node: Node, source: View) -> View:
    return source.permute(order_of(node))


def _transpose(program: Program, node: Node, sources: Views, targets: Views) -> None:
    program.copy(_transposed(node, sources[0]), targets[0], node.kind)


def _reshaped(node: Node, source: View) -> View | None:
    return source.reshaped(node.outputs[0].shape)  # type: ignore[arg-type]


def _reshape(program: Program, node: Node, sources: Views, targets: Views) -> None:
    """Elements in the order of the axes: where neither side can be seen in the other's shape, through scratch."""
    source, target = sources[0], targets[0]
    seen, filled = source.reshaped(target.shape), target.reshaped(source.shape)
    if seen is None and filled is None:
        seen = program.scratch(target.shape, source.dtype)
        program.copy(source, View(seen.buffer, source.shape, dense_strides(source.shape)), node.kind)
    if seen is not None:
        program.copy(seen, target, node.kind)
    elif filled is not None:
        program.copy(source, filled, node.kind)


def _sliced(node: Node, source: View) -> View | None:
    view, backwards = sliced(node, source)
    return None if backwards else view


OWN: dict[str, Own] = {
    **dict.fromkeys(("Add", "Subtract"), Own(plain.whole, plain.is_whole, plain.is_whole)),
    **dict.fromkeys(kinds("pools"), Own(windows.pool, windows.is_float, windows.pools_faster)),
    **dict.fromkeys(norms.OWN_NORMS, Own(norms.build, norms.serves, norms.serves)),
    "Gather": Own(take.gather),
    "GreaterEqual": Own(plain.compare),
    "Interpolate": Own(windows.resample, windows.resamples, windows.resamples_faster),
    **dict.fromkeys(windows.REDUCTIONS, Own(windows.reduce, windows.reduces, windows.reduces)),
    "Pad": Own(_one(pad)),
    "Reorder": Own(_copy),
    "Select": Own(select.build),
    "Slice": Own(_one(copy_slice)),
    "StaticReshape": Own(_reshape),
    "StaticTranspose": Own(_transpose),
    "TypeCast": Own(_copy),
}

# Of floats the library's kernels lose NaN.
KEEPING_NAN = kinds("nan_lost")

# Ops whose result is their operand, seen in another way; None where strides cannot say it.
VIEWS: dict[str, Callable[[Node, View], View | None]] = {
    "Slice": _sliced,
    "StaticReshape": _reshaped,
    "StaticTranspose": _transposed,
}


def parts(node: Node, joint: View) -> list[View]:
    """Where the operands of a Concat, or of a Pad, lie in its result."""
    if node.kind == "Pad":
        return [middle_of(node, joint)]
    axis = node.attrs["axis"] % joint.ndim
    sizes = [int(value.shape[axis] or 0) for value in node.inputs]
    return [joint.narrow(axis, sum(sizes[:i]), size) for i, size in enumerate(sizes)]


def join(program: Program, node: Node, sources: Sequence[View], target: View) -> bool:
    """Copy the operands that do not lie in the result already; whether there are any."""
    pairs = zip(sources, parts(node, target), strict=True)
    apart = [(source, part) for source, part in pairs if source != part]
    for source, part in apart:
        program.copy(source, part, node.kind)
    return bool(apart)
