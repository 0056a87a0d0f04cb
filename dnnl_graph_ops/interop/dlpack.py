"""Tensors of other libraries without a copy, through DLPack; bf16, f16 and the 8-bit floats included."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core import dlpack_export
from ..errors import UnsupportedError
from ..runtime.dlpack import CODES, CPU, Array


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
