"""Builds Reshape, Transpose, Concat and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes

from .... import dtypes
from ....errors import ShapeError, UnsupportedError
from ....graph import Value
from ....graph.json_format import MAX_NDIM
from ....shapes import Meta
from ....words import counted
from ..faults import NeedsSizes
from ..node import Operand
from ..step import Step
from ..table import ANY, integer, ints, rule, text


def _reshaped(step: Step) -> Meta:
    src, wanted = step.meta(0), step.partly(1, "the shape")
    copies = not step.attr("allowzero")
    dims = [
        (*src.shape, *(None,) * MAX_NDIM)[axis] if dim == 0 and copies else None if dim == -1 else dim
        for axis, dim in enumerate(wanted)
    ]
    return Meta(tuple(dims), src.dtype)


@rule("Reshape", inputs=2, allowzero=integer(0, 0, 1), late=_reshaped)
def reshape(step: Step) -> Value:
    src, wanted = step.value(0), step.integers(1, "the shape")
    dims: list[int | None] = [*wanted]
    for axis, dim in enumerate(wanted):
        if dim == 0 and not step.attr("allowzero"):
            if axis >= src.ndim:
                raise ShapeError(f"{step.where}: shape {wanted} copies axis {axis} of a tensor of shape {src.shape}")
            dims[axis] = src.shape[axis]
    if -1 in dims and None not in dims and None not in src.shape:
        rest = step.product([dim for dim in dims if dim != -1])
        total = step.product(src.shape)
        if not rest or total is None or total % rest:
            raise ShapeError(f"{step.where}: shape {wanted} does not fit the elements of {src.shape}")
        dims[dims.index(-1)] = total // rest
    return step.reshape(src, dims)


def _flattened(step: Step) -> Meta:
    src, axis = step.meta(0), step.attr("axis")
    rank = len(src.shape)
    if not -rank <= axis <= rank:
        raise ShapeError(f"{step.where}: axis {axis} is outside of a tensor with {counted(rank, 'axis')}")
    axis = axis + rank if axis < 0 else axis
    return Meta((step.product(src.shape[:axis]), step.product(src.shape[axis:])), src.dtype)


@rule("Flatten", axis=integer(1), late=_flattened)
def flatten(step: Step) -> Value:
    src, axis = step.value(0), step.attr("axis")
    # an unknown size of axis 0 stays unknown; another one is derived (-1)
    dims = [-1 if dim is None else dim for dim in _flattened(step).shape]
    return step.reshape(src, [src.shape[0], *dims[1:]] if src.ndim > 1 and axis in (1, 1 - src.ndim) else dims)


def _squeezed(step: Step) -> Meta:
    src, given = step.meta(0), step.listed(1, "axes")
    if not given:
        if None in src.shape:
            raise UnsupportedError(f"{step.where}: without axes, of a tensor with unknown dims {src.shape}")
        axes = {axis for axis, dim in enumerate(src.shape) if dim == 1}
    else:
        axes = {step.axis(axis, len(src.shape)) for axis in given}
    wrong = [axis for axis in axes if src.shape[axis] not in (1, None)]
    if wrong:
        raise ShapeError(f"{step.where}: axis {wrong[0]} of {src.shape} is not 1")
    return Meta(tuple(dim for axis, dim in enumerate(src.shape) if axis not in axes), src.dtype)


@rule("Squeeze", inputs=(1, 2), axes=ints(), late=_squeezed)
def squeeze(step: Step) -> Value:
    src, given = step.value(0), step.listed(1, "axes") or ()
    if any(src.shape[step.axis(axis, src.ndim)] is None for axis in given):
        # a reshape does not tell which unknown sizes belong to the axes after
        raise NeedsSizes(f"{step.where}: an axis of unknown size, of {src.shape}")
    return step.reshape(src, _squeezed(step).shape)


def _unsqueezed(step: Step) -> Meta:
    src, given = step.meta(0), step.listed(1, "axes") or []
    rank = len(src.shape) + len(given)
    if rank > MAX_NDIM:
        raise ShapeError(f"{step.where}: {counted(rank, 'axis')}")
    axes = {step.axis(axis, rank) for axis in given}
    if len(axes) < len(given):
        raise ShapeError(f"{step.where}: axes {given} name one axis twice")
    rest = iter(src.shape)
    return Meta(tuple(1 if axis in axes else next(rest) for axis in range(rank)), src.dtype)


@rule("Unsqueeze", inputs=(1, 2), axes=ints(), late=_unsqueezed)
def unsqueeze(step: Step) -> Value:
    return step.reshape(step.value(0), _unsqueezed(step).shape)


@rule("Transpose", perm=ints())
def transpose(step: Step) -> Value:
    src = step.value(0)
    order = step.attr("perm")
    return step.op("StaticTranspose", src, order=list(range(src.ndim))[::-1] if order is None else order)


def _block(step: Step, src: Value) -> tuple[int, list[int]]:
    """Returns the block size, and the channels, height and width of an image."""
    block = step.attr("blocksize")
    if block is None or block < 1:
        raise ShapeError(f"{step.where}: blocksize = {block} must be at least 1")
    if src.ndim != 4:
        raise ShapeError(f"{step.where}: a tensor of shape {src.shape}, which must have 4 axes")
    return block, step.sizes(src.shape[1:], "an image")


def _moved(step: Step) -> Meta:
    """Builds DepthToSpace or SpaceToDepth."""
    (n, c, h, w), block = step.meta(0).shape, step.attr("blocksize")
    if step.node.op_type == "DepthToSpace":
        return Meta((n, c and c // block**2, h and h * block, w and w * block), step.meta(0).dtype)
    return Meta((n, c and c * block**2, h and h // block, w and w // block), step.meta(0).dtype)


@rule("DepthToSpace", blocksize=integer(None), mode=text("DCR", "DCR", "CRD"), late=_moved)
def depth_to_space(step: Step) -> Value:
    src = step.value(0)
    n, (block, (c, h, w)) = src.shape[0], _block(step, src)
    rest, left = divmod(c, block * block)
    if left:
        raise ShapeError(f"{step.where}: {counted(c, 'channel')} are no multiple of blocksize squared, {block * block}")
    first = step.attr("mode") == "DCR"
    split = step.reshape(src, [n, *((block, block, rest) if first else (rest, block, block)), h, w])
    moved = step.op("StaticTranspose", split, order=[0, 3, 4, 1, 5, 2] if first else [0, 1, 4, 2, 5, 3])
    return step.reshape(moved, [n, rest, h * block, w * block])


@rule("SpaceToDepth", blocksize=integer(None), late=_moved)
def space_to_depth(step: Step) -> Value:
    src = step.value(0)
    n, (block, (c, h, w)) = src.shape[0], _block(step, src)
    if h % block or w % block:
        raise ShapeError(f"{step.where}: an image of {h} by {w} does not consist of blocks of {block} by {block}")
    split = step.reshape(src, [n, c, h // block, block, w // block, block])
    moved = step.op("StaticTranspose", split, order=[0, 3, 5, 1, 2, 4])
    return step.reshape(moved, [n, c * block * block, h // block, w // block])


@rule("Concat", inputs=(1, ANY), axis=integer(None))
def concat(step: Step) -> Operand:
    axis = step.attr("axis")
    if axis is None:
        raise ShapeError(f"{step.where}: 'axis' is missing")
    return step.operand(0) if step.count == 1 else step.concat([step.value(i) for i in range(step.count)], axis)


# (first op, reduction, last op)
_REDUCE = {
    **{f"Reduce{name}": (None, f"Reduce{name}", None) for name in ("L1", "L2", "Max", "Mean", "Min", "Prod", "Sum")},
    "ReduceLogSum": (None, "ReduceSum", "Log"),
    "ReduceSumSquare": ("Square", "ReduceSum", None),
}
_REDUCED: dict[str, Any] = {"axes": ints(), "keepdims": integer(1, 0, 1), "noop_with_empty_axes": integer(0, 0, 1)}


def _reduced(step: Step, kind: str, value: Value, axes: Sequence[int], keep: bool) -> Value:
    """Returns `value` reduced over `axes`; a 0-d tensor unchanged."""
    if not value.ndim:
        value, axes, keep = step.reshape(value, (1,)), [0], False
    return step.op(kind, value, axes=list(axes), keep_dims=keep)


@rule(*_REDUCE, inputs=(1, 2), **_REDUCED)
def reduce(step: Step) -> Value:
    value, axes = step.value(0), step.listed(1, "axes")
    first, kind, last = _REDUCE[step.node.op_type]
    dtype = value.dtype
    if first or last:
        # squares and sums may be beyond the range of 16 bits
        value = step.widened(value)
    if first:
        value = step.op(first, value)
    if axes or not step.attr("noop_with_empty_axes"):
        value = _reduced(step, kind, value, _all_axes(step, axes, value), bool(step.attr("keepdims")))
    elif kind in ("ReduceL1", "ReduceL2"):
        # the norm of each element
        value = step.op("Abs", value)
    return step.rounded(step.op(last, value) if last else value, dtype)


@rule("ReduceLogSumExp", inputs=(1, 2), **_REDUCED)
def reduce_log_sum_exp(step: Step) -> Operand:
    """ReduceLogSumExp; subtracts the maximum, or the largest finite number if that is infinite, against overflow."""
    src, given = step.value(0), step.listed(1, "axes")
    if not given and step.attr("noop_with_empty_axes"):
        return src
    dtype, src = src.dtype, step.widened(src)
    axes = _all_axes(step, given, src)
    limit = float(ml_dtypes.finfo(dtypes.numpy_dtype(src.dtype)).max)  # type: ignore[no-untyped-call]
    top = step.op("Clamp", _reduced(step, "ReduceMax", src, axes, True), min=-limit, max=limit)
    total = _reduced(step, "ReduceSum", step.op("Exp", step.op("Subtract", src, top)), axes, True)
    made = step.rounded(step.op("Add", step.op("Log", total), top), dtype)
    if step.attr("keepdims"):
        return made
    return step.reshape(made, [dim for axis, dim in enumerate(src.shape) if axis not in axes])


def _all_axes(step: Step, axes: Sequence[int] | None, value: Value) -> list[int]:
    return [step.axis(axis, value.ndim) for axis in axes] if axes else list(range(value.ndim))
