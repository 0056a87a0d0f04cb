"""Nodes that no kernel of the loaded library runs: own kernels, equal ops, or steps in NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .. import dtypes, schema, shapes
from ..errors import UnsupportedError
from ..graph import Node, Value
from ..shapes import Meta
from ..strides import dense_strides
from .env import Env
from .family import DIRECTIONS
from .host_ops import HOST, ONLY_EMPTY, step
from .program import Program, View

# the library packs them in pairs, NumPy does not
_PACKED = frozenset({"s4", "u4"})


def runs_natively(node: Node, env: Env) -> bool:
    """Whether the loaded library has a kernel for this node."""
    return why_not(node, env) is None


def why_not(node: Node, env: Env) -> str | None:
    """Why the loaded library cannot run this node as it is, or None."""
    if node.kind in DIRECTIONS:
        return None
    if node.kind == "Wildcard":
        return "it stands for an op outside of oneDNN, which nothing here can compute; end the graph before it"
    values = (*node.inputs, *node.outputs)
    ins, outs = (
        [Meta(value.shape, env.compute_dtype(value.dtype)) for value in some] for some in (node.inputs, node.outputs)
    )
    if any(meta.dtype in _PACKED for meta in (*ins, *outs)):
        return f"{node.kind} of 4-bit integers: the library packs them in pairs, NumPy does not"
    if _needs_own_copy(node, ins, outs):
        return f"oneDNN has no kernel here for {node.kind} of {node.inputs[0].dtype} to {node.outputs[0].dtype}"
    if len(set(node.attrs.get("zps") or ())) > 1:
        # 3.2 takes them and uses the first for all channels, later versions refuse
        return f"oneDNN has a kernel for {node.kind} with one zero point only"
    if any(None in value.shape for value in values):
        types = [meta.dtype for meta in ins]
        return schema.availability(node.kind, types, env.version, node.attrs, outputs=[m.dtype for m in outs])
    reason = shapes.unsupported(node.kind, ins, outs, node.attrs, env.version)
    if reason is None and not all(map(all, (value.shape for value in values))):
        reason = f"oneDNN has no kernel for {node.kind} of tensors without elements"
    if reason is None and any(value.shape == () for value in values):
        reason = f"oneDNN has no kernel for {node.kind} of tensors without axes"
    return reason


def _needs_own_copy(node: Node, ins: Sequence[Meta], outs: Sequence[Meta]) -> bool:
    """Conversions that fall away where the library computes in f32, but not in memory."""
    if node.kind == "TypeCast":
        return ins[0].dtype == outs[0].dtype
    return node.kind == "Reorder" and ins[0].dtype != node.inputs[0].dtype


def refusal(node: Node, env: Env) -> UnsupportedError:
    """The error for a node that runs nowhere."""
    return UnsupportedError(f"{node.kind} {node.name!r}: {why_not(node, env)}")


def run_on_host(program: Program, node: Node, inputs: Sequence[View], outputs: Sequence[View], env: Env) -> str:
    """Append the step that runs this node without the library; returns what it is.

    Raises:
        UnsupportedError: there is no such step for its kind.
    """
    if node.kind in OWN:
        OWN[node.kind](program, node, inputs[0], outputs[0])
        return "own kernel"
    if node.kind not in HOST or (node.kind in ONLY_EMPTY and all(view.size for view in inputs)):
        raise refusal(node, env)
    program.host(step(node), inputs, outputs, f"{node.kind} (NumPy)")
    return "NumPy"


def equal_node(node: Node, env: Env) -> Node | None:
    """Another node with the same inputs and outputs that has a kernel; it may read new constants."""
    twin = EQUAL[node.kind](node) if node.kind in EQUAL else None
    return twin if twin is not None and runs_natively(twin, env) else None


# -- own kernels ---


def _copy(program: Program, node: Node, source: View, target: View) -> None:
    program.copy(source, target, node.kind)


def _transpose(program: Program, node: Node, source: View, target: View) -> None:
    order = [axis % source.ndim for axis in node.attrs["order"]]
    program.copy(source.permute(order), target, node.kind)


def _reshape(program: Program, node: Node, source: View, target: View) -> None:
    """Elements in row-major order: where neither side is row-major in memory, through scratch."""
    if source.row_major:
        source = View(source.buffer, target.shape, dense_strides(target.shape), source.offset)
    elif target.row_major:
        target = View(target.buffer, source.shape, dense_strides(source.shape), target.offset)
    else:
        dense = program.scratch(source.shape, source.dtype)
        program.copy(source, dense, node.kind)
        source = View(dense.buffer, target.shape, dense_strides(target.shape))
    program.copy(source, target, node.kind)


OWN: dict[str, Callable[[Program, Node, View, View], None]] = {
    "Reorder": _copy,
    "StaticReshape": _reshape,
    "StaticTranspose": _transpose,
    "TypeCast": _copy,
}


# -- equal ops ---


def _as(node: Node, kind: str, inputs: Sequence[Value], attrs: dict[str, object]) -> Node:
    twin = Node(node.id, kind, node.name, tuple(inputs), attrs)
    twin.outputs = node.outputs
    return twin


def _bias_gradient(node: Node) -> Node:
    """The sum over all axes but the channels."""
    rank = len(node.inputs[0].shape)
    channel = rank - 1 if node.attrs["data_format"] == "NXC" else 1
    axes = tuple(axis for axis in range(rank) if axis != channel)
    return _as(node, "ReduceSum", node.inputs, {"axes": axes, "keep_dims": False})


def _reciprocal(node: Node) -> Node:
    src = node.inputs[0]
    shape = (1,) * max(len(src.shape), 1)
    one = Value(src.graph, -1, shape, src.dtype, "one")
    one.constant = np.ones(shape, np.float32).astype(dtypes.numpy_dtype(src.dtype))
    return _as(node, "Divide", (one, src), {"auto_broadcast": "numpy"})


def _power(node: Node) -> Node | None:
    kind = {2.0: "Square", 0.5: "Sqrt"}.get(node.attrs["beta"])
    return _as(node, kind, node.inputs, {}) if kind else None


def _convolution_backward_data(node: Node) -> Node | None:
    """The same as ConvTranspose with the roles of the channels exchanged: any groups."""
    diff_dst, weights = node.inputs[:2]
    attrs = shapes.native_attrs(
        node.kind, node.attrs, [v.meta for v in node.inputs], [v.meta for v in node.outputs], (99,)
    )
    fmt, kernel_first = attrs["data_format"], attrs["weights_format"] == "XIO"
    kernel = weights.shape[:-2] if kernel_first else weights.shape[2:]
    made, given = (_spatial(v.shape, fmt) for v in (node.outputs[0], diff_dst))
    names = ("strides", "pads_begin", "pads_end", "dilations")
    padding = [
        want - (s * (n - 1) + d * (k - 1) + 1 - begin - end)
        for want, n, k, s, begin, end, d in zip(made, given, kernel, *(attrs[n] for n in names), strict=True)
    ]
    if min(padding) < 0:
        return None
    family = {name: attrs[name] for name in (*names, "groups", "data_format")}
    family |= {"auto_pad": "none", "output_padding": tuple(padding)}
    family["weights_format"] = "XOI" if kernel_first else "IOX"
    return _as(node, "ConvTranspose", (diff_dst, weights), family)


def _spatial(shape: tuple[int | None, ...], data_format: str) -> tuple[int | None, ...]:
    return shape[2:] if data_format == "NCX" else shape[1:-1]


EQUAL: dict[str, Callable[[Node], Node | None]] = {
    "BiasAddBackward": _bias_gradient,
    "ConvolutionBackwardData": _convolution_backward_data,
    "Pow": _power,
    "Reciprocal": _reciprocal,
}
