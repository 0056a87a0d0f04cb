"""The elements of constants: elements of a file can be released, and are read again when they are needed."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from . import reclaim
from .files import Mapped, Pages, Piece

Array = np.ndarray[Any, Any]

_FEW_BYTES = 4096


class Meta(NamedTuple):
    """Shape and dtype of elements that are not loaded or computed yet."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def owner_of(array: Array) -> tuple[Any, bool]:
    """Returns the owner of an array's memory, and whether an array of the chain of bases is writable."""
    base: Any = array
    writeable = False
    while True:
        if type(base) is memoryview:
            base = base.obj
        elif isinstance(base, np.ndarray):
            writeable |= base.flags.writeable
            base = base.base
        else:
            return base, writeable


def kept(array: Array) -> tuple[Array, bool]:
    """Returns a view of dense elements that can never be written, memory of bytes or of a file, else a dense copy.

    And whether the elements are pages of a mapped file, which take no memory of this process.
    """
    owner, writeable = owner_of(array)
    fixed = isinstance(owner, bytes | Pages | Mapped) and not writeable
    if fixed and array.flags.c_contiguous and array.flags.aligned:
        return array.view(), isinstance(owner, Mapped)
    return np.array(array, order="C", copy=True), False


def from_piece(piece: Pages | bytes, dtype: Any, shape: tuple[int, ...], start: int = 0) -> Array:
    """Returns dense elements, such as those of a part of a file, as a read-only array."""
    flat = np.frombuffer(piece, np.uint8, offset=start)
    flat.flags.writeable = False
    array: Array = flat.view(dtype).reshape(shape)
    return array


class Constant:
    """The elements that a constant value and its copies share.

    `make`: computes the elements of a constant that is derived from others; `array` may then be left out.
    """

    __slots__ = (
        "__weakref__", "_array", "_derived", "_make", "_place", "_token", "_weak", "dtype", "shape", "unrounded",
    )  # fmt: skip

    def __init__(self, array: Array | None, make: Callable[[], Array] | None = None, like: Meta | None = None) -> None:
        self._array = array
        self._make = make
        self._place: tuple[Any, ...] | None = None
        self._weak: Callable[[], Array | None] = _nothing
        # constants derived from these elements, by the way they are derived
        self._derived: WeakValueDictionary[Hashable, Constant] | None = None
        # the same elements in f32, of a constant that precision="bf16" or "f16" rounds
        self.unrounded: Constant | None = None
        if array is None:
            if make is None or like is None:
                raise TypeError("a constant needs an array, or a function that computes it")
            self.shape, self.dtype = like
            self._token: Hashable = self
            return
        self.shape, self.dtype = array.shape, array.dtype
        self._weak = weakref.ref(array)
        owner, writeable = owner_of(array)
        if isinstance(owner, Piece) and not writeable and array.flags.c_contiguous and array.size:
            start = _address(array) - _address(np.frombuffer(owner, np.uint8))
            self._place = owner.file, owner.offset + start, array.nbytes, array.dtype, array.shape
        # a constant of few elements is identified by the elements, once the identity is asked for
        self._token = None if array.nbytes <= _FEW_BYTES and not array.dtype.hasobject else self

    def __reduce__(self) -> tuple[Any, ...]:
        return Constant, (self.array,)

    @property
    def token(self) -> Hashable:
        """The constant's identity."""
        if self._token is None:
            array = self.array
            self._token = array.dtype.str, array.shape, array.tobytes()
        return self._token

    @property
    def array(self) -> Array:
        """The elements, read or computed again if they were released.

        Raises:
            InvalidArgumentError: the file was changed meanwhile.
        """
        array = self._array
        if array is None:
            array = self._weak()
            if array is None:
                array = self._again()
                self._weak = weakref.ref(array)
            self._array = array
        return array

    def _again(self) -> Array:
        if self._place is None:
            assert self._make is not None
            return self._make()
        file, offset, nbytes, dtype, shape = self._place
        array = from_piece(file.piece(offset, nbytes), dtype, shape)
        reclaim.account(array)
        return array

    @property
    def can_be_made_again(self) -> bool:
        return self._place is not None or self._make is not None

    def let_go(self) -> None:
        """Drops the reference to the elements if they can be read or computed again."""
        if self.can_be_made_again:
            self._array = None

    def derived(
        self, how: Hashable, make: Callable[[Array], Array], shape: tuple[int, ...], dtype: Any = np.float32
    ) -> Constant:
        """Returns a constant derived from this one, computed when it is needed; the same object while it lives."""
        if self._derived is None:
            self._derived = WeakValueDictionary()
        found = self._derived.get(how)
        if found is None:
            found = Constant(None, partial(_made_of, self, make), Meta(shape, np.dtype(dtype)))
            self._derived[how] = found
        return found

    def derivations(self) -> dict[Hashable, Constant]:
        """Returns the live constants that were derived from this one, by the way they were derived."""
        return dict(self._derived or {})


def _made_of(source: Constant, make: Callable[[Array], Array]) -> Array:
    array = make(source.array)
    source.let_go()
    return array


def _address(array: Array) -> int:
    # `ctypes` makes an object of Python
    address: int = array.__array_interface__["data"][0]
    return address


def _nothing() -> None:
    return None
