"""Graphs as ONNX models, for other engines to read: quantized ones in QDQ format.

Source: the ONNX operator specifications, opset 20.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import RuntimeUnavailableError, UnsupportedError, extra
from ...graph import Graph, Node, Value
from ...shapes import resolved
from ...strides import channels_last
from ...weights import convert_weights
from ..reading.faults import refusal
from ..reading.types import CODES

Array = np.ndarray[Any, Any]
# with 21, ONNX Runtime 1.32 refuses MatMuls of s8 and 3 axes that it takes apart itself
_OPSET, _IR_VERSION = 20, 9


def to_onnx(graph: Graph, outputs: Mapping[str, Value]) -> Any:
    """Returns a graph as an `onnx.ModelProto` of opset 20 with these outputs by name.

    Unknown dims of inputs stay unknown. Ops that take channels last stand between Transposes.

    Raises:
        UnsupportedError: lists the ops that are not written. RuntimeUnavailableError: the package `onnx` is missing.
    """
    try:
        import onnx
    except ImportError as error:
        raise RuntimeUnavailableError(f"to_onnx: needs onnx ({error}); install it: {extra('onnx')}") from error
    writer = _Writer(onnx, graph)
    problems = []
    for node in graph.nodes:
        try:
            writer.add(node)
        except UnsupportedError as error:
            problems.append(str(error))
    if problems:
        raise UnsupportedError(refusal("to_onnx", problems))
    return writer.model(outputs)


class _Writer:
    """The nodes and initializers of a model so far."""

    def __init__(self, onnx: Any, graph: Graph) -> None:
        self.onnx, self.graph = onnx, graph
        self.nodes: list[Any] = []
        self.held: dict[str, Any] = {}
        computed = (value for node in graph.nodes for value in node.outputs)
        self.names = {value: value.name for value in (*graph.inputs, *computed)}
        self.taken = {*self.names.values(), *(value.name for value in graph.constants)}

    def add(self, node: Node) -> None:
        if node.kind not in RULES or len(node.outputs) > 1:
            raise UnsupportedError(f"{node.kind} {node.name!r}: no operator of ONNX is written for it")
        RULES[node.kind](self, node)
        # the last operator of a rule gives its result
        self.nodes[-1].output[0] = node.outputs[0].name

    def name(self, value: Value) -> str:
        if value not in self.names:
            assert value.constant is not None
            self.names[value] = self.constant(value.constant, value.name)
        return self.names[value]

    def fresh(self, stem: str) -> str:
        number, name = 0, stem
        while name in self.taken:
            number, name = number + 1, f"{stem}_{number}"
        self.taken.add(name)
        return name

    def constant(self, array: Array, name: str = "") -> str:
        name = name or self.fresh("number")
        self.held[name] = self.onnx.numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)
        return name

    def op(self, op_type: str, *inputs: str, **attrs: Any) -> str:
        """Appends an operator with one output and returns the output's name."""
        result = self.fresh(op_type.lower())
        self.nodes.append(self.onnx.helper.make_node(op_type, inputs, [result], self.fresh(op_type), **attrs))
        return result

    def integers(self, numbers: Sequence[int]) -> str:
        return self.constant(np.asarray(numbers, np.int64))

    def model(self, outputs: Mapping[str, Value]) -> Any:
        helper = self.onnx.helper
        for name, value in outputs.items():
            if self.name(value) != name:
                self.nodes.append(helper.make_node("Identity", [self.name(value)], [name]))
        ends = [self._info(name, value) for name, value in outputs.items()]
        sources = [self._info(value.name, value) for value in self.graph.inputs]
        graph = helper.make_graph(self.nodes, self.graph.name, sources, ends, list(self.held.values()))
        opsets = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="dnnl_graph_ops")

    def _info(self, name: str, value: Value) -> Any:
        dims = [f"{value.name}_{axis}" if dim is None else dim for axis, dim in enumerate(value.shape)]
        return self.onnx.helper.make_tensor_value_info(name, CODES[value.dtype], dims)


Rule = Callable[[_Writer, Node], str]


def _plain(op_type: str, **names: str) -> Rule:
    """Of the op's inputs, with attributes by their names in ONNX: {ours: ONNX's}."""

    def write(w: _Writer, node: Node) -> str:
        attrs = {onnx: node.attrs[own] for own, onnx in names.items()}
        return w.op(op_type, *map(w.name, node.inputs), **attrs)

    return write


def _with_number(op_type: str, *names: str) -> Rule:
    """Of the op's input and of numbers that are attributes of the op."""

    def write(w: _Writer, node: Node) -> str:
        kind = dtypes.numpy_dtype(node.inputs[0].dtype)
        return w.op(op_type, w.name(node.inputs[0]), *(w.constant(np.asarray(node.attrs[n], kind)) for n in names))

    return write


def _first(rule: Callable[[_Writer, Node, str], str]) -> Rule:
    """A rule of data with channels first: that with channels last is transposed before and after."""

    def write(w: _Writer, node: Node) -> str:
        src, rank = w.name(node.inputs[0]), node.inputs[0].ndim
        if node.attrs["data_format"] == "NCX" or rank < 3:
            return rule(w, node, src)
        to_last = list(channels_last(rank))
        to_first = [to_last.index(axis) for axis in range(rank)]
        return w.op("Transpose", rule(w, node, w.op("Transpose", src, perm=to_first)), perm=to_last)

    return write


def _convolution(w: _Writer, node: Node, src: str) -> str:
    attrs = resolved(node.kind, [value.shape for value in node.inputs], node.attrs, node.name)
    transposed = node.kind == "ConvTranspose"
    if attrs.auto_pad != "None" or min((*attrs.pads_begin, *attrs.pads_end), default=0) < 0:
        raise UnsupportedError(f"{node.kind} {node.name!r}: pads that depend on sizes or are negative")
    fmt = f"documented_{attrs.weights_format}" if attrs.known.weights.documented else attrs.weights_format
    target, weights = "IOX" if transposed else "OIX", node.inputs[1]
    if fmt == target:
        name = w.name(weights)
    elif weights.constant is not None:
        op = "conv_transpose" if transposed else "convolution"
        name = w.constant(convert_weights(weights.constant, fmt, target, groups=attrs.groups, op=op))  # type: ignore[arg-type]
    else:
        raise UnsupportedError(f"{node.kind} {node.name!r}: weights in the order {fmt} that are computed")
    more = {"output_padding": list(attrs.output_padding)} if transposed and attrs.output_padding else {}
    return w.op(
        "ConvTranspose" if transposed else "Conv", src, name, *_bias(w, node), group=attrs.groups,
        strides=list(attrs.strides), dilations=list(attrs.dilations), pads=[*attrs.pads_begin, *attrs.pads_end], **more,
    )  # fmt: skip


def _bias(w: _Writer, node: Node) -> list[str]:
    """The bias: of integers as a DequantizeLinear of s32, by the product of both scales, as others fuse it."""
    src, weights = (value.node for value in node.inputs[:2])
    bias = node.inputs[2].constant if len(node.inputs) > 2 else None
    if bias is None or src is None or weights is None or {src.kind, weights.kind} != {"Dequantize"}:
        return list(map(w.name, node.inputs[2:]))
    factors = [np.asarray(maker.attrs["scales"], np.float32) for maker in (src, weights)]
    scales = np.resize(factors[0][0] * factors[1], bias.shape)
    levels = np.rint(bias / scales)
    if len(factors[0]) > 1 or np.abs(levels).max(initial=0) >= 2**31:
        return [w.name(node.inputs[2])]
    return [w.op("DequantizeLinear", w.constant(levels.astype(np.int32)), w.constant(scales), axis=0)]


def _pool(op_type: str) -> Callable[[_Writer, Node, str], str]:
    def write(w: _Writer, node: Node, src: str) -> str:
        attrs = node.attrs
        if attrs["auto_pad"] != "None":
            raise UnsupportedError(f"{node.kind} {node.name!r}: pads that depend on sizes")
        more: dict[str, Any] = {"dilations": list(attrs["dilations"])} if "dilations" in attrs else {}
        more |= {"count_include_pad": int(not attrs["exclude_pad"])} if "exclude_pad" in attrs else {}
        return w.op(
            op_type, src, kernel_shape=list(attrs["kernel"]), strides=list(attrs["strides"]),
            pads=[*attrs["pads_begin"], *attrs["pads_end"]], ceil_mode=int(attrs["rounding_type"] == "ceil"), **more,
        )  # fmt: skip

    return write


def _matmul(w: _Writer, node: Node) -> str:
    operands = []
    for value, name in zip(node.inputs, ("transpose_a", "transpose_b"), strict=False):
        operand, axes = w.name(value), [*range(value.ndim)]
        if node.attrs[name] and len(axes) > 1:
            operand = w.op("Transpose", operand, perm=[*axes[:-2], axes[-1], axes[-2]])
        operands.append(operand)
    result = w.op("MatMul", *operands)
    return w.op("Add", result, w.name(node.inputs[2])) if len(node.inputs) > 2 else result


def _along_channels(op_type: str) -> Rule:
    """Of data and of a vector that lies along its channels."""

    def write(w: _Writer, node: Node) -> str:
        src, vector = node.inputs
        second = w.name(vector)
        if vector.ndim == 1 and node.attrs["data_format"] == "NCX":
            second = w.op("Reshape", second, w.integers([-1, *(1,) * (src.ndim - 2)]))
        return w.op(op_type, w.name(src), second)

    return write


def _resize(w: _Writer, node: Node, src: str) -> str:
    dims, last = node.outputs[0].shape, node.attrs["data_format"] == "NXC"
    spatial = [dim for dim in (dims[1:-1] if last else dims[2:]) if dim is not None]
    if len(spatial) < len(dims) - 2 or len(node.inputs) > 1:
        raise UnsupportedError(f"{node.kind} {node.name!r}: sizes that are not known")
    linear = node.attrs["mode"] != "nearest"
    mode = node.attrs["coordinate_transformation_mode"] if linear else "half_pixel"
    how = {"mode": "linear"} if linear else {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}
    whole = [dims[0], dims[-1 if last else 1], *spatial]
    sizes = [dim for dim in whole if dim is not None]
    # ONNX Runtime moves a Transpose across it wrong where `axes` are given
    axes = {} if len(sizes) == len(whole) else {"axes": [*range(2, len(dims))]}
    numbers = w.integers(spatial if axes else sizes)
    return w.op("Resize", src, "", "", numbers, coordinate_transformation_mode=mode, **axes, **how)


def _group_norm(w: _Writer, node: Node, src: str) -> str:
    """Groups as the channels of InstanceNormalization: before opset 21 GroupNormalization has no scales of channels."""
    groups, rank = node.attrs["groups"], node.inputs[0].ndim
    numbers = [w.constant(np.full(groups, number, np.float32)) for number in (1, 0)]
    apart = w.op("Reshape", src, w.integers([0, groups, -1]))
    made = w.op("InstanceNormalization", apart, *numbers, epsilon=float(node.attrs["epsilon"]))
    result = w.op("Reshape", made, w.op("Shape", src))
    for op_type, value in zip(("Mul", "Add"), node.inputs[1:], strict=False):
        result = w.op(op_type, result, w.op("Reshape", w.name(value), w.integers([-1, *(1,) * (rank - 2)])))
    return result


def _layer_norm(w: _Writer, node: Node) -> str:
    axis, src = node.attrs["begin_norm_axis"], node.inputs[0]
    shape = src.shape[axis % src.ndim :]
    if None in shape:
        raise UnsupportedError(f"{node.kind} {node.name!r}: sizes that are not known")
    affine = [w.name(value) for value in node.inputs[1:]] or [w.constant(np.ones(shape, np.float32))]
    return w.op("LayerNormalization", w.name(src), *affine, axis=axis, epsilon=float(node.attrs["epsilon"]))


def _batch_norm(w: _Writer, node: Node, src: str) -> str:
    return w.op("BatchNormalization", src, *map(w.name, node.inputs[1:]), epsilon=float(node.attrs["epsilon"]))


def _reduce(op_type: str) -> Rule:
    def write(w: _Writer, node: Node) -> str:
        if len(node.inputs) > 1:
            raise UnsupportedError(f"{node.kind} {node.name!r}: axes that are no attribute")
        axes = w.integers(node.attrs["axes"])
        return w.op(
            op_type, w.name(node.inputs[0]), axes, keepdims=int(node.attrs["keep_dims"]), noop_with_empty_axes=1
        )

    return write


def _quantizing(op_type: str) -> Rule:
    def write(w: _Writer, node: Node) -> str:
        attrs, many = node.attrs, node.attrs["qtype"] == "per_channel"
        kind = dtypes.numpy_dtype((node.outputs if op_type == "QuantizeLinear" else node.inputs)[0].dtype)
        scales = np.asarray(attrs["scales"], np.float32)
        points = np.asarray(attrs.get("zps") or [0] * scales.size).astype(kind)
        numbers = [w.constant(array if many else array.reshape(())) for array in (scales, points)]
        return w.op(op_type, w.name(node.inputs[0]), *numbers, **({"axis": attrs["axis"]} if many else {}))

    return write


def _reshape(w: _Writer, node: Node) -> str:
    shape = w.integers(node.attrs["shape"])
    return w.op("Reshape", w.name(node.inputs[0]), shape, allowzero=int(not node.attrs["special_zero"]))


def _slice(w: _Writer, node: Node) -> str:
    starts, ends = node.attrs["starts"], node.attrs["ends"]
    axes = node.attrs.get("axes") or range(len(starts))
    steps = node.attrs.get("steps") or [1] * len(starts)
    return w.op("Slice", w.name(node.inputs[0]), *map(w.integers, (starts, ends, axes, steps)))


def _pad(w: _Writer, node: Node) -> str:
    attrs, src = node.attrs, node.inputs[0]
    pads = w.integers([*attrs["pads_begin"], *attrs["pads_end"]])
    number = w.constant(np.asarray(attrs["value"], dtypes.numpy_dtype(src.dtype)))
    return w.op("Pad", w.name(src), pads, *([number] if attrs["mode"] == "constant" else []), mode=attrs["mode"])


def _square(w: _Writer, node: Node) -> str:
    src = w.name(node.inputs[0])
    src = w.op("Sub", src, w.name(node.inputs[1])) if len(node.inputs) > 1 else src
    return w.op("Mul", src, src)


def _gelu(w: _Writer, node: Node) -> str:
    how = "none" if node.attrs["mode"] == "gelu_erf" else "tanh"
    return w.op("Gelu", w.name(node.inputs[0]), approximate=how)


def _softplus(w: _Writer, node: Node) -> str:
    beta = np.asarray(node.attrs["beta"], np.float32)
    if beta == 1:
        return w.op("Softplus", w.name(node.inputs[0]))
    return w.op("Div", w.op("Softplus", w.op("Mul", w.name(node.inputs[0]), w.constant(beta))), w.constant(beta))


def _cast(w: _Writer, node: Node) -> str:
    return w.op("Cast", w.name(node.inputs[0]), to=CODES[node.outputs[0].dtype])


RULES: dict[str, Rule] = {
    "Abs": _plain("Abs"),
    "Add": _plain("Add"),
    "AvgPool": _first(_pool("AveragePool")),
    "BatchNormInference": _first(_batch_norm),
    "BiasAdd": _along_channels("Add"),
    "Clamp": _with_number("Clip", "min", "max"),
    "Concat": _plain("Concat", axis="axis"),
    "ConvTranspose": _first(_convolution),
    "Convolution": _first(_convolution),
    "Cos": _plain("Cos"),
    "Dequantize": _quantizing("DequantizeLinear"),
    "Divide": _plain("Div"),
    "Elu": _plain("Elu", alpha="alpha"),
    "Erf": _plain("Erf"),
    "Exp": _plain("Exp"),
    "GELU": _gelu,
    "Gather": _plain("Gather", axis="axis"),
    "GreaterEqual": _plain("GreaterOrEqual"),
    "GroupNorm": _first(_group_norm),
    "HardSigmoid": _plain("HardSigmoid", alpha="alpha", beta="beta"),
    "HardSwish": _plain("HardSwish"),
    "Interpolate": _first(_resize),
    "LayerNorm": _layer_norm,
    "LeakyReLU": _plain("LeakyRelu", alpha="alpha"),
    "Log": _plain("Log"),
    "LogSoftmax": _plain("LogSoftmax", axis="axis"),
    "MatMul": _matmul,
    "MaxPool": _first(_pool("MaxPool")),
    "Maximum": _plain("Max"),
    "Minimum": _plain("Min"),
    "Mish": _plain("Mish"),
    "Multiply": _plain("Mul"),
    "PReLU": _along_channels("PRelu"),
    "Pad": _pad,
    "Pow": _with_number("Pow", "beta"),
    "Quantize": _quantizing("QuantizeLinear"),
    "ReLU": _plain("Relu"),
    "Reciprocal": _plain("Reciprocal"),
    **{kind: _reduce(kind) for kind in ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin")},
    **{kind: _reduce(kind) for kind in ("ReduceProd", "ReduceSum")},
    "Round": _plain("Round"),
    "Select": _plain("Where"),
    "Sigmoid": _plain("Sigmoid"),
    "Sin": _plain("Sin"),
    "Slice": _slice,
    "SoftMax": _plain("Softmax", axis="axis"),
    "SoftPlus": _softplus,
    "Sqrt": _plain("Sqrt"),
    "Square": _square,
    "SquaredDifference": _square,
    "StaticReshape": _reshape,
    "StaticTranspose": _plain("Transpose", order="perm"),
    "Subtract": _plain("Sub"),
    "Tanh": _plain("Tanh"),
    "TypeCast": _cast,
}
