"""Select by an own kernel: elements of one of two operands."""

from __future__ import annotations

from collections.abc import Sequence

from .. import dtypes
from .._core import kernels
from ..graph import Node
from .chain import over
from .program import Program, View


def build(program: Program, node: Node, sources: Sequence[View], targets: Sequence[View]) -> None:
    """Append the step."""
    target = targets[0]
    shape = target.shape or (1,)
    strides = [over(view, shape).strides for view in (*sources, target)]
    kernel = kernels.select(shape, strides, dtypes.itemsize(target.dtype))
    program.kernel(kernel, sources, [target], node.kind)
