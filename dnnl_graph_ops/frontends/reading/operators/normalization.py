"""Builds batch, layer, instance and group normalization."""

from __future__ import annotations

import math

import numpy as np

from .... import dtypes
from ....errors import ShapeError, UnsupportedError
from ....graph import Value
from ....shapes import Meta
from ....words import counted
from ..faults import NeedsSizes
from ..node import Array, Operand
from ..step import Step
from ..table import first, integer, ints, number, rule

# scale and shift are expanded to one element per position
_MAX_AFFINE = 1 << 24
# dtypes of GroupNorm
_MOST_AXES = 5


def _statistics(step: Step, index: int) -> Operand:
    """Returns scale, shift, mean and variance in f32: oneDNN takes no f16 here."""
    operand = step.operand(index)
    if isinstance(operand, Value) or operand.dtype != np.float16:
        return step.value(index)
    return _in_32_bits(step, operand)


def _in_32_bits(step: Step, operand: Operand) -> Operand:
    if isinstance(operand, Value):
        return step.widened(operand) if operand.dtype == "f16" else operand
    return operand.astype(np.float32) if operand.dtype == np.float16 else operand


@rule(
    "BatchNormalization",
    inputs=5,
    outputs=3,
    epsilon=number(1e-5),
    momentum=number(0.9),
    training_mode=integer(0, 0, 1),
    spatial=integer(1, 1),
)
def batch_normalization(step: Step) -> Value | tuple[Value, ...]:
    src = step.value(0)
    if step.attr("training_mode"):
        return _by_batch(step, src)
    known = [step.operand(i) for i in range(1, 5)]
    arrays = [item for item in known if not isinstance(item, Value)]
    is_conv = src.node is not None and src.node.kind in ("ConvTranspose", "Convolution")
    if is_conv and src.shape[1] is not None and len(arrays) == 4:
        return _as_post_ops(step, src, *arrays)
    return step.op(
        "BatchNormInference",
        src,
        *(_statistics(step, i) for i in range(1, 5)),
        epsilon=float(step.attr("epsilon")),
        data_format="NCX",
    )


def _by_batch(step: Step, src: Value) -> tuple[Value, ...]:
    """Builds batch normalization by the batch's statistics, as of standardized weights, and the running statistics."""
    operands = [step.value(i) for i in range(1, 5)]
    channels = src.shape[1] if src.ndim > 1 else None
    if channels is None or any(value.dtype != "f32" for value in (src, *operands)):
        raise UnsupportedError(f"{step.where}: by the batch, of {src.dtype} or an unknown number of channels")
    axes = [0, *range(2, src.ndim)]
    mean = step.op("ReduceMean", src, axes=axes, keep_dims=True)
    apart = step.op("Subtract", src, mean)
    variance = step.op("ReduceMean", step.op("Square", apart), axes=axes, keep_dims=True)
    scale, shift = (step.reshape(value, (1, channels, *(1,) * (src.ndim - 2))) for value in operands[:2])
    result = step.op("Divide", apart, _deviation(step, variance))
    results = [step.op("Add", step.op("Multiply", result, scale), shift)]
    momentum = float(step.attr("momentum"))
    for old, new in zip(operands[2:], (mean, variance), strict=True):
        kept = step.op("Multiply", old, step.full(momentum, old))
        fresh = step.reshape(new, (channels,))
        results.append(step.op("Add", kept, step.op("Multiply", fresh, step.full(1 - momentum, fresh))))
    return tuple(results[: len(step.node.outputs)])


def _as_post_ops(step: Step, src: Value, gamma: Array, beta: Array, mean: Array, variance: Array) -> Value:
    """Builds a multiplication and an addition, which oneDNN fuses after a convolution."""
    # checked before arithmetic, which would broadcast
    for array in (gamma, beta, mean, variance):
        if array.shape != (src.shape[1],):
            raise ShapeError(f"{step.where}: statistics of shape {array.shape} for {counted(src.shape[1], 'channel')}")
        step.spend(array)
    scale = gamma.astype(np.float64) / np.sqrt(variance.astype(np.float64) + step.attr("epsilon"))
    shift = beta.astype(np.float64) - mean.astype(np.float64) * scale
    result, dtype = src, dtypes.numpy_dtype(src.dtype)
    for kind, each in (("Multiply", scale), ("Add", shift)):
        result = step.op(kind, result, each.astype(dtype).reshape(1, -1, *(1,) * (src.ndim - 2)))
    return result


def _like_first(step: Step) -> list[Meta]:
    """Returns the result of layer normalization, and for each layer the mean and 1 / standard deviation."""
    src = step.meta(0)
    axis = step.axis(step.attr("axis"), len(src.shape))
    layers = Meta((*src.shape[:axis], *(1,) * (len(src.shape) - axis)), "f32")
    return [src, layers, layers][: len(step.node.outputs)]


@rule(
    "LayerNormalization",
    inputs=(2, 3),
    outputs=3,
    late=_like_first,
    axis=integer(-1),
    epsilon=number(1e-5),
    stash_type=integer(1, 1),
)
def layer_normalization(step: Step) -> tuple[Value, ...]:
    src = step.value(0)
    axis = step.axis(step.attr("axis"), src.ndim)
    inner, epsilon = step.product(src.shape[axis:]), float(step.attr("epsilon"))
    if inner is None or inner > _MAX_AFFINE:
        kind = NeedsSizes if inner is None else UnsupportedError
        raise kind(f"{step.where}: over unknown or very large sizes, {src.shape} from axis {axis} on")
    # the op needs an axis before the normalised ones
    flat = src if 0 < axis == src.ndim - 1 else step.reshape(src, (*(src.shape[:axis] or (1,)), inner))
    scale = _affine(step, 1, src.shape[axis:])
    shift = _affine(step, 2, src.shape[axis:]) if step.has(2) else np.zeros(inner, np.float32)
    result = step.op(
        "LayerNorm", flat, scale, shift, keep_stats=False, use_affine=True, begin_norm_axis=-1, epsilon=epsilon
    )
    result = result if flat is src else step.reshape(result, src.shape)
    if not any(step.node.outputs[1:]):
        return (result,)
    axes = list(range(axis, src.ndim))
    wide = step.widened(src)
    mean = step.op("ReduceMean", wide, axes=axes, keep_dims=True)
    variance = step.op("ReduceMean", step.op("SquaredDifference", wide, mean), axes=axes, keep_dims=True)
    return result, mean, step.op("Reciprocal", _deviation(step, variance))


def _deviation(step: Step, variance: Value) -> Value:
    return step.op("Sqrt", step.op("Add", variance, step.full(float(step.attr("epsilon")), variance)))


@rule("RMSNormalization", inputs=2, late=first, axis=integer(-1), epsilon=number(1e-5), stash_type=integer(1, 1))
def rms_normalization(step: Step) -> Value:
    src, scale = step.value(0), step.value(1)
    axis = step.axis(step.attr("axis"), src.ndim)
    if axis == src.ndim - 1 and src.dtype == scale.dtype == "f32" and scale.shape == src.shape[-1:] and src.ndim > 1:
        return step.op("RMSNorm", src, scale, begin_norm_axis=-1, epsilon=float(step.attr("epsilon")))
    # as several ops that have kernels
    wide = step.widened(src)
    mean = step.op("ReduceMean", step.op("Square", wide), axes=list(range(axis, src.ndim)), keep_dims=True)
    made = step.op("Divide", wide, _deviation(step, mean))
    return step.op("Multiply", step.rounded(made, src.dtype), scale)


@rule("MeanVarianceNormalization", late=first, axes=ints(0, 2, 3))
def mean_variance_normalization(step: Step) -> Value:
    given = step.value(0)
    src, axes = step.widened(given), [step.axis(axis, given.ndim) for axis in step.attr("axes")]
    apart = step.op("Subtract", src, step.op("ReduceMean", src, axes=axes, keep_dims=True))
    deviation = step.op("Sqrt", step.op("ReduceMean", step.op("Square", apart), axes=axes, keep_dims=True))
    made = step.op("Divide", apart, step.op("Add", deviation, step.full(1e-9, deviation)))
    return step.rounded(made, given.dtype)


def _affine(step: Step, index: int, shape: tuple[int | None, ...]) -> Operand:
    """Returns scale or shift of a layer as one axis."""
    found = step.operand(index)
    if isinstance(found, Value) and not found.is_constant:
        if found.shape != tuple(shape):
            raise UnsupportedError(f"{step.where}: scale or shift of shape {found.shape} for {shape}")
        return _in_32_bits(step, step.reshape(found, (step.product(shape),)))
    array = step.array(index, "scale and shift")
    wide = np.broadcast_to(array, shape) if array.ndim <= len(shape) else array  # type: ignore[arg-type]
    if wide.shape != tuple(shape):
        raise ShapeError(f"{step.where}: scale or shift of shape {array.shape} for {shape}")
    return _in_32_bits(step, np.ascontiguousarray(wide).reshape(-1))


def _grouped(step: Step, groups: int | None, per_group: bool) -> Value:
    """Normalizes over a group's channels and space, then scales and shifts each channel."""
    src = step.value(0)
    if src.ndim < 3 or src.shape[1] is None or src.shape[1] > _MAX_AFFINE:
        kind = NeedsSizes if src.ndim > 2 and src.shape[1] is None else UnsupportedError
        raise kind(f"{step.where}: needs (N, C, spatial...) with known, moderate C, got {src.shape}")
    channels = src.shape[1]
    count = channels if groups is None else groups
    if count < 1 or channels % count:
        raise ShapeError(f"{step.where}: {counted(channels, 'channel')} in {counted(count, 'group')}")
    affine: list[Operand] = []
    each: Operand
    for index in (1, 2):
        found, wanted = step.operand(index), count if per_group else channels
        if isinstance(found, Value):
            step.sizes(found.shape, "scale or shift")
        if isinstance(found, Value) and not found.is_constant and found.shape == (wanted,):
            each = step.op("Gather", found, np.arange(channels) * count // channels, axis=0) if per_group else found
        else:
            array = step.array(index, "scale and shift").reshape(-1)
            if array.size != wanted:
                raise ShapeError(
                    f"{step.where}: scale or shift has {counted(array.size, 'element')}, needed are {wanted}"
                )
            each = np.repeat(array, channels // count) if per_group else array
        affine.append(_in_32_bits(step, each))
    flat = src
    if src.ndim > _MOST_AXES:
        space = math.prod(step.sizes(src.shape[2:], "space of more than three axes"))
        flat = step.reshape(src, (*src.shape[:2], space))
    result = step.op(
        "GroupNorm",
        flat,
        *affine,
        groups=count,
        keep_stats=False,
        use_affine=True,
        epsilon=float(step.attr("epsilon")),
        data_format="NCX",
    )
    return result if flat is src else step.reshape(result, src.shape)


rule("InstanceNormalization", inputs=3, late=first, epsilon=number(1e-5))(lambda step: _grouped(step, None, False))


@rule(
    "GroupNormalization", inputs=3, late=first, epsilon=number(1e-5), num_groups=integer(None), stash_type=integer(1, 1)
)
def group_normalization(step: Step) -> Value:
    groups = step.attr("num_groups")
    if groups is None:
        raise ShapeError(f"{step.where}: 'num_groups' is missing")
    # until opset 20 scale and shift were per group
    return _grouped(step, groups, step.node.opset < 21)
