"""Builds convolutions, matrix products and pooling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ....errors import ShapeError, UnsupportedError
from ....graph import Value
from ....shapes import Meta
from ....words import counted
from ..faults import NeedsSizes
from ..node import Operand
from ..numpy_steps.convolving import transposed_pads
from ..step import Step
from ..table import integer, ints, number, rule, text

PADS = ("NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID")
_WINDOW: dict[str, Any] = {
    "auto_pad": text("NOTSET", *PADS),
    "kernel_shape": ints(),
    "strides": ints(),
    "pads": ints(),
    "dilations": ints(),
}


def _per_axis(step: Step, name: str, rank: int, default: int, each: int = 1) -> list[int]:
    values = step.attr(name) or [default] * rank * each
    if len(values) != rank * each:
        wanted = f"{counted(rank, 'spatial axis')} need {rank * each}"
        raise ShapeError(f"{step.where}: {name}={values[:8]} has {counted(len(values), 'value')}, {wanted}")
    return list(values)


def _pads(step: Step, rank: int) -> tuple[list[int], list[int]]:
    values = _per_axis(step, "pads", rank, 0, 2)
    if min(values, default=0) < 0:
        raise UnsupportedError(f"{step.where}: negative pads {values}")
    return values[:rank], values[rank:]


def _spatial_rank(step: Step, src: Value) -> int:
    if not 3 <= src.ndim <= 5:
        raise UnsupportedError(f"{step.where}: {src.ndim - 2} spatial axes, only 1 to 3")
    return src.ndim - 2


def _check_kernel(step: Step, weights: Value) -> None:
    stated = step.attr("kernel_shape")
    if stated and stated != step.sizes(weights.shape[2:], "weights"):
        raise ShapeError(f"{step.where}: kernel_shape={stated[:8]}, but the weights have shape {weights.shape}")


def _window(step: Step, rank: int) -> dict[str, Any]:
    begin, end = _pads(step, rank)
    # oneDNN's SAME_* is ONNX's here: out = ceil(in / stride)
    mode = step.attr("auto_pad")
    return {
        "strides": _per_axis(step, "strides", rank, 1),
        "pads_begin": begin,
        "pads_end": end,
        "auto_pad": "None" if mode == "NOTSET" else mode,
        "data_format": "NCX",
    }


def _is_constant(operand: Operand) -> bool:
    return isinstance(operand, Value) and operand.constant is not None


# from and up to this number of one-channel images, they are convolved as channels of one image
_FILTERED = range(8, 4097)


def _open(channels: Callable[[Step], int | None]) -> Callable[[Step], Meta]:
    """Returns a `late` function: the result has `channels(step)` channels and dynamic spatial sizes."""

    def late(step: Step) -> Meta:
        src = step.meta(0)
        return Meta((src.shape[0], channels(step), *(None,) * (len(src.shape) - 2)), src.dtype)

    return late


@rule("Conv", inputs=(2, 3), late=_open(lambda step: step.meta(1).shape[0]), group=integer(1), **_WINDOW)
def conv(step: Step) -> Value:
    values = [step.value(i) for i in range(3) if step.has(i)]
    operands: list[Operand] = [*values]
    src, weights = values[:2]
    rank, groups = _spatial_rank(step, src), step.attr("group")
    _check_kernel(step, weights)
    images = src.shape[0]
    alone = None not in src.shape and src.shape[1] == weights.shape[0] == weights.shape[1] == 1
    if images is not None and images in _FILTERED and alone and all(_is_constant(one) for one in operands[1:]):
        # one filter for many images, as in upfirdn: a depthwise convolution
        groups = images
        operands = [step.reshape(src, (1, images, *src.shape[2:]))]
        operands += [np.repeat(step.array(i, "a filter"), images, 0) for i in range(1, step.count) if step.has(i)]
    made = step.op(
        "Convolution",
        *operands,
        **_window(step, rank),
        dilations=_per_axis(step, "dilations", rank, 1),
        groups=groups,
        weights_format="OIX",
    )
    return made if operands[0] is src else step.reshape(made, (images, 1, *made.shape[2:]))


@rule(
    "ConvTranspose",
    inputs=(2, 3),
    late=_open(lambda step: step.product((step.meta(1).shape[1], step.attr("group")))),
    group=integer(1),
    output_padding=ints(),
    output_shape=ints(),
    **_WINDOW,
)
def conv_transpose(step: Step) -> Value:
    operands = [step.value(i) for i in range(3) if step.has(i)]
    src, weights = operands[:2]
    rank = _spatial_rank(step, src)
    _check_kernel(step, weights)
    spread = {
        "strides": _per_axis(step, "strides", rank, 1),
        "dilations": _per_axis(step, "dilations", rank, 1),
        "output_padding": _per_axis(step, "output_padding", rank, 0),
    }
    pads = _transposed_pads(step, src, weights, **spread)
    named = {"groups": step.attr("group"), "data_format": "NCX", "weights_format": "IOX"}
    zeros = [[max(-pad, 0) for pad in pads[name]] for name in ("pads_begin", "pads_end")]
    if not any(map(any, zeros)):
        return step.conv_transpose(operands, {**spread, **pads, **named})
    # negative pads are zeros around the sums, before the bias is added
    pads = {name: [max(pad, 0) for pad in each] for name, each in pads.items()}
    sums = step.conv_transpose(operands[:2], {**spread, **pads, **named})
    begin, end = ([0, 0, *each] for each in zeros)
    sums = step.op("Pad", sums, pads_begin=begin, pads_end=end, mode="constant", value=0.0)
    bias = step.reshape(operands[2], (1, -1, *(1,) * rank)) if len(operands) > 2 else None
    return sums if bias is None else step.op("Add", sums, bias)


def _transposed_pads(
    step: Step,
    src: Value,
    weights: Value,
    strides: list[int],
    dilations: list[int],
    output_padding: list[int],
) -> dict[str, list[int]]:
    """Returns the pads of a ConvTranspose by ONNX's meaning."""
    rank, mode, wanted = src.ndim - 2, step.attr("auto_pad"), step.attr("output_shape")
    if wanted and len(wanted) == rank + 2:
        # older files state the sizes of all axes
        wanted = wanted[2:]
    if wanted and len(wanted) != rank:
        raise ShapeError(
            f"{step.where}: output_shape={wanted[:8]} has {counted(len(wanted), 'value')} for "
            f"{counted(rank, 'spatial axis')}"
        )
    if not wanted and mode in ("NOTSET", "VALID"):
        begin, end = _pads(step, rank) if mode == "NOTSET" else ([0] * rank, [0] * rank)
        return {"pads_begin": begin, "pads_end": end}
    kernel = step.sizes(weights.shape, "weights")[2:]
    sizes = step.sizes(src.shape[2:], "an image") if wanted else []
    begin, end, extra = transposed_pads(mode, wanted or (), sizes, kernel, strides, dilations, output_padding)
    return {"pads_begin": begin, "pads_end": end, "output_padding": extra}


@rule("MatMul", inputs=2)
def matmul(step: Step) -> Value:
    return step.op("MatMul", step.value(0), step.value(1))


@rule(
    "Gemm",
    inputs=(2, 3),
    alpha=number(1.0),
    beta=number(1.0),
    transA=integer(0),
    transB=integer(0),
    broadcast=integer(1, 0, 1),
)
def gemm(step: Step) -> Value:
    """Gemm. Before opset 7 an attribute states whether C broadcasts; since then it does if needed."""
    a, b = step.value(0), step.value(1)
    for value in (a, b):
        if value.ndim != 2:
            raise ShapeError(f"{step.where}: an operand of shape {value.shape}; both must be matrices")
    alpha, beta = step.attr("alpha"), step.attr("beta")
    flags: dict[str, Any] = {f"transpose_{one.lower()}": bool(step.attr(f"trans{one}")) for one in "AB"}
    bias = step.value(2) if step.has(2) else None
    columns = (b.shape[0 if flags["transpose_b"] else 1],)
    if bias is not None and alpha == beta == 1.0 and bias.shape == columns and bias.constant is not None:
        return step.op("MatMul", a, b, bias, **flags)
    result = step.op("MatMul", a, b, **flags)
    if alpha != 1.0:
        result = step.op("Multiply", result, step.full(alpha, result))
    if bias is not None and beta != 1.0:
        bias = step.op("Multiply", bias, step.full(beta, bias))
    return result if bias is None else step.op("Add", result, bias)


def _pool(step: Step, kind: str, **more: Any) -> Value:
    """Pooling. ONNX drops a last window that starts in the padding at the end, oneDNN does not."""
    src = step.value(0)
    rank, kernel = _spatial_rank(step, src), step.attr("kernel_shape")
    if not kernel or len(kernel) != rank:
        raise ShapeError(f"{step.where}: kernel_shape={kernel} for {counted(rank, 'spatial axis')}")
    attrs, rounding = _window(step, rank), "ceil" if step.attr("ceil_mode") else "floor"
    if rounding == "ceil":
        dropped = _last_dropped(step, src.shape[2:], kernel, attrs, more.get("dilations", [1] * rank))
        if dropped and (attrs["auto_pad"] in ("SAME_UPPER", "SAME_LOWER") or not more.get("exclude_pad", True)):
            raise UnsupportedError(f"{step.where}: ceil_mode with a last window beyond the data of {src.shape}")
        if dropped:
            attrs["pads_end"], attrs["auto_pad"], rounding = dropped, "None", "floor"
    return step.op(kind, src, **attrs, kernel=kernel, rounding_type=rounding, **more)


def _last_dropped(
    step: Step, sizes: Sequence[int | None], kernel: list[int], attrs: Mapping[str, Any], dilations: list[int]
) -> list[int]:
    """Returns the pads with which floor gives ONNX's windows; empty if ceil gives them, too."""
    ends, dropped = [], False
    for axis, size in enumerate(sizes):
        stride, begin, end = (attrs[name][axis] for name in ("strides", "pads_begin", "pads_end"))
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        if size is None:
            dropped |= end + stride > reach
            continue
        last = -(-(size + begin + end - reach) // max(stride, 1))
        dropped |= last > 0 and last * stride >= size + begin
        last -= last > 0 and last * stride >= size + begin
        ends.append(last * stride + reach - size - begin)
    if dropped and len(ends) < len(sizes):
        raise NeedsSizes(f"{step.where}: ceil_mode with a last window that may lie beyond the data")
    return ends if dropped else []


_pooled = _open(lambda step: step.meta(0).shape[1])


@rule("MaxPool", late=_pooled, ceil_mode=integer(0, 0, 1), storage_order=integer(0), **_WINDOW)
def max_pool(step: Step) -> Value:
    return _pool(step, "MaxPool", dilations=_per_axis(step, "dilations", _spatial_rank(step, step.value(0)), 1))


@rule("AveragePool", late=_pooled, ceil_mode=integer(0, 0, 1), count_include_pad=integer(0, 0, 1), **_WINDOW)
def average_pool(step: Step) -> Value:
    if any(item != 1 for item in _per_axis(step, "dilations", _spatial_rank(step, step.value(0)), 1)):
        raise UnsupportedError(f"{step.where}: dilations={step.attr('dilations')} of an average")
    return _pool(step, "AvgPool", exclude_pad=not step.attr("count_include_pad"))


@rule("GlobalAveragePool", "GlobalMaxPool")
def global_pool(step: Step) -> Value:
    src = step.value(0)
    kind = "ReduceMean" if step.node.op_type == "GlobalAveragePool" else "ReduceMax"
    return step.op(kind, src, axes=list(range(2, src.ndim)), keep_dims=True)


@rule("GlobalLpPool", p=integer(2))
def global_norm(step: Step) -> Value:
    """GlobalLpPool: the p-norm of each channel."""
    src, power = step.value(0), step.attr("p")
    axes: dict[str, Any] = {"axes": list(range(2, src.ndim)), "keep_dims": True}
    if power < 1:
        raise UnsupportedError(f"{step.where}: p={power}, only above 0")
    if power < 3:
        return step.op(f"ReduceL{power}", src, **axes)
    powers = step.op("Pow", step.op("Abs", step.widened(src)), beta=float(power))
    norm = step.op("Pow", step.op("ReduceSum", powers, **axes), beta=1 / power)
    return norm if src.dtype == "f32" else step.op("TypeCast", norm, dtype=src.dtype)
