"""The DLPack protocol: codes, requests to a producer, and NumPy arrays from its capsules."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .._core import dlpack_export, dlpack_import
from ..errors import InvalidArgumentError, UnsupportedError

Array = np.ndarray[Any, Any]

# device types
CPU = 1
ONE_API = 14

# (type code, bits): dtype
DTYPES: dict[tuple[int, int], np.dtype[Any]] = {
    **{(0, 8 * n): np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    **{(1, 8 * n): np.dtype(f"u{n}") for n in (1, 2, 4, 8)},
    **{(2, 8 * n): np.dtype(f"f{n}") for n in (2, 4, 8)},
    (4, 16): np.dtype(ml_dtypes.bfloat16),
    (6, 8): np.dtype(np.bool_),
    (10, 8): np.dtype(ml_dtypes.float8_e4m3fn),
    (12, 8): np.dtype(ml_dtypes.float8_e5m2),
}
CODES = {dtype: key for key, dtype in DTYPES.items()}


def device_of(obj: Any, where: str) -> int | None:
    """The device type that a producer states; None: only its capsule states one.

    Raises:
        InvalidArgumentError: it states no device type.
    """
    if not hasattr(obj, "__dlpack_device__"):
        return None
    device = obj.__dlpack_device__()
    try:
        return int(device[0])
    except (TypeError, ValueError, LookupError) as error:
        raise InvalidArgumentError(
            f"{where}: __dlpack_device__() of {type(obj).__name__} gives {device!r}; a pair of ints is wanted"
        ) from error


def capsule_of(obj: Any, where: str, **options: Any) -> Any:
    """A producer's capsule, requested as in DLPack 1.0, else as before; `options` need 1.0.

    Raises:
        InvalidArgumentError: the producer refuses (a tensor that requires gradients, say), or its memory does not hold
            its elements.
    """
    # PyTorch exports the memory of such tensors as it is
    for held, remedy in (("is_neg", "resolve_neg"), ("is_conj", "resolve_conj")):
        if getattr(obj, held, bool)():
            raise InvalidArgumentError(
                f"{where}: the {type(obj).__name__} is a view whose memory holds the elements of its conjugate; pass "
                f"tensor.{remedy}()"
            )
    try:
        try:
            return obj.__dlpack__(max_version=(1, 0), **options)
        except TypeError:
            if options:
                raise
            return obj.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        if getattr(obj, "requires_grad", False):
            raise InvalidArgumentError(
                f"{where}: the {type(obj).__name__} requires gradients, and nothing here records any; pass "
                f"tensor.detach(), or use dnnl_graph_ops.torch"
            ) from None
        raise InvalidArgumentError(f"{where}: {type(obj).__name__} refuses: {error}") from error


def from_dlpack(obj: Any, *, copy: bool | None = None) -> Array:
    """A NumPy array from an object with `__dlpack__` in CPU memory.

    Args:
        obj: a tensor of PyTorch, JAX, CuPy on the host, ...; it stays alive as long as the array.
        copy: True: always copy. None or False: share the memory; False raises where that is not possible.

    Raises:
        TypeError: no `__dlpack__`.
        InvalidArgumentError: memory of another device, a dtype without a NumPy counterpart, or a producer that refuses
            (a tensor that requires gradients, say).
    """
    if not hasattr(obj, "__dlpack__"):
        raise TypeError(f"from_dlpack: needs an object with __dlpack__, got {type(obj).__name__}")
    if copy is not None and not isinstance(copy, bool):
        raise TypeError(f"from_dlpack: 'copy' must be None, True or False, got {type(copy).__name__}")
    array = shared(obj, "from_dlpack")
    return array.copy() if copy else array


def shared(obj: Any, where: str) -> Array:
    """As `from_dlpack`, always sharing memory; `where` begins messages."""
    if device_of(obj, where) not in (None, CPU):
        raise InvalidArgumentError(
            f"{where}: the {type(obj).__name__} is on device {obj.__dlpack_device__()}, not in CPU memory; "
            f"copy it there"
        )
    array: Array = dlpack_import(capsule_of(obj, where), DTYPES)
    return array


class DLPackArray:
    """A NumPy array as a DLPack producer, for `torch.from_dlpack`, `jax.dlpack.from_dlpack` and the like."""

    def __init__(self, array: Array) -> None:
        self._array = array
        self._code, self._bits = CODES[array.dtype]

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        if stream is not None:
            raise BufferError("a tensor in CPU memory takes no stream")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the tensor is in CPU memory and cannot be given on device {tuple(dl_device)}")
        array = self._array.copy() if copy else self._array
        versioned = max_version is not None and max_version[0] >= 1
        if not versioned and not array.flags.writeable:
            raise BufferError("a read-only array needs a consumer of DLPack 1.0 or later")
        return dlpack_export(array, self._code, self._bits, versioned)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU, 0


def to_dlpack(array: Array) -> DLPackArray:
    """An object with `__dlpack__` that shares the array's memory and keeps it alive.

    Raises:
        TypeError: not a NumPy array.
        UnsupportedError: a dtype that DLPack has no code for.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"to_dlpack: needs a NumPy array, got {type(array).__name__}")
    if array.dtype not in CODES:
        raise UnsupportedError(f"to_dlpack: DLPack has no type for dtype {array.dtype}")
    return DLPackArray(array)
