"""Ops that have no kernel as ops that have one: the same inputs and outputs, perhaps new constants."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from .. import dtypes, shapes
from ..graph import Node, Value


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
