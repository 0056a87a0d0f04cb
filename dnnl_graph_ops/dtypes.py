"""Names of dtypes: oneDNN's names, NumPy's dtypes, and oneDNN's codes."""

from __future__ import annotations

from typing import Any, Final

import ml_dtypes
import numpy as np

from . import words
from .errors import InvalidArgumentError

# name: (dnnl_data_type_t, NumPy dtype, bits per element in memory)
_TABLE: Final[dict[str, tuple[int, np.dtype[Any], int]]] = {
    "f32": (3, np.dtype(np.float32), 32),
    "f16": (1, np.dtype(np.float16), 16),
    "bf16": (2, np.dtype(ml_dtypes.bfloat16), 16),
    "s8": (5, np.dtype(np.int8), 8),
    "u8": (6, np.dtype(np.uint8), 8),
    "s32": (4, np.dtype(np.int32), 32),
    "s64": (16, np.dtype(np.int64), 64),
    "boolean": (8, np.dtype(np.bool_), 8),
    "f8_e5m2": (9, np.dtype(ml_dtypes.float8_e5m2), 8),
    "f8_e4m3": (10, np.dtype(ml_dtypes.float8_e4m3fn), 8),
    "s4": (11, np.dtype(ml_dtypes.int4), 4),
    "u4": (12, np.dtype(ml_dtypes.uint4), 4),
}

# oneDNN packs two into a byte, NumPy does not
PACKED: Final[frozenset[str]] = frozenset(name for name, row in _TABLE.items() if row[2] < 8)

CODES: Final[dict[str, int]] = {name: row[0] for name, row in _TABLE.items()}
NAMES: Final[dict[int, str]] = {code: name for name, code in CODES.items()}

# bytes of one element in a NumPy array
ITEMSIZES: Final[dict[str, int]] = {name: row[1].itemsize for name, row in _TABLE.items()}
_BY_NUMPY: Final[dict[np.dtype[Any], str]] = {row[1]: name for name, row in _TABLE.items()}
# most of what `canonical` is asked for
_CANONICAL: Final[dict[Any, str]] = {**_BY_NUMPY, **{name: name for name in _TABLE}}
_BY_NAME: Final[dict[str, str]] = {name: name for name in _TABLE} | {row[1].name: name for name, row in _TABLE.items()}


def _known(text: str) -> str | None:
    """The canonical name of a dtype's name in any case: this package's, NumPy's or another package's name."""
    word = text.strip().lower().removeprefix("torch.")
    return _BY_NAME.get(word) or words.DTYPES.get(word)


def usual(name: str) -> str:
    """The canonical name of a dtype's name; other text unchanged."""
    return _known(name) or name


def canonical(dtype_like: Any, where: str = "") -> str:
    """The canonical name ("f32", "bf16", "s8", ...) of a dtype.

    Accepts the canonical names, NumPy's and those of `words.DTYPES` in any case, `numpy.dtype`, `torch.dtype`, NumPy
    and ml_dtypes scalar types, and `bool`. `where` begins the messages.

    Raises:
        InvalidArgumentError: a name or a NumPy dtype that oneDNN has no counterpart for.
        TypeError: no dtype; also `float` and `int`, whose width is ambiguous.
    """
    known = _CANONICAL.get(dtype_like) if isinstance(dtype_like, str | np.dtype) else None
    if known is not None:
        return known
    prefix = f"{where}: " if where else ""
    if type(dtype_like).__module__ == "torch":
        dtype_like = str(dtype_like)
    if isinstance(dtype_like, str):
        name = _known(dtype_like)
        if name is None:
            meant = words.OTHER_DTYPES.get(dtype_like.strip().lower().removeprefix("torch."))
            raise _unknown(repr(dtype_like), prefix, f"; use {meant!r}" if meant else "")
        return name
    if isinstance(dtype_like, np.dtype):
        dtype = dtype_like
    elif isinstance(dtype_like, type) and (
        dtype_like is bool or issubclass(dtype_like, np.generic) or dtype_like.__module__ == ml_dtypes.__name__
    ):
        dtype = np.dtype(dtype_like)
    else:
        raise TypeError(
            f"{prefix}dtype must be a name such as 'f32' or a NumPy dtype such as numpy.float32, got {dtype_like!r}"
        )
    if not dtype.isnative:
        raise InvalidArgumentError(
            f"{prefix}dtype {dtype.str!r} is not in native byte order; "
            f"convert with array.astype(dtype.newbyteorder('='))"
        )
    name = _BY_NUMPY.get(dtype)
    if name is None:
        raise _unknown(str(dtype), prefix, "; convert it with array.astype(np.float32)" if dtype.kind in "fcO" else "")
    return name


def label(dtype: np.dtype[Any]) -> str:
    """The canonical name, or NumPy's where oneDNN has no such type."""
    return _BY_NUMPY.get(dtype) or (dtype.name if dtype.isnative else dtype.str)


def _unknown(text: str, prefix: str = "", remedy: str = "") -> InvalidArgumentError:
    return InvalidArgumentError(f"{prefix}dtype {text} is not a dtype of oneDNN{remedy}; known: {', '.join(_TABLE)}")


def numpy_dtype(name: str) -> np.dtype[Any]:
    """The NumPy dtype of a canonical name; 4-bit integers take one byte per element there."""
    return _row(name)[1]


def numpy_dtypes(name: str) -> tuple[np.dtype[Any], ...]:
    """The NumPy dtype of a name, then equal dtypes with another type number: int64 is C's long or its long long."""
    first = numpy_dtype(name)
    every = map(np.dtype, np.typecodes["AllInteger"])
    return first, *(dtype for dtype in every if dtype == first and dtype.num != first.num)


def itemsize(name: str) -> int:
    """Bytes of one element in a NumPy array (1 for the 4-bit integers, which the library packs in pairs)."""
    size = ITEMSIZES.get(name)
    return int(_row(name)[1].itemsize) if size is None else size


def nbytes(name: str, elements: int) -> int:
    """Bytes of `n` dense elements in oneDNN's memory; 4-bit integers are packed in pairs."""
    return (elements * _row(name)[2] + 7) // 8


def _row(name: str) -> tuple[int, np.dtype[Any], int]:
    try:
        return _TABLE[name]
    except KeyError:
        raise _unknown(repr(name)) from None
