"""Arrays at the door: what a call may be given, and what is wrong with it otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from ..errors import InvalidArgumentError, ShapeError
from ..shapes.strides import extent

Array = np.ndarray[Any, Any]


def as_array(value: Any, where: str) -> Array:
    """A NumPy array, NumPy scalar, or whatever has `__dlpack__` on the CPU, without a copy.

    Raises:
        TypeError: anything else.
        InvalidArgumentError: a tensor that DLPack cannot hand over (on a device, or requiring gradients).
    """
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        from ..interop.dlpack import from_dlpack

        return from_dlpack(value)
    raise TypeError(f"{where}: needs a NumPy array or an object with __dlpack__, got {type(value).__name__}")


def element_strides(array: Array, where: str) -> tuple[int, ...]:
    """Strides in elements.

    Raises:
        InvalidArgumentError: negative strides, strides that are no multiple of the element, misaligned data, or
            foreign byte order: the library's descriptions cannot express them.
    """
    size = array.itemsize
    strides = []
    for length, stride in zip(array.shape, array.strides, strict=True):
        # NumPy leaves the stride of axes of length 0 and 1 arbitrary
        if length <= 1:
            stride = 0 if stride < 0 or stride % size else stride
        if stride < 0:
            raise InvalidArgumentError(
                f"{where}: has the negative strides {array.strides}; pass a copy, numpy.ascontiguousarray(array)"
            )
        if stride % size:
            raise InvalidArgumentError(
                f"{where}: has strides {array.strides} that are no multiple of its {size}-byte elements; pass a copy"
            )
        strides.append(stride // size)
    if not array.flags.aligned:
        raise InvalidArgumentError(f"{where}: is not aligned to its {size}-byte elements; pass a copy of it")
    return tuple(strides)


def empty(shape: tuple[int, ...], dtype: str, strides: Sequence[int] | None = None) -> Array:
    """A new array for a result, with strides in elements; None: row-major."""
    kind = dtypes.numpy_dtype(dtype)
    if strides is None:
        return np.empty(shape, kind)
    flat = np.empty(extent(shape, strides), kind)
    return np.lib.stride_tricks.as_strided(flat, shape, [kind.itemsize * stride for stride in strides])


def check_dtype(array: Array, dtype: str, where: str) -> None:
    found = dtypes.canonical(array.dtype)
    if found != dtype:
        raise InvalidArgumentError(
            f"{where}: has dtype {found}, expected {dtype}; "
            f"convert it with array.astype({dtypes.numpy_dtype(dtype).name!r})"
        )


def check_shape(array: Array, shape: tuple[int | None, ...], where: str) -> None:
    if array.ndim != len(shape) or any(
        want is not None and want != got for want, got in zip(shape, array.shape, strict=True)
    ):
        raise ShapeError(f"{where}: has shape {array.shape}, expected {shape}")


def check_out(out: Any, shape: tuple[int, ...], dtype: str, where: str) -> Array:
    """An array that a result can be written to.

    Raises:
        TypeError: not a NumPy array (nor a writable DLPack tensor).
        ShapeError, InvalidArgumentError: other shape or dtype, read-only, or elements that share memory.
    """
    array = as_array(out, where)
    check_dtype(array, dtype, where)
    check_shape(array, shape, where)
    if not array.flags.writeable:
        raise InvalidArgumentError(f"{where}: is read-only; pass a writable array")
    strides = element_strides(array, where)
    if overlaps_itself(array.shape, strides):
        raise InvalidArgumentError(
            f"{where}: several of its elements share memory (shape {array.shape}, strides {strides} in elements); "
            f"pass an array of distinct elements"
        )
    return array


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two indices may meet: conservative only where axes interleave."""
    if 0 in shape:
        return False
    reach = 0
    for stride, size in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= reach:
            return _counts_twice(shape, strides)
        reach += stride * (size - 1)
    return False


def _counts_twice(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Exact answer for strides that interleave, when small enough to enumerate; else True."""
    if int(np.prod(shape, dtype=np.float64)) > 1 << 20:
        return True
    offsets = np.zeros((), np.int64)
    for size, stride in zip(shape, strides, strict=True):
        offsets = offsets[..., None] + np.arange(size, dtype=np.int64) * stride
    return len(np.unique(offsets)) < offsets.size


def check_apart(outs: list[tuple[str, Array]], ins: list[tuple[str, Array]], where: str) -> None:
    """InvalidArgumentError when an output shares memory with an input or another output."""
    for position, (name, out) in enumerate(outs):
        for other_name, other in (*ins, *outs[:position]):
            if out.size and other.size and np.may_share_memory(out, other):
                raise InvalidArgumentError(
                    f"{where}: '{name}' overlaps {other_name!r} in memory; pass a separate array"
                )
