"""One op of PyTorch while it is built: its arguments, what PyTorch said of its results, standard operators for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ... import dtypes
from ...errors import InvalidArgumentError, UnsupportedError
from ...graph import Value
from ...graph.json_format import same_shape
from ...shapes import Meta
from ..reading.build import ruled
from ..reading.faults import NeedsSizes, check_size
from ..reading.node import Array, OnnxNode, Tensor, tensor_of
from ..reading.step import Step
from ..reading.types import NUMPY
from . import host
from .host import Other

DOMAIN = "torch"
# of the standard operators that rules are written in
_OPSET = 22
_CODES = {np.dtype(kind): code for code, kind in NUMPY.items()}

Arguments = dict[str, Any]


def written(arguments: Any) -> str:
    return json.dumps(arguments)


@dataclass(frozen=True)
class Call(Step):
    """One op of PyTorch and the graph that it goes into."""

    # of what this one made or read
    names: dict[int, str] = field(default_factory=dict)

    @property
    def results(self) -> list[tuple[str, tuple[int | None, ...]]]:
        """dtype and shape of each result as PyTorch says; of dtypes that this package lacks NumPy's name."""
        return [(dtype, tuple(shape)) for dtype, shape in self._read("results")]

    @property
    def stated(self) -> Arguments:
        """The arguments as they are written."""
        found: Arguments = self._read("arguments")
        return found

    def _read(self, name: str) -> Any:
        try:
            return json.loads(self.node.attrs.get(name, "[]"))
        except RecursionError:
            raise InvalidArgumentError(f"{self.where}: its {name} hold each other too deep") from None

    @property
    def meta(self) -> Meta:  # type: ignore[override]
        """Of the only result, with all sizes that are known now."""
        return self.metas()[0]

    def metas(self) -> list[Meta]:
        """Of all results, with all sizes that are known now.

        Raises:
            UnsupportedError: of types that the package does not have.
        """
        found = []
        stated = self.results
        if any(None in shape for _, shape in stated):
            inferred = host.inferred(self)
            stated = inferred or stated
        for dtype, shape in stated:
            if dtype not in dtypes.CODES:
                # who reads it takes it from here: see Reader
                raise UnsupportedError(f"{self.where}: gives {dtype}, which no op here takes")
            check_size(shape, dtypes.itemsize(dtype), self.where)
            found.append(Meta(shape, dtype))
        return found

    def arguments(self, is_open: bool = False) -> Arguments:
        """Tensors as they are known; None for sizes that are not, where the rule is an open one.

        Raises:
            NeedsSizes: it is not.
        """
        return self._decoded(self.stated, is_open)

    def series(self) -> host.Series:
        """The op, and before it those whose results only such steps can hold.

        Raises:
            NeedsSizes: not all sizes among their arguments are known.
        """
        links = [*self._read("before"), [self.node.op_type, self.stated]]
        return [host.Link(op, self._decoded(arguments, False)) for op, arguments in links]

    @property
    def is_series(self) -> bool:
        """Whether there are such."""
        return "before" in self.node.attrs

    def _decoded(self, arguments: Arguments, is_open: bool) -> Arguments:
        def decoded(value: Any) -> Any:
            if isinstance(value, list):
                return [decoded(item) for item in value]
            if not isinstance(value, dict):
                return value
            ((kind, what),) = value.items()
            if kind == "in":
                name = self.node.inputs[what]
                operand = self.known[name].operand
                self.names[id(operand)] = name
                return operand
            if kind == "complex":
                return complex(*what)
            if kind == "before":
                return host.Before(*what)
            if kind == "size":
                return self._size(self.known[self.node.inputs[what]], is_open)
            return Other(kind, what)

        return {name: decoded(value) for name, value in arguments.items()}

    def _size(self, tensor: Tensor, is_open: bool) -> Any:
        if tensor.unknown is not None:
            if not is_open:
                raise NeedsSizes(f"{self.where}: numbers that depend on sizes")
            return None
        if tensor.array is None:
            raise UnsupportedError(f"{self.where}: a number that depends on data")
        return tensor.array.item()

    # -- what it is made of --------------------------------------------------------------------------------------

    def std(self, op_type: str, *operands: Any, count: int = 1, **attrs: Any) -> Any:
        """The result of a standard operator, a tuple of `count`; numbers become arrays, lists of them too."""
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
        """An operand in another dtype; a Python number as an array."""
        kind = dtypes.numpy_dtype(dtype)
        if isinstance(item, int | float | bool):
            return np.asarray(item, kind)
        if isinstance(item, np.ndarray):
            return item.astype(kind)
        if item.dtype == dtype:
            return item
        return self.std("Cast", item, to=_CODES[kind])

    def tensor(self, item: Any) -> Value:
        """An operand as a value of the graph."""
        return self.as_value(item)

    def known_array(self, item: Any) -> Array | None:
        """The elements of what is known as the graph is built."""
        if isinstance(item, Value):
            return item.constant
        return item if isinstance(item, np.ndarray) else None

    def needs_sizes(self, what: str) -> NeedsSizes:
        return NeedsSizes(f"{self.where}: {what}")

    def reshaped(self, item: Any, shape: Sequence[int | None]) -> Any:
        """The same elements with other sizes, of which one may be unknown."""
        unknown = [axis for axis, dim in enumerate(shape) if dim is None]
        if len(unknown) > 1:
            # two that are not known need not be the same
            raise self.needs_sizes(f"{item.shape} to {tuple(shape)}")
        return self.reshape(self.tensor(item), [-1 if dim is None else dim for dim in shape])

    def fits(self, made: Sequence[Any]) -> bool:
        """Whether these are the results that PyTorch announced, at least those that are read."""
        wanted = [self.results[i] for i, name in enumerate(self.node.outputs) if name]
        given = [item for item, name in zip(made, self.node.outputs, strict=False) if name]
        return len(wanted) == len(given) and all(
            dtypes.label(item.dtype if isinstance(item, np.ndarray) else dtypes.numpy_dtype(item.dtype)) == dtype
            and same_shape(item.shape, shape)
            for item, (dtype, shape) in zip(given, wanted, strict=True)
            if not isinstance(item, Tensor)
        )
