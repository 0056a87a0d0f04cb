"""The elements of a constant: those that lie in a file can be let go, and are read again when somebody asks."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np

from . import reclaim
from .files import Mapped, Piece

Array = np.ndarray[Any, Any]


def owner_of(array: Array) -> tuple[Any, bool]:
    """What the memory of an array belongs to, and whether it can be written through one of the arrays between."""
    base: Any = array
    writeable = False
    while isinstance(base, np.ndarray | memoryview):
        if isinstance(base, np.ndarray):
            writeable |= base.flags.writeable
            base = base.base
        else:
            base = base.obj
    return base, writeable


def never_changes(array: Array) -> bool:
    """Whether nobody can ever write the elements, which lie in a row: those of a bytes object, or part of a file."""
    owner, writeable = owner_of(array)
    return (
        isinstance(owner, bytes | Piece | Mapped) and not writeable and array.flags.c_contiguous and array.flags.aligned
    )


def in_file(array: Array) -> bool:
    """Whether the elements are the pages of a file, which cost no memory of this process."""
    return isinstance(owner_of(array)[0], Mapped)


def from_piece(piece: Piece, dtype: Any, shape: tuple[int, ...], start: int = 0) -> Array:
    """Elements that lie in a row in part of a file, read-only."""
    flat = np.frombuffer(piece, np.uint8, offset=start)
    flat.flags.writeable = False
    array: Array = flat.view(dtype).reshape(shape)
    return array


class Constant:
    """Elements that a value and its copies share."""

    __slots__ = ("_array", "_place", "_weak")

    def __init__(self, array: Array) -> None:
        self._array: Array | None = array
        self._weak = weakref.ref(array)
        owner, writeable = owner_of(array)
        self._place: tuple[Any, ...] | None = None
        if isinstance(owner, Piece) and not writeable and array.flags.c_contiguous and array.size:
            start = array.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
            self._place = owner.file, owner.offset + start, array.nbytes, array.dtype, array.shape

    def __reduce__(self) -> tuple[Any, ...]:
        return Constant, (self.array,)

    @property
    def array(self) -> Array:
        """The elements, read again if they were let go and nobody else holds them.

        Raises:
            InvalidArgumentError: the file was written to meanwhile.
        """
        array = self._array
        if array is None:
            array = self._weak()
            if array is None:
                assert self._place is not None
                file, offset, nbytes, dtype, shape = self._place
                array = from_piece(file.piece(offset, nbytes), dtype, shape)
                reclaim.account(array)
                self._weak = weakref.ref(array)
            self._array = array
        return array

    @property
    def can_be_read_again(self) -> bool:
        return self._place is not None

    def let_go(self) -> None:
        """Keep the elements only for as long as somebody else does, where they can be read again."""
        if self._place is not None:
            self._array = None
