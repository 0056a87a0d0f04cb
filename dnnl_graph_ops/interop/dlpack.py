"""Tensors of other libraries without a copy, through DLPack; bf16, f16 and the 8-bit floats included."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import dlpack_export, dlpack_import
from ..errors import InvalidArgumentError, UnsupportedError
from ..runtime.dlpack import CODES, CPU, DTYPES, capsule_of, device_of

Array = np.ndarray[Any, Any]


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


def from_dlpack(obj: Any, *, copy: bool | None = None) -> Array:
    """A NumPy array from whatever has `__dlpack__` and lies in CPU memory.

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
    if device_of(obj, "from_dlpack") not in (None, CPU):
        raise InvalidArgumentError(
            f"from_dlpack: the {type(obj).__name__} is on device {obj.__dlpack_device__()}, not in CPU memory; "
            f"copy it there"
        )
    capsule = capsule_of(obj, "from_dlpack")
    array = dlpack_import(capsule, DTYPES)
    return array.copy() if copy else array
