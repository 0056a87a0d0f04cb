"""Arrays in an engine's memory, which its nets read and return without a copy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import dtypes
from .._core import DeviceArrayBase, dlpack_export_memory, dlpack_import, dlpack_open
from ..errors import InvalidArgumentError, UnsupportedError
from ..strides import dense_strides, is_row_major
from .dlpack import CODES, CPU, DTYPES, ONE_API, capsule_of, device_of
from .engines import Engine, default_engine

Array = np.ndarray[Any, Any]
Ints = tuple[int, ...]


class DeviceArray(DeviceArrayBase):
    """An array in the memory of an engine's device, or in host memory where the engine works there.

    `DeviceArray(shape, dtype, engine)` allocates without initialising. A net of the same engine reads DeviceArrays
    without a copy, and returns DeviceArrays if at least one operand is one. Calls are synchronous: results are
    complete when the call returns.

    Args:
        shape: an int or a sequence of them.
        dtype: "f32", "bf16", ..., or a NumPy dtype.
        engine: `dgo.engine(...)`; None: the default CPU engine.

    Raises:
        ShapeError: negative sizes, or more bytes than 64 bits can count. InvalidArgumentError: an unknown dtype.
        Error: the device is out of memory.
    """

    def __init__(self, shape: int | Sequence[int], dtype: Any = "f32", engine: Engine | None = None) -> None:
        self.engine = _checked(engine)
        self.shape = tuple(shape) if isinstance(shape, Sequence) else (shape,)
        self.dtype = dtypes.numpy_dtype(dtypes.canonical(dtype))
        self._element_strides = dense_strides(self.shape)
        super().__init__(self.engine._native, _code(self.dtype), self.shape)

    @classmethod
    def _adopt(
        cls,
        engine: Engine,
        dtype: np.dtype[Any],
        shape: Ints,
        strides: Ints | None,
        address: int,
        writable: bool,
        owner: Any,
    ) -> DeviceArray:
        """An array over memory of `owner` that the engine can access; strides count elements."""
        self = cls.__new__(cls)
        self.engine, self.shape, self.dtype = engine, shape, dtype
        self._element_strides = dense_strides(shape) if strides is None else strides
        DeviceArrayBase.__init__(
            self, engine._native, _code(dtype), shape, self._element_strides, address, writable, owner
        )
        return self

    @classmethod
    def strided(
        cls, shape: Sequence[int], dtype: Any, strides: Sequence[int], engine: Engine | None = None
    ) -> DeviceArray:
        """An uninitialised array of `shape` and `dtype` with `strides`, counted in elements.

        The array is in the memory of `engine`; None: the default CPU engine.

        Raises:
            InvalidArgumentError: a dtype that oneDNN lacks. Error: the device is out of memory.
        """
        reach = sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))
        room = cls(0 if 0 in shape else 1 + reach, dtype, engine)
        return cls._adopt(room.engine, room.dtype, tuple(shape), tuple(strides), room.address, True, room)

    @classmethod
    def from_numpy(cls, array: Any, engine: Engine | None = None) -> DeviceArray:
        """A row-major copy of a NumPy array in the memory of `engine`; None: the default CPU engine.

        Raises:
            TypeError: not an array. InvalidArgumentError: a dtype that oneDNN lacks.
        """
        if not isinstance(array, np.ndarray | np.generic):
            raise TypeError(f"DeviceArray.from_numpy: needs a NumPy array, got {type(array).__name__}")
        made = cls(array.shape, array.dtype, engine)
        made.copy_from(np.asarray(array))
        return made

    @classmethod
    def from_dlpack(cls, obj: Any, engine: Engine | None = None, *, copy: bool | None = None) -> DeviceArray:
        """An array of another library: of dpctl, dpnp or `torch.xpu` on a device, of any DLPack producer on the CPU.

        Args:
            obj: an object with `__sycl_usm_array_interface__` or `__dlpack__`; stays alive as long as the result.
            engine: the engine of the result. Memory of a device is shared if it is USM of the engine's SYCL context
                (`Engine.from_sycl` makes an engine in the context of a queue).
            copy: True: always copy. None: share where possible. False: share, or raise.

        Raises:
            TypeError: neither protocol. InvalidArgumentError: the memory cannot be used, or only with a copy that
            `copy=False` forbids.
        """
        where = "DeviceArray.from_dlpack"
        if copy is not None and not isinstance(copy, bool):
            raise TypeError(f"{where}: 'copy' must be None, True or False, got {type(copy).__name__}")
        engine = _checked(engine)
        shared = _share(cls, obj, engine, where)
        if shared is not None:
            return cls.from_numpy(shared.to_numpy(), engine) if copy else shared
        if copy is False:
            raise InvalidArgumentError(
                f"{where}: the {type(obj).__name__} is not in memory that {engine!r} reaches, so copy=False cannot be "
                f"had; allow a copy, or use an engine in its SYCL context, Engine.from_sycl(queue)"
            )
        if isinstance(obj, DeviceArray):
            return cls.from_numpy(obj.to_numpy(), engine)
        if not hasattr(obj, "__dlpack__"):
            raise InvalidArgumentError(
                f"{where}: the {type(obj).__name__} is in memory of another SYCL context than that of {engine!r}; use "
                f"an engine in its context, Engine.from_sycl(queue), or copy it to the host first"
            )
        options = {} if device_of(obj, where) in (None, CPU) else {"dl_device": (CPU, 0)}
        return cls.from_numpy(dlpack_import(capsule_of(obj, where, **options), DTYPES), engine)

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self.itemsize

    @property
    def strides(self) -> Ints:
        """Strides in bytes per axis, as NumPy's."""
        return tuple(stride * self.itemsize for stride in self._element_strides)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a DeviceArray without axes has no length")
        return self.shape[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return DeviceArray.from_numpy, (self.to_numpy(), self.engine)

    def __repr__(self) -> str:
        return f"DeviceArray(shape={self.shape}, dtype={self.dtype}, engine={self.engine!r})"

    # -- to and from the host -----------------------------------------------------------------------------------

    def to_numpy(self) -> Array:
        """A row-major copy as a NumPy array."""
        room, view = self._window()
        if room.size:
            self._read(room)
        return view if self._is_dense() else np.ascontiguousarray(view)

    def copy_from(self, array: Array) -> None:
        """Overwrite with the elements of a NumPy array of the same shape and dtype.

        Raises:
            InvalidArgumentError: another shape or dtype, or read-only memory.
        """
        if array.shape != self.shape or array.dtype != self.dtype:
            raise InvalidArgumentError(
                f"DeviceArray.copy_from: needs shape {self.shape} and dtype {self.dtype}, got {array.shape} and "
                f"{array.dtype}"
            )
        if not self.writable:
            raise InvalidArgumentError("DeviceArray.copy_from: the array is read-only")
        if not self.size:
            return
        if self._is_dense():
            self._write(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
            return
        room, view = self._window()
        # bytes between the elements may belong to others: keep them
        self._read(room)
        view[...] = array
        self._write(room)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if copy is False:
            raise ValueError("a DeviceArray becomes a NumPy array only by a copy")
        return self.to_numpy().astype(dtype or self.dtype, copy=False)

    def _is_dense(self) -> bool:
        return self.extent == self.nbytes and is_row_major(self.shape, self._element_strides)

    def _window(self) -> tuple[Array, Array]:
        """A host buffer for all bytes that the elements span, and a view of the elements in it."""
        room = np.empty(self.extent, np.uint8)
        return room, np.ndarray(self.shape, self.dtype, room, strides=self.strides)

    # -- protocols ----------------------------------------------------------------------------------------------

    def __dlpack_device__(self) -> tuple[int, int]:
        return (ONE_API, self.engine.index) if self.engine._native.on_device else (CPU, 0)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """The DLPack capsule. No work is pending on the memory, so `stream` is not needed."""
        device = self.__dlpack_device__()
        target = device if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
        owner: Any = self
        if target != device:
            if target[0] != CPU or copy is False:
                raise BufferError(f"the array is on device {device} and cannot be given on {target} without a copy")
            owner = DeviceArray.from_numpy(self.to_numpy())
        elif copy:
            owner = DeviceArray.from_numpy(self.to_numpy(), self.engine)
        versioned = max_version is not None and max_version[0] >= 1
        if not versioned and not owner.writable:
            raise BufferError("a read-only array needs a consumer of DLPack 1.0 or later")
        if self.dtype not in CODES:
            raise BufferError(f"DLPack has no type for dtype {self.dtype}")
        return dlpack_export_memory(
            owner,
            owner.address,
            owner.shape,
            owner._element_strides,
            CODES[self.dtype],
            target,
            owner.writable,
            versioned,
        )

    @property
    def __sycl_usm_array_interface__(self) -> Mapping[str, Any]:
        if not self.engine._native.on_device or self.dtype.kind == "V":
            raise AttributeError("__sycl_usm_array_interface__")
        return {
            "version": 1,
            "shape": self.shape,
            "typestr": self.dtype.str,
            "strides": self._element_strides,
            "offset": 0,
            "data": (self.address, not self.writable),
            "syclobj": self.engine._native.sycl_context_capsule(),
        }


def _checked(engine: Any) -> Engine:
    if engine is None:
        return default_engine()
    if not isinstance(engine, Engine):
        raise TypeError(f"DeviceArray: 'engine' must come from dgo.engine(...), got {type(engine).__name__}")
    return engine


def _code(dtype: np.dtype[Any]) -> int:
    return dtypes.CODES[dtypes.canonical(dtype)]


def _share(cls: type[DeviceArray], obj: Any, engine: Engine, where: str) -> DeviceArray | None:
    """An array over the object's own memory, or None where the engine cannot access it.

    Raises:
        TypeError: the object has none of the protocols.
    """
    if isinstance(obj, DeviceArray):
        return obj if obj.engine is engine else None
    usm = getattr(obj, "__sycl_usm_array_interface__", None)
    if usm is not None:
        address, read_only = usm["data"]
        if not engine._native.on_device or not engine._native.reaches(address):
            return None
        dtype, strides = np.dtype(usm["typestr"]), usm.get("strides")
        if strides is not None and min(strides, default=0) < 0:
            raise InvalidArgumentError(f"{where}: has the negative strides {tuple(strides)}; pass a copy")
        address += int(usm.get("offset", 0)) * dtype.itemsize
        strides, shape = None if strides is None else tuple(strides), tuple(map(int, usm["shape"]))
        return cls._adopt(engine, dtype, shape, strides, address, not read_only, obj)
    if not hasattr(obj, "__dlpack__"):
        raise TypeError(
            f"{where}: needs an object with __dlpack__ or __sycl_usm_array_interface__, got {type(obj).__name__}"
        )
    stated, home = device_of(obj, where), ONE_API if engine._native.on_device else CPU
    if stated not in (None, home):
        return None
    device, address, shape, strides, code, writable, owner = dlpack_open(capsule_of(obj, where))
    if stated not in (None, device):
        raise InvalidArgumentError(
            f"{where}: the {type(obj).__name__} says that it is on DLPack device type {stated}, but its capsule is of "
            f"type {device}"
        )
    if device != home:
        return None
    if code not in DTYPES:
        raise UnsupportedError(f"{where}: there is no dtype for the DLPack type code {code[0]} of {code[1]} bits")
    if home == ONE_API and not engine._native.reaches(address):
        return None
    return cls._adopt(engine, DTYPES[code], shape, strides, address, writable, owner)
