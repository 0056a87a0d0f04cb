"""Operators on quantized tensors, as ONNX Runtime's QOperator format has them, written apart: floats between a
DequantizeLinear of every operand and a QuantizeLinear of the result, which convolutions of integers are made of.

Source: the ONNX operators QLinearConv and QLinearMatMul, and ONNX Runtime's contributed operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from ...errors import InvalidArgumentError, UnsupportedError
from ...words import counted
from ..reading.faults import FAULTS, fault
from ..reading.node import Array, OnnxNode
from .functions import fresh_names, names_of

CONTRIBUTED = "com.microsoft"
# of QuantizeLinear and DequantizeLinear with scales for each channel, whatever the model's other operators are
_BY_CHANNEL = 13
_FLOAT = 1


class _Form(NamedTuple):
    """Where an operator has its tensors: each operand's data, with scale and zero point after it.

    Attributes:
        op_type: of floats.
        operands: the first inputs of the operands; the rest of all inputs is operands where there are none.
        result: the input that is the scale of the result; the zero point is after it.
        bias: the input with s32, whose scale is the product of the operands'.
        attrs: that the float operator has too.
        refused: attributes that must have this value, as it is without them.
    """

    op_type: str
    operands: tuple[int, ...]
    result: int
    bias: int | None = None
    attrs: tuple[str, ...] = ()
    refused: Mapping[str, Any] = {}


_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
_FORMS: dict[tuple[str, str], _Form] = {
    ("", "QLinearConv"): _Form("Conv", (0, 3), 6, 8, _CONV),
    (CONTRIBUTED, "QLinearConv"): _Form("Conv", (0, 3), 6, 8, _CONV, {"channels_last": 0}),
    ("", "QLinearMatMul"): _Form("MatMul", (0, 3), 6),
    (CONTRIBUTED, "QGemm"): _Form("Gemm", (0, 3), 7, 6, ("transA", "transB"), {"alpha": 1.0}),
    (CONTRIBUTED, "QLinearAdd"): _Form("Add", (0, 3), 6),
    (CONTRIBUTED, "QLinearMul"): _Form("Mul", (0, 3), 6),
    (CONTRIBUTED, "QLinearConcat"): _Form("Concat", (), 0, None, ("axis",)),
    (CONTRIBUTED, "QLinearAveragePool"): _Form("AveragePool", (0,), 3, None, _POOL, {"channels_last": 0}),
    (CONTRIBUTED, "QLinearGlobalAveragePool"): _Form("GlobalAveragePool", (0,), 3, None, (), {"channels_last": 0}),
    (CONTRIBUTED, "QLinearLeakyRelu"): _Form("LeakyRelu", (0,), 3, None, ("alpha",)),
    (CONTRIBUTED, "QLinearSigmoid"): _Form("Sigmoid", (0,), 3),
    (CONTRIBUTED, "QLinearSoftmax"): _Form("Softmax", (0,), 3, None, ("axis",)),
}

# operators that only choose or move numbers: the result has the scale of the data
_MOVING = frozenset({"Flatten", "MaxPool", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def in_pairs(
    nodes: Sequence[OnnxNode], arrays: Mapping[str, Array], opset: int, taken: Iterable[str]
) -> tuple[list[OnnxNode], dict[str, Array]]:
    """The nodes with those of known scales written apart, and arrays that these read besides; `taken`: other names."""
    if _KINDS.isdisjoint([(node.domain, node.op_type) for node in nodes]):
        return list(nodes), {}
    fresh = fresh_names((*taken, *names_of(nodes)))
    found: list[OnnxNode] = []
    more: dict[str, Array] = {}
    # scale and zero point of tensors that were quantized by one scale: those of an axis do not fit moved axes
    known: dict[str, tuple[str, ...]] = {}
    for node in nodes:
        try:
            for one in _channels_first(node, arrays, fresh):
                made, numbers = _in_pairs(one, arrays, known, opset, fresh)
                found += made
                more |= numbers
                last = made[-1]
                if last.op_type == "QuantizeLinear" and not last.domain and _is_single(arrays, last.inputs[1]):
                    known[last.outputs[0]] = last.inputs[1:]
        except FAULTS as error:
            raise fault(node, error) from None
    return found, more


def _in_pairs(
    node: OnnxNode,
    arrays: Mapping[str, Array],
    known: Mapping[str, tuple[str, ...]],
    opset: int,
    fresh: Callable[[str], str],
) -> tuple[list[OnnxNode], dict[str, Array]]:
    """Returns the nodes that replace a node, or itself, and the arrays that these read besides."""
    form = _FORMS.get((node.domain, node.op_type))
    made = None
    if form is not None:
        made = _apart(node, form, arrays, opset, fresh)
    elif (node.domain, node.op_type) == _DYNAMIC_LSTM:
        made = _lstm(node, arrays, opset, fresh)
    elif not node.domain and node.op_type in _MOVING and len(node.outputs) == 1 and node.inputs[0] in known:
        made = _moved(node, known[node.inputs[0]], fresh), {}
    return ([node], {}) if made is None else made


# operators with channels after the spatial axes, and the operator that has them in front
_CHANNELS_LAST = {
    (CONTRIBUTED, "NhwcMaxPool"): ("", "MaxPool"),
    (CONTRIBUTED, "QLinearConv"): ("", "QLinearConv"),
    (CONTRIBUTED, "QLinearAveragePool"): (CONTRIBUTED, "QLinearAveragePool"),
}


def _channels_first(node: OnnxNode, arrays: Mapping[str, Array], fresh: Callable[[str], str]) -> list[OnnxNode]:
    """Returns a node, or a node with channels in front of the spatial axes between two Transposes."""
    to = _CHANNELS_LAST.get((node.domain, node.op_type))
    if to is None or not (node.op_type.startswith("Nhwc") or node.attrs.get("channels_last", 0)):
        return [node]
    weights = arrays.get(node.inputs[3]) if to[1] == "QLinearConv" else None
    rank = len(node.attrs.get("kernel_shape") or ()) + 2 if weights is None else weights.ndim
    if rank == 2:
        return [node]
    src, dst = fresh(node.inputs[0]), fresh(node.outputs[0])
    attrs = {name: value for name, value in node.attrs.items() if name != "channels_last"}

    def turned(source: str, result: str, order: Sequence[int]) -> OnnxNode:
        perm = {"perm": list(order)}
        return OnnxNode(
            f"{node.name}/Transpose", "Transpose", "", "", _BY_CHANNEL, (source,), (result,), perm, node.source
        )

    inner = replace(
        node,
        domain=to[0],
        op_type=to[1],
        opset=_BY_CHANNEL,
        inputs=(src, *node.inputs[1:]),
        outputs=(dst,),
        attrs=attrs,
    )
    before, after = (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)
    return [turned(node.inputs[0], src, before), inner, turned(dst, node.outputs[0], after)]


def has_scales(node: OnnxNode) -> bool:
    """Whether a node is an operator on quantized tensors that floats compute."""
    return (node.domain, node.op_type) in _FORMS


def apart(
    node: OnnxNode, arrays: Mapping[str, Array], opset: int, fresh: Callable[[str], str]
) -> tuple[list[OnnxNode], dict[str, Array]]:
    """Returns the nodes that replace such a node, and the arrays that these read.

    Raises:
        UnsupportedError: attributes that floats do not compute.
    """
    found = _apart(node, _FORMS[node.domain, node.op_type], arrays, opset, fresh)
    if found is None:
        attrs = ", ".join(f"{name}={value!r}" for name, value in node.attrs.items())
        raise UnsupportedError(f"{node.where}: with {attrs or 'a bias that is computed'}")
    return found


def _is_single(arrays: Mapping[str, Array], name: str) -> bool:
    return name in arrays and arrays[name].size == 1


def _moved(node: OnnxNode, parameters: tuple[str, ...], fresh: Callable[[str], str]) -> list[OnnxNode]:
    """A node on the floats that integers stand for."""
    src, dst = fresh(node.inputs[0]), fresh(node.outputs[0])
    pair = replace(node, opset=max(node.opset, _BY_CHANNEL), attrs={})
    before = replace(pair, op_type="DequantizeLinear", inputs=(node.inputs[0], *parameters), outputs=(src,))
    after = replace(pair, op_type="QuantizeLinear", inputs=(dst, *parameters), outputs=node.outputs)
    return [before, replace(node, inputs=(src, *node.inputs[1:]), outputs=(dst,)), after]


def _apart(
    node: OnnxNode, form: _Form, arrays: Mapping[str, Array], opset: int, fresh: Callable[[str], str]
) -> tuple[list[OnnxNode], dict[str, Array]] | None:
    if any(node.outputs[1:]):
        raise InvalidArgumentError(f"{node.where}: names {counted(len(node.outputs), 'output')}, but gives 1")
    given = [node.inputs[i] if i < len(node.inputs) else "" for i in range(max(len(node.inputs), 9))]
    operands = form.operands or tuple(range(form.result + 2, len(node.inputs), 3))
    scales = [given[at + 1] for at in operands]
    # QGemm gives floats without a scale
    ends = [given[form.result]] if given[form.result] or form.op_type != "Gemm" else []
    known = all(name in arrays for name in (*scales, *ends))
    # NumPy has steps of standard operators, which sum up integers
    if not operands or not (known or node.domain):
        return None
    if any(node.attrs.get(name, value) != value for name, value in form.refused.items()):
        return None

    def twin(op_type: str, inputs: Iterable[str], output: str, attrs: Mapping[str, Any]) -> OnnxNode:
        kept = list(inputs)
        while kept and not kept[-1]:
            kept.pop()
        is_float = op_type == form.op_type
        name = node.name if is_float else f"{node.name}/{op_type}"
        # QLinearSoftmax says which Softmax it is
        version = node.attrs.get("opset", opset) if is_float else max(opset, _BY_CHANNEL)
        return OnnxNode(name, op_type, "", "", version, tuple(kept), (output,), attrs, node.source)

    made: list[OnnxNode] = []
    floats = []
    more: dict[str, Array] = {}
    for place, at in enumerate(operands):
        floats.append(fresh(given[at]))
        axis = _axis(node, form, place, arrays, given[at])
        zero = points_like(given[at + 2], given[at + 1], arrays, more, fresh)
        made.append(twin("DequantizeLinear", (*given[at : at + 2], zero), floats[-1], {"axis": axis}))
    if form.bias is not None and given[form.bias]:
        bias = arrays.get(given[form.bias])
        floats.append(fresh(given[form.bias]))
        if bias is not None and known:
            if any(arrays[name].ndim > 1 for name in scales):
                return None
            first, second = (arrays[name].astype(np.float64) for name in scales)
            more[floats[-1]] = (bias.astype(np.float64) * (first * second)).astype(np.float32)
        elif node.domain:
            factor, whole = fresh(scales[0]), fresh(given[form.bias])
            made.append(twin("Mul", scales, factor, {}))
            made.append(twin("Cast", (given[form.bias],), whole, {"to": _FLOAT}))
            made.append(twin("Mul", (whole, factor), floats[-1], {}))
        else:
            return None
    result = fresh(node.outputs[0]) if ends else node.outputs[0]
    made.append(twin(form.op_type, floats, result, {k: node.attrs[k] for k in form.attrs if k in node.attrs}))
    if ends:
        made.append(twin("QuantizeLinear", (result, *ends, given[form.result + 1]), node.outputs[0], {}))
    return made, more


def points_like(
    zero: str, scale: str, arrays: Mapping[str, Array], more: dict[str, Array], fresh: Callable[[str], str]
) -> str:
    """Returns the name of zero points as many as scales, which DequantizeLinear needs: a single one is repeated."""
    if zero not in arrays or scale not in arrays or arrays[zero].size == arrays[scale].size:
        return zero
    name = fresh(zero)
    more[name] = np.resize(arrays[zero], arrays[scale].shape)
    return name


# x, W (directions, inputs, gates), R (directions, hidden, gates), B, lengths, h, c and P; then scale and zero point of
# W and of R, (directions,) or (directions, gates)
_DYNAMIC_LSTM = (CONTRIBUTED, "DynamicQuantizeLSTM")
# the operators that `in_pairs` writes apart
_KINDS = frozenset((*_FORMS, *_CHANNELS_LAST, _DYNAMIC_LSTM))


def _lstm(
    node: OnnxNode, arrays: Mapping[str, Array], opset: int, fresh: Callable[[str], str]
) -> tuple[list[OnnxNode], dict[str, Array]] | None:
    """An LSTM of the weights that 8 bits stand for; its data and states, which ONNX Runtime rounds too, stay floats."""
    given = (*node.inputs, *[""] * 12)[:12]
    known = [arrays.get(name) for name in (given[1], *given[8:10], given[2], *given[10:])]
    read = [one for one in known if one is not None]
    if len(read) < len(known) or any(one.ndim not in (1, 2, 3) for one in read):
        return None
    weights = {fresh(given[1]): _floats(*read[:3]), fresh(given[2]): _floats(*read[3:])}
    inputs = (given[0], *weights, *given[3:8])
    return [OnnxNode(node.name, "LSTM", "", "", opset, inputs, node.outputs, node.attrs, node.source)], weights


def _floats(weights: Array, scale: Array, zero: Array) -> Array:
    """Weights (directions, inputs, gates) of 8 bits as LSTM has them, (directions, gates, inputs)."""
    scale, zero = (one.astype(np.float32).reshape(len(weights), 1, -1) for one in (scale, zero))
    return np.ascontiguousarray(((weights - zero) * scale).swapaxes(1, 2))


def _axis(node: OnnxNode, form: _Form, place: int, arrays: Mapping[str, Array], name: str) -> int:
    """The axis of an operand that has a scale for each channel: the out channels of weights."""
    if form.op_type == "Conv" or place == 0 or name not in arrays:
        return 0
    return 0 if node.attrs.get("transB", 0) else arrays[name].ndim - 1
