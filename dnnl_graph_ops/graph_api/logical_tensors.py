"""Logical tensors: id, data type, sizes, layout and property of a tensor."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from .._core import LogicalTensor
from ..errors import InvalidArgumentError, ShapeError
from ..runtime import Runtime
from ..schema.arguments import int64, show
from .arguments import identifier, instance, member, runtime_of, sequence
from .enumerators import LogicalTensorNames, data_type, layout_type, property_type

# an unknown dim or stride; the C API writes DNNL_GRAPH_UNKNOWN_DIM
UNKNOWN = -1
_C_UNKNOWN = -(1 << 63)
# opaque layouts that compiled partitions returned: {(library, id): data type and sizes}
_layouts: dict[str, dict[int, tuple[Any, ...]]] = {}


class logical_tensor(LogicalTensorNames):
    """The description of a tensor: plain data, independent of a library.

    Args:
        tid: the id. One id stands for one tensor in all ops of a graph.
        dtype: `logical_tensor.data_type`, such as `logical_tensor.f32`.
        dims: the sizes, a sequence or one-dimensional array of ints with -1 for an unknown size; or the rank, an int,
            if no size is known; or nothing, or a layout type in its place, if the rank is unknown.
        layout: `logical_tensor.layout_type` (strided: row-major), or the strides in elements, a sequence or an array,
            or the id of an opaque layout that a compiled partition returned, an int.
        ptype: `logical_tensor.property_type`: variable, constant, host_scalar or undef.

    Raises:
        TypeError: arguments of other types. ShapeError: negative sizes, more than 12, sizes beyond 64 bits.
        InvalidArgumentError: unknown enumerators, a layout id that no compiled partition returned.

    C++: dnnl::graph::logical_tensor (dnnl_graph_logical_tensor_init, _init_with_dims, _init_with_strides).
    """

    __slots__ = ("_native",)

    def __init__(
        self,
        tid: int,
        dtype: data_type,
        dims: Sequence[int] | np.ndarray[Any, Any] | int | layout_type = layout_type.undef,
        layout: layout_type | Sequence[int] | np.ndarray[Any, Any] | int | None = None,
        ptype: property_type = property_type.undef,
    ) -> None:
        where = "logical_tensor"
        tid = identifier(tid, f"{where}: 'tid'")
        where = f"logical_tensor {tid}"
        code = member(data_type, dtype, f"{where}: 'dtype'")
        sizes = None if isinstance(dims, layout_type) else _dims(dims, where)
        if isinstance(dims, layout_type):
            if layout is not None:
                raise TypeError(f"{where}: 'dims' must be a sequence of sizes or a rank, got {show(dims)}")
            layout = dims
        elif layout is None:
            layout = layout_type.undef
        use = member(property_type, ptype, f"{where}: 'ptype'")
        kind, strides, layout_id = _layout(layout, where)
        self._native = LogicalTensor(tid, code, sizes, strides, kind, use, layout_id)

    @classmethod
    def _of(cls, native: LogicalTensor) -> logical_tensor:
        made = cls.__new__(cls)
        made._native = native
        return made

    def get_id(self) -> int:
        """The id. C++: get_id."""
        return self._native.id

    def get_data_type(self) -> data_type:
        """A `logical_tensor.data_type`. C++: get_data_type."""
        return data_type(self._native.dtype)

    def get_dims(self) -> list[int]:
        """The sizes; -1: unknown.

        Raises:
            InvalidArgumentError: the rank is unknown. C++: get_dims.
        """
        if self._native.dims is None:
            raise InvalidArgumentError(f"{self!r}: has no dims, since its rank is not known")
        return [UNKNOWN if dim is None else dim for dim in self._native.dims]

    def get_strides(self) -> list[int]:
        """The strides in elements; -1: unknown.

        Raises:
            InvalidArgumentError: the layout is not strided, or the rank is unknown. C++: get_strides.
        """
        if self._native.strides is None:
            raise InvalidArgumentError(f"{self!r}: has no strides: its layout must be strided and its rank known")
        return [UNKNOWN if stride is None else stride for stride in self._native.strides]

    def get_layout_type(self) -> layout_type:
        """A `logical_tensor.layout_type`. C++: get_layout_type."""
        return layout_type(self._native.layout_type)

    def get_layout_id(self) -> int:
        """The id of an opaque layout.

        Raises:
            InvalidArgumentError: the layout is not opaque. C++: get_layout_id.
        """
        if self._native.layout_id is None:
            raise InvalidArgumentError(f"{self!r}: has no layout id: its layout must be opaque")
        return self._native.layout_id

    def get_property_type(self) -> property_type:
        """A `logical_tensor.property_type`. C++: get_property_type."""
        return property_type(self._native.property)

    def get_mem_size(self, runtime: Runtime | str | None = None) -> int:
        """The bytes of memory that the tensor needs.

        Args:
            runtime: the library of an opaque layout; None: the CPU default.

        Raises:
            ShapeError: a size or stride is unknown. C++: get_mem_size.
        """
        library = runtime_of(runtime, "logical_tensor.get_mem_size")._library
        self._check_layout(library.path, "get_mem_size")
        return self._native.mem_size(library)

    def is_equal(self, other: logical_tensor) -> bool:
        """Whether oneDNN considers two descriptions equal. C++: is_equal."""
        where = "logical_tensor.is_equal"
        beside = instance(logical_tensor, other, f"{where}: 'other'")
        return self._native.is_equal(runtime_of(None, where)._library, beside._native)

    def _facts(self) -> tuple[Any, ...]:
        native = self._native
        layout = native.layout_type, native.strides, native.layout_id
        return native.id, native.dtype, native.dims, *layout, native.property

    def _check_layout(self, library: str, where: str) -> None:
        """Raises for an opaque layout that the library did not return for the tensor: it would read past its list."""
        native = self._native
        told = _layouts.get(library, {}).get(native.layout_id) if native.layout_id is not None else None
        if native.layout_id is not None and told != (native.dtype, native.dims):
            raise InvalidArgumentError(
                f"{where}: {self!r}: no compiled partition of {library!r} has told the layout id {native.layout_id} "
                "for this data type and these sizes; take it from compiled_partition.query_logical_tensor"
            )

    def __eq__(self, other: object) -> bool:
        return self._facts() == other._facts() if isinstance(other, logical_tensor) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._facts())

    def __reduce__(self) -> tuple[Any, ...]:
        native = self._native
        dims = layout_type(native.layout_type) if native.dims is None else self.get_dims()
        layout: Any = None if native.dims is None else layout_type(native.layout_type)
        if native.layout_id is not None:
            layout = native.layout_id
        elif native.strides is not None:
            layout = self.get_strides()
        return logical_tensor, (native.id, data_type(native.dtype), dims, layout, property_type(native.property))

    def __repr__(self) -> str:
        use = self.get_property_type()
        rest = "" if use == property_type.undef else f" {use.name}"
        return f"logical_tensor({repr(self._native)[len('LogicalTensor(') : -1]}{rest})"


def changed(native: LogicalTensor, **facts: Any) -> LogicalTensor:
    """Returns the description with some fields replaced, by the names of LogicalTensor's parameters."""
    same = {name: getattr(native, name) for name in ("id", "dtype", "dims", "strides", "property", "layout_id")}
    return LogicalTensor(**{**same, "layout": native.layout_type, **facts})


def told(native: LogicalTensor, library: str) -> logical_tensor:
    """Returns a description that the library returned, and registers its opaque layout."""
    if native.layout_id is not None:
        _layouts.setdefault(library, {})[native.layout_id] = native.dtype, native.dims
    return logical_tensor._of(native)


def _dims(dims: Any, where: str) -> list[int | None] | None:
    items = sequence(dims)
    if items is not None:
        return [_size(item, f"{where}: a size") for item in items]
    if isinstance(dims, IntEnum):
        raise TypeError(f"{where}: 'dims' must be a sequence of sizes or a rank, got {show(dims)}")
    rank = int64(dims, f"{where}: 'dims', a sequence of sizes or a rank,")
    if rank == UNKNOWN:
        return None
    if not 0 <= rank <= 12:
        raise ShapeError(f"{where}: the rank must be from 0 to 12, or -1 for one that is not known, got {show(rank)}")
    return [None] * rank


def _size(value: Any, where: str) -> int | None:
    number = int64(value, where)
    if number in (UNKNOWN, _C_UNKNOWN):
        return None
    if number < 0:
        raise ShapeError(f"{where} must be at least 0, or -1 for one that is not known, got {show(number)}")
    return number


def _layout(layout: Any, where: str) -> tuple[int, list[int | None] | None, int | None]:
    """Returns the layout type, the strides if given, and the id of an opaque layout."""
    if isinstance(layout, layout_type):
        if layout == layout_type.opaque:
            raise InvalidArgumentError(f"{where}: an opaque layout is given by its id, an int")
        return layout, None, None
    strides = sequence(layout)
    if strides is not None:
        return layout_type.strided, [_size(item, f"{where}: a stride") for item in strides], None
    if isinstance(layout, int) and not isinstance(layout, IntEnum):
        return layout_type.opaque, None, identifier(layout, f"{where}: the id of an opaque layout")
    raise TypeError(f"{where}: 'layout' must be a layout type, strides, or a layout id, got {show(layout)}")
