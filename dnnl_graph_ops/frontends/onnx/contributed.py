"""Operators of ONNX Runtime's own domain, as its optimizers and quantizers write them, as standard operators.

Source: ONNX Runtime's documentation of contributed operators; where it leaves something open, its results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...errors import UnsupportedError
from ..reading.node import Array, OnnxNode, Tensor
from ..reading.types import TYPES
from .q_operators import CONTRIBUTED, apart, has_scales, points_like

# of the nodes that replace an operator: with Attention, RMSNormalization and RotaryEmbedding
_OPSET = 24
_INT64, _BOOL = 7, 9


@dataclass
class _Writer:
    """The standard nodes that replace a node, and the arrays that they read."""

    node: OnnxNode
    tensors: Mapping[str, Tensor]
    fresh: Callable[[str], str]
    nodes: list[OnnxNode] = field(default_factory=list)
    arrays: dict[str, Array] = field(default_factory=dict)

    def given(self, index: int) -> str:
        """Returns the name of input `index`; "" if it is left out."""
        return self.node.inputs[index] if index < len(self.node.inputs) else ""

    def rank(self, index: int) -> int:
        return len(self.shape(index))

    def shape(self, index: int) -> tuple[int | None, ...]:
        return self.tensors[self.given(index)].sizes

    @property
    def kind(self) -> np.dtype[Any]:
        """The dtype of the first input."""
        return TYPES[self.tensors[self.given(0)].code or 1]

    def wants(self, index: int) -> bool:
        return index < len(self.node.outputs) and bool(self.node.outputs[index])

    def result(self, index: int = 0) -> str:
        """Returns the name of a result; a new one if it is left out."""
        return self.node.outputs[index] if self.wants(index) else self.fresh(f"{self.node.name}/{index}")

    def attr(self, name: str, default: Any) -> Any:
        value = self.node.attrs.get(name)
        return default if value is None else value

    def only(self, name: str, value: Any) -> None:
        """Raises for another value of an attribute."""
        if self.attr(name, value) != value:
            raise self.refused(f"{name}={self.attr(name, value)!r}, only {value!r}")

    def without(self, inputs: Mapping[int, str] | None = None, outputs: Mapping[int, str] | None = None) -> None:
        """Raises for inputs and outputs, by index, that are there."""
        for index, name in (inputs or {}).items():
            if self.given(index):
                raise self.refused(f"its input {name!r}")
        for index, name in (outputs or {}).items():
            if self.wants(index):
                raise self.refused(f"its output {name!r}")

    def refused(self, what: str) -> UnsupportedError:
        return UnsupportedError(f"{self.node.where}: {what}; save the model before ONNX Runtime optimizes it")

    def array(self, array: Any, dtype: Any = np.int64) -> str:
        name = self.fresh("array")
        self.arrays[name] = np.asarray(array, dtype)
        return name

    def op(self, op_type: str, *inputs: str, out: str | Sequence[str] = "", domain: str = "", **attrs: Any) -> str:
        """Appends a node; returns the name of its first result."""
        outputs = [out] if isinstance(out, str) else list(out)
        outputs[0] = outputs[0] or self.fresh(op_type)
        name, kept = f"{self.node.name}/{op_type}", list(inputs)
        while kept and not kept[-1]:
            kept.pop()
        self.nodes.append(
            OnnxNode(name, op_type, domain, "", _OPSET, tuple(kept), tuple(outputs), attrs, self.node.source)
        )
        return outputs[0]

    def added(self, *terms: str, out: str = "") -> str:
        """Returns the sum of terms of which some are left out."""
        total, *rest = filter(None, terms)
        if not rest:
            return self.op("Identity", total, out=out) if out else total
        for i, term in enumerate(rest, 1):
            total = self.op("Add", total, term, out=out if i == len(rest) else "")
        return total

    def scaled(self, value: str, factor: float) -> str:
        return value if factor == 1 else self.op("Mul", value, self.array(factor, self.kind))

    def dequantized(self, data: str, scale: str, zero: str = "", axis: int = 1) -> str:
        arrays = {name: self.tensors[name].array for name in (scale, zero) if name in self.tensors}
        known = {name: array for name, array in arrays.items() if array is not None}
        return self.op(
            "DequantizeLinear", data, scale, points_like(zero, scale, known, self.arrays, self.fresh), axis=axis
        )

    def size(self, name: str, axis: int) -> str:
        """Returns the size of an axis, (1,)."""
        return self.op("Shape", name, start=axis, end=axis + 1)


# -- element-wise operators, products and convolutions ---------------------------------------------------------------


def _gelu(w: _Writer) -> None:
    """Gelu, BiasGelu, and FastGelu by tanh."""
    mode = "tanh" if w.node.op_type == "FastGelu" else "none"
    w.op("Gelu", w.added(w.given(0), w.given(1)), out=w.result(), approximate=mode)


def _quick_gelu(w: _Writer) -> None:
    gate = w.op("Sigmoid", w.scaled(w.given(0), w.attr("alpha", 1.702)))
    w.op("Mul", w.given(0), gate, out=w.result())


# attributes of activations by the name of the parameter: those of FusedConv are a list, those of FusedGemm have names
_ACTIVATIONS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh"), ()),
    "Elu": ("alpha",),
    "HardSigmoid": ("alpha", "beta"),
    "LeakyRelu": ("alpha",),
    "ThresholdedRelu": ("alpha",),
}


def _activated(w: _Writer, value: str, numbers: Mapping[str, float] | Sequence[float]) -> None:
    """Appends the activation of a fused operator."""
    kind = str(w.attr("activation", ""))
    if not kind:
        w.op("Identity", value, out=w.result())
    elif kind == "Clip" and isinstance(numbers, Sequence) and len(numbers) == 2:
        low, high = (w.array(number, w.kind) for number in numbers)
        w.op("Clip", value, low, high, out=w.result())
    elif kind in _ACTIVATIONS:
        names = _ACTIVATIONS[kind]
        given = dict(zip(names, numbers, strict=False)) if isinstance(numbers, Sequence) else numbers
        attrs: dict[str, Any] = {name: given[name] for name in names if name in given}
        w.op(kind, value, out=w.result(), **attrs)
    else:
        raise w.refused(f"activation={kind!r}")


_CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")


def _fused_conv(w: _Writer) -> None:
    """FusedConv: a Conv, a sum with a fourth input, an activation."""
    attrs = {name: w.node.attrs[name] for name in _CONV if name in w.node.attrs}
    sums = w.added(w.op("Conv", *map(w.given, range(3)), **attrs), w.given(3))
    _activated(w, sums, list(w.attr("activation_params", ())))


def _fused_gemm(w: _Writer) -> None:
    names = ("alpha", "beta", "transA", "transB")
    attrs = {name: w.node.attrs[name] for name in names if name in w.node.attrs}
    numbers = {name: w.node.attrs.get(f"activation_{name}") for name in ("alpha", "beta")}
    known = {name: float(number) for name, number in numbers.items() if number is not None}
    _activated(w, w.op("Gemm", *map(w.given, range(3)), **attrs), known)


def _fused_matmul(w: _Writer) -> None:
    """FusedMatMul: operands transposed, of batches whose axis 0 is the rows', and a factor."""
    operands = []
    for index, name in enumerate("AB"):
        rank = w.rank(index)
        order = list(range(rank))
        if rank > 2 and w.attr(f"transBatch{name}", 0):
            order = [*order[1:-1], 0, rank - 1]
        if rank > 1 and w.attr(f"trans{name}", 0):
            order[-2:] = order[:-3:-1]
        turned = order != sorted(order)
        operands.append(w.op("Transpose", w.given(index), perm=order) if turned else w.given(index))
    factor = w.attr("alpha", 1.0)
    if factor == 1:
        w.op("MatMul", *operands, out=w.result())
    else:
        w.op("Mul", w.op("MatMul", *operands), w.array(factor, w.kind), out=w.result())


# -- norms and embeddings --------------------------------------------------------------------------------------------


def _normalized(w: _Writer, value: str, simplified: bool, scale: str, shift: str = "") -> None:
    attrs = {"epsilon": w.attr("epsilon", 1e-12 if w.node.op_type.startswith("Embed") else 1e-5), "axis": -1}
    if simplified:
        w.op("RMSNormalization", value, scale, out=w.result(), **attrs)
    else:
        w.op("LayerNormalization", value, scale, shift, out=w.result(), **attrs)


def _skip_norm(w: _Writer) -> None:
    """SkipLayerNormalization and SkipSimplifiedLayerNormalization: of the sum of two tensors and a bias."""
    simplified = "Simplified" in w.node.op_type
    scale, shift, bias = w.given(2), *(("", w.given(3)) if simplified else (w.given(3), w.given(4)))
    total = w.added(w.given(0), w.given(1), bias, out=w.result(3) if w.wants(3) else "")
    _normalized(w, total, simplified, scale, shift)
    if w.wants(1) or w.wants(2):
        mean = w.op("ReduceMean", total, w.array([-1]), out=w.result(1))
        centred = total if simplified else w.op("Sub", total, mean)
        variance = w.op("ReduceMean", w.op("Mul", centred, centred), w.array([-1]))
        deviation = w.op("Sqrt", w.op("Add", variance, w.array(w.attr("epsilon", 1e-5), w.kind)))
        w.op("Reciprocal", deviation, out=w.result(2))


def _simplified_norm(w: _Writer) -> None:
    w.without(outputs={1: "inv_std_var"})
    attrs = {"epsilon": w.attr("epsilon", 1e-5), "axis": w.attr("axis", -1)}
    w.op("RMSNormalization", w.given(0), w.given(1), out=w.result(), **attrs)


def _embedded(w: _Writer) -> None:
    """EmbedLayerNormalization: the norm of the sum of embeddings of words, places and segments."""
    ids, segments, words, places, kinds, scale, shift, mask, given = map(w.given, range(9))
    if given:
        of_places = w.op("Gather", places, given, axis=0)
    else:
        of_places = w.op("Slice", places, w.array([0]), w.size(ids, 1), w.array([0]))
    of_kinds = w.op("Gather", kinds, segments, axis=0) if segments and kinds else ""
    total = w.added(w.op("Gather", words, ids, axis=0), of_places, of_kinds, out=w.result(2) if w.wants(2) else "")
    _normalized(w, total, False, scale, shift)
    if w.wants(1):
        # the number of words that the mask leaves, or 0 without one
        counted = mask or w.op("Mul", ids, w.array(0, np.int32))
        w.op("ReduceSum", counted, w.array([1]), out=w.result(1), keepdims=0)


# -- attention -------------------------------------------------------------------------------------------------------


def _key_mask(w: _Writer, index: int, total: str) -> str:
    """Returns the summand of the scores for a mask.

    It is of keys (B, T), of pairs (B, S, T), or in places: ends (B,), or all ends in front of all begins (2 B,).
    """
    mask, shape = w.given(index), w.shape(index)
    if len(shape) not in (1, 2, 3):
        raise w.refused(f"a mask of shape {shape}")
    if len(shape) == 1:
        batch, axes = w.shape(0)[0], [1, 2]
        both = batch is not None and shape[0] == 2 * batch
        if not both and None not in (shape[0], batch) and shape[0] != batch:
            raise w.refused(f"a mask of shape {shape} for {batch} sequences")
        places = w.op("Range", w.array(0), w.op("Squeeze", total, w.array([0])), w.array(1))
        limits = w.op("Unsqueeze", w.op("Cast", mask, to=_INT64), w.array([1]))
        ends, begins = (w.fresh("ends"), w.fresh("begins")) if both else (limits, "")
        if both:
            w.op("Split", limits, w.array([batch, batch]), out=[ends, begins], axis=0)
        seen = w.op("Less", places, ends)
        seen = w.op("And", seen, w.op("GreaterOrEqual", places, begins)) if both else seen
    else:
        seen = w.op("Cast", mask, to=_BOOL)
        axes = [1, 2] if len(shape) == 2 else [1]
    hidden = w.array(w.attr("mask_filter_value", -10000.0), w.kind)
    return w.op("Unsqueeze", w.op("Where", seen, w.array(0, w.kind), hidden), w.array(axes))


def _attended(
    w: _Writer, parts: Sequence[str], heads: int, summand: str, past: Sequence[str], presents: Sequence[str], out: str
) -> str:
    """Appends the standard Attention of queries, keys and values, with the past ones in front; 0 heads: split ones."""
    attrs: dict[str, Any] = {"q_num_heads": heads, "kv_num_heads": heads} if heads else {}
    if scale := w.attr("scale", 0.0):
        attrs["scale"] = scale
    outputs = [out, *presents]
    return w.op("Attention", *parts, summand, *past, out=outputs, is_causal=w.attr("unidirectional", 0), **attrs)


def _summand(w: _Writer, mask: int, bias: int, total: str) -> str:
    """Returns the summand of the scores: of a mask and a bias, the inputs of these indices; "" without both."""
    terms = [_key_mask(w, mask, total) if w.given(mask) else "", w.given(bias)]
    return w.added(*terms) if any(terms) else ""


def _attention(w: _Writer, source: str = "", weights: str = "") -> None:
    """Attention: queries, keys and values are products of one source with weights side by side."""
    w.only("do_rotary", 0)
    w.only("past_present_share_buffer", 0)
    w.without({6: "past_sequence_length"})
    source, weights = source or w.given(0), weights or w.given(1)
    heads, columns = int(w.attr("num_heads", 0)), w.shape(1)[-1]
    if columns is None:
        raise w.refused("weights of an unknown size")
    sizes = list(w.attr("qkv_hidden_sizes", ()) or [columns // 3] * 3)
    products = w.op("MatMul", source, weights)
    products = w.added(products, w.given(2))
    parts = [w.fresh(name) for name in ("queries", "keys", "values")]
    w.op("Split", products, w.array(sizes), out=parts, axis=-1)
    past, total = list[str](), w.size(parts[1], 1)
    if w.given(4):
        # keys and values of the past are one tensor, and so are those of the results
        past = [w.op("Gather", w.given(4), w.array(i), axis=0) for i in range(2)]
        total = w.op("Add", total, w.size(w.given(4), 3))
    presents = [w.fresh("present"), w.fresh("present")] if w.wants(1) else []
    _attended(w, parts, heads, _summand(w, 3, 5, total), past, presents, w.result())
    if presents:
        pair = [w.op("Unsqueeze", name, w.array([0])) for name in presents]
        w.op("Concat", *pair, out=w.result(1), axis=0)


def _multi_head(w: _Writer) -> None:
    """MultiHeadAttention: queries, keys and values (B, S, heads * size); keys and values also (B, heads, S, size)."""
    w.without({8: "past_sequence_length", 9: "cache_indirection"}, {3: "qk"})
    if not w.given(1) or not w.given(2) or w.rank(0) != 3:
        raise w.refused("queries, keys and values in one tensor")
    heads, sizes = int(w.attr("num_heads", 0)), [w.shape(i)[-1] for i in range(3)]
    parts = [w.given(i) for i in range(3)]
    split = w.rank(1) == 4
    if w.given(3):
        if split or None in sizes:
            raise w.refused("a bias of keys that are split into heads, or of unknown sizes")
        biases = [w.fresh("bias") for _ in parts]
        w.op("Split", w.given(3), w.array(sizes), out=biases, axis=0)
        parts = [w.op("Add", part, bias) for part, bias in zip(parts, biases, strict=True)]
    if split:
        # of all operands the same axes
        queries = w.op("Reshape", parts[0], w.array([0, 0, heads, -1]))
        parts[0] = w.op("Transpose", queries, perm=[0, 2, 1, 3])
    total = w.size(parts[1], 2 if split else 1)
    past = [w.given(6), w.given(7)] if w.given(6) else []
    if past:
        total = w.op("Add", total, w.size(past[0], 2))
    presents = [w.result(1), w.result(2)] if w.wants(1) or w.wants(2) else []
    summand = _summand(w, 4, 5, total)
    if not split:
        _attended(w, parts, heads, summand, past, presents, w.result())
    else:
        found = w.op("Transpose", _attended(w, parts, 0, summand, past, presents, ""), perm=[0, 2, 1, 3])
        w.op("Reshape", found, w.array([0, 0, -1]), out=w.result())


def _quantized_attention(w: _Writer) -> None:
    """QAttention: Attention of integers; its bias is in f32."""
    source = w.dequantized(w.given(0), w.given(3), w.given(6))
    weights = w.dequantized(w.given(1), w.given(4), w.given(7))
    inner = _Writer(
        OnnxNode(
            w.node.name, "Attention", "", "", _OPSET,
            (w.given(0), w.given(1), w.given(2), w.given(5), w.given(8)), w.node.outputs, w.node.attrs, w.node.source,
        ),
        {**w.tensors, w.given(0): Tensor(1, w.shape(0))}, w.fresh, w.nodes, w.arrays,
    )  # fmt: skip
    _attention(inner, source, weights)


def _rotated(w: _Writer) -> None:
    """RotaryEmbedding: places are one number that the first has, or one for each element."""
    w.only("is_packed_batching", 0)
    w.only("scale", 1.0)
    data, places, waves = w.given(0), w.given(1), w.shape(2)
    heads, turned = int(w.attr("num_heads", 0)), int(w.attr("rotary_embedding_dim", 0))
    if w.rank(0) == 3 and not heads:
        if waves[-1] is None or w.shape(0)[2] is None:
            raise w.refused("heads of unknown sizes")
        heads = int(w.shape(0)[2] or 0) // (2 * waves[-1])
    if w.rank(1) == 1:
        length = w.size(data, 1 if w.rank(0) == 3 else 2)
        steps = w.op("Range", w.array(0), w.op("Squeeze", length, w.array([0])), w.array(1))
        shape = w.op("Concat", w.size(data, 0), length, axis=0)
        places = w.op("Expand", w.op("Add", steps, places), shape)
    attrs = {"interleaved": w.attr("interleaved", 0), "num_heads": heads, "rotary_embedding_dim": turned}
    w.op("RotaryEmbedding", data, w.given(2), w.given(3), places, out=w.result(), **attrs)


# -- products of integers --------------------------------------------------------------------------------------------


def _dynamic_product(w: _Writer) -> None:
    """DynamicQuantizeMatMul: data are quantized by their range; a bias in f32."""
    parts = [w.fresh(name) for name in ("integers", "scale", "zero")]
    w.op("DynamicQuantizeLinear", w.given(0), out=parts)
    weights = w.dequantized(w.given(1), w.given(2), w.given(3), w.rank(1) - 1)
    _product(w, w.op("DequantizeLinear", *parts), weights, w.given(4))


def _integer_product(w: _Writer) -> None:
    """MatMulIntegerToFloat."""
    weights = w.dequantized(w.given(1), w.given(3), w.given(5), w.rank(1) - 1)
    _product(w, w.dequantized(w.given(0), w.given(2), w.given(4)), weights, w.given(6))


def _product(w: _Writer, data: str, weights: str, bias: str) -> None:
    product = w.op("MatMul", data, weights, out="" if bias else w.result())
    if bias:
        w.op("Add", product, bias, out=w.result())


def _narrow_product(w: _Writer) -> None:
    """MatMulNBits: weights (N, blocks, bytes) of 4 or 8 bits, with a scale and a zero point for each block."""
    w.without({4: "g_idx"})
    bits, block, depth, made = (int(w.attr(name, value)) for name, value in (
        ("bits", 4), ("block_size", 32), ("K", 0), ("N", 0),
    ))  # fmt: skip
    weights, scales, zeros = (w.tensors[w.given(i)].array if w.given(i) else None for i in (1, 2, 3))
    if bits not in (4, 8) or weights is None or scales is None or (w.given(3) and zeros is None):
        raise w.refused(f"bits={bits}, or weights that are computed")
    blocks = -(-depth // block)
    integers = _unpacked(weights, bits).reshape(made, blocks, -1)[..., :block].astype(np.float32)
    if zeros is None:
        shift: Any = np.float32(1 << (bits - 1))
    elif zeros.dtype == np.uint8:
        shift = _unpacked(zeros.reshape(made, -1), bits)[:, :blocks, None].astype(np.float32)
    else:
        shift = zeros.reshape(made, blocks, 1).astype(np.float32)
    floats = (integers - shift) * scales.reshape(made, blocks, 1).astype(np.float32)
    matrix = w.array(np.ascontiguousarray(floats.reshape(made, -1)[:, :depth].T), w.kind)
    _product(w, w.given(0), matrix, w.given(5))


def _unpacked(array: Array, bits: int) -> Array:
    """Returns integers of 4 bits, two in a byte, the lower first; those of 8 bits as they are."""
    if bits == 8:
        return array
    pairs = np.stack([array & 15, array >> 4], -1)
    return pairs.reshape(*array.shape[:-1], -1)


def _mean(w: _Writer) -> None:
    """QLinearGlobalAveragePool, also with channels after the spatial axes."""
    rank = w.rank(0)
    sums = w.dequantized(w.given(0), w.given(1), w.given(2))
    last = w.attr("channels_last", 0)
    axes = range(1, rank - 1) if last else range(2, rank)
    means = w.op("ReduceMean", sums, w.array(list(axes)), keepdims=1)
    w.op("QuantizeLinear", means, w.given(3), w.given(4), out=w.result())


def _where(w: _Writer) -> None:
    """QLinearWhere."""
    sources = [w.dequantized(w.given(i), w.given(i + 1), w.given(i + 2)) for i in (1, 4)]
    w.op("QuantizeLinear", w.op("Where", w.given(0), *sources), w.given(7), w.given(8), out=w.result())


_WRITERS: dict[tuple[str, str], Callable[[_Writer], None]] = {
    ("", "SimplifiedLayerNormalization"): _simplified_norm,
    **{
        (CONTRIBUTED, name): write
        for name, write in {
            "Attention": _attention,
            "BiasGelu": _gelu,
            "DynamicQuantizeMatMul": _dynamic_product,
            "EmbedLayerNormalization": _embedded,
            "FastGelu": _gelu,
            "FusedConv": _fused_conv,
            "FusedGemm": _fused_gemm,
            "FusedMatMul": _fused_matmul,
            "Gelu": _gelu,
            "MatMulIntegerToFloat": _integer_product,
            "MatMulNBits": _narrow_product,
            "MultiHeadAttention": _multi_head,
            "QAttention": _quantized_attention,
            "QLinearGlobalAveragePool": _mean,
            "QLinearWhere": _where,
            "QuickGelu": _quick_gelu,
            "RotaryEmbedding": _rotated,
            "SkipLayerNormalization": _skip_norm,
            "SkipSimplifiedLayerNormalization": _skip_norm,
        }.items()
    },
}


def is_contributed(node: OnnxNode) -> bool:
    """Whether standard operators replace a node."""
    return (node.domain, node.op_type) in _WRITERS or (node.domain == CONTRIBUTED and has_scales(node))


def replaced(
    node: OnnxNode, tensors: Mapping[str, Tensor], fresh: Callable[[str], str]
) -> tuple[list[OnnxNode], dict[str, Array]]:
    """Returns the standard nodes that replace a node of known ranks, and the arrays that these read.

    Raises:
        UnsupportedError: a feature of the operator that no standard operator has.
    """
    write = _WRITERS.get((node.domain, node.op_type))
    if write is None:
        arrays = {name: array for name in node.reads if (array := tensors[name].array) is not None}
        return apart(node, arrays, _OPSET, fresh)
    w = _Writer(node, tensors, fresh)
    write(w)
    return w.nodes, w.arrays
