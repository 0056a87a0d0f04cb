"""Symbolic values of a graph, and the nodes that make them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from .. import words
from ..schema import BUILDERS
from ..schema.arguments import elsewhere, suggest
from ..shapes import Attributes, Meta
from . import hooks
from .constants import Constant

if TYPE_CHECKING:
    from .graph import Graph

    Array = np.ndarray[Any, Any]

Dims = tuple[int | None, ...]

# operators of a Value that NumPy's functions stand for where an array is on the left, and other names of ops
_REFLECTED = {
    "add": "__radd__",
    "subtract": "__rsub__",
    "multiply": "__rmul__",
    "divide": "__rtruediv__",
    "matmul": "__rmatmul__",
    "greater_equal": "__le__",
    "less_equal": "__ge__",
    "greater": "__lt__",
    "less": "__gt__",
}
_UFUNCS = {"absolute": "abs", "power": "pow", "negative": "multiply"}


def _binary(builder: str) -> tuple[Callable[[Value, Any], Value], Callable[[Value, Any], Value]]:
    """Returns an operator of values, and the reflected operator."""

    def operator(self: Value, other: Any) -> Value:
        return hooks.call("binary", builder, self, other)

    def reflected(self: Value, other: Any) -> Value:
        return hooks.call("binary", builder, other, self)

    return operator, reflected


class Value:
    """A tensor of a graph: a graph input, a constant, or the output of an op.

    Attributes:
        shape: sizes, with None for a dynamic dim, whose size is known at the call only.
        dtype: a canonical name such as "f32".
        strides: in elements, of a graph input that states them; else None.
        name: unique in the graph.
        graph: the graph of the tensor.
        node: the op that computes the tensor; None for inputs and constants.
    """

    __slots__ = ("__weakref__", "_held", "_id", "dtype", "graph", "name", "node", "shape", "strides")

    def __init__(self, graph: Graph, id: int, shape: Dims, dtype: str, name: str) -> None:
        self.graph = graph
        self._id = id
        self.shape = shape
        self.dtype = dtype
        self.name = name
        self.node: Node | None = None
        # of a constant its elements
        self._held: Constant | None = None
        self.strides: tuple[int, ...] | None = None

    @property
    def constant(self) -> np.ndarray[Any, Any] | None:
        """The elements of a constant, or None. May read a file again; `is_constant` does not."""
        return None if self._held is None else self._held.array

    @constant.setter
    def constant(self, array: np.ndarray[Any, Any]) -> None:
        self._held = Constant(array)

    @property
    def is_constant(self) -> bool:
        """Whether the value is a constant; reads no file."""
        return self._held is not None

    @property
    def _meta(self) -> Meta:
        """Shape and dtype."""
        # without the function of Python that named tuples are made by
        return tuple.__new__(Meta, (self.shape, self.dtype))

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    def __repr__(self) -> str:
        return f"Value({self.name!r}, shape={self.shape}, dtype={self.dtype!r})"

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("subtract")
    __mul__, __rmul__ = _binary("multiply")
    __truediv__, __rtruediv__ = _binary("divide")
    __matmul__, __rmatmul__ = _binary("matmul")
    # a <= b is b >= a; == stays identity, as values are keys of dictionaries
    __ge__, __le__ = _binary("greater_equal")

    def __neg__(self) -> Value:
        return self * -1

    def __abs__(self) -> Value:
        return hooks.call("unary", "abs", self)

    def __pow__(self, exponent: float) -> Value:
        if not isinstance(exponent, int | float | np.number):
            return NotImplemented
        return hooks.call("unary", "pow", self, beta=float(exponent))

    def __getitem__(self, key: Any) -> Value:
        """A part of the tensor, indexed by ints, slices, None and `...` as a NumPy array."""
        return hooks.call("item", self, key)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Computes `array + value` and the like as ops; raises TypeError for functions of NumPy."""
        name = ufunc.__name__
        # NumPy asks with `out` for `array += value`, which names the result anew
        operator = method == "__call__" and len(inputs) == 2 and not isinstance(inputs[0], Value)
        if operator and (not kwargs or kwargs.get("out") == (inputs[0],)):
            if name in _REFLECTED:
                return getattr(inputs[1], _REFLECTED[name])(inputs[0])
            if name in ("equal", "not_equal"):
                return name == "not_equal"
        meant = words.OPS.get(name, _UFUNCS.get(name, name))
        hint = f"use dgo.ops.{meant}" if meant in BUILDERS else "see dgo.ops"
        raise TypeError(f"np.{name} takes no {self!r}; {hint}")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """Raises TypeError: NumPy would make an array of one object."""
        raise TypeError(f"{self!r} has no numbers before its graph is compiled and called: g.compile(y)(x)")

    # without it Python would index until an error ends the loop
    __iter__: ClassVar[None] = None

    def reshape(self, *shape: Any) -> Value:
        """The tensor in another shape, `reshape(2, -1)` or `reshape((2, -1))`; one size may be -1."""
        return hooks.call("reshape", self, *shape)

    @property
    def T(self) -> Value:
        """The tensor with its axes in reverse order."""
        return hooks.call("transposed", self)

    def __bool__(self) -> bool:
        raise TypeError(f"the truth of {self!r} is not known before the graph runs; see dgo.ops.select")

    # not for type checkers, which refuse these themselves
    if not TYPE_CHECKING:

        def __gt__(self, other: Any) -> bool:
            raise TypeError(f"no op computes '>' or '<' of {self!r}; use >= and <=, dgo.ops.greater_equal")

        __lt__ = __gt__

        def __getattr__(self, name: str) -> Any:
            # a pickle asks before anything is there
            if name.startswith("_") or name in Value.__slots__:
                raise AttributeError(name)
            meant = words.OPS.get(name, name)
            hint = f"; use dgo.ops.{meant}" if meant in BUILDERS else elsewhere("Value", name)
            hint = hint or suggest(name, ("shape", "dtype", "reshape", "graph"))
            raise AttributeError(f"the Value {self.name!r} has no attribute {name!r}{hint}")


class Late(Protocol):
    """Builds the outputs of a deferred node from its inputs, once their sizes are known."""

    def __call__(self, values: Sequence[Value], /) -> Sequence[Value]: ...

    def record(self, keep: Callable[[np.ndarray[Any, Any]], int], /) -> dict[str, Any]:
        """Returns a record for JSON, which the hook "late" reads; `keep` numbers arrays that are stored next to it."""


class Host(Protocol):
    """Computes the outputs of a node on the host, from the arrays of its inputs.

    `key`: all that the results depend on besides the inputs. `title`: the op in words. `by`: the name of the function
    that computes it. `own`: appends steps of builtin kernels that compute the same, on dense views of inputs and
    outputs; None if there are none.
    """

    @property
    def own(self) -> Callable[[Any, Sequence[Any], Sequence[Any]], None] | None: ...

    @property
    def key(self) -> bytes: ...

    @property
    def title(self) -> str: ...

    @property
    def by(self) -> str: ...

    def __call__(self, arrays: Sequence[np.ndarray[Any, Any]], /) -> Sequence[np.ndarray[Any, Any]]: ...


class Node:
    """One logical op: its kind (CamelCase, as in the op pages), checked attributes, inputs and outputs.

    Attributes:
        late: for a deferred node (a Wildcard whose ops depend on sizes): builds its outputs from inputs of known sizes.
        host: for a Wildcard that `late` built: computes its outputs on the host.
    """

    __slots__ = ("attrs", "host", "id", "inputs", "kind", "late", "name", "outputs")

    def __init__(self, id: int, kind: str, name: str, inputs: tuple[Value, ...], attrs: Mapping[str, Any]) -> None:
        self.id = id
        self.kind = kind
        self.name = name
        self.inputs = inputs
        # to ask a dict whether it is an abstract class's takes as long as to copy it
        self.attrs = dict(attrs) if type(attrs) is dict or not isinstance(attrs, Attributes) else attrs
        self.outputs: tuple[Value, ...] = ()
        self.late: Late | None = None
        self.host: Host | None = None

    def __repr__(self) -> str:
        return f"Node({self.kind}, {self.name!r})"
