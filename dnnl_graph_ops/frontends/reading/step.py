"""Step: a node while it is built: operands as values or known arrays, attributes, appending of ops."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ... import dtypes, schema
from ...errors import InvalidArgumentError, ShapeError, UnsupportedError
from ...graph import Graph, Value
from ...graph.constants import Constant
from ...graph.constants import Meta as ConstantMeta
from ...ops.build import apply
from ...ops.typed import resolve
from ...record import record
from ...shapes import Meta
from ...words import counted
from .budget import Budget
from .deferred import constant_of
from .faults import REMEDY, NeedsSizes, check_size
from .node import Array, OnnxNode, Operand, Tensor, is_fill, tensor_of

Result = Operand | tuple[Operand, ...]
_MOST_OPERANDS = max(schema.OPS["Concat"].input_counts)


@record()
class Step:
    """A node of the model, and the graph to build it in."""

    graph: Graph
    node: OnnxNode
    defaults: Mapping[str, Any]
    known: dict[str, Tensor]
    budget: Budget

    @property
    def where(self) -> str:
        return self.node.where

    @property
    def count(self) -> int:
        return len(self.node.inputs)

    def attr(self, name: str) -> Any:
        value = self.node.attrs.get(name)
        return self.defaults[name] if value is None else value

    def spend(self, array: Array, times: int = 1) -> None:
        """Counts an array that is read or kept as a whole: many nodes may share it."""
        self.budget.spend(times * array.nbytes, self.where)

    # -- operands --------------------------------------------------------------------------------------------

    def has(self, index: int) -> bool:
        return index < self.count and bool(self.node.inputs[index])

    def input(self, index: int) -> Tensor:
        return self.known[self.node.inputs[index]]

    def operand(self, index: int) -> Operand:
        """Returns input `index`: an array if it is known now, else a value."""
        operand = self.input(index).operand
        if isinstance(operand, Tensor):
            raise NeedsSizes(f"{self.where}: numbers that depend on sizes")
        return operand

    def meta(self, index: int) -> Meta:
        """Returns shape and dtype of input `index`."""
        return self.input(index).meta

    def value(self, index: int) -> Value:
        """Returns input `index` as a value of the graph; a known array becomes a constant, once."""
        name = self.node.inputs[index]
        tensor = self.known.get(f"\0{name}") or self.known[name]
        if tensor.value is not None:
            return tensor.value
        value = self.as_value(tensor.operand, name)
        self.known[f"\0{name}"] = tensor_of(value)
        return value

    def as_value(self, operand: Operand | Tensor, name: str | None = None) -> Value:
        """Returns an operand, or a tensor that depends on sizes, as a value of the graph."""
        if isinstance(operand, Tensor):
            return constant_of(self.graph, operand, self.known, self.budget)
        return operand if isinstance(operand, Value) else self.constant(operand, name)

    def constant(self, array: Array, name: str | None = None) -> Value:
        if array.dtype == np.float64:
            raise UnsupportedError(f"{self.where}: float64 data; {REMEDY}")
        if is_fill(array):
            # a fill, which was counted when it was made
            make = partial(np.full, array.shape, array.flat[0])
            return self.graph._keep(Constant(None, make, ConstantMeta(array.shape, array.dtype)), name)
        self.spend(array)
        try:
            return self.graph.constant(array, name)
        except InvalidArgumentError:
            # the name belongs to another op's step
            return self.graph.constant(array)

    def array(self, index: int, what: str) -> Array:
        """Returns input `index` as an array; raises if it is not known while the graph is built."""
        operand = self.operand(index)
        array = operand.constant if isinstance(operand, Value) else operand
        if array is None:
            raise UnsupportedError(f"{self.where}: {what} must be an initializer or a constant, not computed")
        self.spend(array)
        return array

    def optional(self, index: int, what: str) -> Array | None:
        return self.array(index, what) if self.has(index) else None

    def integers(self, index: int, what: str) -> list[int]:
        array = self.array(index, what)
        if array.dtype.kind not in "iu" or array.size > 64:
            raise InvalidArgumentError(
                f"{self.where}: {what} must be a few integers, got {array.size} of {array.dtype}"
            )
        return [int(item) for item in array.reshape(-1)]

    def listed(self, index: int, name: str) -> list[int] | None:
        """Returns integers that are an attribute, or an input since some opset."""
        given: list[int] | None = self.integers(index, name) if self.has(index) else self.attr(name)
        return given

    def partly(self, index: int, what: str) -> list[int | None]:
        """Returns integers, with None for those that depend on dynamic sizes."""
        tensor = self.input(index)
        numbers, unknown = tensor.numbers, tensor.unknown
        if numbers is None or unknown is None:
            return list(self.integers(index, what))
        if tensor.is_open or numbers.size > 64 or numbers.dtype.kind not in "iu":
            raise UnsupportedError(f"{self.where}: {what} of unknown number or dtype")
        return [None if open_ else int(number) for number, open_ in zip(numbers.flat, unknown.flat, strict=True)]

    def scalar(self, index: int, what: str) -> float:
        array = self.array(index, what)
        if array.size != 1:
            raise UnsupportedError(f"{self.where}: {what} of shape {array.shape}; only one number")
        return float(array.reshape(()))

    def axis(self, axis: int, rank: int) -> int:
        if not -rank <= axis < rank:
            raise ShapeError(f"{self.where}: axis {axis} is outside of a tensor with {counted(rank, 'axis')}")
        return axis % rank

    def sizes(self, shape: Sequence[int | None], what: str) -> list[int]:
        """Returns the sizes of a shape.

        Raises:
            NeedsSizes: some sizes are known at the call only.
        """
        known = [dim for dim in shape if dim is not None]
        if len(known) < len(shape):
            raise NeedsSizes(f"{self.where}: {what} of unknown sizes, {tuple(shape)}")
        return known

    # -- ops -------------------------------------------------------------------------------------------------

    def op(self, kind: str, *operands: Operand, dtype: str | None = None, **attrs: Any) -> Value:
        """Appends an op; a node's first op has the name of the node's output."""
        spec, where = schema.OPS[kind], self.where
        last = len(spec.inputs) - 1
        for i, operand in enumerate(operands):
            slot = spec.inputs[i if i < last else last]
            given = operand.dtype if isinstance(operand, Value) else dtypes.canonical(operand.dtype)
            if slot.dtypes and given not in slot.dtypes:
                raise UnsupportedError(f"{where}: {slot.name} of {given}; {kind} takes {', '.join(slot.dtypes)}")
            if not isinstance(operand, Value):
                self.spend(operand)
        outputs = apply(
            kind,
            operands,
            {name: value for name, value in attrs.items() if value is not None},
            graph=self.graph,
            where=where,
            default_name=self._name(),
            dtype=dtype,
            outputs=1 if len(spec.outputs) > 1 else None,
        )
        return self._checked(outputs[0])

    def concat(self, operands: Sequence[Value], axis: int) -> Value:
        """Concatenates any number of operands, more than an op takes in parts."""
        while len(operands) > _MOST_OPERANDS:
            parts = [operands[i : i + _MOST_OPERANDS] for i in range(0, len(operands), _MOST_OPERANDS)]
            operands = [self.op("Concat", *part, axis=axis) if len(part) > 1 else part[0] for part in parts]
        return self.op("Concat", *operands, axis=axis)

    def conv_transpose(self, operands: Sequence[Value], attrs: Mapping[str, Any]) -> Value:
        slots = [slot.name for slot in schema.OPS["ConvTranspose"].inputs][: len(operands)]
        metas = [value._meta for value in operands]
        checked, meta = resolve("ConvTranspose", metas, slots, attrs, {}, self.where)
        added = self.graph._add_node(
            "ConvTranspose", self.where, operands, checked, [meta], ["dst"], None, self._name()
        )
        return self._checked(added[0])

    def _name(self) -> str:
        return (self.node.outputs[0] if self.node.outputs else self.node.name).replace("\0", "?") or self.node.op_type

    def _checked(self, value: Value) -> Value:
        check_size(value.shape, dtypes.itemsize(value.dtype), self.where)
        return value

    def reshape(self, value: Value, dims: Sequence[int | None]) -> Value:
        """Reshapes; an unknown size must be that of the same axis, or the only one; -1: derived."""
        if tuple(dims) == value.shape:
            return value
        if None in dims and any(dim == 0 and value.shape[axis : axis + 1] != (0,) for axis, dim in enumerate(dims)):
            # a reshape would read 0 as the size of that axis
            raise NeedsSizes(f"{self.where}: shape {value.shape} to {tuple(dims)}, of no elements")
        shape = []
        for axis, dim in enumerate(dims):
            kept = dim is None and tuple(dims[: axis + 1]) == value.shape[: axis + 1]
            shape.append(0 if kept else -1 if dim is None else dim)
        if shape.count(-1) > 1:
            raise NeedsSizes(f"{self.where}: shape {value.shape} to {tuple(dims)} with several unknown sizes")
        return self.op("StaticReshape", value, shape=shape, special_zero=0 in shape and None in dims)

    def widened(self, value: Value) -> Value:
        """Returns a value in f32, if results computed from it need f32."""
        return value if value.dtype == "f32" else self.op("TypeCast", value, dtype="f32")

    def rounded(self, value: Value, dtype: str) -> Value:
        """Returns a value that was computed in f32 in the dtype of a result."""
        return value if value.dtype == dtype else self.op("TypeCast", value, dtype=dtype)

    def product(self, dims: Sequence[int | None]) -> int | None:
        return None if None in dims else math.prod(dims)  # type: ignore[arg-type]

    def full(self, number: float, like: Value) -> Array:
        """Returns a constant of one number that broadcasts over `like`."""
        return np.full((1,) * like.ndim, number).astype(dtypes.numpy_dtype(like.dtype))
