"""Tensors of the Graph API: logical tensors bound to memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import dtypes
from .._core import DeviceArrayBase, Tensor
from ..errors import InvalidArgumentError, ShapeError, UnsupportedError
from ..runtime import Runtime
from ..runtime.arrays import as_array, element_strides
from ..runtime.device_array import DeviceArray
from ..schema.arguments import is_bool, show
from ..strides import dense_strides
from .arguments import identifier, instance, runtime_of
from .engines import engine
from .enumerators import data_type as data_types
from .enumerators import engine_kind, layout_type, property_type
from .logical_tensors import logical_tensor

Array = np.ndarray[Any, Any]


class _NewMemory:
    """The default of `tensor`'s array, shown by `help`."""

    def __repr__(self) -> str:
        return "<new memory>"


# alignment of new memory; oneDNN's kernels load vectors of up to 64 bytes
_ALIGNMENT = 64
_MISSING: Any = _NewMemory()
# host scalars: dnnl_graph_tensor_create_scalar
_SCALARS_SINCE = (3, 9)


class _MakesOrRebinds:
    """`tensor.from_numpy` on the class makes a tensor, on a tensor it rebinds the memory."""

    def __init__(self, make: Callable[..., Any], rebind: Callable[..., Any]) -> None:
        self._make, self._rebind, self.__doc__ = make, rebind, make.__doc__

    def __get__(self, instance: tensor | None, owner: type[tensor]) -> Callable[..., tensor]:
        function, first = (self._make, owner) if instance is None else (self._rebind, instance)
        return function.__get__(first)


class tensor:
    """A logical tensor bound to memory of an engine.

    Args:
        lt: the description: sizes known; layout strided, or an opaque layout of a compiled partition.
        e: the engine of the memory.
        array: the memory, used without a copy and kept alive: a NumPy array of the sizes, strides and data type of
            `lt`, or a dense array of one axis with as many elements; an object with `__dlpack__`; uint8 bytes for
            opaque layouts and 4-bit types; an address, which is not checked. Left out: new memory, uninitialised,
            aligned to 64 bytes.

    Raises:
        ShapeError: another shape or strides, too few bytes. InvalidArgumentError: another data type, memory that the
        engine cannot access. TypeError: arguments of other types.

    C++: dnnl::graph::tensor (dnnl_graph_tensor_create).
    """

    __slots__ = ("_engine", "_lt", "_memory", "_native")

    def __init__(self, lt: logical_tensor, e: engine, array: Any = _MISSING) -> None:
        self._lt = instance(logical_tensor, lt, "tensor: 'lt'")
        self._engine = instance(engine, e, "tensor: 'e'")
        lt._check_layout(e._runtime.path, "tensor")
        _check_description(lt, e._runtime)
        self._memory = _allocated(lt, e) if array is _MISSING else _checked(array, lt, e)
        self._native = Tensor(lt._native, e._native, _handed(self._memory))

    def _make(cls: type[tensor], array: Any, id: int = 0, engine: Any = None) -> tensor:  # type: ignore[misc]
        """A tensor over an array, without a copy; on a tensor, `t.from_numpy(array)` rebinds its memory.

        Args:
            array: a NumPy array with any non-negative strides, or an object with `__dlpack__` on the CPU.
            id: the id of the logical tensor.
            engine: the engine of the memory; None: the default CPU engine. A device's memory gets a copy.

        Raises:
            InvalidArgumentError: a data type that oneDNN lacks, negative strides. TypeError: no array.
        """
        where = "tensor.from_numpy"
        source = as_array(array, f"{where}: 'array'")
        chosen = _default_engine() if engine is None else instance(_engine_class, engine, f"{where}: 'engine'")
        name = dtypes.canonical(source.dtype, where)
        if chosen._native.on_device:
            made = cls(logical_tensor(id, data_types[name], source.shape, layout_type.strided), chosen)
            made._rebind(source)
            return made
        strides: Any = list(element_strides(source, where)) or layout_type.strided
        return cls(logical_tensor(id, data_types[name], source.shape, strides), chosen, source)

    def _rebind(self, array: Any) -> tensor:
        """Rebinds the memory, as `set_data_handle`; copies the elements into a device's memory. Returns the tensor."""
        if isinstance(self._memory, DeviceArrayBase):
            source = np.ascontiguousarray(_host_array(array, self._lt))
            self._memory._write(source.reshape(-1).view(np.uint8))
        else:
            self.set_data_handle(array)
        return self

    from_numpy = _MakesOrRebinds(_make, _rebind)

    @staticmethod
    def make_scalar_tensor(lt: logical_tensor, value: Any, runtime: Runtime | str | None = None) -> tensor:
        """A scalar in host memory, which oneDNN copies.

        Args:
            lt: a description of rank 0 with the property `logical_tensor.host_scalar`.
            value: a number, or an array of one element.
            runtime: the library; None: the CPU default.

        Raises:
            UnsupportedError: before oneDNN 3.9. InvalidArgumentError: another property, a number outside of the data
            type's range. TypeError: no number.

        C++: make_scalar_tensor (dnnl_graph_tensor_create_scalar).
        """
        where = "tensor.make_scalar_tensor"
        instance(logical_tensor, lt, f"{where}: 'lt'")
        if lt.get_property_type() != property_type.host_scalar:
            raise InvalidArgumentError(f"{where}: {lt!r} must have the property host_scalar")
        number = np.asarray(value)
        if number.size != 1 or number.dtype.kind not in "biufV":
            raise TypeError(f"{where}: 'value' must be a number, got {show(value)}")
        chosen = runtime_of(runtime, where)
        if chosen.version_info < _SCALARS_SINCE:
            raise UnsupportedError(
                f"{where}: needs oneDNN 3.9, {chosen.name!r} is {chosen.version}; name the library of the graph by "
                "runtime=, or give a tensor of one element without the property host_scalar"
            )
        made = tensor.__new__(tensor)
        made._lt, made._engine = lt, engine(engine_kind.cpu, runtime=chosen)
        made._memory = _fitting(number, _numpy_dtype(lt, where), where).reshape(lt.get_dims())
        made._native = Tensor.scalar(lt._native, made._engine._native, made._memory)
        return made

    def get_data_handle(self) -> int:
        """The address of the memory. C++: get_data_handle (dnnl_graph_tensor_get_data_handle)."""
        return self._native.data_handle

    def set_data_handle(self, array: Any) -> None:
        """Rebind the memory to `array`. C++: set_data_handle (dnnl_graph_tensor_set_data_handle).

        Raises:
            As `tensor(lt, e, array)`.
        """
        memory = _checked(array, self._lt, self._engine)
        self._native.set_data_handle(_handed(memory))
        self._memory = memory

    def get_logical_tensor(self) -> logical_tensor:
        """The tensor's logical tensor. C++: get_logical_tensor."""
        return self._lt

    def get_engine(self) -> engine:
        """The engine of the memory. C++: get_engine (dnnl_graph_tensor_get_engine)."""
        return self._engine

    def to_numpy(self, lt: logical_tensor | None = None) -> Array:
        """The elements as a NumPy array: a view of host memory, or a copy of a device's memory.

        Args:
            lt: a description to read the memory with; None: the tensor's own.

        Raises:
            InvalidArgumentError: an opaque layout. ShapeError: `lt` needs more bytes than the memory has.
            UnsupportedError: a 4-bit type, which NumPy does not pack. TypeError: no description.
        """
        where = "tensor.to_numpy"
        lt = self._lt if lt is None else instance(logical_tensor, lt, f"{where}: 'lt'")
        dtype = _numpy_dtype(lt, where)
        shape, strides = lt.get_dims(), [stride * dtype.itemsize for stride in lt.get_strides()]
        memory, needed = self._memory, lt.get_mem_size(self._engine._runtime)
        has = self._lt.get_mem_size(self._engine._runtime)
        if needed > has:
            raise ShapeError(f"{where}: {lt!r} needs {needed} bytes, the tensor has {has}")
        if isinstance(memory, np.ndarray) and lt is self._lt and (memory.dtype, list(memory.shape)) == (dtype, shape):
            return memory.view()
        if isinstance(memory, DeviceArrayBase):
            buffer = np.empty(has, np.uint8)
            memory._read(buffer)
        else:
            buffer = _bytes_at(self.get_data_handle(), has, memory)
        try:
            return np.ndarray(shape, dtype, buffer[:needed], strides=strides)
        except ValueError as error:
            raise ShapeError(f"{where}: {lt!r}: NumPy has no such array: {error}") from None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        array = self.to_numpy()
        if dtype is not None and array.dtype != np.dtype(dtype):
            return array.astype(dtype)
        return array.copy() if copy else array

    def __repr__(self) -> str:
        return f"tensor({self._lt!r} on {self._engine!r})"


_engine_class = engine


def _default_engine() -> engine:
    return engine(engine_kind.cpu)


def _check_description(lt: logical_tensor, runtime: Runtime) -> None:
    """Raises if no memory fits the description."""
    native = lt._native
    if lt.get_layout_type() in (layout_type.any, layout_type.undef) or native.dims is None or None in native.dims:
        raise ShapeError(
            f"tensor: {lt!r}: needs known sizes and a layout, strided or opaque; "
            f"take compiled_partition.query_logical_tensor({lt.get_id()})"
        )
    if lt.get_property_type() == property_type.host_scalar and runtime.version_info >= _SCALARS_SINCE:
        raise InvalidArgumentError(f"tensor: {lt!r} takes no memory; call tensor.make_scalar_tensor(lt, value)")


def _allocated(lt: logical_tensor, e: engine) -> Any:
    """Returns new memory of the host or of the engine's device."""
    size = lt.get_mem_size(e._runtime)
    if e._native.on_device:
        return DeviceArrayBase(e._native, dtypes.CODES["u8"], (size,))
    whole = np.empty(size + _ALIGNMENT, np.uint8)
    start = -whole.ctypes.data % _ALIGNMENT
    return whole[start : start + size]


def _handed(memory: Any) -> Any:
    """Returns the memory for the native tensor: an array, or an address of device memory."""
    return memory.address if isinstance(memory, DeviceArrayBase) else memory


def _checked(array: Any, lt: logical_tensor, e: engine) -> Any:
    """Returns the memory for a description, or raises."""
    where = "tensor"
    if isinstance(array, int) and not is_bool(array):
        address = identifier(array, f"{where}: the address")
        return _at(address, lt, e) if e._native.on_device and address else address
    if e._native.on_device:
        return _device_memory(array, lt, e)
    return _host_array(array, lt)


def _at(address: int, lt: logical_tensor, e: engine) -> DeviceArrayBase:
    """Device memory at an address, which the host may be unable to read."""
    size = lt.get_mem_size(e._runtime)
    return DeviceArrayBase(e._native, dtypes.CODES["u8"], (size,), (1,), address, True, None)


def _device_memory(array: Any, lt: logical_tensor, e: engine) -> Any:
    if isinstance(array, DeviceArray):
        if array.engine._native is not e._native:
            raise InvalidArgumentError(f"tensor: the array is in memory of {array.engine!r}, not of {e!r}")
        if array.nbytes < lt.get_mem_size(e._runtime):
            raise ShapeError(f"tensor: {lt!r} needs {lt.get_mem_size(e._runtime)} bytes, the array has {array.nbytes}")
        if lt.get_layout_type() != layout_type.opaque and len(array.shape) > 1:
            _check_axes(lt, array.shape, array._element_strides)
        return array
    raise InvalidArgumentError(
        f"tensor: {e!r} takes no arrays of the host; make one by tensor.from_numpy(array, id, engine), or give a "
        "dgo.DeviceArray or the address of USM memory"
    )


def _host_array(array: Any, lt: logical_tensor) -> Array:
    source = as_array(array, "tensor: 'array'")
    opaque = lt.get_layout_type() == layout_type.opaque
    name = dtypes.NAMES.get(lt.get_data_type(), "")
    if opaque or name in dtypes.PACKED:
        if source.dtype != np.uint8 or not source.flags.c_contiguous:
            raise InvalidArgumentError(f"tensor: {lt!r} takes its bytes as a dense array of uint8, got {source.dtype}")
        return source
    if not name:
        raise InvalidArgumentError(f"tensor: {lt!r}: no op takes {lt.get_data_type().name}; give another data type")
    found = dtypes.label(source.dtype)
    if found != name:
        raise InvalidArgumentError(f"tensor: {lt!r} takes an array of {name}, got {found}")
    flat = source.ndim < 2 and source.flags.c_contiguous and source.nbytes == lt.get_mem_size()
    if not flat or list(source.shape) == lt.get_dims():
        _check_axes(lt, source.shape, element_strides(source, "tensor: 'array'"))
    return source


def _check_axes(lt: logical_tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
    """Raises for an array of another shape, NCHW for NHWC, or other strides."""
    dims = lt.get_dims()
    if list(shape) != dims:
        raise ShapeError(
            f"tensor: {lt!r} takes an array of shape {tuple(dims)}, got {shape}; transpose it, or pass its elements in "
            "the order of memory as an array of one axis, array.reshape(-1)"
        )
    beside = zip(dims, strides, lt.get_strides(), strict=True)
    if any(a != b for n, a, b in beside if n > 1) and 0 not in dims:
        raise ShapeError(
            f"tensor: {lt!r} has strides {lt.get_strides()}, the array {strides} in elements; give the logical tensor "
            f"the array's strides, or {_copied(lt)}"
        )


def _copied(lt: logical_tensor) -> str:
    """Returns advice for a message: how to give an array the strides of a logical tensor."""
    if lt.get_strides() == list(dense_strides(tuple(lt.get_dims()))):
        return "pass numpy.ascontiguousarray(array)"
    return "copy the array: t = tensor(lt, e); t.to_numpy()[...] = array"


def _fitting(number: Array, dtype: np.dtype[Any], where: str) -> Array:
    """Returns a number converted to the dtype: exactly to an integer or boolean type, else rounded."""
    with np.errstate(invalid="ignore", over="ignore"):
        converted = number.astype(dtype)
    if dtype.kind in "biu" and number.item() != converted.item():
        raise InvalidArgumentError(f"{where}: 'value' {show(number.item())} does not fit into {dtype}")
    return converted


def _numpy_dtype(lt: logical_tensor, where: str) -> np.dtype[Any]:
    name = dtypes.NAMES.get(lt.get_data_type())
    if name is None or name in dtypes.PACKED:
        raise UnsupportedError(f"{where}: NumPy has no array of {lt.get_data_type().name} as the library packs it")
    return dtypes.numpy_dtype(name)


def _bytes_at(address: int, size: int, owner: Any) -> Array:
    """Returns the memory as a uint8 array, which keeps the memory's owner alive."""
    if not isinstance(owner, np.ndarray):
        return _raw(address, size)
    if owner.flags.c_contiguous:
        return owner.reshape(-1).view(np.uint8)
    # NumPy cannot stride ml_dtypes' types
    item = owner.dtype.itemsize
    return np.lib.stride_tricks.as_strided(owner.view(f"u{item}"), (size // item,), (item,)).view(np.uint8)


def _raw(address: int, size: int) -> Array:
    import ctypes  # for unchecked addresses

    return np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(address)), np.uint8)
