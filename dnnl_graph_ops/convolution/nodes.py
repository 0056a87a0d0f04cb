"""Describes nodes as the library takes them, the convolution ops among them as a `ConvProblem`, others as post-ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import schema
from ..graph import Node, Value
from ..ir.env import Env
from ..program.elementwise import channel_axis
from ..program.epilogue import Epilogue, EpilogueOp
from ..program.program import NativeOp, View
from ..shapes import Attributes, native_attrs, resolved
from ..shapes.attributes import Geometry, Ints
from ..symbolic import greatest
from .problem import (
    DGRAD,
    FPROP,
    RESULT,
    WGRAD,
    ConvProblem,
    Sizes,
    data_view,
    weights_view,
    without_idle_taps,
    without_last_axes,
)


class ConvKind(NamedTuple):
    """A convolution op in terms of y = x * w: its direction, and which of x, w and y its inputs are.

    For example, ConvTranspose is the dgrad of an ordinary convolution: it reads y and w, and writes x.

    `native`: the kind of the library's op. `ordinary`: the op is no transposed convolution, nor a gradient of one.
    """

    direction: str
    inputs: tuple[str, ...]
    native: str
    ordinary: bool = False


_GRADIENT = "ConvTransposeBackwardWeights"

CONV_KINDS: dict[str, ConvKind] = {
    "ConvTranspose": ConvKind(DGRAD, ("y", "w", "bias"), "ConvTranspose"),
    "ConvTransposeBackwardData": ConvKind(FPROP, ("x", "w"), "ConvTransposeBackwardData"),
    _GRADIENT: ConvKind(WGRAD, ("y", "x"), _GRADIENT),
    "ConvTransposeBackpropFilters": ConvKind(WGRAD, ("y", "x"), _GRADIENT),
    "Convolution": ConvKind(FPROP, ("x", "w", "bias"), "Convolution", True),
    "ConvolutionBackwardData": ConvKind(DGRAD, ("y", "w"), "ConvolutionBackwardData", True),
    "ConvolutionBackwardWeights": ConvKind(WGRAD, ("x", "y"), "ConvolutionBackwardWeights", True),
}


def make_problem(
    kind: str,
    attrs: Mapping[str, Any],
    inputs: Sequence[View],
    output: View,
    epilogue: Epilogue = (),
    where: str = "",
    narrowed: bool = False,
) -> ConvProblem:
    """Returns the problem that a node computes; `inputs` and `output` are views in the node's shapes and formats."""
    record = resolved(kind, [view.shape for view in inputs], attrs, where or kind)
    conv, fmt = CONV_KINDS[kind], record.data_format
    tensors = {RESULT[conv.direction]: output, **dict(zip(conv.inputs, inputs, strict=False))}
    problem = ConvProblem(
        conv.direction,
        Sizes.of(record.geometry),
        data_view(tensors["y"], fmt),
        weights_view(tensors["w"], record, conv.ordinary),
        data_view(tensors["x"], fmt),
        tensors.get("bias"),
        epilogue,
        narrowed,
    )
    return without_last_axes(without_idle_taps(problem))


def multiplications(kind: str, attrs: Mapping[str, Any], inputs: Sequence[tuple[int | None, ...]], where: str) -> int:
    """Returns the number of multiplications by the definition of an op, including products of taps with padding."""
    return Sizes.of(resolved(kind, inputs, attrs, where).geometry).macs


def literal_op(kind: str, attrs: Mapping[str, Any], inputs: Sequence[View], output: View) -> NativeOp | None:
    """Returns the library's op on tensors in the user's layouts, without copies; None if the library refuses the op.

    Returns None as well where the library is known to compute the op wrong. Of the four weights formats (OIX, IOX, XIO,
    XOI) the library takes two for convolutions and two for transposed ones; the others are passed as views whose
    channel axes are transposed.
    """
    record = resolved(kind, [view.shape for view in inputs], attrs, kind)
    literal = literal_attrs(kind, record)
    if literal is None:
        return None
    conv = CONV_KINDS[kind]
    if conv.direction == WGRAD:
        weights = _in_library_order(output, record.weights_format, conv.ordinary)
        literal["weights_shape"] = weights.shape
        return NativeOp(conv.native, literal, tuple(inputs[:2]), (weights,))
    operands = (inputs[0], _in_library_order(inputs[1], record.weights_format, conv.ordinary), *inputs[2:])
    return NativeOp(kind, literal, operands, (output,))


def literal_attrs(kind: str, record: Attributes) -> dict[str, Any] | None:
    """Returns the attributes of `literal_op`; None if the library refuses the op or computes it wrong."""
    known, conv = record.known, CONV_KINDS[kind]
    if known.weights.documented or any(0 in shape for shape in (*known.operands, known.result)):
        return None
    literal = _ordinary_attrs(record, conv) if conv.ordinary else _transposed_attrs(record, conv)
    if literal is None:
        return None
    g = record.geometry
    literal |= {
        "strides": g.strides,
        "pads_begin": g.pads_begin,
        "dilations": g.dilations,
        "groups": g.groups,
        "data_format": record.data_format,
        "weights_format": _LIBRARY_FORMAT[conv.ordinary].get(record.weights_format, record.weights_format),
    }
    return {**literal, "weights_shape": known.result} if conv.direction == WGRAD else literal


def dgrad_pads(g: Geometry | Sizes) -> tuple[Ints, Ints, Ints]:
    """Returns, by axis: pads_end and output_padding for the library, and how many last positions of x no tap reaches.

    pads_end removes positions from the end of x, output_padding adds positions, so only their difference counts. The
    library takes an output_padding below the stride; if it is larger, 0 is returned, and the caller has to fill the
    added positions, which no tap reaches. For example, pads_end 1 and output_padding 4 at stride 2 give 0, 0 and 3.
    """
    ends, paddings, surplus = [], [], []
    for pe, op, s in zip(g.pads_end, g.output_padding, g.strides, strict=True):
        right = pe - op
        ends.append(max(right, 0))
        fits = -right < s
        paddings.append(max(-right, 0) if fits else 0)
        surplus.append(0 if fits else -right)
    return tuple(ends), tuple(paddings), tuple(surplus)


def fprop_pads(g: Geometry | Sizes) -> tuple[Ints, Ints]:
    """Returns, by axis: pads_end for the library, and how many last positions of x no tap reads.

    These positions are the output_padding beyond pads_end; the caller leaves them out.
    """
    pairs = list(zip(g.pads_end, g.output_padding, strict=True))
    return tuple(greatest(pe - op, 0) for pe, op in pairs), tuple(greatest(op - pe, 0) for pe, op in pairs)


def _transposed_attrs(record: Attributes, conv: ConvKind) -> dict[str, Any] | None:
    g = record.geometry
    if conv.direction == FPROP and any(d != 1 for d in g.dilations):
        return None
    ends, *padding, rows = dgrad_pads(g) if conv.direction == DGRAD else fprop_pads(g)
    if any(rows):
        return None
    return {"pads_end": ends, "output_padding": padding[0]} if padding else {"pads_end": ends}


def _ordinary_attrs(record: Attributes, conv: ConvKind) -> dict[str, Any] | None:
    g = record.geometry
    # oneDNN 3.2 with AVX2 writes past its memory for gradients of 1x1 weights whose strides leave last rows of src
    if conv.direction == WGRAD and set(g.kernel) == {1} and any(fprop_pads(g)[1]):
        return None
    if conv.direction != DGRAD:
        return {"pads_end": g.pads_end}
    # oneDNN 3.2 has no kernel for groups, nor for a result with positions that no tap reaches
    if g.groups > 1 or any(p >= s for p, s in zip(g.output_padding, g.strides, strict=True)):
        return None
    return {"pads_end": g.pads_end, "dst_shape": record.known.result}


# `ordinary` of the op -> the weights format that the library lacks -> the one with the channel axes transposed
_LIBRARY_FORMAT = {False: {"OIX": "IOX", "XIO": "XOI"}, True: {"IOX": "OIX", "XOI": "XIO"}}


def _in_library_order(weights: View, weights_format: str, ordinary: bool) -> View:
    """Returns a view of weights in a format that the library takes, with the channel axes transposed if needed."""
    if weights_format not in _LIBRARY_FORMAT[ordinary]:
        return weights
    axes = list(range(weights.ndim))
    channels = slice(0, 2) if weights_format.endswith("X") else slice(-2, None)
    axes[channels] = axes[channels][::-1]
    return weights.permute(axes)


# kinds whose third input is a bias
_BIASED = schema.kinds("multiplies")


def ops_of(nodes: Sequence[Node]) -> list[str]:
    """Returns the library's ops for nodes that run together, as `runtime.cpu.Reference` names them.

    A product with a bias is both "MatMul" and "MatMul with bias", as the library may have other kernels for it.
    """
    added = any(node.kind == "BiasAdd" for node in nodes)
    biased = (node.kind for node in nodes if added or (len(node.inputs) > 2 and node.kind in _BIASED))
    return [*(node.kind for node in nodes), *(f"{kind} with bias" for kind in biased)]


def native_attributes(node: Node, env: Env) -> dict[str, Any]:
    """Returns a node's attributes as the library in `env` takes them."""
    if node.kind in CONV_KINDS:
        return literal_attributes(node) or {}
    ins, outs = ([value._meta for value in values] for values in (node.inputs, node.outputs))
    return native_attrs(node.kind, node.attrs, ins, outs, env.version)


def literal_attributes(node: Node) -> dict[str, Any] | None:
    """Returns the attributes of a convolution that is fused with other ops; None if the library cannot take it so.

    The library refuses the op, computes it wrong, or takes the weights only in another format.
    """
    record = resolved(node.kind, [value.shape for value in node.inputs], node.attrs, node.name)
    literal = literal_attrs(node.kind, record)
    return literal if literal is not None and literal["weights_format"] == record.weights_format else None


def post_ops(head: Node, rest: Sequence[Node], view_of: Callable[[Value], View], env: Env) -> Epilogue:
    """Returns the nodes `rest`, which follow `head` in a fused group, as post-ops.

    `view_of` gives the view of an operand from outside of the group. Operands get the rank of the head's result and the
    axes (N, C, spatial...), except the vectors of BiasAdd and PReLU.
    """
    data_format = format_of(head)
    results = {head.outputs[0]: 0}
    ops = []
    rank = len(head.outputs[0].shape)
    for position, node in enumerate(rest, 1):
        operands: list[View | int] = []
        for value in node.inputs:
            if value in results:
                operands.append(results[value])
                continue
            view = view_of(value)
            is_vector = view.ndim == 1 and channel_axis(node) is not None
            if not is_vector:
                for _ in range(rank - view.ndim):
                    view = view.insert(0)
                view = data_view(view, data_format)
            operands.append(view)
        attrs = native_attributes(node, env)
        if "data_format" in attrs:
            attrs["data_format"] = "NCX"
        ops.append(EpilogueOp(node.kind, attrs, tuple(operands), node.name))
        results[node.outputs[0]] = position
    return tuple(ops)


def format_of(head: Node) -> str:
    """Returns the data format of a head's result, "NXC" or "NCX"; "NXC" if the head has no such attribute."""
    return str(head.attrs.get("data_format", "NXC"))
