"""Call: an op of PyTorch while it is built: its arguments, traced results, and standard operators for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import UnsupportedError
from ...graph import Value
from ...graph.json_format import same_shape
from ...once import once
from ...record import record
from ...shapes import Meta
from ..reading.build import ruled
from ..reading.faults import NeedsSizes, check_size
from ..reading.node import OnnxNode, Tensor, tensor_of
from ..reading.operators.elementwise import BINARY
from ..reading.step import Step
from ..reading.traced import OpCall, Operand, Size, Traced, mapped
from ..reading.types import NUMPY
from . import host

_NARROW = ("bf16", "f16")
# opset of the standard operators in rules
_OPSET = 22
_CODES = {np.dtype(kind): code for code, kind in NUMPY.items()}


@record(slots=False)
class Call(Step):
    """An op of PyTorch, and the graph to build it in.

    `wide`: whether its rule computes in f32 where operands and results have 16 bits.
    """

    # bytes that this op computed or read
    names: dict[int, str] = field(default_factory=dict)
    wide: bool = False

    @once
    def traced(self) -> Traced:
        """The op and its arguments, after the calls whose results are no nodes."""
        found: Traced = self.node.attrs["traced"]
        return found

    @once
    def items(self) -> list[Any]:
        """The operands of its node, for rules."""
        return [self.input(i).operand for i in range(self.count)]

    @property
    def meta(self) -> Meta:  # type: ignore[override]
        """Shape and dtype, as the rule computes it, of the first result, with all sizes known now."""
        first = self.metas[0]
        return Meta(first.shape, "f32") if self.wide and first.dtype in _NARROW else first

    @once
    def metas(self) -> list[Meta]:
        """Shapes and dtypes of all results, with all sizes known now.

        Raises:
            UnsupportedError: dtypes that the package lacks.
        """
        results = self.traced.results
        if any(None in shape for _, shape in results):
            results = self.inferred or results
        for dtype, shape in results:
            if dtype not in dtypes.CODES:
                # readers use this record: see Reader
                raise UnsupportedError(f"{self.where}: gives {dtype}, which no op here takes")
            check_size(shape, dtypes.itemsize(dtype), self.where)
        return [Meta(shape, dtype) for dtype, shape in results]

    @once
    def inferred(self) -> tuple[tuple[str, tuple[int | None, ...]], ...] | None:
        """Dtype and shape of the results if all sizes are known; None if not, or if PyTorch cannot infer them."""
        return host.inferred(self)

    def argument(self, value: Any) -> Any:
        """Returns an argument of the op for rules: tensors as operands, sizes as numbers."""
        return mapped(value, self._known)

    def _known(self, value: Any) -> Any:
        if not isinstance(value, Operand):
            return self._sized(value)
        item = self.items[value.number]
        name = self.node.inputs[value.number]
        self.names[id(item)] = name
        return self.widened(item) if self.wide else item

    def in_f32(self) -> Call:
        """Returns this call for a rule that computes in f32, and whose results `narrowed` converts."""
        return replace(self, wide=True)

    def narrowed(self, results: Any) -> Any:
        """Returns the results of a rule, those that were computed in f32 for 16 bits rounded."""
        if not self.wide:
            return results
        several = isinstance(results, tuple)
        narrow = [
            self.cast(item, meta.dtype) if meta.dtype in _NARROW else item
            for item, meta in zip(results if several else (results,), self.metas, strict=False)
        ]
        return tuple(narrow) if several else narrow[0]

    def widened(self, item: Any) -> Any:
        """Returns an operand in f32 if it has 16 bits; all ops that read it share the conversion."""
        if not isinstance(item, Value | np.ndarray):
            return item
        if (item.dtype if isinstance(item, Value) else dtypes.label(item.dtype)) not in _NARROW:
            return item
        wide = f"\0{self._named(item)} in f32"
        if wide not in self.known:
            known = item.constant if isinstance(item, Value) else item
            self.known[wide] = tensor_of(self.cast(item if known is None else known, "f32"))
        found = self.known[wide].operand
        self.names[id(found)] = wide
        return found

    @once
    def series(self) -> tuple[OpCall, ...]:
        """The op, after the calls whose results are no nodes, with numbers instead of sizes.

        Raises:
            NeedsSizes: sizes among the arguments are unknown.
        """
        return tuple(
            OpCall(op, {name: mapped(value, self._sized) for name, value in arguments.items()})
            for op, arguments in self.traced.calls
        )

    def _sized(self, value: Any) -> Any:
        if not isinstance(value, Size):
            return value
        item = self.items[value.number]
        if isinstance(item, Tensor):
            raise NeedsSizes(f"{self.where}: numbers that depend on sizes")
        if isinstance(item, Value):
            raise UnsupportedError(f"{self.where}: a number that depends on data")
        return item.item()

    # -- what it is made of --------------------------------------------------------------------------------------

    def std(self, op_type: str, *operands: Any, count: int = 1, **attrs: Any) -> Any:
        """Builds a standard operator; returns its result, or a tuple of `count`. Numbers and lists become arrays."""
        names = tuple(self._named(operand) for operand in operands)
        outputs = tuple(self._fresh(i) for i in range(count))
        given = {name: value for name, value in attrs.items() if value is not None}
        node = OnnxNode(self.node.name, op_type, "", "", _OPSET, names, outputs, given, "torch")
        made = ruled(self.graph, node, self.known, self.budget)
        self.known.update(zip(outputs, made, strict=False))
        operands = tuple(one.operand for one in made)
        self.names.update((id(item), name) for name, item in zip(outputs, operands, strict=False))
        return operands[0] if count == 1 else operands

    def _fresh(self, number: int = 0) -> str:
        return f"{self.node.name}/{len(self.known)}.{number}"

    def _named(self, operand: Any) -> str:
        if operand is None:
            return ""
        if isinstance(operand, bool | int | list | tuple):
            operand = np.asarray(operand, np.bool_ if isinstance(operand, bool) else np.int64)
        elif isinstance(operand, float):
            operand = np.asarray(operand, np.float32)
        if id(operand) not in self.names:
            name = self.names[id(operand)] = self._fresh()
            self.known[name] = tensor_of(operand)
        return self.names[id(operand)]

    def cast(self, item: Any, dtype: str) -> Any:
        """Returns an operand in another dtype; a Python number as an array."""
        kind = dtypes.numpy_dtype(dtype)
        if isinstance(item, int | float | bool):
            return np.asarray(item, kind)
        if isinstance(item, np.ndarray):
            return item.astype(kind)
        if item.dtype == dtype:
            return item
        return self.std("Cast", item, to=_CODES[kind])

    def times(self, item: Any, factor: float) -> Any:
        """Multiplies an operand of the result's dtype by a number."""
        return item if factor == 1 else self.arithmetic("Mul", item, factor)

    def arithmetic(self, op_type: str, a: Any, b: Any) -> Any:
        """Builds Add, Sub, Mul or Div of tensors or numbers, in the result's dtype.

        A number that 16 bits do not hold stays in f32, as in PyTorch.
        """
        dtype = self.meta.dtype
        whole = [self._rounds(item) for item in (a, b)]
        if not any(whole):
            return self.std(op_type, self.cast(a, dtype), self.cast(b, dtype))
        operands = [self.cast(item, "f32" if rounds else dtype) for item, rounds in zip((a, b), whole, strict=True)]
        if not any(isinstance(item, Value) for item in operands):
            return self.cast(self.std(op_type, *(item.astype(np.float32) for item in operands)), dtype)
        shape = (1,) * max(item.ndim for item in operands)
        operands = [
            item.reshape(shape) if isinstance(item, np.ndarray) and not item.ndim else item for item in operands
        ]
        return self.op(BINARY[op_type], *operands, dtype=dtype)

    def _rounds(self, item: Any) -> bool:
        """Whether an operand is a number that the result's dtype does not hold, or may not."""
        if self.meta.dtype == "f32" or (isinstance(item, Value | np.ndarray) and item.ndim):
            return False
        if isinstance(item, Value):
            return item.dtype == "f32"
        number = float(item)
        return number == number and float(self.cast(number, self.meta.dtype)) != number

    def elements(self, item: Any) -> Any:
        """Returns an operand, or its elements if they are known now."""
        return item.constant if isinstance(item, Value) and item.is_constant else item

    def needs_sizes(self, what: str) -> NeedsSizes:
        return NeedsSizes(f"{self.where}: {what}")

    def reshaped(self, item: Any, shape: Sequence[int | None]) -> Any:
        """Reshapes an operand; one size may be unknown."""
        unknown = [axis for axis, dim in enumerate(shape) if dim is None]
        if len(unknown) > 1:
            # two unknown sizes need not be equal
            raise self.needs_sizes(f"{item.shape} to {tuple(shape)}")
        return self.reshape(self.as_value(item), [-1 if dim is None else dim for dim in shape])

    def fits(self, made: Sequence[Any]) -> bool:
        """Whether the results that are read have the traced dtypes and shapes."""
        read = [i for i, name in enumerate(self.node.outputs) if name]
        return len(made) > max(read, default=-1) and all(
            (item.dtype if isinstance(item, Value) else dtypes.label(item.dtype)) == dtype
            and same_shape(item.shape, shape)
            for item, (dtype, shape) in ((made[i], self.traced.results[i]) for i in read)
            if not isinstance(item, Tensor)
        )
