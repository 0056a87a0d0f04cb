"""Makes the keys by which choices are remembered that the library computes by reference kernels.

No table can list what the library lacks on a CPU. Its log names the implementation of a step when the step is compiled,
and a net with steps that reference kernels would run is lowered again, without the choices that made them. A key is a
digest of all that decides which kernel the library takes, which batches and most spatial sizes do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable

from ..convolution.problem import ConvProblem
from ..graph import Node
from ..program.program import View, order_of

# dtypes of which the library may have no fast kernel
_NARROW = frozenset({"bf16", "f16", "s8", "u8"})


def may_rule(dtypes: Iterable[str]) -> bool:
    """Whether the library may have only a reference kernel for tensors of these dtypes."""
    return not _NARROW.isdisjoint(dtypes)


def key_of_problem(algorithm: str, problem: ConvProblem) -> str:
    """Returns the key of an algorithm for a problem."""
    g, views = problem.geometry, (problem.y, problem.w, problem.x)
    # some kernels need sizes of x that strides divide; gradients of windows beyond x are computed in f32
    sizes = [
        (x % stride, y == 1, dilation * (k - 1) >= x - (begin + end > 0))
        for k, stride, dilation, begin, end, x, y in zip(
            g.kernel, g.strides, g.dilations, g.pads_begin, g.pads_end, g.x, g.y, strict=True
        )
    ]
    return _digest(
        algorithm, problem.direction, g.y_channels, g.x_channels, g.groups, g.kernel, g.strides, g.dilations,
        g.pads_begin, g.pads_end, g.output_padding, sizes, [(view.dtype, order_of(view)) for view in views],
        problem.w.is_constant, problem.bias and problem.bias.dtype,
        [(op.kind, [o if isinstance(o, int) else _spread(o) for o in op.operands]) for op in problem.epilogue],
    )  # fmt: skip


def key_of_nodes(nodes: Collection[Node]) -> str:
    """Returns the key of nodes as one partition; "" if no reference kernel is to be expected for their dtypes."""
    metas = [[(value.dtype, value.shape) for value in (*node.inputs, *node.outputs)] for node in nodes]
    if not may_rule(dtype for some in metas for dtype, _ in some):
        return ""
    attrs = [(node.kind, sorted(map(repr, node.attrs.items()))) for node in nodes]
    return _digest(attrs, metas)


def _spread(view: View) -> tuple[str, list[bool]]:
    """Returns the dtype of a post-op's operand, and along which axes it is broadcast."""
    return view.dtype, [size == 1 for size in view.shape]


def _digest(*facts: object) -> str:
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:20]
