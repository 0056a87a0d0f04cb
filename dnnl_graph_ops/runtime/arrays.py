"""Checks of the arrays that a call is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import dtypes
from .._core import new_array
from ..errors import InvalidArgumentError, ShapeError
from ..strides import extent
from .device_array import DeviceArray
from .dlpack import ONE_API, Array, device_of, shared
from .engines import Engine

Operand = Array | DeviceArray


# how to convert values that are no arrays
_REMEDIES: dict[type, str] = {
    **dict.fromkeys((list, tuple), "; make one, np.asarray(values, np.float32)"),
    **dict.fromkeys((int, float), "; make one, np.full(shape, value, np.float32)"),
    str: "; read a file with np.load(path)",
    dict: "; arrays by name are net(**arrays), or net.run(arrays)",
}


def as_array(value: Any, where: str) -> Array:
    """An array from a NumPy array, a NumPy scalar or an object with `__dlpack__` on the CPU, without a copy.

    Raises:
        TypeError: anything else.
        InvalidArgumentError: a tensor that DLPack cannot hand over (on a device, or requiring gradients); a masked
            array.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidArgumentError(f"{where}: has a mask, which no op reads; pass array.filled(0), or another value")
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if hasattr(value, "__dlpack__"):
        return shared(value, where)
    hint = _REMEDIES.get(type(value), "")
    if isinstance(value, list | tuple) and any(isinstance(item, np.ndarray) for item in value):
        hint = "; pass each array as an argument, net(a, b)"
    if not hint and (hasattr(value, "__array__") or hasattr(value, "__array_interface__")):
        try:
            np.asarray(value)
            hint = "; take np.asarray(value)"
        except TypeError as error:  # of a Value
            hint = f"; {error}"
    raise TypeError(f"{where}: needs a NumPy array or an object with __dlpack__, got {type(value).__name__}{hint}")


def as_operand(value: Any, engine: Engine, where: str) -> Operand:
    """An operand of a net: as `as_array`, or an array in the engine's memory, without a copy.

    Raises:
        TypeError: anything else.
        InvalidArgumentError: memory that the engine cannot access.
    """
    if type(value) is np.ndarray:
        return value
    if isinstance(value, DeviceArray):
        if value.engine is not engine:
            raise InvalidArgumentError(
                f"{where}: is in memory of {value.engine!r}, the net runs on {engine!r}; take it there through the "
                f"host, DeviceArray.from_numpy(a.to_numpy(), engine)"
            )
        return value
    if hasattr(value, "__sycl_usm_array_interface__") or device_of(value, where) == ONE_API:
        return DeviceArray.from_dlpack(value, engine, copy=False)
    return as_array(value, where)


def element_strides(array: Operand, where: str) -> tuple[int, ...]:
    """Strides in elements.

    Raises:
        InvalidArgumentError: negative strides, strides that are no multiple of the element size, misaligned data, or
            foreign byte order: oneDNN's descriptors cannot express them.
    """
    if isinstance(array, DeviceArray):
        return array._element_strides
    size = array.itemsize
    strides = []
    for length, stride in zip(array.shape, array.strides, strict=True):
        # in NumPy the stride of axes of size 0 and 1 is arbitrary
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


def empty(
    shape: tuple[int, ...], dtype: str, strides: Sequence[int] | None = None, engine: Engine | None = None
) -> Operand:
    """An uninitialised array for a result, with strides in elements (None: row-major), in `engine`'s memory."""
    if engine is not None:
        return (
            DeviceArray(shape, dtype, engine) if strides is None else DeviceArray.strided(shape, dtype, strides, engine)
        )
    if strides is None:
        return new_array(dtypes.CODES[dtype], shape)
    kind = dtypes.numpy_dtype(dtype)
    room = new_array(dtypes.CODES["u8"], (extent(shape, strides) * kind.itemsize,))
    return np.ndarray(shape, kind, room, strides=[kind.itemsize * stride for stride in strides])


def check_dtype(array: Operand, dtype: str, where: str) -> None:
    found = dtypes.label(array.dtype)
    if found != dtype:
        raise wrong_dtype(found, dtype, dtypes.numpy_dtype(dtype).name, where)


def wrong_dtype(found: str, dtype: str, name: str, where: str) -> InvalidArgumentError:
    """`name`: NumPy's of the dtype that it should be."""
    return InvalidArgumentError(
        f"{where}: has dtype {found}, expected {dtype}; convert it with array.astype({_literal(name)})"
    )


def _literal(name: str) -> str:
    # ml_dtypes' are no attributes of NumPy
    return f"np.{name}" if hasattr(np, name) else repr(name)


def check_shape(array: Operand, shape: tuple[int | None, ...], where: str) -> None:
    if array.ndim != len(shape) or any(
        want is not None and want != got for want, got in zip(shape, array.shape, strict=True)
    ):
        raise ShapeError(f"{where}: has shape {array.shape}, expected {shape}{_axes_hint(array.shape, shape)}")


def _axes_hint(found: tuple[int, ...], shape: tuple[int | None, ...]) -> str:
    """Returns "; ..." if the array lacks the batch axis, or has its channels at the other end."""
    if len(shape) == len(found) + 1:
        return "; array[None] adds the batch axis"
    axes = tuple(range(len(found)))
    orders = ((0, axes[-1], *axes[1:-1]), (0, *axes[2:], 1)) if len(axes) > 2 else ()
    for order, form in zip(orders, ("channels last", "channels first"), strict=False):
        if len(shape) == len(order) and all(
            want in (None, found[axis]) for want, axis in zip(shape, order, strict=True)
        ):
            return f"; it is {form}: pass array.transpose{order}"
    return ""


def check_out(array: Operand, shape: tuple[int, ...], dtype: str, where: str) -> None:
    """Checks that a result can be written to an array.

    Raises:
        ShapeError, InvalidArgumentError: other shape or dtype, read-only, or elements that share memory.
    """
    found = dtypes.label(array.dtype)
    if found != dtype:
        # a converted array would be a copy, and the result lost
        literal = _literal(dtypes.numpy_dtype(dtype).name)
        raise InvalidArgumentError(
            f"{where}: has dtype {found}, and the result is {dtype}; pass np.empty({shape}, {literal})"
        )
    check_shape(array, shape, where)
    if not (array.writable if isinstance(array, DeviceArray) else array.flags.writeable):
        raise InvalidArgumentError(f"{where}: is read-only; pass a writable array")
    strides = element_strides(array, where)
    if overlaps_itself(array.shape, strides):
        raise InvalidArgumentError(
            f"{where}: several of its elements share memory (shape {array.shape}, strides {strides} in elements); "
            f"pass an array of distinct elements"
        )


def overlaps_itself(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether two indices of an array may have one address; may err towards True where axes interleave."""
    if 0 in shape:
        return False
    reach = 0
    for stride, size in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n > 1):
        if stride <= reach:
            return _counts_twice(shape, strides)
        reach += stride * (size - 1)
    return False


def _counts_twice(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """As `overlaps_itself` for strides that interleave: exact if small enough to enumerate, else True."""
    if int(np.prod(shape, dtype=np.float64)) > 1 << 20:
        return True
    offsets = np.zeros((), np.int64)
    for size, stride in zip(shape, strides, strict=True):
        offsets = offsets[..., None] + np.arange(size, dtype=np.int64) * stride
    return len(np.unique(offsets)) < offsets.size


def check_apart(outs: list[tuple[str, Operand]], ins: list[tuple[str, Operand]], where: str) -> None:
    """Raises InvalidArgumentError if an output shares memory with an input or another output."""
    spans = [(*_range(array), name, is_out) for some, is_out in ((ins, False), (outs, True)) for name, array in some]
    far, far_out = (0, ""), (0, "")
    # sorted by address: an earlier array overlaps the next one exactly if the furthest-reaching one does
    for start, end, name, is_out in sorted(span for span in spans if span[0] < span[1]):
        reach, other = far if is_out else far_out
        if start < reach:
            out, other = (name, other) if is_out else (other, name)
            raise InvalidArgumentError(f"{where}: '{out}' overlaps {other!r} in memory; pass a separate array")
        far = max(far, (end, name))
        if is_out:
            far_out = max(far_out, (end, name))


def _range(array: Operand) -> tuple[int, int]:
    """The first address of an array's elements, and the address after the last."""
    start = array.address if isinstance(array, DeviceArray) else array.ctypes.data
    if not array.size:
        return start, start
    reaches = [(size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True)]
    low, high = (sum(bound(reach, 0) for reach in reaches) for bound in (min, max))
    return start + low, start + high + array.itemsize
