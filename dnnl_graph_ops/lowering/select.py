"""Select by an own kernel: elements of one of two operands."""

from __future__ import annotations

from collections.abc import Sequence

from .. import dtypes
from .._core import kernels
from ..graph import Node
from .program import Program, View, order_of


def build(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Append the step."""
    target = targets[0]
    operands = [*sources, target]
    shape, strides = _few_axes(target.shape, [_stretched(view, target.shape) for view in operands], order_of(target))
    kernel = kernels.select(shape, strides, dtypes.itemsize(target.dtype))
    program.kernel(kernel, sources, [target], node.kind)


def _stretched(view: View, shape: tuple[int, ...]) -> list[int]:
    """Strides of a view for elements of a shape that it is broadcast to."""
    missing = len(shape) - view.ndim
    own = zip(view.shape, view.strides, shape[missing:], strict=True)
    return [0] * missing + [stride if size == wanted else 0 for size, stride, wanted in own]


def _few_axes(
    shape: tuple[int, ...], strides: Sequence[Sequence[int]], order: Sequence[int]
) -> tuple[list[int], list[list[int]]]:
    """The axes in this order, those as one that lie behind each other in all operands."""
    sizes: list[int] = []
    steps: list[list[int]] = [[] for _ in strides]
    for axis in order:
        size = shape[axis]
        if size == 1:
            continue
        if sizes and all(some[-1] == one[axis] * size for some, one in zip(steps, strides, strict=True)):
            sizes[-1] *= size
            for some, one in zip(steps, strides, strict=True):
                some[-1] = one[axis]
            continue
        sizes.append(size)
        for some, one in zip(steps, strides, strict=True):
            some.append(one[axis])
    return (sizes, steps) if sizes else ([1], [[0] for _ in strides])
