"""The DLPack protocol: its codes, and asking a producer."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..errors import InvalidArgumentError

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
    """The device type that a producer says it is on; None: it says nothing, its capsule will.

    Raises:
        InvalidArgumentError: it says something else.
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
    """What a producer hands over, asked in the ways of DLPack 1.0 and before; `options` need 1.0.

    Raises:
        InvalidArgumentError: it refuses (a tensor that requires gradients, say).
    """
    try:
        try:
            return obj.__dlpack__(max_version=(1, 0), **options)
        except TypeError:
            if options:
                raise
            return obj.__dlpack__()
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise InvalidArgumentError(f"{where}: {type(obj).__name__} refuses: {error}") from error
