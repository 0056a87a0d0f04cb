"""Runs a single op in NumPy on the host, or a node outside of the op table by the host function that it carries."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..algorithms.lower import Decision
from ..graph import Node
from ..ir.env import Env
from ..program.program import Program, View
from .backend import Backend, FusionGroup, Lowering
from .host_ops import HOST, step


def _match(nodes: Sequence[Node], env: Env) -> Node | None:
    node = nodes[0]
    return node if len(nodes) == 1 and (node.host is not None or node.kind in HOST) else None


def _build(lowering: Lowering, group: FusionGroup) -> Decision:
    program, node = lowering.program, group.nodes[0]
    inputs, outputs = lowering.operands(node)
    if node.host is not None and node.host.own is not None and lowering.env.engine.on_host:
        _append_own(program, node.host.title, node.host.own, inputs, outputs)
        return Decision("builtin kernel", node.outputs[0].dtype)
    layouts = tuple((view.shape, view.strides, view.dtype) for view in (*inputs, *outputs))
    title, by, does = node.kind, "NumPy", repr(sorted(node.attrs.items()))
    if node.host is not None:
        title, by, does = node.host.title, node.host.by, node.host.key.hex()
    program.host(step(node), inputs, outputs, f"{title} ({by})", (by, title, does, layouts), by)
    return Decision(by, node.outputs[0].dtype)


def _append_own(
    program: Program, title: str, own: Callable[..., None], inputs: Sequence[View], outputs: Sequence[View]
) -> None:
    """Appends the kernels of a node outside of the op table, which read and write dense views: copies where needed."""
    reads = [v if v.row_major else program.copied(v, v.dtype, range(v.ndim), f"src of {title}") for v in inputs]
    writes = [view if view.row_major else program.scratch(view.shape, view.dtype) for view in outputs]
    own(program, reads, writes)
    for written, view in zip(writes, outputs, strict=True):
        if written is not view:
            program.copy(written, view, f"dst of {title}")


NUMPY = Backend(
    "numpy",
    _build,
    _match,
    lambda kind, target: None if kind.name in HOST else f"no NumPy function computes {kind.name}",
    "NumPy",
)
