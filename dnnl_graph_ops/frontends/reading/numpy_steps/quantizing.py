"""Quantized tensors whose scales, zero points or types no graph takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from .... import dtypes
from ...._core import kernels
from ....algorithms import integers
from ....convolution.nodes import make_problem
from ....convolution.problem import ConvProblem
from ....convolution.quantization import Quantization
from ....errors import ShapeError
from ....program.program import Place, Program, View, argument
from ....strides import dense_strides
from ..node import Array, OnnxNode
from ..types import TYPES
from . import sizes
from .common import Described, FindOwn, Own, axis_of, dtype_of, item, views_of
from .pooling import Windows, convolved, window_size, windows
from .table import computes


def _spread(node: OnnxNode, array: Array, data: Array) -> Array:
    """Scales or zero points over the data: one, one for each place on an axis, or one for each block of it."""
    if array.size == 1:
        return array.reshape(())
    axis, block = axis_of(node, data.ndim, 1), int(node.attrs.get("block_size", 0))
    if block:
        wide = np.repeat(array, block, axis)
        return np.take(wide, range(data.shape[axis]), axis)
    if array.shape != (data.shape[axis],):
        raise ShapeError(f"{node.where}: scales or zero points of shape {array.shape} for axis {axis} of {data.shape}")
    return array.reshape(-1, *(1,) * (data.ndim - 1 - axis))


def rounded(values: Array, zero: Array, kind: np.dtype[Any]) -> Array:
    """To integers of a type, as near as that has them, ties to even."""
    limits = np.iinfo(kind)
    return np.clip(np.rint(values) + zero, limits.min, limits.max).astype(kind)


@computes("QuantizeLinear")
def _quantized(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, scale, zero = inputs[0], inputs[1], item(inputs, 2)
    code = node.attrs.get("output_dtype", 0)
    kind = zero.dtype if zero is not None else TYPES[code or 2]
    shift = np.zeros((), np.int64) if zero is None else _spread(node, zero, data).astype(np.int64)
    # in 32 bits, where it decides what a tie is
    return rounded(data.astype(np.float32) / _spread(node, scale, data).astype(np.float32), shift, kind)


@computes("DequantizeLinear")
def _dequantized(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    data, scale, zero = inputs[0].astype(np.float64), inputs[1], item(inputs, 2)
    shift = 0 if zero is None else _spread(node, zero, data).astype(np.float64)
    return ((data - shift) * _spread(node, scale, data).astype(np.float64)).astype(scale.dtype)


@computes("DynamicQuantizeLinear")
def _ranged(node: OnnxNode, inputs: Sequence[Any]) -> tuple[Array, Array, Array]:
    """To bytes over the range of the data and zero; with scale and zero point."""
    (data,) = inputs
    low, high = (float(best(data, initial=0)) for best in (np.min, np.max))
    scale = np.float32((high - low) / 255)
    zero = rounded(np.asarray(-low / scale if scale else 0.0), np.asarray(0), np.dtype(np.uint8))
    return (
        rounded(data / scale if scale else data * 0, zero.astype(np.int64), np.dtype(np.uint8)),
        np.asarray(scale),
        zero,
    )


def _shift(zero: Array | None, sides: tuple[int, ...]) -> Array:
    """A zero point next to other axes: one, or one for each row or channel."""
    if zero is None or zero.size == 1:
        return np.zeros((), np.int64) if zero is None else zero.astype(np.int64).reshape(())
    return zero.astype(np.int64).reshape(-1, *sides) if zero.ndim == 1 else zero.astype(np.int64)


@computes("MatMulInteger", size=sizes.product)
def _product(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    a, b = (one.astype(np.float64) for one in inputs[:2])
    return (a - _shift(item(inputs, 2), (1,))) @ (b - _shift(item(inputs, 3), ()))


@computes("QLinearMatMul", size=sizes.product)
def _quantized_product(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = inputs
    left = a_scale.astype(np.float64)
    left = left.reshape(-1, 1) if left.ndim == 1 and left.size > 1 else left
    factor = left * b_scale.astype(np.float64) / scale.astype(np.float64)
    return rounded(_product(node, (a, b, a_zero, b_zero)) * factor, _shift(zero, (1,)), zero.dtype)


@computes("ConvInteger", size=window_size)
def _integers(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    x, w = (one.astype(np.float64) for one in inputs[:2])
    sides = (1,) * (w.ndim - 1)
    return convolved(node, x - _shift(item(inputs, 2), ()), w - _shift(item(inputs, 3), sides))


@computes("QLinearConv")
def _quantized_convolution(node: OnnxNode, inputs: Sequence[Any]) -> Array:
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = inputs[:8]
    total, bias, sides = _integers(node, (x, w, x_zero, w_zero)), item(inputs, 8), (1,) * (w.ndim - 2)
    total = total if bias is None else total + bias.astype(np.float64).reshape(-1, *sides)
    each = w_scale.astype(np.float64)
    each = each.reshape(-1, *sides) if each.size > 1 else each
    factor = x_scale.astype(np.float64) * each / scale.astype(np.float64)
    return rounded(total * factor, _shift(zero, ()), zero.dtype)


def _sums(node: OnnxNode, inputs: Sequence[Any]) -> Own | None:
    """Returns kernels for MatMulInteger and ConvInteger: src by constant weights, of a matrix or a convolution."""
    x, w, x_zero, w_zero = (item(inputs, i) for i in range(4))
    is_product = node.op_type == "MatMulInteger"
    if not kernels.int8_isa()[0] or not isinstance(x, Described) or not isinstance(w, np.ndarray):
        return None
    if isinstance(w_zero, Described) or 0 in (*x.shape, *w.shape) or (w.ndim != 2 if is_product else w.ndim < 3):
        return None
    zeros = [0] if w_zero is None else w_zero.reshape(-1).tolist()
    made, groups = w.shape[-1 if is_product else 0], int(node.attrs.get("group", 1))
    if len(zeros) not in (1, made) or (x_zero is not None and (prod(x_zero.shape) != 1 or dtype_of(x_zero) != x.dtype)):
        return None
    formats: dict[str, Any]
    shape: tuple[int, ...]
    result: tuple[int, ...]
    if is_product:
        # rows by a convolution of one tap
        axes = Windows((1,), (1,), (1,), (0,), (0,), (0,), (1,))
        shape, result = ((1, prod(x.shape[:-1]), size) for size in (x.shape[-1], made))
        w, formats = w[None], {"data_format": "NXC", "weights_format": "XIO"}
    elif groups < 1 or made % groups or x.shape[1] != groups * w.shape[1]:
        return None
    else:
        axes = windows(node, x.shape[2:], w.shape[2:])
        shape, result = x.shape, (x.shape[0], made, *axes.counts)
        formats = {"data_format": "NCX", "weights_format": "OIX"}
    attrs = formats | {
        "groups": groups, "strides": axes.strides, "dilations": axes.dilations, "auto_pad": "None",
        "pads_begin": axes.before, "pads_end": axes.after,
    }  # fmt: skip

    def problem_of(src: View, weights: View, dst: View, zero: Sequence[View] = ()) -> ConvProblem:
        src, dst = (
            replace(view, shape=sizes, strides=dense_strides(sizes)) for view, sizes in ((src, shape), (dst, result))
        )
        problem = make_problem("Convolution", attrs, [src, weights], dst, where=node.where)
        return replace(problem, quantization=Quantization(weights_zeros=tuple(zeros), zero=tuple(zero)))

    def some(shape: tuple[int, ...], dtype: str) -> View:
        return argument(Place.SCRATCH, dtype, shape, dense_strides(shape))

    if not integers.fits(problem_of(some(shape, x.dtype), some(w.shape, dtypes.label(w.dtype)), some(result, "s32"))):
        return None

    def build(program: Program, reads: Sequence[View], writes: Sequence[View]) -> None:
        src, weights, *zero = views_of(program, [x, w, *([] if x_zero is None else [x_zero])], reads)
        integers.append_sums(program, problem_of(src, weights, writes[0], zero))

    return build


NATIVE: dict[str, FindOwn] = {"ConvInteger": _sums, "MatMulInteger": _sums}
